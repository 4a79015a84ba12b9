"""Token ids -> flat code, in batches; the only form the interpreter sees.

An instruction is one uint32: operation (5 bits), argument (14 bits: a jump target or a count) and
cost (13 bits: what it charges under a `calls` cap). The published executor charges per node of a
left-nested tree: 2 (k - 1) on entering a block of k statements, 1 per action, 2 per other
statement. Between two actions nothing can observe the order of charges, so a block's charge is
added to the first instruction of the block and charged with it.

    0-4    an action
    5-12   test a condition, jump if false   (perception in 2 bits, 4 added if negated)
    13-20  test a condition, jump if true    (the end of a WHILE round)
    21     push a count                      (REPEAT R=n, n > 0)
    22     count down, jump unless zero      (the end of a REPEAT round)
    23     jump                              (over an ELSE)
    24     charge and jump                   (over the body of REPEAT R=0)
    25     end of the program
    26     what stands in for ids that are no program

Up to `REPEAT` an operation is refused once the budget is spent; those after it are not nodes of
the published executor and are free.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pomp.core.compiling import kernel, launch, parts_for, pieces_for, routine, scalar
from pomp.core.cuda import DeviceArray, to_device
from pomp.core.errors import ConfigError, PompError
from pomp.dsl.grammar import END as PROGRAM_END, ILLEGAL, MAX_TOKENS, RETURN, reader
from pomp.dsl.parser import check_tokens
from pomp.dsl.syntax import Program, tokens_of
from pomp.dsl.vocabulary import ACTION_OF_TOKEN, LEAPS, PERCEPTION_OF_TOKEN, Perception, Vocabulary

TEST, BACK, REPEAT, AGAIN, JUMP, SKIP, STOP = 5, 13, 21, 22, 23, 24, 25
NO_PROGRAM = 26
NEGATED = 4  # added to a perception's number in a condition

ARGUMENT_SHIFT, COST_SHIFT = 5, 19
OPERATION_MASK, ARGUMENT_MASK = 31, (1 << 14) - 1
COUNTERS_PER_LOOP = 2  # a REPEAT keeps its count and the number of actions before the round

# What a token means to the compiler; for the last three a number is added.
_OTHER, _WHILE, _REPEAT, _IF, _IFELSE, _OPEN, _CLOSE, _NOT = range(8)
_ACTION, _PERCEPTION, _COUNT = 16, 32, 64
_MEANINGS = {
    **{"WHILE": _WHILE, "REPEAT": _REPEAT, "IF": _IF, "IFELSE": _IFELSE, "not": _NOT},
    **dict.fromkeys(("m(", "w(", "r(", "i(", "e("), _OPEN),
    **dict.fromkeys(("m)", "w)", "r)", "i)", "e)"), _CLOSE),
    **{token: _ACTION + action for token, action in ACTION_OF_TOKEN.items()},
    **{token: _PERCEPTION + perception for token, perception in PERCEPTION_OF_TOKEN.items()},
}
_MARKERS_PRESENT, _NO_MARKERS_PRESENT = (
    int(Perception.MARKERS_PRESENT),
    int(Perception.NO_MARKERS_PRESENT),
)

_PROGRAM = (str, Program)

# Columns of the compiler's table of open statements.
_KIND, _ENTRY, _CONDITION, _FIRST, _STATEMENTS, _FRAME = range(6)


@dataclass(frozen=True)
class Code:
    """Compiled programs; only the compiler makes them, and their arrays are read-only.

    So the interpreter may rely on it: every jump leads to an instruction of the row, every row has
    an end, REPEAT and its end stand in pairs, and `depth` counters are enough for any row.

    Attributes:
        instructions: `[P, L]` uint32; ids that are no program are a lone `NO_PROGRAM`.
        valid: `[P]` bool: the ids were a program.
        depth: how many loop counters the deepest of them needs.
        source: `[P, L]` int16: the token each instruction comes from (for traces), or `[0, 0]`.
    """

    instructions: NDArray[np.uint32]
    valid: NDArray[np.bool_]
    depth: int
    source: NDArray[np.int16]

    def __post_init__(self) -> None:
        raise ConfigError("code is made by compile_programs and compile_ids alone, not by hand")

    @classmethod
    def _of(
        cls,
        instructions: NDArray[np.uint32],
        valid: NDArray[np.bool_],
        depth: int,
        source: NDArray[np.int16],
    ) -> "Code":
        """Hold what the compiler wrote, with the shapes of the attributes, read-only."""
        code = object.__new__(cls)
        for array in (instructions, valid, source):
            array.setflags(write=False)
        own = vars(code)
        own["instructions"], own["valid"] = instructions, valid
        own["depth"], own["source"] = depth, source
        return code

    def rows(self, chosen: slice) -> "Code":
        """Return some of the programs, without sources."""
        none = np.empty((0, 0), np.int16)
        return Code._of(self.instructions[chosen], self.valid[chosen], self.depth, none)

    def followed_by(self, other: "Code", rows: NDArray[np.integer]) -> "Code":
        """Return these programs, and behind them some `rows` `[N]` of others, without sources."""
        width = max(self.instructions.shape[1], other.instructions.shape[1])
        joined = np.zeros((len(self) + len(rows), width), np.uint32)
        joined[: len(self), : self.instructions.shape[1]] = self.instructions
        joined[len(self) :, : other.instructions.shape[1]] = other.instructions[rows]
        valid = np.concatenate([self.valid, other.valid[rows]])
        depth = max(self.depth, other.depth)
        return Code._of(joined, valid, depth, np.empty((0, 0), np.int16))

    def __len__(self) -> int:
        return len(self.instructions)

    @cached_property
    def on_device(self) -> DeviceArray:
        """The instructions in GPU memory; copied there once."""
        return to_device(self.instructions)


def compile_programs(
    programs: Sequence[Program | str], vocabulary: Vocabulary = LEAPS, *, source: bool = False
) -> Code:
    """Compile trees or texts.

    Raises:
        ProgramSyntaxError: one of them is not a program.
        ConfigError: they are no list of texts or trees.
    """
    if isinstance(programs, _PROGRAM) or not hasattr(programs, "__iter__"):
        raise ConfigError("programs are given as a list; put brackets around a single one")
    rows = []
    for program in programs:
        if not isinstance(program, _PROGRAM):
            raise ConfigError(f"a program is a text or a tree, got a {type(program).__name__}")
        tokens = program.split() if isinstance(program, str) else tokens_of(program)
        check_tokens(tokens, vocabulary)
        rows.append(vocabulary.encode(tokens))
    ids = np.full((len(rows), max(map(len, rows), default=1)), vocabulary.pad, np.uint8)
    for index, row in enumerate(rows):
        ids[index, : len(row)] = row
    return compile_ids(ids, vocabulary, source=source)


def is_program(text: str, vocabulary: Vocabulary = LEAPS) -> bool:
    """Say whether a text is a program that can be compiled."""
    try:
        compile_programs([text], vocabulary)
    except PompError:
        return False
    return True


def compile_ids(
    ids: NDArray[np.integer],
    vocabulary: Vocabulary = LEAPS,
    *,
    source: bool = False,
    threads: int | None = None,
) -> Code:
    """Compile a padded batch of token ids.

    Rows that are not programs are marked in `Code.valid`, those with ids outside the vocabulary
    among them. What stands behind the first padding is not looked at.

    Args:
        ids: `[P, L]` of any integer type; each row begins with `DEF`.
        vocabulary: the dialect.
        source: keep the token that each instruction comes from.
        threads: CPU threads; None: all. The result does not depend on it.
    """
    if not isinstance(ids, np.ndarray):
        raise ConfigError(f"token ids must be an array of integers, got a {type(ids).__name__}")
    if not isinstance(vocabulary, Vocabulary):
        raise ConfigError(f"a vocabulary is LEAPS or HPRL, got {vocabulary!r:.80}")
    if ids.ndim != 2 or not np.issubdtype(ids.dtype, np.integer):
        got = f"{ids.dtype} of shape {ids.shape}"
        raise ConfigError(f"token ids must be integers of shape [programs, tokens], got {got}")
    if ids.shape[1] > MAX_TOKENS:
        raise ConfigError(f"a program has at most {MAX_TOKENS} tokens, got {ids.shape[1]}")
    if ids.dtype != np.uint8:  # anything out of range becomes 255, which no vocabulary has
        ids = np.where((ids < 0) | (ids > 255), 255, ids).astype(np.uint8)
    count, length = ids.shape
    instructions = np.full((count, max(length, 1)), STOP, np.uint32)
    valid = np.zeros(count, np.bool_)
    depth = np.zeros(count, np.int32)
    origin = np.zeros(instructions.shape if source else (0, 0), np.int16)
    tables = reader_tables(vocabulary)
    rows = np.ascontiguousarray(ids)
    parts = parts_for(count, threads, least=1000)

    pieces = pieces_for(parts, count * length)

    def compile_piece(piece: int) -> None:
        compiled = CodeArrays(instructions, valid, depth, origin)
        _compile_batch(piece, pieces, rows, tables, CompilerScratch.empty(length), compiled)

    launch(parts, compile_piece, pieces)
    return Code._of(instructions, valid, int(depth.max(initial=0)), origin)


class ReaderTables(NamedTuple):
    """The grammar's automaton of S states over V tokens, and what the tokens mean.

    Attributes:
        goto: `[S, V]` int16: the next state.
        push: `[S, V]` int16: the state to come back to, or -1.
        start: the first state.
        meaning: `[V]` uint8: what a token means to the compiler.
    """

    goto: Any
    push: Any
    start: Any
    meaning: Any


@cache
def reader_tables(vocabulary: Vocabulary = LEAPS) -> ReaderTables:
    """Return the tables of a vocabulary."""
    automaton = reader(vocabulary)
    meanings = [_MEANINGS.get(token, _OTHER) for token in vocabulary.tokens]
    for count in vocabulary.counts:
        meanings[vocabulary.id_of[f"R={count}"]] = _COUNT + count
    meaning = np.array(meanings, np.uint8)
    return ReaderTables(automaton.goto, automaton.push, automaton.start, meaning)


class CompilerScratch(NamedTuple):
    """Memory for compiling programs of up to L tokens.

    Attributes:
        stack: `[L + 1]` int16, of the automaton.
        frames: `[L + 1, _FRAME]` int32, one row per open statement.
    """

    stack: Any
    frames: Any

    @classmethod
    def empty(cls, tokens: int) -> "CompilerScratch":
        """Return uninitialised memory for programs of so many tokens."""
        return cls(np.empty(tokens + 1, np.int16), np.empty((tokens + 1, _FRAME), np.int32))


class CodeArrays(NamedTuple):
    """Compiled programs, each array written.

    Attributes:
        instructions: `[P, L]` uint32.
        valid: `[P]` bool: the ids were a program.
        depth: `[P]` int32: how many loop counters the program needs.
        source: `[P, L]` int16: the token each instruction comes from, or `[0, 0]`.
    """

    instructions: Any
    valid: Any
    depth: Any
    source: Any


@kernel
def _compile_batch(part, parts, ids, tables, scratch, compiled):
    """Compile rows `part`, `part + parts`, ... of `ids` `[P, L]` uint8.

    `tables` are `ReaderTables`, `scratch` is a `CompilerScratch`, `compiled` are `CodeArrays`,
    written.
    """
    for p in range(part, len(ids), parts):
        needed = _compile_one(ids[p], tables, scratch, compiled.instructions[p], compiled.source, p)
        compiled.valid[p] = needed >= 0
        compiled.depth[p] = max(needed, 0)
        if needed < 0:
            compiled.instructions[p, 0] = NO_PROGRAM


@routine
def compile_legal(ids, tables, scratch, code, origin):
    """Translate one program that is known to be one.

    Args:
        ids: `[L]` uint8, read up to the first padding.
        tables: the `ReaderTables`.
        scratch: the `CompilerScratch`.
        code: `[L]` uint32, written.
        origin: `[0, 0]` int16.
    """
    _compile_one(ids, tables, scratch, code, origin, 0)


@scalar
def _compile_one(  # noqa: C901 - one pass over all kinds of tokens
    ids, tables, scratch, code, origin, p
):
    """Check and translate one program in one pass.

    Args:
        ids: `[L]` uint8, read up to the first padding.
        tables: the `ReaderTables`.
        scratch: the `CompilerScratch`.
        code: `[L]` uint32, written.
        origin: `[P, L]` int16, row `p` written, or `[0, 0]`.
        p: the program's row in `origin`.

    Returns:
        The number of loop counters it needs, or -1 if it is not a program.
    """
    goto, push, start, meaning = tables
    stack, frames = scratch
    state, height = np.int64(start), 0
    frame, pc, loops, deepest = 0, 0, 0, 0
    condition, count = 0, 0
    frames[0, _KIND] = _OTHER
    for position in range(len(ids)):
        token = np.int64(ids[position])
        if token >= goto.shape[1] or goto[state, token] == ILLEGAL:
            return -1
        if push[state, token] >= 0:
            stack[height] = push[state, token]
            height += 1
        state = np.int64(goto[state, token])
        if state == RETURN:
            height -= 1
            state = np.int64(stack[height])

        what = np.int64(meaning[token])
        if len(origin) and (what == _CLOSE or _ACTION <= what < _COUNT or what == _REPEAT):
            origin[p, pc] = position  # of a test: its perception
        if what >= _COUNT:
            count = what - _COUNT
        elif what >= _PERCEPTION:
            perception = what - _PERCEPTION
            if perception == _NO_MARKERS_PRESENT:
                perception = _MARKERS_PRESENT
                condition ^= NEGATED
            condition |= perception
        elif what >= _ACTION:
            code[pc] = (what - _ACTION) | 1 << COST_SHIFT
            frames[frame, _STATEMENTS] += 1
            pc += 1
        elif what == _NOT:
            condition ^= NEGATED
        elif what == _OPEN:
            kind = frames[frame, _KIND]
            if frames[frame, _ENTRY] >= 0:  # `e(`: the frame's second block
                pass
            elif kind == _REPEAT:
                frames[frame, _ENTRY] = pc
                frames[frame, _CONDITION] = count
                loops += count > 0
                deepest = max(deepest, loops)
                operation = REPEAT if count > 0 else SKIP
                code[pc] = operation | count << ARGUMENT_SHIFT | 2 << COST_SHIFT
                pc += 1
            elif kind != _OTHER:
                frames[frame, _ENTRY] = pc
                frames[frame, _CONDITION] = condition
                code[pc] = (TEST + condition) | 2 << COST_SHIFT
                pc += 1
            frames[frame, _FIRST] = pc
            frames[frame, _STATEMENTS] = 0
        elif what == _CLOSE:
            kind, entry, first = frames[frame, _KIND], frames[frame, _ENTRY], frames[frame, _FIRST]
            code[first] += np.uint32(2 * (frames[frame, _STATEMENTS] - 1) << COST_SHIFT)
            closed = True
            if kind == _WHILE:
                code[pc] = (BACK + frames[frame, _CONDITION]) | first << ARGUMENT_SHIFT
                pc += 1
                code[entry] |= np.uint32(pc << ARGUMENT_SHIFT)
            elif kind == _REPEAT and frames[frame, _CONDITION] > 0:
                code[pc] = AGAIN | first << ARGUMENT_SHIFT
                pc += 1
                loops -= 1
            elif kind == _IFELSE:  # the first block; the second closes a plain _IF on its jump
                code[pc] = JUMP
                code[entry] |= np.uint32((pc + 1) << ARGUMENT_SHIFT)
                frames[frame, _KIND] = _IF
                frames[frame, _ENTRY] = pc
                pc += 1
                closed = False
            elif kind != _OTHER:
                code[entry] |= np.uint32(pc << ARGUMENT_SHIFT)
            if closed and frame > 0:
                frame -= 1
        elif what != _OTHER:  # WHILE, REPEAT, IF, IFELSE
            frames[frame, _STATEMENTS] += 1
            frame += 1
            frames[frame, _KIND] = what
            frames[frame, _ENTRY] = -1
            condition = 0
        if state == PROGRAM_END:
            code[pc] = STOP
            padding = goto.shape[1] - 1
            if position + 1 < len(ids) and ids[position + 1] != padding:
                return -1
            return deepest * COUNTERS_PER_LOOP
    return -1
