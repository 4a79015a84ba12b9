"""Figures of a report: curves and horizons with bands, and intervals of methods."""

from collections.abc import Mapping, Sequence

from matplotlib.axes import Axes
from matplotlib.ticker import NullLocator

from pomp.experiments.reporting.figures import Band, BandChart
from pomp.plots.embedding import COLOURS

_STYLES = ("-", "--", ":")
_CEILING = "#888888"


def choose_styles(charts: Sequence[BandChart]) -> dict[str, tuple[str, str]]:
    """Return a colour and a line style for each method, the same in all charts."""
    methods = dict.fromkeys(band.method for chart in charts for band in chart.bands)
    return {
        method: (COLOURS[number % len(COLOURS)], _STYLES[number // len(COLOURS) % len(_STYLES)])
        for number, method in enumerate(methods)
    }


def draw_growth(ax: Axes, chart: BandChart, styles: Mapping[str, tuple[str, str]]) -> None:
    """Draw the mean best return so far over programs executed, with bands of 95 % intervals."""
    _draw_bands(ax, chart, styles, steps=True)
    ax.set_xscale("log")
    ax.set_xlabel("programs executed")
    ax.set_ylabel("best return so far")


def draw_horizons(ax: Axes, chart: BandChart, styles: Mapping[str, tuple[str, str]]) -> None:
    """Draw the mean return over the length of the task, with bands of 95 % intervals."""
    _draw_bands(ax, chart, styles, steps=False)
    scales = sorted({at for band in chart.bands for at in band.at})
    ax.set_xscale("log", base=2)
    ax.set_xticks(scales, [f"x{scale:g}" for scale in scales])
    ax.xaxis.set_minor_locator(NullLocator())
    ax.set_xlabel("length of the task")
    ax.set_ylabel("return")


def _draw_bands(
    ax: Axes, chart: BandChart, styles: Mapping[str, tuple[str, str]], *, steps: bool
) -> None:
    """Draw all methods of a chart, and the ceiling; the vertical axis fits means, not bands."""
    for band in chart.bands:
        _draw_band(ax, band, *styles[band.method], steps=steps)
    if chart.ceiling:
        at, values = zip(*chart.ceiling.items(), strict=True)
        ax.plot(at, values, ":", color=_CEILING, linewidth=1.2, label="ceiling")
    shown = [*(one for band in chart.bands for one in band.means), *chart.ceiling.values()]
    margin = 0.06 * (max(shown) - min(shown)) or 0.05
    ax.set_ylim(min(shown) - margin, max(shown) + margin)
    ax.set_title(chart.task)
    ax.grid(alpha=0.25, linewidth=0.6)
    ax.spines[["top", "right"]].set_visible(False)
    ax.legend(fontsize="small", loc="upper center", bbox_to_anchor=(0.5, -0.15), ncols=2)


def _draw_band(ax: Axes, band: Band, colour: str, style: str, *, steps: bool) -> None:
    """Draw a method's mean, and its band if it has several seeds."""
    seeds = "1 seed" if band.seeds == 1 else f"{band.seeds} seeds"
    marker = "" if steps and len(band.at) > 1 else "o"
    ax.plot(
        band.at,
        band.means,
        linestyle=style,
        drawstyle="steps-post" if steps else "default",
        marker=marker,
        markersize=4,
        color=colour,
        linewidth=1.8,
        label=f"{band.label} ({seeds})",
    )
    if band.seeds > 1:
        ax.fill_between(
            band.at,
            band.low,
            band.high,
            step="post" if steps else None,
            color=colour,
            alpha=0.16,
            linewidth=0,
        )


def draw_intervals(
    ax: Axes,
    names: Sequence[str],
    values: Sequence[float],
    intervals: Sequence[tuple[float, float] | None],
) -> None:
    """Draw one value below the other, each as a dot with its interval, the first on top.

    Args:
        ax: where.
        names: what they are called.
        values: a number each.
        intervals: the ends of each one's interval; None: it has none.
    """
    for place, (value, ends) in enumerate(zip(values, intervals, strict=True)):
        if ends is not None:
            ax.plot(ends, (place, place), color=COLOURS[0], linewidth=3, alpha=0.45)
        ax.plot(value, place, "o", color=COLOURS[0], markersize=5)
    ax.set_yticks(range(len(names)), names)
    ax.set_ylim(len(names) - 0.4, -0.6)
    ax.grid(alpha=0.25, linewidth=0.6, axis="x")
    ax.spines[["top", "right", "left"]].set_visible(False)
    ax.tick_params(axis="y", length=0)
