"""`pomp search`."""

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

from tyro.conf import UseAppendAction, arg

from pomp.cli.inputs import (
    Allowed,
    Changes,
    Device,
    TaskNames,
    parse_changes,
    parse_seeds,
    read_tasks,
    take_one,
)
from pomp.cli.output import say
from pomp.cli.stopping import check_minutes, how_to_resume, modules_in, showing
from pomp.core.configs import Preset

if TYPE_CHECKING:
    from pomp.runs.searches import SearchResult


@dataclass(frozen=True, kw_only=True)
class Search:
    """Search for programs that are modes of a machine. Ctrl-C saves; --resume goes on."""

    tasks: TaskNames = ()
    """One or more tasks; none with --resume."""
    out: str
    """The search's folder; a new one unless --resume is given."""
    method: str | None = None
    """pomp (the default), cem, cem-diversity, cem-xm, cem-diversity-topk, cem-diversity-xm, leaps,
    leaps-grid, hill-climbing, cebs, annealing, annealing-modes or pomp-program-space; or a method
    of your own, module:NAME."""
    modes: int | None = None
    """How many modes, for methods that find several; without it 3 or 5, as in the paper."""
    begin_with: Annotated[UseAppendAction[tuple[str, ...]], arg(name="from", metavar="FILE")] = ()
    """Begin with the programs of a file, one per line (methods that search in program space); those
    that cannot be used are named and left out."""
    seeds: str | None = None
    """One number, a list (0,3) or a range (0-4); without it 0."""
    preset: Preset | None = None
    """Whose settings; without it the paper's."""
    set: Changes = ()
    """Change a setting, as in proposer.sigma=0.25; may be given several times."""
    variant: str | None = None
    """The tasks' variant; without it each task's default."""
    device: Device | None = None
    """Where programs are decoded and executed; without it cpu."""
    resume: bool = False
    """Go on with the search in the folder; what is given beside it must be as it was begun."""
    allow: Allowed = ()
    """With --resume: a module that the folder may name, of a task or method of your own. May be
    given several times."""
    minutes: float | None = None
    """Stop after so many minutes, saved, to be resumed."""
    tensorboard: bool = False
    """Also write the metrics as event files for TensorBoard, into the run's folder."""
    json: bool = False
    """Print one JSON document."""

    def run(self) -> int:
        """Search, then print the modes."""
        check_minutes(self.minutes)
        changes = parse_changes(self.set, "proposer.sigma=0.25")
        begin_with = take_one("--from", self.begin_with, "put all of the programs into one file")
        changes |= {} if begin_with is None else {"from": begin_with}
        from pomp.runs.folder import RunFolder
        from pomp.runs.searches import search

        with showing(self.minutes, self.out if self.tensorboard else None) as (shown, stop):
            found = search(
                read_tasks(self.tasks, self.variant),
                method=self.method,
                preset=self.preset,
                modes=self.modes,
                seeds=None if self.seeds is None else parse_seeds(self.seeds),
                settings=changes,
                device=self.device,
                out=RunFolder(self.out, self.allow),
                resume=self.resume,
                on_event=shown,
            )
        if found.is_finished:
            return self._report(found)
        if self.json:
            say(json.dumps({"finished": False, "runs": found.done, "of": found.total}))
        else:
            done = f"stopped after {found.done} of {found.total} runs"
            modules = [*self.allow, *modules_in(*self.tasks, self.method)]
            say(f"{done}; {how_to_resume('pomp search', self.out, modules)}")
        return stop.status

    def _report(self, found: "SearchResult") -> int:
        if self.json:
            say(json.dumps({"finished": True, "searches": found.searches}))
            return 0
        say(f"{self.out}: {'was finished before' if found.was_finished else 'finished'}")
        for result in found.searches:
            spent = sum(mode["candidates"] for mode in result["modes"])
            say(f"{result['task']}, seed {result['seed']}: {spent:,} candidates")
            for number, mode in enumerate(result["modes"], 1):
                say(f"  {number}  score {mode['score']:.4f}  {mode['program']}")
        return 0
