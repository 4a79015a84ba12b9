"""Machines whose networks remember: what a run does with these before they are evaluated."""

import json
from typing import Any

from pomp.analysis.moore import print_moore
from pomp.analysis.remembering import Quantised, name_choices, quantise
from pomp.machine.config import QuantisingConfig
from pomp.machine.evaluation import evaluate
from pomp.machine.policy import ProgramMachine
from pomp.machine.transitions import NetworkTransition
from pomp.runs.folder import RunFolder

_NETWORK, _MOORE = "network", "moore"


def is_recurrent(machine: ProgramMachine) -> bool:
    """Whether a machine's network remembers, and is not quantised yet."""
    return isinstance(machine.transition, NetworkTransition) and machine.transition.remembers


def quantise_learned(
    machine: ProgramMachine, config: QuantisingConfig, seed: int, folder: RunFolder
) -> tuple[ProgramMachine, dict[str, Any]]:
    """Quantise a machine whose network remembers; return any other as it is.

    The folder gets the machine as it was learned, the Moore machine as one that can be run, as JSON
    and as a graph.

    Args:
        machine: what was learned.
        config: how.
        seed: of the run.
        folder: the machine's.

    Returns:
        The machine that is evaluated, and what an evaluation says beside it.
    """
    if not is_recurrent(machine):
        return machine, {}
    found = quantise(machine, config, seed=seed)
    if folder.path is not None:
        names = name_choices(machine)
        for name, one in ((_NETWORK, machine), (_MOORE, found.moore)):
            folder.within(name).make()
            one.save(folder.path / name)
        folder.write_text(f"{_MOORE}.json", json.dumps(found.minimal.to_json(names)) + "\n")
        folder.write_text(f"{_MOORE}.dot", print_moore(found.minimal, names))
    return found.machine, tell_quantised(machine, found)


def tell_quantised(machine: ProgramMachine, found: Quantised, scale: int = 1) -> dict[str, Any]:
    """Return what the network earned before it was quantised, and what its Moore machine earns.

    Args:
        machine: as it was learned.
        found: what came of it.
        scale: how many times longer the task is.
    """
    moore = found.tell(evaluate(found.moore, scale=scale))
    return {_NETWORK: evaluate(machine, scale=scale).mean, _MOORE: moore}
