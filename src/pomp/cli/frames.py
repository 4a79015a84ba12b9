"""Worlds and episodes as lines of styled text: pure functions, for a terminal or any output."""

from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import TYPE_CHECKING

from pomp.core.texts import visible

if TYPE_CHECKING:
    from pomp.play.story import Moment, View

Span = tuple[str, str]
"""Text, and the name of a style or nothing."""

_STYLES = {"agent": "1;32", "marker": "33", "wall": "34", "mark": "7", "title": "1", "dim": "2"}
_ARROWS, _ON_MARKER = "^>v<", "nesw"
_GAP, _LEAST_TEXT = 3, 24  # columns beside the world
_FRAME_LINES = 4  # title, notice, a blank line, keys
_LEAST_CAPTION = 11  # columns of `return 0.93`
_MOST_MOMENTS = 8  # of a strip


def draw_screen(view: "View", columns: int, rows: int) -> list[list[Span]]:
    """A frame that fits into so many columns and rows."""
    height, width = len(view.world), len(view.world[0])
    room = rows - _FRAME_LINES - len(view.status)
    size = 2 if 2 * width + _GAP + _LEAST_TEXT <= columns else 1
    has_text = size * width + _GAP + _LEAST_TEXT // 2 <= columns
    widest = max(len(line) for line in (view.title, *view.status, view.keys))
    beside = _GAP + max(len(line) + 2 for line in (view.heading, *view.text))
    is_whole = max(widest, size * width + beside) <= columns and height <= room
    notice = "" if is_whole else "too small to show all"
    world = _draw_world(view.world, view.under, size, columns, max(room, 0))
    body_rows = max(min(room, max(height, view.tallest + 1)), 0)
    text = _draw_text(view, body_rows) if has_text else []
    body = _beside(world, text, size * width + _GAP, body_rows)
    lines: list[list[Span]] = [[(view.title, "title")], [(notice, "mark")], *body]
    lines += [[]] * (room >= 0)
    lines += [[(line, "")] for line in view.status]
    lines.append([(view.keys, "dim")])
    return [_cut(line, columns) for line in lines[:rows]]


def draw_strip(moments: Sequence["Moment"], columns: int) -> list[list[Span]]:
    """Moments of an episode side by side, the first, the last and some between, as many as fit."""
    height, width = len(moments[0].world), len(moments[0].world[0])
    size = 2 if 2 * (2 * width + _GAP) <= columns + _GAP else 1
    broad = max(size * width, _LEAST_CAPTION) + _GAP
    count = min(max((columns + _GAP) // broad, 2), _MOST_MOMENTS, len(moments))
    places = [round(one * (len(moments) - 1) / max(count - 1, 1)) for one in range(count)]
    lines: list[list[Span]] = [[] for _ in range(height + 2)]
    for place in places:
        moment = moments[place]
        world = _draw_world(moment.world, moment.under, size, size * width, height)
        caption = [[(f"after {moment.actions}", "dim")], [(f"return {moment.worth:.2f}", "")]]
        lines = _beside(lines, [*world, *caption], broad * places.index(place), height + 2)
    return [_cut(line, columns) for line in lines]


def _draw_world(
    world: Sequence[str], under: int, size: int, columns: int, rows: int
) -> list[list[Span]]:
    """The map, `size` columns a cell; of one that does not fit, the part around the agent."""
    row, col = next(
        (row, col)
        for row, line in enumerate(world)
        for col, sign in enumerate(line)
        if sign in _ARROWS + _ON_MARKER
    )
    across = _window(col, columns // size, len(world[0]))
    down = _window(row, rows, len(world))
    return [_join(_draw_cell(sign, under, size) for sign in line[across]) for line in world[down]]


def _draw_cell(sign: str, under: int, size: int) -> Span:
    """A cell; two columns wide, the agent stands beside the markers under it."""
    if sign in _ARROWS + _ON_MARKER:
        arrow = _ARROWS[(_ARROWS + _ON_MARKER).index(sign) % 4]
        below = " " if not under else "m" if under == 1 else str(under) if under < 10 else "+"
        return (sign if size == 1 else arrow + below, "agent")
    if sign == "#":
        return sign * size, "wall"
    return sign.ljust(size), "dim" if sign == "." else "marker"


def _draw_text(view: "View", rows: int) -> list[list[Span]]:
    """The heading and as much of the text as fits, around the line in focus."""
    shown = _window(view.focus or 0, max(rows - 1, 0), len(view.text))
    lines = [(f"  {line}", "") for line in view.text[shown]]
    if len(lines) > 2:
        lines[0] = lines[0] if shown.start == 0 else ("  ...", "dim")
        lines[-1] = lines[-1] if shown.stop >= len(view.text) else ("  ...", "dim")
    if view.focus is not None and lines:
        lines[view.focus - shown.start] = (f"> {view.text[view.focus]}", "mark")
    return [[(view.heading, "title")], *([line] for line in lines)]


def _window(focus: int, room: int, total: int) -> slice:
    """The part of a whole that fits, with the focus in its middle as far as there is more."""
    first = max(min(focus - room // 2, total - room), 0)
    return slice(first, min(first + room, total))


def _beside(
    left: Sequence[list[Span]], right: Sequence[list[Span]], width: int, rows: int
) -> list[list[Span]]:
    """Two columns of lines as one; the left one is filled up to `width`."""
    lines = []
    for row in range(rows):
        line = list(left[row]) if row < len(left) else []
        used = sum(len(text) for text, _ in line)
        line.append((" " * (width - used), ""))
        lines.append(line + (right[row] if row < len(right) else []))
    return lines


def _join(spans: Iterator[Span]) -> list[Span]:
    """Neighbours of one style become one."""
    groups = groupby(spans, key=lambda span: span[1])
    return [("".join(text for text, _ in group), style) for style, group in groups]


def _cut(line: list[Span], columns: int) -> list[Span]:
    kept, left = [], columns
    for text, style in line:
        kept.append((text[:left], style))
        left -= len(kept[-1][0])
    return [span for span in kept if span[0]]


def paint(lines: Sequence[list[Span]], *, colours: bool) -> str:
    """A frame as a terminal takes it: over the last one, each line cleared to its end."""
    rows = [style(line, colours=colours) + "\x1b[K" for line in lines]
    return "\x1b[H" + "\r\n".join(rows) + "\x1b[J"


def style(line: Sequence[Span], *, colours: bool) -> str:
    """A line as a terminal takes it, in colours or plain."""
    return "".join(
        f"\x1b[{_STYLES[name]}m{visible(text)}\x1b[m" if colours and name else visible(text)
        for text, name in line
    )
