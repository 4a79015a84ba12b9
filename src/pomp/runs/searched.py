"""What searches found, in numbers: what their programs return on starts they have never seen."""

from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from pomp.core.errors import ConfigError, DataFileError, PompError
from pomp.core.schemas import COUNT, TEXT, Listed, Named, Record
from pomp.core.storage import read_json
from pomp.core.streams import Purpose
from pomp.dsl.bytecode import compile_programs, is_program
from pomp.engine.rollout_cuda import LaunchPad
from pomp.engine.rollouts import run_launches
from pomp.engine.starts import draw_starts
from pomp.engine.units import Launch, Units
from pomp.modes.jobs import RunRecord
from pomp.modes.methods import SEVERAL
from pomp.runs.folder import TASK, read_config
from pomp.runs.kept import MODES_FILE, KeptRun
from pomp.runs.published import published
from pomp.runs.searches import read_modes, read_records
from pomp.tasks.catalog import find_task, is_shipped
from pomp.tasks.task import Setting

_JOB = Record(
    {"seed": COUNT, "modes": Listed(Record({"program": TEXT}, is_open=True))}, is_open=True
)
_ROW = Record({"jobs": Listed(_JOB)}, is_open=True)
_RESULTS = Record({"tasks": Named(_ROW)}, is_open=True)
"""What `report_searches` returns, as a file: the parts that are read."""


def report_searches(
    runs: Sequence[KeptRun], starts: int, allow: Collection[str] = ()
) -> dict[str, Any]:
    """Evaluate what the jobs of searches with one method have found so far.

    A job's `return` is that of its first mode, chosen on search states; `best_of_runs` is the
    largest among all its runs, chosen by looking, which is the paper's way. Programs are executed
    as a search without lists does it. Jobs that are not finished are left out.

    Args:
        runs: the searches.
        starts: evaluation starts.
        allow: modules that the folders may name as the homes of their tasks.

    Raises:
        DataFileError: a file is damaged.
        UntrustedModuleError: a task is in a module that is not allowed.
        ConfigError: the methods differ.
    """
    places = [run.place(*place) for run in runs for place in run.places]
    ended = [place for place in places if (place / MODES_FILE).is_file()]
    found = [_evaluate(place, starts, allow) for place in ended]
    methods = {job.pop("method") for job in found}
    if len(methods) > 1:
        raise ConfigError(f"searches of one method are reported at a time, got {sorted(methods)}")
    method = methods.pop() if methods else ""
    tasks: dict[str, list[dict[str, Any]]] = {}
    for job in sorted(found, key=lambda job: int(job["seed"])):
        tasks.setdefault(job.pop("task"), []).append(job)
    return {
        "method": method,
        "starts": starts,
        "tasks": {
            task: {
                **_summary([job["return"] for job in jobs]),
                "best_of_runs": _summary([job["best_of_runs"] for job in jobs]),
                "published": _published(method, task, jobs),
                "jobs": jobs,
            }
            for task, jobs in sorted(tasks.items())
        },
    }


def _published(method: str, task: str, jobs: list[dict[str, Any]]) -> dict[str, float] | None:
    """Return the paper's numbers, for a method that finds one program and a task of the paper."""
    is_shipped = all(job.pop("is_shipped") for job in jobs)
    return published(method, task) if is_shipped and method not in SEVERAL else None


def _summary(values: list[float]) -> dict[str, float]:
    return {"mean": float(np.mean(values)), "std": float(np.std(values))}


def _evaluate(folder: Path, starts: int, allow: Collection[str]) -> dict[str, Any]:
    config, found, records = read_config(folder), read_modes(folder), read_records(folder)
    try:
        Record(TASK.fields, is_open=True).check(config)
        setting = find_task(config["task"], allow).configure(config["variant"], config["options"])
        return _evaluate_job(setting, config["score"], found, records, starts)
    except (KeyError, ValueError, TypeError, OverflowError) as error:
        if isinstance(error, PompError):
            raise
        raise DataFileError(
            f"the files in '{folder}' are damaged, or of another version"
        ) from error


def _evaluate_job(
    setting: Setting, score: dict[str, Any], found: dict[str, Any], records: list[RunRecord],
    starts: int,
) -> dict[str, Any]:  # fmt: skip
    texts = [mode["program"] for mode in found["modes"]]
    returns = evaluate_programs(
        setting, [*texts, *(record.program for record in records)], score, starts
    )
    modes = [
        {"program": mode["program"], "score": mode["score"], "return": value}
        for mode, value in zip(found["modes"], returns, strict=False)
    ]
    totals = ("iterations", "candidates", "executions", "actions")
    return {
        "task": found["task"],
        "method": found["method"],
        "seed": found["seed"],
        "is_shipped": is_shipped(setting.task),
        "return": returns[0],
        "best_of_runs": max(returns[len(texts) :]),
        "search_return": found["modes"][0]["return"],
        "runs": len(records),
        **{name: sum(getattr(record, name) for record in records) for name in totals},
        "modes": modes,
    }


def evaluate_programs(
    setting: Setting, texts: list[str], score: dict[str, Any], starts: int
) -> list[float]:
    """Mean returns of programs on evaluation starts; what does not parse returns 0.

    Args:
        setting: the task.
        texts: the programs.
        score: cap, rounds and patience, as in a search's config.
        starts: how many.
    """
    worlds = draw_starts(setting, starts, 0, Purpose.EVALUATION)
    valid = [text for text in dict.fromkeys(texts) if is_program(text)]
    if not valid:
        return [0.0] * len(texts)
    patience = score["patience"] if score["rounds"] > 1 else 0
    units = Units.alone(len(valid), starts, rounds=score["rounds"], patience=patience)
    launch = Launch(setting, compile_programs(valid), units, worlds, score["cap"])
    [(returns, _)] = run_launches([launch], LaunchPad())
    means = dict(zip(valid, returns.mean(axis=1).tolist(), strict=True))
    return [means.get(text, 0.0) for text in texts]


def modes_of_results(path: Path) -> dict[tuple[str, int], tuple[str, ...]] | None:
    """The modes in a file of results, by task and seed; None if it is no such file."""
    try:
        tasks = read_json(path, "report on searches", _RESULTS)["tasks"]
    except DataFileError:
        return None
    return {
        (task, job["seed"]): tuple(mode["program"] for mode in job["modes"])
        for task, row in tasks.items()
        for job in row["jobs"]
    }
