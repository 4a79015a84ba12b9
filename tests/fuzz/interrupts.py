"""No tests: the trial of Ctrl-C. A case is a number, with which a delay is drawn.

Each kind is a call that launches compiled code for seconds or minutes. What must come of it: within
two seconds after the signal, Python has it back.
"""

import os
import signal
import threading
import time
from functools import partial

import numpy as np
from mutations import drawing
from workers import HANG, OK, WHOLE

import pomp
from pomp.core.streams import draw_normal, resample_means
from pomp.dsl.mutation import Limits, propose_programs
from pomp.dsl.vocabulary import LEAPS
from pomp.embedding import demonstrate, random_worlds
from pomp.evolution import EvolveConfig
from pomp.evolution.anneal import Annealing
from pomp.evolution.checkpoint import machines_of
from pomp.evolution.ground import Ground
from pomp.evolution.play import play_machines
from pomp.karel.observation import observe
from pomp.learning import Purpose, open_streams
from pomp.machine import EpisodeConfig, Episodes

WITHIN = 2.0
LATEST = 1500
"""Seconds until a signal is heard, and milliseconds until it is sent, at most."""
RESTLESS = "DEF run m( WHILE c( markersPresent c) w( turnLeft w) m)"
TURNS = "DEF run m( REPEAT R=19 r( REPEAT R=19 r( turnLeft r) r) m)"
LONG = "calls1000000"


def _setting(scale=1):
    return pomp.find_task("InfHarvester").configure(scale=scale)


def _worlds(count, scale=1):
    return pomp.draw_starts(_setting(scale), count, 0)


def _streams(count):
    return open_streams(Purpose.DATA, 0, worlds=count)


def _machines(count):
    """Return machines of a search that turn until they are stopped."""
    ids = np.array([LEAPS.encode(TURNS.split())], np.uint8)[None]
    arrays = {
        "programs": np.repeat(ids, count, axis=0),
        "literals": np.full((count, 1, 4, 2), -1, np.int8),
        "targets": np.full((count, 1, 4), -1, np.int8),
        "defaults": np.zeros((count, 1), np.int8), "start": np.zeros(count, np.int8),
    }  # fmt: skip
    config = EvolveConfig(tokens=ids.shape[2], patience=0)
    return machines_of(arrays, "", config, count), config


def _validate(count):
    machines, config = _machines(1)
    play_machines(_setting(16), machines, _worlds(count, 16), config, to_the_end=True)


def _anneal(count):
    machines, config = _machines(count)
    given = {"temperature_factor": 1.0, "length_factor": 1.0}
    ground = Ground.of([(_setting(), _worlds(16))])
    annealing = Annealing(_setting(), ground, machines, np.uint64(1), config, **given)
    while not annealing.is_finished and count > 1:
        annealing.advance()


def _advance(count):
    pomp.advance(_setting(), [RESTLESS], _worlds(count), np.zeros(count, int), cap=LONG)


def _compile(count):
    pomp.compile_ids(pomp.sample_programs(9, 0).repeat(count, axis=0))


def _step(count):
    config = EpisodeConfig(cap=LONG)
    episodes = Episodes(_setting(), [[RESTLESS]], _worlds(count), config, restarts=True)
    episodes.step(np.zeros(count, np.int64))


def _propose(count):
    limits = Limits()
    ids = np.full((count, limits.tokens), LEAPS.pad, np.uint8)
    propose_programs(ids, np.ones(count, np.bool_), _streams(count))


def _demonstrate(count):
    code = pomp.compile_programs([TURNS] * count)
    limits = {"wanted": 1, "trials": 1000, "least_states": 2, "most_states": 500}
    worlds = random_worlds(0.1)
    demonstrate(code, _streams(count), worlds, stop_on_error=False, cap="calls2000", **limits)


CALLS = {
    "rollout": (lambda n: pomp.rollout(_setting(), [RESTLESS] * n, _worlds(4), cap=LONG), 4096),
    "advance": (_advance, 4096),
    "record": (
        lambda n: pomp.record(_setting(), [RESTLESS] * n, _worlds(4), cap=LONG, most_actions=1),
        4096,
    ),
    "step": (_step, 4096),
    "act_on": (lambda n: pomp.act_on(_setting(), _worlds(n), np.zeros(n, int)), 1 << 20),
    "draw_starts": (_worlds, 1 << 21),
    "observe": (lambda n: observe(_worlds(n), 16), 1 << 18),
    "compile": (_compile, 99_999),
    "sample": (lambda n: pomp.sample_programs(n, 0), 400_000),
    "mutate": (_propose, 65536),
    "evolve, a round": (_anneal, 512),
    "evolve, validation": (_validate, 1000),
    "demonstrate": (_demonstrate, 500),
    "evaluate": (lambda n: pomp.evaluate("zoo:InfHarvester/text", episodes=n), 100_000),
    "resample": (lambda n: resample_means(_streams(n), np.zeros(n)), 40_000),
    "normal": (lambda n: draw_normal(_streams(n), 64), 400_000),
}


def kinds(seed):
    """Return the names of the calls."""
    return list(CALLS)


def why_not(kind):
    """Return nothing: the calls need what pomp needs."""


def prepare(kind, root):
    """Call it with little to do, so that what is needed is compiled."""
    call, _ = CALLS[kind]
    call(1)
    return OK, "", ""


def judge(kind, case, seed, root):
    """Send a signal to this process while it is at it, and see how long it takes to be heard."""
    call, count = CALLS[kind]
    if case == WHOLE:
        return prepare(kind, root)
    delay, sent = drawing(seed, kind, case).randrange(LATEST) / 1000, []
    call(1)  # compiled by now, perhaps by another process
    timer = threading.Timer(delay, partial(_send, sent))
    signal.signal(signal.SIGINT, signal.default_int_handler)
    timer.start()
    try:
        while True:
            call(count)
    except KeyboardInterrupt:
        late = time.monotonic() - sent[0]
    timer.join()
    return (OK if late <= WITHIN else HANG), f"after {delay} s", f"heard after {late:.2f} s"


def _send(sent):
    sent.append(time.monotonic())
    os.kill(os.getpid(), signal.SIGINT)
