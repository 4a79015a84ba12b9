"""A shipped embedding as a map: programs in a plane each of whose points can be decoded."""

from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from pomp.core.errors import ProgramSyntaxError, UnknownNameError
from pomp.core.extras import LEARN, require
from pomp.dsl.parser import parse
from pomp.dsl.words import describe_program
from pomp.play.story import numbered_lines
from pomp.studio.finding import read_text_machine
from pomp.studio.packing import pack_array
from pomp.studio.recording import record_episode

if TYPE_CHECKING:
    from pomp.embedding.space import Embedding

_PROGRAMS = 1000  # that are shown on a map
_SEED = 0
_TASKS = ("Harvester", "StairClimber", "FourCorner")
"""In which the behaviour of a program is shown."""


@dataclass(frozen=True)
class Plane:
    """The plane of the two principal components of some programs' latents.

    Attributes:
        embedding: whose.
        mean: `[Z]` float32, the middle of the latents.
        axes: `[2, Z]` float32, the directions of the plane.
        data: what the page shows.
    """

    embedding: "Embedding"
    mean: NDArray[np.float32]
    axes: NDArray[np.float32]
    data: dict[str, Any]


def list_spaces() -> list[dict[str, Any]]:
    """Return the embeddings that come with the package; none where they cannot be used."""
    from pomp.core.extras import is_installed
    from pomp.embedding.weights import shipped_names

    return [{"name": name} for name in shipped_names()] if is_installed(LEARN) else []


@cache
def open_plane(name: str) -> Plane:
    """Return the map of a shipped embedding.

    Raises:
        UnknownNameError: none of that name is shipped.
        MissingExtraError: torch is not installed.
    """
    require(LEARN, "the map of an embedding")
    from pomp.embedding.dataset import draw_fresh
    from pomp.embedding.space import Embedding
    from pomp.embedding.survey import KINDS, first_action
    from pomp.embedding.weights import data_of, shipped_names

    if name not in shipped_names():
        raise UnknownNameError("embedding", name, shipped_names())
    embedding = Embedding.load(name)
    config, _ = data_of(embedding.card)
    dataset = draw_fresh(config, _PROGRAMS, _SEED, draws=0)  # also what it was trained on
    latents = embedding.encode(dataset.ids)
    mean = latents.mean(axis=0)
    _, spread, directions = np.linalg.svd(latents - mean, full_matrices=False)
    axes = directions[:2]
    axes = axes * np.sign(axes[np.arange(2), np.abs(axes).argmax(axis=1)])[:, None]
    decode = embedding.vocabulary.decode
    data = {
        "name": name,
        "points": pack_array(((latents - mean) @ axes.T).astype(np.float32)),
        "kind": pack_array(first_action(dataset).astype(np.uint8)),
        "kinds": list(KINDS),
        "programs": [" ".join(decode(row)) for row in dataset.ids.tolist()],
        "share": float((spread[:2] ** 2).sum() / (spread**2).sum()),
    }
    return Plane(embedding, mean, axes, data)


def decode_at(plane: Plane, x: float, y: float) -> dict[str, Any]:
    """Return the program at a point of a map, and what it does in some tasks."""
    latent = plane.mean + np.array([x, y], np.float32) @ plane.axes
    program = plane.embedding.texts(latent[None])[0]
    try:
        tree = parse(program)
    except ProgramSyntaxError:
        return {"program": program, "is_valid": False, "words": "", "lines": [], "behaviour": []}
    return {
        "program": program,
        "is_valid": True,
        "words": describe_program(tree),
        "lines": list(numbered_lines(program)[0]),
        "behaviour": [_behave(program, task) for task in _TASKS],
    }


def _behave(program: str, task: str) -> dict[str, Any]:
    """Return what a program earns in a task, from one start."""
    episode = record_episode(read_text_machine(program, task))
    return {"task": task, "actions": episode.actions, "return": episode.worth}
