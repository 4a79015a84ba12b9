"""A GRU that is `torch.nn.GRU` on the CPU and a plain loop on a GPU.

cuDNN launches many small kernels for a GRU of this size and spends most of a backward pass on the
biases. The loop below is two kernels a step, made to be captured in a CUDA graph. Its rows do not
depend on each other, which cuDNN does not promise.

Axes: N sequences of L steps with F inputs, W the GRU's width; all arrays are float32.
"""

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional


class GRU(nn.GRU):
    """One layer, batch first; the same weights and results as `torch.nn.GRU`."""

    weight_ih_l0: Tensor
    weight_hh_l0: Tensor
    bias_ih_l0: Tensor
    bias_hh_l0: Tensor

    def __init__(self, inputs: int, width: int) -> None:
        super().__init__(inputs, width, batch_first=True)

    def forward(  # type: ignore[override]  # always with a start, never packed
        self, steps: Tensor, start: Tensor
    ) -> Tensor:
        """Return the states after each step, `[N, L, W]`.

        Args:
            steps: `[N, L, F]`, the inputs.
            start: `[N, W]`, the states before.
        """
        if steps.device.type != "cuda":
            return super().forward(steps, start.unsqueeze(0))[0]
        gates = functional.linear(steps.transpose(0, 1), self.weight_ih_l0)
        states: Tensor = _Recurrence.apply(  # type: ignore[no-untyped-call]  # torch's
            gates, start, self.weight_hh_l0, self.bias_ih_l0, self.bias_hh_l0
        )
        return states.transpose(0, 1)


class _Recurrence(torch.autograd.Function):
    """Computes the states of a GRU from the inputs' products with its weights."""

    @staticmethod
    def forward(
        ctx: Any, gates: Tensor, start: Tensor, weight: Tensor, input_bias: Tensor, bias: Tensor
    ) -> Tensor:
        """Return the states after each step, `[L, N, W]`.

        Args:
            ctx: what the backward pass needs is saved here.
            gates: `[L, N, 3 W]`, the inputs' products, without biases.
            start: `[N, W]`, the states before.
            weight: `[3 W, W]`, the recurrent weights.
            input_bias: `[3 W]`, the inputs' bias.
            bias: `[3 W]`, the recurrent bias.
        """
        state, states, memories = start.contiguous(), [], []
        for step in gates:
            recurrent = state @ weight.t()
            state, memory = torch.ops.aten._thnn_fused_gru_cell(
                step, recurrent, state, input_bias, bias
            )
            states.append(state)
            memories.append(memory)
        ctx.save_for_backward(start, weight, *states, *memories)
        return torch.stack(states)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Any:
        """Return the gradients of all inputs of `forward` for a `gradient` `[L, N, W]`."""
        start, weight, *kept = ctx.saved_tensors
        steps = len(kept) // 2
        states, memories = kept[:steps], kept[steps:]
        later = torch.zeros_like(start)
        of_input: list[Tensor] = []
        of_state: list[Tensor] = []
        for step in range(steps - 1, -1, -1):
            own, recurrent, passed, _, _ = torch.ops.aten._thnn_fused_gru_cell_backward(
                gradient[step] + later, memories[step], False
            )
            later = torch.addmm(passed, recurrent, weight)
            of_input.append(own)
            of_state.append(recurrent)
        gates = torch.stack(of_input[::-1])
        recurrent = torch.stack(of_state[::-1]).flatten(0, 1)
        before = torch.cat([start, *states[:-1]])
        return gates, later, recurrent.t() @ before, gates.sum((0, 1)), recurrent.sum(0)
