"""Random mutations of programs, on rows of token ids. Compiled; no tree is ever built.

One pass outlines a program: its statements, conditions and counts with their first and last token.
Every mutation then cuts a span of tokens out and puts other tokens in its place. All moves stand in
one function, and so in one long file, because they end in the same way.
"""

from dataclasses import dataclass
from enum import IntEnum
from functools import cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pomp.core.compiling import kernel, launch, parts_for, routine, scalar
from pomp.core.errors import ConfigError, UnknownNameError
from pomp.core.streams import below
from pomp.dsl.grammar import CONDITION, COUNT, PERCEPTION, STATEMENT, STATEMENT_FORMS
from pomp.dsl.sampling import (
    SYMBOLS,
    GrammarTables,
    expand,
    grammar_tables,
    push_symbol,
    sample_program,
    stack_for,
)
from pomp.dsl.vocabulary import ACTION_TOKENS, LEAPS, PERCEPTION_TOKENS, Vocabulary


class Move(IntEnum):
    """The kinds of mutation."""

    SUBTREE = 0
    """A statement, several to a body's end, a condition, a perception or a count is drawn anew."""
    POINT = 1
    """An action, perception or count becomes another."""
    INSERT = 2
    """A new statement comes before or behind another."""
    DELETE = 3
    """Neighbouring statements go."""
    WRAP = 4
    """Neighbouring statements go into a new WHILE, IF or REPEAT."""
    UNWRAP = 5
    """A WHILE, IF, IFELSE or REPEAT leaves a body behind."""
    COPY = 6
    """Neighbouring statements are written a second time elsewhere."""
    SHIFT = 7
    """Neighbouring statements go elsewhere."""
    SWAP = 8
    """Two neighbours change places."""
    BRANCH = 9
    """An IF gets an ELSE, an IFELSE loses it."""
    NEGATE = 10
    """A condition becomes its contrary."""
    BOUND = 11
    """A WHILE becomes a REPEAT of an IF, which ends in any case."""


_RICH = tuple(move for move in Move if move != Move.BOUND)
MOVES = {"subtree": (Move.SUBTREE,), "rich": _RICH, "bounding": tuple(Move)}
"""Sets of moves by name; a mutation is one of a set, each as likely as the others."""

ATTEMPTS = 100
"""Mutations tried before a program is left as it is."""

_SUBTREE, _POINT, _INSERT, _DELETE, _WRAP, _UNWRAP = (int(move) for move in tuple(Move)[:6])
_COPY, _SHIFT, _SWAP, _BRANCH, _NEGATE, _BOUND = (int(move) for move in tuple(Move)[6:])

# What a token is to the outline.
_OTHER, _ACTION, _PERCEPTION, _COUNT, _WHILE, _REPEAT, _IF, _IFELSE = range(8)
_OPEN, _CLOSE, _CLOSE_IF, _ASK, _ANSWER = range(8, 13)

# The outline: a row for each part of a program, in the order of their first tokens (conditions: of
# their last). Statements know where the body they stand in closes, what token they begin with,
# where their own first body begins, and where their ELSE stands.
_STATEMENT, _CONDITION, _NEGATED, _NUMBER = range(4)
_KIND, _FIRST, _LAST, _BODY_END, _FORM, _INSIDE, _ELSE, _COLUMNS = range(8)
_NODE, _OLDEST, _STATEMENTS, _FRAME = range(4)  # an open body: whose, its first part, its size
_LENGTH, _DEPTH, _BODY = range(3)  # what `_outline` measures

_SOME_STATEMENT, _SOME_CONDITION, _SOME_PERCEPTION, _SOME_COUNT = (
    SYMBOLS[name] for name in (STATEMENT, CONDITION, PERCEPTION, COUNT)
)


class WrittenIds(NamedTuple):
    """Token ids that mutations write."""

    ask: int
    answer: int
    negation: int
    plain_if: int
    if_else: int
    otherwise: int
    open_else: int
    close_else: int
    open_if: int
    close_if: int
    repeat: int
    open_repeat: int
    close_repeat: int


class Dialect(NamedTuple):
    """A vocabulary of V tokens as mutations take it.

    Attributes:
        grammar: the `GrammarTables`.
        classes: `[V]` uint8: what each token is to the outline.
        words: the `WrittenIds`.
    """

    grammar: GrammarTables
    classes: NDArray[np.uint8]
    words: WrittenIds


class MutationScratch(NamedTuple):
    """Memory for mutating programs of up to L tokens.

    Attributes:
        nodes: `[L, _COLUMNS]` int32: the outline, a row for each part of the program.
        frames: `[L + 1, _FRAME]` int32: the open bodies.
        measures: `[3]` int64: tokens, depth and longest body.
        inserted: `[L]` uint8: the tokens that are put in.
        tail: `[4]` uint8: the last of them.
        items: `[N, 3]` int32: the stack of symbols to expand.
    """

    nodes: Any
    frames: Any
    measures: Any
    inserted: Any
    tail: Any
    items: Any

    @classmethod
    def empty(cls, tokens: int) -> "MutationScratch":
        """Return uninitialised memory for programs of so many tokens."""
        return cls(
            np.empty((tokens, _COLUMNS), np.int32),
            np.empty((tokens + 1, _FRAME), np.int32),
            np.empty(3, np.int64),
            np.empty(tokens, np.uint8),
            np.empty(4, np.uint8),
            stack_for(tokens),
        )


class MutationRules(NamedTuple):
    """Which mutations there are, and which programs may come out, as compiled code takes them.

    Attributes:
        moves: `[N]` int64: the kinds of `Move` to choose from.
        most_depth: the deepest nesting of statements.
        most_body: the most statements in one body.
        dialect: the `Dialect`.
    """

    moves: Any
    most_depth: Any
    most_body: Any
    dialect: Any


def mutation_rules(moves: str, limits: "Limits", vocabulary: Vocabulary = LEAPS) -> MutationRules:
    """Return the rules by the name of a set of moves."""
    grammar = grammar_tables(vocabulary, limits.without)
    dialect = Dialect(grammar, _classes(vocabulary), _ids_of(vocabulary))
    return MutationRules(np.array(MOVES[moves]), limits.depth, limits.body, dialect)


@cache
def _ids_of(vocabulary: Vocabulary) -> WrittenIds:
    words = "c( c) not IF IFELSE ELSE e( e) i( i) REPEAT r( r)"
    return WrittenIds(*vocabulary.encode(words.split()))


# Forms that statements are wrapped into, by row of the grammar's table: WHILE thrice, IF twice.
_WRAPPERS = np.array([0, 0, 0, 4, 4, 1])
assert [STATEMENT_FORMS[row].name for row in _WRAPPERS] == [*["while"] * 3, *["if"] * 2, "repeat"]


@cache
def _classes(vocabulary: Vocabulary) -> NDArray[np.uint8]:
    """Return what each token is to the outline, `[V]` uint8."""
    known = {
        **dict.fromkeys(ACTION_TOKENS, _ACTION),
        **dict.fromkeys(PERCEPTION_TOKENS, _PERCEPTION),
        **dict.fromkeys((f"R={count}" for count in vocabulary.counts), _COUNT),
        **{"WHILE": _WHILE, "REPEAT": _REPEAT, "IF": _IF, "IFELSE": _IFELSE},
        **dict.fromkeys(("m(", "w(", "r(", "i(", "e("), _OPEN),
        **dict.fromkeys(("m)", "w)", "r)", "e)"), _CLOSE),
        **{"i)": _CLOSE_IF, "c(": _ASK, "c)": _ANSWER},
    }
    return np.array([known.get(token, _OTHER) for token in vocabulary.tokens], np.uint8)


@dataclass(frozen=True, kw_only=True, slots=True)
class Limits:
    """Which programs a walk through program space may visit."""

    tokens: int = 45
    """Longest program, `DEF` included."""
    depth: int = 4
    """Deepest nesting of statements; a bare action has depth 1."""
    body: int = 6
    """Most statements in one body."""
    without: tuple[str, ...] = ()
    """Actions that no program may take, those that are given included."""


def propose_programs(
    ids: NDArray[np.uint8],
    is_new: NDArray[np.bool_],
    streams: NDArray[np.uint64],
    moves: str = "rich",
    limits: Limits | None = None,
    vocabulary: Vocabulary = LEAPS,
    *,
    threads: int | None = None,
) -> NDArray[np.uint8]:
    """Return a mutated copy of every program, or a random program in its place.

    Args:
        ids: `[P, L]` uint8: programs within the limits, padded; L is `limits.tokens`.
        is_new: `[P]` bool: where a random program is wanted; what stands there is not looked at.
        streams: `[P]` uint64, written: what the draws of each depend on.
        moves: a name of `MOVES`.
        limits: which programs may come out.
        vocabulary: the dialect.
        threads: CPU threads; None: all. The result does not depend on it.
    """
    limits = limits or Limits()
    if moves not in MOVES:
        raise UnknownNameError("set of moves", moves, MOVES)
    if ids.ndim != 2 or ids.shape[1] != limits.tokens or ids.dtype != np.uint8:
        got = f"{ids.dtype} of shape {list(ids.shape)}"
        raise ConfigError(f"programs must be uint8 of shape [P, {limits.tokens}], got {got}")
    proposed = np.empty_like(ids)
    rules = mutation_rules(moves, limits, vocabulary)
    parts = parts_for(len(ids), threads, least=256)

    def propose_part(part: int) -> None:
        scratch = MutationScratch.empty(limits.tokens)
        _propose(part, parts, ids, is_new, streams, rules, scratch, proposed)

    launch(parts, propose_part)
    return proposed


@routine
def _outline(ids, classes, scratch):  # noqa: C901 - one pass over all tokens
    """List the parts of a program; returns how many.

    Args:
        ids: `[L]` uint8, a program, padded; read.
        classes: `[V]` uint8, read.
        scratch: the `MutationScratch`, whose `nodes` and `measures` are written.
    """
    nodes, frames, measures = scratch.nodes, scratch.frames, scratch.measures
    count, top, asked, condition = 0, 0, 0, 0
    pending = -1  # the statement whose body opens next
    measures[_DEPTH], measures[_BODY] = 0, 0
    for place in range(len(ids)):
        what = classes[ids[place]]
        if what == _ACTION or _WHILE <= what <= _IFELSE:
            nodes[count, _KIND] = _STATEMENT
            nodes[count, _FIRST] = place
            nodes[count, _LAST] = place + 1
            nodes[count, _BODY_END] = -top  # the body is still open
            nodes[count, _FORM] = what
            nodes[count, _INSIDE] = -1
            frames[top - 1, _STATEMENTS] += 1
            measures[_DEPTH] = max(measures[_DEPTH], top)
            if what != _ACTION:
                pending = count
            count += 1
        elif what == _COUNT:
            nodes[count, _KIND] = _NUMBER
            nodes[count, _FIRST] = place
            nodes[count, _LAST] = place + 1
            count += 1
        elif what == _PERCEPTION and asked > 1:
            nodes[count, _KIND] = _NEGATED
            nodes[count, _FIRST] = place
            nodes[count, _LAST] = place + 1
            count += 1
        elif what == _ASK:
            if asked == 0:
                condition = place + 1
            asked += 1
        elif what == _ANSWER:
            asked -= 1
            if asked == 0:
                nodes[count, _KIND] = _CONDITION
                nodes[count, _FIRST] = condition
                nodes[count, _LAST] = place
                count += 1
        elif what == _OPEN:
            frames[top, _NODE] = pending
            frames[top, _OLDEST] = count
            frames[top, _STATEMENTS] = 0
            if pending >= 0 and nodes[pending, _INSIDE] < 0:
                nodes[pending, _INSIDE] = place + 1
            top += 1
        elif what == _CLOSE or what == _CLOSE_IF:
            top -= 1
            for node in range(frames[top, _OLDEST], count):
                if nodes[node, _KIND] == _STATEMENT and nodes[node, _BODY_END] == -top - 1:
                    nodes[node, _BODY_END] = place
            measures[_BODY] = max(measures[_BODY], frames[top, _STATEMENTS])
            pending = frames[top, _NODE]
            if pending < 0:
                measures[_LENGTH] = place + 1
                break
            if what == _CLOSE_IF and nodes[pending, _FORM] == _IFELSE:
                nodes[pending, _ELSE] = place + 1
            else:
                nodes[pending, _LAST] = place + 1
    return count


@scalar
def _choose_part(stream, nodes, count, wanted):
    """Choose a part of one kind, each equally likely; -1 if there is none.

    `stream` `[1]` uint64 is written; `nodes` `[L, _COLUMNS]` int32 has `count` parts.
    """
    found = 0
    for node in range(count):
        found += nodes[node, _KIND] == wanted
    if found == 0:
        return -1
    chosen = below(stream, found)
    for node in range(count):
        if nodes[node, _KIND] == wanted:
            if chosen == 0:
                return node
            chosen -= 1
    return -1


@scalar
def _end_of_span(stream, nodes, count, node):
    """Choose where neighbours from a statement on end: each further one is in by one half.

    `stream` `[1]` uint64 is written; `nodes` `[L, _COLUMNS]` int32 has `count` parts.
    """
    end = nodes[node, _LAST]
    for other in range(node + 1, count):
        if nodes[other, _KIND] == _STATEMENT and nodes[other, _FIRST] == end:
            if below(stream, 2) == 0:
                break
            end = nodes[other, _LAST]
    return end


@routine
def _mutate(  # noqa: C901 - all moves, so that they share one expansion
    stream, move, ids, count, dialect, depth, scratch, out
):
    """Write a mutated program to `out`.

    The program is `ids` without the tokens from `first` to `last`, and in their place what is on
    the stack, expanded, then two spans of `ids` itself, then the tail.

    Args:
        stream: `[1]` uint64, written.
        move: a `Move`.
        ids: `[L]` uint8, the program, padded; read.
        count: how many parts its outline has.
        dialect: the `Dialect`.
        depth: the deepest nesting of statements that may come out.
        scratch: the `MutationScratch`, which holds the outline.
        out: `[L]` uint8, written.

    Returns:
        The program's length, or -1 if the move cannot be made.
    """
    tables, classes, words = dialect
    nodes, inserted, tail, items = scratch.nodes, scratch.inserted, scratch.tail, scratch.items
    height, tail_length = 0, 0
    first, last = 0, 0
    from_1, to_1, from_2, to_2 = 0, 0, 0, 0
    node = _choose_part(stream, nodes, count, _STATEMENT)
    end = _end_of_span(stream, nodes, count, node)
    first, last = np.int64(nodes[node, _FIRST]), np.int64(end)
    is_whole_body = classes[ids[first - 1]] == _OPEN and end == nodes[node, _BODY_END]
    if move == _SUBTREE:
        total = count
        for other in range(count):
            is_statement = nodes[other, _KIND] == _STATEMENT
            total += is_statement and nodes[other, _LAST] != nodes[other, _BODY_END]
        chosen = below(stream, total)
        node, to_end = -1, False
        while chosen >= 0:
            node += 1
            is_statement = nodes[node, _KIND] == _STATEMENT
            has_rest = is_statement and nodes[node, _LAST] != nodes[node, _BODY_END]
            to_end = chosen == 1 and has_rest
            chosen -= 2 if has_rest else 1
        kind = nodes[node, _KIND]
        first = np.int64(nodes[node, _FIRST])
        last = np.int64(nodes[node, _BODY_END] if to_end else nodes[node, _LAST])
        symbol = _SOME_STATEMENT
        if kind == _CONDITION:
            symbol = _SOME_CONDITION
        elif kind == _NEGATED:
            symbol = _SOME_PERCEPTION
        elif kind == _NUMBER:
            symbol = _SOME_COUNT
        height = push_symbol(items, height, symbol)
    elif move == _POINT:
        total = 0
        for place in range(len(ids)):
            total += _ACTION <= classes[ids[place]] <= _COUNT
        chosen = below(stream, total)
        for place in range(len(ids)):
            if _ACTION <= classes[ids[place]] <= _COUNT:
                if chosen == 0:
                    first = place
                chosen -= 1
        last = first + 1
        what = classes[ids[first]]
        others = tables.actions
        if what == _PERCEPTION:
            others = tables.perceptions
        elif what == _COUNT:
            others = tables.counts
        at = 0
        while others[at] != ids[first]:
            at += 1
        at = (at + 1 + below(stream, len(others) - 1)) % len(others)
        height = push_symbol(items, height, others[at])
    elif move == _INSERT:
        first = last if below(stream, 2) == 0 else first
        last = first
        action = tables.actions[below(stream, len(tables.actions))]
        symbol = action if below(stream, 2) == 0 else np.int16(_SOME_STATEMENT)
        height = push_symbol(items, height, symbol)
    elif move == _DELETE:
        if is_whole_body:
            return -1
    elif move == _WRAP:
        form = tables.statements[_WRAPPERS[below(stream, len(_WRAPPERS))]]
        size = len(form)
        while form[size - 1] < _SOME_COUNT:  # the row's filling
            size -= 1
        for place in range(size - 3, -1, -1):  # all but the body and what closes it
            height = push_symbol(items, height, form[place])
        from_1, to_1 = first, last
        tail[0] = form[size - 1]
        tail_length = 1
    elif move == _UNWRAP:
        if nodes[node, _FORM] == _ACTION:
            return -1
        last = np.int64(nodes[node, _LAST])
        from_1, to_1 = np.int64(nodes[node, _INSIDE]), last - 1
        if nodes[node, _FORM] == _IFELSE:
            if below(stream, 2) == 0:
                to_1 = np.int64(nodes[node, _ELSE]) - 1
            else:
                from_1 = np.int64(nodes[node, _ELSE]) + 2
    elif move == _COPY or move == _SHIFT:
        other = _choose_part(stream, nodes, count, _STATEMENT)
        behind = below(stream, 2) == 1
        target = np.int64(nodes[other, _LAST] if behind else nodes[other, _FIRST])
        from_1, to_1 = first, last
        if move == _COPY:
            first, last = target, target
        else:
            if is_whole_body or first <= target <= last:
                return -1
            if target < first:
                from_2, to_2 = target, first
                first = target
            else:
                from_2, to_2 = from_1, to_1
                from_1, to_1 = last, target
                last = target
    elif move == _SWAP:
        middle = np.int64(nodes[node, _LAST])
        if middle == nodes[node, _BODY_END]:
            return -1
        other = node + 1
        while nodes[other, _KIND] != _STATEMENT or nodes[other, _FIRST] != middle:
            other += 1
        last = np.int64(nodes[other, _LAST])
        from_1, to_1, from_2, to_2 = middle, last, first, middle
    elif move == _BRANCH:
        last = np.int64(nodes[node, _LAST])
        from_1 = first + 1
        if nodes[node, _FORM] == _IF:
            height = push_symbol(items, height, words.if_else)
            to_1 = last
            tail[0], tail[1], tail[3] = words.otherwise, words.open_else, words.close_else
            tail[2] = tables.actions[below(stream, len(tables.actions))]
            tail_length = 4
        elif nodes[node, _FORM] == _IFELSE:
            height = push_symbol(items, height, words.plain_if)
            to_1 = np.int64(nodes[node, _ELSE])
        else:
            return -1
    elif move == _BOUND:
        if nodes[node, _FORM] != _WHILE:
            return -1
        last = np.int64(nodes[node, _LAST])
        for symbol in (words.plain_if, words.open_repeat, _SOME_COUNT, words.repeat):
            height = push_symbol(items, height, symbol)
        from_1, to_1 = first + 1, last
        tail[0] = words.close_repeat
        tail_length = 1
    else:
        node = _choose_part(stream, nodes, count, _CONDITION)
        if node < 0:
            return -1
        first, last = np.int64(nodes[node, _FIRST]), np.int64(nodes[node, _LAST])
        if ids[first] == words.negation:
            from_1, to_1 = first + 2, last - 1
        else:
            height = push_symbol(items, height, words.ask)
            height = push_symbol(items, height, words.negation)
            from_1, to_1 = first, last
            tail[0] = words.answer
            tail_length = 1

    size = expand(stream, height, tables, 2 * depth, depth - 1, items, inserted, 0)
    if size < 0 or size + to_1 - from_1 + to_2 - from_2 + tail_length > len(inserted):
        return -1
    if move == _BOUND:  # the body is that of an IF now
        body = size + nodes[node, _INSIDE] - from_1
    size = _append(inserted, size, ids, from_1, to_1)
    if move == _BOUND:
        inserted[body - 1], inserted[size - 1] = words.open_if, words.close_if
    size = _append(inserted, size, ids, from_2, to_2)
    size = _append(inserted, size, tail, 0, tail_length)
    length = 0
    while length < len(ids) and ids[length] != tables.padding:
        length += 1
    if length - (last - first) + size > len(out):
        return -1
    written = _append(out, 0, ids, 0, first)
    written = _append(out, written, inserted, 0, size)
    return _append(out, written, ids, last, length)


@scalar
def _append(target, at, source, first, last):
    """Copy `source[first:last]` to `target[at:]`; returns where it ends.

    `source` `[N]` and `target` `[M]` are uint8.
    """
    for place in range(first, last):
        target[at] = source[place]
        at += 1
    return at


@routine
def propose_one(stream, is_new, ids, rules, scratch, out):
    """Write a mutated copy of one program, or a random program in its place.

    Args:
        stream: `[1]` uint64, written.
        is_new: whether a random program is wanted.
        ids: `[L]` uint8, the program, padded; read.
        rules: the `MutationRules`.
        scratch: the `MutationScratch`.
        out: `[L]` uint8, written.
    """
    moves, most_depth, most_body, dialect = rules
    tables, measures = dialect.grammar, scratch.measures
    is_legal, attempts = False, 0
    while not is_legal:
        if is_new:
            sample_program(stream, tables, 2 * most_depth, most_depth - 1, scratch.items, out)
            is_legal = True
        elif attempts < ATTEMPTS:
            attempts += 1
            count = _outline(ids, dialect.classes, scratch)
            move = moves[below(stream, len(moves))]
            length = _mutate(stream, move, ids, count, dialect, most_depth, scratch, out)
            is_legal = length > 0
            for place in range(max(length, 0), len(out)):
                out[place] = tables.padding
        else:
            _append(out, 0, ids, 0, len(out))
            break
        if is_legal:
            _outline(out, dialect.classes, scratch)
            is_legal = measures[_DEPTH] <= most_depth and measures[_BODY] <= most_body


@kernel
def _propose(part, parts, ids, is_new, streams, rules, scratch, proposed):
    """Fill rows `part`, `part + parts`, ... of `proposed`.

    Args:
        part: the first row.
        parts: how many threads there are.
        ids: `[P, L]` uint8, programs, padded; read.
        is_new: `[P]` bool: where a random program is wanted.
        streams: `[P]` uint64, written.
        rules: the `MutationRules`.
        scratch: the `MutationScratch`.
        proposed: `[P, L]` uint8, written.
    """
    for p in range(part, len(ids), parts):
        propose_one(streams[p : p + 1], is_new[p], ids[p], rules, scratch, proposed[p])
