"""One search of a task with one seed: which runs it consists of, and which modes come of them."""

import zlib
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pomp.core.configs import changed
from pomp.core.errors import ConfigError
from pomp.core.streams import Purpose, branch, open_streams
from pomp.dsl.vocabulary import LEAPS
from pomp.modes.config import ModeConfig, Proposer, SearchConfig
from pomp.modes.lists import ONE_EXECUTION, draw_lists, least_length
from pomp.modes.methods import leaps_grid
from pomp.modes.scoring import Arena, diversity
from pomp.tasks.task import Setting

_STARTS, _LISTS, _RUNS, _LUCK = range(4)  # what a job draws
GRID_RUNS = len(leaps_grid())
_SPENT = ("candidates", "executions", "actions")


@dataclass(frozen=True, order=True)
class RunKey:
    """Which run of a job: the mode it looks for, and its number among that mode's runs."""

    mode: int
    run: int


@dataclass(frozen=True)
class RunRecord:
    """What a finished run found.

    Attributes:
        mode: for which mode it searched.
        run: its number among that mode's runs.
        program: the text of what it found.
        score: return and bonus.
        diversified: the score times the diversity of the program, when it was scored.
        value: the return alone, per program of a list.
        iterations: how many it took.
        candidates: programs proposed, `executions` of them, `actions` they performed.
        executions: see `candidates`.
        actions: see `candidates`.
        curve: (candidates, executions, best return) whenever a better one was found.
    """

    mode: int
    run: int
    program: str
    score: float
    diversified: float
    value: float
    iterations: int
    candidates: int
    executions: int
    actions: int
    curve: list[tuple[int, int, float]] = field(default_factory=list)

    def to_json(self) -> dict[str, Any]:
        """Its line in metrics.jsonl."""
        line = asdict(self)
        line["return"] = line.pop("value")
        return line

    @classmethod
    def from_json(cls, line: dict[str, Any]) -> "RunRecord":
        """Back from `to_json`."""
        rest = {name: value for name, value in line.items() if name != "return"}
        rest["curve"] = [tuple(point) for point in line["curve"]]
        return cls(value=line["return"], **rest)


class Job:
    """A search of one task with one seed; a function of these and its config alone.

    Attributes:
        records: finished runs, in the order of (mode, run).
        vectors: what each of them is compared by; row i belongs to record i.
        latents: where each of them is in the embedding; for most methods the same.
        modes: numbers of the records that were chosen.
        traces: centres `[T, Z]` of some runs, for a picture.
    """

    def __init__(
        self, setting: Setting, seed: int, config: SearchConfig, source: str | None = None
    ) -> None:
        """Plan a search.

        Args:
            setting: the task.
            seed: what everything is drawn from.
            config: what is searched, and how; see `configure`.
            source: what `find_task` finds the task by, if not by its name.
        """
        if not isinstance(setting, Setting):
            kind = type(setting).__name__
            raise ConfigError(f"expected a setting, as from task.configure(), got a {kind}")
        if not isinstance(seed, int) or seed < 0:
            raise ConfigError(f"a seed is a whole number, not negative, got {seed!r}")
        self.setting, self.seed, self.config = setting, seed, config
        self.source = source or setting.task.name
        self.records: list[RunRecord] = []
        self.vectors: list[NDArray[np.float32]] = []
        self.latents: list[NDArray[np.float32]] = []
        self.modes: list[int] = []
        self.traces: dict[RunKey, NDArray[np.float16]] = {}
        self._started: set[RunKey] = set()
        name = zlib.crc32(setting.task.name.encode())
        self._stream = open_streams(Purpose.SEARCH, seed, name, worlds=1)
        self._arenas: dict[int, Arena] = {}

    @property
    def _plan(self) -> ModeConfig:
        return self.config.mode

    @property
    def runs_per_mode(self) -> int:
        """Runs for each mode."""
        return GRID_RUNS if self._plan.grid else self._plan.runs

    @property
    def rounds(self) -> int:
        """How often runs are made and chosen from."""
        return 1 if self._plan.choose == "top" else self._plan.modes

    @property
    def total_runs(self) -> int:
        """Runs in all."""
        return self.rounds * self.runs_per_mode

    @property
    def is_finished(self) -> bool:
        """All modes are chosen."""
        return len(self.modes) == self._plan.modes

    def start_runs(self) -> list[RunKey]:
        """Runs that can begin now and have not begun."""
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
        """Say that a run has begun elsewhere."""
        self._started.add(key)

    def proposer_of(self, key: RunKey) -> Proposer:
        """The settings of a run."""
        if self._plan.grid:
            proposer: Proposer = changed(self.config.proposer, leaps_grid()[key.run])
            return proposer
        return self.config.proposer

    def stream_of(self, key: RunKey) -> np.uint64:
        """What a run's candidates depend on."""
        return self._branch(_RUNS, key.mode, key.run)

    def luck_of(self, key: RunKey) -> np.uint64:
        """What happens inside its episodes, if that is drawn anew."""
        return self._branch(_LUCK, key.mode, key.run)

    def _branch(self, *numbers: int) -> np.uint64:
        stream = self._stream
        for number in numbers:
            stream = branch(stream, number)
        return np.uint64(stream[0])

    def arena_of(self, key: RunKey) -> Arena:
        """Where a run's candidates are tried; the runs of a mode share it."""
        if key.mode not in self._arenas:
            modes, lists = None, ONE_EXECUTION
            if self._plan.lists:
                least = least_length(self._plan.least_list, key.mode)
                lists = draw_lists(key.mode, least, self._branch(_LISTS, key.mode))
                modes = self._mode_ids()
            starts = self._branch(_STARTS)
            self._arenas = {
                mode: arena for mode, arena in self._arenas.items() if not self._is_over(mode)
            }
            self._arenas[key.mode] = Arena(self.setting, self.config.score, starts, modes, lists)
        return self._arenas[key.mode]

    def _is_over(self, mode: int) -> bool:
        return sum(record.mode == mode for record in self.records) == self.runs_per_mode

    def _mode_ids(self) -> NDArray[np.uint8]:
        rows = [LEAPS.encode(self.records[number].program.split()) for number in self.modes]
        ids = np.full((len(rows), max(map(len, rows), default=5)), LEAPS.pad, np.uint8)
        for row, tokens in zip(ids, rows, strict=True):
            row[: len(tokens)] = tokens
        return ids

    def others_of(self, key: RunKey) -> NDArray[np.float32]:
        """`[M, Z]`: what a run's candidates should differ from."""
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
        if not numbers:
            return np.empty((0, 1), np.float32)
        return np.stack([self.vectors[number] for number in numbers])

    def finish(
        self, record: RunRecord, vector: NDArray[np.float32], latent: NDArray[np.float32]
    ) -> None:
        """Take a finished run's result; choose modes once all they depend on is there."""
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
        worth = np.array([self.records[number].score for number in numbers])
        if self._plan.select == "diversified":
            against = self._stacked(self.modes)
            worth = worth * diversity(
                self._stacked(numbers), against, self.config.score.temperature
            )
        return numbers[int(np.argmax(worth))]

    def result(self) -> dict[str, Any]:
        """modes.json: nothing in it varies between two runs of the same search."""
        chosen = [(self.records[number], self.latents[number]) for number in self.modes]
        return {
            "task": self.setting.task.name,
            "method": self.config.method,
            "seed": self.seed,
            "modes": [
                {
                    "program": record.program,
                    "latent": [float(f"{number:.9g}") for number in latent],
                    "score": record.score,
                    "return": record.value,
                    **{name: self._spent(record, name) for name in _SPENT},
                }
                for record, latent in chosen
            ],
        }

    def _spent(self, chosen: RunRecord, what: str) -> int:
        """By all runs that a mode was chosen from; by itself if they are one another's modes."""
        runs = [one for one in self.records if one.mode == chosen.mode]
        if self._plan.choose == "top":
            runs = [chosen]
        return sum(getattr(record, what) for record in runs)
