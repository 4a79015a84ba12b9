"""Quantise a machine whose network remembers, and extract the Moore machine that it is.

The paper's baseline MMN: what its table shows is the quantised network; the Moore machine out of it
is run, too.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from pomp.analysis.moore import MooreMachine, minimise_moore, tabulate
from pomp.analysis.trials import check_study
from pomp.core.errors import ConfigError
from pomp.core.extras import LEARN, require
from pomp.machine.config import QuantisingConfig
from pomp.machine.evaluation import Evaluation
from pomp.machine.moore_table import MooreTable, layers_before_memory
from pomp.machine.policy import ProgramMachine
from pomp.machine.quantised import QuantisedNetwork
from pomp.machine.transitions import END, NetworkTransition

_BODY = "DEF run m( ", " m)"  # what stands around the statements of a program


@dataclass(frozen=True)
class Quantised:
    """A machine whose network remembers by codes.

    Attributes:
        machine: with the quantised network.
        whole: the Moore machine that it is, as far as its episodes went.
        minimal: the smallest that does the same.
        moore: the minimal one as a machine that can be run.
    """

    machine: ProgramMachine
    whole: MooreMachine
    minimal: MooreMachine
    moore: ProgramMachine

    def tell(self, found: Evaluation) -> dict[str, Any]:
        """Return the sizes of the Moore machine and what it earns, for JSON.

        Args:
            found: its evaluation.
        """
        return {
            "mean": found.mean,
            "std": found.std,
            "ended": int(found.ended.sum()),
            "episodes": len(found.returns),
            "states": self.minimal.states,
            "inputs": self.minimal.inputs,
            "states_before": self.whole.states,
            "codes": self.whole.inputs,
            "closed": self.whole.is_closed,
        }


def quantise(
    machine: ProgramMachine, config: QuantisingConfig | None = None, *, seed: int = 0
) -> Quantised:
    """Quantise a machine whose network remembers, and extract a Moore machine.

    Args:
        machine: which.
        config: how; None: with the defaults.
        seed: of episodes and first weights.

    Raises:
        ConfigError: the machine has no network that remembers, or something is not of its kind.
        MissingExtraError: torch is not installed.
        TrainingError: a weight is not a number any more.
    """
    config = QuantisingConfig() if config is None else config
    check_study("quantising", machine, config, QuantisingConfig, seed)
    transition = machine.transition
    if not isinstance(transition, NetworkTransition) or not transition.remembers:
        raise ConfigError(
            "a network that remembers is quantised, and this machine has none: "
            f"{machine.headline}; pomp extract takes networks that do not remember"
        )
    require(LEARN, "quantising a network")
    from pomp.machine.quantising import codes_met, open_memory, quantise_network

    quantised = quantise_network(machine, config, seed)
    network = quantised.transition
    assert isinstance(network, QuantisedNetwork)
    codes = codes_met(quantised, config, seed)
    whole = tabulate(open_memory(network), codes, config.most_states)
    minimal = minimise_moore(whole)
    table = MooreTable(
        network.config, network.size, network.modes, layers_before_memory(network.arrays), codes,
        minimal.groups, minimal.following, np.maximum(minimal.labels, 0),
    )  # fmt: skip
    return Quantised(quantised, whole, minimal, replace(quantised, transition=table))


def name_choices(machine: ProgramMachine) -> Sequence[str]:
    """Return what a machine chooses from, in short: the statements of its modes, and the end."""
    begin, end = _BODY
    return [*(mode.removeprefix(begin).removesuffix(end) for mode in machine.modes), END]
