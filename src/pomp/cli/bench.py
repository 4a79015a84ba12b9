"""`pomp bench`."""

import json
from collections.abc import Callable
from dataclasses import asdict, dataclass
from math import inf
from typing import TYPE_CHECKING, Annotated, Any, Literal

from tyro.conf import Positional, UseAppendAction, arg

from pomp.cli.inputs import Device
from pomp.cli.output import say
from pomp.cli.progress import ProgressLine
from pomp.core.errors import ConfigError
from pomp.core.extras import LEARN, require

_WITH_NETWORKS = ("decode", "search", "train")

if TYPE_CHECKING:
    from pomp.bench.comparison import SpeedRatio


@dataclass(frozen=True, kw_only=True)
class Bench:
    """Measure speed on this machine."""

    what: Positional[Literal["engine", "env", "decode", "search", "train", "evolve"]] = "engine"
    """engine: actions per second of every task, on the CPU beside the plain-Python reference.
    env: steps per second of the environments, beside MiniGrid.
    decode: programs per second of the embedding's decoder, on the CPU beside a naive loop.
    search: candidates per second of searches, and a whole stage 2 (minutes).
    train: macro steps per second of stage 3, playing alone and with learning.
    evolve: whole machines per second of the search for them."""
    task: Annotated[UseAppendAction[tuple[str, ...]], arg(metavar="TASK")] = ()
    """engine and evolve: only this task; may be given several times."""
    device: Device = "cpu"
    """Where it runs; with env, cuda measures the torch environment, too."""
    against: Annotated[str | None, arg(metavar="FILE")] = None
    """Print ratios to a table that --json printed before, as benchmarks/engine_cpu.json; status 1
    if one of them is too low."""
    least: Annotated[float | None, arg(metavar="RATIO")] = None
    """The lowest ratio that is good enough; without it 0.97."""
    force: bool = False
    """Take ratios to a table of other hardware, too."""
    json: bool = False
    """Print one JSON document."""

    def run(self) -> int:
        """Print the table, and the ratios to a stored one."""
        from pomp.bench.comparison import LEAST, compare, read_table
        from pomp.core.cuda import check_device
        from pomp.core.hardware import describe_hardware

        self._check()
        device = check_device(self.device)
        if self.what in _WITH_NETWORKS or (self.what == "env" and device == "cuda"):
            require(LEARN, f"pomp bench {self.what}")
        machine = describe_hardware(device)
        stored = (
            read_table(self.against, self.what, machine, force=self.force) if self.against else None
        )
        table, lines = self._measure(device)
        document: dict[str, Any] = {"machine": machine, **table}
        ratios = compare(table, stored) if stored else []
        least = LEAST if self.least is None else self.least
        slow = [ratio for ratio in ratios if ratio.value < least]
        if self.json:
            against = {"file": self.against, "least": least, "ratios": list(map(_as_json, ratios))}
            say(json.dumps(document | ({"against": against} if ratios else {})))
        else:
            say(", ".join(f"{key} {value}" for key, value in machine.items()))
            say("\n".join(lines))
            if stored:
                say("\n".join(_compared(ratios, least, stored["machine"])))
        return 1 if slow else 0

    def _check(self) -> None:
        """Refuse options that do not go together."""
        if self.least is not None and not 0 < self.least < inf:
            raise ConfigError(f"--least must be a ratio above 0, as 0.97, got {self.least}")
        if not self.against and (self.force or self.least is not None):
            raise ConfigError("--least and --force go with --against FILE")

    def _measure(self, device: str) -> tuple[dict[str, Any], list[str]]:
        """Measure what is asked for; return a table for JSON and as lines."""
        measures: dict[str, Callable[[], tuple[dict[str, Any], list[str]]]] = {
            "engine": self._engine_cuda if device == "cuda" else self._engine,
            "env": lambda: self._env(device),
            "decode": lambda: self._decode(device),
            "search": lambda: self._search(device),
            "train": lambda: self._train(device),
            "evolve": self._evolve_cuda if device == "cuda" else self._evolve,
        }
        return measures[self.what]()

    def _for_tasks(self, measure: Callable[[Any], Any]) -> dict[str, Any]:
        """Measure the tasks one after another."""
        from pomp.tasks.catalog import TASKS, find_task

        tasks = tuple(find_task(name) for name in self.task) or TASKS
        progress = ProgressLine("bench", len(tasks))
        table = {}
        try:
            for place, task in enumerate(tasks):
                progress.step(task.name, parts=min(place, 1))
                table[task.name] = measure(task)
        finally:
            progress.close()
        return table

    def _engine(self) -> tuple[dict[str, Any], list[str]]:
        """Measure the engine on the CPU; like the others, return a table for JSON and as lines."""
        from pomp.bench.engine import EngineBenchConfig, measure

        table = self._for_tasks(lambda task: measure(task, EngineBenchConfig()))
        every = f"{next(iter(table.values())).threads} threads"
        lines = [f"{'task':<14} {'1 thread':>12} {every:>12} {'reference':>12} {'ratio':>8}"]
        for name, speed in table.items():
            one = speed.engine_1_thread_actions_per_second
            both = speed.engine_all_threads_actions_per_second
            slow = speed.reference_actions_per_second
            beside = f" {slow / 1e3:>10.1f} k {one / slow:>7.0f}x" if slow else ""
            lines.append(f"{name:<14} {one / 1e6:>10.1f} M {both / 1e6:>10.1f} M{beside}")
        lines.append("actions per second; random programs, 32 starts each, cap calls220")
        return {"tasks": {name: asdict(speed) for name, speed in table.items()}}, lines

    def _engine_cuda(self) -> tuple[dict[str, Any], list[str]]:
        """Measure the engine on a GPU."""
        from pomp.bench.engine_cuda import measure_cuda

        table = self._for_tasks(measure_cuda)
        heads = ("10 starts", "32 starts", "512 starts", "registers", "local", "MB/M lanes")
        lines = [f"{'task':<14}" + "".join(f"{head:>12}" for head in heads)]
        for name, speed in table.items():
            rates = (speed.starts_10, speed.starts_32, speed.starts_512)
            lines.append(
                f"{name:<14}"
                + "".join(f"{rate / 1e9:>10.1f} G" for rate in rates)
                + f"{speed.registers:>12} {speed.local_bytes:>9} B"
                + f"{speed.bytes_per_million_lanes / 1e6:>12.0f}"
            )
        lines.append("actions per second; random programs, cap calls220")
        return {"tasks": {name: asdict(speed) for name, speed in table.items()}}, lines

    def _decode(self, device: str) -> tuple[dict[str, Any], list[str]]:
        """Measure the embedding's decoder."""
        from pomp.bench.decode import measure_decode

        speeds = measure_decode(device)
        lines = [f"{'programs':>10} {'a second':>12} {'one call':>12} {'naive':>12} {'ratio':>8}"]
        for speed in speeds:
            rate, naive = speed.programs_per_second, speed.naive_programs_per_second
            beside = f"{naive:>12,.0f} {rate / naive:>7.1f}x" if naive else ""
            lines.append(f"{speed.batch:>10} {rate:>12,.0f} {speed.milliseconds:>9.2f} ms {beside}")
        lines.append("greedy decoding of the paper's test split, tokens brought to the CPU")
        return {"decode": [asdict(speed) for speed in speeds]}, lines

    def _search(self, device: str) -> tuple[dict[str, Any], list[str]]:
        """Measure searches for modes."""
        from pomp.bench.search import measure_search

        progress = ProgressLine("bench", 2)
        try:
            speeds, gigabytes = measure_search(
                device, lambda name, share: progress.share(0, share, lambda: name)
            )
        finally:
            progress.close()
        lines = [f"{'seconds':>10} {'candidates':>12} {'a second':>12} {'iterations':>12}"]
        for speed in speeds:
            lines.append(
                f"{speed.wall_seconds:>10.1f} {speed.candidates:>12,} "
                f"{speed.candidates_per_second:>12,.0f} {speed.iterations:>12,}  {speed.what}"
            )
        lines.append(f"memory: {gigabytes:.1f} GB")
        return {"search": [asdict(speed) for speed in speeds], "gigabytes": gigabytes}, lines

    def _train(self, device: str) -> tuple[dict[str, Any], list[str]]:
        """Measure the training of transitions."""
        from pomp.bench.train import CASES, measure_training

        cases = CASES[device]
        progress = ProgressLine("bench", len(cases))
        speeds: list[Any] = []
        for case in cases:
            progress.step(case.what, parts=min(len(speeds), 1))
            speeds.append(measure_training(case, device))
        progress.close()
        lines = [f"{'playing':>12} {'learning':>12}   macro steps a second"]
        for speed in speeds:
            rates = f"{speed.playing_per_second:>12,.0f} {speed.learning_per_second:>12,.0f}"
            whole = speed.minutes_for_20_million
            lines.append(f"{rates}   {speed.what}; 20 M each: {whole:,.0f} minutes")
        return {"train": [asdict(speed) for speed in speeds]}, lines

    def _evolve(self) -> tuple[dict[str, Any], list[str]]:
        """Measure the search for whole machines on the CPU."""
        from pomp.bench.evolve import measure_evolve

        table = self._for_tasks(measure_evolve)
        lines = [f"{'task':<14} {'one core':>10} {'all':>10} {'actions':>10}"]
        for name, speed in table.items():
            rates = f"{speed.one_core_per_second:>10,.0f} {speed.all_cores_per_second:>10,.0f}"
            lines.append(f"{name:<14} {rates} {speed.actions_per_machine:>10,.0f}")
        lines.append("machines per second, and actions of each on average")
        return {"tasks": {name: asdict(speed) for name, speed in table.items()}}, lines

    def _evolve_cuda(self) -> tuple[dict[str, Any], list[str]]:
        """Measure the search for whole machines on a GPU."""
        from pomp.bench.evolve import CUDA_STARTS, measure_evolve_cuda

        table = self._for_tasks(measure_evolve_cuda)
        heads = ("1,024", "8,192", "65,536", "actions", "of each", "registers", "local")
        lines = [f"{'task':<14}" + "".join(f"{head:>11}" for head in heads)]
        for name, speed in table.items():
            rates = (
                speed.chains_1024_per_second,
                speed.chains_8192_per_second,
                speed.chains_65536_per_second,
            )
            lines.append(
                f"{name:<14}"
                + "".join(f"{rate / 1e6:>9.2f} M" for rate in rates)
                + f"{speed.actions_per_second / 1e9:>9.1f} G{speed.actions_per_machine:>11,.0f}"
                + f"{speed.registers:>11} {speed.local_bytes:>8} B"
            )
        lines.append(
            f"machines per second by chains, {CUDA_STARTS} starts each; actions per second"
        )
        return {"tasks": {name: asdict(speed) for name, speed in table.items()}}, lines

    def _env(self, device: str) -> tuple[dict[str, Any], list[str]]:
        """Measure the environments."""
        from pomp.bench.env import CPU_WORLDS, CUDA_WORLDS, PEER_WORLDS, measure_env

        speed = measure_env(cuda=device == "cuda")
        lines = [
            f"KarelVectorEnv, {CPU_WORLDS} worlds: "
            f"{speed.vector_env_steps_per_second / 1e6:.2f} M steps/s"
        ]
        if speed.minigrid_steps_per_second and speed.ratio_to_minigrid:
            lines.append(
                f"MiniGrid-Empty-8x8, {PEER_WORLDS} worlds: "
                f"{speed.minigrid_steps_per_second / 1e3:.1f} k steps/s, "
                f"{speed.ratio_to_minigrid:.0f}x slower"
            )
        else:
            lines.append("MiniGrid is not installed: no peer was measured")
        if speed.torch_env_steps_per_second:
            rate = speed.torch_env_steps_per_second / 1e9
            lines.append(f"KarelTorchEnv, {CUDA_WORLDS} worlds: {rate:.3f} G steps/s")
        return {"env": asdict(speed)}, lines


def _as_json(ratio: "SpeedRatio") -> dict[str, Any]:
    return {**asdict(ratio), "ratio": ratio.value}


def _compared(ratios: "list[SpeedRatio]", least: float, machine: dict[str, str]) -> list[str]:
    """Return the ratios as lines; those that are too low are marked."""
    width = max(len(ratio.row) for ratio in ratios)
    lines = [f"beside {machine['processor']}, {machine['date']}:"]
    for ratio in ratios:
        mark = f"  below {least:g}" if ratio.value < least else ""
        speeds = f"{ratio.now:>16,.0f} {ratio.stored:>16,.0f}"
        lines.append(f"{ratio.row:<{width}} {ratio.value:>6.2f}x {speeds}  {ratio.name}{mark}")
    slow = sum(ratio.value < least for ratio in ratios)
    lines.append(f"{slow} of {len(ratios)} ratios are below {least:g}")
    return lines
