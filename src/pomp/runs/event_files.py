"""The metrics of a run of any kind as event files, which TensorBoard shows.

They are made from `metrics.jsonl` and lie beside it, so that they say the same after a resume, too:
`tensorboard --logdir DIR` names a run's curves `TASK/seedN`, those of stage 2 `search/TASK/seedN`.
"""

from collections.abc import Iterator
from io import BytesIO
from pathlib import Path
from typing import Any

from pomp.core.errors import OutputError
from pomp.core.extras import TENSORBOARD, require
from pomp.runs.kept import KeptRun, read_metrics, read_run, read_search
from pomp.runs.survey import read_best

EVENTS_FILE = "events.out.tfevents.0.pomp"
_VERSION = "brain.Event:2"  # of the file's format

Scalars = list[tuple[int, dict[str, float]]]
"""Steps, each with the numbers that are known of it, by name."""


def write_events(folder: Path) -> None:
    """Write the metrics of a run as event files, as far as the run is.

    A file that is there grows if it holds the beginning of what is to be written, so that it can be
    watched; else, as after a resume from an earlier checkpoint, it is written anew. Events have no
    time of day: the same run gives the same bytes.

    Args:
        folder: of the run.

    Raises:
        MissingExtraError: the package tensorboard is not installed.
        DataFileError: the folder holds no run.
        OutputError: a file cannot be written.
    """
    require(TENSORBOARD, "what is written for TensorBoard")
    for place, scalars in _scalars_of(read_run(folder)):
        if scalars:
            _write(place / EVENTS_FILE, _encode(scalars))


def _scalars_of(run: KeptRun) -> Iterator[tuple[Path, Scalars]]:
    """Yield the folders of a run that have metrics, with their numbers."""
    if run.kind == "embedding":
        yield run.path, [(one["epoch"], _flat(one)) for one in read_metrics(run.path, "epoch")]
    if run.kind == "train" and (search := read_search(run)):
        yield from _scalars_of(search)
    for task, seed in run.places:
        place = run.place(task, seed)
        if run.kind == "search":
            best = read_best(place)
            yield place, [(at, {"best_return": value}) for at, value in best]
        elif run.kind == "evolve":
            rounds = read_metrics(place, "evaluated")
            yield place, [(one["evaluated"], _flat(one)) for one in rounds]
        else:
            yield place, _of_members(read_metrics(place))


def _of_members(records: list[dict[str, Any]]) -> Scalars:
    """Return the numbers of a training, named after its members if there are several.

    What a learning method of somebody's own noted may lack steps: then its records are counted.
    """
    names = [
        f"modes{one.get('modes')} rate{one.get('learning_rate')}"
        + (f" attempt{one['attempt']}/" if "attempt" in one else "/")
        for one in records
    ]
    has_several = len(set(names)) > 1
    return [
        (int(one.get("steps", number)), _flat(one, name if has_several else ""))
        for number, (name, one) in enumerate(zip(names, records, strict=True))
    ]


def _flat(record: dict[str, Any], prefix: str = "") -> dict[str, float]:
    """Return the numbers in a record; those in a record inside it are named `outer/inner`."""
    numbers: dict[str, float] = {}
    for name, value in record.items():
        if isinstance(value, dict):
            numbers |= _flat(value, f"{prefix}{name}/")
        elif isinstance(value, int | float):
            numbers[f"{prefix}{name}"] = float(value)
    return numbers


def _encode(scalars: Scalars) -> bytes:
    """Return the content of an event file."""
    from tensorboard.compat.proto.event_pb2 import Event
    from tensorboard.compat.proto.summary_pb2 import Summary
    from tensorboard.summary.writer.record_writer import RecordWriter

    content = BytesIO()
    writer = RecordWriter(content)
    writer.write(Event(file_version=_VERSION).SerializeToString())
    for step, numbers in scalars:
        values = [Summary.Value(tag=tag, simple_value=value) for tag, value in numbers.items()]
        event = Event(step=int(step), summary=Summary(value=values))
        writer.write(event.SerializeToString())
    return content.getvalue()


def _write(path: Path, content: bytes) -> None:
    """Bring a file to a content, in place, since TensorBoard keeps it open."""
    try:
        before = path.read_bytes() if path.is_file() else b""
        has_grown = before and content.startswith(before)
        with path.open("ab" if has_grown else "wb") as file:
            file.write(content[len(before) :] if has_grown else content)
    except OSError as error:
        raise OutputError(f"cannot write '{path}': {error.strerror}") from error
