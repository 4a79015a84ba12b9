"""Episodes of macro steps in which each world runs a program of its own, decoded from a latent.

The axes are E members, B worlds of each, and Z numbers of a latent.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from pomp.core.arrays import read_only
from pomp.core.errors import ConfigError
from pomp.core.graphs import Replayed, exact, prepare
from pomp.dsl.bytecode import compile_ids
from pomp.embedding.config import MAX_GENERATED
from pomp.embedding.space import Embedding
from pomp.hprl.config import MetaConfig
from pomp.karel.dynamics import EAST
from pomp.karel.observation import FIRST_COUNT_PLANE
from pomp.karel.world import WorldBatch
from pomp.machine.episodes import Episodes
from pomp.machine.layers import CHANNELS
from pomp.machine.views import Views, as_tensor
from pomp.tasks.task import Setting

VOCABULARY = "hprl"
_LOOPS = (MAX_GENERATED - 4) // 4
_DEEPEST = " ".join(
    ["DEF run m(", *["REPEAT R=2 r("] * _LOOPS, *["move"] * (MAX_GENERATED - 3 - 4 * _LOOPS)]
    + ["r)"] * _LOOPS
    + ["m)"]
)  # as long and as deep as a decoded program can be: it keeps the memory for any other


class ProgramEpisodes(Episodes):
    """B worlds, each of which runs the program that was put there last.

    Attributes:
        code: `[B + 1, L]` uint32, a program for each world, written by others; the last has none.
        first: `[B]` int32, likewise: each world's own row, or -1 where it is no program and the
            next step does nothing.
    """

    def __init__(
        self, setting: Setting, worlds: WorldBatch, config: MetaConfig, *, restarts: bool
    ) -> None:
        """Begin an episode in every world.

        An episode ends after its last program or, if the task's horizon is fixed, when the task is
        done.

        Args:
            setting: the task.
            worlds: start states, which will be changed.
            config: how the policy acts.
            restarts: whether a new episode begins where one has ended.
        """
        sets, until_done = [[_DEEPEST]] * len(worlds), len(setting.task.scales) == 1
        super().__init__(
            setting, sets, worlds, config.episode, restarts=restarts, until_done=until_done
        )
        self.code: Any = self._macro.code
        self.first: Any = self._macro.first
        if worlds.device == "cpu":  # the same memory, which compiled code only reads
            self.code = np.array(self._code.instructions)
            self._macro = self._macro._replace(code=read_only(self.code))


class Played(NamedTuple):
    """What a macro step was, `[E, B]` each; on a GPU the next one overwrites it.

    Attributes:
        is_program: bool, whether the latent was decoded to a program.
        rewards: float64, what it earned.
        ending: uint8, how it ended the episode, as in `Episodes`; 0: not.
        returns: float64, the return of the episode so far.
        acted: int32, how many actions it took.
    """

    is_program: Tensor
    rewards: Tensor
    ending: Tensor
    returns: Tensor
    acted: Tensor


class LatentViews(Views):
    """Several batches of `ProgramEpisodes` as one, in which latents are played.

    Attributes:
        embedding: decodes them, all at once.
        ids: `[E * B, 46]` uint8, the tokens of the programs that ran last.
    """

    def __init__(
        self,
        batches: Sequence[ProgramEpisodes],
        members: int,
        embedding: Embedding,
        config: MetaConfig,
    ) -> None:
        """Allocate what the networks will see.

        Args:
            batches: the episodes, on one device and with grids of one size.
            members: E, among whom all worlds are dealt out in equal shares, in order.
            embedding: the space of programs.
            config: how the policy acts.
        """
        super().__init__(batches, "grid", members)
        self.embedding = embedding
        worlds = batches[0].worlds
        self.ids = np.empty((0, MAX_GENERATED + 1), np.uint8)
        self._counters = None
        if config.observation == "step_counter":
            planes = draw_counters(config.programs, worlds.height, worlds.width)
            self._counters = torch.from_numpy(planes).to(worlds.device)
        self._same = torch.zeros(members, self.actors, dtype=torch.int64, device=worlds.device)
        self._slots = [
            (as_tensor(one.code)[:-1].view(torch.int32), as_tensor(one.first)) for one in batches
        ]  # torch can do little with numbers without a sign
        self._own = [torch.arange(len(one), device=worlds.device) for one in batches]
        self._run = Replayed(self._run_programs, self.changed, self._same.device)

    def taken(self) -> Tensor:
        """Return how many programs ran in each episode, `[E, B]` int64."""
        return self.gather("taken").long()

    def look(self) -> Tensor:
        """Return what the networks see, `[E, B, 8, H, W]` uint8; the next look overwrites it."""
        if self._counters is None:
            return super().look()
        return self._counters[self.taken().clamp(max=len(self._counters) - 1)]

    def play(self, latents: Tensor) -> Played:
        """Decode `latents`, `[E, B, Z]` float32 before tanh, and run the programs."""
        self.ids = self.embedding.decode(torch.tanh(latents).flatten(0, 1))
        code = compile_ids(self.ids, self.embedding.vocabulary)
        written = (np.array(code.instructions).view(np.int32), np.array(code.valid))
        with exact(latents.device):
            return self._run(*(torch.from_numpy(one).to(latents.device) for one in written))

    def _run_programs(self, code: Tensor, is_program: Tensor) -> Played:
        """Give every world its program, `code` `[E * B, L]` int32, and run it.

        Where it is none by `is_program`, `[E * B]` bool, nothing happens.
        """
        parts = (self._slots, self._own, self._split(code), self._split(is_program))
        for (instructions, first), own, rows, valid in zip(*parts, strict=True):
            instructions.copy_(rows)
            first.copy_(torch.where(valid, own, -1))
        self.take(self._same)
        told = (self.gather(name) for name in Played._fields[1:])
        return Played(is_program.view_as(self._same), *told)


def draw_counters(programs: int, height: int, width: int) -> NDArray[np.uint8]:
    """Draw the grids that only tell how many programs ran.

    After i programs, i cells show an agent that faces east and a marker, filled column by column
    from the upper left. Nothing else is shown.

    Args:
        programs: of an episode, P.
        height: rows of the grid.
        width: its columns.

    Returns:
        `[P + 1, 8, H, W]` uint8, for no program up to all of them.
    """
    planes = np.zeros((programs + 1, CHANNELS, width, height), np.uint8)
    flat = planes.reshape(programs + 1, CHANNELS, -1)  # column by column
    for count, own in enumerate(flat):
        own[[EAST, FIRST_COUNT_PLANE], :count] = 1
    return np.ascontiguousarray(planes.transpose(0, 1, 3, 2))


def load_space(name: str, device: str) -> Embedding:
    """Load the embedding in which a policy writes its programs.

    Raises:
        UnknownNameError: no such embedding is shipped.
        ConfigError: it has another vocabulary, or does not squash latents.
    """
    prepare(torch.device(device))  # before the first product on a GPU
    embedding = Embedding.load(name, device)
    if embedding.vocabulary.name != VOCABULARY:
        what = f"an embedding of the {VOCABULARY} vocabulary"
        raise ConfigError(
            f"HPRL needs {what}, got {embedding.vocabulary.name} ('{name}'); train one with "
            "'pomp embedding train hprl'"
        )
    return embedding
