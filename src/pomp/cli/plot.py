"""`pomp plot`: one command for each picture."""

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

from tyro.conf import Positional, subcommand

from pomp.cli.inputs import check_output, read_program
from pomp.core.errors import ConfigError, DataFileError, OutputError

_SUFFIXES = (".png", ".svg", ".pdf")
_ENDS = (
    "DEF run m( WHILE c( frontIsClear c) w( move w) putMarker m)",
    "DEF run m( REPEAT R=4 r( turnLeft move r) pickMarker m)",
)


@dataclass(frozen=True, kw_only=True)
class PlotEmbedding:
    """Draw the space of programs or a training, or print a walk through the space as text."""

    what: Positional[Literal["space", "interpolation", "curves"]]
    """space: programs in two dimensions, coloured by behaviour. interpolation: the programs between
    two programs, as text. curves: a training's losses and accuracy."""
    source: Positional[str | None] = None
    """Shipped weights or a file; for curves a training's folder."""
    out: str | None = None
    """The picture's file: png, svg or pdf. Without it: embedding-WHAT.png."""
    programs: int = 2000
    """space: how many fresh programs."""
    between: tuple[str, str] = _ENDS
    """interpolation: two programs, as text or files."""
    steps: int = 9
    """interpolation: points on the way, both ends included."""
    seed: int = 0
    """Of the programs and worlds."""
    json: bool = False
    """interpolation: print one JSON document."""

    def run(self) -> int:
        """Draw or print."""
        ranges = {"programs": (3, 20_000), "steps": (2, 1000), "seed": (0, 1 << 62)}
        for name, (low, high) in ranges.items():
            if not low <= getattr(self, name) <= high:
                got = getattr(self, name)
                raise ConfigError(f"--{name} must be from {low} to {high}, got {got}")
        if self.what == "interpolation":
            if self.out:
                raise ConfigError("an interpolation is printed: it takes --json, not --out")
            return self._interpolate()
        if self.json:
            raise ConfigError(f"{self.what} is a picture: it takes --out, not --json")
        path = _check_picture(self.out or f"embedding-{self.what}.png")
        _save(self._space() if self.what == "space" else self._curves(), path)
        return 0

    def _interpolate(self) -> int:
        """Print the programs between two programs."""
        from pomp.embedding.space import Embedding
        from pomp.embedding.survey import walk

        ends = [read_program(text).strip() for text in self.between]
        points = walk(Embedding.load(self.source), ends, self.steps, self.seed)
        if self.json:
            print(json.dumps([asdict(point) for point in points]))
            return 0
        print("  way  like 1st  like 2nd  program")
        for point in points:
            mark = "" if point.is_valid else "  (does not parse)"
            likes = f"{point.like_first:>8.0%}  {point.like_second:>8.0%}"
            print(f"{point.share:>5.0%}  {likes}  {point.program}{mark}")
        return 0

    def _space(self) -> Any:
        """Draw programs in two dimensions."""
        from pomp.embedding.dataset import draw_fresh
        from pomp.embedding.space import Embedding
        from pomp.embedding.survey import map_space
        from pomp.embedding.weights import data_of, find_weights

        figure, (ax,) = _figure(1)
        embedding = Embedding.load(self.source)
        config, draws = data_of(embedding.card)
        dataset = draw_fresh(config, self.programs, self.seed, draws=draws)
        from pomp.plots.embedding import draw_space

        draw_space(ax, map_space(embedding, dataset), self.source or find_weights(None).stem)
        return figure

    def _curves(self) -> Any:
        """Draw the metrics of a training."""
        from pomp.runs.embeddings import read_epochs

        if not self.source:
            raise ConfigError("curves need a training's folder: pomp plot embedding curves DIR")
        metrics = read_epochs(Path(self.source))
        if not metrics:
            raise DataFileError(f"'{self.source}' holds no metrics.jsonl of a finished epoch")
        figure, (left, right) = _figure(2)
        from pomp.plots.embedding import draw_accuracy, draw_losses

        draw_losses(left, metrics)
        draw_accuracy(right, metrics)
        return figure


@dataclass(frozen=True, kw_only=True)
class PlotSearch:
    """Draw a search: paths of its first runs in two dimensions, and its best return so far."""

    source: Positional[str]
    """The search's folder."""
    out: str = "search.png"
    """The picture's file: png, svg or pdf."""
    task: str | None = None
    """Whose paths; without it, of the first task that has some."""
    seed: int | None = None
    """Whose paths; without it, of the first seed that has some."""

    def run(self) -> int:
        """Draw."""
        path = _check_picture(self.out)
        from pomp.runs.survey import read_curves, read_paths

        curves = read_curves(Path(self.source))
        paths = read_paths(Path(self.source), self.task, self.seed)
        figure, axes = _figure(2 if paths else 1)
        from pomp.plots.search import draw_curves, draw_paths

        if paths:
            draw_paths(axes[0], paths)
        draw_curves(axes[-1], curves)
        _save(figure, path)
        return 0


Plot = (
    Annotated[PlotEmbedding, subcommand("embedding")] | Annotated[PlotSearch, subcommand("search")]
)


def _check_picture(name: str) -> Path:
    """Return a picture's path, or refuse its name."""
    path = check_output(name)
    if path.suffix not in _SUFFIXES:
        raise ConfigError(f"a picture's name ends in {', '.join(_SUFFIXES)}, got '{name}'")
    return path


def _figure(columns: int) -> tuple[Any, list[Any]]:
    """Make a figure that needs no screen, and its axes side by side.

    Raises:
        ConfigError: matplotlib is not installed.
    """
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise ConfigError("pictures need matplotlib: pip install 'pomp[plots]'") from error
    figure = Figure(figsize=(7 * columns, 6), layout="constrained")
    return figure, list(figure.subplots(1, columns, squeeze=False)[0])


def _save(figure: Any, path: Path) -> None:
    """Write a figure and print where it is."""
    try:
        figure.savefig(path, dpi=150)
    except (OSError, ValueError) as error:
        raise OutputError(f"cannot write '{path}': {error}") from error
    print(path)
