"""Moore machines for and from AALpy, a library of automata: minimised, compared, written as files.

A table of certain choices is such a machine: its states are the start, the modes and the end, what
a state puts out is the mode's program, and its inputs are observations. AALpy is an extra and is
imported where it is used.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from pomp.core.errors import ConfigError
from pomp.core.extras import AUTOMATA, require
from pomp.machine.code_table import CodeTable
from pomp.machine.policy import ProgramMachine

if TYPE_CHECKING:
    from aalpy.automata import MooreMachine

START, END = "start", "end"


@dataclass(frozen=True)
class MooreAutomaton:
    """A Moore machine whose every state knows where every input leads; S states, O inputs.

    Attributes:
        names: of the states, all different; the first state is the initial one.
        labels: what each state puts out.
        inputs: their names.
        successors: `[S, O]` int64, the state that comes after each state at each input.
    """

    names: tuple[str, ...]
    labels: tuple[str, ...]
    inputs: tuple[str, ...]
    successors: NDArray[np.int64]

    def __post_init__(self) -> None:
        wanted = (len(self.names), len(self.inputs))
        if self.successors.shape != wanted or len(self.labels) != len(self.names):
            raise ConfigError(
                f"a Moore machine of {wanted[0]} states and {wanted[1]} inputs has a label for "
                f"each state and a table {list(wanted)}, got {len(self.labels)} labels and "
                f"{list(self.successors.shape)}"
            )
        if ((self.successors < 0) | (self.successors >= len(self.names))).any():
            raise ConfigError(f"states are numbered from 0 to {len(self.names) - 1}")

    def to_automaton(self) -> "MooreMachine[str, str]":
        """Return it as AALpy has it.

        Raises:
            MissingExtraError: AALpy is not installed.
        """
        require(AUTOMATA, "a machine of AALpy")
        from aalpy.automata import MooreMachine, MooreState

        states: list[Any] = [
            MooreState(name, label) for name, label in zip(self.names, self.labels, strict=True)
        ]
        for state, row in zip(states, self.successors.tolist(), strict=True):
            state.transitions = {
                name: states[to] for name, to in zip(self.inputs, row, strict=True)
            }
        return MooreMachine(states[0], states)

    def minimised(self) -> "MooreAutomaton":
        """Return the machine with the fewest states that puts out the same, found by AALpy.

        States that no inputs lead to are left out, too. Of states that are one, the first one's
        name is kept.

        Raises:
            MissingExtraError: AALpy is not installed.
        """
        automaton = self._reachable().to_automaton()
        automaton.minimize()  # the earlier of two states stays, so the initial one is still first
        states = list(automaton.states)
        rows = [[states.index(state.transitions[name]) for name in self.inputs] for state in states]
        return MooreAutomaton(
            tuple(state.state_id for state in states),
            tuple(state.output for state in states),
            self.inputs,
            np.array(rows, np.int64).reshape(len(states), len(self.inputs)),
        )

    def to_dot(self) -> str:
        """Return it as a graph that AALpy reads again.

        Raises:
            MissingExtraError: AALpy is not installed.
        """
        automaton = self.to_automaton()
        from aalpy.utils import save_automaton_to_file

        return str(save_automaton_to_file(automaton, file_type="string"))

    def _reachable(self) -> "MooreAutomaton":
        """Return the machine without states that no inputs lead to."""
        reached, pending = {0}, [0]
        while pending:
            found = set(self.successors[pending.pop()].tolist()) - reached
            reached |= found
            pending += found
        kept = sorted(reached)
        numbers = np.cumsum(np.isin(np.arange(len(self.names)), kept)) - 1
        return MooreAutomaton(
            tuple(self.names[state] for state in kept),
            tuple(self.labels[state] for state in kept),
            self.inputs,
            numbers[self.successors[kept]],
        )


def moore_of(machine: ProgramMachine) -> MooreAutomaton:
    """Return an extracted machine as a Moore machine that begins at the start and stays at the end.

    Raises:
        ConfigError: the machine was not extracted, or draws its choices.
    """
    table = machine.transition
    if not isinstance(table, CodeTable) or not table.is_sure:
        raise ConfigError(
            "a Moore machine has certain choices, by a table of codes; this machine's transitions: "
            f"{machine.headline}"
        )
    ends = np.full((1, table.choices.shape[1]), len(machine.modes) + 1, np.int64)
    return MooreAutomaton(
        (START, *machine.signs, END),
        (START, *machine.modes, END),
        table.observations,
        np.concatenate([table.choices + 1, ends]),
    )
