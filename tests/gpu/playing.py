"""Everything the engine does, on a device, as bytes to compare.

Run as a script it writes what the simulated GPU computed to a file: the simulator needs a process
of its own, in which nothing is compiled. The folder above must be on its path.
"""

import pickle
import sys
import warnings
from pathlib import Path

import numpy as np

from mutating import mutate_rules
from pomp.core.cuda import fill, map_arrays, to_device, to_host
from pomp.core.streams import Purpose
from pomp.dsl.bytecode import compile_ids
from pomp.dsl.sampling import SamplerConfig, sample_programs
from pomp.dsl.vocabulary import HPRL, LEAPS
from pomp.embedding.config import MAX_GENERATED
from pomp.engine.rollout_cuda import LaunchPad
from pomp.engine.rollouts import act_on, advance, rollout, run_launches
from pomp.engine.starts import draw_starts
from pomp.engine.units import CANDIDATE, Launch, Units
from pomp.evolution.anneal import Annealing
from pomp.evolution.config import EvolveConfig
from pomp.evolution.genome import askable, first_machines, with_images
from pomp.evolution.ground import some_ground
from pomp.evolution.play import play_machines
from pomp.hprl.config import MetaConfig
from pomp.hprl.episodes import ProgramEpisodes
from pomp.karel.observation import observe
from pomp.karel.sensor_set import find_sensors
from pomp.machine.config import EpisodeConfig
from pomp.machine.episodes import Episodes
from pomp.machine.transitions import DecisionList, Rule
from pomp.tasks.catalog import TASKS, find_task


def play(task, device, *, programs, starts, steps):
    """Name -> bytes of resets, rollouts, sequences, single actions and observations of a task."""
    setting = task.configure()
    code = compile_ids(sample_programs(programs, 11))
    worlds = draw_starts(setting, starts, 0, device=device)
    found = {f"start {n}": array for n, array in enumerate(worlds.copy().to("cpu").arrays)}
    draw = np.random.default_rng(4)
    for cap, lists in (
        ("calls220", np.arange(programs)[:, None]),
        ("actions60", draw.integers(-1, programs, (max(programs // 8, 1), 3))),
    ):
        result = rollout(setting, code, worlds, lists=lists, cap=cap, keep_worlds=True).to("cpu")
        found |= {f"{cap} returns": result.returns, f"{cap} actions": result.actions}
        found |= {f"{cap} calls": result.calls, f"{cap} completed": result.completed}
        found |= {f"{cap} {n}": array for n, array in enumerate(result.worlds.arrays)}
    moved = advance(setting, code, worlds, draw.integers(-1, programs, starts))
    found["advance"] = to_host(moved.returns)
    found |= launch_units(setting, code, worlds)
    found |= run_modes(setting, device, starts, steps)
    if task.name in ("Snake", "UpNDown", "InfHarvester"):  # for each it is compiled anew
        found |= run_machines(setting, worlds, EvolveConfig(sensors="compass", patience=12))
    if task.name in ("StairClimber", "UpNDown"):
        found |= run_own_programs(setting, device, starts, steps)
    if task.name == "UpNDown":
        found |= {f"own {name}": array for name, array in use_sensors(setting, worlds).items()}
    for step in range(steps):
        actions = draw.integers(0, 5, starts)
        rewards = act_on(setting, worlds, to_device(actions) if device == "cuda" else actions)
        found[f"reward {step}"] = to_host(rewards)
    for channels in (8, 16):
        found[f"planes {channels}"] = to_host(observe(worlds, channels))
    found |= {f"end {n}": array for n, array in enumerate(worlds.to("cpu").arrays)}
    return {name: np.ascontiguousarray(array).tobytes() for name, array in found.items()}


def use_sensors(setting, worlds):
    """What sensors of one's own say of worlds, and machines whose rules ask for them."""
    sys.path.append(EXAMPLES)
    try:
        own = find_sensors(SIGHT).own
    finally:
        sys.path.remove(EXAMPLES)
    config = EvolveConfig(patience=12, own_sensors=SIGHT)
    episodes = Episodes(setting, [[IDLER]], worlds.copy(), EpisodeConfig(), restarts=False)
    senses = np.array(to_host(episodes.sense(own=own)))
    return {"senses": senses, **run_machines(setting, worlds, config)}


def run_machines(setting, worlds, config):
    """Machines with rules that were changed at random, given up soon."""
    programs = sample_programs(6, 5)
    machines = first_machines(programs[:3]).grown(programs[3:])
    mutate_rules(machines, 12 * [0, 1, 2], np.arange(3, dtype=np.uint64), askable(config))
    found = play_machines(setting, machines, worlds, config)
    return {"machines": found.scores, "tallies": found.tallies}


def anneal(name, device, *, starts, chains, is_mirrored, **settings):
    """Name -> bytes of all that is known of chains of annealing after some steps, twice verified.

    What they took is left out: on a GPU a machine is played in more worlds than it has to be.
    """
    setting, config = find_task(name).configure(), EvolveConfig(steps=40, **settings)
    ground = some_ground(setting, config, starts, 0, Purpose.SEARCH, device)
    programs = np.full((2 * chains, config.tokens), LEAPS.pad, np.uint8)
    drawn = sample_programs(2 * chains, 8, SamplerConfig(max_tokens=config.tokens, max_nesting=2))
    programs[:, : drawn.shape[1]] = drawn
    machines = first_machines(programs[:chains]).grown(programs[chains:])
    rows, streams = 12 * list(range(chains)), np.arange(chains, dtype=np.uint64)
    mutate_rules(machines, rows, streams, askable(config))
    factors = {"temperature_factor": 1.0, "length_factor": 1.0, "action_factor": 1e6}
    run = Annealing(
        setting, ground, with_images(machines) if is_mirrored else machines, np.uint64(5), config,
        **factors, is_mirrored=is_mirrored,
    )  # fmt: skip
    found = {}
    for steps in (7, 9):
        run.advance(steps)
        known = map_arrays(lambda array: np.array(to_host(array)), run.chains)._asdict()
        del known["tallies"]
        for part, arrays in known.items():
            arrays = arrays._asdict() if isinstance(arrays, tuple) else {"": arrays}
            found |= {f"{steps} {part} {one}": array.tobytes() for one, array in arrays.items()}
        found[f"{steps} counts"] = run.iteration, run.evaluated, run.best_score
    return found


def launch_units(setting, code, worlds):
    """Lists with candidates, salted and repeated, twice on one pad, then more of them."""
    lists = np.array([[CANDIDATE, 0, CANDIDATE], [1, CANDIDATE, -1]], np.int32)
    pad, found = LaunchPad(), {}
    for count, rounds in ((1, 1), (4, 3)):
        table = np.array([[n % 2, n % len(code), 0] for n in range(count)], np.int32)
        salts = np.arange(count, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
        units = Units(lists, table, len(worlds), salts, rounds, patience=40)
        plain = Units(lists, table, len(worlds))
        alone = Units.alone(count, len(worlds), rounds=rounds, patience=40)
        work = [Launch(setting, code, each, worlds) for each in (units, plain, alone)]
        for name, result in zip(("salted", "plain", "alone"), run_launches(work, pad), strict=True):
            found |= {f"{name} {count} {n}": array for n, array in enumerate(result)}
    return found


def run_modes(setting, device, starts, steps):
    """Macro steps of two machines with three and two modes, and what their rules would sense."""
    texts = [" ".join(LEAPS.decode(row)) for row in sample_programs(5, 3)]
    texts[1] = IDLER
    config = EpisodeConfig(most_steps=4, last_words=True)
    worlds = draw_starts(setting, 2 * starts, 1, device=device)
    episodes = Episodes(setting, [texts[:3], texts[3:]], worlds, config, restarts=True)
    draw, found = np.random.default_rng(5), {}
    for step in range(steps):
        first, second = draw.integers(0, 4, starts), draw.integers(0, 3, starts)
        choices = np.concatenate([first, second])
        episodes.step(to_device(choices) if device == "cuda" else choices)
        found |= {f"mode {step} {n}": np.array(to_host(a)) for n, a in enumerate(episodes.state)}
        for compass in (True, False):
            senses = np.array(to_host(episodes.sense(compass=compass)))
            found[f"senses {step} {compass}"] = senses
        found[f"counted {step}"] = np.array(to_host(COUNTING.chooser(episodes)(None)))
    return found | {f"mode end {n}": array for n, array in enumerate(worlds.to("cpu").arrays)}


def run_own_programs(setting, device, starts, steps):
    """Macro steps in which every world has a program of its own, or what is none."""
    worlds = draw_starts(setting, starts, 2, device=device)
    episodes = ProgramEpisodes(setting, worlds, MetaConfig(programs=3), restarts=True)
    none, found = HPRL.encode(["DEF", "run", "m(", "m)"]), {}
    for step in range(steps):
        ids = np.full((starts, MAX_GENERATED + 1), HPRL.pad, np.uint8)
        drawn = sample_programs(starts, step, SamplerConfig(max_tokens=40), HPRL)
        ids[:, : drawn.shape[1]] = drawn
        if step % 2:
            ids[0] = HPRL.pad
            ids[0, : len(none)] = none
        code, rows = compile_ids(ids, HPRL), np.array(to_host(episodes.code))
        rows[:-1] = code.instructions
        fill(episodes.code, rows)
        fill(episodes.first, np.where(code.valid, np.arange(starts), -1).astype(np.int32))
        same = np.zeros(starts, np.int64)
        episodes.step(to_device(same) if device == "cuda" else same)
        found |= {f"own {step} {n}": np.array(to_host(a)) for n, a in enumerate(episodes.state)}
    return found | {f"own end {n}": array for n, array in enumerate(worlds.to("cpu").arrays)}


ANNEALED = {
    "UpNDown": {"starts": 16, "chains": 3, "is_mirrored": False, "sensors": "compass"},
    "Seesaw": {"starts": 34, "chains": 2, "is_mirrored": True, "sizes": ("12x12",)},
    "Farmer": {"starts": 4, "chains": 2, "is_mirrored": True, "clean": False},
    "DoorKey": {"starts": 8, "chains": 3, "is_mirrored": False, "patience": 60},
}
"""Chains by task: of few and of many worlds, of several sizes, clean and not."""
COUNTING = DecisionList(
    (Rule(1, ("markers at least 2", "free ahead below 4")), Rule(0)),
    (
        (Rule(2, ("way left at least 1",)), Rule(1, ("not row below 3", "marker ahead")), Rule(0)),
        (Rule(0, ("walls at least 30", "heading below 2")), Rule(2, ("idle",)), Rule(1)),
        (Rule(None, ("markers here at least 1", "column below 4")), Rule(0)),
    ),
)
IDLER = "DEF run m( IF c( markersPresent c) i( IF c( noMarkersPresent c) i( move i) i) m)"
EXAMPLES = str(Path(__file__).parents[2] / "examples")
SIGHT = ("sight:AHEAD", "sight:LEFT", "sight:RIGHT")
SMALL = {"programs": 4, "starts": 2, "steps": 5}

if __name__ == "__main__":
    warnings.simplefilter("ignore")  # NumPy's scalars warn where 64-bit numbers wrap round
    with open(sys.argv[1], "wb") as file:
        played = {task.name: play(task, "cuda", **SMALL) for task in TASKS}
        annealed = {name: anneal(name, "cuda", **more) for name, more in ANNEALED.items()}
        pickle.dump({"played": played, "annealed": annealed}, file)
