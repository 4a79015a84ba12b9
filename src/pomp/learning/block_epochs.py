"""Epochs of PPO in which every member learns alone: the tensors that `blockwise` works on."""

from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from pomp.core.graphs import launch_on_stream
from pomp.learning.adam import AdamSettings, AdamState, Gradients
from pomp.learning.block_steps import learn_epoch_plainly
from pomp.learning.blockwise import (
    LANES,
    MARKS,
    MOST_STEPS,
    NUMBERS,
    THREADS,
    TILE,
    TURNED,
    Epoch,
    GridSizes,
    Layout,
    Memory,
    StepSettings,
)
from pomp.learning.clipped_loss import LossSettings, Outputs, PpoLoss
from pomp.machine.fused import fits
from pomp.machine.layers import CHANNELS, FILTERS, KERNELS, Shape
from pomp.machine.network import Ensemble
from pomp.machine.network_cuda import ABSENT, MOST_HIDDEN, STRIDE

if TYPE_CHECKING:
    from pomp.learning.ppo import RolloutBatch

_INNER = {"grid.0": CHANNELS, "grid.1": FILTERS, "grid.2": FILTERS}
"""How many columns of a layer belong to one place: they lie side by side in working order."""


def fits_blocks(shape: Shape, steps: int) -> bool:
    """Whether a block of threads can take gradient steps of a network.

    Args:
        shape: the network's.
        steps: macro steps of a mini-batch.
    """
    config = shape.config
    is_small = config.hidden <= MOST_HIDDEN and shape.modes + 1 < LANES and steps <= MOST_STEPS
    has_room = not shape.sees_grid or grid_sizes(shape).together > 0
    return is_small and has_room and config.memory == 0 and fits(shape)


def working_order(shape: Shape) -> tuple[Layout, Tensor]:
    """Return where everything is in working order, and the parameter at each place: `[S]` int64."""
    starts, count = {}, 0
    for name, part in shape.parts:
        starts[name], count = count, count + int(np.prod(part))
    rows, order, place = [], [], 0
    for layer in shape.layers:
        outputs, columns, inner = layer.outputs, layer.columns, _INNER.get(layer.name, 1)
        numbers = np.arange(outputs * columns).reshape(outputs, inner, columns // inner)
        order.append(starts[f"{layer.name}.weight"] + numbers.transpose(2, 1, 0).ravel())
        scale, behind = ABSENT, place + outputs * columns
        if layer.has_norm:
            scale, behind = behind, behind + outputs
            order.append(starts[f"{layer.name}.scale"] + np.arange(outputs))
        order.append(starts[f"{layer.name}.bias"] + np.arange(outputs))
        rows.append((place, scale, behind, outputs, columns))
        place = behind + outputs
    names = [layer.name for layer in shape.layers]
    feature, mode, trunk, actor = (
        names.index(name) if name in names else ABSENT
        for name in ("grid.2", "mode", "trunk.0", "actor")
    )
    depth = 1 if trunk == ABSENT else 3
    layout = Layout(torch.tensor(rows), feature, mode, trunk, actor, depth)
    return layout, torch.from_numpy(np.concatenate(order))


def grid_sizes(shape: Shape) -> GridSizes:
    """Return the sizes of the grid that a network sees."""
    if not shape.sees_grid:
        return GridSizes(0, 0, 0, 0, 0, 0)
    across, down = shape.width - KERNELS[0] + 1, shape.height - KERNELS[0] + 1
    places, cells = across * down, shape.height * shape.width
    rows = NUMBERS // STRIDE - (across + 1) - TILE  # zeros before, and what a last tile reads
    together = rows // (2 * places)
    together = min(together, MARKS // cells, MOST_STEPS)
    slopes = (together * places + across + 1) * STRIDE
    return GridSizes(shape.width, cells, across, down, together, slopes)


def share_all(value: Any) -> Any:
    """Return NumPy arrays in the memory of tensors, `[...]`; named tuples of them likewise."""
    if isinstance(value, tuple):
        return type(value)(*map(share_all, value))
    return value.numpy() if isinstance(value, Tensor) else value


class BlockEpochs:
    """Gradient steps of the members of an ensemble, each on its own.

    On a GPU a block of threads takes all those of a member in an epoch; on a CPU, which has better
    ways, they are taken one after the other, so that they can be tested there.
    """

    def __init__(self, network: Ensemble, rates: Tensor, steps: int) -> None:
        """Allocate memory.

        Args:
            network: the networks, for which `fits_blocks` holds.
            rates: `[E]` float32, learning rates.
            steps: M, macro steps of a mini-batch.
        """
        shape, self._steps, members = network.shape, steps, len(rates)
        layout, order = working_order(shape)
        self._layout = layout._replace(layers=layout.layers.to(rates.device))
        self._grid, count = grid_sizes(shape), len(order)
        self._order = order.to(rates.device)
        self._places = torch.argsort(self._order)
        cells = max(1, (self._grid.down - 1) * (self._grid.across - 1) * FILTERS * LANES)

        def zeros(*size: int, dtype: torch.dtype = torch.float32) -> Tensor:
            return torch.zeros(members, *size, dtype=dtype, device=rates.device)

        logits, values = zeros(steps, shape.modes + 1), zeros(steps)
        terms = zeros(steps).expand(3, -1, -1).clone()
        self._memory = Memory(
            AdamState(zeros(count), zeros(count), zeros(count)),
            Gradients(zeros(count), zeros(), rates),
            network.absent,
            zeros(count + LANES),
            zeros(TURNED),
            zeros(len(self._layout.layers) * LANES),
            zeros(cells),
            zeros(LANES * shape.config.hidden),
            Outputs(logits, values),
            PpoLoss(torch.zeros_like(logits), torch.zeros_like(values), terms),
            zeros(len(terms) + 1, dtype=torch.float64),
        )
        self._none = torch.zeros(1, 1, 1, 1, dtype=torch.uint8, device=rates.device)

    def begin(self, state: AdamState) -> None:
        """Take over parameters and moments, `[E, S]` each."""
        for own, given in zip(self._memory.state, state, strict=True):
            torch.index_select(given, 1, self._order, out=own)
        self._memory.told.zero_()

    def learn(
        self,
        batch: "RolloutBatch",
        loss: LossSettings,
        adam: AdamSettings,
        corrections: Tensor,
    ) -> None:
        """Take the gradient steps of an epoch.

        Args:
            batch: the rollout in the order of the epoch.
            loss: the numbers of the loss.
            adam: Adam's numbers.
            corrections: `[steps, 2]` float32, Adam's, of each gradient step.
        """
        given = self.arguments(batch, StepSettings(loss, adam, corrections, self._steps))
        if corrections.device.type == "cuda":
            from pomp.learning.blockwise_cuda import learn_epoch_cuda

            launch_on_stream(learn_epoch_cuda, len(batch.modes), *given, threads=THREADS)
        else:
            numbers, marks = np.empty(NUMBERS, np.float32), np.empty(MARKS, np.uint8)
            learn_epoch_plainly(*map(share_all, given), numbers, marks)

    def arguments(self, batch: "RolloutBatch", settings: StepSettings) -> tuple[Any, ...]:
        """Return what the kernel takes for an epoch, as tensors.

        Args:
            batch: the rollout in the order of the epoch.
            settings: of its gradient steps.
        """
        sees = self._layout.feature != ABSENT
        planes = batch.observations.flatten(3) if sees else self._none
        readings = self._none[0, 0].to(torch.int16) if sees else batch.observations
        epoch = Epoch(planes, readings, batch.modes, batch.collected)
        return epoch, settings, self._layout, self._grid, self._memory

    def end(self, state: AdamState) -> Tensor:
        """Hand parameters and moments over, `[E, S]` each, which are written.

        Returns:
            `[E, 4]` float64, the sums of `STATISTICS` over the gradient steps since `begin`.
        """
        for own, given in zip(self._memory.state, state, strict=True):
            torch.index_select(own, 1, self._places, out=given)
        return self._memory.told
