"""Quantised bottlenecks: what a network makes of its observations, as codes of few units.

A bottleneck turns a feature into a code of H numbers, each -1, 0 or 1, and a code back into a
feature. It is learned from features that a network met, or from what a network remembered, whose
numbers are from -1 to 1. D is the size of a feature, N how many there are, K the number of modes.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional

from pomp.core.errors import TrainingError
from pomp.core.streams import Purpose, open_streams
from pomp.machine.config import BottleneckConfig
from pomp.machine.episodes import Episodes
from pomp.machine.layers import PERCEPTIONS, Arrays
from pomp.machine.network import Ensemble
from pomp.machine.transitions import NetworkTransition
from pomp.machine.views import Views

_WIDER = (8,)  # times as wide as the code are the layers around it, from the outermost on
_WIDER_OF_STATES = (8, 4)
_CHUNK = 8192  # features that are looked at together
_MOST_NORM = 5.0  # of a gradient
_PATIENCE = 50  # epochs without improvement, after which learning stops
_ELSEWHERE = 0.1  # the share, among decisions, of those after modes that did not run before
_SURE = 1 - 1e-6  # the largest probability whose complement has a logarithm
_CHECKED = 0.1  # the share of the features by which improvement is measured


class OpenedNetwork:
    """A network in two halves: from observations to features, and from features to choices.

    Attributes:
        transition: the network.
        features: D, the size of what lies between.
    """

    def __init__(self, transition: NetworkTransition) -> None:
        self.transition = transition
        self.shape = transition.shape
        self.features = transition.config.hidden if self.shape.sees_grid else PERCEPTIONS
        self._network = Ensemble(self.shape, [transition.modes], "cpu")
        self._parts = self.shape.split(torch.from_numpy(self.shape.pack(transition.arrays))[None])

    def watch(self, episodes: Episodes) -> Callable[[NDArray[np.int64]], NDArray[np.float32]]:
        """Return what computes features of episodes on the CPU as they go on.

        Returns:
            Turns the numbers of some of the episodes, `[N]` int64, into `[N, D]` float32.
        """
        views = Views([episodes], self.transition.config.inputs, members=1)

        @torch.no_grad()
        def look(which: NDArray[np.int64]) -> NDArray[np.float32]:
            seen = views.look()[:, torch.from_numpy(which)]
            return self._network.look(self._parts, seen)[0].numpy()

        return look

    @torch.no_grad()
    def probabilities_after(
        self, features: NDArray[np.float32], modes: NDArray[np.int64]
    ) -> NDArray[np.float64]:
        """Return how likely the network's choices are.

        Args:
            features: `[N, D]` float32.
            modes: `[N]` int64, the last modes; -1 before the first.

        Returns:
            `[N, K + 1]` float64.
        """
        found = self.log_probs(torch.from_numpy(features), torch.from_numpy(modes))
        return found.double().exp().numpy()

    def probabilities(self, features: NDArray[np.float32]) -> NDArray[np.float64]:
        """Return what the network would choose after each mode.

        Args:
            features: `[N, D]` float32.

        Returns:
            `[N, K + 1, K + 1]` float64: a row for each last mode, the first for the start, and a
            column for each choice, the last for the end.
        """
        rows = self.transition.modes + 1
        found = []
        for first in range(0, len(features), _CHUNK):
            some = features[first : first + _CHUNK]
            modes = np.tile(np.arange(-1, rows - 1), len(some))
            probs = self.probabilities_after(np.repeat(some, rows, axis=0), modes)
            found.append(probs.reshape(len(some), rows, rows))
        return np.concatenate(found)

    def log_probs(self, features: Tensor, modes: Tensor) -> Tensor:
        """Return how likely the network's choices are, as logarithms.

        Args:
            features: `[N, D]` float32.
            modes: `[N]` int64, the last modes; -1 before the first.

        Returns:
            `[N, K + 1]` float32.
        """
        logits, _ = self._network.decide(self._parts, features[None], modes[None])
        return logits[0].log_softmax(dim=-1)


@dataclass(frozen=True)
class Bottleneck:
    """What turns features into codes and back.

    Attributes:
        arrays: its weights by name, `[outputs, inputs]`, and biases, `[outputs]`.
        of_states: whether it is of what a network remembers.
    """

    arrays: Arrays
    of_states: bool = False

    @property
    def encoder(self) -> Arrays:
        """The part of it that turns features into codes."""
        return {name: array for name, array in self.arrays.items() if name.startswith("encoder")}

    @cached_property
    def _parts(self) -> dict[str, Tensor]:
        return {name: torch.from_numpy(array) for name, array in self.arrays.items()}

    @torch.no_grad()
    def encode(self, features: NDArray[np.float32]) -> NDArray[np.int8]:
        """Return the codes, `[N, H]` int8, of `features`, `[N, D]` float32."""
        return encode(self._parts, torch.from_numpy(features)).to(torch.int8).numpy()

    @torch.no_grad()
    def decode(self, codes: NDArray[np.int8]) -> NDArray[np.float32]:
        """Return the features, `[N, D]` float32, of `codes`, `[N, H]` int8."""
        floats = torch.from_numpy(codes.astype(np.float32))
        return decode(self._parts, floats, of_states=self.of_states).numpy()


def encode(parts: dict[str, Tensor], features: Tensor) -> Tensor:
    """Turn `features`, `[N, D]`, into codes, `[N, H]`, with the encoder among named `parts`."""
    *firsts, last = _layers_of(parts, "encoder")
    for name in firsts:
        features = torch.tanh(_apply(parts, name, features))
    return _quantise(_apply(parts, last, features))


def decode(parts: dict[str, Tensor], codes: Tensor, *, of_states: bool = False) -> Tensor:
    """Turn `codes`, `[N, H]`, into features, `[N, D]`, with the decoder among named `parts`.

    Paper: the published decoder ends in ReLU6; features of this network are not limited by 6.

    Args:
        parts: the weights.
        codes: `[N, H]` float32.
        of_states: whether they are of what a network remembers: numbers from -1 to 1.
    """
    *firsts, last = _layers_of(parts, "decoder")
    for name in firsts:
        codes = torch.tanh(_apply(parts, name, codes))
    found = _apply(parts, last, codes)
    return torch.tanh(found) if of_states else found.relu()


def find_nearest(codes: Tensor, known: Tensor) -> Tensor:
    """Return the numbers, `[N]` int64, of the known codes that are nearest to others.

    That is the smallest sum of absolute differences, which are small whole numbers: exact. Of
    equally near ones the first is taken.

    Args:
        codes: `[N, H]` float32.
        known: `[M, H]` float32.
    """
    return torch.cdist(codes, known, p=1.0).argmin(dim=1)


def encoder_shapes(features: int, units: int) -> dict[str, tuple[int, ...]]:
    """Return names and shapes of the encoder's weights, for features of a size and codes."""
    shapes = bottleneck_shapes(features, units)
    return {name: shape for name, shape in shapes.items() if name.startswith("encoder")}


def bottleneck_shapes(
    features: int, units: int, *, of_states: bool = False
) -> dict[str, tuple[int, ...]]:
    """Return names and shapes of all weights, for features of a size and codes.

    Args:
        features: D.
        units: H.
        of_states: whether the features are what a network remembers.
    """
    wider = _WIDER_OF_STATES if of_states else _WIDER
    widths = [features, *(factor * units for factor in wider), units]
    shapes: dict[str, tuple[int, ...]] = {}
    for part, sizes in (("encoder", widths), ("decoder", widths[::-1])):
        for number, (inputs, outputs) in enumerate(pairwise(sizes)):
            name = f"{part}.{number}"
            shapes |= {f"{name}.weight": (outputs, inputs), f"{name}.bias": (outputs,)}
    return shapes


def _layers_of(parts: dict[str, Tensor], which: str) -> list[str]:
    """Return the names of the encoder's or the decoder's layers, from the first to the last."""
    is_layer = f"{which}."
    weights = (name for name in parts if name.startswith(is_layer) and name.endswith(".weight"))
    return sorted(name.removesuffix(".weight") for name in weights)


def _apply(parts: dict[str, Tensor], name: str, inputs: Tensor) -> Tensor:
    """Apply a layer to `inputs`, `[N, columns]`, giving `[N, outputs]`."""
    return functional.linear(inputs, parts[f"{name}.weight"], parts[f"{name}.bias"])


def _quantise(inputs: Tensor) -> Tensor:
    """Round `inputs`, `[...]`, to -1, 0 or 1; gradients pass as if nothing had been rounded."""
    smooth = 1.5 * torch.tanh(inputs) + 0.5 * torch.tanh(-3.0 * inputs)
    return smooth + (smooth.round() - smooth).detach()


def fit_bottleneck(
    network: OpenedNetwork,
    features: NDArray[np.float32],
    modes: NDArray[np.int64],
    units: int,
    config: BottleneckConfig,
    seed: int = 0,
) -> Bottleneck:
    """Learn a bottleneck from features that a network met.

    Args:
        network: whose features they are.
        features: `[N, D]` float32, as often as they were met.
        modes: `[N]` int64, the last modes there; -1 before the first.
        units: H, of a code.
        config: how.
        seed: of first weights and batches.

    Raises:
        TrainingError: the loss is not a number any more.
    """
    key = open_streams(Purpose.EXTRACTION, seed, 3, units, worlds=1)[0]
    generator = _open_generator(key)
    objective = _Objective(
        network, torch.from_numpy(features), torch.from_numpy(modes), config, generator
    )
    shapes = bottleneck_shapes(features.shape[1], units)
    return Bottleneck(_learn(objective, shapes, config, generator))


def fit_codes(
    features: NDArray[np.float32],
    units: int,
    config: BottleneckConfig,
    seed: int = 0,
    *,
    of_states: bool = False,
) -> Bottleneck:
    """Learn a bottleneck that gives features back, whatever comes of them.

    Args:
        features: `[N, D]` float32, as often as they were met.
        units: H, of a code.
        config: how; its recipe tells whether the learning rate falls.
        seed: of first weights and batches.
        of_states: whether they are what a network remembers.

    Raises:
        TrainingError: the loss is not a number any more.
    """
    objective = _Reconstruction(torch.from_numpy(features), of_states)
    key = open_streams(Purpose.EXTRACTION, seed, 4, units, int(of_states), worlds=1)[0]
    shapes = bottleneck_shapes(features.shape[1], units, of_states=of_states)
    generator, middle = _open_generator(key), features.mean(axis=0)
    return Bottleneck(_learn(objective, shapes, config, generator, middle), of_states)


def _open_generator(key: np.uint64) -> torch.Generator:
    return torch.Generator().manual_seed(int(key >> np.uint64(1)))


def _learn(
    objective: "_Loss",
    shapes: dict[str, tuple[int, ...]],
    config: BottleneckConfig,
    generator: torch.Generator,
    middle: NDArray[np.float32] | None = None,
) -> Arrays:
    """Minimise what an objective says of the weights of a bottleneck.

    Args:
        objective: says it.
        shapes: of the weights, by name.
        config: how.
        generator: of what is drawn: first weights and batches.
        middle: `[D]` float32, what is decoded at first, but for noise; without it, all of a feature
            of few numbers may be cut off at 0 at first, and stay so.

    Returns:
        The weights by name, `[outputs, ...]` each.

    Raises:
        TrainingError: the loss is not a number any more.
    """
    parts = _draw_parts(shapes, generator)
    if middle is not None:
        *_, last = parts.values()  # the bias of the decoder's last layer
        last.data.copy_(torch.from_numpy(middle))
    order = torch.randperm(len(objective.features), generator=generator)
    checked, learned = order[: int(len(order) * _CHECKED)], order[int(len(order) * _CHECKED) :]
    epoch_steps = -(-len(learned) // config.batch)
    most = min(config.steps, config.epochs * epoch_steps)
    falls = config.recipe != "paper"
    optimizer = torch.optim.Adam(parts.values(), lr=config.learning_rate)
    best, best_step = float("inf"), 0
    for step in range(most):
        place = step % epoch_steps
        if place == 0:
            learned = learned[torch.randperm(len(learned), generator=generator)]
        if place == 0 and not falls and len(checked):
            with torch.no_grad():
                loss = float(objective(parts, checked))
            best, best_step = (loss, step) if loss < best else (best, best_step)
            if best == 0.0 or step - best_step > _PATIENCE * epoch_steps:
                break
        if falls:
            optimizer.param_groups[0]["lr"] = config.learning_rate * (1 - step / most)
        loss_now = objective(parts, learned[place * config.batch : (place + 1) * config.batch])
        optimizer.zero_grad()
        loss_now.backward()  # type: ignore[no-untyped-call]  # of torch
        torch.nn.utils.clip_grad_norm_(parts.values(), _MOST_NORM)
        optimizer.step()
    arrays = {name: part.detach().numpy() for name, part in parts.items()}
    if not all(np.isfinite(array).all() for array in arrays.values()):
        raise TrainingError("the bottleneck's weights are no numbers any more; learn more slowly")
    return arrays


class _Loss(Protocol):
    """What a bottleneck minimises.

    Attributes:
        features: `[N, D]` float32, all of them.
    """

    features: Tensor

    def __call__(self, parts: dict[str, Tensor], rows: Tensor) -> Tensor:
        """Return the loss of the features in `rows`, `[B]` int64."""


class _Reconstruction:
    """How far decoded features are from what they were, as a share of how far these spread."""

    def __init__(self, features: Tensor, of_states: bool) -> None:
        """Take all `features`, `[N, D]` float32."""
        self.features, self._of_states = features, of_states
        self._unit = 1.0 / max(float(features.var(dim=0, correction=0).sum()), 1e-12)

    def __call__(self, parts: dict[str, Tensor], rows: Tensor) -> Tensor:
        """Return the loss of the features in `rows`, `[B]` int64."""
        wanted = self.features[rows]
        decoded = decode(parts, encode(parts, wanted), of_states=self._of_states)
        return ((decoded - wanted) ** 2).sum(dim=1).mean() * self._unit


class _Objective:
    """What a bottleneck minimises, on some of the features.

    Attributes:
        features: `[N, D]` float32, all of them.
        modes: `[N]` int64, the last modes there.
    """

    def __init__(
        self,
        network: OpenedNetwork,
        features: Tensor,
        modes: Tensor,
        config: BottleneckConfig,
        generator: torch.Generator,
    ) -> None:
        """Compute what a network would choose with `features`, `[N, D]`, after `modes`, `[N]`."""
        self._network, self.features, self.modes = network, features, modes
        self._weight = config.weight if config.recipe == "decisions" else 0.0
        self._end_weight, self._generator = config.end_weight, generator
        spread = features.var(dim=0, correction=0).sum()
        self._unit = 1.0 / max(float(spread), 1e-12) if self._weight else 1.0 / features.shape[1]
        self._targets = torch.from_numpy(network.probabilities(features.numpy())).float()

    def __call__(self, parts: dict[str, Tensor], rows: Tensor) -> Tensor:
        """Return the loss of the features in `rows`, `[B]` int64."""
        wanted = self.features[rows]
        decoded = decode(parts, encode(parts, wanted))
        loss = ((decoded - wanted) ** 2).sum(dim=1).mean() * self._unit
        if not self._weight:
            return loss
        modes = self._targets.shape[1]
        any_mode = torch.randint(modes, (len(rows),), generator=self._generator) - 1
        met = self._diverge(decoded, rows, self.modes[rows])
        elsewhere = self._diverge(decoded, rows, any_mode)
        decisions = (1 - _ELSEWHERE) * met + _ELSEWHERE * elsewhere
        return (1 - self._weight) * loss + self._weight * decisions

    def _diverge(self, decoded: Tensor, rows: Tensor, modes: Tensor) -> Tensor:
        """Return how far choices with decoded features are from the network's, on average.

        Args:
            decoded: `[B, D]` float32.
            rows: `[B]` int64, the features that they should be.
            modes: `[B]` int64, the last modes.
        """
        target, found = self._targets[rows, modes + 1], self._network.log_probs(decoded, modes)
        choices = (torch.special.xlogy(target, target) - target * found).sum(dim=-1)
        ends = torch.stack([target[:, -1], 1 - target[:, -1]])
        goes_on = torch.log1p(-found[:, -1].exp().clamp(max=_SURE))
        found_ends = torch.stack([found[:, -1], goes_on])
        ending = (torch.special.xlogy(ends, ends) - ends * found_ends).sum(dim=0)
        return (choices + (self._end_weight - 1) * ending).mean()


def _draw_parts(shapes: dict[str, tuple[int, ...]], generator: torch.Generator) -> dict[str, Any]:
    """Draw first weights as torch does for linear layers."""
    parts, inputs = {}, 1
    for name, shape in shapes.items():
        inputs = shape[1] if len(shape) == 2 else inputs  # a bias follows its weights
        drawn = 2 * torch.rand(shape, generator=generator) - 1
        parts[name] = (drawn * inputs**-0.5).requires_grad_()
    return parts
