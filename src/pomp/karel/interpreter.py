"""Run one compiled program on one world under a cap. Compiled, scalar.

The task's `step` comes in as an argument, and so do the hooks that record a trace; all are
inlined, so the plain run pays nothing for them.
"""

import re
from dataclasses import dataclass
from enum import IntEnum

from pomp.core.compiling import scalar
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

CALLS, ENDING = range(2)  # entries of `outcome`
MOST_STEPS = 1_000_000  # of a cap


class Ending(IntEnum):
    """Why a program stopped."""

    COMPLETED = 0
    """It ran to its end."""
    CAPPED = 1
    """Its budget was spent, or it was in a loop that could never end."""
    REFUSED = 2
    """In error mode: an impossible action."""
    INVALID = 3
    """It was no program at all."""


_COMPLETED, _CAPPED, _REFUSED, _INVALID = (int(ending) for ending in Ending)


@dataclass(frozen=True)
class Cap:
    """How long one execution of a program may last."""

    by_calls: bool
    """Count calls of the published executor (True) or actions (False)."""
    limit: int

    @classmethod
    def parse(cls, text: str) -> "Cap":
        """Read `calls220`, `calls500`, `actions200`, ...

        Raises:
            ConfigError: the text is none of them.
        """
        match = re.fullmatch(r"(calls|actions)([0-9]{1,7})", text)
        if not match or not 1 <= int(match[2]) <= MOST_STEPS:
            expected = f"callsN (calls220, calls500) or actionsN with N from 1 to {MOST_STEPS}"
            raise ConfigError(f"unknown cap '{text}': expected {expected}")
        return cls(by_calls=match[1] == "calls", limit=int(match[2]))

    def __str__(self) -> str:
        return f"{'calls' if self.by_calls else 'actions'}{self.limit}"


@scalar
def refuses_nothing(trace, cells, constants, pose, action):
    """Hook of a run that is not recorded."""
    return False


@scalar
def notes_nothing(trace, lane, cells, constants, pose, memory, action, pc, counters, top):
    """Hook of a run that is not recorded."""


@scalar
def sees_nothing(trace, lane, pc, holds):
    """Hook of a run that is not recorded."""


@scalar
def run_program(  # noqa: C901 - one loop over all operations, inlined as a whole
    step, refuses, note, saw, trace, lane,
    code, constants, cells, pose, memory, stream, counters, by_calls, limit, outcome,
):  # fmt: skip
    """Run one program to its end or its cap.

    Args:
        step: the task's rules: `(cells, constants, pose, memory, stream, action) -> pose`.
        refuses: hook before an action; True ends the run.
        note: hook after an action.
        saw: hook after a condition was tested.
        trace: what the hooks write to.
        lane: the row of `trace` they write.
        code: `[L]` uint32, read.
        constants: int64, read.
        cells: `[H * W]` uint8, written.
        pose: where the agent is.
        memory: int32, written.
        stream: `[1]` uint64, written.
        counters: int32, scratch for the loops.
        by_calls: whether `limit` counts calls or actions.
        limit: the cap.
        outcome: `[2]` int32, written: the final call counter (under an actions cap: the actions
            performed) and the `Ending`.

    Returns:
        The final pose.
    """
    pc, top = 0, 0
    spent = 1 if by_calls else 0  # the program itself is one call
    acted, turn_acted, turn_pc = 0, -1, -1  # actions; the same and the place at the last WHILE turn
    ending = _COMPLETED
    while True:
        instruction = code[pc]
        operation = instruction & OPERATION_MASK
        if operation >= STOP:
            ending = _COMPLETED if operation == STOP else _INVALID
            break
        spent += (instruction >> COST_SHIFT) if by_calls else (operation <= PUT)
        # Beyond REPEAT stand the jumps, no nodes of the published executor: they check nothing, and
        # the charge of REPEAT R=0 may exceed the limit by one unpunished.
        if spent > limit and (operation <= REPEAT or spent > limit + 1):
            ending = _CAPPED
            break
        argument = (instruction >> ARGUMENT_SHIFT) & ARGUMENT_MASK
        pc += 1
        if operation <= PUT:
            if refuses(trace, cells, constants, pose, operation):
                ending = _REFUSED
                break
            memory[ACTIONS] += 1
            pose = step(cells, constants, pose, memory, stream, operation)
            acted += 1
            note(trace, lane, cells, constants, pose, memory, operation, pc - 1, counters, top)
        elif operation < REPEAT:
            condition = (operation - TEST) & (BACK - TEST - 1)
            holds = perceive(cells, constants, pose, condition & (NEGATED - 1)) != (
                condition >= NEGATED
            )
            saw(trace, lane, pc - 1, holds)
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
            if counters[top - 2] > 0 and (by_calls or counters[top - 1] != acted):
                counters[top - 1] = acted
                pc = argument
            else:
                top -= COUNTERS_PER_LOOP
        else:  # JUMP, SKIP
            pc = argument
    if by_calls and ending == _CAPPED:
        spent = limit + 1
    outcome[CALLS] = spent if by_calls else acted
    outcome[ENDING] = ending
    return pose
