"""A report as sections of text, tables and pictures; as Markdown, and as blocks of other pages."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from pomp.core.errors import ConfigError, UnknownNameError
from pomp.core.texts import visible
from pomp.experiments.tables import Mark

SIGNS: Mapping[Mark, str] = {"": "", "above": "▲", "below": "▼"}
MISSING = "-"
FIGURES = "figures"
"""The folder of pictures beside a report in Markdown."""
_BEGIN = re.compile(r"<!-- table (\S+) -->")
_END = "<!-- end -->"


@dataclass(frozen=True, kw_only=True)
class GridEntry:
    """What stands in one place of a table.

    Attributes:
        text: first of all.
        note: beside it, smaller.
        below: on a line of its own, smaller.
        hint: what is told on top of that, where a pointer can rest on it.
        mark: whether it is above or below what it is compared with.
        is_best: whether it is the best of its column.
        is_best_of_paper: whether it is the best of the paper's methods, and another is the best.
        share: how much of the most it is, for a bar.
    """

    text: str
    note: str = ""
    below: str = ""
    hint: str = ""
    mark: Mark = ""
    is_best: bool = False
    is_best_of_paper: bool = False
    share: float | None = None


@dataclass(frozen=True)
class GridRow:
    """A row of a table: what it is called, and its entries; without entries, a heading.

    Attributes:
        name: its first column.
        entries: the others.
        below: what the lines below its entries are.
        is_aside: whether it is told by the way.
    """

    name: str
    entries: tuple[GridEntry, ...] = ()
    below: str = ""
    is_aside: bool = False


@dataclass(frozen=True)
class Grid:
    """A table.

    Attributes:
        name: by which pages ask for it.
        head: the names of its columns.
        rows: its rows.
        caption: what is to be known to read it.
        is_text: whether the entries are words, not numbers.
    """

    name: str
    head: tuple[str, ...]
    rows: tuple[GridRow, ...]
    caption: str = ""
    is_text: bool = False


@dataclass(frozen=True)
class Paragraph:
    """A few sentences."""

    text: str


@dataclass(frozen=True)
class Picture:
    """A picture: the name of its file, its SVG and what it shows."""

    name: str
    svg: str
    caption: str = ""


@dataclass(frozen=True)
class Gallery:
    """Pictures beside each other."""

    pictures: tuple[Picture, ...]


@dataclass(frozen=True)
class Listing:
    """A text of which every character counts, and what it is."""

    title: str
    text: str


@dataclass(frozen=True)
class Details:
    """What is shown on demand, or at first if it is open."""

    title: str
    blocks: "tuple[Block, ...]"
    is_open: bool = False


Block = Grid | Paragraph | Gallery | Listing | Details


@dataclass(frozen=True)
class Section:
    """A section: what it is called in links, its title, and what it holds."""

    name: str
    title: str
    blocks: tuple[Block, ...]


@dataclass(frozen=True)
class Document:
    """A whole report.

    Attributes:
        title: of the page.
        facts: what is to be known at first sight, by name.
        warnings: what nobody may miss.
        sections: in their order.
    """

    title: str
    facts: Mapping[str, str]
    warnings: tuple[str, ...] = ()
    sections: tuple[Section, ...] = field(default=())

    @property
    def pictures(self) -> list[Picture]:
        """All its pictures."""
        blocks = [block for section in self.sections for block in _unfold(section.blocks)]
        return [one for block in blocks if isinstance(block, Gallery) for one in block.pictures]

    @property
    def grids(self) -> dict[str, Grid]:
        """All its tables, by name."""
        blocks = [block for section in self.sections for block in _unfold(section.blocks)]
        return {block.name: block for block in blocks if isinstance(block, Grid)}


def _unfold(blocks: tuple[Block, ...]) -> Iterator[Block]:
    for block in blocks:
        yield from _unfold(block.blocks) if isinstance(block, Details) else (block,)


def show_number(value: float, digits: int = 3) -> str:
    """Return a number with some decimals, and zero without a sign."""
    return f"{round(value, digits) + 0.0:.{digits}f}"


def show_interval(ends: tuple[float, float] | None, digits: int = 3) -> str:
    """Return the ends of an interval as text."""
    return MISSING if ends is None else " to ".join(show_number(end, digits) for end in ends)


def show_count(number: float | None) -> str:
    """Return a count in a few digits."""
    if number is None:
        return MISSING
    for size, unit in ((1e9, " bn"), (1e6, " M"), (1e3, " k")):
        if number >= size:
            return f"{number / size:.3g}{unit}"
    return f"{number:.3g}"


# Markdown


def to_markdown(document: Document) -> str:
    """Return a report as Markdown; its pictures are files in the folder `FIGURES` beside it."""
    lines = [f"# {_escape(document.title)}", ""]
    for warning in document.warnings:
        lines += [f"> **{_escape(warning)}**", ""]
    lines += [f"- {_escape(name)}: {_escape(fact)}" for name, fact in document.facts.items()]
    for section in document.sections:
        lines += ["", f"## {_escape(section.title)}"]
        for block in section.blocks:
            lines += ["", *_block_lines(block)]
    return "\n".join(lines) + "\n"


def _block_lines(block: Block) -> list[str]:
    if isinstance(block, Grid):
        return _grid_lines(block)
    if isinstance(block, Paragraph):
        return [_escape(block.text)]
    if isinstance(block, Gallery):
        return [line for one in block.pictures for line in _picture_lines(one)][:-1]
    if isinstance(block, Listing):
        runs = re.findall(r"`+", block.text)
        fence = "`" * max(3, 1 + max(map(len, runs), default=0))
        return [f"**{_escape(block.title)}**", "", fence, *visible(block.text).splitlines(), fence]
    inside = [line for one in block.blocks for line in ("", *_block_lines(one))]
    begin = "<details open>" if block.is_open else "<details>"
    return [begin, f"<summary>{_escape(block.title)}</summary>", *inside, "", "</details>"]


def _picture_lines(picture: Picture) -> list[str]:
    caption = [_escape(picture.caption), ""] if picture.caption else []
    return [f"![{_escape(picture.name)}]({FIGURES}/{picture.name}.svg)", "", *caption]


def _grid_lines(grid: Grid) -> list[str]:
    kinds = "|---" * len(grid.head) if grid.is_text else "|---" + "|---:" * (len(grid.head) - 1)
    lines = [_row_line([_escape(name) for name in grid.head]), f"{kinds}|"]
    for row in grid.rows:
        blanks = [""] * (len(grid.head) - 1)
        if not row.entries:
            lines.append(_row_line([f"**{_escape(row.name)}**", *blanks]))
            continue
        name = f"*{_escape(row.name)}*" if row.is_aside else _escape(row.name)
        name += f"<br>{_escape(row.below)}" if row.below else ""
        lines.append(_row_line([name, *(_entry_text(entry) for entry in row.entries)]))
    return [*lines, "", _escape(grid.caption)] if grid.caption else lines


def _row_line(texts: list[str]) -> str:
    return f"| {' | '.join(texts)} |"


def _entry_text(entry: GridEntry) -> str:
    text = _escape(entry.text)
    if entry.is_best:
        text = f"**{text}**"
    elif entry.is_best_of_paper:
        text = f"<ins>{text}</ins>"
    first = " ".join(part for part in (SIGNS[entry.mark], text, _escape(entry.note)) if part)
    return f"{first}<br>{_escape(entry.below)}" if entry.below else first


def _escape(text: str) -> str:
    """Return a text in which nothing is a sign of Markdown or HTML."""
    one_line = " ".join(visible(text).replace("&", "&amp;").replace("<", "&lt;").split())
    return re.sub(r"([\\|*_`\[\]])", r"\\\1", one_line)


# Blocks of other pages


def has_blocks(page: str) -> bool:
    """Whether a page in Markdown asks for tables, or has something that ends one."""
    return any(_BEGIN.fullmatch(line) or line == _END for line in page.splitlines())


def fill_blocks(page: str, grids: Mapping[str, Grid]) -> str:
    """Return a page in Markdown with its tables as they are now.

    A table stands between a line `<!-- table NAME -->` and a line `<!-- end -->`.

    Args:
        page: the page's text.
        grids: the tables by name, as `Document.grids` has them.

    Raises:
        UnknownNameError: the page asks for a table that is not there.
        ConfigError: a block has no end, or an end has no beginning.
    """
    lines, name = list[str](), ""
    for number, line in enumerate(page.splitlines(), 1):
        begins = _BEGIN.fullmatch(line)
        if begins and name:
            raise ConfigError(f"line {number}: the table {name} before it has no '{_END}'")
        if line == _END and not name:
            raise ConfigError(f"line {number}: '{_END}' ends no table")
        if begins:
            name = begins[1]
            if name not in grids:
                raise UnknownNameError("table", name, grids)
            lines += [line, *_grid_lines(grids[name])]
        elif line == _END:
            name = ""
        if not name:
            lines.append(line)
    if name:
        raise ConfigError(f"the table {name} has no end: a line '{_END}'")
    return "\n".join(lines) + "\n"
