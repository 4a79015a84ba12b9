"""`pomp report`."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from tyro.conf import Positional, arg

from pomp.cli.inputs import Allowed, check_output
from pomp.core.errors import ConfigError


@dataclass(frozen=True, kw_only=True)
class Report:
    """Evaluate what a finished search has found, on starts it has not seen, beside the paper."""

    folders: Annotated[Positional[tuple[str, ...]], arg(metavar="DIR...")]
    """The folders of searches with one method."""
    starts: int | None = None
    """Evaluation starts; without it 32, as in the paper."""
    out: str | None = None
    """Write the JSON document to this file, too."""
    allow: Allowed = ()
    """A module that the file may name as the home of its task, and that is run then."""
    json: bool = False
    """Print one JSON document."""

    def run(self) -> int:
        """Print the table."""
        if self.starts is not None and not 1 <= self.starts <= 100_000:
            raise ConfigError(f"--starts must be from 1 to 100,000, got {self.starts}")
        path = check_output(self.out) if self.out else None
        from pomp.runs.reports import EVALUATION_STARTS, report

        if not self.folders:
            raise ConfigError("name the folder of a search")
        folders = [Path(folder) for folder in self.folders]
        found = report(folders, self.starts or EVALUATION_STARTS, self.allow)
        if path:
            from pomp.core.storage import write_text

            write_text(path, json.dumps(found, indent=1) + "\n")
        if self.json:
            print(json.dumps(found))
        else:
            _print(found)
        return 0


def _print(found: dict[str, Any]) -> None:
    head = f"{'task':<14} {'seeds':>5} {'return':>13} {'best of runs':>13} {'published':>13}"
    print(f"{found['method']}, {found['starts']} evaluation starts\n{head}")
    for task, row in found["tasks"].items():
        print(
            f"{task:<14} {len(row['jobs']):>5} {_shown(row):>13} {_shown(row['best_of_runs']):>13} "
            f"{_shown(row['published']):>13}"
        )


def _shown(numbers: dict[str, float] | None) -> str:
    return f"{numbers['mean']:.3f} ± {numbers['std']:.2f}" if numbers else "-"
