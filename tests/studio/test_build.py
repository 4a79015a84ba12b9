"""That the page in the package was built from the sources in `web/`, and not changed since."""

import hashlib
import json
from pathlib import Path

import pytest

from pomp.studio.pages import STATIC

WEB = Path(__file__).parents[2] / "web"
STAMP = "build.json"
AGAIN = "run `npm ci && npm run build` in web/ and commit what it writes"


def digest(folder, names):
    """The digest that `web/build.mjs` writes down: names and contents, in the order of names."""
    found = hashlib.sha256()
    for name in sorted(names):
        found.update(f"{name}\0".encode() + (folder / name).read_bytes() + b"\0")
    return found.hexdigest()


@pytest.fixture(scope="module")
def stamp():
    return json.loads((STATIC / STAMP).read_text("utf-8"))


def test_the_page_was_built_from_these_sources(stamp):
    if not WEB.is_dir():
        pytest.skip("no sources: web/ is in the repository alone")
    files = [
        *WEB.glob("src/*"),
        *WEB.glob("public/*"),
        WEB / "build.mjs",
        WEB / "package-lock.json",
    ]
    names = [file.relative_to(WEB).as_posix() for file in files]
    assert digest(WEB, names) == stamp["sources"], AGAIN


def test_the_page_is_as_it_was_built(stamp):
    names = [one.name for one in STATIC.iterdir() if one.name != STAMP]
    assert digest(STATIC, names) == stamp["built"], AGAIN
