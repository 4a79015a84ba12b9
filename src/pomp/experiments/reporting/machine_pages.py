"""A machine explained, as a document: its modes with pictures, its graph, simpler machines."""

from collections.abc import Sequence

from pomp.analysis.explanation import Explanation, ModeExplained, tell_shares
from pomp.analysis.levels import Level
from pomp.experiments.reporting.documents import (
    MISSING,
    Block,
    Details,
    Document,
    Gallery,
    Grid,
    GridEntry,
    GridRow,
    Listing,
    Paragraph,
    Picture,
    Section,
    show_number,
)
from pomp.karel.vectors import draw_rows
from pomp.machine.code_table import CodeTable
from pomp.machine.diagram import LEAST_SHARE
from pomp.machine.drawing import draw_machine, fit_to_page
from pomp.machine.policy import ProgramMachine
from pomp.machine.text import print_machine
from pomp.machine.transitions import DecisionList

_NEVER = "It never ran."
_SAME = "Nothing can be left out: it is the one before."
_CERTAIN = "What comes after a mode (rows) at an observation (columns)."
_DRAWN = f"{_CERTAIN} Choices are drawn: the likeliest first, without those below 1 %."


def explain_machine(levels: Sequence[Level], notes: Sequence[str] = ()) -> Document:
    """Return a page about a machine.

    Args:
        levels: the machine itself, then simpler ones.
        notes: what else is to be said of them, above all.
    """
    first = levels[0]
    machine, explained = first.machine, first.explained
    sections = [
        Section("graph", "The machine", tuple(_show(first, "machine"))),
        Section("modes", "Its modes", tuple(map(_mode, explained.modes))),
        *(_level_section(number, level) for number, level in enumerate(levels[1:])),
    ]
    if len(levels) > 1:
        costs = Section("costs", "What each simplification costs", (_costs(levels),))
        sections.insert(0, costs)
    return Document(
        f"{machine.task.name}: a machine explained",
        _facts(machine, explained),
        tuple(notes),
        tuple(sections),
    )


def _facts(machine: ProgramMachine, explained: Explanation) -> dict[str, str]:
    told = explained.found.to_json()
    ceiling, count = told["ceiling"], told["episodes"]
    share = {} if ceiling is None else {"Of the ceiling": f"{told['fraction']:.1%}"}
    by = f"rules, {machine.sensors}" if machine.sensors else f"a {explained.kind}"
    return {
        "Mean return": show_number(told["mean"]),
        **share,
        "Episodes": f"all {count} starts" if told["exact"] else str(count),
        "Ended by itself": f"{told['endings']['by choice']} of {count}",
        "Programs an episode": f"{told['programs']:.1f}",
        "Actions an episode": f"{told['actions']:.1f}",
        "What chooses": by,
    }


def _show(level: Level, name: str) -> list[Block]:
    """Return what a machine begins with, its picture, and its table or its text."""
    machine, explained = level.machine, level.explained
    picture = fit_to_page(draw_machine(machine, explained.found))
    begins = explained.start or f"Begins with {tell_shares(explained.begins)}."
    blocks: list[Block] = [_say(begins), Gallery((Picture(name, picture),))]
    if isinstance(machine.transition, CodeTable):
        blocks += [_table(level, machine.transition), *_observations(level)]
    if isinstance(machine.transition, DecisionList):
        blocks.append(Listing("As text", print_machine(machine).rstrip()))
    return blocks


def _say(text: str) -> Paragraph:
    """Return a sentence without the quotes that names have in a terminal."""
    return Paragraph(text.replace("`", ""))


def _mode(mode: ModeExplained) -> Block:
    """Return what a mode does and did, with a run of it as pictures."""
    blocks: list[Block] = [Listing("Program", "\n".join(mode.program)), Paragraph(mode.words)]
    if mode.rules:
        blocks.append(_say(mode.rules))
    if mode.example is None:
        return Details(f"{mode.title}: never ran", (*blocks, Paragraph(_NEVER)), is_open=True)
    idle = f", {mode.idle:.1%} of them without an action" if mode.idle else ""
    ran = f"{mode.per_episode:.1f} runs an episode{idle}; {mode.actions:.1f} actions each."
    blocks.append(Paragraph(f"{ran} Then: {tell_shares(mode.then)}."))
    step = f"step {mode.example.step + 1} of episode {mode.example.episode + 1}"
    actions = f"{mode.example.actions} action{'' if mode.example.actions == 1 else 's'}"
    pictures = (
        Picture("before", draw_rows(mode.example.before, "before"), f"Before {step}"),
        Picture("after", draw_rows(mode.example.after, "after"), f"After it: {actions}"),
    )
    return Details(
        f"{mode.title}: {mode.share:.1%} of all runs", (*blocks, Gallery(pictures)), True
    )


def _level_section(number: int, level: Level) -> Section:
    """Return what a simpler machine is, and of rules what they say."""
    name = f"level-{number + 1}"
    blocks: list[Block] = [Paragraph(_SAME)] if level.is_same else _show(level, name)
    if isinstance(level.machine.transition, DecisionList):
        told = [f"After {mode.title}. {mode.rules}" for mode in level.explained.modes]
        blocks += map(_say, told)
    return Section(name, level.heading, tuple(blocks))


def _table(level: Level, table: CodeTable) -> Grid:
    """Return the table of an extracted machine."""
    targets = (*level.machine.signs, "end")

    def entry(row: int, column: int) -> GridEntry:
        probs = table.probs[row, column]
        order = sorted(range(len(targets)), key=lambda to: -probs[to])
        if probs[order[0]] == 1.0:
            return GridEntry(text=targets[order[0]])
        shown = [f"{targets[to]} {probs[to]:.0%}" for to in order if probs[to] >= LEAST_SHARE]
        return GridEntry(text=shown[0], below=", ".join(shown[1:]))

    rows = tuple(
        GridRow(point, tuple(entry(row, column) for column in range(len(table.observations))))
        for row, point in enumerate(("start", *level.machine.signs))
    )
    caption = _CERTAIN if table.is_sure else _DRAWN
    return Grid(f"table of the {level.name}", ("after", *table.observations), rows, caption)


def _observations(level: Level) -> list[Block]:
    """Return worlds that were taken for each observation."""
    blocks = list[Block]()
    for one in level.explained.observations:
        codes = f"{one.codes} code{'' if one.codes == 1 else 's'}"
        pictures = tuple(
            Picture(f"{one.name}-{number}", draw_rows(rows, f"a world that is {one.name}"))
            for number, rows in enumerate(one.examples)
        )
        title = f"{one.name}: {one.share:.1%} of all choices, {codes}"
        inside: tuple[Block, ...] = (Gallery(pictures),) if pictures else (Paragraph("Never met."),)
        blocks.append(Details(title, inside))
    return blocks


def _costs(levels: Sequence[Level]) -> Grid:
    """Return what each level has and earns."""
    rows = []
    for level in levels:
        found = level.explained.found
        ceiling = found.setting.ceiling
        rows.append(
            GridRow(
                level.name,
                (
                    GridEntry(text=level.size),
                    GridEntry(
                        text=show_number(found.mean),
                        share=None if ceiling is None else found.mean / ceiling,
                    ),
                    GridEntry(text=MISSING if level.share is None else f"{level.share:.1%}"),
                    GridEntry(text=f"{int(found.ended.sum())} of {len(found.ended)}"),
                ),
            )
        )
    head = ("machine", "size", "mean return", f"of the {levels[0].name}'s", "ended by itself")
    caption = "All play the same evaluation starts; certain choices are played on every start."
    return Grid("costs", head, tuple(rows), caption)
