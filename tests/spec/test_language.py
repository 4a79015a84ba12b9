"""The language: tokens, grammar, masks, random programs, texts and error messages.

Long on purpose: the numbered parts of the language in order, each over the vocabulary of the first.
"""

import json
from collections import Counter
from fractions import Fraction
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from oracle import Mask, is_program
from playing import bare_world

from pomp.core import PompError, ProgramSyntaxError
from pomp.dsl import (
    HPRL,
    LEAPS,
    Act,
    If,
    IfElse,
    Repeat,
    SamplerConfig,
    While,
    compile_ids,
    compile_programs,
    parse,
    print_program,
    published_mask,
    sample_programs,
    strict_mask,
)
from pomp.engine import rollout

PAPER = json.loads((Path(__file__).parents[1] / "data" / "paper_programs.json").read_text())
PRINTED = [(task, number, text) for task in PAPER for number, text in enumerate(PAPER[task], 1)]
ACTIONS = ("move", "turnRight", "turnLeft", "pickMarker", "putMarker")
CONTROL = ("WHILE", "REPEAT", "IF", "IFELSE")
PERCEPTIONS = ("frontIsClear", "leftIsClear", "rightIsClear", "markersPresent", "noMarkersPresent")
each_vocabulary = pytest.mark.parametrize("vocabulary", [LEAPS, HPRL], ids=lambda v: v.name)
each_printed = pytest.mark.parametrize(
    "text", [pytest.param(text, id=f"{task} {number}") for task, number, text in PRINTED]
)

# ---------------------------------------------------------------- 1: vocabulary, printed programs


def test_the_leaps_vocabulary_has_the_published_ids():
    published = {
        **{"DEF": 0, "run": 1, "m(": 2, "m)": 3, "move": 4, "turnRight": 5, "turnLeft": 6},
        **{"pickMarker": 7, "putMarker": 8, "r(": 9, "r)": 10},
        **{f"R={count}": 11 + count for count in range(20)},
        **{"REPEAT": 31, "c(": 32, "c)": 33, "i(": 34, "i)": 35, "e(": 36, "e)": 37, "IF": 38},
        **{"IFELSE": 39, "ELSE": 40, "frontIsClear": 41, "leftIsClear": 42, "rightIsClear": 43},
        **{"markersPresent": 44, "noMarkersPresent": 45, "not": 46, "w(": 47, "w)": 48},
        **{"WHILE": 49, "<pad>": 50},
    }
    assert dict(LEAPS.id_of) == published


def test_the_hprl_vocabulary_is_the_same_with_four_numbers():
    numbers = {f"R={count}" for count in (2, 3, 4, 5)}
    kept = [token for token in LEAPS.tokens if not token.startswith("R=") or token in numbers]
    assert list(HPRL.tokens) == kept
    assert len(HPRL) == 35


def test_nineteen_programs_are_printed_in_the_paper():
    assert len(PRINTED) == 19


@each_printed
def test_a_printed_program_round_trips_through_its_tree(text):
    assert print_program(parse(text)) == text


@each_printed
def test_a_printed_program_round_trips_through_its_indented_text(text):
    indented = print_program(parse(text), indent=True)
    assert "\n" in indented
    assert parse(indented) == parse(text)
    assert indented.split() == text.split()


@each_printed
def test_a_printed_program_round_trips_through_ids(text):
    ids = LEAPS.encode(text.split())
    assert LEAPS.decode(ids) == text.split()
    assert compile_ids(np.array([ids])).valid.all()


@each_printed
def test_a_printed_program_runs_alike_from_text_and_from_ids(text):
    setting, worlds = bare_world()
    from_text = rollout(setting, [text], worlds, threads=1)
    ids = np.array([LEAPS.encode(text.split())])
    from_ids = rollout(setting, compile_ids(ids), worlds, threads=1)
    assert from_text.actions == from_ids.actions
    assert from_text.calls == from_ids.calls


def test_blanks_and_lines_do_not_matter():
    text = "  DEF\trun m(\n  move\n\n\tmove m)\n"
    assert print_program(parse(text)) == "DEF run m( move move m)"


def test_an_indented_program_has_a_line_per_statement_and_two_blanks_per_level():
    text = "DEF run m( IFELSE c( not c( frontIsClear c) c) i( move i) ELSE e( turnLeft e) move m)"
    assert print_program(parse(text), indent=True).splitlines() == [
        "DEF run m(",
        "  IFELSE c( not c( frontIsClear c) c) i(",
        "    move",
        "  i) ELSE e(",
        "    turnLeft",
        "  e)",
        "  move",
        "m)",
    ]


@each_vocabulary
def test_random_programs_round_trip_in_both_layouts(vocabulary):
    for ids in sample_programs(300, 5, SamplerConfig(max_tokens=128), vocabulary):
        text = " ".join(vocabulary.decode(ids))
        tree = parse(text, vocabulary)
        assert print_program(tree) == text
        assert parse(print_program(tree, indent=True), vocabulary) == tree


# ---------------------------------------------------------------- 2: masks


def _ids_of(vocabulary, tokens):
    return {vocabulary.id_of[token] for token in tokens}


def _random_walk(vocabulary, automaton, rng, length):
    """Compare the machines along one random prefix; yields the control states it saw."""
    mask = Mask(vocabulary.counts)
    state, stack = automaton.start, []
    close_odds = rng.choice([0.15, 0.4, 0.7])
    for _ in range(length):
        legal = set(np.flatnonzero(automaton.legal[state]).tolist())
        assert legal == _ids_of(vocabulary, mask.legal)
        yield mask.state
        choices = sorted(mask.legal)
        token = choices[rng.integers(len(choices))]
        if mask.state == "ACT" and rng.random() < close_odds:
            token = mask.closers[-1]
        state = automaton.read(state, stack, vocabulary.id_of[token])
        mask.read(token)


@each_vocabulary
def test_the_published_mask_is_the_machine_of_five_states(vocabulary):
    rng = np.random.default_rng(1)
    automaton = published_mask(vocabulary)
    seen = Counter()
    for _ in range(400):
        seen.update(_random_walk(vocabulary, automaton, rng, 60))
    assert set(seen) == {"MUST", "ACT", "NUM", "BOOL", "OPENBODY"}
    assert sum(seen.values()) == 24_000


@each_vocabulary
def test_the_published_mask_forces_def_run_and_the_opening_bracket(vocabulary):
    automaton = published_mask(vocabulary)
    state, stack = automaton.start, []
    for token in ("DEF", "run", "m("):
        assert np.flatnonzero(automaton.legal[state]).tolist() == [vocabulary.id_of[token]]
        state = automaton.read(state, stack, vocabulary.id_of[token])


@each_vocabulary
@pytest.mark.parametrize("make", [published_mask, strict_mask])
def test_only_padding_follows_the_end(vocabulary, make):
    automaton = make(vocabulary)
    state = _after(automaton, "DEF run m( move m)")
    for _ in range(3):
        assert np.flatnonzero(automaton.legal[state]).tolist() == [vocabulary.pad]
        state = automaton.read(state, [], vocabulary.pad)


@each_vocabulary
@pytest.mark.parametrize("make", [published_mask, strict_mask])
def test_sampled_programs_pass_the_masks(vocabulary, make):
    automaton = make(vocabulary)
    for ids in sample_programs(2000, 7, SamplerConfig(max_tokens=128), vocabulary):
        state, stack = automaton.start, []
        for token in ids:
            assert automaton.legal[state, token]
            state = automaton.read(state, stack, int(token))
            if token == vocabulary.pad:
                break


def _after(automaton, text):
    """The state after some tokens."""
    state, stack = automaton.start, []
    for token in text.split():
        index = automaton.vocabulary.id_of[token]
        assert automaton.legal[state, index]
        state = automaton.read(state, stack, index)
    return state


def _may_follow(automaton, text):
    return set(automaton.expected(_after(automaton, text)))


EMPTY_BODIES = {
    "m)": "DEF run m(",
    "w)": "DEF run m( WHILE c( frontIsClear c) w(",
    "r)": "DEF run m( REPEAT R=3 r(",
    "i)": "DEF run m( IF c( frontIsClear c) i(",
    "e)": "DEF run m( IFELSE c( frontIsClear c) i( move i) ELSE e(",
}


@pytest.mark.parametrize("closer", EMPTY_BODIES)
def test_an_empty_body_passes_the_published_mask_and_not_the_strict_one(closer):
    statements = {*ACTIONS, *CONTROL}
    assert _may_follow(published_mask(LEAPS), EMPTY_BODIES[closer]) == statements | {closer}
    assert _may_follow(strict_mask(LEAPS), EMPTY_BODIES[closer]) == statements


@pytest.mark.parametrize("closer", EMPTY_BODIES)
def test_an_empty_body_does_not_parse(closer):
    text = f"{EMPTY_BODIES[closer]} {closer}" + (" m)" if closer != "m)" else "")
    with pytest.raises(ProgramSyntaxError) as caught:
        parse(text)
    assert caught.value.found == closer
    assert not compile_ids(np.array([LEAPS.encode(text.split())])).valid[0]


NOT_NOT = "DEF run m( IF c( not c( not c( frontIsClear c) c) c) i( move i) m)"


def test_nested_not_passes_the_published_mask_and_the_parser():
    _after(published_mask(LEAPS), NOT_NOT)
    assert print_program(parse(NOT_NOT)) == NOT_NOT


def test_nested_not_is_plain_double_negation():
    setting, worlds = bare_world()
    thrice = NOT_NOT.replace("not c( not", "not c( not c( not").replace("c) c) c)", "c) c) c) c)")
    result = rollout(setting, [NOT_NOT, thrice], worlds)
    assert result.actions[:, 0].tolist() == [1, 0]


@each_vocabulary
def test_what_the_strict_mask_lets_through_is_a_program(vocabulary):
    rng = np.random.default_rng(2)
    automaton = strict_mask(vocabulary)
    closers = _ids_of(vocabulary, ("m)", "r)", "i)", "e)", "w)"))
    lengths = []
    for _ in range(400):
        state, stack, ids = automaton.start, [], []
        while not ids or ids[-1] != vocabulary.id_of["m)"]:
            legal = np.flatnonzero(automaton.legal[state])
            closing = [token for token in legal if token in closers]
            closes = closing and rng.random() < 0.4
            ids.append(int(rng.choice(closing if closes else legal)))
            state = automaton.read(state, stack, ids[-1])
            if len(ids) > 2000:
                break
        else:
            tokens = vocabulary.decode(ids)
            assert is_program(tokens, vocabulary.counts)
            assert print_program(parse(" ".join(tokens), vocabulary)) == " ".join(tokens)
            assert compile_ids(np.array([ids]), vocabulary).valid[0]
            lengths.append(len(ids))
    assert len(lengths) > 200
    assert max(lengths) > 100


# ---------------------------------------------------------------- 3: call budget


@pytest.mark.parametrize(
    ("body", "actions"),
    [
        ("WHILE c( frontIsClear c) w( turnLeft w)", 217),
        ("REPEAT R=19 r( move r)", 19),
        (f"REPEAT R=19 r( {' '.join(['turnLeft'] * 10)} r)", 73),
        (f"REPEAT R=19 r( {' '.join(['turnLeft'] * 30)} r)", 60),
    ],
)
def test_the_call_budget_in_an_open_field(body, actions):
    open_field = "\n".join(["#######", *["#.....#"] * 2, "#..>..#", *["#.....#"] * 2, "#######"])
    setting, worlds = bare_world(open_field)
    assert rollout(setting, [f"DEF run m( {body} m)"], worlds).actions[0, 0] == actions


# ---------------------------------------------------------------- 4: random programs


@cache
def _sample(vocabulary):
    """100,000 random programs as rows of tokens."""
    ids = sample_programs(100_000, 11, SamplerConfig(max_tokens=128), vocabulary)
    return ids, (ids != vocabulary.pad).sum(axis=1)


def _counts(vocabulary, tokens):
    """How often each of the tokens occurs in the sample."""
    histogram = np.bincount(_sample(vocabulary)[0].ravel(), minlength=len(vocabulary))
    return np.array([histogram[vocabulary.id_of[token]] for token in tokens])


def _follows(counts, odds, sigmas=5.0):
    """Whether counts are what odds make likely."""
    counts, odds = np.asarray(counts, float), np.asarray(odds, float)
    total = counts.sum()
    errors = np.sqrt(total * odds * (1 - odds))
    return bool(np.all(np.abs(counts - total * odds) <= sigmas * errors))


def _mean_length(split, single):
    """Expected tokens of a program, by the production probabilities and the depth rule."""
    condition = 0.9 * 1 + 0.1 * 4
    mean = 1.0  # at depth 7 a statement is an action
    for _ in range(3):  # depths 5, 3, 1
        mean = (
            *(0.15 * (5 + condition + mean), 0.03 * (4 + mean), split * 2 * mean, single * 1),
            *(0.08 * (5 + condition + mean), 0.04 * (8 + condition + 2 * mean)),
        )
        mean = sum(mean)
    return 4 + mean


def test_the_mean_length_of_random_leaps_programs_is_15_3():
    _, lengths = _sample(LEAPS)
    assert _mean_length(0.5, 0.2) == pytest.approx(15.3, abs=0.05)
    assert lengths.mean() == pytest.approx(_mean_length(0.5, 0.2), abs=0.12)
    assert np.median(lengths) == 15
    assert np.percentile(lengths, 90) == 26
    assert np.mean(lengths <= 44) == pytest.approx(0.999, abs=0.0007)


def test_the_mean_length_of_random_hprl_programs_follows_its_probabilities():
    _, lengths = _sample(HPRL)
    assert lengths.mean() == pytest.approx(_mean_length(0.4, 0.3), abs=0.12)


def test_59_percent_of_random_leaps_programs_are_unique():
    ids, lengths = _sample(LEAPS)
    unique, first = np.unique(ids, axis=0, return_index=True)
    assert len(unique) / len(ids) == pytest.approx(0.59, abs=0.01)
    assert lengths[first].mean() == pytest.approx(19.8, abs=0.2)


@each_vocabulary
def test_a_random_program_has_at_most_eight_actions(vocabulary):
    ids, _ = _sample(vocabulary)
    actions = np.isin(ids, list(_ids_of(vocabulary, ACTIONS))).sum(axis=1)
    assert actions.max() == 8
    assert actions.min() == 1


@each_vocabulary
def test_random_programs_draw_actions_perceptions_and_numbers_as_published(vocabulary):
    odds = [0.5, 0.15, 0.15, 0.1, 0.1]
    assert _follows(_counts(vocabulary, ACTIONS), odds)
    assert _follows(_counts(vocabulary, PERCEPTIONS), odds)
    numbers = [token for token in vocabulary.tokens if token.startswith("R=")]
    assert _follows(_counts(vocabulary, numbers), np.full(len(numbers), 1 / len(numbers)))


@each_vocabulary
def test_a_tenth_of_the_conditions_is_negated(vocabulary):
    negated = _counts(vocabulary, ["not"])[0]
    conditions = _counts(vocabulary, PERCEPTIONS).sum()
    assert _follows([negated, conditions - negated], [0.1, 0.9])


@each_vocabulary
def test_not_never_nests_in_a_random_program(vocabulary):
    ids, _ = _sample(vocabulary)
    is_not = ids == vocabulary.id_of["not"]
    assert not np.any(is_not[:, 2:] & is_not[:, :-2])


def _kinds_of_single_statements(vocabulary):
    """What the only top-level statement is, counted over the first 20,000 programs."""
    kinds = Counter()
    for ids in _sample(vocabulary)[0][:20_000]:
        body = parse(" ".join(vocabulary.decode(ids)), vocabulary).body
        kinds[type(body[0]) if len(body) == 1 else "several"] += 1
    return [kinds[kind] for kind in (While, Repeat, "several", Act, If, IfElse)]


def test_leaps_statements_have_the_published_probabilities():
    assert _follows(_kinds_of_single_statements(LEAPS), [0.15, 0.03, 0.50, 0.20, 0.08, 0.04])


def test_hprl_statements_have_the_published_probabilities():
    assert _follows(_kinds_of_single_statements(HPRL), [0.15, 0.03, 0.40, 0.30, 0.08, 0.04])


def _top_level_odds(split):
    """Probabilities of 1 to 8 top-level statements after three chances to split."""
    odds = {1: Fraction(1)}
    for _ in range(3):
        halves = Counter()
        for left, left_odds in odds.items():
            for right, right_odds in odds.items():
                halves[left + right] += split * left_odds * right_odds
        halves[1] += 1 - split
        odds = dict(halves)
    return [float(odds[count]) for count in range(1, 9)]


@pytest.mark.parametrize(
    ("vocabulary", "split"),
    [(LEAPS, Fraction(1, 2)), (HPRL, Fraction(2, 5))],
    ids=["leaps", "hprl"],
)
def test_a_statement_splits_three_times_at_most(vocabulary, split):
    sizes = Counter()
    for ids in _sample(vocabulary)[0][:20_000]:
        sizes[len(parse(" ".join(vocabulary.decode(ids)), vocabulary).body)] += 1
    assert _follows([sizes[count] for count in range(1, 9)], _top_level_odds(split))


@each_vocabulary
def test_all_random_programs_are_programs(vocabulary):
    ids, _ = _sample(vocabulary)
    assert compile_ids(ids, vocabulary).valid.all()
    for row in ids[:3000]:
        assert is_program(vocabulary.decode(row), vocabulary.counts)


def test_a_random_program_depends_on_its_seed_and_number_alone():
    config = SamplerConfig(max_tokens=64)
    whole = sample_programs(200, 3, config)
    assert np.array_equal(whole[50:80], sample_programs(30, 3, config, first=50))
    assert not np.array_equal(whole, sample_programs(200, 4, config))


def test_a_random_program_has_no_more_tokens_than_asked_for():
    ids = sample_programs(20_000, 1, SamplerConfig(max_tokens=12))
    assert ids.shape == (20_000, 12)
    assert compile_ids(ids).valid.all()


# ---------------------------------------------------------------- errors


@pytest.mark.parametrize(
    ("text", "position", "found", "expected"),
    [
        ("", 0, None, {"DEF"}),
        ("move", 0, "move", {"DEF"}),
        ("DEF move", 1, "move", {"run"}),
        ("DEF run m( move", 4, None, {*ACTIONS, *CONTROL, "m)"}),
        ("DEF run m( m)", 3, "m)", {*ACTIONS, *CONTROL}),
        ("DEF run m( move c( m)", 4, "c(", {*ACTIONS, *CONTROL, "m)"}),
        ("DEF run m( mvoe m)", 3, "mvoe", {*ACTIONS, *CONTROL}),
        ("DEF run m( REPEAT R=20 r( move r) m)", 4, "R=20", {f"R={n}" for n in range(20)}),
        ("DEF run m( REPEAT 3 r( move r) m)", 4, "3", {f"R={n}" for n in range(20)}),
        ("DEF run m( WHILE frontIsClear w( move w) m)", 4, "frontIsClear", {"c("}),
        ("DEF run m( WHILE c( move c) w( move w) m)", 5, "move", {*PERCEPTIONS, "not"}),
        ("DEF run m( WHILE c( frontIsClear c) i( move i) m)", 7, "i(", {"w("}),
        ("DEF run m( IFELSE c( frontIsClear c) i( move i) m)", 10, "m)", {"ELSE"}),
        ("DEF run m( IF c( frontIsClear c) i( move i) ELSE e( move e) m)", 10, "ELSE", None),
        ("DEF run m( REPEAT R=2 r( move w) m)", 7, "w)", {*ACTIONS, *CONTROL, "r)"}),
        ("DEF run m( move m) move", 5, "move", set()),
        ("DEF run m( move m) m)", 5, "m)", set()),
        ("DEF run m( IF c( not frontIsClear c) i( move i) m)", 6, "frontIsClear", {"c("}),
    ],
)
def test_a_syntax_error_says_where_what_came_and_what_could_have_come(
    text, position, found, expected
):
    with pytest.raises(ProgramSyntaxError) as caught:
        parse(text)
    error = caught.value
    assert (error.position, error.found) == (position, found)
    if expected is not None:
        assert set(error.expected) == expected
    shown = "the end of the program" if found is None else f"'{found}'"
    assert shown in str(error)


def test_a_syntax_error_points_at_the_token():
    with pytest.raises(ProgramSyntaxError) as caught:
        parse("DEF run m( move c( m)")
    message, text, caret = str(caught.value).splitlines()
    assert "'c('" in message
    assert "'m)'" in message
    assert text[caret.index("^") :].startswith("c(")


def test_a_syntax_error_is_a_value_error_and_an_error_of_the_package():
    with pytest.raises(ValueError, match="expected") as caught:
        parse("DEF run")
    assert isinstance(caught.value, PompError)


def test_a_program_text_has_at_most_4096_tokens():
    longest = " ".join(["DEF run m(", *["move"] * 4092, "m)"])
    assert len(parse(longest).body) == 4092
    with pytest.raises(ProgramSyntaxError, match="4096"):
        parse(longest.replace("m)", "move m)"))


def test_numbers_of_the_other_vocabulary_are_refused():
    text = "DEF run m( REPEAT R=7 r( move r) m)"
    assert print_program(parse(text, LEAPS)) == text
    with pytest.raises(ProgramSyntaxError) as caught:
        parse(text, HPRL)
    assert set(caught.value.expected) == {"R=2", "R=3", "R=4", "R=5"}


def test_padding_is_no_token_of_a_text():
    with pytest.raises(ProgramSyntaxError):
        parse("DEF run m( move m) <pad>")


def test_a_bad_program_among_good_ones_is_reported():
    with pytest.raises(ProgramSyntaxError):
        compile_programs(["DEF run m( move m)", "DEF run m( m)"])
