"""A machine as a graph in the language of Graphviz."""

from pomp.core.texts import visible
from pomp.machine.diagram import exits_of
from pomp.machine.evaluation import Evaluation
from pomp.machine.policy import ProgramMachine


def print_dot(machine: ProgramMachine, found: Evaluation | None = None) -> str:
    """Return a machine as a graph: start, modes and end, an edge for each that can follow another.

    Args:
        machine: which.
        found: its evaluation, whose counts stand at the edges. Where neither rules nor a table
            choose the next mode, edges are known from it alone.
    """
    counts = None if found is None else found.transitions(len(machine.modes))
    names = ["start", *(f"mode{number + 1}" for number in range(len(machine.modes))), "end"]
    lines = [f"digraph {quote(machine.task.name)} {{", "  node [shape=box];"]
    lines += ["  start [shape=circle];", "  end [shape=doublecircle];"]
    for name, title, program in zip(names[1:-1], machine.titles, machine.modes, strict=True):
        lines.append(f"  {name} [label={quote(title)}, tooltip={quote(program)}];")
    for name, exits in zip(names, exits_of(machine, counts), strict=False):
        for way in exits:
            label = quote("\n".join([*way.conditions, way.note]).strip())
            lines.append(f"  {name} -> {names[way.to + 1]} [label={label}];")
    return "\n".join([*lines, "}"]) + "\n"


def quote(text: str) -> str:
    """Return a text as a string of the language, with breaks between its lines."""
    escaped = visible(text).replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'
