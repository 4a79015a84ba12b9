"""Pieces of work done: searches, trainings and evaluations, and what becomes of each cell."""

import json
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pomp.analysis.remembering import quantise
from pomp.analysis.selection import choose_modes
from pomp.core.extras import LEARN, require
from pomp.core.storage import read_bytes
from pomp.experiments.cells import EVOLVE_ROUNDS, Cell
from pomp.experiments.outcomes import make_result
from pomp.experiments.pieces import PIECE_FILE, Emit, Inputs, WorkPiece, read_told
from pomp.experiments.policies import executed_once, files_of, load_policy
from pomp.experiments.store import CellResult, Files
from pomp.learning.baselines import BASELINES
from pomp.learning.random_transition import RandomTransition
from pomp.machine.evaluation import evaluate
from pomp.machine.policy import ProgramMachine
from pomp.modes.jobs import Job
from pomp.runs.evolutions import EvolveRun
from pomp.runs.evolve_plan import EvolvePlan
from pomp.runs.folder import RunFolder, name_of
from pomp.runs.kept import TRAJECTORY_FILE, read_metrics
from pomp.runs.quantised import tell_quantised
from pomp.runs.searches import SearchRun, read_modes, read_records
from pomp.runs.survey import read_best
from pomp.runs.transitions import TransitionsRun
from pomp.runs.work import IsStopped, OnEvent, Progress, Stages, Watch, Work, drive

if TYPE_CHECKING:
    from pomp.hprl.policy import MetaPolicy

_Harvester = Callable[[Cell], tuple[CellResult, Files]]
"""Returns what became of a cell, once all of its piece is computed."""


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
        harvest: _Harvester = self._evaluate
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
        return result, files_of(machine) if has_files else {}

    # Searches for programs and modes

    def _search(self) -> tuple[Iterator[Work], _Harvester]:
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

    def _learn(self) -> tuple[Iterator[Work], _Harvester]:
        from pomp.hprl.training import MetaTraining
        from pomp.learning.members import Member
        from pomp.learning.training import Training

        cells = self.piece.cells
        settings = {cell.task: cell.setting for cell in cells}  # one object for each task
        rate, device = cells[0].training.ppo.learning_rate, self.piece.device
        is_latent = cells[0].row.kind == "latents"
        tries = range(1 if is_latent else cells[0].learning.tries)
        members = [
            Member(settings[cell.task], self._modes_of(cell), cell.seed, rate, attempt)
            for cell in cells
            for attempt in tries
        ]
        training: Training
        if is_latent:
            training = MetaTraining(members, cells[0].meta, device)
        else:
            training = Training(members, cells[0].learning, device)
        folder = self._part()
        folder.make()
        places = [tuple(cell.name.split("/")) for cell in cells for _ in tries]
        run = TransitionsRun(training, folder, self.piece.title, places)
        first = {cell: number * len(tries) for number, cell in enumerate(cells)}

        def learned(cell: Cell) -> tuple[CellResult, Files]:
            return self._learned(cell, run, range(first[cell], first[cell] + len(tries)))

        return iter((run,)), learned

    def _modes_of(self, cell: Cell) -> tuple[str, ...]:
        """Return the modes between which a cell's transitions are learned, if it has any."""
        if cell.row.kind == "latents":
            return ()
        if cell.row.kind == "actions":
            return BASELINES[cell.method].modes
        [needed] = cell.needs
        return self.inputs[needed].result.programs

    def _learned(self, cell: Cell, run: TransitionsRun, tries: range) -> tuple[CellResult, Files]:
        """Return the best of what a training has learned for a cell, by some of its members."""
        training = run.training
        number = max(tries, key=lambda one: training.kept[one].worth)
        kept, records = training.kept[number], run.records[number]
        rollout = training.config.ppo.rollout
        taken = [(training.finished_at[one] or training.update) * rollout for one in tries]
        steps, asked = sum(taken), training.config.ppo.updates * rollout * len(tries)
        machine = training.policy(number, {"cell": cell.name, "validation": kept.score})
        spent = self._spent_on_modes(cell)
        before: list[dict[str, Any]] = [{}, *records]
        curve = [
            (
                spent["executions"] + record.get("executions", len(tries) * record["steps"]),
                record["best"],
            )
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
        return result, files_of(machine)

    def _spent_on_modes(self, cell: Cell) -> dict[str, int]:
        """Return what the search for a cell's modes has cost."""
        names = ("candidates", "executions")
        if not cell.needs:
            return dict.fromkeys(names, 0)
        cost = self.inputs[cell.needs[0]].result.values["cost"]
        return {name: cost[name] for name in names}

    # Machines with rules

    def _evolve(self) -> tuple[Iterator[Work], _Harvester]:
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
            machine = load_policy(cell, needed.files)
        names = ("curve", "validation", "ended", "asked_steps")
        known = needed.result.values
        taken_over = {name: known[name] for name in names if name in known}
        if not cell.is_quantised or not isinstance(machine, ProgramMachine):
            return self._result(cell, machine, known["cost"], **taken_over)
        found = quantise(machine, cell.learning.quantising, seed=cell.seed)
        about = {**taken_over, **tell_quantised(machine, found, cell.scale)}
        result, _ = self._result(cell, found.machine, known["cost"], **about)
        return result, files_of(found.machine) if cell.scale == 1 else {}

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

    def __init__(self, running: _RunningPiece, harvest: _Harvester) -> None:
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


def _counted(records: Sequence[Mapping[str, Any]], steps: int) -> dict[str, int]:
    """Return what a policy that writes programs has cost up to a step, by its validations."""
    last = max((one for one in records if one["steps"] <= steps), key=lambda one: one["steps"])
    executed = {"executions": last["executions"], "actions": last["actions_taken"]}
    return {"candidates": steps, **executed}
