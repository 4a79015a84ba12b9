"""What the checkpoint of a search for machines may hold, checked before anything is compiled."""

from collections.abc import Mapping, Sequence
from dataclasses import fields
from typing import Any

from numpy.typing import NDArray

from pomp.core.configs import MOST
from pomp.core.errors import DataFileError
from pomp.core.schemas import SCORE, Array, Flag, Listed, Number, Record, Row, Schema, Whole
from pomp.dsl.bytecode import compile_ids
from pomp.dsl.vocabulary import LEAPS
from pomp.evolution.config import EvolveConfig
from pomp.evolution.genome import RULES, Machines, has_forbidden, most_modes, sensors_of
from pomp.evolution.population import KEPT, Population
from pomp.evolution.rounds import Round

_TOTAL = Whole(0, 1 << 62)
_FACTOR = Number(1e-3, 100.0)
_FACTORS = ("temperature_factor", "length_factor", "action_factor", "strictness")


def values_schema(names: tuple[str, ...], kept: int, first_starts: int, most_starts: int) -> Record:
    """Return what the values of a checkpoint may be.

    Args:
        names: of the counters.
        kept: machines of a population at most.
        first_starts: worlds on which machines are played at first.
        most_starts: and at most.
    """
    counts: dict[str, Schema] = dict.fromkeys(names, _TOTAL)
    starts = Whole(first_starts, most_starts)
    counts |= dict.fromkeys(("round", "epoch", "improved"), Whole(0, MOST)) | {"starts": starts}
    pending = Record(
        {
            **{"number": Whole(0, MOST), "population": Whole(0, MOST), "starts": starts},
            **dict.fromkeys(_FACTORS, _FACTOR),
            "is_mirrored": Flag(),
        }
    )
    population = Row((Whole(0, MOST), Listed(SCORE, most=kept)))
    lists = {"scores": Listed(population, 2, 100), "pending": Listed(pending, most=1000)}
    return Record({**counts, **lists}, is_open=True)


def machines_of(
    arrays: Mapping[str, NDArray[Any]], prefix: str, config: EvolveConfig, count: int
) -> Machines:
    """Return machines from a checkpoint.

    Args:
        arrays: those of `Machines` by name, `[C, ...]`, and perhaps others.
        prefix: what stands before the names.
        config: of the search.
        count: how many machines there must be, C.

    Raises:
        DataFileError: an array is missing, or no machine of this search.
    """
    names = [prefix + entry.name for entry in fields(Machines)]
    if missing := [name for name in names if name not in arrays]:
        raise DataFileError(f"the array {missing[0]} is missing")
    machines = Machines(*(arrays[name] for name in names))
    for name, schema in _schemas_of(machines, config, count).items():
        schema.check(getattr(machines, name), f"the array {prefix}{name}")
    has_no_condition = (machines.targets >= 0) & (machines.literals[..., 0] < 0)
    if has_no_condition.any():
        raise DataFileError(f"{prefix}literals: a rule has no condition")
    if not compile_ids(machines.programs.reshape(-1, config.tokens), LEAPS).valid.all():
        raise DataFileError(f"{prefix}programs: token ids that are no program")
    if has_forbidden(machines.programs, config):
        raise DataFileError(f"{prefix}programs: an action that the search does without")
    return machines


def check_progress(
    hall: Population, populations: Sequence[Population], pending: Sequence[Round],
    values: Mapping[str, Any], has_begun: bool,
) -> None:  # fmt: skip
    """Refuse a checkpoint from which a search could not go on.

    Args:
        hall: the hall of fame.
        populations: those of the epoch.
        pending: rounds that are decided but not finished.
        values: of the checkpoint.
        has_begun: whether all rounds that begin populations are finished.

    Raises:
        DataFileError: says why.
    """
    if not hall.machines or not values["epoch"] <= values["round"] >= values["improved"]:
        raise DataFileError("it has no round that was finished")
    if not all(one.machines for one in populations) or (has_begun and len(populations) < KEPT):
        raise DataFileError("populations are missing")
    numbers = {one.number for one in pending}
    if len(numbers) < len(pending) or any(number < values["epoch"] for number in numbers):
        raise DataFileError("a round comes twice, or is one of an earlier epoch")
    if any(one.is_mirrored and one.machines.modes % 2 for one in pending):
        raise DataFileError("a machine with mirror images has an odd number of modes")


def _schemas_of(machines: Machines, config: EvolveConfig, count: int) -> dict[str, Array]:
    """Return what the arrays of machines must be; they say themselves how many modes there are."""
    modes = machines.defaults.shape[1] if machines.defaults.ndim == 2 else 0
    Whole(1, most_modes(config)).check(modes, "the number of modes")
    literals = 2 * len(sensors_of(config).rows)
    return {
        "programs": Array("uint8", (count, modes, config.tokens), 0, len(LEAPS.tokens)),
        "literals": Array("int8", (count, modes, RULES, 2), -1, literals - 1),
        "targets": Array("int8", (count, modes, RULES), -1, modes),
        "defaults": Array("int8", (count, modes), 0, modes),
        "start": Array("int8", (count,), 0, modes - 1),
    }
