"""No tests: misuses of calls that take machines, or make them: values that are wrong, each its way.

What must come of them is told in `misuses`.
"""

from functools import cache, partial

import numpy as np

import pomp
from pomp.analysis import DistillationConfig, ExtractionConfig, distill, extract, quantise
from pomp.evolution import EvolveConfig
from pomp.hprl import HprlConfig, MetaPolicy, configure_hprl
from pomp.machine import EpisodeConfig
from pomp.machine.config import QuantisingConfig
from pomp.studio import record_episode

ROOM = "######\n#>.m.#\n#....#\n######"


def stop(event):
    """End a run at its first event, if it begins at all."""
    return True


def named(junk):
    """A short text that is the same in every process, unlike an object's address."""
    return "an object" if type(junk) is object else f"{junk!r:.30}"


def machines_judged():
    """Yield verifications, recordings and evaluations of machines."""
    for name, given in {
        "no episodes": {"episodes": 0}, "episodes below none": {"episodes": -3},
        "half an episode": {"episodes": 1.5}, "too many episodes": {"episodes": 10**9},
        "exact episodes": {"episodes": 5, "exact": True}, "a negative seed": {"seed": -1},
        "a seed as text": {"seed": "0"}, "exact where it draws": {"exact": True},
        "another scale": {"scale": 3}, "a scale as text": {"scale": "2"}, "no cap": {"cap": ""},
        "a huge cap": {"cap": "calls99999999999"}, "a cap of numbers": {"cap": 220},
        "budgets as text": {"budgets": "calls220"}, "budgets of none": {"budgets": None},
        "budgets of numbers": {"budgets": [220]}, "a wrong budget": {"budgets": ["calls-1"]},
        "a budget as list": {"budgets": [["calls220"]]}, "least as text": {"least": "much"},
        "least is no number": {"least": np.nan}, "a size of one": {"size": (8,)},
        "a size of texts": {"size": ("8", "8")}, "a tiny size": {"size": (1, 1)},
        "a huge size": {"size": (10**6, 10**6)}, "a watch that is none": {"watch": 3},
    }.items():  # fmt: skip
        yield f"verify: {name}", partial(pomp.verify, "zoo:Snake", **{"episodes": 2, **given})
    for value in (None, 5, [], "", "zoo:", "zoo:Nowhere", "zoo:Snake/none", "nowhere", b"x"):
        yield f"verify {value!r}", partial(pomp.verify, value)
        yield f"record_episode {value!r}", partial(record_episode, value)
    room = pomp.Map.from_text(ROOM)
    for name, given in {
        "a negative seed": {"seed": -1}, "half a seed": {"seed": 0.5},
        "a huge seed": {"seed": 2**70},
        "another scale": {"scale": 7}, "a start as text": {"start": ROOM},
        "a start of another size": {"start": room}, "a start as list": {"start": [room]},
        "a watch that is none": {"watch": 1},
        "greedy as text": {"greedy": "very"},
    }.items():  # fmt: skip
        yield f"record_episode: {name}", partial(record_episode, "zoo:Snake", **given)
    for value in (None, 5, "", "nowhere", ".", "/dev/zero", "a\0b"):
        yield f"MetaPolicy.load {value!r}", partial(MetaPolicy.load, value)
    for cap in ("", "calls", "calls0", "calls-5", "220", "actions1e9", 220, b"calls5", [], np.nan):
        yield f"evaluate under {cap!r}", partial(pomp.evaluate, "zoo:Snake", cap=cap, episodes=2)


def runs_begun():
    """Yield searches, evolutions and trainings that begin with what is none."""
    for name, given in {
        "sizes as text": {"sizes": "16x16"}, "sizes of numbers": {"sizes": [16]},
        "a size that is none": {"sizes": ["16"]}, "a negative size": {"sizes": ["-8x8"]},
        "a huge size": {"sizes": ["99999x99999"]}, "a size the task lacks": {"sizes": ["3x3"]},
        "sizes of none": {"sizes": None}, "thousands of sizes": {"sizes": ["8x8"] * 5000},
        "scales as number": {"scales": 2}, "scales of texts": {"scales": ["2"]},
        "a scale the task lacks": {"scales": [3]}, "a scale of none": {"scales": [0]},
        "a huge scale": {"scales": [2**62]}, "scales that are true": {"scales": [True]},
        "clean as text": {"clean": "yes"}, "from nowhere": {"from": "nowhere.machine"},
        "from another task": {"from": "zoo:Maze"}, "from a number": {"from": 5},
        "from a folder of nothing": {"from": "."}, "from a device": {"from": "/dev/zero"},
        "from nothing": {"from": ""}, "from a network": {"from": "zoo:Snake/network"},
        "from a null character": {"from": "a\0b"}, "from a long name": {"from": "a" * 9999},
    }.items():  # fmt: skip
        yield (
            f"evolve: {name}",
            partial(pomp.evolve, "Snake", rounds=1, settings=given, on_event=stop),
        )
    for name, given in {
        "from nowhere": "nowhere.txt", "from a device": "/dev/zero", "from a folder": ".",
        "from a number": 5, "from a list": [], "from nothing": "", "from a null": "a\0b",
    }.items():  # fmt: skip
        for method in ("annealing", "cem", "pomp"):
            yield (
                f"search by {method}: {name}",
                partial(
                    pomp.search, "Snake", method=method, settings={"from": given}, on_event=stop
                ),
            )
    for name, given in {
        "modes beside it": {"modes": ["DEF run m( move m)"]},
        "an embedding of another kind": "paper",
        "no embedding": "nowhere.safetensors",
        "a device as one": "/dev/zero",
    }.items():  # fmt: skip
        settings = {"settings": {"policy.embedding": given}} if isinstance(given, str) else given
        yield (
            f"train by hprl: {name}",
            partial(pomp.train, "Seeder", method="hprl", on_event=stop, **settings),
        )


def machines_taken_apart():
    """Yield distillations, extractions and quantisations."""
    for call in (distill, extract, quantise):
        name = call.__name__
        for value in (None, "zoo:Snake", 7):
            yield f"{name} {value!r}", partial(call, value)
        yield f"{name} rules", lambda call=call: call(pomp.load_machine("zoo:Snake"))
        for config in ({}, "paper", 5, EvolveConfig()):
            yield f"{name} with {named(config)}", partial(_analyse, call, config)
        for seed in (-1, 0.5, "0", 2**70):
            yield f"{name} with seed {seed!r}", partial(_analyse, call, None, seed=seed)
        if call is not quantise:
            yield f"{name} telling none", partial(_analyse, call, None, tell=5)


@cache
def _network_machine():
    """Return a machine with a network that was never taught."""
    from networks import STEP, TURN, of_network

    return of_network([STEP, TURN], memory=4), of_network([STEP, TURN])


def _analyse(call, config, **given):
    """Distil, extract or quantise a machine that this can be done with."""
    machine = _network_machine()[0 if call is quantise else 1]
    call(machine, config, **given)


def settings_made():
    """Yield settings of machines and of what is made of them."""
    for kind, values in {
        DistillationConfig: {
            "keep": [-1.0, 2.0, np.nan, "all", None], "episodes": [0, 10**9, 4.5],
            "trials": [0, None], "fits": [0, 2**40], "rules": [-1, "64"], "search": [-1, 1e300],
        },
        ExtractionConfig: {
            "sizes": [(), (0,), (65,), (2, 2), 3, None, "2", (2.0,), [True]], "keep": [1.5, np.inf],
            "choices": ["best", None], "episodes": [3, "many"], "trials": [2**62],
            "bottleneck": [None, {}, 5],
        },
        QuantisingConfig: {
            "seen_units": [0, 4097, 2.5], "window": [0], "learning_rate": [0.0, np.nan, "fast"],
            "most_states": [0, 10**12], "epochs": [-1, None], "bottleneck": [None, {}],
        },
        HprlConfig: {"policy": [None, {}], "ppo": [5], "invalid_cost": [-1.0, np.inf, "much"]},
        EpisodeConfig: {"cap": ["calls0", 7, None], "most_steps": [0, 10**12, "many"]},
    }.items():  # fmt: skip
        for name, junk in values.items():
            for value in junk:
                yield (
                    f"{kind.__name__} with {name} {named(value)}",
                    partial(kind, **{name: value}),
                )
    for name, given in {
        "a preset that is none": ("none", {}), "no preset": (None, {}),
        "an unknown setting": ("paper", {"policy.wings": 2}),
        "settings as list": ("paper", [1]), "a cap that is none": ("paper", {"policy.cap": 5}),
        "no programs": ("paper", {"policy.programs": 0}),
        "an embedding of none": ("paper", {"policy.embedding": None}),
        "a part as number": ("paper", {"ppo": 5}),
    }.items():  # fmt: skip
        yield f"configure_hprl: {name}", partial(configure_hprl, *given)
