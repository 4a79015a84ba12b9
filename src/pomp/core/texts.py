"""Texts from files and other strangers, as they may be shown.

A terminal obeys control characters, an editor reverses text at some invisible ones, and a page
takes `<` as markup. Whatever prints text that was not written in the package passes it through
here: errors (`PompError`), commands (`pomp.cli.output`), pages, pictures and graphs.
"""

from html import escape

_KEPT = "\n\t"


def visible(text: str) -> str:
    r"""Return a text with everything that is not printable escaped, as `\x1b`.

    Line ends and tabs stay. Printable text, in any script, comes back as it is.
    """
    if text.translate(_WITHOUT_BREAKS).isprintable():
        return text
    return "".join(one if one.isprintable() or one in _KEPT else _escape(one) for one in text)


_WITHOUT_BREAKS = str.maketrans("", "", _KEPT)


def _escape(character: str) -> str:
    """Return a character as Python writes it in a text, lone surrogates too."""
    return character.encode("unicode_escape", "surrogatepass").decode("ascii")


def escape_html(text: str) -> str:
    """Return a text as HTML and SVG show it: control characters visible, markup escaped."""
    return escape(visible(text))
