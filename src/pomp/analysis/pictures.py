"""A machine as text with what it did, and an episode of it as animation."""

from collections.abc import Iterator

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
