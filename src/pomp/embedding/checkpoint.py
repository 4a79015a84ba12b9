"""The networks and optimisers of a training as plain arrays, and back."""

from typing import Any

import torch
from numpy.typing import NDArray
from torch import Tensor

from pomp.embedding.model import EmbeddingModel

Optimisers = dict[str, torch.optim.Adam]


def arrays_of(
    model: EmbeddingModel, optimisers: Optimisers, others: dict[str, Tensor]
) -> dict[str, NDArray[Any]]:
    """Return weights, moments and other tensors by name.

    Args:
        model: the networks.
        optimisers: by the prefix of their arrays' names.
        others: further tensors, each of its own shape `[...]`; their names have no dot.

    Returns:
        Arrays of the tensors' shapes `[...]`.
    """
    arrays = {f"model.{name}": value for name, value in model.state_dict().items()} | others
    names = [name for name, _ in model.named_parameters()]
    for prefix, adam in optimisers.items():
        for index, state in adam.state_dict()["state"].items():
            for key, value in state.items():
                arrays[f"{prefix}.{names[index]}.{key}"] = value
    return {name: value.detach().cpu().numpy() for name, value in arrays.items()}


def put_arrays(
    arrays: dict[str, NDArray[Any]], model: EmbeddingModel, optimisers: Optimisers
) -> dict[str, Tensor]:
    """Put what `arrays_of` returned in place.

    Args:
        arrays: by name, each of its own shape `[...]`.
        model: written.
        optimisers: written.

    Returns:
        The other tensors, each of its own shape `[...]`.
    """
    groups: dict[str, dict[str, Tensor]] = {"model": {}, **{prefix: {} for prefix in optimisers}}
    others = {}
    for name, array in arrays.items():
        prefix, _, rest = name.partition(".")
        if rest:
            groups[prefix][rest] = torch.from_numpy(array)
        else:
            others[name] = torch.from_numpy(array)
    model.load_state_dict(groups["model"])
    names = [name for name, _ in model.named_parameters()]
    for prefix, adam in optimisers.items():
        states: dict[int, dict[str, Tensor]] = {}
        for name, tensor in groups[prefix].items():
            parameter, key = name.rsplit(".", 1)
            states.setdefault(names.index(parameter), {})[key] = tensor
        settings = adam.state_dict()["param_groups"]
        adam.load_state_dict({"state": states, "param_groups": settings})
    return others
