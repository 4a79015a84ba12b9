"""`pomp verify`."""

import json
from dataclasses import dataclass, replace
from shlex import quote
from typing import TYPE_CHECKING, Annotated, Any

from tyro.conf import Positional, arg

from pomp.cli.inputs import Allowed, check_seed
from pomp.cli.output import say
from pomp.cli.progress import ProgressLine
from pomp.core.configs import parse_size

if TYPE_CHECKING:
    from pomp.machine.verification import Verification

_LARGEST_SHOWN = 20  # rows and columns of a start that is printed


@dataclass(frozen=True, kw_only=True)
class Verify:
    """Check start by start that a machine ends by itself, uncut and alike under every budget."""

    machine: Annotated[Positional[str], arg(metavar="MACHINE|zoo:TASK")]
    """A machine's folder or file (*.machine), or one that comes with the package."""
    episodes: int | None = None
    """How many are drawn. Without it all starts are played, which is a proof, where they can be
    listed and nothing is random; else 1,000 are drawn."""
    seed: int = 0
    """Of drawn episodes."""
    exact: bool = False
    """Refuse to draw: a proof, or nothing."""
    scale: int = 1
    """How many times longer the task is than in training: 1, 2, 4, 8 or 16."""
    size: Annotated[str | None, arg(metavar="HxW")] = None
    """Rows and columns of the grid, if not those the machine was made for."""
    cap: Annotated[str | None, arg(metavar="callsN|actionsN")] = None
    """How long one program may run, if not as the machine has it."""
    least: float | None = None
    """The return that every episode must reach, too."""
    allow: Allowed = ()
    """A module that the file may name as the home of its task or a sensor, and that is run then."""
    json: bool = False
    """Print one JSON document."""

    def run(self) -> int:
        """Verify, then print; status 1 if the machine does not hold."""
        check_seed(self.seed)
        size = None if self.size is None else parse_size(self.size)
        found = self._verify(size)
        told = {"machine": self.machine, **found.to_json()}
        for one in told["counterexamples"]:
            one["watch"] = self._watch(one)
        say(json.dumps(told) if self.json else _text(told))
        return 0 if found.holds else 1

    def _verify(self, size: tuple[int, int] | None) -> "Verification":
        """Verify, and say how far it is if it takes long."""
        from pomp.machine.verification import verify
        from pomp.machine.zoo import load_machine

        machine = load_machine(self.machine, self.allow)
        progress = ProgressLine(machine.task.name, 1)
        setting = (machine if size is None else replace(machine, size=size)).configure(self.scale)
        most = machine.episode.most_steps * setting.stretch

        def watch(steps: int, over: int) -> None:
            progress.share(0, min(steps / most, 1.0), lambda: f"at most; {over} episodes are over")

        try:
            return verify(
                machine, episodes=self.episodes, seed=self.seed, exact=self.exact,
                scale=self.scale, size=size, cap=self.cap, least=self.least, watch=watch,
            )  # fmt: skip
        finally:
            progress.close()

    def _watch(self, example: dict[str, Any]) -> str:
        """Return the command that shows a counterexample."""
        scale = f" --scale {self.scale}" if self.scale > 1 else ""
        size = f" --size {self.size}" if self.size else ""
        allow = "".join(f" --allow {quote(module)}" for module in self.allow)
        which = f"--start {example['start']} --cap {example['cap']}"
        return f"pomp play {quote(self.machine)} {which}{scale}{size}{allow}"


def _text(told: dict[str, Any]) -> str:
    """Return the verdict, what it stands on, and how to see where it fails."""
    count, failures = told["starts"], told["failures"]
    verdict = "holds" if told["holds"] else f"does not hold: {failures:,} of {count:,} starts fail"
    height, width = told["size"]
    times = f" x{told['scale']}" if told["scale"] > 1 else ""
    lines = [f"{told['task']}{times}, {height}x{width}: {verdict}", _grounds(told)]
    endings = told["endings"]
    ends = [f"{endings['by choice']:,} of {count:,} episodes ended by its own rule"]
    if endings["never"]:
        ends.append(f"{endings['never']:,} provably never end: world and mode come back")
    if endings["at the limit"]:
        ends.append(f"{endings['at the limit']:,} were stopped at the limit of modes")
    lines.append("; ".join(ends))
    if endings["never"]:
        lines.append("what never ends is told, here and below, as it was when that was seen")
    lines.append(
        f"most modes {told['most modes']:,}, most actions {told['most actions']:,}; "
        f"worst return {told['worst']:z.6f}; {told['cuts']:,} programs cut by their cap"
    )
    lines += ["", *_budget_lines(told["budgets"])]
    for one in told["counterexamples"]:
        lines += ["", f"start {one['start']}: {one['what']}", f"  {one['watch']}"]
        if max(height, width) <= _LARGEST_SHOWN:
            lines += [f"  {line}" for line in one["map"].splitlines()]
    return "\n".join(lines)


def _grounds(told: dict[str, Any]) -> str:
    """Say what the verdict stands on: a proof, or a sample with its bound."""
    count = told["starts"]
    if told["proof"]:
        starts = "the only start" if count == 1 else f"all {count:,} starts"
        return f"proof: {starts}, nothing is random"
    bound = f"at most {told['bound']:.3%} of episodes fail"
    return f"{count:,} drawn episodes, no proof; with 95 % confidence {bound}"


def _budget_lines(budgets: list[dict[str, Any]]) -> list[str]:
    """Return a table: returns, cuts and endings under each budget."""
    lines = [f"{'cap':<12}{'return':>9}{'worst':>9}{'cuts':>9}{'ended':>9}  clean"]
    for one in budgets:
        numbers = f"{one['mean']:9.4f}{one['worst']:9.4f}{one['cuts']:9.4g}{one['ended']:9,}"
        lines.append(f"{one['cap']:<12}{numbers}  {'yes' if one['clean'] else 'no'}")
    return lines
