"""`pomp plot`: one command for each picture."""

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

from tyro.conf import Positional

from pomp.cli.inputs import check_output, read_program
from pomp.errors import ConfigError, DataFileError, OutputError

_ENDS = (
    "DEF run m( WHILE c( frontIsClear c) w( move w) putMarker m)",
    "DEF run m( REPEAT R=4 r( turnLeft move r) pickMarker m)",
)


@dataclass(frozen=True, kw_only=True)
class Plot:
    """Draw a picture, or print a walk through the space as text."""

    subject: Positional[Literal["embedding"]]
    """What it is about."""
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
        if self.programs < 3 or self.steps < 2 or self.seed < 0:
            raise ConfigError("--programs must be at least 3, --steps 2, --seed not negative")
        if self.what == "interpolation":
            return self._interpolate()
        figure = self._space() if self.what == "space" else self._curves()
        path = self.out or f"embedding-{self.what}.png"
        _save(figure, check_output(path))
        print(path)
        return 0

    def _interpolate(self) -> int:
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
        from pomp.embedding.config import DatasetConfig, from_json
        from pomp.embedding.dataset import draw_fresh
        from pomp.embedding.space import Embedding
        from pomp.embedding.survey import map_space
        from pomp.embedding.weights import find_weights

        figure, (ax,) = _figure(1)
        embedding = Embedding.load(self.source)
        data = dict(embedding.card.get("data") or {})
        if not data:
            raise ConfigError("these weights do not say what they were trained on: no card")
        draws = data.pop("draws")
        config = from_json(DatasetConfig, data)
        dataset = draw_fresh(config, self.programs, self.seed, draws=draws)
        from pomp.plots.embedding import draw_space

        draw_space(ax, map_space(embedding, dataset), self.source or find_weights(None).stem)
        return figure

    def _curves(self) -> Any:
        from pomp.embedding.checkpoint import read_metrics

        if not self.source:
            raise ConfigError("curves need a training's folder: pomp plot embedding curves DIR")
        metrics = read_metrics(Path(self.source))
        if not metrics:
            raise DataFileError(f"'{self.source}' holds no metrics.jsonl of a finished epoch")
        figure, (left, right) = _figure(2)
        from pomp.plots.embedding import draw_accuracy, draw_losses

        draw_losses(left, metrics)
        draw_accuracy(right, metrics)
        return figure


def _figure(columns: int) -> tuple[Any, list[Any]]:
    """A figure that needs no screen.

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
    try:
        figure.savefig(path, dpi=150)
    except (OSError, ValueError) as error:
        raise OutputError(f"cannot write '{path}': {error}") from error
