"""The decoder's GPU kernels with products by NumPy, as tokens to compare.

Run as a script, under Numba's simulator, it writes the tokens to a file.
"""

import sys
import warnings

import numpy as np
import torch

from pomp.embedding.config import ModelConfig
from pomp.embedding.decoder import DEF, STACK, fold, grammar_tables, widened
from pomp.embedding.model import EmbeddingModel, initialise

ROWS, STEPS, THREADS = 3, 9, 64
CONFIG = ModelConfig(latent=12, width=20)


def model_and_latents():
    model = EmbeddingModel(CONFIG)
    initialise(model, 3)
    return model, torch.randn((ROWS, CONFIG.latent), generator=torch.Generator().manual_seed(1))


def decode():
    """The first tokens behind `DEF`, `[ROWS, STEPS]`."""
    from pomp.embedding.decoder_cuda import _choose, _first_state, _hidden_layer

    model, latents = model_and_latents()
    goto, push, start = grammar_tables(model.vocabulary)
    folded = fold(model)
    weights = {name: value.numpy() for name, value in folded._asdict().items()}
    first, shares = (value.detach().numpy() for value in widened(latents, ROWS, folded))
    hidden, of_state = first.copy(), first @ weights["state"]
    tokens, written = np.full(ROWS, DEF, np.int32), np.zeros(ROWS, np.int32)
    state, height = np.full(ROWS, start, np.int16), np.zeros(ROWS, np.int16)
    stack = np.zeros((ROWS, STACK), np.int16)
    layer = np.zeros_like(hidden)
    output = np.full((ROWS, STEPS), model.vocabulary.pad, np.uint8)
    rows = np.arange(ROWS, dtype=np.int32)
    noise = np.zeros((0, ROWS, goto.shape[1]), np.float32)
    gates = (weights["token"], shares)
    _first_state[ROWS, THREADS](*gates, of_state, weights["state_bias"], hidden)
    for _ in range(STEPS):
        of_state = hidden @ weights["state"]
        _hidden_layer[ROWS, THREADS](tokens, *gates, of_state, layer)
        _choose[ROWS, THREADS](
            layer @ weights["output"], weights["output_bias"], noise, goto, push,
            state, stack, height, rows, written, tokens, output,
            *gates, of_state, weights["state_bias"], hidden,
        )  # fmt: skip
    return output


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    np.save(sys.argv[1], decode())
