"""A machine as a picture, in SVG.

The picture brings its own background, which is dark where the viewer asks for dark colours. The
width of every text is prescribed, so that no font can make it longer than its place.
"""

from collections.abc import Sequence

from pomp.core.texts import escape_html
from pomp.machine.diagram import (
    CONDITION,
    HEADING,
    HEADLINE,
    LINE,
    PROGRAM,
    SHARE,
    START,
    Arrow,
    Block,
    Diagram,
    PlacedText,
    lay_out,
)
from pomp.machine.evaluation import Evaluation
from pomp.machine.policy import ProgramMachine

_COLOURS = ("#3f74d1", "#d4692b", "#2f9152", "#c9495b", "#8b60c4", "#9a6a3a", "#c0559b", "#1f8a99")
_PAPER, _BLOCK, _INK, _MUTED, _WORD, _END = "paper", "block", "ink", "muted", "word", "end"
_LIGHT = {
    _PAPER: "#ffffff", _BLOCK: "#f6f7f9", _INK: "#24292f", _MUTED: "#78818c", _WORD: "#8e3aa8",
    _END: "#57606a",
}  # fmt: skip
_DARK = {
    _PAPER: "#16191e", _BLOCK: "#20252c", _INK: "#e3e7ec", _MUTED: "#8b949e", _WORD: "#d59cf0",
    _END: "#aab3bd",
}  # fmt: skip
_ROLES = {HEADLINE: _INK, PROGRAM: _INK, CONDITION: _INK, SHARE: _MUTED}
_BEND, _TIP = 7.0, 9.0  # pixels: the radius of a turn, the length of an arrow's tip
_THIN, _THICK = 1.3, 1.7  # pixels: an arrow that is never taken; what always taking it adds
_UNCOUNTED = 0.2  # the share that an arrow is drawn with if nobody has counted


def draw_machine(machine: ProgramMachine, found: Evaluation | None = None) -> str:
    """Draw a machine as SVG: its modes with their programs, and its rules on the arrows.

    Args:
        machine: which.
        found: its evaluation, whose mean is told; arrows are then the thicker the more often they
            were taken. Where no rules choose the next mode, arrows are known from it alone.
    """
    counts = None if found is None else found.transitions(len(machine.modes))
    diagram = lay_out(machine, _headlines(machine, found), counts)
    groups: dict[int, list[Arrow]] = {}
    for arrow in diagram.arrows:
        groups.setdefault(arrow.to, []).append(arrow)
    stop = len(machine.modes)
    parts = [
        *(_draw_arrows(to, arrows, stop) for to, arrows in groups.items()),
        *(_draw_block(block, stop) for block in diagram.blocks),
        *(_draw_text(text, stop) for text in diagram.texts),
    ]
    return _frame(diagram, f"A machine for {machine.task.name}", "\n".join(parts))


def fit_to_page(picture: str) -> str:
    """Return a picture that is not wider than a notebook; programs that draw files choke on it."""
    return picture.replace("<svg ", '<svg style="max-width:100%;height:auto" ', 1)


def _headlines(machine: ProgramMachine, found: Evaluation | None) -> list[str]:
    """Return what stands above the picture: the task, what it earns, and what chooses."""
    first = machine.headline
    if found is not None:
        ceiling, count = found.setting.ceiling, len(found.returns)
        of_ceiling = "" if ceiling is None else f" of {ceiling:g}"
        episodes = "1 episode" if count == 1 else f"{count} episodes"
        played = f"all {count} starts" if found.is_exact and count > 1 else episodes
        return [first, f"mean return {found.mean:.3f}{of_ceiling}, {played}"]
    return [first] if machine.sensors else [first, "evaluate it to see what follows which mode"]


def _frame(diagram: Diagram, title: str, content: str) -> str:
    """Return a whole file."""
    width, height = round(diagram.width), round(diagram.height)
    dark = "".join(
        f".pomp-{name}{{fill:{colour}}}.pomp-{name}-line{{stroke:{colour}}}"
        for name, colour in _DARK.items()
    )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" '
        f'height="{height}" role="img" '
        'font-family="ui-monospace, Menlo, Consolas, monospace" font-size="12">\n'
        f"<title>{escape_html(title)}</title>\n"
        f"<style>@media (prefers-color-scheme:dark){{{dark}}}</style>\n"
        f'<rect width="{width}" height="{height}" rx="8" {_fill(_PAPER)}/>\n{content}\n</svg>\n'
    )


def _fill(name: str) -> str:
    """Return the attributes that fill with a named colour, light or dark."""
    return f'class="pomp-{name}" fill="{_LIGHT[name]}"'


def _stroke(name: str) -> str:
    """Return the attributes that draw lines in a named colour, light or dark."""
    return f'class="pomp-{name}-line" stroke="{_LIGHT[name]}"'


def _colour(block: int, stop: int) -> str:
    """Return the attributes that fill with a block's colour; start and stop have none."""
    is_end = block in (START, stop)
    return _fill(_END) if is_end else f'fill="{_COLOURS[block % len(_COLOURS)]}"'


def _line_colour(block: int, stop: int) -> str:
    """Return the attributes that draw lines in a block's colour; start and stop have none."""
    is_end = block in (START, stop)
    return _stroke(_END) if is_end else f'stroke="{_COLOURS[block % len(_COLOURS)]}"'


def _draw_block(block: Block, stop: int) -> str:
    """Draw the box of a block; those of start and stop are round."""
    box = block.box
    is_end = block.number in (START, stop)
    place = f'x="{box.left:g}" y="{box.top:g}" height="{box.height:g}"'
    frame = (
        f'<rect {place} width="{box.width:g}" rx="{14 if is_end else 5}" {_fill(_BLOCK)}/>'
        f'<rect {place} width="{box.width:g}" rx="{14 if is_end else 5}" fill="none" '
        f'stroke-width="1.4" {_line_colour(block.number, stop)}/>'
    )
    bar = f'<rect {place} width="5" rx="2.5" {_colour(block.number, stop)}/>'
    return frame if is_end else frame + bar


def _draw_arrows(to: int, arrows: Sequence[Arrow], stop: int) -> str:
    """Draw the arrows to a block, with a margin that interrupts what they cross."""
    shares = [_UNCOUNTED if arrow.share is None else arrow.share for arrow in arrows]
    paths = [
        (_path(arrow), _THIN + _THICK * share) for arrow, share in zip(arrows, shares, strict=True)
    ]
    margins = [
        f'<path d="{path}" fill="none" stroke-width="{width + 4:.1f}" {_stroke(_PAPER)}/>'
        for path, width in paths
    ]
    lines = [
        f'<path d="{path}" fill="none" stroke-width="{width:.1f}" {_line_colour(to, stop)}/>'
        for path, width in paths
    ]
    x, y = arrows[0].tip, arrows[0].enters
    tip = f'<path d="M{x:g} {y:g}l{_TIP:g} -5.5v11z" {_colour(to, stop)}/>'
    return "".join([*margins, *lines, tip])


def _path(arrow: Arrow) -> str:
    """Return the way of an arrow, with round turns."""
    bend = min(_BEND, abs(arrow.enters - arrow.leaves) / 2)
    down = bend if arrow.enters > arrow.leaves else -bend
    x, out, back = arrow.track, arrow.leaves, arrow.enters
    return (
        f"M{arrow.left:g} {out:g}H{x - bend:g}Q{x:g} {out:g} {x:g} {out + down:g}"
        f"V{back - down:g}Q{x:g} {back:g} {x - bend:g} {back:g}H{arrow.tip + _TIP - 1:g}"
    )


def _draw_text(text: PlacedText, stop: int) -> str:
    """Draw a line of text; the words of a program are told apart by colours."""
    box = text.box
    weight = ' font-weight="bold"' if text.role in (HEADLINE, HEADING) else ""
    fill = _fill(_ROLES[text.role]) if text.block is None else _colour(text.block, stop)
    content = _colour_words(text.text) if text.role == PROGRAM else escape_html(text.text)
    return (
        f'<text x="{box.left:g}" y="{box.top + LINE - 4:g}" textLength="{box.width:g}" '
        f'lengthAdjust="spacingAndGlyphs"{weight} {fill}>{content}</text>'
    )


def _colour_words(line: str) -> str:
    """Return a line of a program with its keywords and brackets in colours of their own."""
    words = []
    for word in line.split():
        name = _MUTED if word[-1] in "()" else _WORD if word.isupper() or word == "not" else None
        words.append(
            f"<tspan {_fill(name)}>{escape_html(word)}</tspan>" if name else escape_html(word)
        )
    return " ".join(words)
