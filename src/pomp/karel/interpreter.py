"""Run one compiled program on one world under a cap. Compiled, scalar.

`run_from` holds the control flow of programs and is the only compiled function that does. The
task's `step` comes in as an argument, and so do the hooks that record a trace or stop the run; all
are inlined, so the plain run pays nothing for them.

Arrays, for a world of H rows and W columns: `cells` `[H * W]` uint8, `memory` `[M]` int32 (the
task's integers), `stream` `[1]` uint64 (the random stream), `constants` `[N]` int64 (the setting's
numbers); `code` `[L]` uint32 is a program, `counters` `[D]` int32 scratch for its loops.
"""

import re
from enum import IntEnum
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from pomp.core.compiling import scalar
from pomp.core.configs import check_count
from pomp.core.errors import ConfigError
from pomp.dsl.bytecode import (
    AGAIN,
    ARGUMENT_MASK,
    ARGUMENT_SHIFT,
    BACK,
    COST_SHIFT,
    COUNTERS_PER_LOOP,
    NEGATED,
    OPERATION_MASK,
    REPEAT,
    STOP,
    TEST,
)
from pomp.karel.dynamics import ACTIONS, PUT, perceive

NO_ACTION = -1
"""What is due at a `Point` that is not before an action."""
MOST_STEPS = 1_000_000
"""The largest limit of a cap."""


class Ending(IntEnum):
    """Why a program stopped."""

    COMPLETED = 0
    """It ran to its end."""
    CAPPED = 1
    """Its budget was spent, or it was in a loop that could never end."""
    REFUSED = 2
    """A hook refused an action: in error mode, one that cannot be carried out."""
    INVALID = 3
    """It was no program at all."""


_COMPLETED, _CAPPED, _REFUSED, _INVALID = (int(ending) for ending in Ending)


class Cap(NamedTuple):
    """How long one execution of a program may last.

    Attributes:
        by_calls: whether the limit counts calls of the published executor or actions.
        limit: the most calls or actions of one execution.
    """

    by_calls: bool
    limit: int

    @classmethod
    def parse(cls, text: str) -> "Cap":
        """Read `calls220`, `calls500`, `actions200`, ...

        Raises:
            ConfigError: the text is none of them.
        """
        return _parse_cap(text)

    @classmethod
    def of(cls, cap: "Cap | str") -> "Cap":
        """Return a cap, or the one that a text says, as compiled code takes it.

        Raises:
            ConfigError: it is none, or its limit is not from 1 to `MOST_STEPS`.
        """
        if isinstance(cap, str):
            return _parse_cap(cap)
        if not isinstance(cap, cls):
            raise ConfigError(f"a cap is a text as calls220, or a Cap, got {cap!r:.80}")
        if not isinstance(cap.by_calls, bool):
            raise ConfigError(f"by_calls of a cap is True or False, got {cap.by_calls!r:.80}")
        return cls(cap.by_calls, check_count("the limit of a cap", cap.limit, most=MOST_STEPS))

    def __str__(self) -> str:
        return f"{'calls' if self.by_calls else 'actions'}{self.limit}"


@lru_cache(maxsize=64)
def _parse_cap(text: str) -> Cap:
    match = re.fullmatch(r"(calls|actions)([0-9]{1,7})", text)
    if not match or not 1 <= int(match[2]) <= MOST_STEPS:
        expected = f"callsN (calls220, calls500) or actionsN with N from 1 to {MOST_STEPS}"
        raise ConfigError(f"unknown cap {text!r:.80}: expected {expected}")
    return Cap(by_calls=match[1] == "calls", limit=int(match[2]))


class WorldState(NamedTuple):
    """One world that a program runs on, in compiled code.

    Attributes:
        cells: `[H * W]` uint8, written.
        pose: int64, four times the agent's cell plus its facing; functions return the new one.
        memory: `[M]` int32, written: the task's integers.
        stream: `[1]` uint64, written: the random stream.
    """

    cells: Any
    pose: Any
    memory: Any
    stream: Any


class CappedProgram(NamedTuple):
    """A program and how long it may run.

    Attributes:
        code: `[L]` uint32, its instructions.
        cap: the `Cap`.
    """

    code: Any
    cap: Any


class Point(NamedTuple):
    """Where a program stands.

    Attributes:
        due: the action that was charged and refused; `NO_ACTION`: none was.
        pc: the instruction after the one that was looked at last.
        spent: calls (or actions) charged so far.
        acted: actions performed so far.
        top: how many of the loops' counters are in use.
        turn_acted: `acted` when a WHILE last began another round; -1 before the first.
        turn_pc: `pc` at that time.
    """

    due: Any
    pc: Any
    spent: Any
    acted: Any
    top: Any
    turn_acted: Any
    turn_pc: Any


class Outcome(NamedTuple):
    """What is left of one execution of a program.

    Attributes:
        pose: the final pose of the agent.
        calls: the final call counter; under an actions cap, the actions performed.
        ending: why the program stopped, an `Ending`.
        point: the `Point` where it stopped.
    """

    pose: Any
    calls: Any
    ending: Any
    point: Any


@scalar
def refuses_nothing(trace, constants, world, action):
    """Refuse no action: the hook of a run that is not recorded."""
    return False


@scalar
def refuses_everything(trace, constants, world, action):
    """Refuse every action: the hook of a run that stops before its next action."""
    return True


@scalar
def performs_nothing(cells, constants, pose, memory, stream, action):
    """Stand in for a task's `step` in a run that performs no action."""
    return pose


@scalar
def notes_nothing(trace, constants, world, point, counters):
    """Write nothing after an action: the hook of a run that is not recorded."""


@scalar
def sees_nothing(trace, pc, holds):
    """Write nothing after a condition: the hook of a run that is not recorded."""


@scalar
def first_point(cap):
    """Return the beginning of a program, the `Point` from which it is run under a cap."""
    spent = 1 if cap.by_calls else 0  # the program itself is one call
    return Point(NO_ACTION, 0, spent, 0, 0, -1, -1)


@scalar
def run_from(  # noqa: C901 - one loop over all operations, inlined as a whole
    step, refuses, note, saw, trace, program, constants, world, counters, point
):
    """Run one program from a point to its end, to its cap, or up to an action that is refused.

    Args:
        step: the task's dynamics: `(cells, constants, pose, memory, stream, action) -> pose`.
        refuses: hook before an action, `(trace, constants, world, action)`; True ends the run.
        note: hook after an action, `(trace, constants, world, point, counters)`.
        saw: hook after a condition was tested, `(trace, pc, holds)`.
        trace: what the hooks write to.
        program: the `CappedProgram`.
        constants: `[N]` int64, read.
        world: the `WorldState`, whose arrays are written.
        counters: `[D]` int32, written: the loops' counters.
        point: the `Point` where the program stands.

    Returns:
        The `Outcome`. An action that is refused has been charged but not performed.
    """
    code, cap = program
    cells, pose, memory, stream = world
    due, pc, spent, acted, top, turn_acted, turn_pc = point
    ending = _COMPLETED
    while True:
        instruction = code[np.uint64(pc)]  # unsigned: Numba need not look for a negative index
        operation = instruction & OPERATION_MASK
        if operation >= STOP:
            ending = _COMPLETED if operation == STOP else _INVALID
            break
        spent += (instruction >> COST_SHIFT) if cap.by_calls else (operation <= PUT)
        # Beyond REPEAT stand the jumps, no nodes of the published executor: they check nothing, and
        # the charge of REPEAT R=0 may exceed the limit by one unpunished.
        if spent > cap.limit and (operation <= REPEAT or spent > cap.limit + 1):
            ending = _CAPPED
            break
        argument = (instruction >> ARGUMENT_SHIFT) & ARGUMENT_MASK
        pc += 1
        if operation <= PUT:
            if refuses(trace, constants, WorldState(cells, pose, memory, stream), operation):
                ending, due = _REFUSED, operation
                break
            memory[ACTIONS] += 1
            pose = step(cells, constants, pose, memory, stream, operation)
            acted += 1
            here = Point(operation, pc, spent, acted, top, turn_acted, turn_pc)
            note(trace, constants, WorldState(cells, pose, memory, stream), here, counters)
        elif operation < REPEAT:
            condition = (operation - TEST) & (BACK - TEST - 1)
            holds = perceive(cells, constants, pose, condition & (NEGATED - 1)) != (
                condition >= NEGATED
            )
            saw(trace, pc - 1, holds)
            if operation >= BACK:
                # A round without an action leaves the world as it was: the loop can never end.
                if acted == turn_acted and pc == turn_pc:
                    ending = _CAPPED
                    break
                turn_acted, turn_pc = acted, pc
                if holds:
                    pc = argument
            elif not holds:
                pc = argument
        elif operation == REPEAT:
            counters[top] = argument
            counters[top + 1] = acted
            top += COUNTERS_PER_LOOP
        elif operation == AGAIN:
            counters[top - 2] -= 1
            # Under an actions cap the rounds after one that did not act are free: leave them out.
            if counters[top - 2] > 0 and (cap.by_calls or counters[top - 1] != acted):
                counters[top - 1] = acted
                pc = argument
            else:
                top -= COUNTERS_PER_LOOP
        else:  # JUMP, SKIP
            pc = argument
    if cap.by_calls and ending == _CAPPED:
        spent = cap.limit + 1
    stopped = Point(due, pc, spent, acted, top, turn_acted, turn_pc)
    return Outcome(pose, spent if cap.by_calls else acted, ending, stopped)


@scalar
def run_program(step, refuses, note, saw, trace, code, cap, constants, world, counters):
    """Run one program from its beginning to its end or its cap.

    Args:
        step: the task's dynamics: `(cells, constants, pose, memory, stream, action) -> pose`.
        refuses: hook before an action, `(trace, constants, world, action)`; True ends the run.
        note: hook after an action, `(trace, constants, world, point, counters)`.
        saw: hook after a condition was tested, `(trace, pc, holds)`.
        trace: what the hooks write to.
        code: `[L]` uint32, the program.
        cap: the `Cap`.
        constants: `[N]` int64, read.
        world: the `WorldState`, whose arrays are written.
        counters: `[D]` int32, scratch for the loops.

    Returns:
        The `Outcome`.
    """
    return run_from(
        step, refuses, note, saw, trace, CappedProgram(code, cap), constants, world, counters,
        first_point(cap),
    )  # fmt: skip
