"""An episode in words and events: what happened, why this mode, and where to look."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pomp.analysis.explanation import tell_choice, tell_conditions
from pomp.dsl.words import ACTION_WORDS
from pomp.engine.moments import NOTHING
from pomp.karel.interpreter import Ending
from pomp.machine.policy import STOP
from pomp.machine.transitions import DecisionList
from pomp.studio.recording import RecordedEpisode

KINDS = MODE, REWARD, PENALTY, BUMP, CUT, DONE = tuple(range(6))
"""Kinds of events."""

_IDLE, _OVER = "The mode ends without an action.", "The episode ends."


@dataclass(frozen=True)
class Events:
    """Where something happens, in the order of frames.

    Attributes:
        at: `[N]` uint32, the frame that shows it.
        kind: `[N]` uint8, one of `KINDS`.
        amount: `[N]` float64, what was earned, below zero lost; 0 of other kinds.
    """

    at: NDArray[np.uint32]
    kind: NDArray[np.uint8]
    amount: NDArray[np.float64]


def find_events(episode: RecordedEpisode) -> Events:
    """Return the events of an episode."""
    moments = episode.moments
    starts, amount = moments.first[:-1], moments.amount
    has_changed = (episode.mode != episode.last) & (episode.last >= 0)
    was_done = np.concatenate([episode.start.done, moments.is_done[:-1]])
    ends = moments.first[1:] - 1
    is_cut = moments.ending == Ending.CAPPED
    is_cut[-1] |= not episode.has_ended
    found = [
        (MODE, starts[has_changed]),
        (REWARD, np.flatnonzero(amount > 0)),
        (PENALTY, np.flatnonzero(amount < 0)),
        (BUMP, np.flatnonzero(moments.is_vain)),
        (CUT, ends[is_cut]),
        (DONE, np.flatnonzero(moments.is_done & ~was_done)),
    ]
    at = np.concatenate([places for _, places in found]).astype(np.int64)
    kind = np.concatenate([np.full(len(places), number) for number, places in found])
    order = np.lexsort((kind, at))
    paid = np.where((kind == REWARD) | (kind == PENALTY), amount[at], 0.0)
    return Events((at[order] + 1).astype(np.uint32), kind[order].astype(np.uint8), paid[order])


class Words:
    """Sentences, each kept once.

    Attributes:
        texts: the sentences.
    """

    def __init__(self) -> None:
        self.texts: list[str] = []
        self._places: dict[str, int] = {}

    def place(self, text: str) -> int:
        """Return the place of a sentence."""
        if text not in self._places:
            self._places[text] = len(self.texts)
            self.texts.append(text)
        return self._places[text]

    def of_moments(self, episode: RecordedEpisode) -> NDArray[np.uint16]:
        """Return what happened, `[F]` uint16: a place for each moment."""
        moments = episode.moments
        pairs = [[self.place(_sentence(text)) for text in pair] for pair in ACTION_WORDS]
        table = np.array(pairs, np.uint16)
        acts = moments.action != NOTHING
        is_over = np.repeat(episode.mode == len(episode.machine.modes), np.diff(moments.first))
        said = np.where(is_over, self.place(_OVER), self.place(_IDLE)).astype(np.uint16)
        said[acts] = table[moments.action[acts], moments.is_vain[acts].astype(int)]
        return said

    def of_steps(self, episode: RecordedEpisode) -> NDArray[np.uint16]:
        """Return why each mode ran, `[M]` uint16: a place for each macro step."""
        choices = np.stack([episode.last, episode.mode, episode.rule], axis=1)
        unique, inverse = np.unique(choices, axis=0, return_inverse=True)
        places = [self.place(_tell_step(episode, *choice)) for choice in unique.tolist()]
        return np.array(places, np.uint16)[inverse.reshape(-1)]


def _sentence(text: str) -> str:
    return f"{text[0].upper()}{text[1:]}."


def _tell_step(episode: RecordedEpisode, last: int, to: int, number: int) -> str:
    """Return a choice as a sentence.

    Args:
        episode: in which.
        last: the last mode; -1 before the first.
        to: what was chosen.
        number: the rule that fired; -1: there are none.
    """
    machine = episode.machine
    titles = [*machine.titles, STOP]
    told = tell_choice(titles, last, to)
    if isinstance(machine.transition, DecisionList):
        rules = (machine.transition.start, *machine.transition.after)[last + 1]
        why = tell_conditions(rules[number], machine.transition.known)
        other = "no other rule holds" if len(rules) > 1 else ""
        told += f", since {why or other}" if why or other else ""
    elif len(machine.modes) > 1:
        told += f", chosen by the {machine.transition.kind}"
    return _sentence(told) if last < 0 else f"After `{titles[last]}`: {told}."
