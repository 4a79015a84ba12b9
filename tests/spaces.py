"""A space of a few programs, for tests of HPRL: which one a latent stands for, its signs say."""

import numpy as np

from pomp.dsl.vocabulary import HPRL

NONE = "DEF run m( m)"  # passes the decoder's mask, and is no program


class Signs:
    """Latents of two numbers: their signs choose one of four texts, programs or not."""

    latent, vocabulary, digest = 2, HPRL, "signs"

    def __init__(self, *texts):
        self.texts = texts
        self._ids = np.full((4, 46), HPRL.pad, np.uint8)
        for row, text in zip(self._ids, texts, strict=True):
            tokens = HPRL.encode(text.split())
            row[: len(tokens)] = tokens

    def numbers(self, latents):
        """Which of the texts each latent stands for."""
        signs = np.asarray(latents) > 0
        return 2 * signs[:, 0] + signs[:, 1]

    def decode(self, latents):
        return self._ids[self.numbers(latents)]
