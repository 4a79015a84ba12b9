"""`pomp train`."""

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pomp.cli.evolve import print_table
from pomp.cli.inputs import (
    Allowed,
    Changes,
    Device,
    OwnSensors,
    TaskNames,
    parse_changes,
    parse_seeds,
    read_tasks,
)
from pomp.cli.output import say
from pomp.cli.stopping import check_minutes, how_to_resume, modules_in, showing
from pomp.core.configs import Preset
from pomp.core.errors import ConfigError

if TYPE_CHECKING:
    from pomp.runs.results import LearningResult


@dataclass(frozen=True, kw_only=True)
class Train:
    """Learn a machine: search its modes, learn its transitions, evaluate it. Ctrl-C saves."""

    tasks: TaskNames = ()
    """One or more tasks; none with --resume."""
    out: str
    """The training's folder; a new one unless --resume is given."""
    seeds: str | None = None
    """One number, a list (0,3) or a range (0-4); without it 0."""
    preset: Preset | None = None
    """Whose settings; without it best."""
    method: str | None = None
    """What searches: text (whole machines with rules, no network; what the preset best does),
    text-modes (the same, then a network learns on their modes and the better machine is kept; this
    can take hours), or, for modes on which a network learns, pomp (what the presets paper and code
    do), pomp-program-space, annealing-modes, cem-xm, cem-diversity-topk or cem-diversity-xm. Or a
    baseline without a search: psmp, drl, mmn, perception-ppo, or hprl, whose policy writes
    programs itself. Or a method of your own, module:NAME."""
    modes: str | None = None
    """Modes found before: the folder of a search or of pomp evolve (whose machines compete with
    the networks on their modes), a modes.json, the results of many searches as
    results/search/pomp.json, or a file with a program per line (# begins a
    comment)."""
    sensor: OwnSensors = ()
    """What the rules of machines may ask beside the package's sensors, where the method is text or
    text-modes: a sensor of your own, module:NAME; may be given several times."""
    learning_rates: str | None = None
    """Learning rates to try, as in 1e-2,1e-3,1e-4; the best by validation is kept."""
    set: Changes = ()
    """Change a setting, as in ppo.entropy=0.1 or search.mode.runs=5; may be given several times.
    With --resume, a larger ppo.total or search.rounds extends a training."""
    variant: str | None = None
    """The tasks' variant; without it each task's default."""
    device: Device | None = None
    """Where it runs; without it cpu."""
    resume: bool = False
    """Go on with the training in the folder; what is given beside it must be as it was begun."""
    allow: Allowed = ()
    """A module of your own that the folder of --resume, or the machines of --modes, may name. May
    be given several times."""
    minutes: float | None = None
    """Stop after so many minutes, saved, to be resumed."""
    tensorboard: bool = False
    """Also write the metrics as event files for TensorBoard, into the run's folder."""
    json: bool = False
    """Print one JSON document."""

    def run(self) -> int:
        """All stages, each from where it was left."""
        check_minutes(self.minutes)
        changes = parse_changes(self.set, "ppo.entropy=0.1")
        if self.sensor:
            changes["search.own_sensors"] = self.sensor
        if self.learning_rates:
            changes["learning_rates"] = _parse_rates(self.learning_rates)
        from pomp.runs.folder import RunFolder
        from pomp.runs.trainings import train

        with showing(self.minutes, self.out if self.tensorboard else None) as (shown, stop):
            found = train(
                read_tasks(self.tasks, self.variant),
                preset=self.preset,
                method=self.method,
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
            say(json.dumps({"finished": False}))
        else:
            modules = [*self.allow, *modules_in(*self.tasks, self.method, *self.sensor)]
            say(f"stopped; {how_to_resume('pomp train', self.out, modules)}")
        return stop.status

    def _report(self, found: "LearningResult") -> int:
        if self.json:
            say(json.dumps({"finished": True, **found.summary}))
            return 0
        say(f"{self.out}: {'was finished before' if found.was_finished else 'finished'}")
        for task in found.summary["tasks"]:
            own = [one for one in found.learned if one.setting.task.name == task]
            best = max(own, key=lambda one: (one.row["validation"] or 0.0, -one.seed))
            say(f"\n{task}, seed {best.seed}: {best.folder.path}")
            say(best.text.rstrip())
            for one in best.row.get("dropped", ()):
                say(f"left out: {one['program']} ({one['why']})")
        say("")
        print_table(found.summary["tasks"])
        return 0


def _parse_rates(text: str) -> tuple[float, ...]:
    try:
        rates = tuple(float(part) for part in text.split(","))
    except ValueError:
        rates = ()
    if not rates or not all(0 < rate < 1e3 for rate in rates) or len(set(rates)) < len(rates):
        raise ConfigError(f"learning rates are numbers, as in 1e-2,1e-3, got '{text}'")
    return rates
