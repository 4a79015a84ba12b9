"""The networks and optimisers of a training as plain arrays, and back."""

from collections.abc import Mapping
from typing import Any

import torch
from numpy.typing import NDArray
from torch import Tensor

from pomp.core.schemas import Array, check_arrays
from pomp.embedding.model import EmbeddingModel

Optimisers = dict[str, torch.optim.Adam]
_MOMENTS = ("exp_avg", "exp_avg_sq")


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


def _schemas_of(
    arrays: Mapping[str, NDArray[Any]], model: EmbeddingModel, optimisers: Optimisers
) -> dict[str, Array]:
    """Return what the arrays of a checkpoint must be; weights without a gradient have no moments.

    Args:
        arrays: of a checkpoint, `[...]` each; those without a dot in their names are not looked at.
        model: the networks.
        optimisers: by the prefix of their arrays' names.
    """
    weights = {name: tuple(weight.shape) for name, weight in model.state_dict().items()}
    schemas = {f"model.{name}": Array("float32", shape) for name, shape in weights.items()}
    for prefix in optimisers:
        for name, weight in model.named_parameters():
            own = f"{prefix}.{name}."
            if any(own + key in arrays for key in _MOMENTS):
                schemas |= {own + key: Array("float32", tuple(weight.shape)) for key in _MOMENTS}
                # A file has no array without axes: a number is an array of one item.
                schemas[f"{own}step"] = Array("float32", (1,), 1, 1e9)
    return schemas | {
        name: Array(array.dtype.name, array.shape, is_finite=False, may_be_nan=True)
        for name, array in arrays.items()
        if "." not in name
    }


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

    Raises:
        DataFileError: an array is missing, unknown, or does not fit the networks.
    """
    check_arrays(arrays, _schemas_of(arrays, model, optimisers))
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
