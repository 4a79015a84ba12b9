"""`pomp report`."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from tyro.conf import Positional, arg

from pomp.cli.inputs import Allowed, check_output
from pomp.cli.output import say
from pomp.cli.store_report import is_store, report_store
from pomp.core.errors import ConfigError


@dataclass(frozen=True, kw_only=True)
class Report:
    """Say what runs of any kind have found, beside the paper; or report on a store of results."""

    folders: Annotated[Positional[tuple[str, ...]], arg(metavar="DIR...")]
    """The folders of runs of one kind: search or train (of one method), evolve or embedding,
    finished or not. Or one store: what `pomp reproduce` wrote, or a packed file (.jsonl.gz)."""
    starts: int | None = None
    """Evaluation starts of what searches found; without it 32, as in the paper."""
    out: str | None = None
    """Of runs: write the JSON document to this file, too. Of a store: write report.md, report.html
    and their pictures into this folder; without it, print report.md."""
    parts: Annotated[tuple[str, ...], arg(metavar="PART...")] = ()
    """Of a store that holds results of several presets or budgets: which, as in paper-0.001."""
    allow: Allowed = ()
    """A module that the file may name as the home of its task, and that is run then."""
    json: bool = False
    """Print one JSON document."""

    def run(self) -> int:
        """Print the table."""
        if len(self.folders) == 1 and is_store(self.folders[0]):
            return self._report_store()
        if self.parts:
            raise ConfigError("--parts goes with a store of results")
        if self.starts is not None and not 1 <= self.starts <= 100_000:
            raise ConfigError(f"--starts must be from 1 to 100,000, got {self.starts}")
        path = check_output(self.out) if self.out else None
        from pomp.runs.reports import report

        if not self.folders:
            raise ConfigError("name the folder of a run")
        found = report([Path(folder) for folder in self.folders], self.starts, self.allow)
        if path:
            from pomp.core.storage import write_text

            write_text(path, json.dumps(found, indent=1) + "\n")
        say(json.dumps(found) if self.json else "\n".join(_lines(found)))
        return 0

    def _report_store(self) -> int:
        """Report on a store of results."""
        if self.starts is not None or self.allow:
            raise ConfigError("--starts and --allow go with folders of runs, not with a store")
        report_store(self.folders[0], self.parts, self.out, as_json=self.json)
        return 0


def _lines(found: dict[str, Any]) -> list[str]:
    """Return a report as lines."""
    tables = {"search": _search_lines, "embedding": _embedding_lines}
    lines = tables.get(found["kind"], _machine_lines)(found)
    if found["finished"]:
        return lines
    left = [f"  {one['task']}, seed {one['seed']}: {one['so_far']}" for one in found["unfinished"]]
    return [*lines, "not finished; go on with --resume", *left]


def _search_lines(found: dict[str, Any]) -> list[str]:
    head = f"{'task':<14} {'seeds':>5} {'return':>13} {'best of runs':>13} {'published':>13}"
    rows = [
        f"{task:<14} {len(row['jobs']):>5} {_shown(row, len(row['jobs'])):>13} "
        f"{_shown(row['best_of_runs'], len(row['jobs'])):>13} "
        f"{_shown(row['published']):>13}"
        for task, row in found["tasks"].items()
    ]
    title = f"{found['method'] or found['kind']}, {found['starts']} evaluation starts"
    return [title + _whose(found), head, *rows] if rows else []


def _machine_lines(found: dict[str, Any]) -> list[str]:
    head = f"{'task':<14} {'seeds':>5} {'return':>13} {'ceiling':>8} {'published':>13}"
    rows = [
        f"{task:<14} {row['seeds']:>5} {_shown(row, row['seeds']):>13} {_ceiling(row):>8} "
        f"{_shown(row['published']):>13}"
        for task, row in found["tasks"].items()
    ]
    title = f"{found['kind']}, method {found['method']}" if found["kind"] == "train" else "evolve"
    return [title + _whose(found), head, *rows] if rows else []


def _whose(found: dict[str, Any]) -> str:
    """Say whose numbers the published ones are."""
    published = [row["published"] for row in found["tasks"].values() if row["published"]]
    return f"; published: the paper's {published[0]['method']}" if published else ""


def _embedding_lines(found: dict[str, Any]) -> list[str]:
    lines, best = [f"embedding, {found['epochs']} of {found['planned']} epochs"], found["best"]
    if best:
        loss, right = best["validation"]["total"], best["greedy_program_accuracy"]
        lines.append(f"best epoch {best['epoch'] + 1}: loss {loss:.4f}, programs right {right:.1%}")
    for name, value in (found["test"] or {}).items():
        lines.append(f"test {name:<22} {value:.4f}")
    return lines


def _shown(numbers: dict[str, float] | None, seeds: int = 0) -> str:
    """Return a mean with its standard deviation over seeds; one seed has none."""
    if numbers is None:
        return "-"
    spread = "" if seeds == 1 else f" ± {numbers['std']:.2f}"
    return f"{numbers['mean']:z.3f}{spread}"


def _ceiling(row: dict[str, Any]) -> str:
    return "-" if row["ceiling"] is None else f"{row['ceiling']:.3f}"
