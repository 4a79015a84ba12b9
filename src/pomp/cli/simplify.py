"""`pomp simplify`."""

import json
import math
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from tyro.conf import Positional, arg

from pomp.cli.inputs import Allowed, check_episodes, check_output, check_seed
from pomp.cli.output import say
from pomp.cli.progress import ProgressLine
from pomp.core.errors import ConfigError, OutputError

if TYPE_CHECKING:
    from pomp.analysis.simplification import Simplified
    from pomp.machine.evaluation import Evaluation
    from pomp.machine.policy import ProgramMachine

_SUFFIX = ".machine"  # of machines in text files
_LONGEST = 72  # characters of a removal


@dataclass(frozen=True, kw_only=True)
class Simplify:
    """Leave out what a machine with rules can do without: modes, rules, pieces of programs."""

    machine: Annotated[Positional[str], arg(metavar="MACHINE|zoo:TASK")]
    """A machine's file (*.machine) or folder."""
    tolerance: float = 0.0
    """How far the mean return may fall."""
    episodes: int | None = None
    """Starts on which the return is measured; without it all there are, or 200 where they cannot
    be listed or the task draws at random."""
    seed: int = 0
    """Of drawn starts; those that simplify are never those that evaluate."""
    out: Annotated[str | None, arg(metavar="FILE.machine")] = None
    """Write the machine to this new file (or over MACHINE itself) instead of printing it."""
    allow: Allowed = ()
    """A module that the file may name as the home of its task or a sensor, and that is run then."""
    json: bool = False
    """Print one JSON document."""

    def run(self) -> int:
        """Simplify, then print or write."""
        check_episodes(self.episodes)
        check_seed(self.seed)
        if not 0 <= self.tolerance < math.inf:
            raise ConfigError(f"--tolerance must be a number from 0 on, got {self.tolerance:g}")
        path = self._check_out(self.out) if self.out else None
        from pomp.machine.evaluation import evaluate
        from pomp.machine.text import write_machine
        from pomp.machine.zoo import load_machine

        machine = load_machine(self.machine, self.allow)
        found = self._simplify(machine)
        fresh = [evaluate(one, seed=self.seed) for one in (machine, found.machine)]
        told = _summarise(found, fresh)
        if path:
            write_machine(found.machine, path)
            told["out"] = str(path)
        say(json.dumps(told) if self.json else _text(told))
        return 0

    def _simplify(self, machine: "ProgramMachine") -> "Simplified":
        """Simplify, and show how far it is."""
        from pomp.analysis.equivalence import Parts
        from pomp.analysis.simplification import simplify

        progress = ProgressLine("words left out", Parts.of(machine).size.words)
        try:
            return simplify(
                machine,
                tolerance=self.tolerance,
                episodes=self.episodes,
                seed=self.seed,
                tell=progress.step,
            )
        finally:
            progress.close()

    def _check_out(self, out: str) -> Path:
        """Return the path of a file that is new, or of the one that is simplified."""
        path = Path(out)
        if path.suffix != _SUFFIX:
            raise OutputError(f"a machine's file ends in {_SUFFIX}, got '{out}'")
        check_output(out)
        if path.exists() and path.resolve() != Path(self.machine).resolve():
            raise OutputError(f"'{out}' exists; name a new file")
        return path


def _summarise(found: "Simplified", fresh: "list[Evaluation]") -> dict[str, Any]:
    """Return what was left out and what is left, for JSON."""
    from pomp.machine.text import print_machine

    return {
        "task": found.machine.task.name,
        "removals": [asdict(removal) for removal in found.removals],
        "size": {"before": asdict(found.size_before), "after": asdict(found.size_after)},
        "return": {"before": found.mean_before, "after": found.mean_after},
        "exact": found.is_exact,
        "episodes": found.episodes,
        "evaluation": {
            "before": fresh[0].mean,
            "after": fresh[1].mean,
            "episodes": len(fresh[0].returns),
        },
        "text": print_machine(found.machine),
    }


def _text(told: dict[str, Any]) -> str:
    """Return the same as text."""
    lines = [_removal_line(removal) for removal in told["removals"]]
    size, mean, fresh = told["size"], told["return"], told["evaluation"]
    changes = [f"{name} {size['before'][name]} -> {size['after'][name]}" for name in size["before"]]
    starts = "all starts, exactly" if told["exact"] else f"{told['episodes']} starts"
    lines += [
        f"{told['task']}: {', '.join(changes)}" if lines else f"{told['task']}: nothing can go",
        f"return {mean['before']:.6f} -> {mean['after']:.6f} on {starts}",
        f"return {fresh['before']:.6f} -> {fresh['after']:.6f} on {fresh['episodes']} fresh starts",
    ]
    lines += [f"written to {told['out']}"] if "out" in told else ["", told["text"].rstrip("\n")]
    return "\n".join(lines)


def _removal_line(removal: dict[str, Any]) -> str:
    """Return one line about something that was left out."""
    saved = removal["saved"]
    parts = [
        f"{count} {name if count != 1 else name.removesuffix('s')}"
        for name, count in saved.items()
        if count
    ]
    what = removal["what"]
    what = what if len(what) <= _LONGEST else what[: _LONGEST - 3] + "..."
    return f"- {what} ({', '.join(parts)}; return {removal['mean']:.6f})"
