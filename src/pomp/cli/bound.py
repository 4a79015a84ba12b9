"""`pomp bound`."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from tyro.conf import Positional, arg

from pomp.cli.inputs import Allowed, read_program
from pomp.cli.output import say
from pomp.cli.shares import in_brackets, tell_share
from pomp.core.errors import ConfigError

if TYPE_CHECKING:
    from pomp.analysis.bounds import Bound
    from pomp.machine.policy import ProgramMachine
    from pomp.tasks.task import Setting

MODES_FILE = "modes.json"
MOST_WIDTH = 1_000_000
_MACHINES = (".json", ".machine")  # what files of machines end in
_SIDES = {"exact": "", "lower": " or more", "upper": " or less"}


@dataclass(frozen=True)
class _Given:
    """What a bound was asked for.

    Attributes:
        setting: the task.
        modes: the programs.
        cap: of one execution.
        most_steps: macro steps of an episode.
        machine: the machine they belong to, if any.
    """

    setting: "Setting"
    modes: list[str]
    cap: str
    most_steps: int
    machine: "ProgramMachine | None" = None


@dataclass(frozen=True, kw_only=True)
class BoundCommand:
    """Say what the best transitions could earn from the modes of a machine or a search."""

    modes: Annotated[Positional[str], arg(metavar="MACHINE|zoo:TASK|MODES")]
    """A machine's folder or file (*.machine), or one that comes with the package; a folder
    TASK/seedN of a search, or its modes.json; or a text file with a program on each line."""
    task: str | None = None
    """The modes' task, for a text file."""
    cap: str | None = None
    """How long one execution may last: callsN or actionsN; without it the machine's, or
    calls220."""
    scale: int = 1
    """How many times longer the task is: 1, 2, 4, 8 or 16."""
    width: int | None = None
    """States kept after each step where a task without chance is searched; without it 20,000."""
    estimate: bool = False
    """Estimate it quickly instead, from below, by what a planner earns in 64 episodes; for tasks
    and modes that have no bound, too."""
    allow: Allowed = ()
    """A module that the file may name as the home of its task or a sensor, and that is run then."""
    json: bool = False
    """Print one JSON document."""

    def run(self) -> int:
        """Compute it, then print."""
        if self.width is not None and not 1 <= self.width <= MOST_WIDTH:
            raise ConfigError(f"--width must be from 1 to {MOST_WIDTH:,}, got {self.width}")
        if self.estimate and self.width is not None:
            raise ConfigError("--width goes with a bound, not with --estimate")
        given = self._given()
        from pomp.analysis.bounds import WIDTH, bound
        from pomp.analysis.planning import estimate

        if self.estimate:
            found = estimate(given.setting, given.modes, given.cap, most_steps=given.most_steps)
        else:
            width = self.width or WIDTH
            found = bound(
                given.setting, given.modes, given.cap, most_steps=given.most_steps, width=width
            )
        told = _summarise(given, found)
        say(json.dumps(told) if self.json else _text(told))
        return 0

    def _given(self) -> _Given:
        """Read the modes, wherever they are."""
        path = Path(self.modes)
        is_search = path.name == MODES_FILE or (path / MODES_FILE).is_file()
        is_machine = path.is_dir() or path.suffix in _MACHINES or self.modes.startswith("zoo:")
        if self.task is None:
            return self._of_search(path) if is_search else self._of_machine()
        if is_search or is_machine:
            raise ConfigError(
                f"--task goes with a file of programs; '{path}' has a task of its own"
            )
        return self._of_text(self.task)

    def _of_machine(self) -> _Given:
        """Read the modes of a machine."""
        from pomp.machine.zoo import load_machine

        path = Path(self.modes)
        if path.is_file() and path.suffix not in _MACHINES:
            raise ConfigError(f"'{path}' is taken for a file of programs: add --task TASK")
        machine = load_machine(self.modes, self.allow)
        setting, episode = machine.configure(self.scale), machine.episode
        cap = self.cap or episode.cap
        return _Given(setting, list(machine.modes), cap, episode.most_steps, machine)

    def _of_text(self, task: str) -> _Given:
        """Read modes from a text file, a program on each line."""
        from pomp.dsl.parser import split_programs
        from pomp.tasks.catalog import find_task

        setting = find_task(task).configure(scale=self.scale)
        modes = list(split_programs(read_program(self.modes)))
        if not modes:
            raise ConfigError(f"'{self.modes}' holds no program; expected one on each line")
        return self._alone(setting, modes)

    def _of_search(self, path: Path) -> _Given:
        """Read the modes of a search, in the variant of the task it had."""
        from pomp.runs.folder import CONFIG_FILE, read_config
        from pomp.runs.searches import read_modes
        from pomp.tasks.catalog import find_task

        found = read_modes(path)
        folder = path if path.is_dir() else path.parent
        config = read_config(folder) if (folder / CONFIG_FILE).is_file() else {}
        task = find_task(config.get("task", found["task"]), self.allow)
        setting = task.configure(config.get("variant"), config.get("options"), scale=self.scale)
        return self._alone(setting, [mode["program"] for mode in found["modes"]])

    def _alone(self, setting: "Setting", modes: list[str]) -> _Given:
        """Return modes without a machine, which run under the usual limits."""
        from pomp.machine.config import EpisodeConfig

        episode = EpisodeConfig()
        return _Given(setting, modes, self.cap or episode.cap, episode.most_steps)


def _summarise(given: _Given, found: "Bound") -> dict[str, Any]:
    """Return the bound for JSON."""
    setting = given.setting
    told: dict[str, Any] = {
        "task": setting.task.name,
        "variant": setting.variant,
        "scale": setting.scale,
        "cap": given.cap,
        "modes": given.modes,
        "bound": found.value,
        "exact": found.exact,
        "side": found.side,
        "ceiling": setting.ceiling,
        "states": found.states,
        "how": found.how,
    }
    if given.machine is not None:
        from pomp.machine.evaluation import evaluate

        evaluation = evaluate(given.machine, scale=setting.scale)
        told["return"] = evaluation.mean
        if given.machine.sensors:
            told["sensors"] = given.machine.sensors
        told["episodes"] = len(evaluation.returns)
        told["all starts"] = evaluation.is_exact
    return told


def _text(told: dict[str, Any]) -> str:
    """Return the same as text."""
    times = f" x{told['scale']}" if told["scale"] > 1 else ""
    modes = f"{len(told['modes'])} mode{'s' if len(told['modes']) > 1 else ''}"
    kind = "exact" if told["exact"] else f"a {told['side']} bound of it"
    lines = [
        f"{told['task']}{times} ({told['variant']}, {told['cap']}), {modes}",
        f"the best transitions earn {told['bound']:.6f}{_SIDES[told['side']]}"
        f"{in_brackets(kind, tell_share(told['bound'], told['ceiling']))}",
        f"{told['states']:,} states; {told['how']}" if told["states"] else told["how"],
    ]
    if "return" in told:
        rules = f" by rules, {told['sensors']}" if "sensors" in told else ""
        played = "all starts" if told["all starts"] else f"{told['episodes']} episodes"
        lines.append(f"the machine's transitions earn {told['return']:.6f} in {played}{rules}")
    return "\n".join(lines)
