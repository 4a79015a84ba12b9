"""A task as notebooks show it."""

import base64

from pomp.core.texts import escape_html
from pomp.tasks.task import Setting

CELL = 20  # pixels of a cell in the picture of a start


def show_setting(setting: Setting) -> str:
    """Return a task in a setting as HTML: its sentence, its numbers, its variants and a start.

    A task with too many starts to list shows none: to draw one, its functions would be compiled.
    """
    task = setting.task
    rows = {
        "grid": f"{setting.height}x{setting.width}",
        "ceiling": "not known" if setting.ceiling is None else f"{setting.ceiling:g}",
        "scale": f"{setting.scale} of {', '.join(map(str, task.scales))}",
        "variants": ", ".join(
            f"{name} (this one)" if name == setting.variant else name for name in task.variants
        ),
        **{f"option {name}": value for name, value in setting.option_texts.items()},
    }
    table = "".join(
        f"<tr><td>{escape_html(name)}</td><td>{escape_html(value)}</td></tr>"
        for name, value in rows.items()
    )
    heading = (
        f"<b>{escape_html(task.name)}</b> ({escape_html(task.suite)}): {escape_html(task.summary)}"
    )
    return f"<div>{heading}<table>{table}</table>{_picture(setting)}</div>"


def _picture(setting: Setting) -> str:
    """Return the first start in the list of a task as HTML; nothing if there is no list."""
    if setting.task.starts is None:
        return ""
    from pomp.karel.render import draw_map, png_bytes

    start = next(iter(setting.task.starts(setting))).map
    code = base64.b64encode(png_bytes(draw_map(start, CELL))).decode()
    return f'<img alt="a start" src="data:image/png;base64,{code}">'
