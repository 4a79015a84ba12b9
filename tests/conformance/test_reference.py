"""The plain-Python tasks against traces recorded from the published implementations.

Replays first, then plays by hand for what no trace shows; one file, as both need the tables.
"""

import json
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from pomp.conformance.reference import reference_task, run
from pomp.conformance.reference.world import ACTIONS, EAST, NORTH, Stream, World, execute

GOLDEN = Path(__file__).parent.parent / "golden"
RECORDED_PERCEPTIONS = ("frontIsClear", "leftIsClear", "rightIsClear", "markersPresent")
ZERO_AND_FLAG_BITS = 32 + 64
NOWHERE = (-1, -1)
KEYS = dict(zip("MLRKU", ACTIONS.values(), strict=True))  # move, left, right, pick, put

KAREL_FILES = [
    ("stairClimber_sparse", "StairClimber", {}),
    ("stairClimber", "StairClimber", {"dense": True}),
    ("fourCorners", "FourCorner", {}),
    ("topOff", "TopOff", {}),
    ("randomMaze", "Maze", {}),
    ("cleanHouse", "CleanHouse", {}),
    ("harvester", "Harvester", {}),
]
KAREL_HARD_FILES = [
    *[("doorkey", "DoorKey"), ("oneStroke", "OneStroke")],
    *[("seeder", "Seeder"), ("snake", "Snake")],
]
KAREL_LONG_FILES = [
    *[("seesaw", "Seesaw"), ("upNdown", "UpNDown"), ("farmer", "Farmer")],
    *[("infinite_doorkey", "InfDoorKey"), ("infinite_harvester", "InfHarvester")],
]
RECORDINGS = {
    **{file: (name, "leaps", options, 1) for file, name, options in KAREL_FILES},
    **{f"{file}__delta": (name, "hprl", options, 1) for file, name, options in KAREL_FILES},
    **{file: (name, "hprl", {}, 1) for file, name in KAREL_HARD_FILES},
    **{file: (name, "hipo", {}, 1) for file, name in KAREL_LONG_FILES},
    **{f"{file}__x2": (name, "hipo", {}, 2) for file, name in KAREL_LONG_FILES},
}
"""Task, variant, options and scale of every recorded file."""
RANDOM_STARTS = [
    *["stairClimber_sparse", "topOff", "randomMaze", "cleanHouse", "doorkey", "oneStroke"],
    "infinite_doorkey",
]
FIXED_STARTS = ["fourCorners", "harvester", "seeder", "snake", *(f for f, _ in KAREL_LONG_FILES)]
FIXED_STARTS.remove("infinite_doorkey")
each_recording = pytest.mark.parametrize("file", RECORDINGS)


@cache
def programs():
    return json.loads((GOLDEN / "programs.json").read_text())["tasks"]


@cache
def recording(file):
    with np.load(GOLDEN / f"{file}.npz", allow_pickle=False) as data:
        return {name: data[name] for name in data.files}


def make(file):
    name, variant, options, scale = RECORDINGS[file]
    return reference_task(name, variant, options, scale)


def world_at(data, episode, step):
    """The recorded state after a step; before the first one, that of the start."""
    size = int(data["height"]), int(data["width"])
    if step < data["ep_start"][episode]:
        i = data["ep_init"][episode]
        pose = data["init_row"][i], data["init_col"][i], data["init_facing"][i]
        return World.from_bytes(data["init_grid"][i], *size, *pose)
    pose = data["row"][step], data["col"][step], data["facing"][step]
    return World.from_bytes(data["grid"][step], *size, *pose)


def spread(lengths, groups, budget):
    """Indices that share a budget of steps among the groups, taken at even distances."""
    chosen = []
    for group in np.unique(groups):
        members = np.flatnonzero(groups == group)
        share = budget // len(np.unique(groups))
        stride = max(1, int(lengths[members].sum()) // share)
        chosen += list(members[::stride])
    return chosen


class ForcedStream:
    """Returns the draws that lead to what was recorded."""

    def __init__(self, task, data):
        self.task, self.data, self.step = task, data, -1

    def below(self, n):
        k = self.draw(tuple(self.data["spawn"][self.step].tolist()))
        assert 0 <= k < n
        return k

    def draw(self, cell):
        task, name = self.task, type(self.task).__name__
        if name == "Seesaw":
            left, right = task.chambers()
            other = right if task.world.cell in left else left
            return other.index(self.erased(other) if cell == NOWHERE else cell)
        if name == "UpNDown":
            row, was_up = task.goal[0], task.events % 2 == 0
            return [c for c in task.valid if (c[0] > row if was_up else c[0] < row)].index(cell)
        if cell == NOWHERE:
            return 0
        emptied = sorted(task.world.zero)
        return len(emptied) + emptied.index(cell)

    def erased(self, chamber):
        """Where the last marker of Seesaw was: its zero flag is set, if possible since now."""
        after, before = self.data["grid"][self.step], self.task.world.zero
        flags = [cell for cell in chamber if after[cell] & 32]
        return next((cell for cell in flags if cell not in before), flags[0])


def memory(task):
    """What a task remembers, by the names of the recorded metadata."""
    name = type(task).__name__
    held = {}
    if task.variant != "leaps" and task.logged:  # an unlogged bite leaves the old total
        held["total_markers"] = len(task.world.markers)
    elif name in ("FourCorner", "Harvester"):
        held["total_markers"] = task.board_total
    if name not in ("StairClimber", "Maze"):  # recorded as 0 there
        held["progress"] = pytest.approx(task.progress, abs=1e-9)
    if name == "OneStroke":
        held["n_visited"] = len(task.world.flagged)
    if name == "Snake":
        body = task.body + [NOWHERE] * (24 - len(task.body))
        held |= {"snake_len": task.length, "marker_pointer": task.pointer}
        held["snake_body"] = [list(cell) for cell in body]
    if name in ("Seesaw", "InfHarvester", "InfDoorKey"):
        held["marker_picked"] = task.events
    if name == "InfDoorKey":
        held["current_stage"] = task.stage
    if name == "UpNDown":
        held["reached_marker"] = task.events
        held["up_marker_pos" if task.events % 2 == 0 else "down_marker_pos"] = list(task.goal)
    if name == "Farmer":
        held |= {"marker_picked": task.picked, "marker_put": task.put}
        held |= {"harvester_mode": task.harvesting, "clean_up_iter": task.rounds}
        held["continuous_marker"] = task.in_a_row
    return held


def replay(file, episodes):
    """Play recorded episodes again and compare everything after every action."""
    data, task = recording(file), make(file)
    stream = ForcedStream(task, data)
    for episode in episodes:
        start = world_at(data, episode, -1)
        recorded_start = start.to_bytes()
        given = bytes(byte & ~ZERO_AND_FLAG_BITS for byte in recorded_start)
        task.begin(World.from_bytes(given, start.height, start.width, *pose(start)), stream)
        assert task.world.to_bytes() == recorded_start
        first = int(data["ep_start"][episode])
        for step in range(first, first + int(data["ep_len"][episode])):
            stream.step = step
            reward = task.act(int(data["action"][step]))
            compare(task, reward, data, step, f"{file}, episode {episode}, step {step - first}")


def pose(world):
    return world.row, world.col, world.facing


def compare(task, reward, data, step, where):
    world = task.world
    assert abs(reward - data["reward"][step]) < 1e-9, where
    assert (task.done, task.logged) == (data["done"][step], data["logged"][step]), where
    assert pose(world) == (data["row"][step], data["col"][step], data["facing"][step]), where
    assert world.to_bytes() == data["grid"][step].tobytes(), where
    percept = sum(world.perceive(name) << bit for bit, name in enumerate(RECORDED_PERCEPTIONS))
    assert percept == data["percept"][step], where
    for name, value in memory(task).items():
        if f"meta_{name}" in data:
            assert value == data[f"meta_{name}"][step].tolist(), f"{name}: {where}"


def replay_programs(file, executions):
    """Run recorded programs on recorded states and compare what they do."""
    data = recording(file)
    for index in executions:
        episode, first = int(data["seg_episode"][index]), int(data["seg_start"][index])
        now = {"step": first - 1, "world": world_at(data, episode, first - 1)}
        actions = []

        def act(action, episode=episode, now=now, actions=actions):
            actions.append(action)
            now["step"] += 1
            now["world"] = world_at(data, episode, now["step"])

        text = programs()[file][data["seg_program"][index]]["text"]
        cap = f"calls{data['seg_max_func_call'][index]}"
        result = execute(text, act, lambda name, now=now: now["world"].perceive(name), cap)
        recorded = data["action"][first : first + data["seg_len"][index]]
        assert actions == recorded.tolist(), f"{file}, execution {index}: {text}"
        assert result.executed == len(actions)
        assert result.calls == data["seg_n_calls"][index]
        assert result.completed == data["seg_completed"][index]


@each_recording
def test_tasks_replay_recorded_episodes(file):
    data = recording(file)
    replay(file, spread(data["ep_len"], data["ep_kind"], budget=6000))


@each_recording
def test_programs_replay_recorded_executions(file):
    data = recording(file)
    replay_programs(file, spread(data["seg_len"] + 20, data["seg_completed"], budget=2000))


@pytest.mark.slow
@each_recording
def test_everything_recorded_is_replayed(file):
    data = recording(file)
    replay(file, range(len(data["ep_len"])))
    replay_programs(file, range(len(data["seg_len"])))


@pytest.mark.parametrize("file", FIXED_STARTS)
def test_a_fixed_start_is_the_recorded_one(file):
    task = make(file)
    task.reset(Stream(1))
    recorded = world_at(recording(file), 0, -1)
    assert (task.world.to_bytes(), pose(task.world)) == (recorded.to_bytes(), pose(recorded))


@pytest.mark.parametrize("file", RANDOM_STARTS)
def test_drawn_starts_and_recorded_starts_have_the_same_walls_poses_and_markers(file):
    task, drawn, recorded = make(file), set(), set()
    for seed in range(1500):
        task.reset(Stream(seed))
        drawn |= features(task.world)
    with np.load(GOLDEN / "initial_states.npz") as data:
        grids, poses = data[f"{file}_grid"], data[f"{file}_pos"]
    for grid, at in zip(grids, poses.tolist(), strict=True):
        recorded |= features(World.from_bytes(grid, *grid.shape, *at))
    assert drawn == recorded


def features(world):
    """The parts of a start, each of which is met among a few hundred starts."""
    markers = {("marker", *item) for item in world.markers.items()}
    return {("walls", tuple(sorted(world.walls))), ("agent", *pose(world))} | markers


TRUE_LOOP = "WHILE c( not c( not c( leftIsClear c) c) c) w( {} w)"


@pytest.mark.parametrize(
    ("body", "cap", "expected"),
    [
        (TRUE_LOOP.format("move"), "calls220", (217, 221, False)),
        (TRUE_LOOP.format("move"), "calls500", (497, 501, False)),
        (TRUE_LOOP.format("turnLeft move"), "calls220", (108, None, False)),
        (TRUE_LOOP.format("turnLeft move"), "calls500", (248, None, False)),
        (TRUE_LOOP.format("turnLeft move turnRight move"), "calls220", (85, None, False)),
        (TRUE_LOOP.format("turnLeft move turnRight move"), "calls500", (197, None, False)),
        ("REPEAT R=19 r( REPEAT R=19 r( turnLeft r) r)", "calls220", (195, None, False)),
        ("REPEAT R=19 r( REPEAT R=19 r( turnLeft r) r)", "calls500", (361, 402, True)),
        ("REPEAT R=19 r( turnLeft r)", "calls220", (19, 22, True)),
        ("REPEAT R=0 r( turnLeft r)", "calls220", (0, 3, True)),
        ("REPEAT R=0 r( turnLeft r)", "calls2", (0, 3, True)),
        ("REPEAT R=0 r( turnLeft r)", "calls1", (0, 2, False)),
        ("turnLeft " * 73, "calls220", (73, 218, True)),
        ("turnLeft " * 74, "calls220", (73, 221, False)),
        ("turnLeft " * 75, "calls220", (71, None, False)),
        ("turnLeft " * 100, "calls220", (21, None, False)),
        ("turnLeft " * 110, "calls220", (1, None, False)),
        ("turnLeft " * 300, "calls220", (0, None, False)),
        ("turnLeft " * 300, "calls500", (0, None, False)),
        (TRUE_LOOP.format("IF c( rightIsClear c) i( move i)"), "calls220", (0, None, False)),
        ("turnLeft turnLeft turnLeft", "calls220", (3, 8, True)),
        (TRUE_LOOP.format("move"), "actions200", (200, 200, False)),
        ("turnLeft " * 200, "actions200", (200, 200, True)),
        ("turnLeft " * 4000, "actions5000", (4000, 4000, True)),
        (TRUE_LOOP.format("IF c( rightIsClear c) i( move i)"), "actions200", (0, 0, False)),
        ("REPEAT R=19 r( REPEAT R=0 r( move r) r) move", "actions200", (1, 1, True)),
    ],
)
def test_a_cap_stops_a_program_where_the_reference_does(body, cap, expected):
    """With the left side clear and the right side not; None where the count is not known."""
    result = execute(
        f"DEF run m( {body} m)", lambda _: None, lambda name: name == "leftIsClear", cap
    )
    executed, calls, completed = expected
    assert (result.executed, result.completed) == (executed, completed)
    assert calls is None or result.calls == calls


def play(task, keys):
    """Rewards of the actions M(ove) L(eft) R(ight) K(pick) U(put)."""
    return [task.act(KEYS[key]) for key in keys]


def started(name, *settings, at=None, facing=EAST, markers=None, **more):
    """A task reset from a fixed stream, then begun again with the agent or markers elsewhere."""
    task = reference_task(name, *settings, **more)
    task.reset(Stream(0))
    world = task.world
    if markers is not None:
        world.markers = dict.fromkeys(markers, 1)
    if at is not None:
        world.row, world.col, world.facing = *at, facing
    task.begin(world, Stream(0))
    return task


TOP_STAIRS = {"at": (2, 9), "markers": [(1, 10)]}
DENSE_TOP_STAIRS = {"options": {"dense": True}, **TOP_STAIRS}
KEY_ROOM = {"at": (1, 1), "markers": [(1, 2), (1, 5)]}
CELL, COLUMN = 1 / 36, 1 / 11


@pytest.mark.parametrize(
    ("task", "keys", "rewards", "done"),
    [
        (("Harvester", {}), "KLL", [0, CELL, 0], False),
        (("Harvester", {"variant": "paper"}), "KLL", [CELL, 0, 0], False),
        (("OneStroke", {}), "LLLL", [CELL, 0, 0, 0], False),
        (("OneStroke", {"at": (2, 1)}), "MMMMMMMM", [*[CELL] * 6, 0, 0], True),
        (("OneStroke", {"variant": "paper", "at": (2, 1)}), "MLR", [2 * CELL, 0, 0], False),
        (("Seeder", {}), "UMUU", [CELL, 0, CELL, -CELL], True),
        (("DoorKey", KEY_ROOM), "UUKK", [-0.0001, 0, 0, 0.0001], False),
        (("DoorKey", {"variant": "paper", **KEY_ROOM}), "UUKK", [0, 0, 0, 0], False),
        (("DoorKey", KEY_ROOM), "MKKUK", [0, 0.5, 0, -0.5, 0.5], False),
        (("Snake", {}), "MMMM", [0, 0, 0.05, 0], False),
        (("Snake", {}), "MMMMM", [0, 0, 0.05, 0, 0], True),
        (("FourCorner", {"at": (10, 1)}), "UUKUMU", [0.25, 0, -0.25, 0.25, 0, 0], True),
        (("FourCorner", {"variant": "leaps", "at": (10, 1)}), "UUUL", [0.25, 0, 0, 0], False),
        (("FourCorner", {"variant": "paper", "at": (10, 1)}), "UMU", [0.25, 0, -0.25], True),
        (("TopOff", {"markers": [(10, 2)]}), "MUL", [COLUMN, COLUMN, 0], False),
        (("StairClimber", TOP_STAIRS), "LMMM", [0, 0, 0, 0], False),
        (("StairClimber", DENSE_TOP_STAIRS), "LMMM", [0, 0.5, 0, -0.5], False),
        (("StairClimber", {"variant": "paper", **TOP_STAIRS}), "LLMMM", [0, 0, 0, -1, 0], True),
        (("UpNDown", {}), "LMMLUK", [-0.0001, -0.0001, *[-0.0006] * 4], False),
        (("UpNDown", {"variant": "paper"}), "LMM", [-0.0001, -0.0001, -0.0051], False),
        (("Farmer", {"at": (1, 6)}), "UK", [-0.0001, -0.0001], False),
        (("Seesaw", {}), "U", [-0.0001], False),
    ],
)
def test_short_plays_pay_what_the_specification_says(task, keys, rewards, done):
    name, settings = task
    played = started(name, **settings)
    assert play(played, keys) == pytest.approx(rewards, abs=1e-9)
    assert played.done is done


def test_sparse_top_off_pays_once_at_the_end():
    task = started("TopOff", options={"dense": False}, markers=[(10, 5), (10, 6)])
    assert play(task, "MMMMUMUMMMML") == [0] * 10 + [1, 0]


@pytest.mark.parametrize(("last_marker", "value"), [("never", 1.0), ("always", 9 / 11)])
def test_the_usual_program_does_not_top_a_marker_in_the_last_column(last_marker, value):
    program = "WHILE c( frontIsClear c) w( IF c( markersPresent c) i( putMarker i) move w)"
    for seed in range(20):
        task = reference_task("TopOff", "leaps", {"last_marker": last_marker})
        task.reset(Stream(seed))
        (execution,) = run(task, [f"DEF run m( {program} m)"], "calls220")
        assert execution.executed == task.actions
        assert task.value() == pytest.approx(value)


@pytest.mark.parametrize(("variant", "value"), [("hprl", 1.0), ("leaps", 0.0)])
def test_leaps_values_the_last_action_alone(variant, value):
    task = started("StairClimber", variant, at=(2, 9), facing=NORTH, markers=[(1, 10)])
    play(task, "MRML")
    assert task.value() == value


def test_the_signal_of_a_new_round_is_clean_only_as_an_option():
    for clean in (False, True):
        task = started("Farmer", options={"clean_signal": clean}, at=(1, 6), markers=[])
        task.world.write((1, 6), 0)
        play(task, "L")
        assert ((1, 6) in task.world.zero) is not clean
        assert task.world.perceive("markersPresent")


def finish_laps(task, events):
    """Carry out events of InfDoorKey without walking."""
    for _ in range(events):
        task.world.row, task.world.col = task.goals[task.stage]
        play(task, "KU"[task.stage % 2])


def test_the_keys_of_a_lap_stay_or_are_drawn_anew():
    for variant, events in (("hipo", 99), ("paper", 100)):
        task = started("InfDoorKey", variant)
        first = task.goals
        finish_laps(task, 4)
        assert (task.goals == first) is (variant == "hipo")
        assert set(task.world.markers) == {task.goals[0]}
        finish_laps(task, events - 5)
        assert not task.done
        finish_laps(task, 1)
        assert task.done
        assert not task.world.markers


def test_a_picked_marker_comes_back_half_of_the_time():
    back = 0
    for seed in range(400):
        task = reference_task("InfHarvester")
        task.reset(Stream(seed))
        play(task, "K")
        back += task.world.perceive("markersPresent")
    assert 160 < back < 240


def test_the_stream_is_splitmix64():
    stream = Stream(0)
    assert [stream.next(), stream.next()] == [0xE220A8397B1DCDAF, 0x6E789E6AA1B965F4]
    assert Stream(0).below(10) == 0xE220A839 * 10 >> 32


@pytest.mark.parametrize("name", sorted({name for name, *_ in RECORDINGS.values()}))
def test_every_variant_can_be_played_in_every_size_it_has(name):
    kind = type(reference_task(name))
    sizes = [(12, 12), (14, 14)] if kind.any_size else [kind.default_size]
    for variant in kind.settings:
        for size in sizes:
            task = reference_task(name, variant, size=size)
            task.reset(Stream(5))
            draws = Stream(6)
            rewards = [task.act(draws.below(5)) for _ in range(300)]
            assert task.actions <= 300
            assert task.total == pytest.approx(sum(rewards))
            assert World.from_bytes(task.world.to_bytes(), *size, *pose(task.world)) == task.world


def test_unknown_settings_are_refused():
    with pytest.raises(ValueError, match="unknown task 'Gardener'"):
        reference_task("Gardener")
    with pytest.raises(ValueError, match="variant must be one of"):
        reference_task("Seeder", "leaps")
    with pytest.raises(ValueError, match="unknown options"):
        reference_task("Seeder", options={"lag": True})
    with pytest.raises(ValueError, match="size must be"):
        reference_task("Snake", size=(9, 9))
    with pytest.raises(ValueError, match="no scale"):
        reference_task("Maze", scale=2)
