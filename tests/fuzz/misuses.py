"""No tests: public calls with something wrong in them, each to be tried in a process of its own.

A misuse is a name and a function. What comes of it must be a clear refusal, or a harmless answer
where the value happens to mean something; never a dead process, one that hangs, or an error from
the depths. Those of the kinds in `EDITED` must be refused.
"""

from dataclasses import replace
from functools import cache, partial

import numpy as np
from misused_machines import (
    ROOM,
    machines_judged,
    machines_taken_apart,
    named,
    runs_begun,
    settings_made,
    stop,
)

import pomp
from pomp.dsl import SamplerConfig
from pomp.dsl.vocabulary import LEAPS
from pomp.embedding import (
    DatasetConfig,
    demonstrate,
    load_dataset,
    make_dataset,
    random_worlds,
    save_dataset,
)
from pomp.engine import reset
from pomp.envs import KarelEnv, KarelVectorEnv, ProgramOptionEnv
from pomp.evolution import EvolveConfig
from pomp.evolution.checkpoint import machines_of
from pomp.evolution.play import play_machines
from pomp.karel import Cap
from pomp.karel.dynamics import WALL
from pomp.karel.observation import observe
from pomp.learning import Purpose, open_streams
from pomp.learning.config import PpoConfig
from pomp.machine import DecisionList, EpisodeConfig, Episodes, Rule
from pomp.modes import SearchConfig

PROGRAMS = ["DEF run m( move m)", "DEF run m( WHILE c( frontIsClear c) w( move w) putMarker m)"]
LONG_TASKS = ("Snake", "DoorKey", "InfDoorKey", "InfHarvester", "TopOff", "StairClimber")


@cache
def setting_of(name="Snake"):
    return pomp.find_task(name).configure()


def worlds_of(name="Snake", count=4):
    return pomp.draw_starts(setting_of(name), count, 0)


def run(worlds, name="Snake"):
    """Use worlds in every way there is; the first that refuses ends it."""
    found = pomp.rollout(setting_of(name), PROGRAMS, worlds, keep_worlds=True)
    assert np.isfinite(found.returns).all(), "a return that is no number"
    pomp.record(setting_of(name), PROGRAMS, worlds)
    pomp.advance(setting_of(name), PROGRAMS, worlds, np.zeros(len(worlds), int))
    for action in range(5):
        pomp.act_on(setting_of(name), worlds, np.full(len(worlds), action))
    observe(worlds)
    return found


def draw(seed, shape, low, high, dtype):
    return np.random.default_rng(seed).integers(low, high, shape, dtype)


def edited_worlds():
    """Yield worlds whose arrays were exchanged: longer, shorter, elsewhere, random."""
    most = np.iinfo(np.int32).max
    for name in LONG_TASKS:
        yield f"{name}: poses on the ring", partial(_changed, name, "pose", lambda a: a * 0 + 4)
        yield f"{name}: poses outside", partial(_changed, name, "pose", lambda a: a + most // 2)
        yield f"{name}: negative poses", partial(_changed, name, "pose", lambda a: -a)
        yield f"{name}: more poses", partial(_changed, name, "pose", lambda a: np.tile(a, 9))
        yield f"{name}: fewer poses", partial(_changed, name, "pose", lambda a: a[:1])
        yield f"{name}: wide poses", partial(_changed, name, "pose", lambda a: a.astype(np.int64))
        yield f"{name}: no walls", partial(_changed, name, "cells", lambda a: a & ~np.uint8(WALL))
        yield f"{name}: random cells", partial(_changed, name, "cells", _random_like)
        yield f"{name}: fewer cells", partial(_changed, name, "cells", lambda a: a[:, :9].copy())
        yield f"{name}: cells as floats", partial(_changed, name, "cells", lambda a: a * 1.0)
        yield f"{name}: no memory", partial(_changed, name, "memory", lambda a: a[:, :0].copy())
        yield f"{name}: too little memory", partial(_changed, name, "memory", lambda a: a[:, :-1])
        yield f"{name}: too much memory", partial(_changed, name, "memory", _wider)
        yield f"{name}: memory all zero", partial(_changed, name, "memory", lambda a: a * 0)
        yield f"{name}: large memory", partial(_changed, name, "memory", lambda a: a * 0 + most)
        yield f"{name}: memory negative", partial(_changed, name, "memory", lambda a: a * 0 - 9)
        yield f"{name}: random memory", partial(_changed, name, "memory", _random_like)
        yield f"{name}: streams as numbers", partial(_changed, name, "stream", lambda a: a.tolist())
        yield f"{name}: fewer streams", partial(_changed, name, "stream", lambda a: a[1:])
        for other in ("Maze", "Snake", "InfHarvester"):
            if other != name:
                yield f"{name} renamed {other}", partial(_renamed, name, other)


def _changed(name, field, change):
    worlds = worlds_of(name)
    run(replace(worlds, **{field: change(getattr(worlds, field))}), name)


def _renamed(name, other):
    run(replace(worlds_of(name), task=other), other)


def _random_like(array):
    limits = np.iinfo(array.dtype)
    return draw(7, array.shape, limits.min, limits.max, array.dtype)


def _wider(array):
    return np.concatenate([array, array], axis=1)


def written_objects():
    """Yield arrays of checked objects that are written afterwards."""
    yield "pose of worlds written", lambda: _write(worlds_of().pose)
    yield "cells of worlds written", lambda: _write(worlds_of().cells)
    yield "grid of worlds written", lambda: _write(worlds_of().grid)
    yield "memory of worlds written", lambda: _write(worlds_of().memory)
    for name in ("cells", "pose", "memory", "stream"):
        yield f"{name} of arrays written", partial(_write_array, name)
    yield "worlds of a rollout written", lambda: _write(run(worlds_of()).worlds.pose)
    yield "instructions written", lambda: _write(pomp.compile_programs(PROGRAMS).instructions)
    yield "constants of a setting written", lambda: _write(setting_of().constants)
    yield "grid of a map written", lambda: _write(pomp.Map.from_text(ROOM).grid)
    yield "field of worlds set", lambda: setattr(worlds_of(), "pose", None)
    yield "field of code set", lambda: setattr(pomp.compile_programs(PROGRAMS), "depth", 0)
    yield "field of a setting set", lambda: setattr(setting_of(), "height", 99)
    yield "options of a setting set", lambda: setting_of("Maze").options.update(x=1)


def _write(array):
    array[...] = array.max() + 99


def _write_array(name):
    _write(getattr(worlds_of().arrays, name))


def exchanged_parts():
    """Yield code, settings, caps, maps and machines with one part exchanged."""
    code = pomp.compile_programs(PROGRAMS)
    for name, values in {
        "instructions": [code.instructions * 0, code.instructions[:, :1], code.instructions + 9],
        "depth": [-1, 10**9, None],
        "valid": [code.valid[:0], ~code.valid],
    }.items():
        for place, value in enumerate(values):
            yield f"code with other {name} {place}", partial(_run_code, name, value)
    for name, values in {
        "height": [0, -8, 3, 500, 10**6, 8.0, "8"],
        "width": [1, 2**40, None],
        "scale": [3, 0, -1, True, "1", 2**62],
        "variant": ["none", None, 3],
        "options": [{"x": 1}, None, 7],
        "task": ["Snake", None],
    }.items():
        for value in values:
            yield f"setting with {name} {value!r}", partial(_run_setting, name, value)
    for limit in (0, -1, 2**62, 2**31, 10**6 + 1, 1.5, "9", None, True, np.nan):
        yield f"Cap(True, {limit!r})", partial(_run_cap, Cap(True, limit))
        yield f"Cap(False, {limit!r})", partial(_run_cap, Cap(False, limit))
    for cap in (("calls", 5), Cap("yes", 5), Cap(None, 5), 220, None, "", "calls", "calls0", b"x"):
        yield f"cap {cap!r}", partial(_run_cap, cap)
    room = pomp.Map.from_text(ROOM)
    for name, values in {
        "row": [0, -1, 99, 1.0, None], "col": [0, 5, "1", 2**40], "facing": [4, -1, 77, None, 0.5],
        "grid": [room.grid * 0, room.grid[:1], room.grid.astype(float), room.grid | 192, None],
    }.items():  # fmt: skip
        for place, value in enumerate(values):
            yield f"map with other {name} {place}", partial(_run_map, name, value)


def _run_code(name, value):
    code = replace(pomp.compile_programs(PROGRAMS), **{name: value})
    pomp.rollout(setting_of(), code, worlds_of())


def _run_setting(name, value):
    setting = replace(setting_of("InfDoorKey"), **{name: value})
    pomp.rollout(setting, PROGRAMS, pomp.draw_starts(setting, 2, 0))


def _run_cap(cap):
    pomp.rollout(setting_of(), PROGRAMS, worlds_of(), cap=cap)


def _run_map(name, value):
    maze = pomp.find_task("Harvester").configure(size=(4, 6))
    pomp.begin(maze, [replace(pomp.Map.from_text(ROOM), **{name: value})])


def changed_machines():
    """Yield rules that lead nowhere, and arrays of a search's machines out of range."""
    for to in (2, -1, 99, 2**62, 1.5, "0", [0]):
        yield f"a rule to {to!r}", partial(_play_rules, Rule(to))
    for when in (("nonsense",), "markersPresent", (3,), None, ("not not idle",)):
        yield f"a rule when {when!r}", partial(_play_rules, Rule(0, when))
    for field in ("literals", "targets", "defaults", "start"):
        for value in (100, -128, 127):
            yield f"a search's {field} {value}", partial(_play_genome, field, value)
    for field in ("programs", "literals", "targets", "defaults", "start"):
        yield f"a search's {field}, cut", partial(_play_genome, field, None)
    for choices in ([9, 0, 0, 0], [-1, 0, 0, 0], [0], [0.0] * 4, None, "0", [2**62] * 4):
        yield f"episodes with choices {choices!r}", partial(_step_episodes, choices)


def _play_rules(rule):
    rules = DecisionList((Rule(0),), (((rule, Rule(None)) if rule.when else (rule,)),))
    pomp.evaluate(pomp.ProgramMachine("StairClimber", PROGRAMS[:1], rules), episodes=2)


def _play_genome(field, value):
    ids = np.array([LEAPS.encode(PROGRAMS[0].split())], np.uint8)[None]
    arrays = {
        "programs": ids, "literals": np.full((1, 1, 4, 2), -1, np.int8),
        "targets": np.full((1, 1, 4), -1, np.int8), "defaults": np.ones((1, 1), np.int8),
        "start": np.zeros(1, np.int8),
    }  # fmt: skip
    arrays[field] = arrays[field][:, :0] if value is None and field != "start" else arrays[field]
    if value is None:
        arrays[field] = arrays[field][:0]
    else:
        arrays[field] = np.full_like(arrays[field], value)
        arrays["targets"] = np.where(arrays["targets"] < 0, 0, arrays["targets"]).astype(np.int8)
    config = EvolveConfig(tokens=ids.shape[2])
    play_machines(setting_of(), machines_of(arrays, "", config, 1), worlds_of(), config)


def _step_episodes(choices):
    running = Episodes(setting_of(), [PROGRAMS], worlds_of(), EpisodeConfig(), restarts=True)
    running.step(np.array(choices) if isinstance(choices, list) else choices)


_JUNK = (None, -1, 0, 2.5, "three", True, 2**62, np.nan, [], {}, np.array([[1.0]]), b"\0", object())


def calls_with_junk():
    """Yield public calls that each get one argument of the wrong kind."""
    snake, two = setting_of, worlds_of
    calls = {
        "rollout.setting": lambda x: pomp.rollout(x, PROGRAMS, two()),
        "rollout.programs": lambda x: pomp.rollout(snake(), x, two()),
        "rollout.worlds": lambda x: pomp.rollout(snake(), PROGRAMS, x),
        "rollout.lists": lambda x: pomp.rollout(snake(), PROGRAMS, two(), lists=x),
        "rollout.threads": lambda x: pomp.rollout(snake(), PROGRAMS, two(), threads=x),
        "rollout.out": lambda x: pomp.rollout(snake(), PROGRAMS, two(), out=x),
        "advance.choice": lambda x: pomp.advance(snake(), PROGRAMS, two(), x),
        "act_on.actions": lambda x: pomp.act_on(snake(), two(), x),
        "record.most_actions": lambda x: pomp.record(snake(), PROGRAMS, two(), most_actions=x),
        "record.worlds": lambda x: pomp.record(snake(), PROGRAMS, x),
        "draw_starts.setting": lambda x: pomp.draw_starts(x, 2, 0),
        "draw_starts.count": lambda x: pomp.draw_starts(snake(), x, 0),
        "draw_starts.seed": lambda x: pomp.draw_starts(snake(), 2, x),
        "draw_starts.purpose": lambda x: pomp.draw_starts(snake(), 2, 0, x),
        "draw_starts.device": lambda x: pomp.draw_starts(snake(), 2, 0, device=x),
        "reset.streams": lambda x: reset(snake(), x),
        "begin.maps": lambda x: pomp.begin(snake(), x),
        "begin.streams": lambda x: pomp.begin(snake(), [two().map_of(0)], x),
        "enumerate_starts.most": lambda x: pomp.enumerate_starts(snake(), x),
        "compile_ids": pomp.compile_ids,
        "compile_ids.vocabulary": lambda x: pomp.compile_ids(np.zeros((1, 4), np.uint8), x),
        "compile_programs": pomp.compile_programs,
        "parse": pomp.parse,
        "print_program": pomp.print_program,
        "sample_programs.count": lambda x: pomp.sample_programs(x, 0),
        "sample_programs.seed": lambda x: pomp.sample_programs(2, x),
        "SamplerConfig": lambda x: SamplerConfig(max_tokens=x),
        "find_task": pomp.find_task,
        "configure.size": lambda x: pomp.find_task("Maze").configure(size=x),
        "configure.scale": lambda x: pomp.find_task("Farmer").configure(scale=x),
        "configure.options": lambda x: pomp.find_task("Farmer").configure(options=x),
        "Map.from_text": pomp.Map.from_text,
        "worlds[x]": lambda x: two()[x],
        "worlds.take": lambda x: two().take(x),
        "worlds.to": lambda x: two().to(x),
        "worlds.map_of": lambda x: two().map_of(x),
        "observe.channels": lambda x: observe(two(), x),
        "evaluate.machine": pomp.evaluate,
        "evaluate.episodes": lambda x: pomp.evaluate("zoo:Snake", episodes=x),
        "evaluate.seed": lambda x: pomp.evaluate("zoo:Snake", seed=x, episodes=2),
        "evaluate.scale": lambda x: pomp.evaluate("zoo:Snake", scale=x, episodes=2),
        "load_machine": pomp.load_machine,
        "ProgramMachine.modes": lambda x: pomp.ProgramMachine("Snake", x, _stay()),
        "ProgramMachine.transition": lambda x: pomp.ProgramMachine("Snake", PROGRAMS, x).headline,
        "ProgramMachine.task": lambda x: pomp.ProgramMachine(x, PROGRAMS[:1], _stay()),
        "EpisodeConfig.cap": lambda x: EpisodeConfig(cap=x),
        "EpisodeConfig.most_steps": lambda x: EpisodeConfig(most_steps=x),
        "SearchConfig.method": lambda x: SearchConfig(method=x),
        "EvolveConfig.modes": lambda x: EvolveConfig(modes=x),
        "PpoConfig.steps": lambda x: PpoConfig(steps=x),
        "KarelEnv.task": KarelEnv,
        "KarelEnv.step": lambda x: _env().step(x),
        "KarelEnv.reset": lambda x: _env().reset(seed=x),
        "KarelVectorEnv.count": lambda x: KarelVectorEnv("Snake", num_envs=x),
        "KarelVectorEnv.step": lambda x: _vector_env().step(x),
        "ProgramOptionEnv.programs": lambda x: ProgramOptionEnv("Snake", x),
        "demonstrate.wanted": lambda x: _demonstrate(wanted=x),
        "demonstrate.most_states": lambda x: _demonstrate(most_states=x),
        "demonstrate.streams": lambda x: _demonstrate(streams=x),
        "search.tasks": lambda x: pomp.search(x, on_event=stop),
        "search.modes": lambda x: pomp.search("Snake", modes=x, on_event=stop),
        "search.seeds": lambda x: pomp.search("Snake", seeds=x, on_event=stop),
        "search.settings": lambda x: pomp.search("Snake", settings=x, on_event=stop),
        "evolve.settings": lambda x: pomp.evolve("Snake", settings=x, on_event=stop),
        "train.settings": lambda x: pomp.train("Snake", settings=x, on_event=stop),
        "evolve.rounds": lambda x: pomp.evolve("Snake", rounds=x, on_event=stop),
        "evolve.minutes": lambda x: pomp.evolve("Snake", minutes=x, on_event=stop),
        "train.modes": lambda x: pomp.train("Snake", modes=x, on_event=stop),
        "save_dataset.path": lambda x: save_dataset(_data(), x),
        "load_dataset": load_dataset,
        "machine.save": lambda x: pomp.load_machine("zoo:Snake").save(x),
        "open_streams.worlds": lambda x: open_streams(Purpose.SEARCH, 0, worlds=x),
    }  # fmt: skip
    for name, call in calls.items():
        for place, junk in enumerate(_JUNK):
            yield f"{name} {place}: {named(junk)}", partial(call, junk)


@cache
def _data():
    return make_dataset(DatasetConfig(train=4, validation=1, test=1, seed=5))


def _stay():
    return DecisionList((Rule(0),), ((Rule(None),),))


def _env():
    env = KarelEnv("Snake")
    env.reset(seed=0)
    return env


def _vector_env():
    env = KarelVectorEnv("Snake", num_envs=2)
    env.reset(seed=0)
    return env


def _demonstrate(**changes):
    given = {
        "streams": open_streams(Purpose.DATA, 0, worlds=2), "wanted": 2, "trials": 9,
        "least_states": 2, "most_states": 20,
    }  # fmt: skip
    given |= changes
    code, streams = pomp.compile_programs(PROGRAMS), given.pop("streams")
    demonstrate(code, streams, random_worlds(0.1), stop_on_error=False, **given)


def large_requests():
    """Yield requests that no memory holds, or that would run for hours."""
    yield "a billion starts", lambda: pomp.draw_starts(setting_of(), 10**9, 0)
    yield "a billion episodes", lambda: pomp.evaluate("zoo:Snake", episodes=10**9)
    yield (
        "recordings of a million actions",
        lambda: pomp.record(setting_of(), PROGRAMS, worlds_of(count=4096), cap="calls1000000"),
    )
    yield (
        "a list of a million programs",
        lambda: pomp.rollout(
            setting_of(), PROGRAMS, worlds_of(), lists=np.zeros((1, 10**6), int), cap="calls1000000"
        ),
    )
    yield (
        "a million lists in many worlds",
        lambda: pomp.rollout(
            setting_of(), PROGRAMS, worlds_of(count=65536), lists=np.zeros((10**6, 1), int)
        ),
    )
    yield "a huge grid", lambda: pomp.find_task("Maze").configure(size=(10**5, 10**5))
    yield "worlds of a huge grid", lambda: replace(worlds_of(), height=2**31, width=2**31)
    yield "a billion programs", lambda: pomp.sample_programs(10**9, 0)
    yield "a billion environments", lambda: KarelVectorEnv("Snake", num_envs=10**9)


KINDS = {
    "machines judged": dict(machines_judged()),
    "machines taken apart": dict(machines_taken_apart()),
    "runs begun": dict(runs_begun()),
    "settings made": dict(settings_made()),
    "edited worlds": dict(edited_worlds()),
    "written objects": dict(written_objects()),
    "exchanged parts": dict(exchanged_parts()),
    "large requests": dict(large_requests()),
    "changed machines": dict(changed_machines()),
    "calls with junk": dict(calls_with_junk()),
}
EDITED = ("edited worlds", "written objects", "exchanged parts", "large requests")
"""The kinds that could reach memory that is not theirs."""
