"""`pomp evolve`."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from tyro.conf import Positional, UseAppendAction, arg

from pomp.cli.inputs import parse_options, parse_seeds, read_value
from pomp.cli.progress import Progress
from pomp.cli.stopping import Stop, check_minutes, stopping
from pomp.core.errors import ConfigError

if TYPE_CHECKING:
    from pomp.runs.evolve import EvolutionRun, Plan


@dataclass(frozen=True, kw_only=True)
class Evolve:
    """Search whole machines: programs and rules that a person can read. Ctrl-C saves."""

    tasks: Annotated[Positional[tuple[str, ...]], arg(metavar="TASK...")]
    """One or more tasks."""
    out: str
    """The folder; a new one unless --resume is given."""
    sensors: Literal["perceptions", "compass"] = "perceptions"
    """What rules may ask: perceptions and idleness, or also where the nearest marker is."""
    modes: int = 6
    """Most modes of a machine."""
    seeds: str = "0"
    """One number, a list (0,3) or a range (0-4)."""
    minutes: float = 5.0
    """For each task and seed."""
    rounds: int | None = None
    """End each search after so many rounds instead: then the result depends on the seed alone."""
    set: Annotated[UseAppendAction[tuple[str, ...]], arg(metavar="NAME=VALUE")] = ()
    """Change a setting, as in starts=32 or tokens=60; may be given several times."""
    variant: str | None = None
    """The tasks' variant; without it each task's default."""
    device: Literal["cpu", "cuda"] = "cpu"
    """Where machines are played; a GPU wants many at once, as with --set chains=4096."""
    resume: bool = False
    """Go on with the search in the folder."""
    json: bool = False
    """Print one JSON document."""

    def run(self) -> int:
        """Every task and seed, one after the other."""
        plan = self._plan()
        from pomp.core.storage import write_text
        from pomp.runs.evolve import EvolutionRun, begin_evolution, check_evolution, read_result
        from pomp.runs.folder import clear_if_not_begun
        from pomp.runs.summary import SUMMARY_FILE, sum_up

        path = Path(self.out)
        if not self.resume or clear_if_not_begun(path):
            begin_evolution(path, plan)
        else:
            check_evolution(path, plan)
        pairs = [(setting, seed) for setting in plan.settings for seed in plan.seeds]
        found, worked = list[dict[str, Any]](), False
        with stopping(None) as stop:
            for setting, seed in pairs:
                one = EvolutionRun(path, plan, setting, seed)
                if not one.is_finished:
                    worked = True
                    if not search_machine(one, stop):
                        return self._stopped(len(found), len(pairs))
                    one.finish()
                found.append(read_result(one.folder))
        summary = sum_up(found)
        if worked or not (path / SUMMARY_FILE).exists():
            write_text(path / SUMMARY_FILE, json.dumps(summary, indent=1) + "\n")
        return self._report(summary, "finished" if worked else "was finished before")

    def _plan(self) -> "Plan":
        check_minutes(self.minutes)
        from pomp.core.configs import changed
        from pomp.core.cuda import check_device
        from pomp.evolution.config import EvolveConfig
        from pomp.runs.evolve import Plan
        from pomp.tasks.catalog import find_task

        if not self.tasks:
            raise ConfigError("name a task, as in 'pomp evolve Farmer --out runs/farmer'")
        if self.rounds is not None and self.rounds < 1:
            raise ConfigError(f"--rounds must be at least 1, got {self.rounds}")
        settings = [find_task(name).configure(self.variant) for name in self.tasks]
        if len({setting.task.name for setting in settings}) < len(settings):
            raise ConfigError("a task is named twice")
        given = {
            name: read_value(text) for name, text in parse_options(self.set, "starts=32").items()
        }
        own = {"sensors": self.sensors, "modes": self.modes}
        config: EvolveConfig = changed(EvolveConfig(), {**own, **given})
        seeds = tuple(parse_seeds(self.seeds))
        device = check_device(self.device)
        return Plan(tuple(settings), seeds, config, self.minutes, self.rounds or 0, device)

    def _stopped(self, done: int, total: int) -> int:
        if self.json:
            print(json.dumps({"finished": False, "machines": done, "of": total}))
        else:
            print(f"stopped after {done} of {total}; go on with --resume and the same settings")
        return 130

    def _report(self, summary: dict[str, Any], how: str) -> int:
        if self.json:
            print(json.dumps({"finished": True, **summary}))
            return 0
        print(f"{self.out}: {how}")
        for row in summary["tasks"].values():
            for result in row["machines"]:
                folder = Path(self.out) / result["task"] / f"seed{result['seed']}"
                print(f"\n{folder / result['task']}.machine")
                print(result["text"].rstrip())
                print(_line_of(result))
        print()
        print_table(summary["tasks"])
        return 0


def print_table(tasks: dict[str, Any]) -> None:
    """Print what every task's machines are worth, beside the paper's."""
    for task, row in tasks.items():
        paper = row["published"]
        beside = f"; paper {paper['mean']:.2f} ± {paper['std']:.2f}" if paper else ""
        spread = f" ± {row['std']:.3f} over {row['seeds']} seeds" if row["seeds"] > 1 else ""
        share = row["mean"] / row["ceiling"]
        print(f"{task}: {share:.0%} of the ceiling {row['ceiling']:g}{beside}")
        print(f"return={row['mean']:.3f}{spread}")


def _line_of(result: dict[str, Any]) -> str:
    from pomp.runs.evolve import DEPENDENT

    budgets = ", ".join(f"{mean:.4f} with {calls}" for calls, mean in result["budgets"].items())
    warning = f"; {DEPENDENT}" if result[DEPENDENT] else ""
    return (
        f"return {result['mean']:.4f} of {result['ceiling']:g}, {result['sensors']} "
        f"({budgets} calls{warning}); {result['search']['machines']:,} machines tried"
    )


def search_machine(one: "EvolutionRun", stop: Stop, label: str = "") -> bool:
    """Rounds until the search is over; whether it came to its end."""
    one.open()
    evolution = one.evolution
    name = f"{one.setting.task.name}, seed {one.seed}"
    progress = Progress(f"{label} {name}".lstrip(), 1)

    def note() -> str:
        rate = f"{evolution.tried / max(one.spent, 1e-9):,.0f} machines/s"
        if not evolution.round:
            return rate
        best, modes = evolution.hall.best, evolution.hall.machines[0].modes
        return f"{rate}, round {evolution.round}: {best:.4f} with {modes} modes"

    def is_stopped() -> bool:
        progress.share(0, one.share, note)
        return stop()

    try:
        while one.share < 1.0 or not evolution.round:
            if not one.advance(is_stopped) and stop():
                return False
    finally:
        one.close()
        progress.close()
    return not stop.was_asked
