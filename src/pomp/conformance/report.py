"""What came of replaying one file."""

from collections.abc import Iterable
from dataclasses import dataclass, field


@dataclass
class FileReport:
    """What came of one file.

    Attributes:
        name: of the file.
        checked: how many things were checked, by what they are.
        mismatches: how many of them differ.
        first_mismatch: the first one, in words.
        note: what was not checked, and why.
    """

    name: str
    checked: dict[str, int] = field(default_factory=dict)
    mismatches: int = 0
    first_mismatch: str = ""
    note: str = ""

    def add(self, what: str, checked: int, wrong: Iterable[tuple[int, str]] = ()) -> None:
        """Count checks, and the mismatches among them as (order, description)."""
        self.checked[what] = self.checked.get(what, 0) + checked
        for order, text in sorted(wrong):
            self.mismatches += 1
            self.first_mismatch = self.first_mismatch or f"{what} {order}: {text}"
