"""What a training keeps in its folder: metrics, checkpoint and best weights."""

import json
from pathlib import Path
from typing import Any

import torch
from numpy.typing import NDArray
from torch import Tensor

from pomp.core.errors import DataFileError, OutputError
from pomp.core.storage import read_arrays, remove_drafts, write_arrays, write_atomically
from pomp.embedding.model import EmbeddingModel
from pomp.embedding.weights import load_weights

STATE_FILE, WEIGHTS_FILE = "state.safetensors", "weights.safetensors"
METRICS_FILE = "metrics.jsonl"

Optimisers = dict[str, torch.optim.Adam]


def save_state(
    folder: Path,
    model: EmbeddingModel,
    optimisers: Optimisers,
    others: dict[str, Tensor],
    header: dict[str, Any],
) -> None:
    """Write a checkpoint; the one before survives if this fails.

    Raises:
        OutputError: there is no room, or the folder cannot be written.
    """
    arrays = {f"model.{name}": value for name, value in model.state_dict().items()} | others
    names = [name for name, _ in model.named_parameters()]
    for prefix, adam in optimisers.items():
        for index, state in adam.state_dict()["state"].items():
            for key, value in state.items():
                arrays[f"{prefix}.{names[index]}.{key}"] = value
    plain = {name: value.detach().cpu().numpy() for name, value in arrays.items()}
    write_arrays(folder / STATE_FILE, plain, header)


def load_state(
    folder: Path, model: EmbeddingModel, optimisers: Optimisers
) -> tuple[dict[str, Tensor], dict[str, Any]] | None:
    """Put a checkpoint's weights and optimisers in place; returns the other tensors and the header.

    None if the run was stopped before its first checkpoint.

    Raises:
        DataFileError: the checkpoint is damaged.
    """
    remove_drafts(folder, STATE_FILE, WEIGHTS_FILE, METRICS_FILE)
    path = folder / STATE_FILE
    if not path.exists():
        return None
    arrays, header = read_arrays(path, "training state")
    try:
        return _put(arrays, model, optimisers), header
    except (KeyError, RuntimeError, ValueError) as error:
        raise DataFileError(f"'{path}' is no checkpoint of this run; begin again") from error


def _put(
    arrays: dict[str, NDArray[Any]], model: EmbeddingModel, optimisers: Optimisers
) -> dict[str, Tensor]:
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


def add_metrics(folder: Path, metrics: dict[str, Any]) -> None:
    """Add an epoch's line.

    Raises:
        OutputError: there is no room, or the folder cannot be written.
    """
    path = folder / METRICS_FILE
    try:
        with path.open("a") as file:
            file.write(json.dumps(metrics) + "\n")
    except OSError as error:
        raise OutputError(f"cannot write '{path}': {error.strerror or error}") from error


def read_metrics(folder: Path) -> list[dict[str, Any]]:
    """The metrics of a run's epochs, up to the first line that is damaged or cut short."""
    path = folder / METRICS_FILE
    lines = []
    for line in path.read_text(errors="replace").splitlines() if path.exists() else ():
        try:
            metrics = json.loads(line)
        except ValueError:
            break
        if not isinstance(metrics, dict) or not {"epoch", "train", "validation"} <= set(metrics):
            break
        lines.append(metrics)
    return lines


def cut_metrics(folder: Path, epochs: int) -> None:
    """Leave only the first epochs' lines."""
    kept = [line for line in read_metrics(folder) if line["epoch"] < epochs]
    text = "".join(json.dumps(line) + "\n" for line in kept)
    try:
        write_atomically(folder / METRICS_FILE, text.encode())
    except OSError as error:
        raise OutputError(f"cannot write '{folder}': {error.strerror or error}") from error


def finished_card(folder: Path) -> dict[str, Any] | None:
    """The card of a run that has come to its end; None if it has not."""
    path = folder / WEIGHTS_FILE
    card = load_weights(path).card if path.is_file() else {}
    return card if "recipe" in card else None
