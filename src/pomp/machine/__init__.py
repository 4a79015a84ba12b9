"""The policy: modes and the transitions between them."""

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
