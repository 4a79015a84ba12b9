"""Macro steps against the plain-Python tasks; decision lists; machines in files.

Long on purpose: everything here is compared with the one process written down at its top.
"""

import json
from fractions import Fraction
from itertools import product

import numpy as np
import pytest
from playing import task

from pomp.conformance.reference import Stream, execute, reference_task
from pomp.core import ConfigError, DataFileError, Purpose, open_streams
from pomp.dsl import LEAPS, sample_programs
from pomp.engine import BY_CHOICE, BY_LIMIT, draw_starts, reset
from pomp.machine import (
    DecisionList,
    EpisodeConfig,
    Episodes,
    NetworkConfig,
    NetworkTransition,
    ProgramMachine,
    Rule,
    Shape,
    draw_weights,
    evaluate,
)

LONG = ("Seesaw", "UpNDown", "Farmer", "InfDoorKey", "InfHarvester")
SHORT = ("StairClimber", "FourCorner", "Maze", "CleanHouse", "Harvester", "DoorKey", "Snake")
FLAG = 64  # of a cell; only some tasks show theirs to the world
PERCEPTIONS = ("frontIsClear", "leftIsClear", "rightIsClear", "markersPresent", "noMarkersPresent")
WALK = "DEF run m( move turnLeft move m)"
SPIN = "DEF run m( WHILE c( not c( markersPresent c) c) w( turnLeft w) m)"


def programs(count, seed):
    return [" ".join(LEAPS.decode(row)) for row in sample_programs(count, seed).tolist()]


# ---------------------------------------------------------------- the process, written down again


class PlainEpisodes:
    """One world, its modes and the macro decision process, in plain Python."""

    def __init__(self, setting, modes, stream, cap="calls220", most=1000, *, last_words=False):
        options = {
            name: float(value) if isinstance(value, Fraction) else value
            for name, value in setting.options.items()
        }
        name, variant = setting.task.name, setting.variant
        self.task = reference_task(name, variant, options, scale=setting.scale)
        self.task.reset(Stream(int(stream)))
        self.modes, self.cap, self.most, self.last_words = modes, cap, most, last_words
        self.mode, self.taken, self.ending, self.cuts = -1, 0, 0, 0

    def step(self, choice):
        """Returns the reward and how the episode ended."""
        rewards, is_end = [], choice == len(self.modes)
        text = "DEF run m( turnLeft turnLeft turnLeft turnLeft m)" if is_end else None
        if not is_end or self.last_words:
            done = execute(
                text or self.modes[choice],
                lambda action: rewards.append(self.task.act(action)),
                lambda name: self.task.world.perceive(name),
                self.cap,
            )
            self.cuts += not done.completed
        self.mode, self.taken = choice, self.taken + 1
        self.ending = BY_CHOICE if is_end else BY_LIMIT if self.taken == self.most else 0
        return sum(rewards)

    def restart(self):
        self.task.reset(self.task.stream)
        self.mode, self.taken, self.ending, self.cuts = -1, 0, 0, 0


def check_world(worlds, world, plain):
    """The compiled world is what the plain one is."""
    mask = 255 if worlds.task in ("OneStroke", "InfHarvester") else 255 - FLAG
    theirs = plain.task.world
    cells = np.frombuffer(theirs.to_bytes(), np.uint8)
    assert ((worlds.cells[world] ^ cells) & mask == 0).all()
    pose = (worlds.row[world], worlds.col[world], worlds.facing[world])
    assert pose == (theirs.row, theirs.col, theirs.facing)
    assert int(worlds.stream[world]) == plain.task.stream.state
    assert bool(worlds.done[world]) == plain.task.done
    assert worlds.actions[world] == plain.task.actions


def open_worlds(setting, sets, each, seed, config, *, restarts):
    """Compiled and plain episodes from the same streams."""
    streams = open_streams(Purpose.TRAINING, seed, worlds=each * len(sets))
    episodes = Episodes(setting, sets, reset(setting, streams), config, restarts=restarts)
    settings = (config.cap, config.most_steps * setting.scale)
    plain = [
        PlainEpisodes(setting, sets[i // each], stream, *settings, last_words=config.last_words)
        for i, stream in enumerate(streams)
    ]
    return episodes, plain


def check_episodes(setting, sets, config, *, restarts, steps, seed, each=3, ends=0.15):
    """Random choices; everything is compared after every step. Returns how episodes ended."""
    draw = np.random.default_rng(seed)
    episodes, plain = open_worlds(setting, sets, each, seed, config, restarts=restarts)
    total, endings = np.zeros(len(plain)), []
    for _ in range(steps):
        choices = np.array([draw.integers(len(one.modes)) for one in plain])
        ending = draw.random(len(plain)) < ends
        choices[ending] = [
            len(one.modes) for one, is_end in zip(plain, ending, strict=True) if is_end
        ]
        episodes.step(choices)
        for i, one in enumerate(plain):
            is_over = one.ending != 0
            reward = 0.0 if is_over else one.step(int(choices[i]))
            total[i] += reward
            assert episodes.ending[i] == one.ending
            if setting.variant != "leaps":  # which pays a level, not what it has grown by
                assert episodes.rewards[i] == pytest.approx(reward, abs=1e-9)
            assert episodes.returns[i] == pytest.approx(one.task.value(), abs=1e-9)
            if setting.variant != "leaps":
                assert episodes.returns[i] == pytest.approx(total[i], abs=1e-9)
            if one.ending and not is_over:
                endings.append(one.ending)
            if one.ending and restarts:
                one.restart()
                total[i] = 0.0
            check_world(episodes.worlds, i, one)
            assert episodes.cuts[i] == one.cuts
            if restarts or not one.ending:
                assert (episodes.mode[i], episodes.taken[i]) == (one.mode, one.taken)
    return endings


@pytest.mark.parametrize("name", LONG + SHORT)
def test_macro_steps_are_those_of_the_plain_world(name):
    sets = [programs(3, 1), programs(5, 2)]
    setting = task(name)
    check_episodes(setting, sets, EpisodeConfig(), restarts=False, steps=12, seed=1)
    config = EpisodeConfig(most_steps=4)
    endings = check_episodes(setting, sets, config, restarts=True, steps=15, seed=2)
    assert {BY_CHOICE, BY_LIMIT} <= set(endings)


VARIANTS = [("Seesaw", "paper"), ("UpNDown", "paper"), ("Maze", "leaps"), ("Harvester", "leaps")]


@pytest.mark.parametrize(("name", "variant"), [*VARIANTS, ("TopOff", "paper")])
@pytest.mark.parametrize("last_words", [False, True])
def test_other_variants_and_last_words(name, variant, last_words):
    config = EpisodeConfig(cap="actions200", most_steps=5, last_words=last_words)
    setting = task(name, variant)
    for restarts in (True, False):
        check_episodes(setting, [programs(4, 3)], config, restarts=restarts, steps=10, seed=3)


def test_rewards_of_an_episode_add_up_to_its_return():
    for name in LONG:
        setting = task(name)
        worlds = draw_starts(setting, 4, 0)
        modes = programs(5, 4)
        episodes = Episodes(setting, [modes], worlds, EpisodeConfig(), restarts=False)
        plain = PlainEpisodes(setting, modes, open_streams(Purpose.EVALUATION, 0, worlds=1)[0])
        total = 0.0
        for choice in (0, 3, 1, 4, 2, 2, 0, 5):
            episodes.step(np.full(4, choice))
            plain.step(choice)
            total += episodes.rewards[0]
        assert total == pytest.approx(plain.task.total, abs=1e-12)
        assert episodes.returns[0] == pytest.approx(plain.task.total, abs=1e-12)
        assert plain.task.actions > 10


# ---------------------------------------------------------------- ends


@pytest.mark.parametrize("name", LONG + SHORT)
def test_to_end_at_once_is_worth_nothing(name):
    setting = task(name)
    for last_words in (False, True):
        worlds = draw_starts(setting, 5, 0)
        before = worlds.copy()
        config = EpisodeConfig(last_words=last_words)
        episodes = Episodes(setting, [[WALK, SPIN]], worlds, config, restarts=False)
        episodes.step(np.full(5, 2))
        expected = -4e-4 if last_words and name in LONG else 0.0
        assert (episodes.ending == BY_CHOICE).all()
        assert episodes.rewards == pytest.approx([expected] * 5, abs=1e-15)
        assert episodes.returns == pytest.approx([expected] * 5, abs=1e-15)
        assert (worlds.pose == before.pose).all()
        assert (worlds.actions == (4 if last_words else 0)).all()


def test_scaling_divides_the_cost_of_the_last_words():
    config = EpisodeConfig(last_words=True)
    setting = task("Seesaw", scale=4)
    episodes = Episodes(setting, [[WALK]], draw_starts(setting, 1, 0), config, restarts=False)
    episodes.step(np.array([1]))
    assert episodes.returns[0] == pytest.approx(-1e-4, abs=1e-15)


@pytest.mark.parametrize(("scale", "most"), [(1, 1000), (2, 2000)])
def test_a_thousand_modes_times_the_scale_are_the_limit(scale, most):
    setting = task("Farmer", scale=scale)
    worlds = draw_starts(setting, 2, 0)
    episodes = Episodes(
        setting, [["DEF run m( turnLeft m)"]], worlds, EpisodeConfig(), restarts=False
    )
    for step in range(1, most + 1):
        episodes.step(np.array([0, 0 if step < most else 1]))
        if step < most:
            assert (episodes.ending == 0).all()
    assert episodes.ending.tolist() == [BY_LIMIT, BY_CHOICE]
    assert worlds.actions.tolist() == [most, most - 1]
    assert episodes.returns[0] == pytest.approx(-1e-4 / scale * most, abs=1e-9)


def test_what_has_ended_stays_as_it_is():
    setting = task("InfHarvester")
    worlds = draw_starts(setting, 3, 0)
    modes = ["DEF run m( pickMarker move m)", WALK]
    episodes = Episodes(setting, [modes], worlds, EpisodeConfig(most_steps=2), restarts=False)
    for choices in ([0, 1, 2], [0, 2, 0]):
        episodes.step(np.array(choices))
    kept, worth, taken = worlds.copy(), episodes.returns.copy(), episodes.taken.copy()
    assert episodes.ending.tolist() == [BY_LIMIT, BY_CHOICE, BY_CHOICE]
    for choices in ([0, 0, 1], [2, 2, 2]):
        episodes.step(np.array(choices))
        assert (episodes.rewards == 0).all()
    assert episodes.ending.tolist() == [BY_LIMIT, BY_CHOICE, BY_CHOICE]
    assert (episodes.returns == worth).all()
    assert (episodes.taken == taken).all()
    for old, new in zip(kept.arrays, worlds.arrays, strict=True):
        assert np.array_equal(old, new)


def test_new_episodes_have_fresh_starts_of_the_worlds_own_stream():
    setting = task("InfDoorKey")
    streams = open_streams(Purpose.TRAINING, 3, worlds=16)
    worlds = reset(setting, streams)
    first = worlds.copy()
    episodes = Episodes(setting, [[WALK]], worlds, EpisodeConfig(), restarts=True)
    episodes.step(np.ones(16, np.int64))
    second = reset(setting, first.stream)  # where the first start left the streams
    assert np.array_equal(worlds.cells, second.cells)
    assert np.array_equal(worlds.pose, second.pose)
    assert np.array_equal(worlds.stream, second.stream)
    assert not np.array_equal(worlds.cells, first.cells)
    assert (episodes.mode == -1).all()
    assert (episodes.ending == BY_CHOICE).all()
    episodes.step(np.zeros(16, np.int64))
    assert (episodes.ending == 0).all()
    assert (worlds.actions == 3).all()


def test_the_task_being_done_does_not_end_the_episode():
    found = 0
    for name, modes in (("StairClimber", ["DEF run m( turnLeft move turnRight move m)"]),
                        ("Harvester", programs(30, 5))):  # fmt: skip
        setting = task(name)
        worlds = draw_starts(setting, 8, 1)
        episodes = Episodes(setting, [modes], worlds, EpisodeConfig(), restarts=False)
        for step in range(60):
            done, before = worlds.done.copy(), worlds.actions.copy()
            episodes.step(np.full(8, step % len(modes)))
            assert (episodes.ending == 0).all()
            assert (episodes.rewards[done] == 0).all()
            found += int((worlds.actions[done] > before[done]).sum())
    assert found > 100


def test_after_the_goal_of_a_long_task_actions_still_cost():
    setting = task("InfDoorKey", done_ratio="0.02")
    modes = [*programs(40, 6), "DEF run m( turnLeft m)"]
    draw = np.random.default_rng(0)
    episodes, plain = open_worlds(setting, [modes], 10, 1, EpisodeConfig(), restarts=False)
    for _ in range(80):
        choices = draw.integers(len(modes) - 1, size=10)
        episodes.step(choices)
        for one, choice in zip(plain, choices, strict=True):
            one.step(int(choice))
    done = episodes.worlds.done
    assert done.any()
    assert done.tolist() == [one.task.done for one in plain]
    episodes.step(np.full(10, len(modes) - 1))
    assert (episodes.ending == 0).all()
    assert episodes.rewards[done] == pytest.approx(np.full(done.sum(), -1e-4), abs=1e-12)


# ---------------------------------------------------------------- caps, sets


def test_every_execution_has_its_own_budget():
    setting = task("UpNDown")
    for cap, actions in (("calls220", 217), ("actions200", 200), ("calls500", 497)):
        worlds = draw_starts(setting, 1, 0)
        config = EpisodeConfig(cap=cap)
        episodes = Episodes(setting, [[SPIN]], worlds, config, restarts=False)
        for step in range(1, 4):
            episodes.step(np.array([0]))
            assert worlds.actions[0] == actions * step


def test_the_default_cap_and_limit():
    config = EpisodeConfig()
    assert (config.cap, config.most_steps, config.last_words) == ("calls220", 1000, False)


def test_sets_in_one_batch_run_as_each_alone():
    setting = task("InfHarvester")
    sets = [programs(count, count) for count in (3, 1, 5)]
    streams = open_streams(Purpose.TRAINING, 4, worlds=12)
    together = Episodes(setting, sets, reset(setting, streams), EpisodeConfig(), restarts=True)
    alone = [
        Episodes(
            setting,
            [one],
            reset(setting, streams[4 * i : 4 * i + 4]),
            EpisodeConfig(),
            restarts=True,
        )
        for i, one in enumerate(sets)
    ]
    draw = np.random.default_rng(1)
    for _ in range(20):
        choices = np.concatenate([draw.integers(len(one) + 1, size=4) for one in sets])
        together.step(choices)
        for i, own in enumerate(alone):
            own.step(choices[4 * i : 4 * i + 4])
    for i, own in enumerate(alone):
        rows = slice(4 * i, 4 * i + 4)
        pairs = zip(
            (*together.state, *together.worlds.arrays),
            (*own.state, *own.worlds.arrays),
            strict=True,
        )
        for whole, part in pairs:
            assert np.array_equal(whole[rows], part)


def test_worlds_are_dealt_out_in_equal_shares():
    setting = task("Seesaw")
    for sets in ([[WALK], [WALK]], [], [[WALK], [], [WALK]]):
        with pytest.raises(ConfigError):
            Episodes(setting, sets, draw_starts(setting, 3, 0), EpisodeConfig(), restarts=False)


# ---------------------------------------------------------------- decision lists


def bits_of(holds):
    """The bits of a situation in which the named perceptions of the first four hold."""
    return sum(1 << PERCEPTIONS.index(name) for name in holds)


def situations():
    """Every set of perceptions that can hold at once, and its bits."""
    for flags in product([False, True], repeat=4):
        holds = {name for name, flag in zip(PERCEPTIONS, flags, strict=False) if flag}
        yield bits_of(holds), holds if flags[3] else holds | {"noMarkersPresent"}


def decide(rules, holds, end):
    for to, when in rules:
        if all((n.removeprefix("not ") in holds) != n.startswith("not ") for n in when):
            return end if to is None else to
    raise AssertionError("no rule holds")


def random_rules(draw, modes):
    rules = []
    for _ in range(draw.integers(0, 4)):
        names = draw.choice(PERCEPTIONS, draw.integers(1, 4), replace=False)
        when = tuple(f"not {n}" if draw.random() < 0.5 else str(n) for n in names)
        rules.append((int(draw.integers(modes)) if draw.random() < 0.7 else None, when))
    return [*rules, (int(draw.integers(modes)), ())]


@pytest.mark.parametrize("seed", range(20))
def test_the_first_rule_that_holds_decides(seed):
    draw = np.random.default_rng(seed)
    modes = int(draw.integers(1, 6))
    lists = [random_rules(draw, modes) for _ in range(modes + 1)]
    start_rules, *after = [tuple(Rule(to, when) for to, when in rules) for rules in lists]
    table = DecisionList(start_rules, tuple(after)).table()
    assert len(table) == modes + 1
    for row, rules in enumerate(lists):
        for bits, holds in situations():  # wherever markers are, idle or not
            assert (table[row, bits::16] == decide(rules, holds, modes)).all()


def test_perceptions_of_worlds_are_the_plain_ones():
    setting = task("Harvester")
    streams = open_streams(Purpose.TRAINING, 5, worlds=20)
    modes = programs(4, 7)
    episodes = Episodes(setting, [modes], reset(setting, streams), EpisodeConfig(), restarts=False)
    plain = [PlainEpisodes(setting, modes, stream) for stream in streams]
    seen = set()
    for choice in (0, 1, 2, 3):
        episodes.step(np.full(20, choice))
        for bits, one in zip(episodes.sense() % 16, plain, strict=True):
            one.step(choice)
            holds = [name for name in PERCEPTIONS[:4] if one.task.world.perceive(name)]
            assert bits == bits_of(holds)
            seen.add(int(bits))
    assert len(seen) > 3


LISTS = DecisionList(
    (Rule(1, ("not frontIsClear",)), Rule(0)),
    ((Rule(None, ("markersPresent", "leftIsClear")), Rule(1, ("noMarkersPresent",)), Rule(0)),
     (Rule(0, ("frontIsClear", "not rightIsClear")), Rule(2)), (Rule(None),)),
)  # fmt: skip
THREE = ("DEF run m( move m)", "DEF run m( turnLeft pickMarker m)", WALK)


def test_a_machine_of_rules_plays_as_the_plain_one():
    machine = ProgramMachine("Harvester", THREE, LISTS)
    found = evaluate(machine, episodes=10, seed=3)
    streams = open_streams(Purpose.EVALUATION, 3, worlds=10)
    setting = machine.configure()
    for i, stream in enumerate(streams):
        plain = PlainEpisodes(setting, THREE, stream)
        while not plain.ending:
            holds = {name for name in PERCEPTIONS if plain.task.world.perceive(name)}
            rules = (LISTS.start, *LISTS.after)[plain.mode + 1]
            plain.step(decide([(rule.to, rule.when) for rule in rules], holds, 3))
        assert found.returns[i] == pytest.approx(plain.task.total, abs=1e-12)
        assert found.actions[i] == plain.task.actions
        assert bool(found.ended[i]) == (plain.ending == BY_CHOICE)
        assert found.programs[i] == plain.taken - (plain.ending == BY_CHOICE)


def test_rules_that_cannot_be_followed_are_refused():
    with pytest.raises(DataFileError):
        DecisionList((Rule(0, ("frontIsClear",)),), ((Rule(0),),))  # what if not?
    with pytest.raises(DataFileError):
        DecisionList((), ((Rule(0),),))
    for wrong in (1, 7, -1):
        with pytest.raises(DataFileError):
            DecisionList((Rule(wrong),), ((Rule(0),),))


# ---------------------------------------------------------------- files


def network_machine(modes=THREE, name="Seesaw", seed=1):
    setting = task(name)
    config = NetworkConfig(hidden=16)
    size = (setting.height, setting.width)
    arrays = draw_weights(Shape(config, *size, len(modes)), np.uint64(seed))
    draw = np.random.default_rng(seed)
    for array in arrays.values():
        array += draw.normal(size=array.shape).astype(np.float32) * 0.1
    return ProgramMachine(
        name,
        tuple(modes),
        NetworkTransition(config, size, len(modes), arrays),
        options={},
        episode=EpisodeConfig(cap="actions200", most_steps=50, last_words=True),
        provenance={"seed": 3, "note": "ü"},
    )


def list_machine():
    return ProgramMachine("StairClimber", THREE, LISTS, variant="hprl")


@pytest.mark.parametrize("make", [network_machine, list_machine])
def test_machines_come_back_from_files_as_they_were(make, tmp_path):
    machine = make()
    machine.save(tmp_path / "new" / "folder")
    back = ProgramMachine.load(tmp_path / "new" / "folder")
    for name in ("task", "modes", "variant", "options", "episode", "provenance"):
        assert getattr(back, name) == getattr(machine, name)
    assert type(back.transition) is type(machine.transition)
    assert back.transition.to_json() == machine.transition.to_json()
    arrays, read = machine.transition.to_arrays(), back.transition.to_arrays()
    assert arrays.keys() == read.keys()
    assert all(np.array_equal(arrays[name], read[name]) for name in arrays)
    ours, theirs = (evaluate(one, episodes=6, seed=2) for one in (machine, back))
    assert np.array_equal(ours.returns, theirs.returns)
    assert ours.programs.sum() > 6
    back.save(tmp_path / "again")
    for path in (tmp_path / "new" / "folder").iterdir():
        assert path.read_bytes() == (tmp_path / "again" / path.name).read_bytes()


def test_act_is_a_macro_step_of_the_episode():
    machine = network_machine()
    setting = machine.configure()
    world = draw_starts(setting, 1, 5)
    plain = PlainEpisodes(
        setting,
        machine.modes,
        open_streams(Purpose.EVALUATION, 5, worlds=1)[0],
        "actions200",
        last_words=True,
    )
    machine.reset(seed=1)
    for _ in range(200):
        done = machine.act(world)
        choice = 3 if done.mode is None else done.mode
        before = plain.task.actions
        assert done.reward == pytest.approx(plain.step(choice), abs=1e-12)
        assert done.actions == plain.task.actions - before
        assert done.program == (None if done.mode is None else machine.modes[done.mode])
        check_world(world, 0, plain)
        if done.mode is None:
            break
        assert machine.current == done.mode
    assert plain.ending == BY_CHOICE


def change_json(folder, change):
    path = folder / "machine.json"
    values = json.loads(path.read_text())
    del values["checksum"]
    change(values)
    path.write_text(json.dumps(values))


def cut_file(folder, name):
    path = folder / name
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def only(folder, name):
    (folder / name).unlink()


def put(*path, value):
    """A change of one entry of the file."""

    def change(values):
        for key in path[:-1]:
            values = values[key]
        values[path[-1]] = value

    return lambda folder: change_json(folder, change)


NETWORK_DAMAGES = {
    "cut json": lambda folder: cut_file(folder, "machine.json"),
    "no json": lambda folder: only(folder, "machine.json"),
    "no object": lambda folder: (folder / "machine.json").write_text("[1, 2]"),
    "no text": lambda folder: (folder / "machine.json").write_bytes(b"\xff\xfe\x00{"),
    "newer": put("format", value=999),
    "format is text": put("format", value="1"),
    "cut weights": lambda folder: cut_file(folder, "machine.safetensors"),
    "no weights": lambda folder: only(folder, "machine.safetensors"),
    "fewer modes": lambda folder: change_json(folder, lambda values: values["modes"].pop()),
    "more modes": lambda folder: change_json(folder, lambda values: values["modes"].append(WALK)),
    "no modes": put("modes", value=[]),
    "modes are a number": put("modes", value=7),
    "a mode is a number": put("modes", 0, value=7),
    "transition has other modes": put("transition", "modes", value=4),
    "modes of infinity": put("transition", "modes", value=float("inf")),
    "other size": put("transition", "size", value=[8, 8]),
    "half a size": put("transition", "size", value=[16]),
    "other width": put("transition", "config", "hidden", value=32),
    "unknown setting": put("transition", "config", "colour", value="red"),
    "other kind": put("transition", "kind", value="oracle"),
    "task is a number": put("task", value=5),
    "variant is a number": put("variant", value=5),
    "options are a list": put("options", value=["start"]),
    "no transition": put("transition", value=None),
    "bad cap": put("episode", "cap", value="never"),
    "no steps": put("episode", "most_steps", value=0),
    "no episode": lambda folder: change_json(folder, lambda values: values.pop("episode")),
}


def check_one_line(folder):
    with pytest.raises(DataFileError) as raised:
        ProgramMachine.load(folder)
    text = str(raised.value)
    assert text
    assert "\n" not in text
    assert str(folder) in text


@pytest.mark.parametrize("damage", NETWORK_DAMAGES.values(), ids=NETWORK_DAMAGES)
def test_bad_files_are_refused_in_one_line(damage, tmp_path):
    network_machine().save(tmp_path)
    damage(tmp_path)
    check_one_line(tmp_path)


def test_a_program_that_does_not_parse_is_refused(tmp_path):
    network_machine().save(tmp_path)
    put("modes", 1, value="DEF run m( move jump m)")(tmp_path)
    with pytest.raises(DataFileError, match="jump") as raised:
        ProgramMachine.load(tmp_path)
    assert str(raised.value).count("\n") <= 2  # a syntax error may show where it is


LIST_DAMAGES = {
    "no start": put("transition", "start", value=[]),
    "leads nowhere": put("transition", "start", 1, "to", value=3),
    "leads below": put("transition", "start", 1, "to", value=-1),
    "leads to a word": put("transition", "after", 0, 0, "to", value="home"),
    "unknown perception": put("transition", "after", 0, 0, "when", value=["sunShines"]),
    "one list too few": lambda folder: change_json(
        folder, lambda v: v["transition"]["after"].pop()
    ),
    "rules are words": put("transition", "after", 0, value=["a", "b"]),
}


@pytest.mark.parametrize("damage", LIST_DAMAGES.values(), ids=LIST_DAMAGES)
def test_bad_rules_are_refused_in_one_line(damage, tmp_path):
    list_machine().save(tmp_path)
    damage(tmp_path)
    check_one_line(tmp_path)


def test_a_network_does_not_look_at_a_grid_of_another_size():
    machine = network_machine()
    setting = task("Farmer")
    with pytest.raises(ConfigError):
        machine.episodes(setting, draw_starts(setting, 1, 0))
