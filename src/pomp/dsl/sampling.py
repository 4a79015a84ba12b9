"""Random programs with the paper's probabilities, expanded from the grammar's table.

Compiled functions expand symbols on a stack, `items` `[N, 3]` int32: symbol, depth and nesting.
They write token `ids` `[L]` uint8 of one program and draw from its `stream` `[1]` uint64.
"""

from dataclasses import dataclass
from functools import cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from pomp.core.compiling import kernel, launch, parts_for, pieces_for, routine, scalar
from pomp.core.configs import MOST_SEED, check_count, check_ranges
from pomp.core.resources import check_memory
from pomp.core.streams import Purpose, open_streams, unit
from pomp.dsl.grammar import (
    ACTION,
    ACTION_WEIGHTS,
    BODY,
    CONDITION,
    CONDITION_FORMS,
    COUNT,
    MAX_TOKENS,
    NEGATED,
    PERCEPTION,
    PERCEPTION_WEIGHTS,
    PROGRAM_FORM,
    STATEMENT,
    STATEMENT_FORMS,
    Form,
)
from pomp.dsl.vocabulary import HPRL, LEAPS, Vocabulary

DEPTH_PER_FORM = 2  # how much deeper the statements inside a statement are

# Symbols in the compiled tables: a token id, or one of these.
_STATEMENT, _CONDITION, _ACTION, _PERCEPTION, _COUNT, _NOTHING = -1, -2, -3, -4, -5, -6
SYMBOLS = {STATEMENT: _STATEMENT, CONDITION: _CONDITION, PERCEPTION: _PERCEPTION, COUNT: _COUNT}
"""What `push_symbol` takes besides token ids."""
_CODES = {
    **{BODY: _STATEMENT, STATEMENT: _STATEMENT, CONDITION: _CONDITION, NEGATED: _PERCEPTION},
    **{ACTION: _ACTION, PERCEPTION: _PERCEPTION, COUNT: _COUNT},
}
_SYMBOL, _DEPTH, _NESTING, _ITEM = range(4)
_LONGEST_FORM = max(len(form.symbols) for form in STATEMENT_FORMS)


@dataclass(frozen=True, kw_only=True, slots=True)
class SamplerConfig:
    """How random programs are drawn."""

    max_depth: int = 6
    """A statement deeper than this becomes an action; the top statement has depth 1."""
    max_nesting: int = 4
    """A statement inside more loops and branches than this becomes an action."""
    max_tokens: int = 50
    """Longer programs, `DEF` included, are drawn again."""

    def __post_init__(self) -> None:
        nested = (0, MAX_TOKENS)
        check_ranges(self, max_depth=nested, max_nesting=nested, max_tokens=(5, MAX_TOKENS))


def sample_programs(
    count: int,
    seed: int,
    config: SamplerConfig | None = None,
    vocabulary: Vocabulary = LEAPS,
    *,
    first: int = 0,
    purpose: Purpose = Purpose.PROGRAMS,
    threads: int | None = None,
) -> NDArray[np.uint8]:
    """Draw programs number `first`, `first + 1`, ... of a seed.

    Programs drawn for different purposes are independent even if the seed is the same.

    Returns:
        `[count, max_tokens]` uint8 token ids, padded; `DEF` first. Program i depends on the seed
        and i alone. The HPRL vocabulary brings HPRL's probabilities with it.
    """
    config = config or SamplerConfig()
    check_count("the number of programs", count, least=0)
    check_count("a seed", seed, least=0, most=MOST_SEED)
    check_memory(f"{count} programs", count, config.max_tokens + 16)
    ids = np.empty((count, config.max_tokens), np.uint8)
    streams = open_streams(purpose, seed, worlds=count, first=first)
    tables = grammar_tables(vocabulary)
    limits = (config.max_depth, config.max_nesting)
    parts = parts_for(count, threads, least=1000)

    pieces = pieces_for(parts, count * config.max_tokens)

    def sample_piece(piece: int) -> None:
        items = stack_for(config.max_tokens)
        _sample_batch(piece, pieces, streams, tables, *limits, items, ids)

    if count:
        launch(parts, sample_piece, pieces)
    return ids


def stack_for(tokens: int) -> NDArray[np.int32]:
    """Return a stack for `expand` on a program of so many tokens, `[N, 3]` int32."""
    return np.empty((tokens + _LONGEST_FORM, _ITEM), np.int32)


class GrammarTables(NamedTuple):
    """The grammar as compiled code takes it: forms as rows of symbols, cumulated probabilities."""

    padding: int
    program: NDArray[np.int16]
    statements: NDArray[np.int16]
    statement_odds: NDArray[np.float64]
    is_control: NDArray[np.bool_]
    conditions: NDArray[np.int16]
    condition_odds: NDArray[np.float64]
    actions: NDArray[np.int16]
    action_odds: NDArray[np.float64]
    perceptions: NDArray[np.int16]
    perception_odds: NDArray[np.float64]
    counts: NDArray[np.int16]
    count_odds: NDArray[np.float64]


@cache
def grammar_tables(vocabulary: Vocabulary, without: tuple[str, ...] = ()) -> GrammarTables:
    """The grammar over the ids of a vocabulary, with its probabilities, but `without` actions."""

    def rows(forms: tuple[Form, ...]) -> NDArray[np.int16]:
        table = np.full((len(forms), max(len(form.symbols) for form in forms)), _NOTHING, np.int16)
        for row, form in zip(table, forms, strict=True):
            for place, symbol in enumerate(form.symbols):
                row[place] = _CODES.get(symbol, vocabulary.id_of.get(symbol, _NOTHING))
        return table

    def cumulated(weights: list[float]) -> NDArray[np.float64]:
        return np.cumsum(weights) / np.sum(weights)

    def choices(weights: dict[str, float]) -> tuple[NDArray[np.int16], NDArray[np.float64]]:
        tokens = np.array(vocabulary.encode(weights), np.int16)
        return tokens, cumulated(list(weights.values()))

    is_hprl = vocabulary is HPRL
    statements = [form.hprl_weight if is_hprl else form.weight for form in STATEMENT_FORMS]
    is_control = np.array([STATEMENT not in form.symbols for form in STATEMENT_FORMS])
    return GrammarTables(
        *(vocabulary.pad, rows((PROGRAM_FORM,)), rows(STATEMENT_FORMS), cumulated(statements)),
        *(is_control, rows(CONDITION_FORMS), cumulated([form.weight for form in CONDITION_FORMS])),
        *choices({name: one for name, one in ACTION_WEIGHTS.items() if name not in without}),
        *choices(PERCEPTION_WEIGHTS),
        *choices({f"R={number}": 1.0 for number in vocabulary.counts}),
    )


@scalar
def _choose(stream, cumulated):
    """Draw an index with the given `cumulated` `[N]` float64 probabilities; one draw."""
    u = unit(stream)
    index = 0
    while index < len(cumulated) - 1 and u >= cumulated[index]:
        index += 1
    return index


@scalar
def _schedule(items, height, form, depth, nesting):
    """Put the symbols of a `form` `[S]` int16 on the stack, the first on top.

    Returns:
        The new height.
    """
    for place in range(len(form) - 1, -1, -1):
        if form[place] != _NOTHING:
            items[height, _SYMBOL] = form[place]
            items[height, _DEPTH] = depth
            items[height, _NESTING] = nesting
            height += 1
    return height


@scalar
def push_symbol(items, height, symbol):
    """Put a token id or one of `SYMBOLS` on top of the stack; returns the new height."""
    items[height, _SYMBOL] = symbol
    items[height, _DEPTH] = 1
    items[height, _NESTING] = 0
    return height + 1


@routine
def expand(stream, height, tables, max_depth, max_nesting, items, ids, at):
    """Write out what stands on the stack, from `ids[at]` on.

    Args:
        stream: `[1]` uint64, written.
        height: of the stack.
        tables: the `GrammarTables`, read.
        max_depth: a statement deeper than this becomes an action.
        max_nesting: a statement inside more loops and branches than this becomes an action.
        items: `[H, 3]` int32, the stack: symbol, depth, nesting; written.
        ids: `[L]` uint8, written.
        at: where to begin.

    Returns:
        Where it ends, or -1 if the row is too short.
    """
    limit = len(ids)
    while height > 0:
        height -= 1
        symbol = items[height, _SYMBOL]
        depth, nesting = items[height, _DEPTH], items[height, _NESTING]
        if symbol == _STATEMENT and depth <= max_depth and nesting <= max_nesting:
            form = _choose(stream, tables.statement_odds)
            inner = nesting + tables.is_control[form]
            deeper = depth + DEPTH_PER_FORM
            height = _schedule(items, height, tables.statements[form], deeper, inner)
        elif symbol == _CONDITION:
            form = _choose(stream, tables.condition_odds)
            height = _schedule(items, height, tables.conditions[form], depth, nesting)
        else:
            token = symbol
            if symbol == _ACTION or symbol == _STATEMENT:
                token = tables.actions[_choose(stream, tables.action_odds)]
            elif symbol == _PERCEPTION:
                token = tables.perceptions[_choose(stream, tables.perception_odds)]
            elif symbol == _COUNT:
                token = tables.counts[_choose(stream, tables.count_odds)]
            if at < limit:
                ids[at] = token
            at += 1
        if at + height > limit:  # every item on the stack is a token or more
            return -1
    return at


@scalar
def sample_program(stream, tables, max_depth, max_nesting, items, ids):
    """Draw a program into `ids` `[L]` uint8, again until it fits, and pad it."""
    length = -1
    while length < 0:
        height = _schedule(items, 0, tables.program[0], 1, 0)
        length = expand(stream, height, tables, max_depth, max_nesting, items, ids, 0)
    for place in range(length, len(ids)):
        ids[place] = tables.padding


@kernel
def _sample_batch(part, parts, streams, tables, max_depth, max_nesting, items, ids):
    """Expand a program into rows `part`, `part + parts`, ... of `ids` `[P, L]` uint8.

    `streams` `[P]` uint64 are drawn from.
    """
    for p in range(part, len(ids), parts):
        sample_program(streams[p : p + 1], tables, max_depth, max_nesting, items, ids[p])
