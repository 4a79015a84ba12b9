"""`pomp evolve`."""

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Literal

from tyro.conf import UseAppendAction, arg

from pomp.cli.inputs import (
    Allowed,
    Changes,
    Device,
    OwnSensors,
    TaskNames,
    parse_changes,
    parse_seeds,
    read_tasks,
    take_one,
)
from pomp.cli.output import say
from pomp.cli.shares import tell_share
from pomp.cli.stopping import check_minutes, how_to_resume, modules_in, showing

if TYPE_CHECKING:
    from pomp.runs.results import LearningResult


@dataclass(frozen=True, kw_only=True)
class Evolve:
    """Search whole machines: programs and rules that a person can read. Ctrl-C saves."""

    tasks: TaskNames = ()
    """One or more tasks; none with --resume."""
    out: str
    """The folder; a new one unless --resume is given."""
    sensors: Literal["perceptions", "compass"] | None = None
    """What rules may ask: perceptions and idleness (the default), or also where the nearest marker
    is."""
    sensor: OwnSensors = ()
    """What else rules may ask: a sensor of your own, module:NAME; may be given several times."""
    modes: int | None = None
    """Most modes of a machine; without it 6."""
    no_clean: bool = False
    """Search any machines. Without it those are wanted that hold without a budget: no program is
    ever cut short, and the machine ends by its own rule."""
    sizes: Annotated[tuple[str, ...], arg(metavar="HxW...")] = ()
    """Other sizes of the grid in which machines are judged as well, as 12x12 16x16."""
    scales: Annotated[tuple[int, ...], arg(metavar="N...")] = ()
    """Horizons so many times as long in which they are judged as well, as 2 4."""
    begin_with: Annotated[
        UseAppendAction[tuple[str, ...]],
        arg(name="from", metavar="FILE.machine|zoo:TASK|FOLDER"),
    ] = ()
    """Begin with given machines: those of a folder that cannot be used are named and left out."""
    without: Annotated[
        tuple[Literal["pickMarker", "putMarker"], ...], arg(metavar="{pickMarker,putMarker}")
    ] = ()
    """Actions that no program may take."""
    seeds: str | None = None
    """One number, a list (0,3) or a range (0-4); without it 0."""
    minutes: float | None = None
    """For each task and seed; without it 5. With --resume, more extend a run."""
    rounds: int | None = None
    """End each search after so many rounds instead: then the result depends on the seed alone.
    With --resume, more extend a run that was begun so."""
    set: Changes = ()
    """Change a setting, as in starts=32 or tokens=60; may be given several times."""
    variant: str | None = None
    """The tasks' variant; without it each task's default."""
    device: Device | None = None
    """Where machines are played, without it cpu; a GPU wants many at once, as with --set
    chains=4096."""
    resume: bool = False
    """Go on with the search in the folder; what is given beside it must be as it was begun."""
    allow: Allowed = ()
    """With --resume: a module that the folder may name, of a task or sensor of your own. May be
    given several times."""
    tensorboard: bool = False
    """Also write the metrics as event files for TensorBoard, into the run's folder."""
    json: bool = False
    """Print one JSON document."""

    def run(self) -> int:
        """Every task and seed, one after the other."""
        check_minutes(self.minutes)
        changes = parse_changes(self.set, "starts=32")
        from pomp.runs.evolutions import evolve
        from pomp.runs.folder import RunFolder

        if self.modes is not None:
            changes = {"modes": self.modes, **changes}
        begin_with = take_one("--from", self.begin_with, "name a folder with all of the machines")
        named: dict[str, Any] = {"own_sensors": self.sensor, "without": self.without}
        named |= {"clean": False if self.no_clean else None}
        named |= {"sizes": self.sizes, "scales": self.scales, "from": begin_with}
        changes = {name: one for name, one in named.items() if one not in ((), None)} | changes
        with showing(None, self.out if self.tensorboard else None) as (shown, stop):
            found = evolve(
                read_tasks(self.tasks, self.variant),
                sensors=self.sensors,
                seeds=None if self.seeds is None else parse_seeds(self.seeds),
                minutes=self.minutes,
                rounds=self.rounds,
                settings=changes,
                device=self.device,
                out=RunFolder(self.out, self.allow),
                resume=self.resume,
                on_event=shown,
            )
        if found.is_finished:
            return self._report(found)
        done, total = len(found.learned), found.planned
        if self.json:
            say(json.dumps({"finished": False, "machines": done, "of": total}))
        else:
            modules = [*self.allow, *modules_in(*self.tasks, *self.sensor)]
            how = how_to_resume("pomp evolve", self.out, modules)
            say(f"stopped after {done} of {total}; {how}")
        return stop.status

    def _report(self, found: "LearningResult") -> int:
        from pomp.machine.text import SUFFIX, print_machine

        if self.json:
            say(json.dumps({"finished": True, **found.summary}))
            return 0
        say(f"{self.out}: {'was finished before' if found.was_finished else 'finished'}")
        for one in found.learned:
            say(f"\n{one.folder.path}/{one.setting.task.name}{SUFFIX}")
            say(print_machine(one.machine).rstrip())
            say(_line_of(one.row))
        say("")
        print_table(found.summary["tasks"])
        return 0


def print_table(tasks: dict[str, Any]) -> None:
    """Print what every task's machines are worth, beside the paper's."""
    for task, row in tasks.items():
        spread = f" ± {row['std']:.3f} over {row['seeds']} seeds" if row["seeds"] > 1 else ""
        told = (tell_share(row["mean"], row["ceiling"], digits=0), _tell_published(row))
        if beside := "; ".join(part for part in told if part):
            say(f"{task}: {beside}")
        say(f"return={row['mean']:z.3f}{spread}")


def _tell_published(row: dict[str, Any]) -> str:
    """Say what the paper has for the method, or for its own method; nothing if it has nothing."""
    paper = row["published"]
    return f"paper's {paper['method']} {paper['mean']:.2f} ± {paper['std']:.2f}" if paper else ""


def _line_of(result: dict[str, Any]) -> str:
    from pomp.runs.evolutions import DEPENDENT

    budgets = ", ".join(f"{mean:z.4f} with {calls}" for calls, mean in result["budgets"].items())
    warning = f"; {DEPENDENT}" if result[DEPENDENT] else ""
    warning += "" if result.get("clean", True) else "; not clean"
    ceiling = "" if result["ceiling"] is None else f" of {result['ceiling']:g}"
    return (
        f"return {result['mean']:z.4f}{ceiling}, {result['sensors']} "
        f"({budgets} calls{warning}); {result['search']['machines']:,} machines tried"
    )
