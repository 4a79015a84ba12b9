"""What networks remember: a GRU for every member of an ensemble, over whole sequences.

The loop over steps is written out with its backward pass: two or three kernels a step, made to be
captured in a CUDA graph. The axes are E members, T steps, B sequences of each member, and U units;
the gates are in the order of `torch.nn.GRU`: reset, update, new.
"""

from typing import Any

import torch
from torch import Tensor


def run_gru(gates: Tensor, start: Tensor, weight: Tensor, bias: Tensor, goes_on: Tensor) -> Tensor:
    """Compute the states of GRUs from the products of their inputs.

    Args:
        gates: `[T, E, B, 3 U]`, the inputs' products with their weights, biases included.
        start: `[E, B, U]`, the states before the first step.
        weight: `[E, 3 U, U]`, the recurrent weights.
        bias: `[E, 3 U]`, the recurrent biases.
        goes_on: `[T, E, B]` bool, whether a step follows the one before; else the state is zero.

    Returns:
        `[T, E, B, U]`, the states after each step.
    """
    kept = goes_on.unsqueeze(-1).to(gates.dtype)
    found: Tensor = _EnsembleRecurrence.apply(gates, start, weight, bias, kept)  # type: ignore[no-untyped-call]  # torch's
    return found


class _EnsembleRecurrence(torch.autograd.Function):
    """The steps of `run_gru` and their gradients."""

    @staticmethod
    def forward(
        ctx: Any, gates: Tensor, start: Tensor, weight: Tensor, bias: Tensor, goes_on: Tensor
    ) -> Tensor:
        """Return the states after each step, `[T, E, B, U]`.

        Args:
            ctx: what the backward pass needs is saved here.
            gates: `[T, E, B, 3 U]`, the inputs' products.
            start: `[E, B, U]`, the states before.
            weight: `[E, 3 U, U]`, the recurrent weights.
            bias: `[E, 3 U]`, the recurrent biases.
            goes_on: `[T, E, B, 1]`, 1 where a step follows the one before, else 0.
        """
        state, across = start, weight.transpose(1, 2)
        states, befores, workspaces = list[Tensor](), list[Tensor](), list[Tensor]()
        for step, factor in zip(gates, goes_on, strict=True):
            before = state * factor
            recurrent = torch.baddbmm(bias.unsqueeze(1), before, across)
            flat, workspace = _run_cell(*(part.flatten(0, 1) for part in (step, recurrent, before)))
            state = flat.view(start.shape)
            states.append(state)
            befores.append(before)
            workspaces.append(workspace)
        ctx.save_for_backward(weight, goes_on, *befores, *workspaces)
        return torch.stack(states)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Any:
        """Return the gradients of all inputs of `forward` for a `gradient` `[T, E, B, U]`."""
        weight, goes_on, *kept = ctx.saved_tensors
        befores, workspaces = kept[: len(kept) // 2], kept[len(kept) // 2 :]
        later = torch.zeros_like(befores[0])
        of_gates, of_recurrent = list[Tensor](), list[Tensor]()
        for step in range(len(befores) - 1, -1, -1):
            now = (gradient[step] + later).flatten(0, 1)
            own, recurrent, passed = (
                part.view(*later.shape[:2], -1) for part in _run_cell_back(now, workspaces[step])
            )
            later = torch.baddbmm(passed, recurrent, weight) * goes_on[step]
            of_gates.append(own)
            of_recurrent.append(recurrent)
        recurrent = torch.stack(of_recurrent[::-1], dim=1).flatten(1, 2)  # [E, T * B, 3 U]
        before = torch.stack(befores, dim=1).flatten(1, 2)
        of_weight = recurrent.transpose(1, 2) @ before
        return torch.stack(of_gates[::-1]), later, of_weight, recurrent.sum(dim=1), None


def _run_cell(gates: Tensor, recurrent: Tensor, before: Tensor) -> tuple[Tensor, Tensor]:
    """Take one step.

    Args:
        gates: `[N, 3 U]`, the inputs' products.
        recurrent: `[N, 3 U]`, those of the states.
        before: `[N, U]`, the states.

    Returns:
        The next states, `[N, U]`, and what the way back needs, `[N, 5 U]`.
    """
    if gates.device.type == "cuda":
        after, workspace = torch.ops.aten._thnn_fused_gru_cell(gates, recurrent, before, None, None)
        return after, workspace
    own, others = gates.chunk(3, dim=-1), recurrent.chunk(3, dim=-1)
    reset, update = (torch.sigmoid(a + b) for a, b in zip(own[:2], others[:2], strict=True))
    new = torch.tanh(own[2] + reset * others[2])
    kept = torch.cat([reset, update, new, before, others[2]], dim=-1)
    return new + update * (before - new), kept


def _run_cell_back(gradient: Tensor, workspace: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Return the gradients of the inputs of `_run_cell`, `[N, 3 U]`, `[N, 3 U]` and `[N, U]`.

    Args:
        gradient: `[N, U]`, that of the next states.
        workspace: `[N, 5 U]`, what `_run_cell` returned.
    """
    if gradient.device.type == "cuda":
        found = torch.ops.aten._thnn_fused_gru_cell_backward(gradient, workspace, False)
        return found[0], found[1], found[2]
    reset, update, new, before, other = workspace.chunk(5, dim=-1)
    of_new = gradient * (1 - update) * (1 - new * new)
    of_update = gradient * (before - new) * update * (1 - update)
    of_reset = of_new * other * reset * (1 - reset)
    own = torch.cat([of_reset, of_update, of_new], dim=-1)
    return own, torch.cat([of_reset, of_update, of_new * reset], dim=-1), gradient * update
