"""`pomp extract`."""

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Literal

from tyro.conf import Positional, arg

from pomp.cli.inputs import Allowed, check_seed
from pomp.cli.output import say
from pomp.cli.progress import ProgressLine

if TYPE_CHECKING:
    from pomp.analysis.extracted import Extraction
    from pomp.analysis.extraction import ExtractionConfig
    from pomp.machine.policy import ProgramMachine


@dataclass(frozen=True, kw_only=True)
class Extract:
    """Extract a state machine from a machine with a network: modes, observations, a table."""

    machine: Annotated[Positional[str], arg(metavar="MACHINE|zoo:TASK/network")]
    """A machine's folder, or one that comes with the package."""
    out: Annotated[str, arg(metavar="FOLDER")]
    """Write the state machine (machine), the minimal one (minimal), both as graphs (*.dot, *.svg)
    and all numbers (extraction.json) into this new folder."""
    sizes: tuple[int, ...] | None = None
    """Units of a code that are tried; without it 2 3 4 6 8 12."""
    keep: float = 0.97
    """The share of the network's return, and of the episodes that it ends by itself, that the state
    machine must keep while it is made small."""
    choices: Literal["auto", "greedy", "sampled"] = "auto"
    """The likeliest choices, as in the paper; or drawn ones; auto: drawn ones only if no state
    machine with the likeliest keeps enough."""
    recipe: Literal["decisions", "paper"] = "decisions"
    """What codes must keep: the network's decisions above all; or, as in the paper, what it makes
    of what it sees."""
    episodes: int = 256
    """Episodes of the network from which codes are learned."""
    trials: int = 100
    """Episodes in which each state machine is tried."""
    seed: int = 0
    """Of these episodes, and of first weights; evaluation starts are never among them."""
    allow: Allowed = ()
    """A module that the file may name as the home of its task, and that is run then."""
    json: bool = False
    """Print one JSON document."""

    def run(self) -> int:
        """Extract, write, print."""
        check_seed(self.seed)
        from pomp.analysis.extracted import check_new_folder, save_extraction
        from pomp.machine.zoo import load_machine

        check_new_folder(self.out)
        config = self._config()
        found = extract_shown(load_machine(self.machine, self.allow), config, self.seed)
        save_extraction(found, self.out)
        if self.json:
            say(json.dumps({**found.to_json(), "out": self.out}))
        else:
            say(_text(found, self.out))
        return 0

    def _config(self) -> "ExtractionConfig":
        """Return the settings that were given."""
        from pomp.analysis.extraction import SIZES, ExtractionConfig
        from pomp.machine.config import BottleneckConfig

        return ExtractionConfig(
            sizes=SIZES if self.sizes is None else self.sizes,
            keep=self.keep,
            choices=self.choices,
            episodes=self.episodes,
            trials=self.trials,
            bottleneck=BottleneckConfig.of(self.recipe),
        )


def extract_shown(
    machine: "ProgramMachine", config: "ExtractionConfig | None" = None, seed: int = 0
) -> "Extraction":
    """Extract a state machine, and show how far it is."""
    from pomp.analysis.extraction import ExtractionConfig, extract

    config = config or ExtractionConfig()
    progress = ProgressLine("sizes tried", len(config.sizes))
    try:
        return extract(machine, config, seed=seed, tell=progress.step)
    finally:
        progress.close()


def _text(found: "Extraction", out: str) -> str:
    """Return what was found as text."""
    told = found.to_json()
    lines = [f"{'units':>5}  {'codes':>5}  {'all after merging':>20}  {'merged further':>28}"]
    lines += [_size_line(size) for size in told["sizes"]]
    kept, share = told["machine"], told["share"]
    enough = "" if told["enough"] else "; none that was tried earned enough, this one most"
    lines += [
        f"{told['task']}: {len(kept['observations'])} observations from {len(told['codes'])} codes "
        f"of {told['units']} units, {len(kept['modes'])} modes, {told['choices']} choices{enough}",
        *(f"{name:<16} {_return(told['returns'][name])}" for name in told["returns"]),
    ]
    if share is not None:
        lines.append(f"the state machine earns {share:.1%} of what the network does")
    minimal = told["minimal"]
    lines.append(
        f"the minimal one has {len(minimal['modes'])} modes and {len(minimal['observations'])} "
        f"observations; written to {out}"
    )
    return "\n".join(lines)


def _size_line(size: dict[str, Any]) -> str:
    """Return one line about a size of codes."""
    merged = ", ".join(f"{kind} {_trial(trial)}" for kind, trial in size["merged"].items())
    complete = _trial(size["complete"]) if size["complete"] else f"{size['columns']} (-)"
    return f"{size['units']:>5}  {size['codes']:>5}  {complete:>20}  {merged:>28}"


def _trial(trial: dict[str, Any]) -> str:
    """Return how many observations a state machine had in a trial, and what it earned."""
    return f"{trial['observations']} ({trial['mean']:.4f})"


def _return(told: dict[str, Any]) -> str:
    """Return what was earned, and in how many episodes the end was chosen."""
    ended = told["endings"]["by choice"]
    return (
        f"{told['mean']:9.6f} on evaluation starts; ended {ended} of {told['episodes']} by itself"
    )
