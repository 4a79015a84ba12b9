"""World -> image: headless, at any size; animations as GIF."""

from collections.abc import Iterable
from io import BytesIO
from pathlib import Path

from PIL import Image, ImageDraw, ImageFont

from pomp._numba import write_atomically
from pomp.errors import OutputError
from pomp.karel.rules import COUNT, WALL
from pomp.karel.world import Map

CELL = 32  # pixels a side
LARGEST_PICTURE = 704  # pixels, where the size of a cell is left to us
MILLISECONDS = 90  # a frame

_GROUND, _LINE, _WALL = (250, 249, 245), (226, 223, 214), (58, 64, 76)
_MARKER, _ON_MARKER = (232, 163, 23), (70, 48, 0)
_AGENT, _CAPTION = (29, 111, 184), (58, 64, 76)
_OVERSAMPLING = 4  # drawn this much larger, then reduced: smooth edges


def draw_map(world: Map, cell: int | None = None, caption: str = "") -> Image.Image:
    """A picture of a world.

    Args:
        world: walls, markers, agent.
        cell: pixels per cell; None: 32, or less for a large world.
        caption: a line of text below; empty: none.
    """
    height, width = world.grid.shape
    cell = cell or max(4, min(CELL, LARGEST_PICTURE // max(height, width)))
    unit = cell * _OVERSAMPLING
    picture = Image.new("RGB", (width * unit, height * unit), _GROUND)
    pen = ImageDraw.Draw(picture)
    for row in range(height):
        for col in range(width):
            _draw_cell(pen, int(world.grid[row, col]), row, col, unit)
    _draw_agent(pen, world, unit)
    picture = picture.resize((width * cell, height * cell), Image.Resampling.LANCZOS)
    return _with_caption(picture, caption, cell) if caption else picture


def _draw_cell(pen: ImageDraw.ImageDraw, byte: int, row: int, col: int, unit: int) -> None:
    left, top = col * unit, row * unit
    box = (left, top, left + unit - 1, top + unit - 1)
    if byte & WALL:
        pen.rectangle(box, fill=_WALL)
        return
    pen.rectangle(box, outline=_LINE, width=max(1, unit // 48))
    count = byte & COUNT
    if count:
        inset = unit * 0.3
        middle, centre = left + unit / 2, top + unit / 2
        reach = unit / 2 - inset + unit * 0.06
        pen.polygon(
            [
                (middle, centre - reach),
                (middle + reach, centre),
                (middle, centre + reach),
                (middle - reach, centre),
            ],
            fill=_MARKER,
        )
        if count > 1:
            font = ImageFont.load_default(size=unit * 0.3)
            pen.text((middle, centre), str(count), fill=_ON_MARKER, font=font, anchor="mm")


def _draw_agent(pen: ImageDraw.ImageDraw, world: Map, unit: int) -> None:
    """A dart that points where the agent faces; open, so that a marker below it shows."""
    shape = [(0.0, -0.38), (0.30, 0.34), (0.0, 0.16), (-0.30, 0.34)]
    for _ in range(world.facing):
        shape = [(-y, x) for x, y in shape]
    middle, centre = (world.col + 0.5) * unit, (world.row + 0.5) * unit
    corners = [(middle + x * unit, centre + y * unit) for x, y in shape]
    pen.polygon(corners, fill=_AGENT)


def _with_caption(picture: Image.Image, caption: str, cell: int) -> Image.Image:
    size = max(10, cell * 3 // 8)
    framed = Image.new("RGB", (picture.width, picture.height + 2 * size), _GROUND)
    framed.paste(picture, (0, 0))
    place = (size // 2, picture.height + size)
    font = ImageFont.load_default(size=size)
    ImageDraw.Draw(framed).text(place, caption, fill=_CAPTION, font=font, anchor="lm")
    return framed


def save_gif(frames: Iterable[Image.Image], path: Path, milliseconds: int = MILLISECONDS) -> None:
    """Write an animation that loops; the file appears whole or not at all.

    Raises:
        OutputError: it cannot be written there.
    """
    first, *rest = (frame.quantize(64, dither=Image.Dither.NONE) for frame in frames)
    durations = [milliseconds] * (1 + len(rest))
    durations[0] = durations[-1] = 10 * milliseconds
    content = BytesIO()
    first.save(content, "GIF", save_all=True, append_images=rest, duration=durations, loop=0)
    try:
        write_atomically(path, content.getvalue())
    except OSError as error:
        raise OutputError(f"cannot write '{path}': {error.strerror or error}") from error
