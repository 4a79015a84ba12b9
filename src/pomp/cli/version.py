"""`pomp version`."""

import json
from dataclasses import dataclass

from pomp.cli.output import say


@dataclass(frozen=True, kw_only=True)
class Version:
    """Print the versions of pomp and of what it stands on: for a report of a bug."""

    json: bool = False
    """Print one JSON document."""

    def run(self) -> int:
        """Print a line for each."""
        from pomp.core.hardware import describe_installation

        found = describe_installation()
        if self.json:
            say(json.dumps(found))
        else:
            say("\n".join(f"{name:<11} {value}" for name, value in found.items()))
        return 0
