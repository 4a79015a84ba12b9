"""What a run of any kind has come to: its results beside the paper's, and what is not finished."""

from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any

from pomp.core.errors import ConfigError, DataFileError, PompError
from pomp.core.schemas import Record
from pomp.runs.folder import STATE_FILE, TASK, RunFolder
from pomp.runs.kept import MODES_FILE, KeptRun, read_metrics, read_run, read_search
from pomp.runs.published import TEXT
from pomp.runs.results import EVALUATION_FILE, SUMMARY_FILE, LearnedMachine, read_learned, sum_up
from pomp.tasks.catalog import find_task

EVALUATION_STARTS = 32


def report(
    folders: Sequence[Path], starts: int | None = None, allow: Collection[str] = ()
) -> dict[str, Any]:
    """Say what runs of one kind have found, as far as they are.

    The programs of searches are evaluated here; machines and embeddings were evaluated when they
    were found.

    Args:
        folders: of the runs; of an embedding, one.
        starts: evaluation starts of searches; None: 32, as in the paper.
        allow: modules that the folders may name as the homes of their tasks.

    Returns:
        `kind`, `finished`, `unfinished` (a task, a seed and how far it is, for each that is not
        finished), and what was found: by `tasks` with the `method`, or the epochs of an embedding.

    Raises:
        DataFileError: a folder holds no run, or one whose files are damaged.
        UntrustedModuleError: a task is in a module that is not allowed.
        ConfigError: the runs are of different kinds or methods, or share a task with a seed.
    """
    runs = [read_run(folder) for folder in folders]
    kind = _check_alike(runs)
    if starts is not None and kind != "search":
        raise ConfigError(f"only searches are evaluated on --starts; a run of {kind} was evaluated")
    try:
        if kind == "embedding":
            return _report_embedding(runs[0])
        if kind == "search":
            from pomp.runs.searched import report_searches

            found = report_searches(runs, starts or EVALUATION_STARTS, allow)
        else:
            learned = [one for run in runs for one in _learned_by(run, allow)]
            method = _method_of(runs)
            found = {"method": method, **sum_up(learned, method)}
        left = [told for run in runs for told in _unfinished(run)]
    except (KeyError, ValueError, TypeError, AttributeError, OverflowError) as error:
        if isinstance(error, PompError):
            raise
        names = ", ".join(f"'{folder}'" for folder in folders)
        raise DataFileError(f"the files in {names} are damaged, or of another version") from error
    has_ended = all(is_finished(run) for run in runs)
    return {"kind": kind, "finished": has_ended, **found, "unfinished": left}


def _method_of(runs: Sequence[KeptRun]) -> str:
    """Return the method of trainings or evolutions.

    Raises:
        ConfigError: they have several.
    """
    methods = sorted({str(run.config.get("method", TEXT)) for run in runs})
    if len(methods) > 1:
        raise ConfigError(f"trainings of one method are reported at a time, got {methods}")
    return methods[0]


def _check_alike(runs: Sequence[KeptRun]) -> str:
    """Return the kind of all runs, or refuse runs that cannot be reported together."""
    kinds = sorted({run.kind for run in runs})
    if len(kinds) != 1 or (kinds == ["embedding"] and len(runs) > 1):
        raise ConfigError(
            f"runs of one kind, or one embedding, are reported at a time, got {kinds}"
        )
    places = [place for run in runs for place in run.places]
    if twice := [place for place in places if places.count(place) > 1]:
        raise ConfigError(f"{twice[0][0]}, seed {twice[0][1]}, is in two of the runs")
    return kinds[0]


def is_finished(run: KeptRun) -> bool:
    """Whether a run has come to its end."""
    if run.kind == "embedding":
        from pomp.runs.embeddings import read_card

        return read_card(run.path) is not None
    if run.kind == "search":
        ended = all((run.place(*place) / MODES_FILE).is_file() for place in run.places)
        return ended and not (run.path / STATE_FILE).is_file()
    return (run.path / SUMMARY_FILE).is_file()


def _learned_by(run: KeptRun, allow: Collection[str]) -> list[LearnedMachine]:
    """Read the machines that an evolution or a training has learned so far."""
    learned = []
    for task, seed in run.places:
        if (run.place(task, seed) / EVALUATION_FILE).is_file():
            about = run.config["tasks"][task]
            Record(TASK.fields, is_open=True).check(about, f"tasks.{task}")
            setting = find_task(about["task"], allow).configure(about["variant"], about["options"])
            learned.append(read_learned(setting, seed, RunFolder(run.place(task, seed))))
    return learned


def _unfinished(run: KeptRun) -> list[dict[str, Any]]:
    """Say of each task and seed that is not finished how far it is."""
    done = MODES_FILE if run.kind == "search" else EVALUATION_FILE
    return [
        {"task": task, "seed": seed, "so_far": _so_far(run, task, seed)}
        for task, seed in run.places
        if not (run.place(task, seed) / done).is_file()
    ]


def _so_far(run: KeptRun, task: str, seed: int) -> str:
    """Say how far a task and a seed are."""
    place = run.place(task, seed)
    if run.kind == "search":
        runs = read_metrics(place, "return")
        best = max((one["return"] for one in runs), default=0.0)
        return (
            f"{len(runs)} runs have ended, best return {best:.3f}" if runs else "no run has ended"
        )
    if run.kind == "evolve":
        rounds = read_metrics(place, "round", "score")
        if not rounds:
            return "no round has ended"
        return f"round {rounds[-1]['round']}, best score {rounds[-1]['score']:.3f}"
    records = read_metrics(place)
    if records and "best" in records[-1]:
        best = max(record["best"] or 0.0 for record in records)
        steps = max(record["steps"] for record in records)
        return f"stage 3, {steps:,} macro steps, best validation return {best:.3f}"
    if records:  # by a learning method of somebody's own, which notes what it likes
        return f"stage 3, {len(records)} records of its metrics"
    return _so_far_in_search(run, task, seed)


def _so_far_in_search(run: KeptRun, task: str, seed: int) -> str:
    """Say how far stage 2 of a training is for a task and a seed."""
    stage = read_search(run)
    if stage is None:
        return "not begun"
    place = stage.place(task, seed)
    if (place / MODES_FILE).is_file() or (place / EVALUATION_FILE).is_file():
        return "stage 2 is finished"
    return f"stage 2, {_so_far(stage, task, seed)}"


def _report_embedding(run: KeptRun) -> dict[str, Any]:
    """Say how far the training of an embedding is, and how good its weights are."""
    from pomp.runs.embeddings import read_card, read_epochs

    epochs, card = read_epochs(run.path), read_card(run.path)
    best = min(epochs, key=lambda one: float(one["validation"]["total"]), default=None)
    return {
        "kind": run.kind,
        "finished": card is not None,
        "unfinished": [],
        "epochs": len(epochs),
        "planned": int(run.config["training"]["epochs"]),
        "best": best,
        "test": card["test"] if card else None,
    }
