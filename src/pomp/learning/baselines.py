"""The learned baselines: modes of one action each, and some settings of stage 3.

Their horizon is 50,000 actions (DRL's in the paper; PSMP's is not given there), and like machines
they end by choosing to or at that limit, not when the task is done.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pomp.dsl.printer import print_program
from pomp.dsl.syntax import ACTION_PROGRAMS

ACTIONS = tuple(print_program(program) for program in ACTION_PROGRAMS)
"""The actions as programs."""

HORIZON = 50_000
"""Actions an episode may take."""


@dataclass(frozen=True)
class Baseline:
    """A learned baseline.

    Attributes:
        name: as `--method` takes it.
        summary: what it is, in one line.
        changes: settings of stage 3 that differ from the preset's, by name.
        modes: the programs it chooses from.
    """

    name: str
    summary: str
    changes: Mapping[str, Any]
    modes: tuple[str, ...] = ACTIONS


PSMP = Baseline(
    "psmp",
    "the machine itself, with single actions as modes",
    {"episode.most_steps": HORIZON},
)

DRL = Baseline(
    "drl",
    "a convolutional network that sees the grid and chooses actions",
    {
        "episode.most_steps": HORIZON,
        "network.inputs": "grid",
        "ppo.steps": 128,
        "ppo.entropy": 0.1,
    },
)

PERCEPTIONS = Baseline(
    "perception-ppo",
    "a small network that sees the five perceptions and the last action",
    {"episode.most_steps": HORIZON, "network.inputs": "perceptions+mode", "ppo.steps": 128},
)

MMN = Baseline(
    "mmn",
    "a recurrent network that chooses actions, quantised; a Moore machine is extracted from it",
    # Paper: mini-batches of 32 steps. Those of a recurrent network are whole sequences, of 128.
    {**DRL.changes, "network.memory": 32, "ppo.minibatch": 128},
)

BASELINES = {one.name: one for one in (PSMP, DRL, PERCEPTIONS, MMN)}
"""The baselines by name."""
