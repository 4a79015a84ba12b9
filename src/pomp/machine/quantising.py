"""Quantise a memory: codes for what is seen and for what is remembered, then fine-tuning.

Both bottlenecks are learned from episodes of the network; with them in place, the memory learns to
choose as the network did. The axes are T steps, N episodes, D numbers of a feature, U of a state,
and K + 1 choices.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from pomp.core.errors import TrainingError
from pomp.machine.bottleneck import Bottleneck, fit_codes
from pomp.machine.config import QuantisingConfig
from pomp.machine.quantised import SEEN, STATE
from pomp.machine.quantised_memory import QuantisedMemory

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
    is_met = lessons.is_met
    features, states = (part[is_met].numpy() for part in (lessons.features, lessons.states))
    seen = fit_codes(features, config.seen_units, config.bottleneck, seed)
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
