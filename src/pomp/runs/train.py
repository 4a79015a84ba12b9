"""The folder of a training, and its stages: search, transitions, evaluation.

`DIR/search/` is the search's folder, of modes or of whole machines. `DIR/<task>/seed<k>/` gets the
machine (`machine/`), its programs as text, metrics, evaluation, a picture and an animation.
`DIR/ensemble*.safetensors` are the checkpoints of what is in progress.
"""

import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from pomp.analysis.pictures import describe_machine, draw_machine, frames_of
from pomp.core.compiling import thread_count
from pomp.core.errors import DataFileError
from pomp.core.storage import read_arrays, remove_drafts, write_arrays, write_text
from pomp.engine.starts import draw_starts
from pomp.karel.render import save_animation
from pomp.learning.training import Member, Training
from pomp.machine.evaluation import Evaluation, evaluate, validate
from pomp.machine.policy import ProgramMachine
from pomp.machine.text import SUFFIX, parse_machine, read_machine, write_machine
from pomp.machine.transitions import DecisionList
from pomp.modes.batch import Batch
from pomp.runs.evolve import EvolutionRun, begin_evolution, check_evolution
from pomp.runs.folder import begin_run, check_config, clear_if_not_begun
from pomp.runs.plan import Plan, modes_of
from pomp.runs.search_folder import MODES_FILE, SearchFolder, read_modes
from pomp.runs.summary import SUMMARY_FILE, sum_up
from pomp.tasks.task import Setting
from pomp.version import __version__

METRICS_FILE, EVALUATION_FILE = "metrics.jsonl", "evaluation.json"
MACHINE_FOLDER = "machine"
EVALUATION_SEED = 0


@dataclass
class Group:
    """Members of one grid size, trained together.

    Attributes:
        training: the ensemble.
        path: its checkpoint.
        records: of every member, one per validation.
    """

    training: Training
    path: Path
    records: list[list[dict[str, Any]]]

    def advance(self) -> None:
        """One update of all members."""
        for own, record in zip(self.records, self.training.step() or (), strict=False):
            own.append(record)

    def save(self) -> None:
        """Write the checkpoint."""
        arrays, values = self.training.to_arrays()
        write_arrays(self.path, arrays, {**values, "records": self.records})

    def restore(self) -> None:
        """Go on from the checkpoint, if there is one.

        Raises:
            DataFileError: it is damaged.
        """
        remove_drafts(self.path.parent, self.path.name)
        if not self.path.exists():
            return
        try:
            arrays, values = read_arrays(self.path, "training checkpoint")
            self.training.restore(arrays, values)
            self.records = [list(own) for own in values["records"]]
        except (DataFileError, KeyError, ValueError, TypeError, IndexError) as error:
            what = f"'{self.path}' is damaged, or no checkpoint of this training"
            raise DataFileError(f"{what}; delete it to begin this stage anew") from error


class TrainingRun:
    """A training in its folder.

    Attributes:
        path: the folder.
        plan: what was asked for.
        device: cpu or cuda.
    """

    def __init__(self, path: Path, plan: Plan, device: str) -> None:
        self.path, self.plan, self.device = path, plan, device
        self.search = SearchFolder(path / "search", plan.jobs(), device)

    def describe(self) -> dict[str, Any]:
        """The config a resumed training must have, too."""
        threads = thread_count() if self.device == "cpu" else None
        made_by = {"pomp": __version__, "device": self.device, "threads": threads}
        return {**made_by, **self.plan.describe()}

    def begin(self) -> None:
        """Make the folder.

        Raises:
            OutputError: it exists, or cannot be made.
        """
        begin_run(self.path, self.describe())

    def check(self) -> bool:
        """Make sure that it was begun with this plan; returns whether it is finished."""
        check_config(self.path, self.describe())
        return (self.path / SUMMARY_FILE).is_file()

    def folder_of(self, setting: Setting, seed: int) -> Path:
        """Where one machine goes."""
        return self.path / setting.task.name / f"seed{seed}"

    # Stage 2: modes

    def needs_search(self) -> bool:
        """Whether modes are still to be found."""
        jobs = self.search.jobs
        return any(not (self.search.of(job) / MODES_FILE).is_file() for job in jobs)

    def open_evolutions(self) -> list[EvolutionRun]:
        """The searches for whole machines, if that is stage 2."""
        plan = self.plan.evolution
        if plan is None:
            return []
        if clear_if_not_begun(self.search.path) or not self.search.path.exists():
            begin_evolution(self.search.path, plan)
        else:
            check_evolution(self.search.path, plan)
        return [
            EvolutionRun(self.search.path, plan, setting, seed)
            for setting in plan.settings
            for seed in plan.seeds
        ]

    def _evolved(self, setting: Setting, seed: int) -> ProgramMachine | None:
        """The machine with rules that stage 2 has found, or that was found before."""
        if text := self.plan.machines.get((setting.task.name, seed)):
            return parse_machine(text)
        plan = self.plan.evolution
        if plan is None:
            return None
        return read_machine(EvolutionRun(self.search.path, plan, setting, seed).file)

    def open_search(self) -> Batch:
        """The search, new or as it was left."""
        batch = Batch(self.search.jobs, device=self.device)
        if clear_if_not_begun(self.search.path) or not self.search.path.exists():
            self.search.begin()
        else:
            self.search.check()
            self.search.resume(batch)
        return batch

    def modes_of(self, setting: Setting, seed: int) -> tuple[str, ...]:
        """The modes of a task and seed, given or found."""
        key = (setting.task.name, seed)
        if key in self.plan.given:
            return self.plan.given[key]
        if machine := self._evolved(setting, seed):
            return modes_of(machine)
        job = next(job for job in self.search.jobs if (job.setting.task.name, job.seed) == key)
        found = read_modes(self.search.of(job))["modes"]
        if self.plan.machine.alone:
            found = sorted(found, key=lambda mode: -mode["return"])
        return tuple(mode["program"] for mode in found)

    def _members_of(self, setting: Setting, seed: int) -> list[Member]:
        modes = self.modes_of(setting, seed)
        # Of equals the first is taken: the machine with fewer modes.
        has_first = self.plan.machine.alone and not self.plan.has_machines and len(modes) > 1
        sets = [modes[:1], modes] if has_first else [modes]
        return [Member(setting, one, seed, rate) for one in sets for rate in self.plan.rates]

    # Stage 3: transitions

    def open_groups(self) -> list[Group]:
        """The ensembles, new or as they were left: one for each grid size."""
        sizes: dict[tuple[int, int], list[Member]] = {}
        for setting in self.plan.settings if self.plan.has_network else ():
            for seed in self.plan.seeds:
                size = setting.height, setting.width
                sizes.setdefault(size, []).extend(self._members_of(setting, seed))
        groups = []
        for (height, width), members in sizes.items():
            training = Training(members, self.plan.machine, self.device)
            path = self.path / f"ensemble{height}x{width}.safetensors"
            group = Group(training, path, [[] for _ in members])
            group.restore()
            groups.append(group)
        return groups

    def write_metrics(self, groups: list[Group]) -> None:
        """A line for each validation, in the folder of its machine."""
        for setting in self.plan.settings:
            for seed in self.plan.seeds:
                lines = [
                    json.dumps({**_about(member), **record}, sort_keys=True)
                    for group in groups
                    for member, own in zip(group.training.members, group.records, strict=True)
                    if (member.setting.task.name, member.seed) == (setting.task.name, seed)
                    for record in own
                ]
                folder = self.folder_of(setting, seed)
                folder.mkdir(parents=True, exist_ok=True)
                write_text(folder / METRICS_FILE, "".join(line + "\n" for line in lines))

    # Stage 4: evaluation

    def finish(self, groups: list[Group], show: Callable[[str], None]) -> dict[str, Any]:
        """Evaluate the best machine of every task and seed; write everything; sum up."""
        self.write_metrics(groups)
        rows = []
        for setting in self.plan.settings:
            for seed in self.plan.seeds:
                show(f"{setting.task.name}, seed {seed}")
                rows.append(self._finish_one(groups, setting, seed))
        summary = sum_up(rows)
        write_text(self.path / SUMMARY_FILE, json.dumps(summary, indent=1) + "\n")
        for group in groups:
            group.path.unlink(missing_ok=True)
        remove_drafts(self.path, SUMMARY_FILE)
        return summary

    def _finish_one(self, groups: list[Group], setting: Setting, seed: int) -> dict[str, Any]:
        found = [self._learned(groups, setting, seed)] if groups else []
        if evolved := self._evolved(setting, seed):
            about = {"pomp": __version__, "preset": self.plan.preset, "seed": seed}
            provenance = {**about, "modes": len(evolved.modes), "search": "text"}
            found = [replace(evolved, provenance=provenance), *found]
        scores = [validate(machine) if evolved else None for machine in found]
        best = max(range(len(found)), key=lambda one: (scores[one] or 0.0, -one))
        machine = found[best]
        if evolved:
            machine.provenance = {**machine.provenance, "validation": scores[best]}
        score = machine.provenance["validation"]
        result = evaluate(machine, seed=EVALUATION_SEED)
        starts = draw_starts(result.setting, len(result.returns), EVALUATION_SEED)
        self._write(self.folder_of(setting, seed), machine, result, starts)
        kind = {"transitions": machine.transition.kind, "sensors": machine.sensors}
        about = {"task": setting.task.name, "seed": seed, "validation": score, **kind}
        row = about | result.to_json()
        return {name: value for name, value in row.items() if name != "returns"}

    def _learned(self, groups: list[Group], setting: Setting, seed: int) -> ProgramMachine:
        """The best machine with a network, by the validations of its training."""
        found = [
            (group.training.kept[index].score, -index, group, index)
            for group in groups
            for index, member in enumerate(group.training.members)
            if (member.setting.task.name, member.seed) == (setting.task.name, seed)
        ]
        score, _, group, index = max(
            found, key=lambda one: (one[0] is not None, one[0] or 0.0, one[1])
        )
        training, search = group.training, "text" if self.plan.has_machines else "given"
        provenance = {
            "pomp": __version__,
            "preset": self.plan.preset,
            "seed": seed,
            **_about(training.members[index]),
            "validation": score,
            "steps": training.update * training.config.ppo.rollout,
            "search": self.plan.searches[0].method if self.plan.searches else search,
        }
        return training.machine(index, provenance)

    def _write(
        self, folder: Path, machine: ProgramMachine, result: Evaluation, starts: Any
    ) -> None:
        machine.save(folder / MACHINE_FOLDER)
        if isinstance(machine.transition, DecisionList):
            write_machine(machine, folder / f"{machine.task.name}{SUFFIX}")
        write_text(folder / "programs.txt", "".join(f"{mode}\n" for mode in machine.modes))
        write_text(folder / "machine.txt", describe_machine(machine, result) + "\n")
        write_text(folder / "machine.svg", draw_machine(machine, result))
        write_text(folder / EVALUATION_FILE, json.dumps(result.to_json(), indent=1) + "\n")
        save_animation(frames_of(machine, result, starts), folder / "episode.gif")
        for own in (folder, folder / MACHINE_FOLDER):  # those of a process that was killed here
            remove_drafts(own, *(path.name for path in own.iterdir()))


def _about(member: Member) -> dict[str, Any]:
    """What tells the members of a task and seed apart."""
    return {"learning_rate": member.learning_rate, "modes": len(member.modes)}
