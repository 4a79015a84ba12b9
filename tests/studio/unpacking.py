"""An episode's data, read as the page reads it, for the tests of this folder."""

import base64

import numpy as np

HOME = "http://127.0.0.1"
TYPES = {"u8": "u1", "i8": "i1", "u16": "<u2", "i16": "<i2", "u32": "<u4", "i32": "<i4",
         "f32": "<f4", "f64": "<f8"}  # fmt: skip


def unpack(array):
    content = base64.b64decode(array["data"])
    return np.frombuffer(content, TYPES[array["type"]]).reshape(array["shape"])


def frames_of(data):
    """The cells of every frame, by flipping bits from the start on."""
    cells = {name: unpack(part) for name, part in data["cells"].items()}
    frames = np.empty((data["frames"] + 1, len(data["world"]["cells"])), np.uint8)
    frames[0] = data["world"]["cells"]
    for frame in range(1, len(frames)):
        frames[frame] = frames[frame - 1]
        here = cells["at"] == frame
        frames[frame, cells["cell"][here]] ^= cells["flip"][here]
    return frames
