"""Pictures of a search: the paths of its runs."""

from matplotlib.axes import Axes

from pomp.plots.embedding import COLOURS
from pomp.runs.survey import Paths


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
