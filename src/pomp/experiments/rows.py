"""The methods that are compared: each is a row of a table."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from pomp.core.errors import UnknownNameError
from pomp.runs.published import published_rows

RowKind = Literal["program", "modes", "actions", "latents", "random", "rules"]

ENGINE_REVISION = 1
"""Rises when the engine, a task or an evaluation returns something else than before."""


@dataclass(frozen=True, kw_only=True)
class TableRow:
    """A method as a row of a table.

    Attributes:
        name: as `--methods` takes it.
        label: what the row is called in tables.
        kind: program: a search finds one, which is executed once. modes: a search finds several
            programs, between which a network learns to choose. actions: the same without a search,
            with single actions; a network that remembers is quantised afterwards. latents: a
            network learns to write programs itself. random: modes of `modes_of`, chosen at random.
            rules: whole machines with rules are searched.
        paper: what the paper's tables call it, the first of these that a table has; none: the
            paper has no such row.
        revision: rises when the method returns something else than before with the same seed.
        modes_of: the method whose modes are used, for the kind random, or from whose runs modes are
            chosen in another way, for the kind modes.
        same_modes: the method whose modes are used as they are, for the kind modes; none: its own.
        settings: settings that differ from the preset's; of a search for modes or rules.
        learning: the same of what learns transitions.
    """

    name: str
    label: str
    kind: RowKind
    paper: tuple[str, ...] = ()
    revision: int = 1
    modes_of: str = ""
    same_modes: str = ""
    settings: Mapping[str, Any] = field(default_factory=dict)
    learning: Mapping[str, Any] = field(default_factory=dict)

    def published(self, task: str) -> dict[str, float] | None:
        """Return the mean and the standard deviation that the paper has for a task, if it has."""
        rows = published_rows(task)
        return next((rows[name] for name in self.paper if name in rows), None)


_ROWS = (
    TableRow(name="cem", label="CEM", kind="program", paper=("CEM",)),
    TableRow(name="cem-diversity", label="CEM+diversity", kind="program", paper=("CEM+diversity",)),
    TableRow(name="cem-xm", label="CEM x|M|", kind="modes", paper=("CEM x|M|",)),
    TableRow(
        name="cem-diversity-topk",
        label="CEM+diversity top k",
        kind="modes",
        paper=("CEM+diversity top k",),
    ),
    TableRow(
        name="cem-diversity-xm",
        label="CEM+diversity x|M|",
        kind="modes",
        paper=("CEM+diversity x|M|",),
    ),
    TableRow(name="leaps", label="LEAPS", kind="program", paper=("LEAPS",)),
    TableRow(name="hprl", label="HPRL", kind="latents", paper=("HPRL (5)", "HPRL")),
    TableRow(name="drl", label="DRL", kind="actions", paper=("DRL",)),
    TableRow(name="psmp", label="PSMP", kind="actions", paper=("PSMP",)),
    TableRow(name="mmn", label="MMN", kind="actions", paper=("MMN",)),
    TableRow(
        name="random",
        label="Random Transition",
        kind="random",
        paper=("Random Transition",),
        modes_of="pomp",
    ),
    TableRow(name="pomp", label="POMP", kind="modes", paper=("POMP",)),
    TableRow(
        name="pomp-bound",
        label="POMP, modes by bound",
        kind="modes",
        modes_of="pomp",
        settings={"mode.select": "bound"},
    ),
    TableRow(
        name="pomp-taught",
        label="POMP, modes by bound, taught by a planner",
        kind="modes",
        same_modes="pomp-bound",
        learning={"teaching.steps": 4000, "ppo.total": 2_000_000},
    ),
    TableRow(name="hill-climbing", label="hill climbing", kind="program"),
    TableRow(name="cebs", label="CEBS", kind="program"),
    TableRow(name="annealing", label="annealing", kind="program"),
    TableRow(name="perception-ppo", label="PPO on perceptions", kind="actions"),
    TableRow(
        name="text",
        label="rules, perceptions",
        kind="rules",
        revision=5,
        settings={"sensors": "perceptions"},
    ),
    TableRow(
        name="best",
        label="rules, compass",
        kind="rules",
        revision=5,
        settings={"sensors": "compass"},
    ),
)
ROWS = {row.name: row for row in _ROWS}
"""The methods by name, in the order of tables."""


def find_row(name: str) -> TableRow:
    """Find a method by its name.

    Raises:
        UnknownNameError: there is no such row.
    """
    if name not in ROWS:
        raise UnknownNameError("method", name, ROWS)
    return ROWS[name]
