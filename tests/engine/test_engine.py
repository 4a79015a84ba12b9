"""The compiled engine against the plain-Python reference, which shares no code with it."""

import itertools
import json
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

from pomp.conformance.reference import reference_task, run
from pomp.conformance.reference.world import Stream, World
from pomp.core.errors import ConfigError, WorldError
from pomp.core.streams import Purpose, open_streams
from pomp.dsl.bytecode import compile_ids, compile_programs
from pomp.dsl.sampling import sample_programs
from pomp.dsl.vocabulary import LEAPS
from pomp.engine.rollouts import act_on, advance, rollout
from pomp.engine.starts import begin, draw_starts
from pomp.karel.dynamics import FLAG, WALL, Facing
from pomp.karel.world import Map
from pomp.tasks.catalog import TASKS, find_task

SEED = 5
PRINTED = json.loads((Path(__file__).parents[1] / "data" / "paper_programs.json").read_text())
MODES = [program for programs in PRINTED.values() for program in programs]
NUMBERS = {
    "psi": ("0.0005", "0.005"),
    "done_ratio": ("0.99", "0.02"),
    "off_stairs_penalty": ("0", "1", "0.5"),
}


def settings_of(task):
    """Every variant with every combination of options, every scale, and two other sizes."""
    for variant, defaults in task.variants.items():
        choices = [
            [(name, choice) for choice in task.options[name].choices or NUMBERS[name]]
            for name in defaults
        ]
        for chosen in itertools.product(*choices):
            try:
                yield task.configure(variant, dict(chosen))
            except ConfigError:
                assert dict(chosen)["dense"] == "on"  # with a penalty: refused, and tested below
    for scale in task.scales[1:]:
        yield task.configure(scale=scale)
    for size in ((9, 9), (10, 13)):
        if not task.wrong_size(*size):
            yield task.configure(size=size)


def reference_of(setting):
    options = {
        name: float(value) if isinstance(value, Fraction) else value
        for name, value in setting.options.items()
    }
    size = (setting.height, setting.width)
    return reference_task(
        setting.task.name,
        setting.variant,
        options,
        scale=setting.scale,
        size=None if size == setting.task.size else size,
    )


def compare(setting, texts, lists, starts, cap):
    """Every cell, pose, counter, flag and return of both implementations."""
    worlds = draw_starts(setting, starts, SEED)
    streams = open_streams(Purpose.EVALUATION, SEED, worlds=starts)
    result = rollout(
        setting, compile_programs(texts), worlds, lists=lists, cap=cap, keep_worlds=True
    )
    after = result.worlds
    recorded = 255 if setting.task.name in ("OneStroke", "InfHarvester") else 255 - FLAG
    for q, b in np.ndindex(len(lists), starts):
        reference = reference_of(setting)
        reference.reset(Stream(int(streams[b])))
        executions = run(reference, [texts[place] for place in lists[q]], cap)
        lane, world = q * starts + b, reference.world
        where = f"{setting.task.name} {setting.variant} {dict(setting.options)} list {q} start {b}"
        cells = np.frombuffer(bytes(world.to_bytes()), np.uint8)
        assert ((after.cells[lane] ^ cells) & recorded == 0).all(), where
        pose = (after.row[lane], after.col[lane], after.facing[lane])
        assert pose == (world.row, world.col, world.facing), where
        assert after.done[lane] == reference.done, where
        assert int(after.stream[lane]) == reference.stream.state, where
        assert result.actions[q, b] == reference.actions, where
        assert result.calls[q, b] == sum(execution.calls for execution in executions), where
        assert result.completed[q, b] == all(e.completed for e in executions), where
        assert result.returns[q, b] == pytest.approx(reference.value(), abs=1e-9), where


@pytest.mark.parametrize("task", TASKS, ids=lambda task: task.name)
def test_engine_and_reference_agree_in_every_setting(task):
    texts = [" ".join(LEAPS.decode(row)) for row in sample_programs(40, SEED).tolist()] + MODES
    draw = np.random.default_rng(0)
    for setting in settings_of(task):
        lists = draw.integers(0, len(texts), (15, 4))
        compare(setting, texts, lists, starts=2, cap="calls220")
        compare(setting, texts, lists[:4], starts=2, cap="actions60")


def edited(start, draw):
    """A start with a few cells changed and the agent somewhere else."""
    grid = start.grid.copy()
    for _ in range(draw.integers(1, 5)):
        row, col = draw.integers(1, grid.shape[0] - 1), draw.integers(1, grid.shape[1] - 1)
        grid[row, col] = draw.choice([0, 0, 1, WALL])
    free = np.argwhere(grid & WALL == 0)
    row, col = free[draw.integers(len(free))]
    return Map(grid, int(row), int(col), Facing(int(draw.integers(4))))


@pytest.mark.parametrize("task", TASKS, ids=lambda task: task.name)
def test_engine_and_reference_agree_from_maps_no_task_would_draw(task):
    texts = [" ".join(LEAPS.decode(row)) for row in sample_programs(30, 8).tolist()] + MODES
    draw = np.random.default_rng(3)
    taken = 0
    for variant in task.variants:
        setting = task.configure(variant)
        for start in [draw_starts(setting, 1, seed).map_of(0) for seed in range(12)]:
            changed = edited(start, draw)
            try:
                worlds = begin(setting, [changed])
            except WorldError:
                continue
            taken += 1
            lists = draw.integers(0, len(texts), (4, 3))
            result = rollout(setting, texts, worlds, lists=lists, cap="actions80", keep_worlds=True)
            recorded = 255 if task.name in ("OneStroke", "InfHarvester") else 255 - FLAG
            for q in range(4):
                reference = reference_of(setting)
                grid, size = changed.grid, changed.grid.shape
                place = (changed.row, changed.col, int(changed.facing))
                world = World.from_bytes(grid.tobytes(), *size, *place)
                reference.begin(world, Stream(int(worlds.stream[0])))
                run(reference, [texts[index] for index in lists[q]], "actions80")
                cells = np.frombuffer(bytes(world.to_bytes()), np.uint8)
                where = f"{variant}\n{changed.to_text()}\n{[texts[i] for i in lists[q]]}"
                assert ((result.worlds.cells[q] ^ cells) & recorded == 0).all(), where
                assert result.returns[q, 0] == pytest.approx(reference.value(), abs=1e-9), where
                assert result.worlds.done[q] == reference.done, where
    assert taken >= 3


@pytest.mark.slow
@pytest.mark.parametrize("task", TASKS, ids=lambda task: task.name)
def test_engine_and_reference_agree_on_many_programs(task):
    texts = [" ".join(LEAPS.decode(row)) for row in sample_programs(2000, 77).tolist()] + MODES
    draw = np.random.default_rng(1)
    for setting in settings_of(task):
        lists = draw.integers(0, len(texts), (40, 4))
        compare(setting, texts, lists, starts=3, cap="calls220")
        compare(setting, texts, lists[:10], starts=3, cap="calls500")
        compare(setting, texts, lists[:10], starts=3, cap="actions200")


@pytest.mark.parametrize("task", [task for task in TASKS if task.suite == "KarelLong"])
def test_long_sequences_of_the_printed_modes_agree(task):
    names = {"UpNDown": "Up-N-Down", "InfDoorKey": "Inf-DoorKey", "InfHarvester": "Inf-Harvester"}
    texts = PRINTED[names.get(task.name, task.name)]
    lists = np.random.default_rng(2).integers(0, len(texts), (2, 60))
    compare(task.configure(), texts, lists, starts=2, cap="calls220")


@pytest.mark.parametrize("task", TASKS, ids=lambda task: task.name)
def test_one_thread_and_two_give_the_same_bytes(task):
    setting = task.configure()
    code = compile_ids(sample_programs(300, 3))
    worlds = draw_starts(setting, 8, 0)
    one, two = (
        rollout(setting, code, worlds, keep_worlds=True, threads=threads) for threads in (1, 2)
    )
    assert one.returns.tobytes() == two.returns.tobytes()
    assert one.actions.tobytes() == two.actions.tobytes()
    assert one.calls.tobytes() == two.calls.tobytes()
    for mine, theirs in zip(one.worlds.arrays, two.worlds.arrays, strict=True):
        assert mine.tobytes() == theirs.tobytes()


def test_what_a_program_is_batched_with_changes_nothing():
    setting = find_task("InfHarvester").configure()
    code = compile_ids(sample_programs(50, 3))
    worlds = draw_starts(setting, 4, 0)
    together = rollout(setting, code, worlds).returns
    alone = compile_ids(sample_programs(1, 3, first=17))
    assert rollout(setting, alone, worlds.take([2])).returns[0, 0] == together[17, 2]


def test_worlds_of_inf_harvester_are_equally_lucky_whatever_is_done_in_them():
    setting = find_task("InfHarvester").configure()
    lucks = []
    for seed in (1, 2):
        draw, worlds, luck = np.random.default_rng(seed), draw_starts(setting, 1, 0), []
        while len(luck) < 60:
            before = np.count_nonzero(worlds.grid & 15)
            cell = worlds.cells[0, worlds.pose[0] >> 2]
            action = int(draw.choice([0, 0, 1, 2, 3, 3]))  # move, turn, pick
            act_on(setting, worlds, [action])
            if action == 3 and cell & 15:
                luck.append(np.count_nonzero(worlds.grid & 15) == before)
        lucks.append(luck)
    assert lucks[0] == lucks[1]
    assert 10 < sum(lucks[0]) < 50


def test_a_rollout_leaves_its_worlds_alone():
    setting = find_task("Farmer").configure()
    worlds = draw_starts(setting, 4, 0)
    before = [array.copy() for array in worlds.arrays]
    rollout(setting, MODES[:3], worlds)
    for array, copy in zip(worlds.arrays, before, strict=True):
        assert (array == copy).all()


def test_advancing_program_by_program_equals_one_list():
    setting = find_task("Seesaw").configure()
    worlds = draw_starts(setting, 3, 0)
    modes = PRINTED["Seesaw"]
    order = [0, 2, 1, 0, 0]
    listed = rollout(setting, modes, worlds, lists=[order], keep_worlds=True)
    for place in order:
        result = advance(setting, modes, worlds, [place] * 3)
    assert (result.returns[:, 0] == listed.returns[0]).all()
    assert (worlds.cells == listed.worlds.cells).all()


def test_step_rewards_add_up_to_the_return():
    setting = find_task("Up-N-Down").configure()
    worlds = draw_starts(setting, 16, 0)
    draw = np.random.default_rng(0)
    total = np.zeros(16)
    for _ in range(500):
        total += act_on(setting, worlds, draw.integers(0, 5, 16))
    value = advance(setting, MODES[:1], worlds, [-1] * 16).returns[:, 0]
    assert total == pytest.approx(value, abs=1e-12)


def test_a_million_worlds_fit_into_300_megabytes():
    setting = find_task("Seeder").configure()
    worlds = draw_starts(setting, 1000, 0)
    result = rollout(setting, ["DEF run m( move m)"], worlds)
    parts = (*worlds.arrays, result.returns, result.actions, result.calls, result.completed)
    assert sum(part.nbytes for part in parts) * 1000 < 300e6


@pytest.mark.parametrize(
    ("call", "message"),
    [
        pytest.param(
            lambda s, w: act_on(s, w, [0]), "2 worlds need as many actions", id="too few actions"
        ),
        pytest.param(lambda s, w: act_on(s, w, [0, 5]), "numbers from 0", id="no such action"),
        pytest.param(
            lambda s, w: rollout(s, MODES[:2], w, lists=[[2]]), "from 0 to 1", id="no such program"
        ),
        pytest.param(lambda s, w: rollout(s, MODES[:2], w, cap="calls"), "unknown cap", id="cap"),
        pytest.param(lambda s, w: draw_starts(s, 0, 0), "at least 1", id="no starts"),
        pytest.param(lambda s, w: draw_starts(s, 1, -1), "not negative", id="negative seed"),
        pytest.param(
            lambda s, w: rollout(find_task("Seesaw").configure(), MODES[:1], w),
            "made for Seeder 8x8, not for Seesaw",
            id="worlds of another task",
        ),
    ],
)
def test_bad_arguments_are_refused_with_a_reason(call, message):
    setting = find_task("Seeder").configure()
    with pytest.raises(ConfigError, match=message):
        call(setting, draw_starts(setting, 2, 0))


def test_a_dense_reward_and_a_penalty_do_not_go_together():
    with pytest.raises(ConfigError, match="off_stairs_penalty goes with dense=off"):
        find_task("StairClimber").configure("hprl", {"dense": "on", "off_stairs_penalty": "1"})


def test_a_program_by_itself_does_what_a_list_of_it_does():
    setting = find_task("Harvester").configure()
    code = compile_ids(sample_programs(40, SEED))
    worlds = draw_starts(setting, 3, SEED)
    alone, listed = (
        rollout(setting, code, worlds),
        rollout(setting, code, worlds, lists=np.arange(len(code))[:, None]),
    )
    for name in ("returns", "actions", "calls", "completed"):
        assert (getattr(alone, name) == getattr(listed, name)).all(), name
    assert alone.actions.any()


def test_results_are_written_over_those_of_an_earlier_rollout():
    setting = find_task("Harvester").configure()
    worlds = draw_starts(setting, 3, SEED)
    earlier = rollout(setting, ["DEF run m( move m)"], worlds)
    fresh = rollout(setting, MODES[:1], worlds)
    found = rollout(setting, MODES[:1], worlds, out=earlier)
    assert np.shares_memory(found.returns, earlier.returns)
    assert (earlier.actions == fresh.actions).all()
    assert (earlier.returns == fresh.returns).all()
    assert (earlier.actions > 1).any()


def test_results_of_another_shape_are_refused():
    setting = find_task("Harvester").configure()
    worlds = draw_starts(setting, 3, SEED)
    earlier = rollout(setting, MODES[:2], worlds)
    with pytest.raises(ConfigError, match=r"shape \(1, 3\), got float64 of shape \(2, 3\)"):
        rollout(setting, MODES[:1], worlds, out=earlier)
