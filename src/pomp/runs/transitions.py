"""Stage 3 as a run: the transitions of an ensemble of machines, learned together."""

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from numpy.typing import NDArray

from pomp.analysis.showing import show_choices
from pomp.core.schemas import FREE, Listed, Named, Record
from pomp.runs.folder import METRICS_FILE, RunFolder, name_of
from pomp.runs.work import SAVE_SECONDS, IsStopped, Progress

if TYPE_CHECKING:
    from pomp.learning.members import Member
    from pomp.learning.teaching import Teaching
    from pomp.learning.training import Training

_TAUGHT = 50  # gradient steps of teaching that are taken at a time
_CHECKPOINT = "ensemble"  # what the names of checkpoints begin with
_RECORDS = Listed(Named(FREE))  # of one member


class TransitionsRun:
    """The members of one grid size in training, as one work.

    Args:
        training: the ensemble.
        folder: the run's.
        stage: what the work is called in events.
        places: for every member the names of the folders, one in the other, in which its metrics
            are; None: those of its task and seed.

    Attributes:
        training: the ensemble.
        records: for every member a record of each validation.
        stage: what the work is called in events.
    """

    save_seconds = SAVE_SECONDS

    def __init__(
        self,
        training: "Training",
        folder: RunFolder,
        stage: str,
        places: Sequence[tuple[str, ...]] | None = None,
    ) -> None:
        self.training, self.stage = training, stage
        self._places = places or [name_of(one.setting, one.seed) for one in training.members]
        height, width = training.shape.height, training.shape.width
        self._folder, self._file = folder, f"{_CHECKPOINT}{height}x{width}.safetensors"
        self.records: list[list[dict[str, Any]]] = [[] for _ in training.members]
        self._is_taught = not training.has_teacher
        self._teaching: Teaching | None = None
        self._began, self._before = time.monotonic(), 0

    @property
    def is_finished(self) -> bool:
        """Whether all members are trained."""
        return self.training.is_finished

    def open(self) -> None:
        """Take up the checkpoint if there is one.

        Raises:
            DataFileError: the checkpoint is damaged.
        """
        self._folder.restore(self._take, self._file)
        self._began, self._before = time.monotonic(), self.training.update

    def _take(self, arrays: dict[str, NDArray[Any]], values: dict[str, Any]) -> None:
        """Go on from a checkpoint: its `arrays`, each of its own shape `[...]`, and its values."""
        members = len(self.training.members)
        Record({"records": Listed(_RECORDS, members, members)}, is_open=True).check(values)
        self.training.restore(arrays, values)
        self.records, self._is_taught = values["records"], True

    def advance(self, is_stopped: IsStopped) -> None:
        """Play a rollout with every member, and learn from it; teach them first, if asked for."""
        if not self._is_taught:
            self._teach()
            return
        for own, record in zip(self.records, self.training.step() or (), strict=False):
            own.append(record)

    def _teach(self) -> None:
        """Let a planner show a member what to choose, or let all learn what they were shown."""
        training = self.training
        teaching = self._teaching = self._teaching or training.begin_teaching()
        if (number := teaching.waiting) is not None:
            self._show(teaching, number)
            return
        teaching.advance(_TAUGHT)
        if teaching.is_over:
            self.records = [[record] for record in training.judge()]
            self._teaching, self._is_taught = None, True

    def _show(self, teaching: "Teaching", number: int) -> None:
        """Show a member choices of a planner."""
        member, config = self.training.members[number], self.training.config
        lead, own = teaching.leader(number), config.teaching
        shown = show_choices(
            member.setting,
            member.modes,
            config.episode,
            own.choices,
            seed=member.seed,
            discount=config.ppo.discount,
            share=own.lead if lead else own.variety,
            lead=lead,
            first=teaching.episodes[number],
        )
        teaching.show(number, shown)

    def save(self) -> None:
        """Write a checkpoint, and a line for each validation in the folder of its machine.

        What is being taught is not kept: it takes minutes, and begins again.
        """
        if self._folder.path is None or not self._is_taught:
            return
        arrays, values = self.training.to_arrays()
        self._folder.write_arrays(self._file, arrays, {**values, "records": self.records})
        lines: dict[tuple[str, ...], list[dict[str, Any]]] = {}
        members = zip(self.training.members, self._places, self.records, strict=True)
        for member, place, own in members:
            about = {"learning_rate": member.learning_rate, "modes": len(member.modes)}
            if member.attempt:
                about["attempt"] = member.attempt
            lines.setdefault(place, []).extend({**about, **record} for record in own)
        for place, records in lines.items():
            folder = self._folder.within(*place)
            folder.make()
            folder.write_lines(METRICS_FILE, records)

    def close(self) -> None:
        """Do nothing: nothing goes on beside this."""

    def finish(self) -> None:
        """Do nothing: machines are chosen when those of all ensembles are there."""

    def progress(self) -> Progress:
        """Say how many members are trained."""
        training = self.training
        finished = sum(when is not None for when in training.finished_at)
        share = training.update / training.config.ppo.updates
        return Progress(finished, len(training.members), share, self._tell)

    def _tell(self) -> str:
        training = self.training
        if not self._is_taught:
            taken = self._teaching.taken if self._teaching else 0
            return f"a planner teaches: {taken} of {training.config.teaching.steps} steps"
        steps = (training.update - self._before) * training.config.ppo.rollout
        rate = steps * len(training.members) / max(time.monotonic() - self._began, 1e-9)
        scores = [kept.score for kept in training.kept if kept.score is not None]
        best = f", best validation {max(scores):.3f}" if scores else ""
        return f"{rate:,.0f} steps/s{best}"

    def members_of(self, task: str, seed: int) -> list[tuple[int, "Member"]]:
        """Return the members for a task and a seed, with their numbers in the ensemble."""
        return [
            (number, member)
            for number, member in enumerate(self.training.members)
            if (member.setting.task.name, member.seed) == (task, seed)
        ]


def remove_checkpoints(folder: RunFolder) -> None:
    """Remove the checkpoints of all ensembles, whose modes are others now."""
    for path in folder.path.glob(f"{_CHECKPOINT}*") if folder.path else ():
        folder.remove(path.name)
