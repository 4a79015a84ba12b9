"""HPRL's filters of random programs."""

import numpy as np
import pytest

from pomp.dsl.sampling import sample_programs
from pomp.dsl.tidying import tidy
from pomp.dsl.vocabulary import HPRL
from pomp.embedding.config import DatasetConfig
from pomp.embedding.dataset import make_dataset

PAIRS = {
    *(("turnLeft", "turnRight"), ("turnRight", "turnLeft")),
    *(("pickMarker", "putMarker"), ("putMarker", "pickMarker")),
}


def tidied(body):
    """The tidied program with a body, or None if it is not kept."""
    tokens = ["DEF", "run", "m(", *body.split(), "m)"]
    ids = np.full((1, 60), HPRL.pad, np.uint8)
    ids[0, : len(tokens)] = HPRL.encode(tokens)
    text = " ".join(HPRL.decode(tidy(ids, HPRL)[0].tolist()))
    return text.removeprefix("DEF run m( ").removesuffix(" m)") or None


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("move turnLeft move", "move turnLeft move"),
        ("move turnLeft turnRight move", "move turnRight move"),
        ("turnLeft turnRight turnLeft", "turnLeft"),
        ("pickMarker putMarker", "putMarker"),
        ("turnLeft turnLeft turnRight", "turnRight"),
        ("WHILE c( frontIsClear c) w( putMarker w)", None),
        ("WHILE c( frontIsClear c) w( pickMarker putMarker w)", None),
        ("WHILE c( frontIsClear c) w( putMarker move w)",) * 2,
        ("move " * 9, ("move " * 9).strip()),
        ("move " * 10, None),
    ],
)  # fmt: skip
def test_a_program_is_tidied_or_not_kept(body, expected):
    assert tidied(body) == expected


def plain_tidy(tokens):
    """The rules once more, one at a time."""
    while True:
        places = [k for k in range(len(tokens) - 1) if (tokens[k], tokens[k + 1]) in PAIRS]
        if not places:
            break
        del tokens[places[0]]
    text = " ".join(tokens)
    if "w( putMarker w)" in text or "w( pickMarker w)" in text:
        return []
    for first in range(len(tokens)):
        for second in range(first + 1, len(tokens)):
            same = 0
            while second + same < len(tokens) and tokens[first + same] == tokens[second + same]:
                same += 1
            if same >= 9:
                return []
    return tokens


def test_random_programs_are_tidied_as_the_rules_say():
    ids = sample_programs(3000, 5, vocabulary=HPRL)
    for row, found in zip(ids.tolist(), tidy(ids, HPRL).tolist(), strict=True):
        assert HPRL.decode(found) == plain_tidy(HPRL.decode(row))


def test_an_hprl_dataset_holds_tidy_programs_only():
    config = DatasetConfig(
        train=300, validation=0, test=0, vocabulary="hprl", max_tokens=40, walls=0.15,
        least_states=2, most_states=50,
    )  # fmt: skip
    ids = make_dataset(config).ids
    assert (tidy(ids, HPRL) == ids).all()
