"""Shorten programs: find all that are left when one piece of a program is taken out.

Works on tokens, like everything that meets programs nested a thousand deep.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from pomp.dsl.printer import CLOSERS, OPENERS
from pomp.dsl.syntax import Program, tokens_of
from pomp.dsl.vocabulary import ACTION_TOKENS, Perception

LONGEST_RUN = 4
"""Neighbouring statements that are taken out at once: turning left four times is nothing."""

_KEYWORDS = ("WHILE", "REPEAT", "IF", "IFELSE")
_MARKERS, _NO_MARKERS = Perception.MARKERS_PRESENT.token, Perception.NO_MARKERS_PRESENT.token
_CONTRARY = {_MARKERS: _NO_MARKERS, _NO_MARKERS: _MARKERS}


@dataclass(frozen=True)
class Shortening:
    """A program that is shorter than another.

    Attributes:
        program: its text.
        what: in words, what the other has that it lacks.
    """

    program: str
    what: str


@dataclass
class _Part:
    """The tokens of a statement, from `start` up to `end`, and the bodies in it."""

    start: int
    end: int
    bodies: list["_Body"] = field(default_factory=list)


@dataclass
class _Body:
    """The tokens between two brackets, and the statements they are."""

    start: int
    end: int = 0
    parts: list[_Part] = field(default_factory=list)


def shorten(program: Program) -> list[Shortening]:
    """Return every program with one piece less, each once, the shortest first.

    A piece is a statement or up to `LONGEST_RUN` neighbours, a loop or a condition around a body,
    a branch, or a `not` that a program can do without.
    """
    tokens, found = tokens_of(program), dict[str, str]()
    for left, what in _pieces(tokens):
        found.setdefault(" ".join(left), what)
    shorter = [Shortening(text, what) for text, what in found.items()]
    return sorted(shorter, key=lambda one: one.program.count(" "))


def _pieces(tokens: Sequence[str]) -> Iterator[tuple[list[str], str]]:
    """Yield what is left without a piece, and the piece in words."""
    for body in _bodies(tokens):
        for first, part in enumerate(body.parts):
            for last in body.parts[first : first + LONGEST_RUN]:
                if last.end - part.start < body.end - body.start:
                    yield _without(tokens, part.start, last.end)
            yield from _unwrapped(tokens, part)
    for place in range(len(tokens) - 3):
        if tokens[place] == "not" and tokens[place + 2] in _CONTRARY:
            left = [*tokens[:place], _CONTRARY[tokens[place + 2]], *tokens[place + 4 :]]
            yield left, f"the 'not' before '{tokens[place + 2]}'"


def _without(tokens: Sequence[str], start: int, end: int) -> tuple[list[str], str]:
    """Return tokens without those from `start` to `end`, and these in words."""
    return [*tokens[:start], *tokens[end:]], f"'{' '.join(tokens[start:end])}'"


def _unwrapped(tokens: Sequence[str], part: _Part) -> Iterator[tuple[list[str], str]]:
    """Yield a statement's bodies without what is around them."""
    before, after, keyword = tokens[: part.start], tokens[part.end :], tokens[part.start]
    for body in part.bodies:
        inner = tokens[body.start : body.end]
        rest = ", and its other branch" if keyword == "IFELSE" else ""
        yield [*before, *inner, *after], f"the {keyword} around '{' '.join(inner)}'{rest}"
    if keyword != "IFELSE":
        return
    then, otherwise = (tokens[body.start : body.end] for body in part.bodies)
    condition = tokens[part.start + 1 : part.bodies[0].start - 1]
    what = f"the ELSE with '{' '.join(otherwise)}'"
    yield [*before, "IF", *condition, "i(", *then, "i)", *after], what
    if condition[1] == "not":  # c( not c( ... c) c)
        turned = [*condition[2:-1], "i(", *otherwise, "i)", "ELSE", "e(", *then, "e)"]
        yield [*before, "IFELSE", *turned, *after], "the 'not' of an IFELSE, its branches exchanged"


def _bodies(tokens: Sequence[str]) -> list[_Body]:
    """Return all bodies, the outermost first."""
    parts, bodies, found = [_Part(0, len(tokens))], list[_Body](), list[_Body]()
    for place, token in enumerate(tokens):
        if token in ACTION_TOKENS:
            bodies[-1].parts.append(_Part(place, place + 1))
        elif token in _KEYWORDS:
            parts.append(_Part(place, place + 1))
            bodies[-1].parts.append(parts[-1])
        elif token in OPENERS:
            found.append(_Body(place + 1))
            bodies.append(found[-1])
            parts[-1].bodies.append(found[-1])
        elif token in CLOSERS:
            bodies.pop().end = place
            if tokens[place + 1 : place + 2] != ["ELSE"]:
                parts.pop().end = place + 1
    return found
