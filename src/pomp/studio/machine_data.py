"""Machines and tasks as data for the page: programs by lines and tokens, loops, rules in words."""

from typing import Any

from pomp.analysis.explanation import tell_choice, tell_conditions
from pomp.core.texts import visible
from pomp.dsl.parser import parse
from pomp.dsl.printer import CLOSERS
from pomp.dsl.words import describe_program
from pomp.engine.starts import most_markers
from pomp.machine.episodes import LAST_WORDS
from pomp.machine.policy import STOP, ProgramMachine
from pomp.machine.text import print_machine, print_rule
from pomp.machine.transitions import DecisionList, Rule
from pomp.play.story import numbered_lines
from pomp.tasks.task import Task

_LOOPS = {"WHILE": "w)", "REPEAT": "r)"}


def task_data(task: Task) -> dict[str, Any]:
    """Return what the page shows of a task."""
    setting = task.configure()
    return {
        "name": task.name,
        "suite": task.suite,
        "summary": task.summary,
        "size": list(task.size),
        "scales": list(task.scales),
        "variants": list(task.variants),
        "ceiling": setting.ceiling,
        "most_markers": most_markers(setting),
    }


def machine_data(machine: ProgramMachine, name: str | None = None) -> dict[str, Any]:
    """Return a machine as the page shows it.

    Args:
        machine: which.
        name: what it is asked for by; None: it came as a text.
    """
    titles = machine.titles
    setting = machine.configure()
    lists = _lists_of(machine)
    return {
        "name": name,
        "headline": machine.headline,
        "task": machine.task.name,
        "kind": machine.transition.kind,
        "text": print_machine(machine) if isinstance(machine.transition, DecisionList) else None,
        "size": [setting.height, setting.width],
        "scales": list(machine.task.scales),
        "modes": [_mode_data(*pair) for pair in zip(titles, machine.modes, strict=True)],
        "end": _mode_data(STOP, LAST_WORDS) if machine.episode.last_words else None,
        "lists": lists,
        "edges": _edges_of(machine, lists),
    }


def _mode_data(title: str, program: str) -> dict[str, Any]:
    lines, line_of = numbered_lines(program)
    tree = parse(program)
    tokens = str(tree).split()
    return {
        "title": visible(title),
        "program": " ".join(tokens),
        "lines": list(lines),
        "line_of": list(line_of),
        "loops": [{**loop, "line": line_of[loop["first"]]} for loop in find_loops(tokens)],
        "words": describe_program(tree),
    }


def count_nested(program: str) -> int:
    """Return how many loops of a program lie within one another, at most."""
    deepest = depth = 0
    for token in program.split():
        depth += (token in _LOOPS) - (token in _LOOPS.values())
        deepest = max(deepest, depth)
    return deepest


def find_loops(tokens: list[str]) -> list[dict[str, Any]]:
    """Return the loops of a program: kind, first and last token, and how often (REPEAT alone)."""
    loops: list[dict[str, Any]] = []
    pending: list[int] = []
    for place, token in enumerate(tokens):
        if token in _LOOPS:
            count = int(tokens[place + 1].removeprefix("R=")) if token == "REPEAT" else None
            pending.append(len(loops))
            loops.append({"kind": token, "first": place, "last": place, "count": count})
        elif token in CLOSERS and token in _LOOPS.values():
            loops[pending.pop()]["last"] = place
    return loops


def _lists_of(machine: ProgramMachine) -> list[list[dict[str, Any]]]:
    """Return the rules before the first mode and after each; of a network, empty lists."""
    by, end = machine.transition, len(machine.modes)
    if not isinstance(by, DecisionList):
        return [[] for _ in range(end + 1)]
    titles = [*machine.titles, STOP]
    targets: dict[int | None, str] = {None: STOP, **dict(enumerate(machine.titles))}

    def tell(rule: Rule, last: int, is_alone: bool) -> dict[str, Any]:
        to = end if rule.to is None else rule.to
        does, why = tell_choice(titles, last, to), tell_conditions(rule, by.known)
        words = f"{does} if {why}" if why else f"{'always' if is_alone else 'else'} {does}"
        return {"text": print_rule(rule, targets), "words": words, "to": to}

    return [
        [tell(rule, number - 1, len(rules) == 1) for rule in rules]
        for number, rules in enumerate((by.start, *by.after))
    ]


def _edges_of(machine: ProgramMachine, lists: list[list[dict[str, Any]]]) -> list[list[int]]:
    """Return the pairs of blocks that one can follow; without rules, all of them."""
    if not isinstance(machine.transition, DecisionList):
        every = range(len(machine.modes) + 1)
        return [[last - 1, to] for last in every for to in every]
    pairs = {(last - 1, rule["to"]) for last, rules in enumerate(lists) for rule in rules}
    return [list(pair) for pair in sorted(pairs)]
