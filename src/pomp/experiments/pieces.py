"""Pieces of work: cells that are computed together, in a folder from which they can go on."""

import hashlib
import json
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, Literal, get_args

from pomp.analysis.remembering import quantise
from pomp.analysis.selection import choose_modes
from pomp.core.configs import to_json
from pomp.core.errors import DataFileError, PompError
from pomp.core.extras import LEARN, require
from pomp.core.schemas import Listed, Number, OneOf, Record
from pomp.core.storage import read_bytes, read_json
from pomp.experiments.cells import CELL, EVOLVE_ROUNDS, Cell
from pomp.experiments.outcomes import make_result
from pomp.experiments.store import CellResult, Files
from pomp.learning.baselines import BASELINES
from pomp.learning.random_transition import RandomTransition
from pomp.machine.config import EpisodeConfig
from pomp.machine.evaluation import evaluate
from pomp.machine.policy import ProgramMachine
from pomp.machine.transitions import DecisionList, Rule
from pomp.machine.zoo import load_machine
from pomp.modes.jobs import Job
from pomp.runs.evolutions import EvolveRun
from pomp.runs.evolve_plan import EvolvePlan
from pomp.runs.folder import DEVICE, RunFolder, name_of
from pomp.runs.kept import TRAJECTORY_FILE, read_metrics
from pomp.runs.quantised import tell_quantised
from pomp.runs.searches import SearchRun, read_modes, read_records
from pomp.runs.survey import read_best
from pomp.runs.transitions import TransitionsRun
from pomp.runs.work import IsStopped, OnEvent, Progress, Stages, Watch, Work, drive

if TYPE_CHECKING:
    from pomp.hprl.policy import MetaPolicy

PieceKind = Literal["search", "evolve", "learn", "evaluate"]
PIECE_FILE = "piece.json"
ON_CPU = ("evaluate", "evolve")
"""Kinds of pieces that a GPU has no part in."""

_IDLE = "DEF run m( turnLeft m)"  # the mode of a machine that never runs it


@dataclass(frozen=True)
class Needed:
    """A finished cell from which another one is computed."""

    result: CellResult
    files: Files


Inputs = Mapping[Cell, Needed]
Emit = Callable[[CellResult, Files], None]
"""Called with each result as soon as it is there, and with the files of its machine."""
Harvester = Callable[[Cell], tuple[CellResult, Files]]
"""Returns what became of a cell, once all of its piece is computed."""


@dataclass(frozen=True)
class WorkPiece:
    """Cells that are computed together.

    Attributes:
        kind: search: programs or modes. evolve: a machine with rules. learn: transitions.
            evaluate: what was found before, in another way.
        cells: which; in a fixed order.
        device: cpu or cuda.
    """

    kind: PieceKind
    cells: tuple[Cell, ...]
    device: str

    @property
    def name(self) -> str:
        """What its folder is called: the same cells on the same device, the same name."""
        text = "\n".join([self.device, *(cell.name for cell in self.cells)])
        return f"{self.kind}-{hashlib.sha256(text.encode()).hexdigest()[:12]}"

    @property
    def title(self) -> str:
        """What it is called in events."""
        first, count = self.cells[0], len(self.cells)
        others = f" and {count - 1} more" if count > 1 else ""
        return f"{self.kind} {first.name}{others}"

    @property
    def needs(self) -> tuple[Cell, ...]:
        """The cells whose results it needs."""
        return tuple(dict.fromkeys(one for cell in self.cells for one in cell.needs))

    def to_json(self) -> dict[str, Any]:
        """Return its fields."""
        cells = [cell.to_json() for cell in self.cells]
        return {"kind": self.kind, "device": self.device, "cells": cells}

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> "WorkPiece":
        """Read what `to_json` returned, and perhaps the seconds that were spent.

        Raises:
            DataFileError: it is something else.
        """
        _PIECE.check(dict(values))
        cells = tuple(Cell.from_json(one) for one in values["cells"])
        if any(kind_of(cell) != values["kind"] for cell in cells):
            raise DataFileError(
                f"a cell is computed by another kind of piece than {values['kind']}"
            )
        return cls(values["kind"], cells, values["device"])


_PIECE = Record(
    {"kind": OneOf(get_args(PieceKind)), "device": DEVICE, "cells": Listed(CELL, 1)},
    {"seconds": Number(0.0, 1e12)},
)


def read_told(path: Path) -> dict[str, Any]:
    """Return what the file of a piece that was begun says.

    Raises:
        DataFileError: it is damaged.
    """
    return dict(read_json(path, "piece of an experiment", _PIECE))


def kind_of(cell: Cell) -> PieceKind:
    """Return what kind of piece computes a cell."""
    if cell.is_choice:
        return "evaluate"
    if cell.stage != "policy":
        return cell.stage
    if cell.scale > 1 or cell.has_network or cell.row.kind == "random":
        return "evaluate"
    return "evolve" if cell.row.kind == "rules" else "search"


def cut(cells: Sequence[Cell], device: str) -> list[WorkPiece]:
    """Divide cells into pieces.

    On a GPU the searches of a method are one batch, and trainings with the same settings on grids
    of one size are one ensemble. Everything else is one piece for each cell, so that cores can
    share them, and evaluations run on the CPU, where they are the same everywhere.
    """
    groups: dict[tuple[Any, ...], list[Cell]] = {}
    for cell in cells:
        kind = kind_of(cell)
        group: tuple[Any, ...] = (kind, cell.name)
        if device == "cuda" and kind == "search":
            group = (kind, cell.method, cell.stage, cell.preset, cell.budget, cell.changes)
        elif device == "cuda" and kind == "learn":
            size = cell.setting.height, cell.setting.width
            group = (kind, json.dumps(to_json(cell.training)), size)
        groups.setdefault(group, []).append(cell)
    return [
        WorkPiece(kind, tuple(sorted(own, key=_order)), "cpu" if kind in ON_CPU else device)
        for (kind, *_), own in groups.items()
    ]


def _order(cell: Cell) -> tuple[str, str, int, str]:
    return cell.task, cell.method, cell.seed, cell.name  # tasks side by side, for ensembles


def run_piece(
    piece: WorkPiece,
    inputs: Inputs,
    path: Path,
    emit: Emit,
    on_event: OnEvent | None = None,
    done: Collection[Cell] = (),
) -> bool:
    """Do what is left of a piece, until a stop is asked for.

    Args:
        piece: which.
        inputs: the finished cells that it needs.
        path: its folder; a piece that was begun there goes on.
        emit: called with each result.
        on_event: told of progress; if it returns True, the piece is saved and left.
        done: cells whose results are known and not asked for again.

    Returns:
        Whether it came to its end.

    Raises:
        TrainingError: a loss is not a number any more.
        OutputError: the folder cannot be written.
        MissingExtraError: it needs torch, which is not installed.
    """
    if any(cell.has_network or cell.row.kind == "program" for cell in piece.cells):
        require(LEARN, f"the piece {piece.name}")
    running = _RunningPiece(piece, inputs, RunFolder(path), emit)
    running.done |= set(done)
    try:
        return drive(Stages(running.works()), Watch(on_event))
    finally:
        running.close()


class _RunningPiece:
    """A piece that is being computed: its works, and what becomes of its cells."""

    def __init__(self, piece: WorkPiece, inputs: Inputs, folder: RunFolder, emit: Emit) -> None:
        self.piece, self.inputs, self.folder, self.emit = piece, inputs, folder, emit
        assert folder.path is not None
        self.path, self._parts = folder.path, list[RunFolder]()
        folder.make()
        told = read_told(self.path / PIECE_FILE) if folder.has(PIECE_FILE) else {}
        self._before, self._since = float(told.get("seconds", 0.0)), time.monotonic()
        self.done = set[Cell]()
        self._write()

    @property
    def _seconds(self) -> float:
        return self._before + time.monotonic() - self._since

    def _write(self) -> None:
        told = {**self.piece.to_json(), "seconds": self._seconds}
        self.folder.write_text(PIECE_FILE, json.dumps(told) + "\n")

    def close(self) -> None:
        """Give up locks, and note the time spent so far."""
        for part in self._parts:
            part.close()
        self._write()

    def works(self) -> Iterator[Work]:
        """Yield what is to be done, one after the other."""
        makers = {"search": self._search, "learn": self._learn, "evolve": self._evolve}
        harvest: Harvester = self._evaluate
        if self.piece.kind in makers:
            works, harvest = makers[self.piece.kind]()
            yield from works
        yield _Harvest(self, harvest)

    def _part(self) -> RunFolder:
        part = self.folder.within("run")
        self._parts.append(part)
        return part

    def take(self, result: CellResult, files: Files) -> None:
        """Pass a result on, and remember that it is done."""
        self.emit(result, files)
        self.done.add(result.cell)

    def _cost(self, **counted: int | None) -> dict[str, Any]:
        count = len(self.piece.cells)
        return {**counted, "seconds": self._seconds / count, "shared_by": count}

    def _result(
        self, cell: Cell, machine: "ProgramMachine | MetaPolicy", cost: dict[str, Any], **more: Any
    ) -> tuple[CellResult, Files]:
        """Evaluate a policy, and return what is known of its cell, with the policy's files."""
        if isinstance(machine, ProgramMachine):
            found, programs = evaluate(machine, scale=cell.scale), machine.modes
        else:
            found = machine.evaluate()
            programs = found.written[0]  # of the first episode
        result = make_result(
            cell,
            programs=more.pop("programs", programs),
            cost=cost,
            curve=more.pop("curve", []),
            found=found,
            device=self.piece.device,
            about=more,
        )
        has_files = cell.scale == 1 and cell.row.kind in ("program", "rules")
        return result, _files_of(machine) if has_files else {}

    # Searches for programs and modes

    def _search(self) -> tuple[Iterator[Work], Harvester]:
        jobs = [Job(cell.setting, cell.seed, cell.search) for cell in self.piece.cells]
        folder = self._part()
        run = SearchRun(jobs, self.piece.device, folder, self.piece.title)
        folder.open_part("search", run.describe)
        works = iter(() if run.is_written else (run,))
        return works, lambda cell: self._searched(cell, folder)

    def _searched(self, cell: Cell, folder: RunFolder) -> tuple[CellResult, Files]:
        """Return what a search in a folder has found for a cell."""
        place = folder.within(*name_of(cell.setting, cell.seed)).path
        assert place is not None
        records, modes = read_records(place), read_modes(place)["modes"]
        counted = {
            name: sum(getattr(record, name) for record in records)
            for name in ("candidates", "executions", "actions")
        }
        cost, curve = self._cost(**counted), read_best(place)
        paths = place / TRAJECTORY_FILE
        files = {TRAJECTORY_FILE: read_bytes(paths, "trajectory")} if paths.is_file() else {}
        if cell.stage == "search":
            result = make_result(
                cell,
                programs=tuple(mode["program"] for mode in modes),
                cost=cost,
                curve=curve,
                device=self.piece.device,
                about={
                    "scores": [mode["score"] for mode in modes],
                    "pool": [record.program for record in records],
                },
            )
            return result, files
        first = modes[0]["program"]
        tried = dict.fromkeys([first, *(record.program for record in records)])
        found = {text: executed_once(cell, text) for text in tried}
        result, own = self._result(
            cell,
            found[first],
            cost,
            programs=(first,),
            curve=curve,
            best_of_runs=max(evaluate(machine).mean for machine in found.values()),
            search_return=modes[0]["return"],
        )
        return result, {**own, **files}

    # Transitions learned by PPO

    def _learn(self) -> tuple[Iterator[Work], Harvester]:
        from pomp.hprl.training import MetaTraining
        from pomp.learning.members import Member
        from pomp.learning.training import Training

        cells = self.piece.cells
        settings = {cell.task: cell.setting for cell in cells}  # one object for each task
        rate, device = cells[0].training.ppo.learning_rate, self.piece.device
        members = [
            Member(settings[cell.task], self._modes_of(cell), cell.seed, rate) for cell in cells
        ]
        training: Training
        if cells[0].row.kind == "latents":
            training = MetaTraining(members, cells[0].meta, device)
        else:
            training = Training(members, cells[0].learning, device)
        folder = self._part()
        folder.make()
        places = [tuple(cell.name.split("/")) for cell in cells]
        run = TransitionsRun(training, folder, self.piece.title, places)
        numbers = {cell: number for number, cell in enumerate(cells)}
        return iter((run,)), lambda cell: self._learned(cell, run, numbers[cell])

    def _modes_of(self, cell: Cell) -> tuple[str, ...]:
        """Return the modes between which a cell's transitions are learned, if it has any."""
        if cell.row.kind == "latents":
            return ()
        if cell.row.kind == "actions":
            return BASELINES[cell.method].modes
        [needed] = cell.needs
        return self.inputs[needed].result.programs

    def _learned(self, cell: Cell, run: TransitionsRun, number: int) -> tuple[CellResult, Files]:
        """Return what a training has learned for one of its members."""
        training, records = run.training, run.records[number]
        kept, last = training.kept[number], training.finished_at[number]
        rollout = training.config.ppo.rollout
        steps, asked = (last or training.update) * rollout, training.config.ppo.updates * rollout
        machine = training.policy(number, {"cell": cell.name, "validation": kept.score})
        spent = self._spent_on_modes(cell)
        before: list[dict[str, Any]] = [{}, *records]
        curve = [
            (spent["executions"] + record.get("executions", record["steps"]), record["best"])
            for last_one, record in zip(before, records, strict=False)
            if record["best"] is not None and record["best"] != last_one.get("best")
        ]
        counted = {**spent, "executions": spent["executions"] + steps}
        if cell.row.kind == "latents":
            counted = _counted(records, steps)
        result = make_result(
            cell,
            programs=training.members[number].modes,
            cost=self._cost(**counted, steps=steps),
            curve=curve,
            device=self.piece.device,
            about={
                "validation": kept.score,
                "validations": len(records),
                "ended": "plateau" if steps < asked else "all steps",
                "asked_steps": asked,
            },
        )
        return result, _files_of(machine)

    def _spent_on_modes(self, cell: Cell) -> dict[str, int]:
        """Return what the search for a cell's modes has cost."""
        names = ("candidates", "executions")
        if not cell.needs:
            return dict.fromkeys(names, 0)
        cost = self.inputs[cell.needs[0]].result.values["cost"]
        return {name: cost[name] for name in names}

    # Machines with rules

    def _evolve(self) -> tuple[Iterator[Work], Harvester]:
        [cell] = self.piece.cells
        plan = EvolvePlan((cell.setting,), (cell.seed,), cell.evolution, rounds=EVOLVE_ROUNDS)
        folder = self._part()
        folder.open_part("evolve", plan.describe, plan.growth(folder))
        run = EvolveRun(plan, folder)
        return iter(run.works()), lambda cell: self._evolved(cell, run)

    def _evolved(self, cell: Cell, run: EvolveRun) -> tuple[CellResult, Files]:
        """Return the machine that a search for rules has found."""
        learned = run.learned[cell.task, cell.seed]
        assert learned.folder.path is not None
        rounds = read_metrics(learned.folder.path, "programs", "score")
        search = learned.row["search"]
        cost = {"candidates": search["machines"], "executions": search["programs"]}
        return self._result(
            cell,
            learned.machine,
            self._cost(**cost, actions=search["actions"]),
            curve=[(one["programs"], one["score"]) for one in rounds],
            validation=learned.row["validation"],
            budgets=learned.row["budgets"],
        )

    # What was found before, in another way

    def _evaluate(self, cell: Cell) -> tuple[CellResult, Files]:
        """Evaluate modes with random transitions, or what was learned, perhaps with more to do.

        A cell that is a choice of modes has no evaluation.
        """
        needed = self.inputs[cell.needs[0]]
        if cell.is_choice:
            return self._choose(cell, needed.result), {}
        if cell.row.kind == "random":
            modes = needed.result.programs
            machine: ProgramMachine | MetaPolicy = ProgramMachine(
                task=cell.setting.task, modes=modes, transition=RandomTransition(len(modes))
            )
        else:
            machine = _load(cell, needed.files)
        names = ("curve", "validation", "ended", "asked_steps")
        known = needed.result.values
        taken_over = {name: known[name] for name in names if name in known}
        if not cell.is_quantised or not isinstance(machine, ProgramMachine):
            return self._result(cell, machine, known["cost"], **taken_over)
        found = quantise(machine, cell.learning.quantising, seed=cell.seed)
        about = {**taken_over, **tell_quantised(machine, found, cell.scale)}
        result, _ = self._result(cell, found.machine, known["cost"], **about)
        return result, _files_of(found.machine) if cell.scale == 1 else {}

    def _choose(self, cell: Cell, searched: CellResult) -> CellResult:
        """Choose modes from the runs of a search by what the best transitions could earn."""
        pool = searched.values["pool"]
        before = [pool.index(text) for text in searched.programs]
        chosen = choose_modes(cell.setting, pool, before, cell.search.score.cap)
        assert chosen is not None
        return make_result(
            cell,
            programs=tuple(pool[number] for number in chosen),
            cost=searched.values["cost"],
            curve=[],
            device=self.piece.device,
        )


class _Harvest:
    """What becomes of the cells once all of a piece is computed: one of them at a time."""

    save_seconds = float("inf")

    def __init__(self, running: _RunningPiece, harvest: Harvester) -> None:
        self._running, self._harvest = running, harvest
        self.stage = f"evaluate {running.piece.title}"

    def _left(self) -> list[Cell]:
        return [cell for cell in self._running.piece.cells if cell not in self._running.done]

    @property
    def is_finished(self) -> bool:
        """Whether the results of all cells are there."""
        return not self._left()

    def open(self) -> None:
        """Do nothing: what is there is known."""

    def advance(self, is_stopped: IsStopped) -> None:
        """Evaluate one cell."""
        self._running.take(*self._harvest(self._left()[0]))

    def save(self) -> None:
        """Do nothing: every result is passed on at once."""

    def close(self) -> None:
        """Do nothing: nothing goes on beside this."""

    def finish(self) -> None:
        """Do nothing: every result is passed on at once."""

    def progress(self) -> Progress:
        """Say how many cells are evaluated."""
        total, left = len(self._running.piece.cells), self._left()
        done = total - len(left)
        return Progress(done, total, done / total, lambda: left[0].name if left else "")


def executed_once(cell: Cell, program: str) -> ProgramMachine:
    """Return the machine that executes a program once; what is no program is not executed."""
    task = cell.setting.task
    end = (Rule(to=None),)
    try:
        return ProgramMachine(
            task=task,
            modes=(program,),
            transition=DecisionList(start=(Rule(to=0),), after=(end,)),
            episode=EpisodeConfig(cap=cell.search.score.cap),
        )
    except PompError:
        return ProgramMachine(
            task=task, modes=(_IDLE,), transition=DecisionList(start=end, after=(end,))
        )


def _counted(records: Sequence[Mapping[str, Any]], steps: int) -> dict[str, int]:
    """Return what a policy that writes programs has cost up to a step, by its validations."""
    last = max((one for one in records if one["steps"] <= steps), key=lambda one: one["steps"])
    executed = {"executions": last["executions"], "actions": last["actions_taken"]}
    return {"candidates": steps, **executed}


def _load(cell: Cell, files: Files) -> "ProgramMachine | MetaPolicy":
    """Return the policy of a cell, given the files in which it is saved."""
    with TemporaryDirectory() as folder:
        for name, content in files.items():
            (Path(folder) / name).write_bytes(content)
        if cell.row.kind == "latents":
            from pomp.hprl.policy import MetaPolicy

            return MetaPolicy.load(folder)
        return load_machine(folder)


def _files_of(machine: "ProgramMachine | MetaPolicy") -> Files:
    """Return the files in which a policy is saved."""
    with TemporaryDirectory() as folder:
        machine.save(folder)
        return {path.name: path.read_bytes() for path in sorted(Path(folder).iterdir())}
