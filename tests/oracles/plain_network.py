"""The transition network of torch's own layers, and arrays and inputs to try it on."""

import math

import numpy as np
import torch
from torch import nn
from torch.nn.utils.parametrizations import weight_norm

HEADS = ("actor", "critic")


class PlainNetwork(nn.Module):
    """One network of torch's own layers; `load` takes the weights of one of ours."""

    def __init__(self, shape):
        super().__init__()
        self.shape, hidden, modes = shape, shape.config.hidden, shape.modes
        cells = (shape.height - 4) * (shape.width - 4)
        layers = {
            "grid.0": nn.Conv2d(8, 32, 4),
            "grid.1": nn.Conv2d(32, 32, 2),
            "grid.2": nn.Linear(32 * cells, hidden),
            "mode": nn.Linear(modes + 1, hidden),
            "trunk.0": nn.Linear(2 * hidden, hidden),
            "trunk.1": nn.Linear(hidden, hidden),
            "actor": nn.Linear(hidden, modes + 1),
            "critic": nn.Linear(hidden, 1),
        }
        if shape.config.inputs == "grid":
            for name in ("mode", "trunk.0", "trunk.1"):
                del layers[name]
        if shape.config.inputs == "perceptions+mode":
            for name in ("grid.0", "grid.1", "grid.2", "mode"):
                del layers[name]
            layers["trunk.0"] = nn.Linear(5 + modes + 1, hidden)
        if shape.config.weight_norm:
            layers = {n: x if n in HEADS else weight_norm(x) for n, x in layers.items()}
        self.layers = nn.ModuleDict({name.replace(".", "_"): x for name, x in layers.items()})

    def layer(self, name):
        return self.layers[name.replace(".", "_")]

    def tensors(self):
        """Our name of each parameter -> torch's."""
        found = {}
        for name in (one.replace("_", ".") for one in self.layers):
            layer = self.layer(name)
            found[f"{name}.bias"] = layer.bias
            if self.shape.config.weight_norm and name not in HEADS:
                found[f"{name}.scale"] = layer.parametrizations.weight.original0
                found[f"{name}.weight"] = layer.parametrizations.weight.original1
            else:
                found[f"{name}.weight"] = layer.weight
        return found

    @torch.no_grad()
    def load(self, arrays):
        tensors = self.tensors()
        assert set(tensors) == set(arrays)
        for name, array in arrays.items():
            tensors[name].copy_(torch.from_numpy(array).reshape(tensors[name].shape))
        return self

    def row(self, kind="data"):
        """Its parameters, or their gradients, as one row in the order of ours."""
        named = {
            name: getattr(tensor, kind).reshape(shape).numpy()
            for (name, tensor), shape in (
                (one, dict(self.shape.parts)[one[0]]) for one in self.tensors().items()
            )
        }
        return self.shape.pack(named)

    def features(self, seen, one_hot):
        """What the two heads see."""
        if self.shape.config.inputs == "perceptions+mode":
            hidden = torch.cat([seen, one_hot], dim=1)
        else:
            hidden = torch.relu(self.layer("grid.0")(seen))
            hidden = torch.relu(self.layer("grid.1")(hidden)).flatten(1)
            hidden = torch.relu(self.layer("grid.2")(hidden))
            if self.shape.config.inputs == "grid":
                return hidden
            hidden = torch.cat([hidden, torch.relu(self.layer("mode")(one_hot))], dim=1)
        hidden = torch.relu(self.layer("trunk.0")(hidden))
        return torch.relu(self.layer("trunk.1")(hidden))

    def forward(self, seen, one_hot):
        hidden = self.features(seen, one_hot)
        return self.layer("actor")(hidden), self.layer("critic")(hidden).squeeze(1)


def one_hot(modes, count):
    """`[B]` -> `[B, count + 1]`: nothing is on before the first mode."""
    rows = torch.zeros(len(modes), count + 1)
    for row, mode in zip(rows, modes.tolist(), strict=True):
        if mode >= 0:
            row[mode] = 1.0
    return rows


def random_arrays(shape, seed):
    """Weights, gains and biases with nothing special about them."""
    draw = np.random.default_rng(seed)
    return {
        name: (draw.normal(size=size) / math.sqrt(max(1, math.prod(size[1:])))).astype(np.float32)
        for name, size in shape.parts
    }


def random_inputs(shape, batch, seed):
    draw = np.random.default_rng(seed)
    planes = (batch, 8, shape.height, shape.width) if shape.sees_grid else (batch,)
    seen = draw.integers(0, 2 if shape.sees_grid else 16, planes).astype(np.uint8)
    return torch.from_numpy(seen), torch.from_numpy(draw.integers(-1, shape.modes, batch))


def as_floats(shape, seen):
    """What a plain network is given: 0 and 1, not scaled."""
    if shape.sees_grid:
        return seen.float()
    bits = [(seen >> bit & 1).float() for bit in range(4)]
    return torch.stack([*bits, 1 - bits[3]], dim=1)
