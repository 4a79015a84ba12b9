"""World -> SVG: a map's text as a picture that scales, light or dark as its reader likes."""

from collections.abc import Sequence
from html import escape

from pomp.karel.world import AGENTS, AGENTS_ON_MARKER

_CELL = 20  # units a side
_LIGHT = {"ground": "#faf9f5", "line": "#e2dfd6", "wall": "#3a404c", "marker": "#e8a317",
          "count": "#463000", "agent": "#1d6fb8"}  # fmt: skip
_DARK = {"ground": "#1b2027", "line": "#2c333d", "wall": "#7d8794", "marker": "#e8a317",
         "count": "#463000", "agent": "#5aa9f0"}  # fmt: skip
_DART = "M0 -7.6L6 6.8L0 3.2L-6 6.8z"  # points north, from the middle of its cell


def draw_rows(rows: Sequence[str], title: str, *, width: int = 160) -> str:
    """Draw a map as SVG.

    Args:
        rows: its lines, as `Map.to_text` writes them.
        title: what it is called for those who cannot see it.
        width: pixels of the picture.
    """
    wide, high = _CELL * max(map(len, rows)), _CELL * len(rows)
    cells = "".join(
        _draw_sign(sign, column * _CELL, row * _CELL)
        for row, line in enumerate(rows)
        for column, sign in enumerate(line)
    )
    dark = "".join(f".pomp-{name}{{fill:{colour}}}" for name, colour in _DARK.items())
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {wide} {high}" width="{width}" '
        f'height="{width * high / wide:.0f}" role="img" font-family="sans-serif" font-size="8" '
        f'text-anchor="middle"><title>{escape(title)}</title>'
        f"<style>@media (prefers-color-scheme:dark){{{dark}}}</style>"
        f'<rect width="{wide}" height="{high}" {_fill("ground")}/>{cells}</svg>'
    )


def _draw_sign(sign: str, left: int, top: int) -> str:
    """Draw what a sign of a map stands for."""
    x, y = left + _CELL // 2, top + _CELL // 2
    if sign == "#":
        return f'<rect x="{left}" y="{top}" width="{_CELL}" height="{_CELL}" {_fill("wall")}/>'
    drawn = f'<circle cx="{x}" cy="{y}" r="1" {_fill("line")}/>'
    if sign == "m" or sign in AGENTS_ON_MARKER or sign.isdigit() or sign == "+":
        drawn += f'<path d="M{x} {y - 6}l6 6l-6 6l-6 -6z" {_fill("marker")}/>'
    if sign.isdigit() or sign == "+":
        drawn += f'<text x="{x}" y="{y + 3}" {_fill("count")}>{sign}</text>'
    for signs in (AGENTS, AGENTS_ON_MARKER):
        if sign in signs:
            turn = f"translate({x} {y}) rotate({90 * signs.index(sign)})"
            drawn += f'<path d="{_DART}" transform="{turn}" {_fill("agent")}/>'
    return drawn


def _fill(name: str) -> str:
    """Return the attributes that fill with a named colour, light or dark."""
    return f'class="pomp-{name}" fill="{_LIGHT[name]}"'
