"""One file of HTML with the player and an episode in it: no server, no network."""

import base64
import gzip
import json
from html import escape
from pathlib import Path

from pomp.core.errors import ConfigError
from pomp.core.storage import write_text
from pomp.core.texts import escape_html
from pomp.studio.packing import episode_data
from pomp.studio.recording import RecordedEpisode

STATIC = Path(__file__).with_name("static")
_PIXELS = 640  # height of the player in a notebook
_PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; \
style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data: blob:">
<title>{title}</title>
<style>{style}</style>
</head>
<body>
<main id="pomp-player"></main>
<script type="application/x-pomp-episode" id="pomp-episode">{data}</script>
<script>{script}</script>
</body>
</html>
"""


def make_page(episode: RecordedEpisode, name: str | None = None) -> str:
    """Return a page that plays an episode by itself.

    Args:
        episode: which.
        name: what its machine is called.

    Raises:
        ConfigError: the player is not there.
    """
    data = json.dumps(episode_data(episode, name), separators=(",", ":")).encode()
    packed = base64.b64encode(gzip.compress(data, 9, mtime=0)).decode("ascii")
    title = f"{name or episode.setting.task.name}, seed {episode.seed}"
    return _PAGE.format(
        title=escape_html(title),
        style=_read("player.css", "</style"),
        script=_read("player.js", "</script"),
        data=packed,
    )


def save_page(episode: RecordedEpisode, path: str | Path, name: str | None = None) -> None:
    """Write a page that plays an episode by itself.

    Raises:
        OutputError: it cannot be written there.
    """
    write_text(Path(path), make_page(episode, name))


def frame_page(page: str) -> str:
    """Return a page as a part of another: a frame that holds it."""
    style = f"width:100%;height:{_PIXELS}px;border:0"
    return f'<iframe srcdoc="{escape(page)}" style="{style}" title="pomp episode"></iframe>'


def _read(name: str, forbidden: str) -> str:
    """Return a file of the player that may stand inside a page."""
    path = STATIC / name
    if not path.is_file():
        raise ConfigError(f"the player is not there: {name} is missing; install pomp again")
    text = path.read_text(encoding="utf-8")
    assert forbidden not in text.lower(), f"{name} would end its own element"
    return text
