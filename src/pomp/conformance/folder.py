"""A folder of golden files: find them, read them, replay each."""

import zipfile
from collections.abc import Callable
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np

from pomp.conformance.executions import check_executions
from pomp.conformance.language import check_language, check_programs
from pomp.conformance.recall import SETTINGS, visible_bits
from pomp.conformance.recording import Arrays, Recording
from pomp.conformance.report import FileReport
from pomp.conformance.starts import check_initial_states, check_starts
from pomp.conformance.transitions import check_transitions
from pomp.core.errors import DataFileError, GoldenError
from pomp.core.schemas import FREE, Named
from pomp.core.storage import read_bytes, read_json

_BADLY_WRITTEN = (KeyError, ValueError, IndexError, TypeError, AttributeError, EOFError, OSError)


def check_folder(
    folder: Path, progress: Callable[[str], None] = lambda name: None
) -> list[FileReport]:
    """Replay every golden file of a folder; any subset of the known files will do.

    Args:
        folder: holds `<task>.npz`, `initial_states.npz`, `dsl.json`, `programs.json`.
        progress: called with each file's name before it is replayed.

    Raises:
        GoldenError: no folder, nothing in it, an unknown file, or one that cannot be read.
    """
    if not folder.is_dir():
        raise GoldenError(f"no folder '{folder}'; expected one with golden files (*.npz, *.json)")
    files = sorted(path for path in folder.iterdir() if path.suffix != ".md")
    if not files:
        raise GoldenError(f"no golden files in '{folder}'; expected *.npz and *.json files")
    known = {f"{name}.npz" for name in SETTINGS}
    known |= {"initial_states.npz", "dsl.json", "programs.json"}
    for path in files:
        if path.name not in known:
            expected = "the golden files' names are in tests/golden/README.md"
            raise GoldenError(f"unknown file '{path.name}' in '{folder}'; {expected}")
    programs = _load_json(folder / "programs.json") if folder / "programs.json" in files else None
    reports = []
    for path in files:
        progress(path.name)
        try:
            reports.append(_check_file(path, programs))
        except _BADLY_WRITTEN as error:
            if isinstance(error, GoldenError):
                raise
            raise GoldenError(f"'{path}' is incomplete or damaged: {error!r}") from error
    return reports


def _check_file(path: Path, programs: dict[str, Any] | None) -> FileReport:
    report = FileReport(path.name)
    if path.name == "dsl.json":
        check_language(_load_json(path), report)
    elif path.name == "programs.json":
        assert programs is not None
        check_programs(programs, report)
    elif path.name == "initial_states.npz":
        check_initial_states(_load_npz(path), report)
    else:
        arrays = _load_npz(path)
        setting = SETTINGS[path.stem]()
        recording = Recording(setting, arrays)
        check_starts(setting, recording.starts, report, visible_bits(setting))
        check_transitions(recording, report)
        if programs is None:
            report.note = "executions not replayed: programs.json is not in the folder"
        else:
            texts = [entry["text"] for entry in programs["tasks"][path.stem]]
            check_executions(recording, texts, report)
    return report


def _load_npz(path: Path) -> Arrays:
    try:
        content = BytesIO(read_bytes(path, "golden file"))
        with np.load(content, allow_pickle=False) as file:
            return {name: file[name] for name in file.files}
    except (*_BADLY_WRITTEN, zipfile.BadZipFile) as error:
        raise GoldenError(f"'{path}' is no readable npz file ({error})") from error


def _load_json(path: Path) -> dict[str, Any]:
    try:
        return dict(read_json(path, "golden file", Named(FREE)))
    except DataFileError as error:
        raise GoldenError(f"'{path}' is no readable JSON file ({error})") from error
