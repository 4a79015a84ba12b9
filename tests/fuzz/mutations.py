"""No tests: files changed at random, as damage, another version or a stranger would.

`flip` and `cut` damage bytes; a file with a checksum must notice each. The others edit what a file
says and put the checksum right again (or leave it out), so that what reads it is tried and not the
checksum.
"""

import json
import random

import numpy as np

from edited import read_values
from pomp.core.storage import pack_arrays, unpack_arrays

DAMAGES = ("flip", "cut", "zero", "insert")
STRANGE = (
    None, True, -1, 0, 1, 2**31 - 1, 2**31, -(2**63), 2**63, 10**30, 1e9, 0.5, -0.0, 1e308,
    float("nan"), float("inf"), "", "x", "\x1b[2J", "\ud800", "evil:TASK", "../../x",
    "DEF run m( move m)", [], {}, [[]], {"": 0}, ["x"] * 200, "9" * 5000,
)  # fmt: skip
EDITS = ("values", "number", "number", "fill", "shape", "type", "drop", "swap", "extra")
WORDS = (*(str(one)[:300] for one in STRANGE if one != "\ud800"), "\n", "#")


def mutate(path, draw):
    """Change a file in place; returns what was done, one of the names above or below."""
    if draw.random() < 0.4:
        return _damage(path, draw)
    if path.suffix == ".safetensors":
        return _edit_arrays(path, draw)
    if path.suffix == ".json":
        return _edit_json(path, draw)
    if path.suffix == ".jsonl":
        return _edit_lines(path, draw)
    return _edit_text(path, draw) if path.suffix != ".gz" else _damage(path, draw)


def _damage(path, draw):
    content = bytearray(path.read_bytes())
    how = draw.choice(DAMAGES)
    place = draw.randrange(len(content))
    if how == "flip":
        content[place] ^= 1 << draw.randrange(8)
    elif how == "cut":
        del content[min(place, len(content.rstrip()) - 1) :]  # a last line's end is no loss
    elif how == "zero":
        part = content[place : place + draw.randrange(1, 64)]
        other = bytes(len(part)) if any(part) else b"\xff" * len(part)
        content[place : place + len(part)] = other
    else:
        content[place:place] = draw.randbytes(draw.randrange(1, 16))
    path.write_bytes(content)
    return how


def _edit_json(path, draw):
    values, how = _edit_value(read_values(path), draw)
    path.write_text(values if isinstance(values, str) else _dump(values))
    return how


def _edit_lines(path, draw):
    lines = path.read_text().splitlines()
    place = draw.randrange(len(lines))
    value, how = _edit_value(json.loads(lines[place]), draw)
    lines[place] = value if isinstance(value, str) else _dump(value)
    path.write_text("\n".join(lines))
    return how


def _dump(value):
    return json.dumps(value) if is_json(value) else json.dumps(str(value))


def is_json(value):
    """Whether JSON can hold a value; integers of thousands of digits are texts."""
    try:
        json.dumps(value)
    except (TypeError, ValueError):
        return False
    return True


def _edit_value(values, draw):
    """Return values with one place changed, and how; a text: the JSON of the whole file."""
    how = draw.choice(("strange", "strange", "strange", "drop", "add", "swap", "nest", "twice"))
    if how == "nest":
        depth = draw.choice((30, 990, 100_000))
        return json.dumps(values)[:-1] + ', "nested": ' + "[" * depth + "]" * depth + "}", how
    if how == "twice":
        text = json.dumps(values)
        return "{" + text[1:-1] + ", " + text[1:-1] + "}", how
    places = list(_places(values))
    holder, key = draw.choice(places)
    if how == "strange":
        holder[key] = draw.choice(STRANGE)
    elif how == "drop":
        del holder[key]
    elif how == "add":
        if isinstance(holder, dict):
            holder[draw.choice(("surprise", "sensors", "names"))] = draw.choice(STRANGE)
        else:
            holder.append(draw.choice(STRANGE))
    else:
        other, place = draw.choice(places)
        holder[key], other[place] = other[place], holder[key]
        if _is_endless(values):
            return "[" * 40 + "]" * 40, how
    return values, how


def _is_endless(values):
    try:
        json.dumps(values)
    except (ValueError, RecursionError):
        return True
    return False


def _places(value):
    """Yield every place in nested values, as its holder and key."""
    items = value.items() if isinstance(value, dict) else enumerate(value)
    for key, item in list(items):
        yield value, key
        if isinstance(item, dict | list) and item:
            yield from _places(item)


def _edit_arrays(path, draw):
    arrays, header = unpack_arrays(path.read_bytes())
    how = draw.choice(
        ("values", "number", "number", "fill", "shape", "type", "drop", "swap", "extra")
    )
    name, other = draw.choice(sorted(arrays)), draw.choice(sorted(arrays))
    array = np.array(arrays[name])
    if how == "values" and header:
        header, _ = _edit_value(header, draw)
        if isinstance(header, str):
            return _damage(path, draw)
    elif how in ("number", "fill"):
        _put(array, draw, whole=how == "fill")
        arrays[name] = array
    elif how == "shape":
        flat = array.reshape(-1)
        arrays[name] = draw.choice(
            (flat, flat[:-1], array[None], array[:-1] if array.ndim else flat)
        )
    elif how == "type":
        with np.errstate(all="ignore"):
            arrays[name] = array.astype(draw.choice((np.int8, np.int64, np.float64, np.bool_)))
    elif how == "drop":
        del arrays[name]
    elif how == "swap":
        arrays[name], arrays[other] = arrays[other], arrays[name]
    else:
        arrays["surprise"] = array
    path.write_bytes(pack_arrays(arrays, _plain(header)))
    return how


def _plain(header):
    return header if is_json(header) else {}


def _put(array, draw, *, whole):
    """Put an extreme number into an array `[...]`, at one place or everywhere."""
    kind = array.dtype
    if kind.kind == "f":
        number = draw.choice((np.nan, np.inf, -np.inf, 1e30, -1.0, 0.0))
    elif kind.kind == "b":
        number = draw.choice((True, False))
    else:
        limits = np.iinfo(kind)
        number = draw.choice((limits.min, limits.max, limits.max // 2, 0, 1, 127))
    with np.errstate(all="ignore"):
        if whole:
            array[...] = number
        elif array.size:
            array.reshape(-1)[draw.randrange(array.size)] = number


def _edit_text(path, draw):
    words = path.read_text().split(" ")
    how = draw.choice(("word", "drop", "swap", "double"))
    place, other = draw.randrange(len(words)), draw.randrange(len(words))
    if how == "word":
        words[place] = draw.choice(WORDS)
    elif how == "drop":
        del words[place]
    elif how == "swap":
        words[place], words[other] = words[other], words[place]
    else:
        words *= draw.choice((2, 50))
    path.write_text(" ".join(words))
    return how


def drawing(seed, kind, case):
    """Return the random numbers of a case."""
    return random.Random(f"{seed} {kind} {case}")
