"""Where everything stands in the picture of a machine, computed without drawing it.

Start, modes and stop stand below each other. What follows a mode leaves it to the right, an arrow
for each rule with the rule's conditions above it, and goes along a vertical track to the target,
which it enters from the right at the height of its heading. All arrows to a target share a track.
So no text can meet another, or an arrow, whatever the machine: each has a strip of its own.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate

import numpy as np
from numpy.typing import NDArray

from pomp.dsl.parser import parse
from pomp.dsl.printer import lines_of
from pomp.machine.code_table import CodeTable
from pomp.machine.policy import STOP, ProgramMachine
from pomp.machine.transitions import DecisionList, Rule

CHARACTER, LINE = 7.2, 16.0  # pixels: a character's width, a line's height
LEAST_SHARE = 0.01  # of the choices after a mode, for an arrow where no rules choose
_MARGIN, _PAD, _GAP = 20.0, 10.0, 16.0  # around the picture; within blocks; between blocks
_HEAD = 28.0  # of a block: its heading, at whose height arrows enter
_NEAR, _UNDER = 1.0, 13.0  # from a text to its arrow; to what follows below
_TRACK = 14.0  # from one vertical track to the next
_WIDE = 34  # characters of a line of conditions

HEADLINE, HEADING, PROGRAM, CONDITION, SHARE = (
    "headline",
    "heading",
    "program",
    "condition",
    "share",
)
"""The roles of texts."""

START = -1
"""The number of the block before the first mode; the modes follow, then the stop."""


@dataclass(frozen=True)
class Box:
    """A rectangle, in pixels from the upper left corner of the picture."""

    left: float
    top: float
    width: float
    height: float

    @property
    def right(self) -> float:
        """Its right edge."""
        return self.left + self.width

    @property
    def bottom(self) -> float:
        """Its lower edge."""
        return self.top + self.height

    def meets(self, other: "Box") -> bool:
        """Whether two boxes have more than an edge in common."""
        return (
            self.left < other.right
            and other.left < self.right
            and self.top < other.bottom
            and other.top < self.bottom
        )


@dataclass(frozen=True)
class PlacedText:
    """A line of text, the box it fills, its role, and the block whose colour it has, if any."""

    text: str
    box: Box
    role: str
    block: int | None = None


@dataclass(frozen=True)
class Block:
    """The box of the start, a mode or the stop."""

    number: int
    box: Box

    @property
    def entry(self) -> float:
        """How far down arrows enter it."""
        return self.box.top + _HEAD / 2


@dataclass(frozen=True)
class Arrow:
    """An arrow between blocks: to the right, along a track, and back to the left.

    Attributes:
        to: the number of the block it leads to.
        leaves: how far down it begins.
        enters: how far down it ends.
        left: where it begins: the right edge of its block.
        track: where it turns up or down.
        tip: where it ends: the right edge of the block it leads to.
        share: how often it was taken of all choices there; None: nobody has counted.
    """

    to: int
    leaves: float
    enters: float
    left: float
    track: float
    tip: float
    share: float | None


@dataclass(frozen=True)
class Diagram:
    """A picture of a machine before it is drawn, in pixels."""

    width: float
    height: float
    blocks: tuple[Block, ...]
    texts: tuple[PlacedText, ...]
    arrows: tuple[Arrow, ...]


@dataclass(frozen=True)
class Exit:
    """What can follow a block: where its arrow leads, and what stands above the arrow.

    Attributes:
        to: the number of the block it leads to.
        conditions: lines.
        note: how often it was taken, in words, behind the last line.
        share: the same as a number; None: nobody has counted.
    """

    to: int
    conditions: tuple[str, ...]
    note: str = ""
    share: float | None = None

    @property
    def lines(self) -> tuple[str, ...]:
        """All lines above the arrow, the note included."""
        *others, last = self.conditions or ("",)
        last = f"{last} {self.note}".rstrip() if last else self.note
        return (*others, last) if last else ()

    @property
    def height(self) -> float:
        """How much of the picture's height it takes."""
        return LINE * len(self.lines) + _UNDER


def lay_out(
    machine: ProgramMachine, headlines: Sequence[str], counts: NDArray[np.int64] | None = None
) -> Diagram:
    """Place everything that a machine's picture shows.

    Args:
        machine: which.
        headlines: lines above the picture.
        counts: `[K + 1, K + 1]` int64, how often which choice came after which mode, as
            `Evaluation.transitions` has it; None: nobody has counted.
    """
    names = ("start", *machine.titles, STOP)
    programs = [[], *(lines_of(parse(mode)) for mode in machine.modes), []]
    exits = [*exits_of(machine, counts), []]
    blocks = _stack(names, programs, exits, _MARGIN + LINE * len(headlines) + _GAP)
    texts = _column(headlines, _MARGIN, _MARGIN, HEADLINE)
    for block, name, program in zip(blocks, names, programs, strict=True):
        texts += _texts_in(block, name, program)
    leaving = [
        (block, way, y)
        for block, ways in zip(blocks, exits, strict=True)
        for way, y in zip(ways, _heights(block, ways), strict=True)
    ]
    column = max(block.box.right for block in blocks) + _PAD
    for _, way, y in leaving:
        texts += _texts_above(way, column, y)
    edge = max(text.box.right for text in texts if text.role != HEADLINE) + 2 * _PAD
    tracks = _assign_tracks(blocks, [(way.to, y) for _, way, y in leaving])
    arrows = tuple(
        _arrow(block, way, y, blocks[way.to + 1], edge + _TRACK * tracks[way.to])
        for block, way, y in leaving
    )
    right = max([edge, *(text.box.right for text in texts), *(arrow.track for arrow in arrows)])
    bottom = blocks[-1].box.bottom
    return Diagram(right + _MARGIN, bottom + _MARGIN, blocks, tuple(texts), arrows)


def exits_of(machine: ProgramMachine, counts: NDArray[np.int64] | None) -> list[list[Exit]]:
    """Return what can follow the start and each mode.

    With rules these are the rules, in their order; with a table of codes the choices that it has,
    with their observations; else the choices that were made, the most frequent first. The rarest of
    those that are drawn are left out.

    Args:
        machine: which.
        counts: `[K + 1, K + 1]` int64, as in `lay_out`, or None.
    """
    modes = len(machine.modes)
    rows = [None] * (modes + 1) if counts is None else list(counts / np.maximum(
        counts.sum(axis=1, keepdims=True), 1
    ))  # fmt: skip
    if isinstance(machine.transition, DecisionList):
        lists = (machine.transition.start, *machine.transition.after)
        lone = ((), *(("always",) for _ in machine.modes))
        return [_rule_exits(rules, row, modes, text)
                for rules, row, text in zip(lists, rows, lone, strict=True)]  # fmt: skip
    if isinstance(machine.transition, CodeTable):
        by_row = zip(machine.transition.probs, rows, strict=True)
        return [_code_exits(probs, row) for probs, row in by_row]
    return [[] if row is None else _counted_exits(row) for row in rows]


def _rule_exits(
    rules: Sequence[Rule], shares: NDArray[np.float64] | None, stop: int, lone: tuple[str, ...]
) -> list[Exit]:
    """Return the exits of a list of rules.

    Rules that lead to the same block were counted together, which the last of them tells.

    Args:
        rules: the list.
        shares: `[K + 1]` float64, how often which choice was made; None: nobody has counted.
        stop: the number of the stop's block.
        lone: the lines above the arrow of a rule that is the only one.
    """
    targets = [stop if rule.to is None else rule.to for rule in rules]
    exits = []
    for number, (rule, to) in enumerate(zip(rules, targets, strict=True)):
        conditions = _wrap(rule.when) if rule.when else (("else",) if number else lone)
        if shares is None:
            exits.append(Exit(to, conditions))
            continue
        together = " together" if targets.count(to) > 1 else ""
        is_last = to not in targets[number + 1 :]
        is_told = is_last and len(rules) > 1 and shares.any()
        note = f"{shares[to]:.0%}{together}" if is_told else ""
        exits.append(Exit(to, conditions, note, float(shares[to])))
    return exits


def _code_exits(probs: NDArray[np.float64], shares: NDArray[np.float64] | None) -> list[Exit]:
    """Return the exits of a row of a table of codes.

    Args:
        probs: `[O, K + 1]` float64, how likely what is chosen at each observation.
        shares: `[K + 1]` float64, how often which choice was made; None: nobody has counted.
    """
    exits = []
    for to in np.flatnonzero((probs >= LEAST_SHARE).any(axis=0)).tolist():
        column = probs[:, to]
        if (column == 1.0).all():
            conditions: tuple[str, ...] = ("always",)
        else:
            conditions = _join(name_observations(column))
        told = shares is not None and shares.any()
        note = f"{shares[to]:.0%}" if told else ""  # type: ignore[index]  # it is not None
        exits.append(Exit(to, conditions, note, None if shares is None else float(shares[to])))
    return exits


def name_observations(probs: NDArray[np.float64]) -> list[str]:
    """Return the names of observations, as `O1-O3`, or with how likely a choice is there.

    Args:
        probs: `[O]` float64, how likely the choice is at each.
    """
    names, sure = list[str](), list[int]()
    for number, prob in enumerate([*probs.tolist(), 0.0]):
        if prob == 1.0:
            sure.append(number)
            continue
        if sure:
            first, last = f"O{sure[0] + 1}", f"O{sure[-1] + 1}"
            names.append(first if first == last else f"{first}-{last}")
            sure.clear()
        if prob >= LEAST_SHARE:
            names.append(f"O{number + 1} {prob:.0%}")
    return names


def _join(names: Sequence[str]) -> tuple[str, ...]:
    """Return names in lines, with commas between them."""
    lines = [names[0]]
    for name in names[1:]:
        if len(lines[-1]) + len(name) + 2 < _WIDE:
            lines[-1] += f", {name}"
        else:
            lines[-1] += ","
            lines.append(name)
    return tuple(lines)


def _counted_exits(shares: NDArray[np.float64]) -> list[Exit]:
    """Return the exits for the `shares` `[K + 1]` of all choices."""
    order = np.argsort(-shares, kind="stable").tolist()
    return [
        Exit(to, (), f"{shares[to]:.0%}", float(shares[to]))
        for to in order
        if shares[to] >= LEAST_SHARE
    ]


def _wrap(conditions: Sequence[str]) -> tuple[str, ...]:
    """Return the conditions of a rule in lines that are broken before an `and`."""
    lines = [f"if {conditions[0]}"]
    for condition in conditions[1:]:
        if len(lines[-1]) + len(condition) < _WIDE:
            lines[-1] += f" and {condition}"
        else:
            lines.append(f"   and {condition}")
    return tuple(lines)


def _stack(
    names: Sequence[str],
    programs: Sequence[Sequence[str]],
    exits: Sequence[Sequence[Exit]],
    top: float,
) -> tuple[Block, ...]:
    """Place blocks below each other; those of modes are equally wide."""
    widest = max(len(line) for lines in (names, *programs) for line in lines)
    blocks = []
    for number, (name, program, ways) in enumerate(zip(names, programs, exits, strict=True), START):
        width = CHARACTER * (widest if program else len(name)) + 2 * _PAD
        head = 0.0 if number == START else _HEAD  # no arrow enters the start
        written = _HEAD + LINE * len(program) + _PAD if program else _HEAD
        height = max(written, head + sum(way.height for way in ways))
        blocks.append(Block(number, Box(_MARGIN, top, width, height)))
        top += height + _GAP
    return tuple(blocks)


def _column(lines: Sequence[str], left: float, top: float, role: str) -> list[PlacedText]:
    """Place lines below each other; blanks before a line are space."""
    placed = []
    for row, line in enumerate(lines):
        text = line.lstrip()
        start = left + CHARACTER * (len(line) - len(text))
        box = Box(start, top + LINE * row, CHARACTER * len(text), LINE)
        placed.append(PlacedText(text, box, role))
    return placed


def _texts_in(block: Block, name: str, program: Sequence[str]) -> list[PlacedText]:
    """Place a block's name and its program."""
    left, top = block.box.left + _PAD, block.entry - LINE / 2
    heading = PlacedText(name, Box(left, top, CHARACTER * len(name), LINE), HEADING, block.number)
    return [heading, *_column(program, left, block.box.top + _HEAD, PROGRAM)]


def _heights(block: Block, exits: Sequence[Exit]) -> list[float]:
    """Return how far down the exits of a block leave it."""
    if block.number == START and not any(way.lines for way in exits):
        return [block.entry for _ in exits]
    top = block.box.top + (0.0 if block.number == START else _HEAD)
    return [top + below - _UNDER + _NEAR for below in accumulate(way.height for way in exits)]


def _texts_above(way: Exit, left: float, y: float) -> list[PlacedText]:
    """Place the conditions of an exit and its note above its arrow."""
    top = y - _NEAR - LINE * len(way.lines)
    texts = _column(way.conditions, left, top, CONDITION)
    if way.note:
        line = way.lines[-1]
        start = left + CHARACTER * (len(line) - len(way.note))
        width = CHARACTER * len(way.note)
        box = Box(start, top + LINE * (len(way.lines) - 1), width, LINE)
        texts.append(PlacedText(way.note, box, SHARE))
    return texts


def _assign_tracks(blocks: Sequence[Block], leaving: Sequence[tuple[int, float]]) -> dict[int, int]:
    """Return a track for each target; short ways are near the blocks, and no two ways meet.

    Args:
        blocks: all.
        leaving: the target and the height of each exit.
    """
    spans: dict[int, tuple[float, float]] = {}
    for to, y in leaving:
        low, high = spans.get(to, (blocks[to + 1].entry, blocks[to + 1].entry))
        spans[to] = (min(low, y), max(high, y))
    taken: list[list[tuple[float, float]]] = []
    tracks = {}
    for to, (low, high) in sorted(spans.items(), key=lambda one: one[1][1] - one[1][0]):
        is_free = [all(high + _GAP < a or b + _GAP < low for a, b in track) for track in taken]
        tracks[to] = is_free.index(True) if True in is_free else len(taken)
        if tracks[to] == len(taken):
            taken.append([])
        taken[tracks[to]].append((low, high))
    return tracks


def _arrow(block: Block, way: Exit, y: float, target: Block, track: float) -> Arrow:
    """Return the arrow of an exit."""
    return Arrow(way.to, y, target.entry, block.box.right, track, target.box.right, way.share)
