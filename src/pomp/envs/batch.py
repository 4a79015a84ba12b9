"""A batch of episodes of one task: what all environments stand on."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import gymnasium as gym
import numpy as np
from numpy.typing import NDArray

from pomp.core.compiling import launch, parts_for
from pomp.core.errors import ConfigError
from pomp.core.streams import Purpose, open_streams, seed_streams
from pomp.engine.lanes import StepResults
from pomp.engine.loading import kernels_of
from pomp.engine.starts import begin, reset
from pomp.karel.dynamics import FIRST_SLOT, PAY, SCORE, SUM, UNIT, VALUE, WHOLE, value
from pomp.karel.observation import observe
from pomp.karel.render import draw_map
from pomp.karel.world import Map, WorldBatch, memory_of
from pomp.tasks.catalog import find_task
from pomp.tasks.task import Setting, Task

LEAST_WORLDS = 256  # below which another thread does not pay
RENDER_MODES = ("ansi", "rgb_array")
EVALUATION_SEED, EPISODE = "evaluation_seed", "episode"
"""Options of `reset`: begin with the starts of evaluations with this seed, from this one on."""

START = "start"
"""Option of `reset`: the `Map` that all worlds begin with, instead of starts that are drawn."""

_value: Any = getattr(value, "py_func", value)  # not compiled: it takes arrays, too


def resolve_setting(
    task: str | Task | Setting,
    variant: str | None,
    options: Mapping[str, object] | None,
    size: tuple[int, int] | None,
    scale: int,
) -> Setting:
    """Return the setting an environment was asked for.

    Args:
        task: a setting, which is taken as it is, or a task or its name.
        variant: of the task; None: the default.
        options: of the variant, where they differ from its defaults.
        size: rows and columns of the grid; None: the task's own.
        scale: how much longer the task is.
    """
    if isinstance(task, Setting):
        return task
    found = task if isinstance(task, Task) else find_task(task)
    return found.configure(variant, options, size, scale)


def world_space(setting: Setting, channels: int) -> gym.spaces.Box:
    """Return the space of one world's observations, `[C, H, W]` uint8."""
    return gym.spaces.Box(0, 1, (channels, setting.height, setting.width), np.uint8)


def streams_of(seeds: Iterable[int]) -> NDArray[np.uint64]:
    """Return the random streams of seeds, `[B]` uint64.

    A world's stream depends on its own seed alone, wherever it stands in a batch.

    Raises:
        ConfigError: a seed is negative.
    """
    given = np.array([int(seed) for seed in seeds], np.int64)
    if len(given) and given.min() < 0:
        raise ConfigError(f"a seed must not be negative, got {given.min()}")
    # A seed's stream is that of world 0, so the seed itself is the index that varies.
    return seed_streams(Purpose.ENVIRONMENT, given)


def evaluation_streams(options: Mapping[str, Any] | None, count: int) -> NDArray[np.uint64] | None:
    """Return the streams of starts that evaluations play, `[B]` uint64, if `options` ask for them.

    Args:
        options: of `reset`: `evaluation_seed` is the seed of `pomp eval`; world i has its start
            number `episode` + i, where `episode` is 0 unless it is given.
        count: B.

    Raises:
        ConfigError: a number is negative or not whole.
    """
    if not options or EVALUATION_SEED not in options:
        return None
    seed, first = options[EVALUATION_SEED], options.get(EPISODE, 0)
    for name, number in ((EVALUATION_SEED, seed), (EPISODE, first)):
        if not isinstance(number, int | np.integer) or number < 0:
            raise ConfigError(f"{name} is a whole number, not negative, got {number!r}")
    return open_streams(Purpose.EVALUATION, int(seed), worlds=int(first) + count)[first:]


def start_of(options: Mapping[str, Any] | None) -> Map | None:
    """Return the start that `options` of `reset` ask for, if they do.

    Raises:
        ConfigError: it is no map.
    """
    start = (options or {}).get(START)
    if start is not None and not isinstance(start, Map):
        raise ConfigError(f"{START} is a pomp.Map, got {start!r:.80}")
    return start


def check_render_mode(mode: str | None) -> str | None:
    """Return a render mode that environments have.

    Raises:
        ConfigError: they do not have it.
    """
    if mode is not None and mode not in RENDER_MODES:
        listed = " or ".join(f"'{name}'" for name in RENDER_MODES)
        raise ConfigError(f"render_mode must be {listed}, got '{mode}'")
    return mode


def render(worlds: WorldBatch, world: int, mode: str | None) -> Any:
    """Return one world as text (`ansi`) or picture (`rgb_array`); None without a mode.

    A picture is `[rows, columns, 3]` uint8, in pixels.
    """
    if mode == "ansi":
        return worlds.to_text(world)
    return np.asarray(draw_map(worlds.map_of(world))) if mode == "rgb_array" else None


def check_actions(actions: Any, count: int, choices: int) -> NDArray[np.int64]:
    """Return one action for each world.

    Args:
        actions: `[B]` integers below `choices`, of any type NumPy can read.
        count: B.
        choices: how many actions there are.

    Returns:
        `[B]` int64.

    Raises:
        ConfigError: they have another shape, are no integers, or are out of range.
    """
    chosen = np.asarray(actions)
    if chosen.shape != (count,) or not np.issubdtype(chosen.dtype, np.integer):
        got = f"{chosen.dtype} of shape {chosen.shape}"
        raise ConfigError(f"actions must be integers of shape ({count},), got {got}")
    if count and not 0 <= chosen.min() <= chosen.max() < choices:
        raise ConfigError(f"actions are numbers from 0 to {choices - 1}, got {chosen.tolist()[:8]}")
    return chosen.astype(np.int64)


class EnvBatch:
    """B episodes side by side on the CPU; one that has ended starts anew at its next step.

    Attributes:
        setting: the task.
        limit: actions after which an episode is truncated.
        worlds: the states; None before the first `begin`.
        is_over: `[B]` bool, whether the last step ended the episode.
    """

    def __init__(self, setting: Setting, count: int, limit: int, threads: int | None) -> None:
        """Prepare `count` episodes, on so many CPU threads (None: all)."""
        self.setting, self.limit, self._threads = setting, limit, threads
        self._constants: list[int] = setting.constants.tolist()
        self.worlds: WorldBatch | None = None
        self.is_over = np.zeros(count, np.bool_)

    def begin(
        self,
        streams: NDArray[np.uint64],
        chosen: NDArray[np.bool_] | None = None,
        start: Map | None = None,
    ) -> None:
        """Start episodes.

        Args:
            streams: `[B]` uint64, from which the starts are drawn.
            chosen: `[B]` bool, which of them start anew; None: all.
            start: with what they start; None: it is drawn.
        """
        given = [start] * len(streams) if start else None
        fresh = begin(self.setting, given, streams) if given else reset(self.setting, streams)
        if self.worlds is None or chosen is None:
            self.worlds = fresh
            self.is_over[:] = False
            return
        for mine, theirs in zip(memory_of(self.worlds), memory_of(fresh), strict=True):
            mine[chosen] = theirs[chosen]
        self.is_over[chosen] = False

    def step(
        self, actions: NDArray[np.int64]
    ) -> tuple[NDArray[np.float64], NDArray[np.bool_], NDArray[np.bool_]]:
        """Take one action in every world.

        Args:
            actions: `[B]` int64; not read where an episode starts anew.

        Returns:
            Rewards `[B]` float64, terminated `[B]` bool, truncated `[B]` bool.
        """
        worlds = self.worlds
        assert worlds is not None
        count = len(worlds)
        rewards = np.empty(count, np.float64)
        terminated, truncated = np.empty(count, np.bool_), np.empty(count, np.bool_)
        play_worlds = kernels_of(self.setting.task).play_worlds
        parts = parts_for(count, self._threads, least=LEAST_WORLDS)
        edges = [count * part // parts for part in range(parts + 1)]
        results = StepResults(self.is_over, rewards, terminated, truncated)

        def play_part(part: int) -> None:
            play_worlds(
                edges[part], edges[part + 1], actions, self.limit, self.setting.constants,
                memory_of(worlds), results,
            )  # fmt: skip

        launch(parts, play_part)
        return rewards, terminated, truncated

    def observe(self, channels: int) -> NDArray[np.uint8]:
        """Return what is seen of all worlds, `[B, C, H, W]` uint8 with C `channels`."""
        assert self.worlds is not None
        planes: NDArray[np.uint8] = observe(self.worlds, channels, threads=self._threads)
        return planes

    def info(self) -> dict[str, NDArray[Any]]:
        """Return what there is to know about the episodes, `[B]` each.

        `return` is what the episode is worth so far, `progress` the same without costs and fines:
        the share of all there is to earn, and `actions` how many primitive ones were taken.
        """
        assert self.worlds is not None
        constants, memory = self._constants, self.worlds.memory[:, :FIRST_SLOT]
        if len(memory) > 1 and constants[VALUE] == SUM:  # whole numbers, which floats hold exactly
            columns = np.array(memory.T, np.float64, order="C")
            returns, progress = _value(columns, constants), _progress(columns, constants)
        else:
            rows = memory.tolist()
            returns = np.array([_value(row, constants) for row in rows])
            progress = np.array([_progress(row, constants) for row in rows])
        return {"return": returns, "progress": progress, "actions": self.worlds.actions.copy()}


def _progress(memory: Any, constants: Sequence[int]) -> Any:
    """Return what was earned, as `value` does, but whatever it cost."""
    is_paid = constants[VALUE] == SUM
    pay, whole = (constants[PAY], constants[WHOLE]) if is_paid else (1, 1)
    return memory[SCORE] * pay / (memory[UNIT] * whole)
