"""`pomp distill`."""

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

from tyro.conf import Positional, arg

from pomp.cli.inputs import Allowed, check_seed
from pomp.cli.output import say
from pomp.cli.progress import ProgressLine

if TYPE_CHECKING:
    from pomp.analysis.distillation import DistillationConfig
    from pomp.analysis.distilled import Distillation
    from pomp.machine.policy import ProgramMachine


@dataclass(frozen=True, kw_only=True)
class Distill:
    """Turn a machine with a network into a text machine: the same modes, and rules."""

    machine: Annotated[Positional[str], arg(metavar="MACHINE|zoo:TASK/network")]
    """A machine's folder, or one that comes with the package."""
    out: Annotated[str, arg(metavar="FILE.machine")]
    """Write the text machine to this new file."""
    keep: float = 0.95
    """The share of the network's return, and of the episodes that it ends by itself, that the rules
    must keep while they are made few."""
    episodes: int = 128
    """Episodes that teach, of each of three fits."""
    trials: int = 100
    """Episodes in which each list of rules is tried."""
    search: int = 200
    """Rounds in which rules are changed by trying, if fitted ones do not earn enough; 0: none."""
    seed: int = 0
    """Of these episodes and changes; evaluation starts are never among them."""
    allow: Allowed = ()
    """A module that the file may name as the home of its task, and that is run then."""
    json: bool = False
    """Print one JSON document."""

    def run(self) -> int:
        """Distil, write, print."""
        check_seed(self.seed)
        from pomp.analysis.distillation import DistillationConfig
        from pomp.analysis.distilled import check_new_file, save_distillation
        from pomp.machine.zoo import load_machine

        check_new_file(self.out)
        config = DistillationConfig(
            keep=self.keep, episodes=self.episodes, trials=self.trials, search=self.search
        )
        found = self._distill(load_machine(self.machine, self.allow), config)
        save_distillation(found, self.out)
        if self.json:
            say(json.dumps({**found.to_json(), "out": self.out}))
        else:
            say(_text(found.to_json(), self.out))
        return 0

    def _distill(self, machine: "ProgramMachine", config: "DistillationConfig") -> "Distillation":
        """Distil, and show how far it is."""
        from pomp.analysis.distillation import distill

        progress = ProgressLine("steps", config.steps)
        try:
            return distill(machine, config, seed=self.seed, tell=progress.step)
        finally:
            progress.close()


def _text(told: dict[str, Any], out: str) -> str:
    """Return what was found as text."""
    how = "fitted, then changed by trying" if told["searched"] else "fitted"
    lines = [
        f"{told['task']}: {told['modes']} modes, {told['rules']} rules with {told['conditions']} "
        f"conditions, {told['sensors']}; {how}"
    ]
    if not told["enough"]:
        lines.append(f"none that was tried kept {told['goal']:.4f}; this one earned most")
    fidelity = told["fidelity"]
    lines.append(
        f"fidelity: the network's likeliest choice in {fidelity['likeliest']:.1%} of "
        f"{fidelity['states']} fresh states, its drawn one in {fidelity['drawn']:.1%} (at most "
        f"{fidelity['most']:.1%})"
    )
    for name, found in told["returns"].items():
        ended = found["endings"]["by choice"]
        lines.append(
            f"{name:<16} {found['mean']:9.6f} on evaluation starts; ended {ended} of "
            f"{found['episodes']} by itself"
        )
    if told["share"] is not None:
        lines.append(f"the rules earn {told['share']:.1%} of what the network does")
    return "\n".join([*lines, f"written to {out}"])
