"""Figures as SVG that stands inside a page, light or dark as its reader likes."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from io import StringIO

import matplotlib as mpl
from matplotlib.figure import Figure

from pomp.core.texts import escape_html

_INK = "#123456"  # stands for the colour of text until the picture is written
_LIGHT, _DARK = "#24292f", "#e3e7ec"
_STYLE = (
    f".pomp-plot{{color:{_LIGHT}}}.pomp-plot *{{stroke-linejoin:round;stroke-linecap:butt}}"
    f"@media (prefers-color-scheme:dark){{.pomp-plot{{color:{_DARK}}}}}"
)


@contextmanager
def inked() -> Iterator[None]:
    """Draw texts and axes in the colour that `to_svg` replaces by the reader's."""
    with mpl.rc_context(
        {
            "font.size": 10,
            "text.color": _INK,
            "axes.labelcolor": _INK,
            "axes.edgecolor": _INK,
            "axes.titlecolor": _INK,
            "xtick.color": _INK,
            "ytick.color": _INK,
            "grid.color": _INK,
            "legend.labelcolor": _INK,
            "legend.frameon": False,
        }
    ):
        yield


def to_svg(figure: Figure, name: str, title: str) -> str:
    """Return a figure that was drawn `inked`, as SVG without a background.

    Args:
        figure: which.
        name: a word that no other figure of the page has; identifiers begin with it.
        title: what it is called for those who cannot see it.
    """
    buffer = StringIO()
    metadata = dict.fromkeys(("Date", "Creator", "Format", "Type"))
    with mpl.rc_context({"svg.fonttype": "none", "svg.hashsalt": name}):
        figure.savefig(buffer, format="svg", transparent=True, metadata=metadata)
    content = re.search(r"<svg [^>]*>(.*)", buffer.getvalue(), re.DOTALL)
    assert content is not None
    text = re.sub(r"<(metadata|style).*?</\1>|<!--.*?-->", "", content[1], flags=re.DOTALL)
    text = re.sub(r'\bid="', f'id="{name}-', text)
    text = re.sub(r'((?:href="|url\()#)', rf"\1{name}-", text)
    width, height = (72 * inches for inches in figure.get_size_inches())
    return (
        '<svg class="pomp-plot" role="img" xmlns="http://www.w3.org/2000/svg" '
        f'xmlns:xlink="http://www.w3.org/1999/xlink" viewBox="0 0 {width:g} {height:g}" '
        f'style="width:{width:g}pt;max-width:100%;height:auto">\n<title>{escape_html(title)}</title>'
        f"<style>{_STYLE}</style>{text.replace(_INK, 'currentColor')}"
    )
