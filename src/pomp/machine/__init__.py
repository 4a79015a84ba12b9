"""The policy: modes and the transitions between them.

The axes of arrays are B worlds, K modes (a choice is a mode or the end, so there are K + 1), E
members of an ensemble of networks, and S parameters of one network.
"""

from pomp.machine.evaluation import Evaluation, evaluate, evaluate_exactly
from pomp.machine.policy import ProgramMachine
from pomp.machine.text import parse_machine, print_machine
from pomp.machine.transitions import DecisionList, NetworkTransition, Rule
from pomp.machine.zoo import load_machine

__all__ = [
    "DecisionList",
    "Evaluation",
    "NetworkTransition",
    "ProgramMachine",
    "Rule",
    "evaluate",
    "evaluate_exactly",
    "load_machine",
    "parse_machine",
    "print_machine",
]
