"""Pictures of an episode by the renderer of worlds: PNG, SVG and GIF."""

from PIL.Image import Image

from pomp.core.errors import ConfigError
from pomp.karel.render import draw_map, gif_bytes, png_bytes
from pomp.karel.vectors import draw_rows
from pomp.karel.world import Map
from pomp.studio.limits import LIMITS
from pomp.studio.packing import cells_at
from pomp.studio.recording import RecordedEpisode, Watch

MEDIA = {"png": "image/png", "svg": "image/svg+xml", "gif": "image/gif"}
"""What each format is called in an answer."""

_WIDE = 480  # pixels of a picture that scales


def map_at(episode: RecordedEpisode, frame: int) -> Map:
    """Return what the world looks like at a frame.

    Raises:
        ConfigError: the episode has fewer frames.
    """
    moments, setting = episode.moments, episode.setting
    if not 0 <= frame <= len(moments.action):
        raise ConfigError(f"the episode has frames 0 to {len(moments.action)}, got {frame}")
    pose = moments.pose[frame - 1] if frame else episode.start.pose[0]
    return Map.from_cells((setting.height, setting.width), cells_at(episode, frame), pose)


def draw_frame(episode: RecordedEpisode, form: str, frame: int | None) -> bytes:
    """Return a frame as a picture.

    Args:
        episode: which.
        form: `png` or `svg`.
        frame: its number; None: the last.
    """
    number = len(episode.moments.action) if frame is None else frame
    world = map_at(episode, number)
    if form == "png":
        return png_bytes(draw_map(world, caption=_caption(episode, number)))
    rows = world.to_text().splitlines()
    return draw_rows(rows, _caption(episode, number), width=_WIDE).encode()


def animate(
    episode: RecordedEpisode, first: int, last: int | None, every: int, watch: Watch
) -> bytes:
    """Return frames as a GIF.

    Args:
        episode: which.
        first: the first frame.
        last: the last one; None: that of the episode.
        every: how many frames to go on each time; the last is always shown.
        watch: called before every frame.

    Raises:
        ConfigError: there are no such frames, or too many.
    """
    end = len(episode.moments.action) if last is None else last
    if first > end:
        raise ConfigError(f"an animation goes from one frame to a later one, got {first} to {end}")
    frames = [*range(first, end, every), end]
    if len(frames) > LIMITS.pictures:
        many = f"{len(frames):,} frames, at most {LIMITS.pictures} are drawn"
        raise ConfigError(f"the animation would have {many}: take fewer, or every n-th")

    def draw(frame: int) -> Image:
        watch(frame)
        return draw_map(map_at(episode, frame), None, _caption(episode, frame))

    return gif_bytes(map(draw, frames))


def _caption(episode: RecordedEpisode, frame: int) -> str:
    worth = episode.moments.worth[frame - 1] if frame else 0.0
    name = episode.setting.task.name
    return f"{name}, seed {episode.seed}: {frame} of {len(episode.moments.action)}, {worth:.4f}"
