"""Worlds in which modes run: the macro decision process of a machine, in place, on any device.

A macro step runs the chosen program to its end or its cap, or ends the episode. Arrays are on the
worlds' device; a network's tensors can share their memory.
"""

from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pomp.core.arrays import check_array, check_streams
from pomp.core.compiling import Kernel, launch, parts_for, pieces_for
from pomp.core.cuda import (
    THREADS,
    as_launchable,
    as_launchable_group,
    blocks_for,
    empty_on_device,
    fill,
    to_device,
    to_host,
)
from pomp.core.errors import ConfigError
from pomp.dsl.bytecode import compile_programs
from pomp.dsl.syntax import Program
from pomp.engine.checks import check_worlds
from pomp.engine.lanes import BY_LIMIT, EpisodeState, MacroSteps
from pomp.engine.loading import constants_on_device, cuda_kernels_of, kernels_of
from pomp.engine.starts import reset_again
from pomp.karel.interpreter import Cap
from pomp.karel.sensors import READING_TYPE, Sensor
from pomp.karel.world import WorldBatch, Worlds, memory_of
from pomp.machine.config import EpisodeConfig
from pomp.tasks.task import Setting

LAST_WORDS = "DEF run m( turnLeft turnLeft turnLeft turnLeft m)"
_LEAST_WORLDS = 64  # below which another thread does not pay
_CHOICE = np.dtype(np.int64)
_STATE = (np.int64, np.int32, np.uint8, np.float64, np.float64, np.uint8, np.int32, np.int32)

_WRONG = {
    "mode": "the last mode of an episode is none of its modes",
    "taken": "an episode has taken other than 0 to {} macro steps",
    "ending": "an episode ends in other ways than 0 to {}",
    "idle": "whether a mode was idle is 0 or {}",
}


class Episodes:
    """B worlds, each with its own set of modes.

    Attributes:
        setting: the task.
        worlds: their states.
        config: how machines act.
        mode: `[B]` int64, the mode that ran last; -1 before the first.
        taken: `[B]` int32, the macro steps of the episode so far.
        ending: `[B]` uint8, 0 while the episode goes on, else what ended it with the last step:
            `BY_CHOICE`, `BY_LIMIT` or `BY_TASK`.
        rewards: `[B]` float64, what the last step earned.
        returns: `[B]` float64, what the episode has earned up to the last step.
        idle: `[B]` uint8, 1 if the mode that ran last took no action; 0 before the first.
        acted: `[B]` int32, how many actions the last step took.
        cuts: `[B]` int32, how many programs of the episode were stopped by their cap.
    """

    def __init__(
        self,
        setting: Setting,
        sets: Sequence[Sequence[str | Program]],
        worlds: WorldBatch,
        config: EpisodeConfig,
        *,
        restarts: bool,
        until_done: bool = False,
        threads: int | None = None,
    ) -> None:
        """Begin an episode in every world.

        Args:
            setting: the task.
            sets: mode sets; the worlds are dealt out to them in equal shares, in order.
            worlds: start states, which will be changed.
            config: how machines act.
            restarts: whether a new episode begins where one has ended.
            until_done: whether an episode also ends when the task is done.
            threads: CPU threads to use; None: all.

        Raises:
            ConfigError: the worlds cannot be dealt out, or do not fit the task.
        """
        check_worlds(setting, worlds)
        if not isinstance(config, EpisodeConfig):
            raise ConfigError(f"expected an EpisodeConfig, got a {type(config).__name__}")
        if isinstance(sets, str) or any(isinstance(modes, str | Program) for modes in sets):
            raise ConfigError("mode sets are lists of lists of programs; put brackets around each")
        if not sets or not all(sets) or len(worlds) % len(sets):
            raise ConfigError(f"{len(worlds)} worlds cannot be dealt out to {len(sets)} mode sets")
        self.setting, self.worlds, self.config = setting, worlds, config
        share = len(worlds) // len(sets)
        counts = np.array([len(modes) for modes in sets])
        self._code = compile_programs([*(one for modes in sets for one in modes), LAST_WORDS])
        self._threads = threads
        first = np.repeat(np.cumsum(counts) - counts, share).astype(np.int32)
        modes = np.repeat(counts, share).astype(np.int32)
        self._most_choice, self._is_wrong = modes.astype(np.uint64), np.empty(len(worlds), np.bool_)
        last_words = len(self._code) - 1 if config.last_words else -1
        most = config.most_steps * setting.stretch
        cap, code = Cap.of(config.cap), self._code.instructions
        self._macro = MacroSteps(code, first, modes, last_words, cap, most, restarts, until_done)
        state: Any = self._first_state()
        if worlds.device == "cuda":
            self._macro = self._macro._replace(
                code=self._code.on_device, first=to_device(first), modes=to_device(modes)
            )
            state = map(to_device, state)
        self.mode, self.taken, self.ending, *rest = state
        self.rewards, self.returns, self.idle, self.acted, self.cuts = rest

    def _first_state(self) -> list[NDArray[Any]]:
        """Return `state` as it is before the first step, `[B]` each."""
        state = [np.zeros(len(self.worlds), dtype) for dtype in _STATE]
        state[0][:] = -1
        return state

    def restart(self, streams: NDArray[np.uint64]) -> None:
        """Begin new episodes in place.

        Args:
            streams: `[B]` uint64, from which the worlds draw their starts; read.
        """
        reset_again(self.setting, self.worlds, check_streams(streams, len(self)))
        for array, first in zip(self.state, self._first_state(), strict=True):
            fill(array, first)

    def restore(self, worlds: dict[str, NDArray[Any]], state: dict[str, NDArray[Any]]) -> None:
        """Go on from states that were written down, in place.

        Args:
            worlds: the arrays of `WorldBatch` by name, `[B, ...]` each.
            state: some of `EpisodeState` by name, `[B]` each.

        Raises:
            ConfigError: a number of an episode is none.
            WorldError: the worlds are no states of the task.
        """
        kind = (self.worlds.task, self.worlds.height, self.worlds.width)
        fresh = WorldBatch(*kind, *(worlds[name] for name in Worlds._fields))
        check_array("poses", fresh.pose, np.int32, (len(self),))
        check_worlds(self.setting, fresh)
        last = to_host(self._macro.modes) - 1
        most = {"mode": last, "taken": self._macro.most, "ending": BY_LIMIT, "idle": 1}
        for name, dtype in zip(EpisodeState._fields, _STATE, strict=True):
            if name not in state:
                continue
            array, least = state[name], -1 if name == "mode" else 0
            check_array(name, array, dtype, (len(self),))
            if name in most and not ((array >= least) & (array <= most[name])).all():
                raise ConfigError(_WRONG[name].format(most[name]))
        for array, one in zip(memory_of(self.worlds), memory_of(fresh), strict=True):
            fill(array, one)
        for name, array in state.items():
            fill(getattr(self, name), array)

    def __len__(self) -> int:
        return len(self.worlds)

    @cached_property
    def state(self) -> EpisodeState:
        """The arrays of this class, `[B]` each, as compiled code takes them."""
        ends = (self.mode, self.taken, self.ending)
        return EpisodeState(*ends, self.rewards, self.returns, self.idle, self.acted, self.cuts)

    def step(self, choices: Any) -> None:
        """Take one macro step in every world.

        Args:
            choices: `[B]` int64, a mode's number, or the number of modes to end the episode. On a
                GPU, that they are such numbers is the caller's promise.

        Raises:
            ConfigError: they are none.
        """
        if self.worlds.device == "cuda":
            self.stepper(choices)(0)
            return
        self._check_choices(choices)
        take_modes, parts, edges = self._launched

        def step_piece(piece: int) -> None:
            take_modes(
                edges[piece], edges[piece + 1], self._macro, choices, self.setting.constants,
                memory_of(self.worlds), self.state, np.empty(max(self._code.depth, 1), np.int32),
            )  # fmt: skip

        launch(parts, step_piece, len(edges) - 1)

    @cached_property
    def _launched(self) -> tuple[Kernel, int, list[int]]:
        """What every step on the CPU launches: the kernel, on how many threads, and its pieces."""
        parts = parts_for(len(self), self._threads, least=_LEAST_WORLDS)
        pieces = pieces_for(parts, len(self) * self._macro.cap.limit)
        edges = [len(self) * piece // pieces for piece in range(pieces + 1)]
        return kernels_of(self.setting.task).take_modes, parts, edges

    def _check_choices(self, choices: Any) -> None:
        """Refuse choices that are none; what is chosen in an episode that is over does not matter.

        Raises:
            ConfigError: says what they must be.
        """
        shape = self._most_choice.shape
        is_array = isinstance(choices, np.ndarray)  # asked first: it is far cheaper than all of it
        if not is_array or choices.dtype != _CHOICE or choices.shape != shape:
            check_array("choices", choices, _CHOICE, shape)
        # A number below zero is a large one without its sign: one comparison finds both.
        is_wrong = np.greater(choices.view(np.uint64), self._most_choice, self._is_wrong)
        if not np.count_nonzero(is_wrong):
            return
        if not self._macro.restarts:
            is_wrong &= self.ending == 0
        if is_wrong.any():
            which = int(np.argmax(is_wrong))
            most = f"0 to {self._macro.modes[which]}, the end"
            raise ConfigError(f"choices are modes from {most}, got {choices[which]}")

    def stepper(self, choices: Any) -> Callable[[Any], None]:
        """Prepare a step on a GPU that can be launched often.

        Args:
            choices: `[B]` int64, read anew by every launch.

        Returns:
            What launches a step on a stream.
        """
        kernel = cuda_kernels_of(self.setting, self._code.depth).take_modes
        arguments = (
            as_launchable_group(self._macro),
            as_launchable(choices),
            constants_on_device(self.setting),
            as_launchable_group(memory_of(self.worlds)),
            as_launchable_group(self.state),
        )
        return lambda stream: kernel[blocks_for(len(self)), THREADS, stream](*arguments)

    def sense(self, out: Any = None, *, compass: bool = True, own: tuple[Sensor, ...] = ()) -> Any:
        """Compute the readings of all sensors, as `pomp.karel.sensors` packs them.

        Args:
            out: `[B]` int16, written; None: a new array.
            compass: whether to look for the nearest marker, which takes longest.
            own: sensors of one's own.

        Returns:
            `[B]` int16.
        """
        if self.worlds.device == "cuda":
            senses = empty_on_device(len(self), READING_TYPE) if out is None else out
            self.sensor(senses, compass=compass, own=own)(0)
            return senses
        senses = np.empty(len(self), READING_TYPE) if out is None else out
        check_array("out", senses, READING_TYPE, (len(self),))
        kernels_of(self.setting.task, own).sense_worlds(
            self.setting.constants, memory_of(self.worlds), self.idle, compass, senses
        )
        return senses

    def sensor(
        self, out: Any, *, compass: bool = True, own: tuple[Sensor, ...] = ()
    ) -> Callable[[Any], None]:
        """Prepare `sense` on a GPU as something that can be launched often.

        Args:
            out: `[B]` int16, written by every launch.
            compass: whether to look for the nearest marker.
            own: sensors of one's own.

        Returns:
            What launches it on a stream.
        """
        kernel, constants = (
            cuda_kernels_of(self.setting, own=own).sense_worlds,
            constants_on_device(self.setting),
        )
        worlds = as_launchable_group(memory_of(self.worlds))
        given = (constants, worlds, as_launchable(self.idle), compass, as_launchable(out))
        return lambda stream: kernel[blocks_for(len(self)), THREADS, stream](*given)
