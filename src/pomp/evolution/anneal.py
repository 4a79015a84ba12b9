"""Simulated annealing over whole machines: chains that each mutate their machine step by step.

Most mutations touch nothing that ever runs, or do harm at once. So a mutated machine is compared
with its parent world by world (`pomp.engine.annealing`): it is *given up* as soon as it falls short
of its threshold even if it earned in all further worlds what is optimistically expected there; and
it is *trusted* to earn what its parent earned everywhere if it did so, to the bit, in the first few
worlds. What was accepted on trust is verified after some steps.
"""

import numpy as np

from pomp.core.compiling import launch, parts_for
from pomp.core.streams import branch
from pomp.dsl.bytecode import CompilerScratch, compile_ids, reader_tables
from pomp.dsl.mutation import MutationScratch, mutation_rules
from pomp.engine.annealing import Chains, ChainScratch, MachineArrays, MutationTables, Schedule
from pomp.engine.lanes import Lane
from pomp.engine.loading import kernels_of
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
        self._terms = terms_of(ground, config, to_the_end=False)
        known = sensors_of(config)
        self._tables = MutationTables(
            mutation_rules("bounding", limits_of(config)), reader_tables(), askable(config),
            OTHER_TOKENS, known.mirror_literals, is_mirrored,
        )  # fmt: skip
        self._kernel = kernels_of(setting.task, known.own).anneal_chains
        found = play_machines(setting, machines, ground, config, threads=threads)
        earned, scores = found.earned, found.scores
        branches = [branch(np.atleast_1d(stream), one) for one in (_PROGRAMS, _RULES, _CHOICES)]
        numbers = np.arange(len(machines))
        self.chains = Chains(
            _arrays_of(machines), earned, scores, _arrays_of(machines), earned.copy(),
            scores.copy(), _arrays_of(machines), scores.copy(),
            np.stack([branch(one, numbers) for one in branches]), found.tallies.copy(),
        )  # fmt: skip

    @property
    def machines(self) -> Machines:
        """The machines of the chains now."""
        return Machines(*self.chains.machines[1:])

    @property
    def best_score(self) -> float:
        """The best score so far."""
        return float(self.chains.best_scores.max())

    @property
    def best(self) -> Machines:
        """The best machine so far, alone."""
        top = int(np.argmax(self.chains.best_scores))
        return Machines(*self.chains.best[1:]).take([top])

    @property
    def programs(self) -> int:
        """Programs that all machines ran so far."""
        return int(self.chains.tallies[:, PROGRAMS].sum())

    @property
    def actions(self) -> int:
        """Actions that all machines took so far."""
        return int(self.chains.tallies[:, ACTED].sum())

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
            self.config.optimism, self.ground.goals, max(1, min(worlds // 4, TRUST)),
        )  # fmt: skip
        played = np.zeros(len(self.chains.scores), np.int64)
        threads = self._threads if self._last >= _WORTH_THREADS else 1
        parts = parts_for(len(played), threads, least=8)
        ground, config = self.ground, self.config

        def run_part(part: int) -> None:
            self._kernel(
                part, parts, self.chains, schedule, self._tables, self._terms, ground.constants,
                ground.worlds, _scratch_for(ground, config, self.chains.machines), played,
            )  # fmt: skip

        launch(parts, run_part)
        self.iteration += count
        self.evaluated += int(played.sum())
        self._last = self.actions - before

    _last = 0  # actions between the last two verifications


def _arrays_of(machines: Machines) -> MachineArrays:
    """Return a copy of machines as compiled chains take them."""
    count, modes, tokens = machines.programs.shape
    code = compile_ids(machines.programs.reshape(-1, tokens)).instructions
    return MachineArrays(code.reshape(count, modes, tokens).copy(), *machines.copy().arrays)


def _scratch_for(ground: Ground, config: EvolveConfig, machines: MachineArrays) -> ChainScratch:
    """Return memory for the steps of one chain at a time."""
    worlds, tokens = ground.worlds, config.tokens
    return ChainScratch(
        MachineArrays(*(np.empty_like(array[:1]) for array in machines)),
        np.zeros(len(ground)), np.zeros(len(ground), np.int64), np.zeros(len(ground), np.bool_),
        MutationScratch.empty(tokens), CompilerScratch.empty(tokens), np.empty((0, 0), np.int16),
        Lane.empty(worlds.cells.shape[1], worlds.memory.shape[1], 2 * tokens),
    )  # fmt: skip
