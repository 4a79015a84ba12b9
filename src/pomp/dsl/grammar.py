"""The grammar, written once: parser, printer, decoder mask, compiler and sampler read this table.

A form is a row of symbols: literal tokens, and names in angle brackets for what may vary. From the
forms `build_automaton` derives a push-down machine over token ids. Its states are positions
inside forms, so a state knows which tokens may come next, and reading one either moves on inside
the form, enters a nested one (remembering where to return) or ends it.
"""

from dataclasses import dataclass
from functools import cache

import numpy as np
from numpy.typing import NDArray

from pomp.dsl.vocabulary import ACTION_TOKENS, PAD, PERCEPTION_TOKENS, Vocabulary

STATEMENT, BODY, CONDITION, NEGATED = "<statement>", "<body>", "<condition>", "<negated>"
ACTION, PERCEPTION, COUNT = "<action>", "<perception>", "<count>"

MAX_TOKENS = 4096
"""Longest program in text form, `DEF` included."""


@dataclass(frozen=True)
class Form:
    """One way to write something, and how often random programs do.

    Attributes:
        name: of the form.
        symbols: literal tokens, and names in angle brackets.
        weight: how often random programs of the LEAPS dialect have it, relative to others.
        hprl_weight: the same for the HPRL dialect.
    """

    name: str
    symbols: tuple[str, ...]
    weight: float = 1.0
    hprl_weight: float = 1.0


def _form(name: str, text: str, weight: float = 1.0, hprl_weight: float | None = None) -> Form:
    """Make a form from a text of symbols; both dialects weigh it alike by default."""
    return Form(name, tuple(text.split()), weight, weight if hprl_weight is None else hprl_weight)


PROGRAM_FORM = _form("program", f"DEF run m( {BODY} m)")
STATEMENT_FORMS = (
    _form("while", f"WHILE c( {CONDITION} c) w( {BODY} w)", 0.15),
    _form("repeat", f"REPEAT {COUNT} r( {BODY} r)", 0.03),
    _form("sequence", f"{STATEMENT} {STATEMENT}", 0.50, 0.40),  # in a tree: neighbours in a body
    _form("act", ACTION, 0.20, 0.30),
    _form("if", f"IF c( {CONDITION} c) i( {BODY} i)", 0.08),
    _form("ifelse", f"IFELSE c( {CONDITION} c) i( {BODY} i) ELSE e( {BODY} e)", 0.04),
)
CONDITION_FORMS = (
    _form("perceive", PERCEPTION, 0.9),
    # Paper: only a perception may follow `not`; the published parser and mask let `not` nest.
    _form("not", f"not c( {NEGATED} c)", 0.1),
)
ACTION_WEIGHTS = dict(zip(ACTION_TOKENS, (0.5, 0.15, 0.15, 0.1, 0.1), strict=True))
PERCEPTION_WEIGHTS = dict(zip(PERCEPTION_TOKENS, (0.5, 0.15, 0.15, 0.1, 0.1), strict=True))

FORMS = {form.name: form for form in (PROGRAM_FORM, *STATEMENT_FORMS, *CONDITION_FORMS)}

ILLEGAL, RETURN = -1, -2  # entries of Automaton.goto besides a state
END = 0  # the state after the program, in which only padding is legal


@dataclass(frozen=True)
class Automaton:
    """A push-down machine that reads one program.

    Attributes:
        vocabulary: the dialect whose ids it reads.
        goto: `[S, V]` int16: the state after reading a token, `ILLEGAL`, or `RETURN` to the state
            on top of the stack.
        push: `[S, V]` int16: the state to put on the stack before going on, or -1.
        start: the state before `DEF`.
    """

    vocabulary: Vocabulary
    goto: NDArray[np.int16]
    push: NDArray[np.int16]
    start: int

    @property
    def legal(self) -> NDArray[np.bool_]:
        """Which tokens may come in which state, `[S, V]` bool: the rows of the decoder's mask."""
        return self.goto != ILLEGAL

    def read(self, state: int, stack: list[int], token: int) -> int:
        """Read one legal token: change the stack in place and return the next state."""
        if self.push[state, token] >= 0:
            stack.append(int(self.push[state, token]))
        following = int(self.goto[state, token])
        return stack.pop() if following == RETURN else following

    def expected(self, state: int) -> list[str]:
        """Return the tokens that may come in a state."""
        return [self.vocabulary.tokens[index] for index in np.flatnonzero(self.legal[state])]


@cache
def build_automaton(vocabulary: Vocabulary, *, empty_bodies: bool, nested_not: bool) -> Automaton:
    """Derive the push-down machine of the table above.

    Args:
        vocabulary: the dialect.
        empty_bodies: let a body close at once (the published mask does; no parser accepts it).
        nested_not: let `not` stand inside `not` (the published mask and parser do).
    """
    return _Builder(vocabulary, empty_bodies, nested_not).build()


def published_mask(vocabulary: Vocabulary) -> Automaton:
    """Return the decoder's mask as published: empty bodies and nested `not` pass."""
    return build_automaton(vocabulary, empty_bodies=True, nested_not=True)


def strict_mask(vocabulary: Vocabulary) -> Automaton:
    """Return the mask of the paper's grammar: what it lets through is a program."""
    return build_automaton(vocabulary, empty_bodies=False, nested_not=False)


def reader(vocabulary: Vocabulary) -> Automaton:
    """Return what parser and compiler accept: bodies are not empty, `not` may nest."""
    return build_automaton(vocabulary, empty_bodies=False, nested_not=True)


class _Builder:
    """Numbers the positions inside forms and fills one row of the tables for each."""

    def __init__(self, vocabulary: Vocabulary, empty_bodies: bool, nested_not: bool) -> None:
        self.vocabulary = vocabulary
        self.empty_bodies = empty_bodies
        self.classes = {
            ACTION: ACTION_TOKENS,
            PERCEPTION: PERCEPTION_TOKENS,
            COUNT: tuple(f"R={count}" for count in vocabulary.counts),
        }
        plain = CONDITION_FORMS[:1]
        self.choices = {
            CONDITION: CONDITION_FORMS,
            NEGATED: CONDITION_FORMS if nested_not else plain,
        }
        self.statements = tuple(form for form in STATEMENT_FORMS if STATEMENT not in form.symbols)
        self.number: dict[tuple[str, int, bool], int] = {}
        self.rows: list[dict[str, tuple[int, int]]] = [{PAD: (END, -1)}]

    def build(self) -> Automaton:
        """Number all positions, and fill the tables."""
        start = self.position(PROGRAM_FORM, 0)
        shape = (len(self.rows), len(self.vocabulary))
        goto = np.full(shape, ILLEGAL, np.int16)
        push = np.full(shape, -1, np.int16)
        for state, row in enumerate(self.rows):
            for token, (following, pushed) in row.items():
                goto[state, self.vocabulary.id_of[token]] = following
                push[state, self.vocabulary.id_of[token]] = pushed
        return Automaton(self.vocabulary, goto, push, start)

    def position(self, form: Form, dot: int, *, filled: bool = False) -> int:
        """Return the number of the position before symbol `dot`, and fill its row if it is new.

        Args:
            form: in which.
            dot: the place of the symbol.
            filled: whether the body that begins there has a statement already.
        """
        if dot == len(form.symbols):
            return END if form is PROGRAM_FORM else RETURN
        key = (form.name, dot, filled or self.empty_bodies)
        if key not in self.number:
            self.number[key] = len(self.rows)
            self.rows.append({})
            self.rows[self.number[key]].update(self.row(form, dot, key[2]))
        return self.number[key]

    def row(self, form: Form, dot: int, filled: bool) -> dict[str, tuple[int, int]]:
        """Return the following and the pushed state by token, at one position."""
        symbol = form.symbols[dot]
        if symbol == BODY:
            row = self.enter(self.statements, self.position(form, dot, filled=True))
            if filled:
                row[form.symbols[dot + 1]] = (self.position(form, dot + 2), -1)
            return row
        after = self.position(form, dot + 1)
        if symbol in self.choices:
            return self.enter(self.choices[symbol], after)
        return dict.fromkeys(self.classes.get(symbol, (symbol,)), (after, -1))

    def enter(self, forms: tuple[Form, ...], after: int) -> dict[str, tuple[int, int]]:
        """Return the row of the first tokens of several forms; when one ends, `after` goes on."""
        row: dict[str, tuple[int, int]] = {}
        for form in forms:
            first = form.symbols[0]
            if first in self.classes:
                row.update(dict.fromkeys(self.classes[first], (after, -1)))
            else:
                row[first] = (self.position(form, 1), after)
        return row
