"""`pomp run`."""

import json
from dataclasses import dataclass
from math import fsum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from tyro.conf import Positional, arg

from pomp.cli.inputs import (
    Changes,
    check_output,
    check_seed,
    parse_options,
    read_map,
    read_program,
)
from pomp.cli.output import say
from pomp.cli.progress import ProgressLine
from pomp.cli.shares import in_brackets, tell_share
from pomp.core.configs import parse_size
from pomp.core.errors import ConfigError

if TYPE_CHECKING:
    from pomp.dsl.bytecode import Code
    from pomp.engine.recording import Trace
    from pomp.engine.rollouts import Rollout
    from pomp.karel.interpreter import Cap
    from pomp.karel.world import WorldBatch
    from pomp.tasks.task import Setting

MAX_STARTS_ASKED = 10_000_000
MAX_FRAMES = 1_000  # of an animation
_CHUNK, _CHUNK_ACTIONS = 100_000, 200_000_000  # starts, and actions at most, run at once


@dataclass(frozen=True, kw_only=True)
class Run:
    """Run a program on a task and print its return."""

    task: Annotated[Positional[str], arg(metavar="TASK")]
    """Task name, as listed by `pomp tasks`, or module:NAME for a task of your own."""
    program: Annotated[Positional[str], arg(metavar="PROGRAM|FILE|-")]
    """The program's text (it begins with DEF), a file (# begins a comment), or - for standard
    input."""
    cap: str = "calls220"
    """How long the program may run: callsN (calls220, calls500) or actionsN."""
    variant: Annotated[str | None, arg(metavar="VARIANT")] = None
    """The task's variant; see `pomp tasks`."""
    option: Changes = ()
    """An option of the task, any number of times; see `pomp tasks`."""
    size: Annotated[str | None, arg(metavar="HxW")] = None
    """HEIGHTxWIDTH of the grid, walls included."""
    scale: int = 1
    """Horizon of a long task: 1, 2, 4, 8 or 16 times."""
    starts: int = 32
    """How many start states are drawn."""
    seed: int = 0
    """Seed of the start states and of everything random in them."""
    exact: bool = False
    """Use every start state, weighted with its probability."""
    threads: Annotated[int | None, arg(metavar="N")] = None
    """CPU threads (default: all); the result does not depend on it."""
    world: Annotated[str | None, arg(metavar="FILE")] = None
    """Start from the map in this file: # wall, . free, 1-9 markers, ^>v< agent (nesw: on one)."""
    gif: Annotated[str | None, arg(metavar="FILE")] = None
    """Write an animation of the first start to this file, a .gif or .mp4."""
    trace: bool = False
    """Print every action of the first start."""
    json: bool = False
    """Print one JSON document."""

    def run(self) -> int:
        """Check everything, then run, then print."""
        setting, limits, code, gif = self._check()
        from pomp.engine.rollouts import rollout

        probabilities = None
        if self.exact:
            worlds, probabilities = self._all_starts(setting)
            result = rollout(
                setting, code, worlds, cap=limits, keep_worlds=True, threads=self.threads
            )
            assert result.worlds is not None
            if (result.worlds.stream != worlds.stream).any():
                raise ConfigError(
                    f"with this program {setting.task.name} draws at random during the run, so no "
                    "list of starts gives an exact return; leave out --exact and use --starts"
                )
            first = worlds.take([0])
        else:
            result, first = self._drawn_starts(setting, code, limits)
        trace = self._record(setting, code, limits, first) if self.trace or gif else None
        if gif:
            assert trace is not None
            _animate(setting, first, trace, gif)
        summary = _summarise(self, setting, result, probabilities)
        if self.json:
            if self.trace:
                assert trace is not None
                summary["trace"] = _rows(code, trace)
            say(json.dumps(summary))
        else:
            if self.trace:
                assert trace is not None
                _print_trace(_rows(code, trace))
            _print_summary(setting, limits, summary)
            if gif:
                say(f"wrote {gif}")
        return 0

    def _check(self) -> "tuple[Setting, Cap, Code, Path | None]":
        """Everything that can be wrong, before anything is compiled or run."""
        from pomp.dsl.parser import parse
        from pomp.karel.interpreter import Cap
        from pomp.tasks.catalog import find_task

        task = find_task(self.task)
        size = None if self.size is None else parse_size(self.size)
        if self.world:
            size = size or _map_size(self.world)
        setting = task.configure(self.variant, parse_options(self.option), size, self.scale)
        limits = Cap.parse(self.cap)
        if not 1 <= self.starts <= MAX_STARTS_ASKED:
            raise ConfigError(f"--starts must be in 1..{MAX_STARTS_ASKED}, got {self.starts}")
        check_seed(self.seed)
        if self.threads is not None and self.threads < 1:
            raise ConfigError(f"--threads must be at least 1, got {self.threads}")
        if self.exact and self.world:
            raise ConfigError("--exact lists the task's own starts; leave out --world")
        if self.exact:
            setting.list_starts()
        gif = check_output(self.gif) if self.gif else None
        if gif:
            from pomp.karel.render import check_animation

            check_animation(gif)
        program = parse(read_program(self.program))
        from pomp.dsl.bytecode import compile_programs

        return setting, limits, compile_programs([program], source=True), gif

    def _all_starts(self, setting: "Setting") -> "tuple[WorldBatch, list[float]]":
        from pomp.engine.starts import enumerate_starts

        worlds, starts = enumerate_starts(setting)
        return worlds, [float(start.probability) for start in starts]

    def _drawn_starts(
        self, setting: "Setting", code: "Code", limits: "Cap"
    ) -> "tuple[Rollout, WorldBatch]":
        """Run in chunks, so that a million starts need little memory and show progress."""
        import numpy as np

        from pomp.core.streams import Purpose, open_streams
        from pomp.engine.rollouts import Rollout, rollout
        from pomp.engine.starts import begin, reset
        from pomp.karel.world import Map

        start = Map.from_text(read_map(self.world)) if self.world else None
        results, first_world = [], None
        progress = ProgressLine("starts", self.starts)
        chunk = min(max(_CHUNK_ACTIONS // limits.limit, 1), _CHUNK)
        for first in range(0, self.starts, chunk):
            count = min(chunk, self.starts - first)
            streams = open_streams(Purpose.EVALUATION, self.seed, worlds=count, first=first)
            given = [start] * count if start else None
            worlds = begin(setting, given, streams) if given else reset(setting, streams)
            if first_world is None:
                first_world = worlds.take([0])
            results.append(rollout(setting, code, worlds, cap=limits, threads=self.threads))
            progress.step(parts=count)
        progress.close()
        assert first_world is not None
        joined = Rollout(
            np.concatenate([result.returns for result in results], axis=1),
            np.concatenate([result.actions for result in results], axis=1),
            np.concatenate([result.calls for result in results], axis=1),
            np.concatenate([result.completed for result in results], axis=1),
        )
        return joined, first_world

    def _record(
        self, setting: "Setting", code: "Code", limits: "Cap", first: "WorldBatch"
    ) -> "Trace":
        from pomp.engine.recording import record

        kept = None if self.trace else MAX_FRAMES
        return record(
            setting, code, first, cap=limits, most_actions=kept, keep_cells=bool(self.gif)
        )


def _map_size(path: str) -> tuple[int, int]:
    from pomp.karel.world import Map

    shape = Map.from_text(read_map(path)).grid.shape
    return int(shape[0]), int(shape[1])


def _summarise(
    command: Run, setting: "Setting", result: "Rollout", probabilities: list[float] | None
) -> dict[str, Any]:
    from pomp.cli.tasks import plain

    returns = result.returns[0].tolist()
    if probabilities is None:
        mean = fsum(returns) / len(returns)
    else:
        mean = fsum(p * value for p, value in zip(probabilities, returns, strict=True))
    summary: dict[str, Any] = {
        "task": setting.task.name,
        "variant": setting.variant,
        "options": {name: plain(value) for name, value in setting.options.items()},
        "size": [setting.height, setting.width],
        "scale": setting.scale,
        "cap": command.cap,
        "seed": command.seed,
        "exact": probabilities is not None,
        "mean": mean,
        "ceiling": None if command.world else setting.ceiling,
        "returns": returns,
        "actions": result.actions[0].tolist(),
        "calls": result.calls[0].tolist(),
        "completed": result.completed[0].tolist(),
    }
    if probabilities is not None:
        summary["probabilities"] = probabilities
    return summary


def _print_summary(setting: "Setting", limits: "Cap", summary: dict[str, Any]) -> None:
    from pomp.cli.tasks import show

    returns, actions = summary["returns"], summary["actions"]
    chosen = "".join(f" {name}={show(value)}" for name, value in summary["options"].items())
    size = f"{setting.height}x{setting.width}"
    scale = f" x{setting.scale}" if setting.scale > 1 else ""
    say(f"{setting.task.name}{scale} ({setting.variant}{chosen}, {size}, {limits})")
    kind = "exact return" if summary["exact"] else "mean return"
    share = tell_share(summary["mean"], summary["ceiling"], digits=0)
    say(f"{kind} {summary['mean']:z.6f}{in_brackets(share)}")
    say(
        f"{len(returns)} start{'s' if len(returns) > 1 else ''}: "
        f"returns {min(returns):z.6f} to {max(returns):z.6f}, "
        f"{sum(actions) / len(actions):.1f} actions on average, "
        f"the program came to its end in {sum(summary['completed'])}"
    )


def _rows(code: "Code", trace: "Trace") -> list[dict[str, Any]]:
    """The first lane of a trace, an entry per action."""
    from pomp.dsl.vocabulary import Action

    arrays, width = trace.arrays, trace.worlds.width
    rows = []
    for place in range(int(arrays.length[0])):
        pose, pc = int(arrays.pose[0, place]), int(arrays.pc[0, place])
        rows.append(
            {
                "action": Action(int(arrays.action[0, place])).token,
                "row": (pose >> 2) // width,
                "col": (pose >> 2) % width,
                "facing": "NESW"[pose & 3],
                "reward": float(arrays.reward[0, place]),
                "done": bool(arrays.done[0, place]),
                "counted": bool(arrays.counted[0, place]),
                "token": int(code.source[0, pc]),
                "counters": arrays.counters[0, place, ::2].tolist(),
            }
        )
    return rows


def _print_trace(rows: list[dict[str, Any]]) -> None:
    for number, row in enumerate(rows):
        end = " done" if row["done"] else ""
        place = f"({row['row']},{row['col']}){row['facing']}"
        say(
            f"{number:4d} token {row['token']:<4d} {row['action']:<10} {place:<9} "
            f"reward {row['reward']:+.6f}{end}"
        )


def _animate(setting: "Setting", first: "WorldBatch", trace: "Trace", path: Path) -> None:
    from PIL.Image import Image

    from pomp.karel.render import draw_map, save_animation
    from pomp.karel.world import WorldBatch

    name, arrays = setting.task.name, trace.arrays
    length = min(int(arrays.length[0]), MAX_FRAMES)
    total = 0.0
    progress = ProgressLine("frames", length)

    def draw(place: int) -> Image:
        nonlocal total
        if place < 0:
            return draw_map(first.map_of(0), caption=f"{name}: start")
        world = WorldBatch(
            first.task, first.height, first.width, arrays.cells[:, place], arrays.pose[:, place],
            first.memory, first.stream,
        )  # fmt: skip
        total += float(arrays.reward[0, place])
        progress.step(parts=1)
        caption = f"{name}: action {place + 1}, return {total:+.3f}"
        return draw_map(world.map_of(0), caption=caption)

    try:
        save_animation((draw(place) for place in range(-1, length)), path)
    finally:
        progress.close()
