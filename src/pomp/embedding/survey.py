"""Pictures of the space: a map of programs in two dimensions, and the line between two."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from pomp.dsl.bytecode import compile_ids, compile_programs
from pomp.dsl.vocabulary import Action
from pomp.embedding.comparison import agreement
from pomp.embedding.dataset import Dataset
from pomp.embedding.evaluate import draw_comparison_starts
from pomp.embedding.space import Embedding

KINDS = (*(action.token for action in Action), "does nothing")
"""The kinds of behaviour: the action that most demonstrations of a program begin with."""

_EXAGGERATION = 12.0  # of the affinities in the first steps of t-SNE
_STATES = 50  # random worlds on which two programs are compared


@dataclass(frozen=True)
class SpaceMap:
    """N programs in two dimensions.

    Attributes:
        points: `[N, 2]` float32, neighbours in the space are neighbours here (t-SNE).
        kind: `[N]` int64, an index in `KINDS`.
    """

    points: NDArray[np.float32]
    kind: NDArray[np.int64]


def map_space(embedding: Embedding, dataset: Dataset) -> SpaceMap:
    """Encode programs and map them to the plane so that neighbours stay neighbours."""
    latents = torch.from_numpy(embedding.encode(dataset.ids))
    return SpaceMap(embed_in_plane(latents).numpy(), first_action(dataset))


def first_action(dataset: Dataset) -> NDArray[np.int64]:
    """Return the kind of each program's behaviour, `[N]` int64, an index in `KINDS`."""
    shown = dataset.demonstrations
    begins = np.where(shown.length > 0, shown.actions[:, :, 0], len(Action))
    counts = np.stack([(begins == kind).sum(axis=1) for kind in range(len(KINDS))], axis=1)
    return counts.argmax(axis=1)


def embed_in_plane(vectors: Tensor, perplexity: float = 30.0, steps: int = 500) -> Tensor:
    """Map vectors to the plane by t-SNE, which begins at the principal components.

    Args:
        vectors: `[N, Z]` float32.
        perplexity: about how many neighbours a vector has.
        steps: how many gradient steps are made.

    Returns:
        `[N, 2]` float32; the same vectors always give the same points.
    """
    centred = vectors - vectors.mean(dim=0)
    _, _, directions = torch.linalg.svd(centred, full_matrices=False)
    # A direction's sign is arbitrary: let its largest entry be positive.
    largest = directions[:2].gather(1, directions[:2].abs().argmax(dim=1, keepdim=True))
    points = centred @ (largest.sign() * directions[:2]).t()
    points = 1e-2 * points / points[:, 0].std()
    near = _affinities(torch.cdist(centred, centred) ** 2, min(perplexity, (len(vectors) - 1) / 3))
    velocity = torch.zeros_like(points)
    learning_rate = max(len(vectors) / _EXAGGERATION / 4, 50.0)
    for step in range(steps):
        is_early = step < steps // 4
        close = 1 / (1 + torch.cdist(points, points) ** 2)
        close.fill_diagonal_(0)
        pull = ((_EXAGGERATION if is_early else 1.0) * near - close / close.sum()) * close
        gradient = 4 * (pull.sum(dim=1, keepdim=True) * points - pull @ points)
        velocity = (0.5 if is_early else 0.8) * velocity - learning_rate * gradient
        points = points + velocity
    return points


def _affinities(distances: Tensor, perplexity: float) -> Tensor:
    """Return how near points are, `[N, N]`, adding up to one.

    Args:
        distances: `[N, N]` float32, squared distances.
        perplexity: about how many neighbours a point has.
    """
    low, high = torch.full_like(distances[:, :1], 1e-10), torch.full_like(distances[:, :1], 1e10)
    for _ in range(64):  # bisect the width of each point's kernel, on a logarithmic scale
        width = (low * high).sqrt()
        probs = torch.exp(-distances / width)
        probs.fill_diagonal_(0)
        probs /= probs.sum(dim=1, keepdim=True).clamp_min(1e-30)
        entropy = -(probs * probs.clamp_min(1e-30).log()).sum(dim=1, keepdim=True)
        is_wide = entropy > np.log(perplexity)
        low, high = torch.where(is_wide, low, width), torch.where(is_wide, width, high)
    return (probs + probs.t()) / (2 * len(probs))


@dataclass(frozen=True)
class Waypoint:
    """A point between two programs.

    Attributes:
        share: the share of the way from the first to the second, from 0 to 1.
        program: the text of the program that the point decodes to.
        is_valid: whether the text is a program.
        like_first: how far it behaves like the first program, from 0 to 1.
        like_second: how far it behaves like the second program, from 0 to 1.
    """

    share: float
    program: str
    is_valid: bool
    like_first: float
    like_second: float


def walk(embedding: Embedding, ends: Sequence[str], steps: int, seed: int = 0) -> list[Waypoint]:
    """Decode points on the line between two programs' latents, both ends included."""
    first, second = embedding.encode(list(ends))
    shares = np.linspace(0, 1, steps)
    ids = embedding.decode(np.stack([(1 - share) * first + share * second for share in shares]))
    vocabulary = embedding.vocabulary
    code = compile_ids(ids, vocabulary)
    starts, setting = draw_comparison_starts(steps, _STATES, seed)
    likeness = [
        agreement(compile_programs([end] * steps, vocabulary), code, starts, setting)
        for end in ends
    ]
    return [
        Waypoint(
            float(share), " ".join(vocabulary.decode(row)), bool(code.valid[k]),
            float(likeness[0][k]), float(likeness[1][k]),
        )
        for k, (share, row) in enumerate(zip(shares, ids.tolist(), strict=True))
    ]  # fmt: skip
