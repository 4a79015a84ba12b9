"""Simulated annealing over whole machines: chains that each mutate their machine step by step.

Most mutations touch nothing that ever runs, or do harm at once. So a mutated machine is compared
with its parent world by world (`pomp.engine.annealing`): it is *given up* as soon as it falls short
of its threshold even if it earned in all further worlds what is optimistically expected there; and
it is *trusted* to earn what its parent earned everywhere if it did so, to the bit, in the first few
worlds. What was accepted on trust is verified after some steps.

The chains stay where the worlds are, on the CPU or the GPU, and take these steps in one launch.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from pomp.core.compiling import launch, parts_for
from pomp.core.cuda import (
    as_launchable,
    as_launchable_group,
    empty_on_device,
    load_cuda,
    map_arrays,
    to_device,
    to_host,
)
from pomp.core.resources import slices
from pomp.core.streams import branch
from pomp.dsl.bytecode import COUNTERS_PER_LOOP, CompilerScratch, compile_ids, reader_tables
from pomp.dsl.mutation import MutationScratch, mutation_rules
from pomp.engine.annealing import (
    CHAIN_THREADS,
    Chains,
    ChainScratch,
    MachineArrays,
    MutationTables,
    Schedule,
)
from pomp.engine.lanes import Lane
from pomp.engine.loading import cuda_kernels_of, kernels_of
from pomp.engine.rule_machine import ACTED, PROGRAMS
from pomp.evolution.config import EvolveConfig
from pomp.evolution.genome import OTHER_TOKENS, Machines, askable, limits_of, sensors_of
from pomp.evolution.ground import Ground
from pomp.evolution.play import play_machines, terms_of
from pomp.tasks.task import Setting

TRUST = 8
"""Worlds, at most, in which a mutation must change nothing to be trusted."""
VERIFIED = 32
"""Steps after which what was trusted is verified."""
_ACTIONS_AT_ONCE = 2_000_000_000
"""Actions of a launch on a GPU, after which signals are heard: about a second."""
_CHAINS_AT_ONCE = 4096
"""Chains of a launch on a GPU at least: fewer would leave threads idle."""
_WORTH_THREADS = 3_000_000  # actions between two verifications from which on threads help
_PROGRAMS, _RULES, _CHOICES = range(3)  # what a chain draws from: one branch of its stream for each


class Annealing:
    """Chains of machines that all have the same number of modes.

    Args:
        setting: the task.
        ground: B worlds on which every machine is played.
        machines: C machines, one for each chain to begin with.
        stream: the random stream of the round.
        config: of the search.
        temperature_factor: times the configured initial temperature.
        length_factor: times the configured steps and actions.
        action_factor: times the actions once more, for machines whose episodes are long.
        is_mirrored: keep the second half of the modes mirror images of the first.
        threads: at most so many; None: one per core.

    Attributes:
        chains: the machines of the chains, and what is known of them.
        evaluated: machines played so far, but for verification.
        iteration: steps taken so far.
    """

    def __init__(
        self, setting: Setting, ground: Ground, machines: Machines, stream: np.uint64,
        config: EvolveConfig, *, temperature_factor: float, length_factor: float,
        action_factor: float = 1.0, is_mirrored: bool = False, threads: int | None = None,
    ) -> None:  # fmt: skip
        self.setting, self.ground, self.config = setting, ground, config
        self.iteration, self.evaluated, self._threads = 0, len(machines), threads
        self._initial_temperature = config.initial_temperature * temperature_factor
        self._most_steps = config.steps * length_factor
        self._most_actions = config.actions * length_factor * action_factor
        self._enough = max(1.0, setting.goal) - 1e-9
        self._goals: Any = ground.goals
        self._terms = terms_of(ground, config, to_the_end=False)
        known = sensors_of(config)
        self._tables = MutationTables(
            mutation_rules(moves_of(config), limits_of(config)), reader_tables(), askable(config),
            OTHER_TOKENS, known.mirror_literals, is_mirrored,
        )  # fmt: skip
        found = play_machines(setting, machines, ground, config, threads=threads)
        earned, scores = found.earned, found.scores
        branches = [branch(np.atleast_1d(stream), one) for one in (_PROGRAMS, _RULES, _CHOICES)]
        numbers = np.arange(len(machines))
        code = compile_ids(machines.programs.reshape(-1, config.tokens))
        arrays = MachineArrays(
            code.instructions.reshape(*machines.programs.shape), *machines.arrays
        )
        self.chains = Chains(
            map_arrays(np.copy, arrays), earned, scores, map_arrays(np.copy, arrays), earned.copy(),
            scores.copy(), map_arrays(np.copy, arrays), scores.copy(),
            np.stack([branch(one, numbers) for one in branches]), found.tallies.copy(),
        )  # fmt: skip
        self._last = self.actions * VERIFIED
        if ground.is_on_device:
            depth = max(code.depth, COUNTERS_PER_LOOP * limits_of(config).depth)
            self._kernel = cuda_kernels_of(ground.largest, depth, known.own).anneal_chains
            self._put_on_device(_scratch_for(ground, config, arrays))
        else:
            self._kernel = kernels_of(setting.task, known.own).anneal_chains

    def _put_on_device(self, scratch: ChainScratch) -> None:
        """Move the chains to the GPU, where they stay, with memory for the steps of all of them."""
        count = len(self.chains.scores)

        def repeat(array: NDArray[Any]) -> Any:
            return empty_on_device((count, *array.shape), array.dtype)

        self.chains = map_arrays(to_device, self.chains)
        self._goals, self._terms = to_device(self._goals), map_arrays(to_device, self._terms)
        self._tables = map_arrays(to_device, self._tables)
        self._scratch = map_arrays(repeat, scratch._replace(lane=(), past=()))

    @property
    def machines(self) -> Machines:
        """The machines of the chains now."""
        return Machines(*map(to_host, self.chains.machines[1:]))

    @property
    def best_score(self) -> float:
        """The best score so far."""
        return float(to_host(self.chains.best_scores).max())

    @property
    def best(self) -> Machines:
        """The best machine so far, alone."""
        top = int(np.argmax(to_host(self.chains.best_scores)))
        return Machines(*map(to_host, self.chains.best[1:])).take([top])

    @property
    def programs(self) -> int:
        """Programs that all machines ran so far."""
        return int(to_host(self.chains.tallies)[:, PROGRAMS].sum())

    @property
    def actions(self) -> int:
        """Actions that all machines took so far."""
        return int(to_host(self.chains.tallies)[:, ACTED].sum())

    @property
    def usage(self) -> tuple[int, int]:
        """Registers, and bytes of local memory, of a thread on a GPU that has taken steps."""
        return self._kernel.usage

    @property
    def share(self) -> float:
        """The share of the budget that is spent, from 0 to 1: of steps or actions, the larger."""
        stepped, acted = self.iteration / self._most_steps, self.actions / self._most_actions
        return min(1.0, max(stepped, acted))

    @property
    def is_finished(self) -> bool:
        """Whether the budget is spent, or there is nothing left to earn."""
        return self.share >= 1.0 or self.best_score >= self._enough

    def advance(self, steps: int = VERIFIED) -> None:
        """Take some steps of every chain, no more than are left, and verify what was trusted."""
        before, worlds = self.actions, len(self.ground)
        count = min(steps, int(np.ceil(self._most_steps)) - self.iteration)
        schedule = Schedule(
            self.iteration, count, self._most_steps, before / self._most_actions,
            self._initial_temperature, self.config.final_temperature, self._enough,
            self.config.optimism, self._goals, max(1, min(worlds // 4, TRUST)),
        )  # fmt: skip
        take_steps = self._take_on_gpu if self.ground.is_on_device else self._take_on_cpu
        self.evaluated += int(take_steps(schedule).sum())
        self.iteration += count
        self._last = self.actions - before

    def _take_on_cpu(self, schedule: Schedule) -> NDArray[np.int64]:
        """Take steps, chains spread over threads; return how many mutated machines were played."""
        ground, config = self.ground, self.config
        played = np.zeros(len(self.chains.scores), np.int64)
        threads = self._threads if self._last >= _WORTH_THREADS else 1
        parts = parts_for(len(played), threads, least=8)

        def run_part(part: int) -> None:
            self._kernel(
                part, parts, self.chains, schedule, self._tables, self._terms, ground.constants,
                ground.worlds, _scratch_for(ground, config, self.chains.machines), played,
            )  # fmt: skip

        launch(parts, run_part)
        return played

    def _take_on_gpu(self, schedule: Schedule) -> NDArray[np.int64]:
        """Take steps, a block of threads for each chain; return what `_take_on_cpu` does.

        Signals are heard between launches, each of some chains.
        """
        count, ground = len(self.chains.scores), self.ground
        played = to_device(np.zeros(count, np.int64))
        groups = self.chains, schedule, self._tables, self._terms
        arguments = (
            *map(as_launchable_group, groups), as_launchable(ground.constants),
            as_launchable_group(ground.worlds), as_launchable_group(self._scratch),
            as_launchable(played),
        )  # fmt: skip
        launches = max(1, -(-self._last // _ACTIONS_AT_ONCE))
        for part in slices(count, max(_CHAINS_AT_ONCE, -(-count // launches))):
            self._kernel[part.stop - part.start, CHAIN_THREADS](part.start, *arguments)
            load_cuda().synchronize()
        return played.copy_to_host()


def moves_of(config: EvolveConfig) -> str:
    """Return which mutations of programs there are; see `MOVES` in `pomp.dsl.mutation`.

    Where a longer horizon makes programs longer, loops stay as they are: a bounded one fits the
    horizon of the search alone.
    """
    return "rich" if config.fragility else "bounding"


def _scratch_for(ground: Ground, config: EvolveConfig, machines: MachineArrays) -> ChainScratch:
    """Return memory for the steps of one chain at a time."""
    worlds, tokens = ground.worlds, config.tokens
    return ChainScratch(
        MachineArrays(*(np.empty_like(array[:1]) for array in machines)), np.empty(1),
        np.zeros(len(ground)), np.zeros(len(ground), np.int64), np.zeros(len(ground), np.bool_),
        MutationScratch.empty(tokens), CompilerScratch.empty(tokens), np.empty((0, 0), np.int16),
        Lane.empty(worlds.cells.shape[1], worlds.memory.shape[1], 2 * tokens), np.empty(2),
    )  # fmt: skip
