"""`pomp eval`."""

import json
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated, Any

from tyro.conf import Positional, arg

from pomp.cli.inputs import Allowed, Device, check_episodes, check_seed
from pomp.cli.output import say
from pomp.cli.progress import ProgressLine
from pomp.cli.shares import count_episodes, in_brackets, tell_share
from pomp.core.configs import parse_size
from pomp.core.errors import ConfigError
from pomp.core.extras import LEARN, require

if TYPE_CHECKING:
    from pomp.machine.evaluation import Evaluation
    from pomp.machine.policy import ProgramMachine
    from pomp.tasks.task import Setting


@dataclass(frozen=True, kw_only=True)
class Eval:
    """Play episodes of a machine and print what they are worth."""

    machine: Annotated[Positional[str], arg(metavar="MACHINE|zoo:TASK")]
    """A machine's folder or file (*.machine), or one that comes with the package; or the folder of
    a policy of HPRL."""
    episodes: int | None = None
    """How many are drawn. Without it and without --seed every start is played once, where there
    are at most 1,000 and nothing else is random; else 100 for a Karel-Long task, 32 for another."""
    seed: int | None = None
    """Of drawn starts and choices (0 if only --episodes is given)."""
    scale: int = 1
    """How many times longer the task is than in training: 1, 2, 4, 8 or 16."""
    size: Annotated[str | None, arg(metavar="HxW")] = None
    """Rows and columns of the grid, if not those the machine was made for."""
    cap: Annotated[str | None, arg(metavar="callsN|actionsN")] = None
    """How long one program may run, if not as the machine has it: calls217, calls10000, ..."""
    greedy: bool = False
    """Take the likeliest choice instead of drawing one."""
    exact: bool = False
    """All starts, weighted with their probabilities, and the likeliest choices."""
    random: bool = False
    """Choose the next mode, or the end, at random: the paper's Random Transition."""
    device: Device = "cpu"
    """Where it runs."""
    allow: Allowed = ()
    """A module that the file may name as the home of its task or a sensor, and that is run then."""
    json: bool = False
    """Print one JSON document."""

    def run(self) -> int:
        """Evaluate, then print."""
        check_episodes(self.episodes)
        check_seed(self.seed)
        if self.exact and (
            self.episodes is not None or self.seed is not None or self.device == "cuda"
        ):
            raise ConfigError("--exact takes every start once, on the CPU: no --episodes or --seed")
        from pomp.hprl.config import holds_policy
        from pomp.machine.evaluation import evaluate_exactly
        from pomp.machine.zoo import load_machine

        if holds_policy(self.machine):
            return self._evaluate_policy()
        machine = load_machine(self.machine, self.allow)
        made_for = machine.configure()
        if self.size is not None:
            machine = replace(machine, size=parse_size(self.size))
        if self.random:
            if self.greedy or self.exact:
                raise ConfigError("--random goes without --greedy and --exact")
            from pomp.learning.random_transition import randomise

            machine = randomise(machine)
        if self.exact:
            found = evaluate_exactly(machine, scale=self.scale, cap=self.cap)
        else:
            found = _evaluate(
                machine,
                episodes=self.episodes,
                seed=self.seed,
                scale=self.scale,
                cap=self.cap,
                greedy=self.greedy,
                device=self.device,
            )
        told = found.to_json() | _about(machine.under(self.cap), made_for)
        name = machine.task.name
        say(json.dumps(told) if self.json else _text(name, self.scale, told))
        return 0

    def _evaluate_policy(self) -> int:
        """Evaluate a policy that writes its programs itself."""
        require(LEARN, "a policy with a network")
        from pomp.hprl.policy import MetaPolicy

        is_changed = self.scale != 1 or self.size is not None or self.cap is not None
        if is_changed or self.exact or self.random:
            raise ConfigError(
                "a policy that writes its programs itself is evaluated as it was trained: without "
                "--scale, --size, --exact, --random and --cap"
            )
        policy = MetaPolicy.load(self.machine, self.allow)
        found = policy.evaluate(
            episodes=self.episodes, seed=self.seed, greedy=self.greedy, device=self.device
        )
        told = found.to_json()
        del told["endings"], told["clean"]  # it never chooses to end
        name = policy.setting.task.name
        say(json.dumps(told) if self.json else _text(name, self.scale, told))
        return 0


def _about(machine: "ProgramMachine", made_for: "Setting") -> dict[str, Any]:
    """The cap, what chooses, what rules ask for, and what is unusual about the grid."""
    setting = machine.configure()
    own, size = (made_for.height, made_for.width), (setting.height, setting.width)
    told: dict[str, Any] = {"cap": machine.episode.cap, "transitions": machine.transition.kind}
    if machine.sensors:
        told["sensors"] = machine.sensors
    if size != own:
        told["grid"] = f"{_grid(size)}, the machine was made for {_grid(own)}"
    elif not setting.is_own_size:
        told["grid"] = f"{_grid(size)}, the task's own is {_grid(setting.task.size)}"
    return told


def _evaluate(machine: "ProgramMachine", *, scale: int, **options: Any) -> "Evaluation":
    """Evaluate, and say how far it is if it takes long."""
    from pomp.machine.evaluation import evaluate

    progress = ProgressLine(machine.task.name, 1)
    most = machine.episode.most_steps * machine.configure(scale).stretch

    def watch(steps: int, over: int) -> None:
        progress.share(0, steps / most, lambda: f"at most; {over} episodes are over")

    try:
        return evaluate(machine, scale=scale, watch=watch, **options)
    finally:
        progress.close()


def _tell_cuts(told: dict[str, Any]) -> str:
    """Say how many programs the cap stopped, and whether the machine was clean."""
    cap = f" ({told['cap']})" if "cap" in told else ""
    if told.get("clean"):
        return f"clean: no program was cut by its cap{cap}, and the machine ended by itself"
    if told["cuts"] == 0:
        return f"no program was cut by its cap{cap}"
    return f"{told['cuts']:.4g} programs an episode were cut by their cap{cap}"


def _grid(size: tuple[int, int]) -> str:
    return f"{size[0]}x{size[1]}"


def _text(task: str, scale: int, told: dict[str, Any]) -> str:
    times = f" x{scale}" if scale > 1 else ""
    low, high = told["interval"]
    interval = "" if told["exact"] else f", 95 % interval {low:.4f} to {high:.4f}"
    kind = "exact return" if told["exact"] else "mean return"
    share = in_brackets(tell_share(told["mean"], told["ceiling"]))
    stopped = told.get("endings", {}).get("at the limit", 0)
    lines = [
        f"{task}{times}: {kind} {told['mean']:z.6f}{share}",
        f"{count_episodes(told)}: std {told['std']:.4f}{interval}; "
        f"{told['programs']:.1f} programs and {told['actions']:.1f} actions on average",
    ]
    if "sensors" in told:
        lines.append(f"transitions by rules: {told['sensors']}")
    elif "transitions" in told:
        lines.append(f"transitions by a {told['transitions']}")
    if "cuts" in told:
        lines.append(_tell_cuts(told))
    if "grid" in told:
        lines.append(f"grid {told['grid']}")
    if stopped:
        were = "was" if stopped == 1 else "were"
        lines.append(
            f"{stopped} of them never chose to end and {were} stopped at the limit of programs"
        )
    return "\n".join(lines)
