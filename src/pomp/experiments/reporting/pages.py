"""A report as a web page that needs nothing else: no network, no scripts, no other files."""

from pathlib import Path

from pomp.core.texts import escape_html
from pomp.experiments.reporting.documents import (
    SIGNS,
    Block,
    Details,
    Document,
    Gallery,
    Grid,
    GridEntry,
    GridRow,
    Listing,
    Paragraph,
    Picture,
)

_BARS = "Bars show shares of the ceiling."
_STYLE = Path(__file__).with_name("report.css")


def to_html(document: Document) -> str:
    """Return a report as one page of HTML."""
    title = escape_html(document.title)
    warnings = "".join(
        f'<p class="warning" role="alert">{escape_html(one)}</p>\n' for one in document.warnings
    )
    facts = "".join(
        f"<div><dt>{escape_html(name)}</dt><dd>{escape_html(fact)}</dd></div>\n"
        for name, fact in document.facts.items()
    )
    links = "".join(
        f'<a href="#{escape_html(section.name)}">{escape_html(section.title)}</a>\n'
        for section in document.sections
    )
    sections = "".join(
        f'<section id="{escape_html(section.name)}">\n<h2>{escape_html(section.title)}</h2>\n'
        f"{_blocks(section.blocks)}</section>\n"
        for section in document.sections
    )
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{title}</title>\n<style>\n{_STYLE.read_text()}</style>\n</head>\n<body>\n"
        f"<header>\n<h1>{title}</h1>\n{warnings}<dl>\n{facts}</dl>\n</header>\n"
        f"<nav>\n{links}</nav>\n<main>\n{sections}</main>\n</body>\n</html>\n"
    )


def _blocks(blocks: tuple[Block, ...]) -> str:
    return "".join(_block(block) for block in blocks)


def _block(block: Block) -> str:
    if isinstance(block, Grid):
        return _grid(block)
    if isinstance(block, Paragraph):
        return f"<p>{escape_html(block.text)}</p>\n"
    if isinstance(block, Gallery):
        return f'<div class="gallery">\n{"".join(map(_picture, block.pictures))}</div>\n'
    if isinstance(block, Listing):
        return f"<h3>{escape_html(block.title)}</h3>\n<pre>{escape_html(block.text)}</pre>\n"
    assert isinstance(block, Details)
    begin = "<details open>" if block.is_open else "<details>"
    title = f"<summary>{escape_html(block.title)}</summary>"
    return f"{begin}\n{title}\n{_blocks(block.blocks)}</details>\n"


def _picture(picture: Picture) -> str:
    caption = (
        f"<figcaption>{escape_html(picture.caption)}</figcaption>\n" if picture.caption else ""
    )
    return f"<figure>\n{picture.svg.strip()}\n{caption}</figure>\n"


def _grid(grid: Grid) -> str:
    head = "".join(f'<th scope="col">{escape_html(name)}</th>' for name in grid.head)
    rows = "".join(_row(row, len(grid.head)) for row in grid.rows)
    has_bars = any(entry.share is not None for row in grid.rows for entry in row.entries)
    told = f"{grid.caption} {_BARS if has_bars else ''}".strip()
    caption = f'<p class="caption">{escape_html(told)}</p>\n' if told else ""
    kind = ' class="words"' if grid.is_text else ""
    return (
        f'<div class="scroll" tabindex="0" role="region" aria-label="{escape_html(grid.name)}">\n'
        f"<table{kind}>\n<thead><tr>{head}</tr></thead>\n<tbody>\n{rows}</tbody>\n</table>\n"
        f"</div>\n{caption}"
    )


def _row(row: GridRow, columns: int) -> str:
    if not row.entries:
        name = f'<th scope="rowgroup"><span>{escape_html(row.name)}</span></th>'
        return f'<tr class="group">{name}<td colspan="{columns - 1}"></td></tr>\n'
    kind = ' class="aside"' if row.is_aside else ""
    entries = "".join(_entry(entry) for entry in row.entries)
    below = f'<span class="below">{escape_html(row.below)}</span>' if row.below else ""
    return f'<tr{kind}><th scope="row">{escape_html(row.name)}{below}</th>{entries}</tr>\n'


def _entry(entry: GridEntry) -> str:
    text = escape_html(entry.text)
    if entry.is_best:
        text = f"<strong>{text}</strong>"
    elif entry.is_best_of_paper:
        text = f"<u>{text}</u>"
    note = f" <small>{escape_html(entry.note)}</small>" if entry.note else ""
    mark = f'<b class="{entry.mark}">{SIGNS[entry.mark]}</b> ' if entry.mark else ""
    below = f'<span class="below">{escape_html(entry.below)}</span>' if entry.below else ""
    bar = ""
    if entry.share is not None:
        width = 100 * min(1.0, max(0.0, entry.share))
        bar = f'<span class="bar"><i style="width:{width:.1f}%"></i></span>'
    hint = f' title="{escape_html(entry.hint)}"' if entry.hint else ""
    return f"<td{hint}>{mark}{text}{note}{below}{bar}</td>"
