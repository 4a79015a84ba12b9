"""A trained embedding as one file: safetensors with a model card in its header."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pomp.core.configs import from_json, to_json
from pomp.core.errors import ConfigError, DataFileError, UnknownNameError
from pomp.core.extras import LEARN, require
from pomp.core.schemas import FREE, Array, Named, Record, Whole, check_arrays
from pomp.core.storage import read_arrays, write_arrays
from pomp.embedding.config import DatasetConfig, ModelConfig

if TYPE_CHECKING:
    from pomp.embedding.model import EmbeddingModel

FORMAT = 1
SUFFIX = ".safetensors"
_FOLDER = Path(__file__).with_name("shipped")
_DEFAULTS = ("best", "paper")
_VERSIONED = Record({"format": FREE}, is_open=True)
_HEADER = Record({"format": Whole(FORMAT, FORMAT), "model": FREE, "card": Named(FREE)})


@dataclass(frozen=True)
class Trained:
    """A model and where it comes from.

    Attributes:
        model: the networks, on the CPU.
        card: its data, recipe, commit, hardware, wall-clock time and metrics.
    """

    model: "EmbeddingModel"
    card: dict[str, Any]


def shipped_names() -> list[str]:
    """Return the names of the weights inside the package, the default first.

    Those of a baseline, in another vocabulary, stand last and are never the default.
    """
    others = {path.stem for path in _FOLDER.glob(f"*{SUFFIX}")}.difference(_DEFAULTS)
    return [name for name in _DEFAULTS if _shipped(name).is_file()] + sorted(others)


def _shipped(name: str) -> Path:
    return _FOLDER / f"{name}{SUFFIX}"


def find_weights(name: str | None) -> Path:
    """Find the file of weights.

    Args:
        name: shipped weights, a file, or the folder of a training; None: the best shipped weights.

    Raises:
        UnknownNameError: the name is neither shipped nor a file.
    """
    names = shipped_names()
    if name is None:
        if names[:1] not in [[one] for one in _DEFAULTS]:
            raise DataFileError("no embedding is shipped with this copy of pomp; name a file")
        return _shipped(names[0])
    if name in names:
        return _shipped(name)
    path = Path(name)
    if path.is_dir() and (path / f"weights{SUFFIX}").is_file():
        return path / f"weights{SUFFIX}"
    if path.exists() or path.suffix or path.name != name:
        return path
    raise UnknownNameError("embedding", name, names)


def save_weights(path: Path, model: "EmbeddingModel", card: dict[str, Any]) -> None:
    """Write a model and its card; if that fails, what was there before stays."""
    arrays = {name: weight.cpu().numpy() for name, weight in model.state_dict().items()}
    header = {"format": FORMAT, "model": to_json(model.config), "card": card}
    write_arrays(path, arrays, header)


def load_weights(path: Path) -> Trained:
    """Read what `save_weights` wrote.

    Raises:
        DataFileError: the file is truncated, is no embedding, or does not fit its header.
        MissingExtraError: torch is not installed.
    """
    require(LEARN, "an embedding")
    import torch

    from pomp.embedding.model import EmbeddingModel

    arrays, header = read_arrays(path, "embedding", _VERSIONED)
    if header["format"] != FORMAT:
        got = header["format"]
        raise DataFileError(f"'{path}' has embedding format {got!r}, this pomp reads {FORMAT}")
    try:
        _HEADER.check(header)
        config = from_json(ModelConfig, header["model"])
    except (DataFileError, ConfigError) as error:
        raise DataFileError(f"'{path}' does not describe its model ({error})") from error
    with torch.device("meta"):  # a file from a stranger must not claim the memory
        model = EmbeddingModel(config)
    try:
        shapes = {name: tuple(weight.shape) for name, weight in model.state_dict().items()}
        check_arrays(arrays, {name: Array("float32", shape) for name, shape in shapes.items()})
    except DataFileError as error:
        raise DataFileError(
            f"'{path}' does not fit its model ({config.vocabulary}, latent {config.latent}, width "
            f"{config.width}): {error}"
        ) from error
    model = EmbeddingModel(config)
    model.load_state_dict({name: torch.from_numpy(array) for name, array in arrays.items()})
    return Trained(model.eval(), header["card"])


def data_of(card: dict[str, Any]) -> tuple[DatasetConfig, int]:
    """Return the dataset that weights were trained on, and how many programs were drawn for it.

    Raises:
        DataFileError: the card does not say.
    """
    try:
        data = dict(card["data"])
        draws = data.pop("draws")
        return from_json(DatasetConfig, data), int(draws)
    except (KeyError, TypeError, ValueError) as error:
        raise DataFileError("these weights' card does not say what they were trained on") from error
