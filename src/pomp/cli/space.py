"""`pomp embedding space` and `pomp embedding interpolation`: looks into the space of programs."""

import json
from dataclasses import asdict, dataclass
from typing import Annotated

from tyro.conf import Positional, arg

from pomp.cli.inputs import read_program
from pomp.cli.output import say
from pomp.cli.plot import check_picture, new_figure, save_figure
from pomp.core.errors import ConfigError
from pomp.core.extras import LEARN, require

_ENDS = (
    "DEF run m( WHILE c( frontIsClear c) w( move w) putMarker m)",
    "DEF run m( REPEAT R=4 r( turnLeft move r) pickMarker m)",
)


@dataclass(frozen=True, kw_only=True)
class EmbeddingSpace:
    """Draw fresh programs in two dimensions, coloured by behaviour."""

    name: Positional[str | None] = None
    """Shipped weights or a file; without it, the best that is shipped."""
    out: str = "space.png"
    """The picture's file: png, svg or pdf."""
    programs: int = 2000
    """How many programs."""
    seed: int = 0
    """Of the programs."""

    def run(self) -> int:
        """Draw."""
        _check_range("programs", self.programs, 3, 20_000)
        _check_range("seed", self.seed, 0, 1 << 62)
        path = check_picture(self.out)
        require(LEARN, "the space of programs")
        from pomp.embedding.dataset import draw_fresh
        from pomp.embedding.space import Embedding
        from pomp.embedding.survey import map_space
        from pomp.embedding.weights import data_of, find_weights

        figure, (ax,) = new_figure(1)
        embedding = Embedding.load(self.name)
        config, draws = data_of(embedding.card)
        dataset = draw_fresh(config, self.programs, self.seed, draws=draws)
        from pomp.plots.embedding import draw_space

        draw_space(ax, map_space(embedding, dataset), self.name or find_weights(None).stem)
        save_figure(figure, path)
        return 0


@dataclass(frozen=True, kw_only=True)
class EmbeddingInterpolation:
    """Print the programs between two programs."""

    name: Positional[str | None] = None
    """Shipped weights or a file; without it, the best that is shipped."""
    between: Annotated[tuple[str, str], arg(metavar="PROGRAM PROGRAM")] = _ENDS
    """Two programs, as text or files."""
    steps: int = 9
    """Points on the way, both ends included."""
    seed: int = 0
    """Of the worlds on which behaviour is compared."""
    json: bool = False
    """Print one JSON document."""

    def run(self) -> int:
        """Print."""
        _check_range("steps", self.steps, 2, 1000)
        _check_range("seed", self.seed, 0, 1 << 62)
        require(LEARN, "an interpolation")
        from pomp.embedding.space import Embedding
        from pomp.embedding.survey import walk

        ends = [read_program(text).strip() for text in self.between]
        points = walk(Embedding.load(self.name), ends, self.steps, self.seed)
        if self.json:
            say(json.dumps([asdict(point) for point in points]))
            return 0
        say("  way  like 1st  like 2nd  program")
        for point in points:
            mark = "" if point.is_valid else "  (does not parse)"
            likes = f"{point.like_first:>8.0%}  {point.like_second:>8.0%}"
            say(f"{point.share:>5.0%}  {likes}  {point.program}{mark}")
        return 0


def _check_range(name: str, value: int, low: int, high: int) -> None:
    """Refuse a number out of its range."""
    if not low <= value <= high:
        raise ConfigError(f"--{name} must be from {low} to {high}, got {value}")
