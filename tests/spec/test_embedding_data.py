"""The embedding's data: which runs become demonstrations, how runs are compared, the file.

Long on purpose: the method's sections 1.6, 1.7 and 2.3b in order, over one plain oracle.
"""

import json
from collections import Counter
from dataclasses import asdict, replace
from functools import cache

import numpy as np
import pytest
from behaviour import (
    CAP,
    Limits,
    accepted_trials,
    is_possible,
    mean_match,
    padded,
    program,
    run_states,
    state,
    text_of,
    world_at,
)
from oracle import PERCEPTIONS, is_program
from safetensors import safe_open
from safetensors.numpy import load_file, save_file

from pomp.core import DataFileError, Purpose, open_streams
from pomp.dsl import LEAPS, Action, SamplerConfig, compile_ids, compile_programs, sample_programs
from pomp.embedding import (
    DatasetConfig,
    agreement,
    demonstrate,
    draw_fresh,
    load_dataset,
    make_dataset,
    random_worlds,
    save_dataset,
)

SPLITS = ("train", "validation", "test")
NOT_CLEAR = "c( not c( frontIsClear c) c)"


def sampled(number, seed):
    """Random programs as token ids."""
    return sample_programs(number, seed, SamplerConfig(max_tokens=44))


def streams_for(number, seed=0):
    return open_streams(Purpose.DATA, seed, worlds=number)


def found_for(body, setting, **limits):
    """How many demonstrations one program gets."""
    code = compile_programs([program(body)])
    limits = asdict(Limits(**limits))
    return int(demonstrate(code, streams_for(1), setting, **limits).found[0])


# ---------------------------------------------------------------- 1.7: what becomes one


ERROR_MODE = Limits()
TASK_MODE = Limits(least_states=1, most_states=100, stop_on_error=False)
FEW = Limits(wanted=3, trials=12, least_states=7, most_states=9, stop_on_error=False)
each_search = pytest.mark.parametrize(
    ("walls", "markers", "limits", "seed"),
    [
        pytest.param(0.1, 0.1, ERROR_MODE, 3, id="as the dataset does"),
        pytest.param(0.25, 0.1, TASK_MODE, 4, id="as the rewards do"),
        pytest.param(0.4, 0.5, FEW, 5, id="few trials, narrow limits"),
        pytest.param(0.1, 0.5, replace(FEW, stop_on_error=True), 6, id="the same in error mode"),
        pytest.param(0.1, 0.3, replace(TASK_MODE, cap="calls30"), 7, id="a small budget"),
    ],
)


@cache
def searched(walls, markers, limits, seed):
    """Demonstrations of random programs, the final streams, and the same by the slow rule."""
    setting = random_worlds(walls, markers)
    ids = sampled(300, seed)
    before = streams_for(len(ids), seed)
    after = before.copy()
    shown = demonstrate(compile_ids(ids), after, setting, **asdict(limits))
    slow = [
        accepted_trials(text_of(row), stream, setting, limits)
        for row, stream in zip(ids, before, strict=True)
    ]
    return shown, after, slow


@each_search
def test_as_many_trials_are_accepted_as_the_rule_says(walls, markers, limits, seed):
    shown, _, slow = searched(walls, markers, limits, seed)
    expected = [len(accepted) for accepted, _ in slow]
    assert len(set(expected)) > 2
    assert shown.found.tolist() == expected


@each_search
def test_demonstrations_start_where_the_accepted_trials_do(walls, markers, limits, seed):
    shown, _, slow = searched(walls, markers, limits, seed)
    for p, (accepted, _) in enumerate(slow):
        starts = zip(shown.cells[p], shown.pose[p], strict=True)
        got = [(cells.tobytes(), int(pose)) for cells, pose in starts]
        assert got[: len(accepted)] == [(trial.cells, trial.pose) for trial in accepted]


@each_search
def test_demonstrations_hold_the_actions_of_the_accepted_trials(walls, markers, limits, seed):
    shown, _, slow = searched(walls, markers, limits, seed)
    for p, (accepted, _) in enumerate(slow):
        assert shown.length[p, : len(accepted)].tolist() == [t.states - 1 for t in accepted]
        for row, trial in zip(shown.actions[p], accepted, strict=False):
            assert row[: len(trial.actions)].tolist() == trial.actions
            assert not row[len(trial.actions) :].any()


@each_search
def test_a_stream_is_left_where_the_last_trial_left_it(walls, markers, limits, seed):
    _, after, slow = searched(walls, markers, limits, seed)
    assert after.tolist() == [stream for _, stream in slow]


def test_demonstrations_do_not_depend_on_threads_or_neighbours():
    ids, setting = sampled(100, 8), random_worlds(0.1, 0.1)
    limits = asdict(ERROR_MODE)
    whole = demonstrate(compile_ids(ids), streams_for(100), setting, **limits)
    one = demonstrate(compile_ids(ids), streams_for(100), setting, threads=1, **limits)
    alone = demonstrate(compile_ids(ids[70:71]), streams_for(100)[70:71], setting, **limits)
    for name in ("cells", "pose", "actions", "length", "found"):
        assert getattr(whole, name).tobytes() == getattr(one, name).tobytes()
        assert getattr(whole, name)[70:71].tobytes() == getattr(alone, name).tobytes()


def test_a_run_that_ends_within_the_limits_is_a_demonstration():
    assert found_for("turnLeft turnLeft turnLeft", random_worlds(0.1)) == 10


def test_a_short_run_of_a_program_without_conditions_is_none():
    assert found_for("turnLeft turnLeft", random_worlds(0.1)) == 0


def test_a_run_with_one_state_too_many_is_none():
    setting = random_worlds(0.1)
    assert found_for("REPEAT R=19 r( turnLeft r)", setting) == 10
    assert found_for("REPEAT R=19 r( turnLeft r) turnLeft", setting) == 0


def test_a_run_that_the_cap_ends_is_none():
    body = "REPEAT R=19 r( REPEAT R=19 r( turnLeft r) r)"
    assert found_for(body, random_worlds(0.1), most_states=200, stop_on_error=False) == 0


def test_a_condition_that_only_goes_one_way_allows_one_demonstration():
    body = "IF c( markersPresent c) i( move i) turnLeft turnLeft turnLeft"
    assert found_for(body, random_worlds(0.1, markers=0.0), stop_on_error=False) == 1


def test_a_condition_that_is_never_reached_allows_no_demonstration():
    body = "REPEAT R=0 r( IF c( frontIsClear c) i( move i) r) turnLeft turnLeft turnLeft"
    assert found_for(body, random_worlds(0.1)) == 0


def test_each_of_two_equal_conditions_must_go_both_ways():
    tested = "IF c( frontIsClear c) i( turnLeft turnRight i)"
    nested = f"IF c( frontIsClear c) i( IF {NOT_CLEAR} i( move i) i) turnLeft turnLeft turnLeft"
    assert found_for(f"{tested} {tested} turnLeft", random_worlds(0.3)) == 10
    assert found_for(nested, random_worlds(0.3)) <= 2


def test_a_run_that_meets_an_impossible_action_shows_no_branch():
    body = "IFELSE c( frontIsClear c) i( turnLeft turnLeft turnLeft i) ELSE e( move e)"
    assert found_for(body, random_worlds(0.3), stop_on_error=True) == 1
    assert found_for(body, random_worlds(0.3), stop_on_error=False) == 10


def test_a_run_that_the_cap_ends_shows_its_branches():
    body = "WHILE c( markersPresent c) w( turnLeft w)"
    assert found_for(body, random_worlds(0.1, markers=0.5)) == 10


def test_a_run_that_is_too_long_shows_its_branches():
    body = "IF c( markersPresent c) i( REPEAT R=19 r( turnLeft r) turnLeft i) turnLeft"
    assert found_for(body, random_worlds(0.1, markers=0.5)) == 10


def test_half_of_the_short_runs_count_once_all_branches_were_seen():
    setting = random_worlds(0.3)
    code = compile_programs([program("IF c( frontIsClear c) i( turnLeft i)")] * 200)
    limits = asdict(Limits(wanted=100))
    shown = demonstrate(code, streams_for(200), setting, **limits)
    share = shown.found.mean() / 100
    assert abs(share - 0.5) < 4 * 0.5 / np.sqrt(200 * 100) + 0.02  # 2 or 3 trials are needed first


@pytest.mark.parametrize(
    ("body", "possible"),
    [
        pytest.param("REPEAT R=9 r( putMarker r)", True, id="nine markers fit on a cell"),
        pytest.param("REPEAT R=10 r( putMarker r)", False, id="a tenth does not"),
        pytest.param("putMarker pickMarker turnLeft", True, id="a marker that is put is there"),
        pytest.param("pickMarker turnLeft turnLeft", False, id="no marker is there"),
        pytest.param("move turnLeft turnLeft", False, id="a wall is ahead"),
    ],
)
def test_error_mode_ends_what_is_impossible(body, possible):
    walls = 1.0 if "move" in body else 0.0
    setting = random_worlds(walls, markers=0.0)
    assert found_for(body, setting, stop_on_error=True) == (10 if possible else 0)
    assert found_for(body, setting, stop_on_error=False) == 10


def test_in_hprls_error_mode_only_an_impossible_move_ends_a_run():
    markers, wall = "pickMarker turnLeft turnLeft", "move turnLeft turnLeft"
    assert found_for(markers, random_worlds(0.0, markers=0.0), stop_on_error=(Action.MOVE,)) == 10
    assert found_for(wall, random_worlds(1.0), stop_on_error=(Action.MOVE,)) == 0


# ---------------------------------------------------------------- 1.6: what gets into a dataset


CONFIG = DatasetConfig(train=210, validation=45, test=45, seed=1)


@pytest.fixture(scope="module")
def dataset():
    return make_dataset(CONFIG)


@pytest.fixture(scope="module")
def texts(dataset):
    return [text_of(row) for row in dataset.ids]


def shown_by(dataset, p):
    """Start and actions of each demonstration of a program."""
    shown = dataset.demonstrations
    for cells, pose, actions, length in zip(
        shown.cells[p], shown.pose[p], shown.actions[p], shown.length[p], strict=True
    ):
        yield cells, pose, actions[:length].tolist()


def test_a_dataset_has_as_many_programs_in_each_split_as_its_config_says(dataset):
    sizes = [len(dataset.split(name)) for name in SPLITS]
    assert sizes == [CONFIG.train, CONFIG.validation, CONFIG.test]


def test_the_splits_make_up_the_dataset(dataset):
    parts = [dataset.split(name).ids for name in SPLITS]
    assert np.array_equal(np.concatenate(parts), dataset.ids)


def test_no_program_is_twice_in_a_dataset(texts):
    assert max(Counter(texts).values()) == 1


def test_everything_in_a_dataset_is_a_program(texts):
    assert all(is_program(text.split()) for text in texts)


def test_no_program_of_a_dataset_has_more_than_44_tokens(dataset, texts):
    assert dataset.ids.shape[1] == 44
    assert all(dataset.ids[:, 0] == LEAPS.id_of["DEF"])
    assert max(len(text.split()) for text in texts) <= 44


def test_every_program_of_a_dataset_has_ten_demonstrations(dataset):
    assert dataset.demonstrations.found.tolist() == [10] * len(dataset)
    assert dataset.demonstrations.length.shape == (len(dataset), 10)


def test_every_program_of_a_dataset_acts_at_least_once(dataset):
    assert dataset.demonstrations.length.max(axis=1).min() >= 1


def test_no_demonstration_of_a_dataset_has_more_than_20_states(dataset):
    assert dataset.demonstrations.length.max() + 1 == 20


def test_only_programs_with_a_condition_have_demonstrations_under_4_states(dataset, texts):
    shortest = dataset.demonstrations.length.min(axis=1) + 1
    has_condition = [any(token in PERCEPTIONS for token in text.split()) for text in texts]
    assert all(has_condition[p] for p in np.flatnonzero(shortest < 4))
    assert (shortest < 4).any()


def test_every_action_of_a_demonstration_is_possible(dataset):
    for p in range(len(dataset)):
        for cells, pose, actions in shown_by(dataset, p):
            world = world_at(cells, pose)
            for action in actions:
                assert is_possible(world, action)
                world.act(action, CAP)


def test_a_replayed_demonstration_ends_where_its_program_ends(dataset, texts):
    for p, text in enumerate(texts):
        for cells, pose, actions in shown_by(dataset, p):
            world = world_at(cells, pose)
            for action in actions:
                world.act(action, CAP)
            states, completed = run_states(text, cells, pose)
            assert completed
            assert len(states) == len(actions) + 1
            assert state(world) == states[-1]


def test_demonstrations_start_in_walled_worlds_with_single_markers(dataset):
    grids = dataset.demonstrations.cells.reshape(-1, 8, 8)
    walls, counts = grids & 16 > 0, grids & 15
    ring = np.ones((8, 8), bool)
    ring[1:-1, 1:-1] = False
    assert walls[:, ring].all()
    assert set(np.unique(counts)) == {0, 1}
    assert not counts[walls].any()


def test_demonstrations_start_on_a_free_cell(dataset):
    shown = dataset.demonstrations
    cells = shown.cells.reshape(-1, 64)
    agent = shown.pose.reshape(-1) // 4
    assert not (cells[np.arange(len(cells)), agent] & 16).any()


def test_random_programs_pass_the_filters_as_often_as_published():
    large = make_dataset(DatasetConfig(train=8000, validation=0, test=0))
    lines = [text_of(row).split() for row in large.ids]
    lengths = [len(tokens) for tokens in lines]
    control = {"WHILE", "REPEAT", "IF", "IFELSE"}
    new = len(np.unique(sampled(large.draws, 30), axis=0))
    assert len(large) / new == pytest.approx(0.39, abs=0.03)
    assert np.mean(lengths) == pytest.approx(17.4, abs=0.5)
    assert np.median(lengths) == pytest.approx(17, abs=1)
    assert np.percentile(lengths, 95) == pytest.approx(28, abs=1)
    assert np.mean([bool(control & set(tokens)) for tokens in lines]) == pytest.approx(
        0.88, abs=0.02
    )
    assert large.demonstrations.length.mean() + 1 == pytest.approx(4.5, abs=0.3)


# ---------------------------------------------------------------- 2.3b: how far two runs agree


@pytest.fixture(scope="module")
def compared():
    """Random programs, others to compare them with, and starts on which they were shown."""
    ids = sampled(160, 21)
    rng = np.random.default_rng(0)
    others = ids.copy()
    for row in others[40:]:  # another action somewhere, or the next program
        places = np.flatnonzero((row >= 4) & (row <= 8))
        row[rng.choice(places)] = rng.integers(4, 9)
    others[100:] = np.roll(ids[100:], 1, axis=0)
    others[150:] = padded([program("")], width=44)
    setting = random_worlds(0.25)
    starts = demonstrate(compile_ids(ids), streams_for(160), setting, **asdict(TASK_MODE))
    return ids, others, starts, agreement(compile_ids(ids), compile_ids(others), starts, setting)


def test_a_program_agrees_with_itself(compared):
    _, _, starts, got = compared
    assert got[:40].tolist() == (starts.found[:40] > 0).astype(float).tolist()


def test_agreement_is_the_mean_match_of_whole_states(compared):
    ids, others, starts, got = compared
    rows = [row for row in range(40, 150) if starts.found[row]]
    expected = [mean_match(text_of(ids[row]), text_of(others[row]), starts, row) for row in rows]
    assert np.unique(expected).size > 30
    assert got[rows] == pytest.approx(expected, abs=1e-12)


def test_what_is_no_program_agrees_with_nothing(compared):
    assert not compared[-1][150:].any()


@pytest.mark.parametrize(
    ("one", "two", "expected"),
    [
        pytest.param("turnLeft", "turnLeft", 1, id="the same"),
        pytest.param("turnLeft", "turnRight", 0, id="other from the first action on"),
        pytest.param("turnLeft turnLeft", "turnRight turnRight", 0, id="the same end only"),
        pytest.param(
            "turnLeft turnLeft turnLeft", "turnLeft turnLeft turnRight", 2 / 3, id="other at last"
        ),
        pytest.param("turnLeft", "turnLeft turnLeft turnLeft", 1 / 3, id="too short"),
        pytest.param("turnLeft turnLeft turnLeft", "turnLeft", 1 / 3, id="too long"),
        pytest.param("pickMarker turnLeft", "turnLeft", 0, id="an action in vain is a state"),
        pytest.param("REPEAT R=0 r( move r)", "REPEAT R=0 r( turnLeft r)", 1, id="nobody acts"),
        pytest.param("REPEAT R=0 r( move r)", "turnLeft", 0, id="one acts"),
        pytest.param("putMarker", "putMarker putMarker", 1 / 2, id="markers are state"),
        pytest.param(
            "move turnLeft turnLeft",
            "turnLeft turnLeft turnLeft",
            0,
            id="the same states, but later",
        ),
        pytest.param("move", "REPEAT R=1 r( move r)", 1, id="other programs, the same states"),
        pytest.param(
            "pickMarker turnLeft",
            "IF c( markersPresent c) i( move i) pickMarker turnLeft",
            1,
            id="a branch not taken",
        ),
        pytest.param(
            "REPEAT R=19 r( REPEAT R=19 r( turnLeft r) r)",
            "WHILE c( noMarkersPresent c) w( turnLeft w)",
            None,
            id="both end by the cap",
        ),
    ],
)
def test_two_programs_agree_by(one, two, expected):
    setting = random_worlds(1.0, markers=0.0)  # one free cell
    originals, others = compile_programs([program(one)]), compile_programs([program(two)])
    starts = demonstrate(
        compile_programs([program("turnLeft")]), streams_for(1), setting, **asdict(TASK_MODE)
    )
    if expected is None:
        expected = mean_match(program(one), program(two), starts, 0)
        assert 0.5 < expected < 1
    got = agreement(originals, others, starts, setting)
    assert got.shape == (1,)
    assert got[0] == pytest.approx(expected, abs=1e-12)


# ---------------------------------------------------------------- the file


ARRAYS = ("cells", "pose", "actions", "length", "found")


def saved(dataset, folder, name="data"):
    path = folder / name
    save_dataset(dataset, path)
    return path


@pytest.fixture(scope="module")
def path(dataset, tmp_path_factory):
    return saved(dataset, tmp_path_factory.mktemp("file"))


def header_of(path):
    """How the file says it was made, behind its checksum of 64 digits."""
    with safe_open(path, "numpy") as file:
        return json.loads(file.metadata()["pomp.sealed"][64:])


def refusal(path):
    """What is said about a file that cannot be used."""
    with pytest.raises(DataFileError) as caught:
        load_dataset(path)
    return str(caught.value)


def test_a_dataset_comes_back_from_its_file_exactly(dataset, path):
    loaded = load_dataset(path)
    assert loaded.config == dataset.config
    assert loaded.draws == dataset.draws
    assert loaded.ids.dtype == dataset.ids.dtype
    assert np.array_equal(loaded.ids, dataset.ids)
    for name in ARRAYS:
        before, after = (getattr(one.demonstrations, name) for one in (dataset, loaded))
        assert after.dtype == before.dtype
        assert np.array_equal(after, before)


def test_a_loaded_dataset_is_saved_as_the_same_bytes(path, tmp_path):
    assert saved(load_dataset(path), tmp_path).read_bytes() == path.read_bytes()


def test_the_same_config_gives_the_same_bytes(path, tmp_path):
    assert saved(make_dataset(CONFIG), tmp_path).read_bytes() == path.read_bytes()


def test_one_thread_gives_the_same_bytes(path, tmp_path):
    again = make_dataset(CONFIG, threads=1)
    assert saved(again, tmp_path).read_bytes() == path.read_bytes()


def test_another_seed_gives_other_programs(dataset, path, tmp_path):
    other = make_dataset(replace(CONFIG, seed=2))
    assert saved(other, tmp_path).read_bytes() != path.read_bytes()
    same = (other.ids == dataset.ids).all(axis=1)
    assert same.mean() < 0.05


@pytest.mark.parametrize("share", [0, 1e-4, 1e-3, 0.01, 0.1, 0.5, 0.9, 0.999, 1])
def test_a_truncated_file_is_refused_in_one_line(path, tmp_path, share):
    whole = path.read_bytes()
    cut = tmp_path / "cut"
    cut.write_bytes(whole[: min(int(share * len(whole)), len(whole) - 1)])
    message = refusal(cut)
    assert str(cut) in message
    assert "\n" not in message


@pytest.mark.parametrize(
    "content",
    [
        pytest.param(b"DEF run m( move m)\n", id="a program"),
        pytest.param(b"Not a dataset at all, but a letter.\n" * 100, id="a letter"),
        pytest.param(b"{}", id="JSON"),
        pytest.param(bytes(100), id="zeros"),
        pytest.param(b"\xff" * 100, id="ones"),
    ],
)
def test_another_kind_of_file_is_refused_in_one_line(tmp_path, content):
    other = tmp_path / "other"
    other.write_bytes(content)
    message = refusal(other)
    assert str(other) in message
    assert "\n" not in message


def test_a_file_that_is_not_there_is_refused_in_one_line(tmp_path):
    message = refusal(tmp_path / "nothing")
    assert "nothing" in message
    assert "\n" not in message


def test_a_file_of_a_newer_format_is_refused_in_one_line(path, tmp_path):
    newer = tmp_path / "newer"
    header = header_of(path)
    header["format"] += 1
    save_file(load_file(path), newer, metadata={"pomp": json.dumps(header)})
    message = refusal(newer)
    assert "format" in message
    assert "\n" not in message


@pytest.mark.parametrize("name", ["tokens", "program_length", "demonstration_length", "start"])
def test_a_file_without_one_of_its_arrays_is_refused_in_one_line(path, tmp_path, name):
    arrays = load_file(path)
    del arrays[name]
    poorer = tmp_path / "poorer"
    save_file(arrays, poorer, metadata={"pomp": json.dumps(header_of(path))})
    assert "\n" not in refusal(poorer)


def test_a_file_with_a_token_outside_the_vocabulary_is_refused_in_one_line(path, tmp_path):
    arrays = load_file(path)
    arrays["tokens"][7] = 200
    damaged = tmp_path / "damaged"
    save_file(arrays, damaged, metadata={"pomp": json.dumps(header_of(path))})
    assert "\n" not in refusal(damaged)


@pytest.mark.parametrize(
    "change",
    [
        pytest.param({"config": {"train": CONFIG.train + 1}}, id="more programs than there are"),
        pytest.param({"config": {"demonstrations": 9}}, id="fewer demonstrations"),
        pytest.param({"config": {"walls": 2.0}}, id="no probability"),
        pytest.param({"config": {"vocabulary": "klingon"}}, id="an unknown vocabulary"),
        pytest.param({"draws": -5}, id="fewer draws than none"),
        pytest.param({"draws": "many"}, id="draws that are no number"),
        pytest.param({"format": None}, id="no format"),
    ],
)
def test_a_header_with_a_value_it_cannot_have_is_refused_in_one_line(path, tmp_path, change):
    header = header_of(path)
    config = header["config"] | change.get("config", {})
    odd = tmp_path / "odd"
    metadata = {"pomp": json.dumps(header | change | {"config": config})}
    save_file(load_file(path), odd, metadata=metadata)
    assert "\n" not in refusal(odd)


def test_a_damaged_header_is_refused_or_does_not_matter(path, tmp_path):
    whole = path.read_bytes()
    end = 8 + int.from_bytes(whole[:8], "little")
    rng = np.random.default_rng(0)
    damaged = tmp_path / "damaged"
    for place in rng.integers(0, end, 200):
        content = bytearray(whole)
        content[place] ^= 1 << rng.integers(8)
        damaged.write_bytes(content)
        try:
            load_dataset(damaged)
        except DataFileError as error:
            assert "\n" not in str(error)  # noqa: PT017 - either answer will do


# ---------------------------------------------------------------- fresh programs


@pytest.fixture(scope="module")
def fresh(dataset):
    return draw_fresh(CONFIG, 200, seed=CONFIG.seed, draws=dataset.draws)


def test_fresh_programs_are_in_no_split(fresh, texts):
    again = {text_of(row) for row in fresh.ids}
    assert len(again) == len(fresh) == 200
    assert not again & set(texts)


def test_fresh_programs_pass_the_same_filters(fresh):
    shown = fresh.demonstrations
    assert all(is_program(text_of(row).split()) for row in fresh.ids)
    assert fresh.ids.shape[1] == 44
    assert shown.found.tolist() == [10] * 200
    assert shown.length.max(axis=1).min() >= 1
    assert shown.length.max() + 1 <= 20


def test_fresh_programs_of_a_seed_are_always_the_same(dataset, fresh):
    again = draw_fresh(CONFIG, 200, seed=CONFIG.seed, draws=dataset.draws, threads=1)
    assert np.array_equal(again.ids, fresh.ids)


def test_fresh_programs_of_another_seed_are_others(dataset, fresh):
    other = draw_fresh(CONFIG, 200, seed=CONFIG.seed + 1, draws=dataset.draws)
    assert (other.ids == fresh.ids).all(axis=1).mean() < 0.05
