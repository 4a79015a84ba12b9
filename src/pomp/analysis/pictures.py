"""Pictures of a machine: the graph of its modes as SVG and as text, and an episode as animation."""

import math
from collections.abc import Iterator
from html import escape

import numpy as np
from numpy.typing import NDArray
from PIL.Image import Image

from pomp.dsl.bytecode import compile_programs
from pomp.dsl.parser import parse
from pomp.dsl.printer import lines_of
from pomp.engine.recording import record
from pomp.karel.render import draw_map
from pomp.karel.world import WorldBatch
from pomp.machine.evaluation import Evaluation
from pomp.machine.policy import ProgramMachine

MOST_FRAMES = 300
_MOST_ACTIONS = 20_000  # of an episode that is drawn
_LEAST_SHARE = 0.01  # of the choices after a mode, for an arrow
_SIDE, _CENTRE, _RADIUS, _NODE = 420, 210, 140, 24
_LINE, _LEFT = 15, 440
_SIGN = 6  # characters of a name that fit into a node
_COLOURS = ("#4878d0", "#ee854a", "#6acc64", "#d65f5f", "#956cb4", "#8c613c", "#dc7ec0", "#797979")


def describe_machine(machine: ProgramMachine, found: Evaluation) -> str:
    """Return a machine as text: every mode, its program, and how often which mode came after it."""
    names = [*machine.titles, "end"]
    counts = found.transitions(len(machine.modes))
    lines = [f"rules: {machine.sensors}"] if machine.sensors else []
    lines += [f"start -> {_after(counts[0], names)}"]
    for number, program in enumerate(machine.modes):
        lines += [f"{names[number]} -> {_after(counts[number + 1], names)}"]
        lines += [f"    {line}" for line in lines_of(parse(program))]
    return "\n".join(lines)


def _after(counts: NDArray[np.int64], names: list[str]) -> str:
    """Return what came after a mode and how often, the most frequent first.

    Args:
        counts: `[K + 1]` int64, of the modes and the end.
        names: their names.
    """
    total = counts.sum()
    if not total:
        return "(never)"
    order = np.argsort(-counts, kind="stable")
    shown = [f"{names[to]} {counts[to] / total:.0%}" for to in order if counts[to]]
    return ", ".join(shown)


def draw_machine(machine: ProgramMachine, found: Evaluation) -> str:
    """Draw the graph of a machine's modes as SVG.

    Arrows are the thicker the more frequent they are; the programs stand beside the graph.
    """
    modes = len(machine.modes)
    counts = found.transitions(modes)
    shares = counts / np.maximum(counts.sum(axis=1, keepdims=True), 1)
    places = [_place(number, modes + 2) for number in range(modes + 2)]  # start, modes, end
    arrows = [
        _arrow(places[row], places[column + 1], float(shares[row, column]))
        for row in range(modes + 1)
        for column in range(modes + 1)
        if shares[row, column] >= _LEAST_SHARE
    ]
    labels = ["start", *(sign[:_SIGN] for sign in machine.signs), "end"]
    nodes = [_node(*places[n], label, _colour(n, modes)) for n, label in enumerate(labels)]
    texts, depth = _texts(machine, found)
    height = max(_SIDE, depth + _LINE)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{_LEFT + 460}" height="{height}" '
        'font-family="monospace" font-size="12">\n'
        '<defs><marker id="tip" viewBox="0 0 10 10" refX="9" refY="5" markerWidth="9" '
        'markerHeight="9" markerUnits="userSpaceOnUse" orient="auto">'
        '<path d="M0 0L10 5L0 10z" fill="#555"/></marker></defs>\n'
        '<rect width="100%" height="100%" fill="white"/>\n' + "\n".join([*arrows, *nodes, *texts])
    ) + "\n</svg>\n"


def _place(number: int, count: int) -> tuple[float, float]:
    """Return where a node stands: all stand on a circle."""
    angle = 2 * math.pi * number / count - math.pi / 2
    return _CENTRE + _RADIUS * math.cos(angle), _CENTRE + _RADIUS * math.sin(angle)


def _colour(node: int, modes: int) -> str:
    """Return the colour of a node; start and end are dark."""
    return "#222222" if node in (0, modes + 1) else _COLOURS[(node - 1) % len(_COLOURS)]


def _node(x: float, y: float, label: str, colour: str) -> str:
    """Return a node as SVG."""
    text = f'<text x="{x:.1f}" y="{y + 4:.1f}" text-anchor="middle" fill="white">{label}</text>'
    return f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{_NODE}" fill="{colour}"/>{text}'


def _arrow(start: tuple[float, float], end: tuple[float, float], share: float) -> str:
    """Return an arrow between two places as SVG, with its share; a loop where both are the same."""
    width = 1 + 4 * share
    style = f'fill="none" stroke="#555" stroke-width="{width:.1f}" marker-end="url(#tip)"'
    (x1, y1), (x2, y2) = start, end
    if start == end:
        out_x, out_y = (x1 - _CENTRE) / _RADIUS, (y1 - _CENTRE) / _RADIUS
        side_x, side_y = -out_y, out_x
        a = [
            (x1 + 20 * out_x + s * 14 * side_x, y1 + 20 * out_y + s * 14 * side_y) for s in (1, -1)
        ]
        b = [
            (x1 + 62 * out_x + s * 26 * side_x, y1 + 62 * out_y + s * 26 * side_y) for s in (1, -1)
        ]
        path = "M{:.1f} {:.1f}C{:.1f} {:.1f} {:.1f} {:.1f} {:.1f} {:.1f}".format(
            *a[0], *b[0], *b[1], *a[1]
        )
        x, y = x1 + 58 * out_x, y1 + 58 * out_y
    else:
        length = math.hypot(x2 - x1, y2 - y1)
        dx, dy = (x2 - x1) / length, (y2 - y1) / length
        bend_x, bend_y = (x1 + x2) / 2 - 18 * dy, (y1 + y2) / 2 + 18 * dx
        path = (
            f"M{x1 + _NODE * dx:.1f} {y1 + _NODE * dy:.1f}Q{bend_x:.1f} {bend_y:.1f} "
            f"{x2 - (_NODE + 2) * dx:.1f} {y2 - (_NODE + 2) * dy:.1f}"
        )
        x, y = 0.35 * x1 + 0.65 * x2 - 12 * dy, 0.35 * y1 + 0.65 * y2 + 12 * dx
    label = (
        f'<text x="{x:.1f}" y="{y:.1f}" font-size="10" fill="#333" text-anchor="middle" '
        f'stroke="white" stroke-width="3" paint-order="stroke">{share:.0%}</text>'
    )
    return f'<path d="{path}" {style}/>{label}'


def _texts(machine: ProgramMachine, found: Evaluation) -> tuple[list[str], int]:
    """Return the programs beside the graph as SVG, and how far down they go."""
    y = 24
    title = f"{machine.task.name}: mean return {found.mean:.3f} of {found.setting.task.ceiling:g}"
    title += f", {machine.sensors}" if machine.sensors else ""
    lines = [f'<text x="{_LEFT}" y="{y}" font-weight="bold">{escape(title)}</text>']
    for number, program in enumerate(machine.modes):
        y += _LINE + 4
        colour = _colour(number + 1, len(machine.modes))
        lines.append(f'<text x="{_LEFT}" y="{y}" fill="{colour}">{machine.titles[number]}</text>')
        for line in lines_of(parse(program)):
            y += _LINE
            indent = 12 + 7.2 * (len(line) - len(line.lstrip()))
            text = escape(line.strip())
            lines.append(f'<text x="{_LEFT + indent:.0f}" y="{y}" fill="#222">{text}</text>')
    return lines, y


def frames_of(
    machine: ProgramMachine, found: Evaluation, starts: WorldBatch, episode: int = 0
) -> Iterator[Image]:
    """Yield pictures of one episode, of every n-th action if it is long.

    Args:
        machine: which.
        found: its evaluation.
        starts: the worlds it started from, as they were.
        episode: which of them.
    """
    path = found.paths[episode]
    chosen = path[(path >= 0) & (path < len(machine.modes))].tolist()
    first = starts.take([episode])
    name = found.setting.task.name
    yield draw_map(first.map_of(0), caption=f"{name}: start")
    if not chosen:
        return
    code = compile_programs(machine.modes, source=True)
    trace = record(
        found.setting, code, first, lists=[chosen], cap=machine.episode.cap,
        most_actions=min(_MOST_ACTIONS, int(found.actions[episode])), keep_cells=True,
    )  # fmt: skip
    arrays = trace.arrays
    # Turns before the end (`last_words`) are actions of the episode, but of none of its modes.
    length = min(arrays.action.shape[1], int(arrays.length[0]))
    if not length:
        return
    returns = np.cumsum(arrays.reward[0])
    every = max(1, -(-length // MOST_FRAMES))
    for place in [*range(0, length - 1, every), length - 1]:
        world = WorldBatch(
            first.task, first.height, first.width, arrays.cells[:, place], arrays.pose[:, place],
            first.memory, first.stream,
        )  # fmt: skip
        mode = machine.titles[chosen[int(arrays.program[0, place])]]
        yield draw_map(
            world.map_of(0),
            caption=f"{name}: {mode}, action {place + 1}, return {returns[place]:+.3f}",
        )
