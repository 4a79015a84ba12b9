"""World -> image: headless, at any size; animations as GIF or MP4."""

import importlib
import shutil
import subprocess
import tempfile
from collections.abc import Iterable
from functools import lru_cache
from io import BytesIO
from pathlib import Path

from PIL import Image, ImageDraw, ImageFont

from pomp.core.errors import ConfigError, OutputError
from pomp.core.extras import PLOTS, install_line
from pomp.core.storage import write_atomically
from pomp.karel.dynamics import COUNT, WALL
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
    picture = Image.new("RGB", (width * cell, height * cell), _GROUND)
    for row in range(height):
        for col in range(width):
            is_here = (row, col) == (world.row, world.col)
            shown = int(world.grid[row, col]) & (WALL | COUNT)
            tile = _draw_tile(shown, int(world.facing) if is_here else None, cell)
            picture.paste(tile, (col * cell, row * cell))
    return _with_caption(picture, caption, cell) if caption else picture


@lru_cache(maxsize=1024)
def _draw_tile(byte: int, facing: int | None, cell: int) -> Image.Image:
    """Return the picture of a cell, and of the agent if it stands there and faces somewhere."""
    unit = cell * _OVERSAMPLING
    tile = Image.new("RGB", (unit, unit), _GROUND)
    pen = ImageDraw.Draw(tile)
    _draw_cell(pen, byte, unit)
    if facing is not None:
        _draw_agent(pen, facing, unit)
    return tile.resize((cell, cell), Image.Resampling.LANCZOS)


def _draw_cell(pen: ImageDraw.ImageDraw, byte: int, unit: int) -> None:
    box = (0, 0, unit - 1, unit - 1)
    if byte & WALL:
        pen.rectangle(box, fill=_WALL)
        return
    pen.rectangle(box, outline=_LINE, width=max(1, unit // 48))
    count = byte & COUNT
    if count:
        middle, reach = unit / 2, unit * 0.26
        pen.polygon(
            [
                (middle, middle - reach),
                (middle + reach, middle),
                (middle, middle + reach),
                (middle - reach, middle),
            ],
            fill=_MARKER,
        )
        if count > 1:
            font = ImageFont.load_default(size=unit * 0.3)
            pen.text((middle, middle), str(count), fill=_ON_MARKER, font=font, anchor="mm")


def _draw_agent(pen: ImageDraw.ImageDraw, facing: int, unit: int) -> None:
    """A dart that points where the agent faces; open, so that a marker below it shows."""
    shape = [(0.0, -0.38), (0.30, 0.34), (0.0, 0.16), (-0.30, 0.34)]
    for _ in range(facing):
        shape = [(-y, x) for x, y in shape]
    pen.polygon([((x + 0.5) * unit, (y + 0.5) * unit) for x, y in shape], fill=_AGENT)


def _with_caption(picture: Image.Image, caption: str, cell: int) -> Image.Image:
    size = max(10, cell * 3 // 8)
    framed = Image.new("RGB", (picture.width, picture.height + 2 * size), _GROUND)
    framed.paste(picture, (0, 0))
    place = (size // 2, picture.height + size)
    font = ImageFont.load_default(size=size)
    ImageDraw.Draw(framed).text(place, caption, fill=_CAPTION, font=font, anchor="lm")
    return framed


def png_bytes(picture: Image.Image) -> bytes:
    """A picture as a PNG file's content."""
    content = BytesIO()
    picture.save(content, "PNG", optimize=True)
    return content.getvalue()


def save_animation(
    frames: Iterable[Image.Image], path: Path, milliseconds: int = MILLISECONDS
) -> None:
    """Write an animation as `.gif` (it loops) or `.mp4`; the file appears whole or not at all.

    Raises:
        ConfigError: the name ends otherwise, or no ffmpeg is there for MP4.
        OutputError: it cannot be written there.
    """
    check_animation(path)
    if path.suffix.lower() == ".mp4":
        _write(path, _mp4_bytes(frames, milliseconds))
        return
    _write(path, gif_bytes(frames, milliseconds))


def gif_bytes(frames: Iterable[Image.Image], milliseconds: int = MILLISECONDS) -> bytes:
    """An animation as a GIF file's content; it loops, and shows the first and last frame longer."""
    first, *rest = (frame.quantize(64, Image.Quantize.MAXCOVERAGE) for frame in frames)
    durations = [milliseconds] * (1 + len(rest))
    durations[0] = durations[-1] = 10 * milliseconds
    content = BytesIO()
    first.save(content, "GIF", save_all=True, append_images=rest, duration=durations, loop=0)
    return content.getvalue()


def check_animation(path: Path) -> None:
    """Raise `ConfigError` unless the name ends in a form that can be written here."""
    if path.suffix.lower() == ".mp4":
        _ffmpeg()
    elif path.suffix.lower() != ".gif":
        raise ConfigError(f"an animation is a .gif or .mp4 file, got '{path.name}'")


def _ffmpeg() -> str:
    """The ffmpeg program: the system's, or that of the package imageio-ffmpeg."""
    if found := shutil.which("ffmpeg"):
        return found
    try:
        bundled: str = importlib.import_module("imageio_ffmpeg").get_ffmpeg_exe()
    except (ImportError, RuntimeError) as error:
        raise ConfigError(f"MP4 needs ffmpeg: install it, or {install_line(PLOTS)}") from error
    return bundled


def _mp4_bytes(frames: Iterable[Image.Image], milliseconds: int) -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        target = Path(folder) / "animation.mp4"
        process: subprocess.Popen[bytes] | None = None
        for frame in frames:
            if process is None:
                size, rate = f"{frame.width}x{frame.height}", f"{1000 / milliseconds:.3f}"
                raw = ["-f", "rawvideo", "-pix_fmt", "rgb24", "-s", size, "-r", rate, "-i", "-"]
                even = ["-vf", "pad=ceil(iw/2)*2:ceil(ih/2)*2", "-pix_fmt", "yuv420p"]
                command = [_ffmpeg(), "-loglevel", "error", *raw, *even, str(target)]
                process = subprocess.Popen(command, stdin=subprocess.PIPE)
            assert process.stdin is not None
            process.stdin.write(frame.tobytes())
        assert process is not None
        process.communicate()
        if process.returncode:
            raise OutputError(f"ffmpeg could not make the animation (status {process.returncode})")
        return target.read_bytes()


def _write(path: Path, content: bytes) -> None:
    try:
        write_atomically(path, content)
    except OSError as error:
        raise OutputError(f"cannot write '{path}': {error.strerror or error}") from error
