"""A way of learning transitions of your own: tabular Q-learning over what rules can sense.

    pomp train UpNDown --method q_learning:Q_LEARNING --modes modes.txt --out runs/q
    pomp eval runs/q/UpNDown/seed0/machine --allow q_learning

run in this folder, or with it on PYTHONPATH; `--allow` says that the machine's file may name this
module. docs/EXTENDING.md says what each member is for.
"""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from pomp.learning import LearningMethod, Purpose, draw_units, open_streams, reset
from pomp.machine import EpisodeConfig, Episodes

WORLDS, PIECE = 32, 200  # worlds played side by side; macro steps of each in a piece of work
READINGS = 1 << 10  # what ten sensors can say


@dataclass(frozen=True)
class TableTransition:
    """Chooses by a table: rows are last modes (the first: the start), columns are readings."""

    choices: np.ndarray
    kind: ClassVar[str] = "q-table"

    def chooser(self, episodes):
        """Return what chooses for these worlds; random numbers are not used."""
        return lambda draws: self.choices[episodes.mode + 1, episodes.sense()]

    def to_json(self):
        """Return what machine.json holds beside the arrays: nothing."""
        return {}

    def to_arrays(self):
        """Return the table, `[K + 1, readings]` int64."""
        return {"choices": self.choices}

    @classmethod
    def from_parts(cls, values, arrays):
        """Read what `to_json` and `to_arrays` returned."""
        return cls(arrays["choices"])


@dataclass(frozen=True, kw_only=True)
class Settings:
    """What `--set NAME=VALUE` changes."""

    steps: int = 1_000_000
    """Macro steps in all."""
    rate: float = 0.1
    """How far a value moves towards what was found."""
    discount: float = 0.99
    """Factor of the value one macro step later."""
    hope: float = 0.1
    """What every choice is thought to be worth before it is tried."""
    exploration: float = 0.1
    """How often a choice is drawn at random."""


class QLearner:
    """The values of all choices, `[K + 1, readings, K + 1]`, learned in worlds side by side."""

    def __init__(self, setting, modes, seed, settings):
        self.setting, self.modes, self.seed, self.settings = setting, modes, seed, settings
        shape = (len(modes) + 1, READINGS, len(modes) + 1)
        self.values = np.full(shape, settings.hope)  # what is not tried yet looks good
        self.pieces = 0

    @property
    def progress(self):
        """How many of the macro steps are taken, from 0 to 1."""
        return min(self.pieces * WORLDS * PIECE / self.settings.steps, 1.0)

    @property
    def is_finished(self):
        """Whether all of them are."""
        return self.progress == 1.0

    def advance(self):
        """Play a piece from fresh starts, and learn from every step; returns what it earned."""
        streams = open_streams(Purpose.TRAINING, self.seed, 0, self.pieces, worlds=WORLDS)
        worlds = reset(self.setting, streams)
        episodes = Episodes(self.setting, [self.modes], worlds, EpisodeConfig(), restarts=True)
        draws = open_streams(Purpose.TRAINING, self.seed, 1, self.pieces, worlds=WORLDS)
        earned, mode, seen = 0.0, episodes.mode + 1, episodes.sense()
        for explore, chosen in draw_units(draws, 2 * PIECE).reshape(PIECE, 2, WORLDS):
            best = self.values[mode, seen].argmax(axis=1)
            drawn = (chosen * self.values.shape[2]).astype(np.int64)
            choices = np.where(explore < self.settings.exploration, drawn, best)
            episodes.step(choices)
            goes_on, before, mode = episodes.ending == 0, (mode, seen, choices), episodes.mode + 1
            seen = episodes.sense()
            later = np.where(goes_on, self.values[mode, seen].max(axis=1), 0.0)
            target = episodes.rewards + self.settings.discount * later
            np.add.at(self.values, before, self.settings.rate * (target - self.values[before]))
            earned += episodes.rewards.sum()
        self.pieces += 1
        steps = self.pieces * WORLDS * PIECE
        return {"steps": steps, "reward per step": earned / (WORLDS * PIECE)}

    def transition(self):
        """Return the best choices by the values."""
        return TableTransition(self.values.argmax(axis=2))

    def to_arrays(self):
        """Return what a checkpoint keeps: arrays, and values for JSON."""
        return {"values": self.values}, {"pieces": self.pieces}

    def restore(self, arrays, values):
        """Go on from what `to_arrays` returned."""
        self.values, self.pieces = arrays["values"], values["pieces"]


Q_LEARNING = LearningMethod("q-learning", Settings, QLearner)
