"""The GPU decoder without a GPU: simulated kernels, plain calls for graphs, the CPU's products.

Run as a script, under Numba's simulator, it writes the tokens to a file.
"""

import sys
import warnings

import numpy as np
import torch

from pomp.embedding.config import MAX_GENERATED, ModelConfig
from pomp.embedding.model import EmbeddingModel, initialise

ROWS, THREADS = 3, 51
CONFIG = ModelConfig(latent=8, width=12)


def model_and_latents():
    model = EmbeddingModel(CONFIG)
    initialise(model, 3)
    with torch.no_grad():  # let programs end, some of them early
        for token in ("m)", "move", "turnLeft"):
            model.decoder.output.bias[model.vocabulary.id_of[token]] = 2.5
    draw = torch.Generator().manual_seed(1)
    return model, torch.randn((ROWS, CONFIG.latent), generator=draw)


def noise_of(model):
    """Gumbel noise that samples programs."""
    draw = torch.Generator().manual_seed(2)
    uniform = torch.rand((MAX_GENERATED, ROWS, len(model.vocabulary)), generator=draw)
    return -torch.log(-torch.log(uniform.clamp(1e-6, 1 - 1e-6)))


def decode():
    """Greedy and sampled tokens, `[2, ROWS, MAX_GENERATED]`."""
    from pomp.embedding import decoder_cuda

    def to_arrays(argument):
        is_tensor = isinstance(argument, torch.Tensor)
        return argument.numpy() if is_tensor else type(argument)(*map(to_arrays, argument))

    def launch(batch, loop, *arguments, blocks=None):
        loop[blocks or batch.size, THREADS](*map(to_arrays, arguments))

    class Reading:
        """A number that is there at once."""

        def begin(self, number):
            self.number = int(number)

        def end(self):
            return self.number

    decoder_cuda.SIZES = (2, 4, 8)
    decoder_cuda._SHRINKING_ROWS = 2  # so that batches shrink on the way
    decoder_cuda._Batch._launch = launch
    decoder_cuda._Reading = Reading
    decoder_cuda._Graph.run = lambda graph: graph._work()
    model, latents = model_and_latents()
    decoder = decoder_cuda.CudaDecoder(model)
    return np.stack([decoder.decode(latents), decoder.decode(latents, noise_of(model))])


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    np.save(sys.argv[1], decode())
