"""Programs with a part left out: programs still, and shorter."""

from hypothesis import given, settings, strategies as st

from pomp.dsl.parser import parse
from pomp.dsl.printer import print_program
from pomp.dsl.sampling import sample_programs
from pomp.dsl.shortening import shorten
from pomp.dsl.vocabulary import LEAPS

PROGRAMS = [" ".join(LEAPS.decode(row)) for row in sample_programs(200, 3)]


@settings(max_examples=60)
@given(st.sampled_from(PROGRAMS))
def test_shortenings_are_programs_that_are_shorter(text):
    found = shorten(parse(text))
    assert len({one.program for one in found}) == len(found)
    for one in found:
        assert print_program(parse(one.program)) == one.program
        assert len(one.program.split()) < len(text.split())


def test_a_program_nested_a_thousand_deep_is_shortened():
    text = "DEF run m( move " + "WHILE c( frontIsClear c) w( " * 600 + "move " + "w) " * 600 + "m)"
    found = shorten(parse(text))
    assert found[0].program == "DEF run m( move m)"
    assert len(found[-1].program.split()) == len(text.split()) - 1
