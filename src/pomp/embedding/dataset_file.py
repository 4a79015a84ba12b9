"""A dataset as one file: safetensors with one header entry, JSON that says how it was made.

Nothing in it depends on the machine, so equal configs give equal bytes. Axes: N programs, D
demonstrations of each program.
"""

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from pomp.core.configs import from_json, to_json
from pomp.core.errors import ConfigError, DataFileError
from pomp.core.schemas import FREE, Array, Record, Whole, check_arrays
from pomp.core.storage import Arrays, read_arrays, write_arrays
from pomp.dsl.vocabulary import Action
from pomp.embedding.config import DatasetConfig
from pomp.embedding.dataset import SIZE, Dataset, find_vocabulary
from pomp.embedding.demonstrations import Demonstrations
from pomp.karel.dynamics import COUNT, WALL, ZERO

FORMAT = 1
_INNER = SIZE - 2
_WALL_CELL = WALL | ZERO  # a random world flags walls too
_START_BYTES = 11  # of a packed start state
_VERSIONED = Record({"format": FREE}, is_open=True)


def save_dataset(dataset: Dataset, path: str | Path) -> None:
    """Write the file, all of it or nothing.

    Raises:
        OutputError: it cannot be written.
    """
    shown = dataset.demonstrations
    is_token = dataset.ids != dataset.vocabulary.pad
    steps = np.arange(shown.actions.shape[2]) < shown.length[..., None]
    arrays = {
        "program_length": is_token.sum(axis=1).astype(np.uint8),
        "tokens": dataset.ids[is_token],
        "start": _pack(shown),
        "demonstration_length": shown.length.astype(np.uint8),
        "actions": shown.actions[steps],
    }
    header = {"format": FORMAT, "config": to_json(dataset.config), "draws": dataset.draws}
    write_arrays(path, arrays, header)


def load_dataset(path: str | Path) -> Dataset:
    """Read a file that `save_dataset` wrote.

    Raises:
        DataFileError: it is truncated, damaged, of a newer format, or no dataset at all.
    """
    arrays, header = read_arrays(path, "dataset", _VERSIONED)
    if header.get("format") != FORMAT:
        found = header.get("format")
        raise DataFileError(
            f"'{path}' has dataset format {found!r}, this version of pomp reads {FORMAT}; "
            "make it again with 'pomp embedding dataset', or upgrade pomp"
        )
    try:
        Record({"format": Whole(), "config": FREE, "draws": Whole(1)}).check(header)
        config = from_json(DatasetConfig, header["config"])
        return _read_dataset(config, header["draws"], arrays)
    except (ConfigError, DataFileError) as error:
        raise DataFileError(
            f"'{path}' is damaged: its arrays do not go with its header ({error}); make it again"
        ) from error


def _read_dataset(config: DatasetConfig, draws: int, arrays: Arrays) -> Dataset:
    """Read the arrays of a file, `[...]` each.

    Raises:
        DataFileError: one has another type, shape or range than the config says, or a program or a
            start is impossible.
    """
    check_arrays(arrays, _schemas_of(config))
    shape = (config.programs, config.demonstrations)
    length = arrays["demonstration_length"].astype(np.int32)
    ids = _unravel(arrays["tokens"], arrays["program_length"], config.max_tokens, 255)
    ids[ids == 255] = find_vocabulary(config.vocabulary).pad
    actions = _unravel(arrays["actions"], length.ravel(), config.most_states - 1, 0)
    cells, pose = _unpack(arrays["start"])
    found = np.full(shape[0], shape[1], np.int32)
    shown = Demonstrations(cells, pose, actions.reshape(*shape, -1), length, found)
    dataset = Dataset(config, draws, ids, shown)
    is_inside_wall = np.take_along_axis(cells, pose[..., None] >> 2, axis=2) & WALL
    if not dataset.code.valid.all() or is_inside_wall.any() or draws < len(ids):
        raise DataFileError("a program or a start is impossible")
    return dataset


def _schemas_of(config: DatasetConfig) -> dict[str, Array]:
    """Return what the arrays of a dataset's file must be."""
    programs, shown = config.programs, config.demonstrations
    return {
        "program_length": Array("uint8", (programs,), 1, config.max_tokens),
        "tokens": Array("uint8", (None,), 0, len(find_vocabulary(config.vocabulary).tokens) - 1),
        "start": Array("uint8", (programs, shown, _START_BYTES)),
        "demonstration_length": Array("uint8", (programs, shown), 0, config.most_states - 1),
        "actions": Array("uint8", (None,), 0, max(Action)),
    }


def _pack(shown: Demonstrations) -> NDArray[np.uint8]:
    """Pack start states into 11 bytes each: walls, markers and agent of the inner 6x6 cells.

    Returns:
        `[N, D, 11]` uint8.
    """
    grids = shown.cells.reshape(*shown.pose.shape, SIZE, SIZE)[..., 1:-1, 1:-1]
    flat = grids.reshape(*shown.pose.shape, _INNER * _INNER)
    cell, facing = shown.pose >> 2, shown.pose & 3
    place = (cell // SIZE - 1) * _INNER + cell % SIZE - 1
    return np.concatenate(
        [
            np.packbits(flat & WALL > 0, axis=-1),
            np.packbits(flat & COUNT > 0, axis=-1),
            (place * 4 + facing).astype(np.uint8)[..., None],
        ],
        axis=-1,
    )


def _unpack(starts: NDArray[np.uint8]) -> tuple[NDArray[np.uint8], NDArray[np.int32]]:
    """Unpack `starts` `[N, D, 11]` uint8: cells `[N, D, 64]` uint8 and poses `[N, D]` int32."""
    count = _INNER * _INNER
    width = (count + 7) // 8
    walls = np.unpackbits(starts[..., :width], axis=-1, count=count)
    markers = np.unpackbits(starts[..., width : 2 * width], axis=-1, count=count)
    place, facing = (starts[..., -1] >> 2).astype(np.int32), starts[..., -1] & 3
    if place.max(initial=0) >= count:
        raise DataFileError("a start is outside its world")
    inner = np.where(walls == 1, _WALL_CELL, np.where(markers == 1, 1, ZERO)).astype(np.uint8)
    cells = np.full((*starts.shape[:-1], SIZE, SIZE), _WALL_CELL, np.uint8)
    cells[..., 1:-1, 1:-1] = inner.reshape(*starts.shape[:-1], _INNER, _INNER)
    pose = ((place // _INNER + 1) * SIZE + place % _INNER + 1) * 4 + facing
    return cells.reshape(*starts.shape[:-1], SIZE * SIZE), pose.astype(np.int32)


def _unravel(
    flat: NDArray[np.uint8], lengths: NDArray[np.integer], width: int, filling: int
) -> NDArray[np.uint8]:
    """Turn rows of different lengths, one behind the other, into a padded array.

    Args:
        flat: `[sum of lengths]` uint8, the rows.
        lengths: `[N]` integers, the rows' lengths.
        width: columns of the result.
        filling: what stands behind a row's end.

    Returns:
        `[N, width]` uint8.

    Raises:
        DataFileError: the rows have other lengths in all.
    """
    if len(flat) != int(lengths.sum(dtype=np.int64)):
        raise DataFileError(f"its rows have {lengths.sum(dtype=np.int64)} items, got {len(flat)}")
    rows = np.full((len(lengths), width), filling, np.uint8)
    is_used = np.arange(width) < lengths[:, None]
    rows[is_used] = flat
    return rows
