"""The part of `pomp report` that is about a store of results: two pages and their pictures."""

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from pomp.cli.output import say
from pomp.core.errors import OutputError
from pomp.core.extras import PLOTS, install_line, is_installed, require
from pomp.core.storage import write_text

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from pomp.experiments.reporting.documents import Document
    from pomp.experiments.reporting.numbers import ReportNumbers
    from pomp.experiments.tables import OverTasks

_WIDTH, _HEIGHT, _LINE = 5.0, 4.2, 0.27  # inches: of a chart, and for each name beside one
MARKDOWN, PAGE = "report.md", "report.html"


def is_store(path: str) -> bool:
    """Whether a path is a folder of results, or a packed file of them."""
    from pomp.experiments.store import PACKED, STORE_FILE

    return path.endswith(PACKED) or (Path(path) / STORE_FILE).is_file()


def report_store(path: str, parts: Sequence[str], out: str | None, *, as_json: bool) -> None:
    """Report on a store: write its pages into a folder, or print the tables or the numbers."""
    from pomp.experiments.reporting.contents import write_document
    from pomp.experiments.reporting.documents import to_markdown
    from pomp.experiments.reporting.numbers import read_numbers

    numbers = read_numbers(path, parts)
    folder = _make_folder(out) if out else None
    if folder:
        is_drawn = is_installed(PLOTS)
        missing = "" if is_drawn else f"matplotlib is not installed: {install_line(PLOTS)}"
        document = write_document(numbers, draw_report(numbers) if is_drawn else {}, missing)
        _write(folder, document)
    if as_json:
        say(json.dumps(numbers.to_json()))
    elif folder:
        say(folder / MARKDOWN, folder / PAGE)
    else:
        say(to_markdown(write_document(numbers, {})), end="")


def _make_folder(name: str) -> Path:
    from pomp.experiments.reporting.documents import FIGURES

    folder = Path(name)
    try:
        (folder / FIGURES).mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise OutputError(f"cannot write into '{name}': {error.strerror}") from error
    return folder


def _write(folder: Path, document: "Document") -> None:
    """Write a report's pages and pictures; those of an earlier report in the folder go."""
    from pomp.experiments.reporting.documents import FIGURES, to_markdown
    from pomp.experiments.reporting.pages import to_html

    for old in (folder / FIGURES).glob("*.svg"):
        old.unlink()
    for picture in document.pictures:
        write_text(folder / FIGURES / f"{picture.name}.svg", picture.svg)
    write_text(folder / MARKDOWN, to_markdown(document))
    write_text(folder / PAGE, to_html(document))


def draw_report(numbers: "ReportNumbers") -> dict[str, str]:
    """Return the pictures of a report as SVG, by name.

    Raises:
        MissingExtraError: matplotlib is not installed.
    """
    require(PLOTS, "a picture")
    from pomp.plots.experiments import choose_styles, draw_growth, draw_horizons
    from pomp.plots.inline import inked
    from pomp.plots.search import draw_paths

    styles = choose_styles([*numbers.curves, *numbers.horizons])
    pictures = dict[str, str]()
    with inked():
        for chart in numbers.curves:
            with _drawing(f"growth-{chart.task}", "Best return so far", pictures) as ax:
                draw_growth(ax, chart, styles)
        for chart in numbers.horizons:
            with _drawing(f"horizons-{chart.task}", "Longer horizons", pictures) as ax:
                draw_horizons(ax, chart, styles)
        for number, paths in enumerate(numbers.paths):
            with _drawing(f"paths-{number}", f"Paths of {paths.name}", pictures) as ax:
                draw_paths(ax, paths)
                ax.set_title(paths.name)
        for table in numbers.tables:
            _draw_over_tasks(numbers.over_tasks[table.name], f"over-{table.name}", pictures)
    return pictures


@contextmanager
def _drawing(
    name: str, title: str, pictures: dict[str, str], height: float = _HEIGHT
) -> "Iterator[Axes]":
    """Give axes to draw on, and keep what was drawn."""
    from matplotlib.figure import Figure

    from pomp.plots.inline import to_svg

    figure = Figure(figsize=(_WIDTH, height), layout="constrained")
    yield figure.subplots()
    pictures[name] = to_svg(figure, name, title)


def _draw_over_tasks(own: "Sequence[OverTasks]", name: str, pictures: dict[str, str]) -> None:
    """Draw what the methods of a table are worth over its tasks, the best on top."""
    from pomp.experiments.rows import ROWS
    from pomp.experiments.tables import REFERENCE
    from pomp.plots.experiments import draw_intervals

    ordered = sorted(own, key=lambda one: -one.mean)
    means = [(ROWS[one.method].label, one.mean, one.mean_interval) for one in ordered]
    shares = [
        (ROWS[one.method].label, one.improvement, one.improvement_interval)
        for one in ordered
        if one.improvement is not None
    ]
    what = f"how likely a seed of {ROWS[REFERENCE].label} earns more"
    for kind, title, rows in (
        ("mean", "interquartile mean, in shares of the ceiling", means),
        ("improvement", what, shares),
    ):
        if rows:
            height = 0.9 + _LINE * len(rows)
            with _drawing(f"{name}-{kind}", title, pictures, height) as ax:
                draw_intervals(ax, *zip(*rows, strict=True))
                ax.set_xlabel(title)
                if kind == "improvement":
                    ax.axvline(0.5, color="#888888", linewidth=1, linestyle=":")
                    ax.set_xlim(-0.03, 1.03)
