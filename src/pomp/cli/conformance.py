"""`pomp conformance`."""

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated

from tyro.conf import Positional, arg

from pomp.cli.output import say
from pomp.cli.progress import ProgressLine


@dataclass(frozen=True, kw_only=True)
class Conformance:
    """Replay recorded traces of the reference implementations; status 1 on any mismatch."""

    folder: Annotated[Positional[str], arg(metavar="DIR")]
    """The folder of golden files, as in tests/golden; any of them will do."""
    json: bool = False
    """Print one JSON document."""

    def run(self) -> int:
        """Print counts per file and the first mismatch of each."""
        from pomp.conformance.folder import check_folder

        folder = Path(self.folder)
        total = len(list(folder.iterdir())) if folder.is_dir() else 0
        progress = ProgressLine("replaying", total)
        finished = 0

        def show(name: str) -> None:
            nonlocal finished
            progress.step(name, parts=min(finished, 1))
            finished += 1

        try:
            reports = check_folder(folder, show)
        finally:
            progress.close()
        mismatches = sum(report.mismatches for report in reports)
        checked: dict[str, int] = {}
        for report in reports:
            for what, count in report.checked.items():
                checked[what] = checked.get(what, 0) + count
        if self.json:
            files = {report.name: asdict(report) for report in reports}
            say(json.dumps({"files": files, "checked": checked, "mismatches": mismatches}))
        else:
            for report in reports:
                counts = ", ".join(f"{count} {what}" for what, count in report.checked.items())
                say(f"{report.name}: {counts}, {report.mismatches} mismatches")
                for line in filter(None, (report.first_mismatch, report.note)):
                    say(f"  {line}")
            counts = ", ".join(f"{count} {what}" for what, count in checked.items())
            say(f"{len(reports)} files: {counts}, {mismatches} mismatches")
        return 1 if mismatches else 0
