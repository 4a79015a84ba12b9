"""`pomp explain`."""

import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from textwrap import wrap
from typing import TYPE_CHECKING, Annotated, Any

from tyro.conf import Positional, arg

from pomp.cli.inputs import Allowed, check_episodes, check_output, check_seed
from pomp.cli.output import say
from pomp.cli.shares import count_episodes, in_brackets, tell_share
from pomp.core.errors import OutputError
from pomp.core.storage import write_text

if TYPE_CHECKING:
    from pomp.analysis.explanation import Example, Explanation, ModeExplained
    from pomp.analysis.levels import Level
    from pomp.machine.policy import ProgramMachine

_WIDE = 96  # columns of sentences


@dataclass(frozen=True, kw_only=True)
class Explain:
    """Say what a machine does: its modes in plain words, how often they ran, an example of each."""

    machine: Annotated[Positional[str], arg(metavar="MACHINE|zoo:TASK")]
    """A machine's folder or file (*.machine), or one that comes with the package."""
    html: Annotated[str | None, arg(metavar="FILE.html")] = None
    """Write a page with pictures into this new file; it needs no other file and no network."""
    extracted: Annotated[str | None, arg(metavar="FOLDER")] = None
    """Show the state machine beside a network that pomp extract wrote into this folder, too."""
    extract: bool = False
    """Extract a state machine from a network and show it, too; that takes a minute or more."""
    rules: Annotated[str | None, arg(metavar="FILE.machine")] = None
    """Show this machine with rules for the same task beside it, too."""
    episodes: int | None = None
    """How many are drawn; without it, as for pomp eval, every start or as many as the task says."""
    seed: int | None = None
    """Of drawn starts and choices (0 if only --episodes is given)."""
    allow: Allowed = ()
    """A module that the file may name as the home of its task or a sensor, and that is run then."""
    json: bool = False
    """Print one JSON document."""

    def run(self) -> int:
        """Play, then print, or write a page."""
        check_episodes(self.episodes)
        check_seed(self.seed)
        page = _check_page(self.html) if self.html else None
        from pomp.analysis.explanation import explain
        from pomp.analysis.levels import compare_levels
        from pomp.machine.zoo import load_machine

        machine = load_machine(self.machine, self.allow)
        simpler, notes = self._simplify(machine)
        found = explain(machine, episodes=self.episodes, seed=self.seed)
        levels = compare_levels(machine, found, simpler, episodes=self.episodes, seed=self.seed)
        if page:
            from pomp.experiments.reporting.machine_pages import explain_machine
            from pomp.experiments.reporting.pages import to_html

            write_text(page, to_html(explain_machine(levels, notes)))
        if self.json:
            say(json.dumps({**_summarise(levels), "notes": notes, "html": self.html}))
        elif page:
            say(page)
        else:
            say("\n".join([*_lines(machine, found), *_level_lines(levels), *notes]))
        return 0

    def _simplify(
        self, machine: "ProgramMachine"
    ) -> "tuple[list[tuple[str, ProgramMachine]], list[str]]":
        """Return simpler machines that are asked for, by name, and what is to be said of them."""
        from pomp.analysis.levels import RULES, levels_of, read_extracted
        from pomp.cli.extract import extract_shown
        from pomp.machine.transitions import NetworkTransition
        from pomp.machine.zoo import load_machine

        simpler: list[tuple[str, ProgramMachine]] = []
        notes: list[str] = []
        is_network = isinstance(machine.transition, NetworkTransition)
        if (self.extract or self.extracted) and not is_network:
            notes.append(f"There is nothing to extract: {machine.headline}.")
        elif self.extracted:
            simpler += read_extracted(machine, self.extracted, self.allow)
        elif self.extract:
            simpler += levels_of(extract_shown(machine))
        if self.rules:
            simpler.append((RULES, load_machine(self.rules, self.allow)))
        return simpler, notes


def _check_page(name: str) -> Path:
    """Return a file that a page can be written to.

    Raises:
        OutputError: it exists, its folder is missing, or its name ends otherwise.
    """
    path = check_output(name)
    if path.suffix.lower() not in (".html", ".htm"):
        raise OutputError(f"a page's file ends in .html, got '{name}'")
    if path.exists():
        raise OutputError(f"'{name}' exists; name a new file")
    return path


def _summarise(levels: "list[Level]") -> dict[str, Any]:
    """Return an explanation for JSON."""
    machine, found = levels[0].machine, levels[0].explained
    return {
        "task": machine.task.name,
        "transitions": found.kind,
        "sensors": list(found.sensors),
        **found.found.to_json(),
        "start": found.start,
        "begins": found.begins,
        "modes": [asdict(mode) for mode in found.modes],
        "observations": [asdict(one) for one in found.observations],
        "levels": [level.to_json() for level in levels],
    }


def _level_lines(levels: "list[Level]") -> Iterator[str]:
    """Yield the lines about simpler machines: what comes after what, and what each costs."""
    for level in (one for one in levels[1:] if not one.is_same):
        yield ""
        yield f"{level.heading}: {level.size}"
        told = [level.explained.start, *(f"{m.title}. {m.rules}" for m in level.explained.modes)]
        for sentence in told:
            yield from wrap(sentence, _WIDE, initial_indent="  ", subsequent_indent="    ")
    if len(levels) > 1:
        wide, name = max(len(level.name) for level in levels), max(len(one.size) for one in levels)
        yield ""
        yield "What each simplification costs"
        for level in levels:
            share = "" if level.share is None else f"  {level.share:.1%}"
            mean = f"{level.explained.found.mean:9.6f}"
            yield f"  {level.name:<{wide}}  {level.size:<{name}}  {mean}{share}"


def _lines(machine: "ProgramMachine", found: "Explanation") -> Iterator[str]:
    """Yield the lines of an explanation."""
    from pomp.analysis.explanation import tell_shares

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
    yield found.start or f"Begins with: {tell_shares(found.begins)}."
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
    from pomp.analysis.explanation import tell_shares

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
    yield f"  then: {tell_shares(mode.then)}"
    yield from _example_lines(mode.example)


def _example_lines(example: "Example") -> Iterator[str]:
    """Yield the worlds before and after a run side by side, an arrow in the middle row."""
    actions = f"{example.actions} action{'' if example.actions == 1 else 's'}"
    yield f"  step {example.step + 1} of episode {example.episode + 1}, {actions}:"
    middle = len(example.before) // 2
    for row, (before, after) in enumerate(zip(example.before, example.after, strict=True)):
        yield f"    {before} {'->' if row == middle else '  '} {after}"
