"""How heavy the page and the player are, and that nothing in them comes from elsewhere."""

import re
from importlib.resources import files

STATIC = files("pomp.studio") / "static"


def test_the_page_is_lighter_than_it_may_be():
    sizes = {one.name: len(one.read_bytes()) for one in STATIC.iterdir()}
    page = sum(size for name, size in sizes.items() if not name.startswith(("player", "LICENCES")))
    assert page < 1_500_000
    assert sizes["player.js"] + sizes["player.css"] < 300_000


def test_the_page_names_no_other_host():
    known = ("http://www.w3.org/", "https://preactjs.com", "https://react", "http://localhost")
    for one in STATIC.iterdir():
        if one.name.endswith((".js", ".css", ".html")):
            found = re.findall(r"https?://[a-z][^\s\"'`)]*", one.read_text("utf-8"))
            assert not [url for url in found if not url.startswith(known)], one.name


def test_every_bundled_package_has_its_licence():
    text = (STATIC / "LICENCES.txt").read_text("utf-8")
    heads = re.findall(r"^(\S+) \d\S* \(([^)]+)\)$", text, re.MULTILINE)
    assert {"preact", "@codemirror/state", "@dagrejs/dagre", "uplot"} <= {name for name, _ in heads}
    assert {licence for _, licence in heads} <= {"MIT", "ISC", "Apache-2.0", "BSD-3-Clause"}
