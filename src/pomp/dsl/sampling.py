"""Random programs with the paper's probabilities, expanded from the grammar's table."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pomp._numba import kernel, launch, parts_for, scalar
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
from pomp.errors import ConfigError
from pomp.streams import Purpose, draw, open_streams

DEPTH_PER_FORM = 2  # how much deeper the statements inside a statement are

# Symbols in the compiled tables: a token id, or one of these.
_STATEMENT, _CONDITION, _ACTION, _PERCEPTION, _COUNT, _NOTHING = -1, -2, -3, -4, -5, -6
_CODES = {
    **{BODY: _STATEMENT, STATEMENT: _STATEMENT, CONDITION: _CONDITION, NEGATED: _PERCEPTION},
    **{ACTION: _ACTION, PERCEPTION: _PERCEPTION, COUNT: _COUNT},
}
_SYMBOL, _DEPTH, _NESTING, _ITEM = range(4)
_UNIT = 2.0**-53
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
        if min(self.max_depth, self.max_nesting) < 0:
            raise ConfigError("max_depth and max_nesting must not be negative")
        if not 5 <= self.max_tokens <= MAX_TOKENS:
            raise ConfigError(f"max_tokens must be in 5..{MAX_TOKENS}, got {self.max_tokens}")


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
    if count < 0 or seed < 0:
        raise ConfigError(f"count and seed must not be negative, got {count} and {seed}")
    ids = np.full((count, config.max_tokens), vocabulary.pad, np.uint8)
    streams = open_streams(purpose, seed, worlds=count, first=first)
    tables = _tables(vocabulary)
    limits = (config.max_depth, config.max_nesting)
    parts = parts_for(count, threads, least=1000)

    def sample_part(part: int) -> None:
        items = np.empty((config.max_tokens + _LONGEST_FORM, _ITEM), np.int32)
        _sample_batch(part, parts, streams, *tables, *limits, items, ids)

    if count:
        launch(parts, sample_part)
    return ids


def _tables(vocabulary: Vocabulary) -> tuple[NDArray[np.generic], ...]:
    """Forms as rows of symbols, and cumulated probabilities of every choice."""

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
    return (
        *(rows((PROGRAM_FORM,)), rows(STATEMENT_FORMS), cumulated(statements), is_control),
        *(rows(CONDITION_FORMS), cumulated([form.weight for form in CONDITION_FORMS])),
        *choices(ACTION_WEIGHTS),
        *choices(PERCEPTION_WEIGHTS),
        *choices({f"R={number}": 1.0 for number in vocabulary.counts}),
    )


@scalar
def _choose(stream, cumulated):
    """An index with the given cumulated probabilities; one draw."""
    u = (draw(stream) >> np.uint64(11)) * _UNIT
    index = 0
    while index < len(cumulated) - 1 and u >= cumulated[index]:
        index += 1
    return index


@scalar
def _schedule(items, height, form, depth, nesting):
    """Put a form's symbols on the stack, first symbol on top; returns the new height."""
    for place in range(len(form) - 1, -1, -1):
        if form[place] != _NOTHING:
            items[height, _SYMBOL] = form[place]
            items[height, _DEPTH] = depth
            items[height, _NESTING] = nesting
            height += 1
    return height


@kernel
def _sample_batch(
    part, parts, streams,
    program, statements, statement_odds, is_control, conditions, condition_odds,
    actions, action_odds, perceptions, perception_odds, counts, count_odds,
    max_depth, max_nesting, items, ids,
):  # fmt: skip
    """Expand a program into rows `part`, `part + parts`, ... of `ids`, which start as padding."""
    limit = ids.shape[1]
    padding = ids[part, 0]
    for p in range(part, len(ids), parts):
        stream = streams[p : p + 1]
        length = limit + 1
        while length > limit:  # too long: draw again
            length = 0
            height = _schedule(items, 0, program[0], 1, 0)
            while height > 0:
                height -= 1
                symbol = items[height, _SYMBOL]
                depth, nesting = items[height, _DEPTH], items[height, _NESTING]
                if symbol == _STATEMENT and depth <= max_depth and nesting <= max_nesting:
                    form = _choose(stream, statement_odds)
                    inner = nesting + is_control[form]
                    deeper = depth + DEPTH_PER_FORM
                    height = _schedule(items, height, statements[form], deeper, inner)
                elif symbol == _CONDITION:
                    form = _choose(stream, condition_odds)
                    height = _schedule(items, height, conditions[form], depth, nesting)
                else:
                    token = symbol
                    if symbol == _ACTION or symbol == _STATEMENT:
                        token = actions[_choose(stream, action_odds)]
                    elif symbol == _PERCEPTION:
                        token = perceptions[_choose(stream, perception_odds)]
                    elif symbol == _COUNT:
                        token = counts[_choose(stream, count_odds)]
                    if length < limit:
                        ids[p, length] = token
                    length += 1
                if length + height > limit:  # every item on the stack is a token or more
                    length = limit + 1
                    height = 0
        for place in range(length, limit):
            ids[p, place] = padding
