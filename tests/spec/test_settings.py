"""Which tasks, variants, options, sizes and scales there are, and what is said of wrong ones."""

import pytest
from playing import task

from pomp.core import ConfigError, UnknownNameError
from pomp.tasks import TASKS, find_task

KAREL = ["StairClimber", "FourCorner", "TopOff", "Maze", "CleanHouse", "Harvester"]
KAREL_HARD = ["DoorKey", "OneStroke", "Seeder", "Snake"]
KAREL_LONG = ["Seesaw", "UpNDown", "Farmer", "InfDoorKey", "InfHarvester"]
SIZES = {
    **dict.fromkeys(["StairClimber", "FourCorner", "TopOff"], (12, 12)),
    **dict.fromkeys(["Maze", "Harvester", *KAREL_HARD], (8, 8)),
    **dict.fromkeys(["UpNDown", "Farmer", "InfDoorKey"], (8, 8)),
    **{"CleanHouse": (14, 22), "Seesaw": (16, 16), "InfHarvester": (16, 16)},
}
OPTIONS = {
    *["psi", "done_ratio", "redraw_per_lap", "clean_signal", "lag", "last_marker"],
    *["zero_on_wrong", "start", "off_stairs_penalty", "dense"],
}
each_task = pytest.mark.parametrize("kind", TASKS, ids=lambda kind: kind.name)


def test_there_are_fifteen_tasks():
    assert [kind.name for kind in TASKS] == [*KAREL, *KAREL_HARD, *KAREL_LONG]


@each_task
def test_a_task_has_the_variants_of_its_suite_and_the_canonical_one_first(kind):
    expected = ["hprl", "leaps", "paper"] if kind.name in KAREL else ["hprl", "paper"]
    if kind.name in KAREL_LONG:
        expected = ["hipo", "paper"]
    assert list(kind.variants) == expected


@each_task
def test_a_task_has_the_size_of_the_paper(kind):
    setting = kind.configure()
    assert kind.size == (setting.height, setting.width) == SIZES[kind.name]


@each_task
def test_a_task_has_no_options_but_the_named_ones(kind):
    assert set(kind.options) <= OPTIONS


@each_task
def test_only_long_tasks_have_scales(kind):
    assert kind.scales == ((1, 2, 4, 8, 16) if kind.name in KAREL_LONG else (1,))
    with pytest.raises(ConfigError, match="scale"):
        kind.configure(scale=3)


def test_the_ceilings_are_what_perfect_play_returns():
    ceilings = {kind.name: kind.configure().ceiling for kind in TASKS}
    assert [ceilings[name] for name in KAREL + KAREL_HARD] == [1.0] * 10
    assert [ceilings[name] for name in KAREL_LONG] == [0.905, 0.910, 0.835, 0.915, 0.92]


@pytest.mark.parametrize("name", ["Up-N-Down", "UpNDown", "upndown", "up-n-down"])
def test_hyphens_and_case_do_not_matter_in_a_name(name):
    assert find_task(name).name == "UpNDown"


@pytest.mark.parametrize("name", ["Inf-DoorKey", "Inf-Harvester"])
def test_the_names_of_the_paper_are_found(name):
    assert find_task(name).name == name.replace("-", "")


def test_an_unknown_task_is_refused_with_a_suggestion():
    with pytest.raises(UnknownNameError, match="Did you mean 'Harvester'"):
        find_task("Havrester")


def test_an_unknown_variant_is_refused_with_the_known_ones():
    with pytest.raises(UnknownNameError, match="hprl, leaps, paper"):
        task("Harvester", "hipo")


def test_an_unknown_option_is_refused_with_the_known_ones():
    with pytest.raises(UnknownNameError, match="lag"):
        task("Harvester", lagg="off")


def test_an_option_of_another_variant_is_refused():
    with pytest.raises(UnknownNameError):
        task("FourCorner", "hprl", lag="off")


@pytest.mark.parametrize("value", ["maybe", "", "2", None])
def test_a_switch_is_on_or_off(value):
    with pytest.raises(ConfigError, match="lag"):
        task("Harvester", lag=value)


@pytest.mark.parametrize("value", ["much", "nan", "-1", "inf", "", "1/0"])
def test_a_numeric_option_is_a_number(value):
    with pytest.raises(ConfigError, match="psi"):
        task("UpNDown", psi=value)


@pytest.mark.parametrize("size", [(7, 8), (0, 0), (-8, 8), (8, 8000)])
def test_a_size_the_task_cannot_have_is_refused(size):
    with pytest.raises(ConfigError):
        find_task("DoorKey").configure(size=size)
