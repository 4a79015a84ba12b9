"""`pomp explain`."""

import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from textwrap import wrap
from typing import TYPE_CHECKING, Annotated, Any

from tyro.conf import Positional, arg

from pomp.cli.inputs import Allowed, check_episodes, check_seed
from pomp.cli.output import say
from pomp.cli.shares import count_episodes, in_brackets, tell_share

if TYPE_CHECKING:
    from pomp.analysis.explanation import Example, Explanation, ModeExplained
    from pomp.machine.policy import ProgramMachine

_WIDE = 96  # columns of sentences


@dataclass(frozen=True, kw_only=True)
class Explain:
    """Say what a machine does: its modes in plain words, how often they ran, an example of each."""

    machine: Annotated[Positional[str], arg(metavar="MACHINE|zoo:TASK")]
    """A machine's folder or file (*.machine), or one that comes with the package."""
    episodes: int | None = None
    """How many are drawn; without it, as for pomp eval, every start or as many as the task says."""
    seed: int | None = None
    """Of drawn starts and choices (0 if only --episodes is given)."""
    allow: Allowed = ()
    """A module that the file may name as the home of its task or a sensor, and that is run then."""
    json: bool = False
    """Print one JSON document."""

    def run(self) -> int:
        """Play, then print."""
        check_episodes(self.episodes)
        check_seed(self.seed)
        from pomp.analysis.explanation import explain
        from pomp.machine.zoo import load_machine

        machine = load_machine(self.machine, self.allow)
        found = explain(machine, episodes=self.episodes, seed=self.seed)
        if self.json:
            say(json.dumps(_summarise(machine, found)))
        else:
            say("\n".join(_lines(machine, found)))
        return 0


def _summarise(machine: "ProgramMachine", found: "Explanation") -> dict[str, Any]:
    """Return an explanation for JSON."""
    return {
        "task": machine.task.name,
        "transitions": found.kind,
        "sensors": list(found.sensors),
        **found.found.to_json(),
        "start": found.start,
        "begins": found.begins,
        "modes": [asdict(mode) for mode in found.modes],
    }


def _lines(machine: "ProgramMachine", found: "Explanation") -> Iterator[str]:
    """Yield the lines of an explanation."""
    told = found.found.to_json()
    ended = told["endings"]["by choice"]
    share = in_brackets(tell_share(told["mean"], told["ceiling"]))
    yield f"{machine.task.name}: mean return {told['mean']:.6f}{share}"
    yield (
        f"{count_episodes(told)}, {ended} of them ended by the machine itself; "
        f"{told['programs']:.1f} programs and {told['actions']:.1f} actions on average"
    )
    sensors = ", ".join(found.sensors) or "none"
    yield (
        f"transitions by rules; sensors: {sensors}"
        if machine.sensors
        else f"a {machine.transition.kind} chooses"
    )
    yield from _comment(machine, "")
    yield ""
    yield found.start or f"Begins with: {_shares(found.begins)}."
    for mode in found.modes:
        yield ""
        yield mode.title
        yield from _comment(machine, mode.title)
        yield from (f"    {line}" for line in mode.program)
        yield from _mode_lines(mode)


def _comment(machine: "ProgramMachine", about: str) -> list[str]:
    """Return the machine's comments about a mode, or about itself."""
    return [f"# {line}".rstrip() for line in machine.comments.get(about, ())]


def _mode_lines(mode: "ModeExplained") -> Iterator[str]:
    """Yield the lines about a mode below its program."""
    yield from wrap(mode.words, _WIDE, initial_indent="  ", subsequent_indent="  ")
    yield from wrap(mode.rules, _WIDE, initial_indent="  ", subsequent_indent="  ")
    if mode.example is None:
        yield "  It never ran."
        return
    idle = f", {mode.idle:.1%} of them idle" if mode.idle else ""
    yield (
        f"  {mode.per_episode:.1f} runs an episode ({mode.share:.1%} of all){idle}; "
        f"{mode.actions:.1f} actions each"
    )
    yield f"  then: {_shares(mode.then)}"
    yield from _example_lines(mode.example)


def _shares(counts: dict[str, int]) -> str:
    """Return counts as shares, with their titles."""
    total = sum(counts.values())
    shares = [f"{title} {count / total:.1%}" for title, count in counts.items()]
    return ", ".join(shares) or "nothing, the episode was over"


def _example_lines(example: "Example") -> Iterator[str]:
    """Yield the worlds before and after a run side by side, an arrow in the middle row."""
    actions = f"{example.actions} action{'' if example.actions == 1 else 's'}"
    yield f"  step {example.step + 1} of episode {example.episode + 1}, {actions}:"
    middle = len(example.before) // 2
    for row, (before, after) in enumerate(zip(example.before, example.after, strict=True)):
        yield f"    {before} {'->' if row == middle else '  '} {after}"
