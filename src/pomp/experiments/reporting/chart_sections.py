"""The sections of a report with pictures: curves, horizons, paths of searches, machines."""

from collections.abc import Mapping, Sequence

from pomp.experiments.reporting.documents import (
    MISSING,
    Block,
    Details,
    Gallery,
    Grid,
    GridEntry,
    GridRow,
    Listing,
    Paragraph,
    Picture,
    Section,
    show_count,
    show_interval,
    show_number,
)
from pomp.experiments.reporting.figures import (
    CURVES,
    HORIZONS,
    MACHINES,
    PATHS,
    Band,
    BandChart,
    is_folder,
)
from pomp.experiments.reporting.numbers import ReportNumbers

_BANDS = "Lines are means over seeds, bands their 95 % Student t intervals."


def growth_section(numbers: ReportNumbers, pictures: Mapping[str, str]) -> Section | None:
    """Return how the best return grew with the programs executed; None: nothing is known."""
    if not numbers.curves:
        return None
    text = (
        "The best return so far over the programs that were executed, on a logarithmic axis: of a "
        "search on its search starts, of a training in validation, where the programs of the "
        f"search for its modes count too. {_BANDS} A seed that has ended holds its last value."
    )
    drawn = _gallery("growth", numbers.curves, pictures)
    folded = Details("Where the curves end, as numbers", (_growth_grid(numbers.curves),))
    return Section(CURVES.name, CURVES.title, (Paragraph(text), *drawn, folded))


def _growth_grid(charts: Sequence[BandChart]) -> Grid:
    rows = list[GridRow]()
    for chart in charts:
        rows.append(GridRow(chart.task))
        for band in chart.bands:
            ends = (band.low[-1], band.high[-1]) if band.seeds > 1 else None
            count, best = show_count(band.at[-1]), show_number(band.means[-1])
            texts = (str(band.seeds), count, best, show_interval(ends))
            rows.append(GridRow(band.label, tuple(GridEntry(text=text) for text in texts)))
    head = ("method", "seeds", "program executions", "best return", "95 % interval")
    return Grid(CURVES.name, head, tuple(rows))


def horizons_section(numbers: ReportNumbers, pictures: Mapping[str, str]) -> Section | None:
    """Return what policies earn in longer tasks; None: nothing is known."""
    if not numbers.horizons:
        return None
    text = f"The same policies where the task is several times as long. {_BANDS}"
    drawn = _gallery("horizons", numbers.horizons, pictures)
    blocks = (Paragraph(text), *drawn, _horizons_grid(numbers.horizons))
    return Section(HORIZONS.name, HORIZONS.title, blocks)


def _horizons_grid(charts: Sequence[BandChart]) -> Grid:
    scales = sorted({at for chart in charts for band in chart.bands for at in band.at})
    rows = list[GridRow]()
    for chart in charts:
        rows.append(GridRow(chart.task))
        for band in chart.bands:
            entries = tuple(_horizon_entry(chart, band, scale) for scale in scales)
            rows.append(GridRow(band.label, entries))
    head = ("method", *(f"x{scale:g}" for scale in scales))
    return Grid(HORIZONS.name, head, tuple(rows), "Mean returns over seeds.")


def _horizon_entry(chart: BandChart, band: Band, scale: float) -> GridEntry:
    if scale not in band.at:
        return GridEntry(text=MISSING)
    place = band.at.index(scale)
    mean, ends = band.means[place], (band.low[place], band.high[place])
    return GridEntry(
        text=show_number(mean),
        hint=f"95 % interval {show_interval(ends)}" if band.seeds > 1 else "",
        share=mean / chart.ceiling[scale] if scale in chart.ceiling else None,
    )


def _gallery(
    kind: str, charts: Sequence[BandChart], pictures: Mapping[str, str]
) -> tuple[Block, ...]:
    names = [f"{kind}-{chart.task}" for chart in charts]
    drawn = tuple(Picture(name, pictures[name]) for name in names if name in pictures)
    return (Gallery(drawn),) if drawn else ()


def paths_section(numbers: ReportNumbers, pictures: Mapping[str, str]) -> Section | None:
    """Return where searches went in the space of programs; None: no paths are kept."""
    if not numbers.paths:
        return None
    text = (
        "Where the means of a search's first runs went in the space of programs, in the plane that "
        "shows most of their spread; below, how much of the variance that is. A ring is a start, a "
        "dot an end."
    )
    drawn = tuple(
        Picture(name, pictures[name], f"{paths.share:.0%} of the variance")
        for number, paths in enumerate(numbers.paths)
        if (name := f"paths-{number}") in pictures
    )
    gallery = (Gallery(drawn),) if drawn else ()
    return Section(PATHS.name, PATHS.title, (Paragraph(text), *gallery))


def machines_section(numbers: ReportNumbers) -> Section | None:
    """Return the best machines, as text and as pictures; None: there are none."""
    if not numbers.machines:
        return None
    text = "Of every method's seeds the machine that was best in validation."
    if not is_folder(numbers.path):
        text += " A packed file of results keeps programs; rules and networks are in its folder."
    blocks: list[Block] = [Paragraph(text)]
    pictured = [one for one in numbers.machines if one.svg]
    for one in numbers.machines:
        cell = one.cell
        title = (
            f"{cell.task}, {cell.row.label}, seed {cell.seed}: mean return {show_number(one.mean)}"
        )
        inside: list[Block] = []
        if one.svg:
            name = f"machine-{cell.task}-{cell.method}"
            inside.append(Gallery((Picture(name, one.svg),)))
        inside.append(Listing("Modes and rules" if one.svg else "Modes", one.text))
        blocks.append(Details(title, tuple(inside), is_open=one in pictured[:1]))
    return Section(MACHINES.name, MACHINES.title, tuple(blocks))
