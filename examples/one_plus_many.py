"""A search method of your own: keep one program, and try many changes of it at a time.

    pomp search Maze --method one_plus_many:ONE_PLUS_MANY --out runs/maze
    pomp search Maze --method one_plus_many:ONE_PLUS_MANY --set proposer.children=64 --out runs/more
    pomp report runs/maze

run in this folder, or with it on PYTHONPATH. Everything a method needs comes from `pomp.modes`;
docs/EXTENDING.md says what each member is for.
"""

from dataclasses import dataclass

import numpy as np

from pomp.modes import Limits, Method, branch, propose_programs

LIMITS = Limits(tokens=45, depth=4, body=6)


@dataclass(frozen=True, kw_only=True)
class Settings:
    """What `--set proposer.NAME=VALUE` changes."""

    children: int = 32
    """Programs that are tried at a time."""
    patience: int = 50
    """Iterations without a better child before it starts over from random programs."""
    candidates: int = 100_000
    """Budget: how many programs are tried at most."""
    solved_score: float = 1.1
    """The score, bonus included, at which the search stops."""


class OnePlusMany:
    """One run: the parent stays until a child is at least as good."""

    def __init__(self, settings, stream, dimensions):
        self.settings, self.stream = settings, np.atleast_1d(stream)
        self.iteration, self.is_finished, self.evaluated = 1, False, 0
        self.parent = self.best = np.zeros(LIMITS.tokens, np.uint8)
        self.parent_score = self.best_score = self.best_plain = -np.inf
        self.failures = 0

    @property
    def proposals(self):
        """How many rows of `ask` are candidates: all of them."""
        return self.settings.children

    @property
    def progress(self):
        """How much of the budget is used up."""
        return self.evaluated / self.settings.candidates

    def ask(self):
        """Return `[N, L]` uint8: changes of the parent, or random programs if there is none."""
        children = self.settings.children
        streams = branch(branch(self.stream, self.iteration), np.arange(children))
        is_new = np.full(children, self.parent_score == -np.inf)
        return propose_programs(
            np.tile(self.parent, (children, 1)), is_new, streams, "rich", LIMITS
        )

    def tell(self, asked, scores, plain, ties):
        """Take the scores `[N]` of what was asked for; a child may become the parent."""
        settings, top = self.settings, int(np.argmax(scores))
        self.failures = 0 if scores[top] > self.parent_score else self.failures + 1
        if scores[top] >= self.parent_score:
            self.parent, self.parent_score = asked[top], float(scores[top])
        if scores[top] > self.best_score:
            self.best, self.best_score = asked[top], float(scores[top])
            self.best_plain = float(plain[top])
        if self.failures >= settings.patience:
            self.parent_score, self.failures = -np.inf, 0
        self.evaluated += len(asked)
        is_solved = self.best_plain >= settings.solved_score
        self.is_finished = is_solved or self.evaluated >= settings.candidates
        self.iteration += 1
        return slice(0, len(asked))

    VALUES = ("iteration", "evaluated", "parent_score", "best_score", "best_plain", "failures")

    def to_arrays(self):
        """Return what a checkpoint keeps: arrays, and values for JSON."""
        values = {name: getattr(self, name) for name in self.VALUES}
        return {"parent": self.parent, "best": self.best}, values

    def restore(self, arrays, values):
        """Go on from what `to_arrays` returned."""
        for name, value in {**arrays, **values}.items():
            setattr(self, name, value)


ONE_PLUS_MANY = Method(
    "one-plus-many", Settings, OnePlusMany, is_latent=False, changes={"score.starts": 32}
)
