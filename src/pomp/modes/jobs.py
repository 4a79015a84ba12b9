"""A search: one task with one seed, the runs it consists of, and the modes it chooses.

A *search* is one `Job`; a *run* is one of the runs that it consists of, and finds one program.
"""

import zlib
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pomp.core.configs import changed
from pomp.core.errors import ConfigError, DataFileError
from pomp.core.schemas import COUNT, SCORE, TEXT, Listed, Record, Row
from pomp.core.streams import Purpose, branch, open_streams
from pomp.modes.config import ModeConfig, SearchConfig
from pomp.modes.lists import ONE_EXECUTION, draw_lists, least_length
from pomp.modes.methods import find_method, leaps_grid
from pomp.modes.scoring import Arena, diversity
from pomp.tasks.task import Setting

_STARTS, _LISTS, _RUNS, _NOISE = range(4)  # what a job draws
GRID_RUNS = len(leaps_grid())
_COSTS = ("candidates", "executions", "actions")
_LINE = Record(
    {
        **dict.fromkeys(("mode", "run", "iterations", *_COSTS), COUNT),
        **dict.fromkeys(("score", "diversified", "return"), SCORE),
        **{"program": TEXT, "curve": Listed(Row((COUNT, COUNT, SCORE)))},
    }
)
"""A line of `metrics.jsonl`."""


@dataclass(frozen=True, order=True)
class RunKey:
    """Which run of a job: the mode it looks for, and its number among that mode's runs."""

    mode: int
    run: int


@dataclass(frozen=True)
class RunRecord:
    """What a finished run found.

    Attributes:
        mode: the number of the mode that it was for.
        run: its number among that mode's runs.
        program: the text of the program it found.
        score: the program's mean return and bonus.
        diversified: the score times the program's diversity multiplier when it was scored.
        mean_return: the return alone, per program of a list; 0 if the text is no program.
        iterations: how many iterations it took.
        candidates: how many programs it proposed.
        executions: how many times programs were executed for it.
        actions: how many actions these executions performed.
        curve: (candidates, executions, best return) whenever a better one was found.
    """

    mode: int
    run: int
    program: str
    score: float
    diversified: float
    mean_return: float
    iterations: int
    candidates: int
    executions: int
    actions: int
    curve: list[tuple[int, int, float]] = field(default_factory=list)

    def to_json(self) -> dict[str, Any]:
        """Return its line of metrics.jsonl."""
        line = asdict(self)
        line["return"] = line.pop("mean_return")
        return line

    @classmethod
    def from_json(cls, line: dict[str, Any]) -> "RunRecord":
        """Read what `to_json` returned.

        Raises:
            DataFileError: it is something else.
        """
        _LINE.check(line)
        rest = {name: value for name, value in line.items() if name != "return"}
        rest["curve"] = [tuple(point) for point in line["curve"]]
        return cls(mean_return=line["return"], **rest)


class Job:
    """A search of one task with one seed; a function of these and its config alone.

    Attributes:
        method: what makes its runs.
        records: finished runs, in the order of (mode, run).
        vectors: `[V]` float32 for each record, what its program is compared by.
        latents: `[Z]` float32 for each record, where its program is in the embedding; for most
            methods the same as its vector.
        modes: numbers of the records that were chosen.
        trajectories: `[T, Z]` float16 for some runs, the means of every few iterations, for a plot.
    """

    def __init__(self, setting: Setting, seed: int, config: SearchConfig) -> None:
        """Plan a search.

        Args:
            setting: the task.
            seed: the seed of all its random streams.
            config: the settings, as `configure` returns them.
        """
        if not isinstance(setting, Setting):
            kind = type(setting).__name__
            raise ConfigError(f"expected a setting, as from task.configure(), got a {kind}")
        if not isinstance(seed, int) or seed < 0:
            raise ConfigError(f"a seed is a whole number, not negative, got {seed!r}")
        self.setting, self.seed, self.config = setting, seed, config
        self.method = find_method(config.method)
        if config.mode.vector == "behaviour" and self.method.is_latent:
            raise ConfigError("diversity by behaviour goes with program space")
        self.records: list[RunRecord] = []
        self.vectors: list[NDArray[np.float32]] = []
        self.latents: list[NDArray[np.float32]] = []
        self.modes: list[int] = []
        self.trajectories: dict[RunKey, NDArray[np.float16]] = {}
        self._is_chosen = False
        self._started: set[RunKey] = set()
        name = zlib.crc32(setting.task.name.encode())
        self._stream = open_streams(Purpose.SEARCH, seed, name, worlds=1)
        self._arenas: dict[int, Arena] = {}

    @property
    def _plan(self) -> ModeConfig:
        return self.config.mode

    @property
    def runs_per_mode(self) -> int:
        """How many runs each mode is chosen from."""
        return GRID_RUNS if self._plan.grid else self._plan.runs

    @property
    def rounds(self) -> int:
        """How often runs are made and chosen from."""
        return 1 if self._plan.choose == "top" else self._plan.modes

    @property
    def total_runs(self) -> int:
        """How many runs the whole search has."""
        return self.rounds * self.runs_per_mode

    @property
    def is_searched(self) -> bool:
        """Whether all runs have ended, so that there are modes."""
        return len(self.modes) == self._plan.modes

    @property
    def is_finished(self) -> bool:
        """Whether the modes are chosen for good."""
        return self.is_searched and (self._plan.select != "bound" or self._is_chosen)

    def choose(self, numbers: list[int]) -> None:
        """Make other records the modes, those with the best bound: `select=bound`."""
        self.modes, self._is_chosen = numbers, True

    def start_runs(self) -> list[RunKey]:
        """Return the runs that can begin now and have not begun, and mark them as begun."""
        chosen = len(self.modes) if self._plan.choose == "each" else 0
        modes_wait = self._plan.lists or "modes" in self._plan.diversity
        runs_wait = "runs" in self._plan.diversity
        ready = []
        for mode in range(chosen, min(chosen + 1, self.rounds) if modes_wait else self.rounds):
            finished = sum(record.mode == mode for record in self.records)
            last = min(finished + 1, self.runs_per_mode) if runs_wait else self.runs_per_mode
            ready += [RunKey(mode, run) for run in range(last)]
        fresh = [key for key in ready if key not in self._started]
        for key in fresh:
            self.mark_started(key)
        return fresh

    def mark_started(self, key: RunKey) -> None:
        """Mark a run as begun."""
        self._started.add(key)

    def begin_again(self, key: RunKey) -> None:
        """Mark a run as begun that a checkpoint restores.

        Raises:
            DataFileError: this search has no such run, or it is there already.
        """
        is_known = key.mode < self.rounds and key.run < self.runs_per_mode
        if not is_known or key in self._started:
            raise DataFileError(f"run {key.run} of mode {key.mode} is unknown, or comes twice")
        self.mark_started(key)

    def proposer_of(self, key: RunKey) -> Any:
        """Return the settings of what proposes a run's candidates."""
        if self._plan.grid:
            return changed(self.config.proposer, leaps_grid()[key.run])
        return self.config.proposer

    def stream_of(self, key: RunKey) -> np.uint64:
        """Return the random stream that a run's candidates are drawn from."""
        return self._branch(_RUNS, *((0, 0) if self._plan.shared_draws else (key.mode, key.run)))

    def noise_of(self, key: RunKey) -> np.uint64:
        """Return the random stream of what happens inside its episodes, if that is drawn anew."""
        return self._branch(_NOISE, key.mode, key.run)

    def _branch(self, *numbers: int) -> np.uint64:
        stream = self._stream
        for number in numbers:
            stream = branch(stream, number)
        return np.uint64(stream[0])

    def arena_of(self, key: RunKey) -> Arena:
        """Return where a run's candidates are scored; the runs of a mode share it."""
        if key.mode not in self._arenas:
            modes: tuple[str, ...] = ()
            lists = ONE_EXECUTION
            if self._plan.lists:
                least = least_length(self._plan.least_list, key.mode)
                lists = draw_lists(key.mode, least, self._branch(_LISTS, key.mode))
                modes = tuple(self.records[number].program for number in self.modes)
            starts = self._branch(_STARTS)
            self._arenas = {
                mode: arena for mode, arena in self._arenas.items() if not self._is_over(mode)
            }
            self._arenas[key.mode] = Arena(self.setting, self.config.score, starts, modes, lists)
        return self._arenas[key.mode]

    def _is_over(self, mode: int) -> bool:
        return sum(record.mode == mode for record in self.records) == self.runs_per_mode

    def others_of(self, key: RunKey) -> NDArray[np.float32]:
        """Return `[M, V]` float32, the vectors a run's candidates should differ from."""
        chosen: list[int] = []
        if "modes" in self._plan.diversity:
            chosen += self.modes
        if "runs" in self._plan.diversity:
            earlier = [
                number
                for number, record in enumerate(self.records)
                if record.mode == key.mode and record.run < key.run
            ]
            chosen += [number for number in earlier if number not in chosen]
        return self._stacked(chosen)

    def _stacked(self, numbers: list[int]) -> NDArray[np.float32]:
        """Return the vectors of some records, `[M, V]` float32."""
        if not numbers:
            return np.empty((0, 1), np.float32)
        return np.stack([self.vectors[number] for number in numbers])

    def finish(
        self, record: RunRecord, vector: NDArray[np.float32], latent: NDArray[np.float32]
    ) -> None:
        """Take a finished run's result; choose modes once all they depend on is there.

        Args:
            record: what the run found.
            vector: `[V]` float32, what its program is compared by.
            latent: `[Z]` float32, where its program is in the embedding.
        """
        self.mark_started(RunKey(record.mode, record.run))
        place = sum((other.mode, other.run) < (record.mode, record.run) for other in self.records)
        self.records.insert(place, record)
        self.vectors.insert(place, vector)
        self.latents.insert(place, latent)
        if self._plan.choose == "top":
            if len(self.records) == self.total_runs:
                order = sorted(range(len(self.records)), key=lambda n: -self.records[n].score)
                self.modes = order[: self._plan.modes]
            return
        # Runs may finish in any order, and records that come in between shift the numbers.
        complete = 0
        while complete < self.rounds and self._is_over(complete):
            complete += 1
        self.modes = []
        for mode in range(complete):
            self.modes.append(self._best_of(mode))

    def _best_of(self, mode: int) -> int:
        numbers = [n for n, record in enumerate(self.records) if record.mode == mode]
        scores = np.array([self.records[number].score for number in numbers])
        if self._plan.select != "undiversified":
            against = self._stacked(self.modes)
            scores = scores * diversity(
                self._stacked(numbers), against, self.config.score.temperature
            )
        return numbers[int(np.argmax(scores))]

    def result(self) -> dict[str, Any]:
        """Return what modes.json holds; it is the same whenever the same search is repeated."""
        return {
            "task": self.setting.task.name,
            "method": self.config.method,
            "seed": self.seed,
            "modes": [
                {
                    "program": self.records[number].program,
                    "latent": [float(f"{value:.9g}") for value in self.latents[number]],
                    "score": self.records[number].score,
                    "return": self.records[number].mean_return,
                    **{name: self._cost_of(place, name) for name in _COSTS},
                }
                for place, number in enumerate(self.modes)
            ],
        }

    def _cost_of(self, place: int, what: str) -> int:
        """Sum a cost over the runs that were made for a mode.

        If the best runs of one round are the modes, each mode has the cost of its own run.
        """
        runs = [one for one in self.records if one.mode == place]
        if self._plan.choose == "top":
            runs = [self.records[self.modes[place]]]
        return sum(getattr(record, what) for record in runs)
