"""What a request may ask for at most."""

from dataclasses import dataclass


@dataclass(frozen=True)
class StudioLimits:
    """Bounds on requests.

    Attributes:
        body: bytes of a request.
        text: characters of a program or a machine.
        side: rows and columns of a grid.
        cells: cells of a grid.
        nested: loops of a program within one another: every moment counts the rounds of each.
        at_once: recordings that are made side by side.
        waiting: recordings that may wait beside them.
        seconds: how long a recording may take.
        pictures: frames of an animation.
        runs: run folders that are listed.
    """

    body: int = 1 << 20
    text: int = 1 << 16
    side: int = 128
    cells: int = 4096
    nested: int = 64
    at_once: int = 2
    waiting: int = 6
    seconds: float = 120.0
    pictures: int = 400
    runs: int = 500


LIMITS = StudioLimits()
