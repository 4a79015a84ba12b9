"""Quantise a network that remembers: codes for what is seen and remembered, then fine-tuning.

Both bottlenecks are learned from episodes of the network; with them in place, the memory learns to
choose as the network did. The axes are T steps, N episodes, D numbers of a feature, U of a state,
and K + 1 choices.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from pomp.core.errors import TrainingError
from pomp.core.streams import Purpose, open_streams
from pomp.engine.starts import draw_starts
from pomp.machine.bottleneck import Bottleneck, fit_codes
from pomp.machine.config import QuantisingConfig
from pomp.machine.evaluation import Evaluation, play
from pomp.machine.network import choose
from pomp.machine.policy import ProgramMachine
from pomp.machine.quantised import SEEN, STATE, QuantisedNetwork, within
from pomp.machine.quantised_memory import QuantisedMemory, open_quantised, open_recurrent
from pomp.machine.teaching import MixedChoices
from pomp.machine.transitions import NetworkTransition

_MOST_NORM = 0.5  # of a gradient in fine-tuning
_TUNED = ("memory.", "actor.")  # what the names of the network's tuned weights begin with

Judge = Callable[[QuantisedMemory], float]
"""Says what a quantised memory is worth."""


@dataclass(frozen=True)
class Lessons:
    """What episodes of a network met, all of which begin at the first step.

    Attributes:
        features: `[T, N, D]` float32, what its memory was given.
        states: `[T, N, U]` float32, what it remembered then.
        probs: `[T, N, K + 1]` float32, how likely it made each choice.
        is_met: `[T, N]` bool, whether the episode still went on.
    """

    features: Tensor
    states: Tensor
    probs: Tensor
    is_met: Tensor

    def met_features(self) -> NDArray[np.float32]:
        """Return the features as often as they were met, `[M, D]` float32."""
        return self.features[self.is_met].numpy()


def record_lessons(
    machine: ProgramMachine, config: QuantisingConfig, length: int, seed: int
) -> Lessons:
    """Play episodes that teach with a machine that remembers, quantised or not, on the CPU.

    Args:
        machine: which.
        config: how many, and how long these may be.
        length: about how many programs an episode has.
        seed: of starts and choices, which are drawn for this alone.
    """
    transition, setting = machine.transition, machine.configure()
    worlds = draw_starts(setting, config.episodes, seed, Purpose.EXTRACTION)
    running = machine.episodes(setting, worlds)
    if isinstance(transition, QuantisedNetwork):
        step = open_quantised(transition, running)
    else:
        assert isinstance(transition, NetworkTransition)
        step = open_recurrent(transition, running)
    mixed = MixedChoices(config.episodes, len(machine.modes), length, seed)
    rows = list[tuple[Tensor, ...]]()
    while not mixed.is_over(running.ending) and len(rows) < config.most_steps:
        is_met, found = torch.from_numpy(running.ending == 0), step()
        drawn = choose(found.logits, torch.from_numpy(mixed.draw()))
        probs = found.logits.softmax(dim=-1)
        rows.append((found.features.clone(), found.states.clone(), probs, is_met))
        running.step(mixed.mix(choose(found.logits, None).numpy(), drawn.numpy()))
    return Lessons(*(torch.stack(column) for column in zip(*rows, strict=True)))


def quantise_network(
    machine: ProgramMachine, config: QuantisingConfig, seed: int
) -> ProgramMachine:
    """Return a machine whose network remembers by codes, fine-tuned to choose as before.

    Results are measured on validation starts, in episodes that are cut short.

    Args:
        machine: one whose network remembers.
        config: how.
        seed: of episodes, first weights and trials.
    """
    transition = machine.transition
    assert isinstance(transition, NetworkTransition)
    limit = min(machine.episode.most_steps, config.most_steps)
    short = replace(machine, episode=replace(machine.episode, most_steps=limit))
    goal = _try(short, config.trials, seed)
    lessons = record_lessons(short, config, int(goal.programs.mean()) + 1, seed)
    shape = transition.shape
    parts = shape.split(torch.from_numpy(shape.pack(transition.arrays))[None])
    first = quantise_memory(parts, lessons, config, seed)

    def judge(memory: QuantisedMemory) -> float:
        tried = replace(short, transition=_as_network(transition, memory))
        return _try(tried, config.trials, seed).mean

    memory = fine_tune(first, lessons, config, judge, goal.mean)
    return replace(machine, transition=_as_network(transition, memory))


def _try(machine: ProgramMachine, trials: int, seed: int) -> Evaluation:
    """Play a machine on validation starts, which are the same at every call."""
    setting = machine.configure()
    draws = open_streams(Purpose.VALIDATION, seed, 1, worlds=trials)
    return play(machine, setting, draw_starts(setting, trials, seed, Purpose.VALIDATION), draws)


def _as_network(transition: NetworkTransition, memory: QuantisedMemory) -> QuantisedNetwork:
    """Return a network whose memory is a quantised one."""
    own = {
        name: (part[0] if name.startswith(_TUNED) else part).numpy()
        for name, part in memory.parts.items()
    }
    arrays = {**transition.arrays, **own}
    return QuantisedNetwork(transition.config, transition.size, transition.modes, arrays)


def codes_met(machine: ProgramMachine, config: QuantisingConfig, seed: int) -> NDArray[np.int8]:
    """Return the codes of what a quantised network sees in its episodes, the most frequent first.

    Args:
        machine: one whose network is quantised.
        config: how many episodes, how long these may be, and how many codes there may be.
        seed: of the episodes.

    Returns:
        `[N, H]` int8.
    """
    transition = machine.transition
    assert isinstance(transition, QuantisedNetwork)
    lessons = record_lessons(machine, config, config.most_steps, seed)
    encoder = within(transition.arrays, SEEN)
    codes, counts = np.unique(
        Bottleneck(encoder).encode(lessons.met_features()), axis=0, return_counts=True
    )
    return codes[np.argsort(-counts, kind="stable")][: config.most_inputs]


def open_memory(transition: QuantisedNetwork) -> QuantisedMemory:
    """Return the memory of a quantised network, on the CPU."""
    arrays = transition.arrays.items()
    tuned = {name: torch.from_numpy(one)[None] for name, one in arrays if name.startswith(_TUNED)}
    codes = {n: torch.from_numpy(one) for n, one in arrays if n.startswith((SEEN, STATE))}
    return QuantisedMemory({**tuned, **codes})


def quantise_memory(
    parts: Mapping[str, Tensor], lessons: Lessons, config: QuantisingConfig, seed: int
) -> QuantisedMemory:
    """Put a bottleneck before a network's memory and one behind it.

    Args:
        parts: the network's weights by name, `[1, outputs, ...]` each.
        lessons: what it met.
        config: how.
        seed: of the bottlenecks' first weights and batches.
    """
    states = lessons.states[lessons.is_met].numpy()
    seen = fit_codes(lessons.met_features(), config.seen_units, config.bottleneck, seed)
    state = fit_codes(states, config.state_units, config.bottleneck, seed, of_states=True)
    own = {name: part.detach() for name, part in parts.items() if name.startswith(_TUNED)}
    return QuantisedMemory({**own, **_name(SEEN, seen), **_name(STATE, state)})


def _name(prefix: str, bottleneck: Bottleneck) -> dict[str, Tensor]:
    """Return the weights of a bottleneck by longer names, `[outputs, ...]` each."""
    arrays = bottleneck.arrays.items()
    return {f"{prefix}{name}": torch.from_numpy(array) for name, array in arrays}


def fine_tune(
    memory: QuantisedMemory, lessons: Lessons, config: QuantisingConfig, judge: Judge, goal: float
) -> QuantisedMemory:
    """Let a quantised memory learn to choose as the network did.

    It ends when the result reaches the goal, or has not improved for a while. Paper: the layers
    before the memory are tuned, too; here features stay what they were.

    Args:
        memory: what learns; not changed.
        lessons: what the network met and how likely it chose.
        config: how.
        judge: measures results, now and then.
        goal: the result that is enough.

    Returns:
        The memory with the best result.

    Raises:
        TrainingError: a weight is not a number any more.
    """
    parts = {name: part.clone().requires_grad_() for name, part in memory.parts.items()}
    tuned, optimizer = (
        QuantisedMemory(parts),
        torch.optim.Adam(parts.values(), config.learning_rate),
    )
    best, score, improved = memory, judge(memory), 0
    for epoch in range(1, config.epochs + 1):
        if score >= goal or epoch - improved > config.patience:
            break
        _run_epoch(tuned, lessons, config.window, optimizer)
        if epoch % config.every:
            continue
        now = QuantisedMemory({name: part.detach().clone() for name, part in parts.items()})
        if not all(bool(part.isfinite().all()) for part in now.parts.values()):
            raise TrainingError("the quantised memory's weights are no numbers; learn more slowly")
        if (found := judge(now)) > score:
            best, score, improved = now, found, epoch
    return best


def _run_epoch(
    memory: QuantisedMemory, lessons: Lessons, window: int, optimizer: torch.optim.Optimizer
) -> None:
    """Go through all episodes side by side; gradients go back to the first step of a window."""
    codes = memory.begin(lessons.features.shape[1])
    for first in range(0, len(lessons.features), window):
        part = slice(first, first + window)
        is_met = lessons.is_met[part]
        seen = memory.decode_features(memory.encode_features(lessons.features[part]))
        codes, after = codes.detach() if first else codes, list[Tensor]()
        state = memory.decode_states(codes)
        for features in seen:
            codes = memory.follow(features, state)
            state = memory.decode_states(codes)
            after.append(state)
        found = memory.answer(torch.cat(after)).softmax(dim=-1)
        errors = (found - lessons.probs[part].flatten(0, 1)) ** 2
        loss = errors.sum(dim=-1)[is_met.flatten()].mean()
        optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]  # of torch
        torch.nn.utils.clip_grad_norm_(list(memory.parts.values()), _MOST_NORM)
        optimizer.step()
