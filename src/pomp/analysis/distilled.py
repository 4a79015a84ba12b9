"""What comes of distilling rules from a network, as a result and as a file."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pomp.analysis.extracted import tell_evaluation
from pomp.core.errors import OutputError
from pomp.core.storage import check_new
from pomp.machine.evaluation import Evaluation
from pomp.machine.policy import ProgramMachine
from pomp.machine.text import SUFFIX, write_machine
from pomp.machine.transitions import DecisionList


@dataclass(frozen=True)
class Fidelity:
    """How often rules choose as a network does, on states of its own fresh episodes.

    Attributes:
        likeliest: the share of states in which they choose what the network likes best.
        drawn: the mean probability with which the network draws what they choose.
        most: the same for what the network likes best: rules cannot have more.
        states: how many there were.
    """

    likeliest: float
    drawn: float
    most: float
    states: int


@dataclass(frozen=True)
class Distillation:
    """A text machine that was distilled from a network, and how it does beside it.

    Attributes:
        machine: the network's modes with rules.
        is_enough: whether it kept enough in its trials; else it is the best that was found.
        was_searched: whether rules were changed by trying, because fitted ones were not enough.
        goal: the mean return that is enough.
        fidelity: how often it chooses as the network does.
        network: episodes of the network on evaluation starts, sampled.
        greedy: the same with its likeliest choices.
        found: episodes of the machine on evaluation starts.
    """

    machine: ProgramMachine
    is_enough: bool
    was_searched: bool
    goal: float
    fidelity: Fidelity
    network: Evaluation
    greedy: Evaluation
    found: Evaluation

    @property
    def rules(self) -> DecisionList:
        """The machine's rules."""
        assert isinstance(self.machine.transition, DecisionList)
        return self.machine.transition

    @property
    def share(self) -> float | None:
        """Which share of the network's return the machine has; None: that one earns nothing."""
        return self.found.mean / self.network.mean if self.network.mean > 0 else None

    def to_json(self) -> dict[str, Any]:
        """Return all but the machine itself."""
        lists = (self.rules.start, *self.rules.after)
        return {
            "task": self.machine.task.name,
            "modes": len(self.machine.modes),
            "rules": sum(map(len, lists)),
            "conditions": sum(len(rule.when) for rules in lists for rule in rules),
            "sensors": self.rules.sensors,
            "enough": self.is_enough,
            "searched": self.was_searched,
            "goal": self.goal,
            "share": self.share,
            "fidelity": {
                "likeliest": self.fidelity.likeliest,
                "drawn": self.fidelity.drawn,
                "most": self.fidelity.most,
                "states": self.fidelity.states,
            },
            "returns": {
                "network": tell_evaluation(self.network),
                "network greedy": tell_evaluation(self.greedy),
                "rules": tell_evaluation(self.found),
            },
        }


def check_new_file(file: str | Path) -> Path:
    """Return a machine's file that can be written.

    Raises:
        OutputError: it exists, is no `.machine`, or nothing can be written there.
    """
    path = Path(file)
    if path.suffix != SUFFIX:
        raise OutputError(f"'{path}' is no name of a text machine; it ends in {SUFFIX}")
    check_new(path, "file")
    return path


def save_distillation(distillation: Distillation, file: str | Path) -> None:
    """Write the machine as a new text file.

    Raises:
        OutputError: the file exists, or cannot be written.
    """
    write_machine(distillation.machine, check_new_file(file))
