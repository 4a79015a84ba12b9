"""Looking at the space: a map of programs in two dimensions, and what lies between two of them."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from pomp.dsl.bytecode import compile_ids, compile_programs
from pomp.dsl.vocabulary import Action
from pomp.embedding.dataset import Dataset
from pomp.embedding.demonstrations import agreement
from pomp.embedding.evaluate import draw_starts
from pomp.embedding.space import Embedding

KINDS = (*(action.token for action in Action), "does nothing")
"""What a behaviour is called: the action it mostly begins with."""

_EXAGGERATION = 12.0  # of the affinities in the first steps of the layout
_STATES = 50  # random worlds on which two programs are compared


@dataclass(frozen=True)
class SpaceMap:
    """N programs in two dimensions.

    Attributes:
        points: `[N, 2]`: neighbours in the space are neighbours here (t-SNE).
        kind: `[N]`: an index in `KINDS`.
    """

    points: NDArray[np.float32]
    kind: NDArray[np.int64]


def map_space(embedding: Embedding, dataset: Dataset) -> SpaceMap:
    """Encode programs and lay them out so that neighbours stay neighbours."""
    latents = torch.from_numpy(embedding.encode(dataset.ids))
    return SpaceMap(embed_in_plane(latents).numpy(), first_action(dataset))


def first_action(dataset: Dataset) -> NDArray[np.int64]:
    """The action most demonstrations of each program begin with, an index in `KINDS`."""
    shown = dataset.demonstrations
    begins = np.where(shown.length > 0, shown.actions[:, :, 0], len(Action))
    counts = np.stack([(begins == kind).sum(axis=1) for kind in range(len(KINDS))], axis=1)
    return counts.argmax(axis=1)


def embed_in_plane(vectors: Tensor, perplexity: float = 30.0, steps: int = 500) -> Tensor:
    """t-SNE, begun at the principal components: `[N, Z]` to `[N, 2]`, the same every time."""
    centred = vectors - vectors.mean(dim=0)
    _, _, directions = torch.linalg.svd(centred, full_matrices=False)
    # A direction's sign is arbitrary: let its largest entry be positive.
    largest = directions[:2].gather(1, directions[:2].abs().argmax(dim=1, keepdim=True))
    points = centred @ (largest.sign() * directions[:2]).t()
    points = 1e-2 * points / points[:, 0].std()
    near = _affinities(torch.cdist(centred, centred) ** 2, min(perplexity, (len(vectors) - 1) / 3))
    velocity = torch.zeros_like(points)
    rate = max(len(vectors) / _EXAGGERATION / 4, 50.0)
    for step in range(steps):
        is_early = step < steps // 4
        close = 1 / (1 + torch.cdist(points, points) ** 2)
        close.fill_diagonal_(0)
        pull = ((_EXAGGERATION if is_early else 1.0) * near - close / close.sum()) * close
        gradient = 4 * (pull.sum(dim=1, keepdim=True) * points - pull @ points)
        velocity = (0.5 if is_early else 0.8) * velocity - rate * gradient
        points = points + velocity
    return points


def _affinities(distances: Tensor, perplexity: float) -> Tensor:
    """How near points are, `[N, N]`, adding up to one; each has about `perplexity` neighbours."""
    low, high = torch.full_like(distances[:, :1], 1e-10), torch.full_like(distances[:, :1], 1e10)
    for _ in range(64):  # bisect the width of each point's kernel, on a logarithmic scale
        width = (low * high).sqrt()
        odds = torch.exp(-distances / width)
        odds.fill_diagonal_(0)
        odds /= odds.sum(dim=1, keepdim=True).clamp_min(1e-30)
        entropy = -(odds * odds.clamp_min(1e-30).log()).sum(dim=1, keepdim=True)
        is_wide = entropy > np.log(perplexity)
        low, high = torch.where(is_wide, low, width), torch.where(is_wide, width, high)
    return (odds + odds.t()) / (2 * len(odds))


@dataclass(frozen=True)
class Waypoint:
    """A point between two programs."""

    share: float
    """Of the way."""
    program: str
    is_valid: bool
    like_first: float
    """Agreement of its behaviour with the first program's; `like_second` likewise."""
    like_second: float


def walk(embedding: Embedding, ends: Sequence[str], steps: int, seed: int = 0) -> list[Waypoint]:
    """Decode points on the line between two programs' latents, both ends included."""
    first, second = embedding.encode(list(ends))
    shares = np.linspace(0, 1, steps)
    ids = embedding.decode(np.stack([(1 - share) * first + share * second for share in shares]))
    vocabulary = embedding.model.vocabulary
    code = compile_ids(ids, vocabulary)
    starts, setting = draw_starts(steps, _STATES, seed)
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
