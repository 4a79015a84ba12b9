"""`pomp plot`: the learning curves of a run of any kind."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from tyro.conf import Positional, arg

from pomp.cli.inputs import check_output
from pomp.cli.output import say
from pomp.core.errors import ConfigError, DataFileError, OutputError
from pomp.core.extras import PLOTS, require

if TYPE_CHECKING:
    from pomp.runs.kept import KeptRun

_SUFFIXES = (".png", ".svg", ".pdf")


@dataclass(frozen=True, kw_only=True)
class Plot:
    """Draw the learning curves of a run, finished or not: search, evolve, train or embedding."""

    folder: Annotated[Positional[str], arg(metavar="DIR")]
    """The run's folder."""
    out: str | None = None
    """The picture's file: png, svg or pdf. Without it: KIND.png, as in train.png."""
    task: str | None = None
    """Whose paths are drawn beside a search's curves; without it, of the first that has some."""
    seed: int | None = None
    """Whose paths are drawn beside a search's curves; without it, of the first that has some."""

    def run(self) -> int:
        """Draw."""
        given = check_picture(self.out) if self.out else None
        from pomp.runs.kept import read_run

        run = read_run(Path(self.folder))
        if run.kind != "search" and (self.task is not None or self.seed is not None):
            raise ConfigError("--task and --seed choose the paths of a search; this is none")
        path = given or check_picture(f"{run.kind}.png")
        figure = _draw_embedding(run) if run.kind == "embedding" else self._draw_charts(run)
        from pomp.runs.reports import is_finished

        state = "" if is_finished(run) else ", not finished"
        figure.suptitle(f"{run.path.name}: {run.kind}{state}")
        save_figure(figure, path)
        return 0

    def _draw_charts(self, run: "KeptRun") -> Any:
        """Draw the learning curves of returns, and the paths of a search."""
        from pomp.runs.survey import read_charts, read_paths

        charts = read_charts(run)
        paths = read_paths(run, self.task, self.seed) if run.kind == "search" else None
        figure, axes = new_figure(len(charts) + (paths is not None))
        from pomp.plots.learning import draw_chart
        from pomp.plots.search import draw_paths

        for ax, chart in zip(axes, charts, strict=False):
            draw_chart(ax, chart)
        if paths is not None:
            draw_paths(axes[-1], paths)
        return figure


def _draw_embedding(run: "KeptRun") -> Any:
    """Draw the losses and the accuracy of an embedding's training."""
    from pomp.runs.embeddings import read_epochs

    epochs = read_epochs(run.path)
    if not epochs:
        raise DataFileError(f"no epoch in '{run.path}' has finished yet")
    figure, (left, right) = new_figure(2)
    from pomp.plots.embedding import draw_accuracy, draw_losses

    draw_losses(left, epochs)
    draw_accuracy(right, epochs)
    return figure


def check_picture(name: str) -> Path:
    """Return a picture's path, or refuse its name."""
    path = check_output(name)
    if path.suffix not in _SUFFIXES:
        raise ConfigError(f"a picture's name ends in {', '.join(_SUFFIXES)}, got '{name}'")
    return path


def new_figure(columns: int) -> tuple[Any, list[Any]]:
    """Make a figure that needs no screen, and its axes side by side.

    Raises:
        MissingExtraError: matplotlib is not installed.
    """
    require(PLOTS, "a picture")
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7 * columns, 6), layout="constrained")
    return figure, list(figure.subplots(1, columns, squeeze=False)[0])


def save_figure(figure: Any, path: Path) -> None:
    """Write a figure and print where it is."""
    try:
        figure.savefig(path, dpi=150)
    except (OSError, ValueError) as error:
        raise OutputError(f"cannot write '{path}': {error}") from error
    say(path)
