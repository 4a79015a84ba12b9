"""Speed of decoding, beside that of the loop one would write first."""

import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from pomp.dsl.grammar import published_mask
from pomp.embedding.config import MAX_GENERATED, PAPER
from pomp.embedding.dataset import make_dataset
from pomp.embedding.model import LOWEST, EmbeddingModel
from pomp.embedding.space import Embedding

CPU_BATCHES, CUDA_BATCHES = (65, 1024), (65, 4_800, 16_384)
_SECONDS = 3.0  # each measurement lasts at least this long


@dataclass(frozen=True)
class DecodeSpeed:
    """Programs per second for one batch size."""

    batch: int
    programs_per_second: float
    milliseconds: float
    """Of one call."""
    naive_programs_per_second: float | None
    """The naive loop in the same run; only measured on the CPU, where it runs too."""


def measure_decode(device: str) -> list[DecodeSpeed]:
    """Decode the paper's test split with the default weights; on the CPU on one thread."""
    embedding = Embedding.load(device=device)
    test = make_dataset(PAPER.dataset).split("test")
    latents = torch.from_numpy(embedding.encode(test.ids)).to(embedding.device)
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        batches = CUDA_BATCHES if device == "cuda" else CPU_BATCHES
        return [_measure(embedding, latents, batch) for batch in batches]
    finally:
        torch.set_num_threads(threads)


def _measure(embedding: Embedding, latents: Tensor, batch: int) -> DecodeSpeed:
    """Measure one batch size.

    Args:
        embedding: whose decoder.
        latents: `[N, Z]` float32, repeated as often as needed.
        batch: programs decoded at once.
    """
    repeated = latents.repeat(-(-8 * batch // len(latents)), 1)
    parts = [repeated[first : first + batch] for first in range(0, 8 * batch, batch)]
    seconds = _time(lambda part: embedding.decode(part), parts)
    naive = None
    if embedding.device.type == "cpu":
        naive = batch / _time(lambda part: decode_naively(embedding.model, part), parts)
    return DecodeSpeed(batch, batch / seconds, 1e3 * seconds, naive)


def _time(call: Callable[[Tensor], object], parts: list[Tensor]) -> float:
    """Return the seconds a call takes, on average over different batches.

    Args:
        call: decodes a batch.
        parts: batches of latents, `[B, Z]` each.
    """
    for part in parts:
        call(part)
    calls, begin = 0, time.perf_counter()
    while time.perf_counter() - begin < _SECONDS:
        for part in parts:
            call(part)
        calls += len(parts)
    return (time.perf_counter() - begin) / calls


def decode_naively(model: EmbeddingModel, latent: Tensor) -> NDArray[np.uint8]:
    """Decode greedily by the published loop: a GRU cell, the head, the mask, the likeliest token.

    Args:
        model: the embedding.
        latent: `[B, Z]` float32.

    Returns:
        Token ids, `[B, L]` uint8.
    """
    decoder, automaton = model.decoder, published_mask(model.vocabulary)
    cell = nn.GRUCell(decoder.gru.input_size, decoder.gru.hidden_size)
    cell.load_state_dict(
        {name.removesuffix("_l0"): weight for name, weight in decoder.gru.state_dict().items()}
    )
    with torch.no_grad():
        latent = model.widen(latent)
        hidden, tokens = latent, torch.zeros(len(latent), dtype=torch.int64)
        states = [automaton.read(automaton.start, [], 0)] * len(latent)
        stacks: list[list[int]] = [[] for _ in states]
        generated = []
        for _ in range(MAX_GENERATED):
            embedded = decoder.embed(tokens)
            hidden = cell(torch.cat([embedded, latent], dim=1), hidden)
            joined = torch.cat([hidden, embedded, latent], dim=1)
            logits = decoder.output(torch.tanh(decoder.hidden(joined)))
            logits = logits.masked_fill(~model.legal[torch.tensor(states)], LOWEST)
            tokens = logits.argmax(dim=1)
            generated.append(tokens.numpy().astype(np.uint8))
            states = [
                automaton.read(*at) for at in zip(states, stacks, tokens.tolist(), strict=True)
            ]
    return np.stack(generated, axis=1)
