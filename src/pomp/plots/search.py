"""Pictures of a search."""

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes

from pomp.plots.embedding import COLOURS
from pomp.runs.survey import Curve, Paths


def draw_paths(ax: Axes, paths: Paths) -> None:
    """Draw where the means of the first runs went; a ring marks a start, a dot an end."""
    for number, (points, colour) in enumerate(zip(paths.points, COLOURS, strict=False), 1):
        ax.plot(points[:, 0], points[:, 1], "-", color=colour, linewidth=1, label=f"run {number}")
        ax.plot(*points[0], "o", color=colour, fillstyle="none")
        ax.plot(*points[-1], "o", color=colour)
    ax.set_xlabel("first principal component")
    ax.set_ylabel("second principal component")
    ax.set_title(f"{paths.name}: paths of the means ({paths.share:.0%} of the variance)")
    ax.legend(fontsize="small")


def draw_curves(ax: Axes, curves: Sequence[Curve]) -> None:
    """Draw the best return so far against programs executed, a colour for each task."""
    tasks = list(dict.fromkeys(curve.task for curve in curves))
    colours = {task: COLOURS[number % len(COLOURS)] for number, task in enumerate(tasks)}
    named = set[str]()
    for curve in curves:
        style = ("-", "--", ":")[tasks.index(curve.task) // len(COLOURS) % 3]
        label = None if curve.task in named else curve.task
        named.add(curve.task)
        ax.step(
            np.array(curve.executions), curve.returns, style, where="post",
            color=colours[curve.task], label=label, linewidth=1,
        )  # fmt: skip
    ax.set_xscale("log")
    ax.set_xlabel("programs executed")
    ax.set_ylabel("best return so far (per program of a list)")
    ax.legend(fontsize="small")
