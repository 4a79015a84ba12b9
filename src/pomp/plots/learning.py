"""Learning curves of searches, evolutions and trainings."""

from matplotlib.axes import Axes

from pomp.plots.embedding import COLOURS
from pomp.runs.survey import Chart, Curve


def draw_chart(ax: Axes, chart: Chart) -> None:
    """Draw every seed as a thin line, every task's mean as a thick one; a task has one colour."""
    tasks = list(dict.fromkeys(curve.task for curve in chart.curves))
    named = {curve.task for curve in chart.means}
    for curve in chart.curves:
        label = "" if curve.task in named else f"{curve.task} (1 seed)"
        width, alpha = (0.8, 0.5) if curve.task in named else (1.5, 1.0)
        _draw_curve(ax, curve, chart, tasks, label=label, linewidth=width, alpha=alpha)
    for mean in chart.means:
        label = f"{mean.task} (mean of {len(mean.seeds)} seeds)"
        _draw_curve(ax, mean, chart, tasks, label=label, linewidth=2, alpha=1.0)
    if chart.is_log:
        ax.set_xscale("log")
    ax.set_xlabel(chart.over)
    ax.set_ylabel(chart.what)
    ax.legend(fontsize="small")


def _draw_curve(
    ax: Axes, curve: Curve, chart: Chart, tasks: list[str], *, label: str, linewidth: float,
    alpha: float,
) -> None:  # fmt: skip
    """Draw one curve: in steps if it is of the best so far, and a lone point as a dot."""
    number = tasks.index(curve.task)
    ax.plot(
        curve.at,
        curve.returns,
        linestyle=("-", "--", ":")[number // len(COLOURS) % 3],
        drawstyle="steps-post" if chart.is_best else "default",
        marker="." if len(curve.at) == 1 else "",
        color=COLOURS[number % len(COLOURS)],
        label=label or None,
        linewidth=linewidth,
        alpha=alpha,
    )
