"""The embedding as the rest of the package uses it: programs in, vectors out, and back."""

import hashlib
from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from pomp.core.cuda import check_device
from pomp.core.errors import ConfigError
from pomp.dsl.bytecode import compile_ids
from pomp.dsl.parser import check_tokens
from pomp.dsl.syntax import Program, tokens_of
from pomp.embedding.config import MAX_GENERATED
from pomp.embedding.decoder import CpuDecoder
from pomp.embedding.decoder_step import DEF
from pomp.embedding.model import EmbeddingModel
from pomp.embedding.weights import find_weights, load_weights

_ENCODED_AT_ONCE = {"cpu": 64, "cuda": 1024}


class Embedding:
    """A space of programs: `latents` `[B, Z]` float32 stand for B programs.

    Encoding and decoding are functions of one program or latent alone: what else is in the batch
    changes nothing.

    Attributes:
        device: where it computes.
        model: the networks.
        vocabulary: the tokens its programs are made of.
        card: how it was trained, as far as that is known.
        decoder: decodes latents fast.
    """

    def __init__(self, model: EmbeddingModel, device: str = "cpu", card: Any = None) -> None:
        self.device = torch.device(check_device(device))
        self.model = model.to(self.device).eval()
        self.vocabulary = model.vocabulary
        self.card: dict[str, Any] = card or {}
        self.decoder = make_decoder(model)

    @classmethod
    def load(cls, name: str | None = None, device: str = "cpu") -> "Embedding":
        """Load shipped weights by name, or a file; None: the best weights that are shipped.

        Raises:
            DataFileError: the file cannot be used.
        """
        trained = load_weights(find_weights(name))
        return cls(trained.model, device, trained.card)

    @property
    def latent(self) -> int:
        """How many numbers stand for a program, Z."""
        return self.model.config.latent

    @cached_property
    def digest(self) -> str:
        """What tells its weights from others: the beginning of a hash of them."""
        found = hashlib.sha256()
        for name, weight in sorted(self.model.state_dict().items()):
            found.update(name.encode())
            found.update(weight.cpu().numpy().tobytes())
        return found.hexdigest()[:16]

    def encode(
        self, programs: Sequence[Program | str] | NDArray[np.integer]
    ) -> NDArray[np.float32]:
        """Encode programs.

        Args:
            programs: texts, trees, or token ids `[B, L]` of any integer type.

        Returns:
            `[B, Z]` float32, their latents.

        Raises:
            ProgramSyntaxError: a text is not a program.
            ConfigError: ids are no programs, or one has more tokens than a decoder writes.
        """
        ids = self._as_ids(programs)
        size = _ENCODED_AT_ONCE[self.device.type]
        parts = [
            self._encode(ids[first : first + size], size) for first in range(0, len(ids), size)
        ]
        if not parts:
            return np.zeros((0, self.latent), np.float32)
        return torch.cat(parts).cpu().numpy()

    def _encode(self, ids: NDArray[np.uint8], rows: int) -> Tensor:
        """Encode a part of the programs.

        Args:
            ids: `[B, L]` uint8, token ids.
            rows: at least B; the batch is filled up to so many rows, so that every program meets
                the same matrix product.

        Returns:
            `[B, Z]` float32.
        """
        width = MAX_GENERATED + 1
        padded = np.full((rows, width), self.vocabulary.pad, np.uint8)
        padded[:, :3] = self.vocabulary.encode(("DEF", "run", "m("))
        padded[: len(ids), : ids.shape[1]] = ids[:, :width]
        lengths = torch.from_numpy((padded != self.vocabulary.pad).sum(axis=1))
        with torch.no_grad():
            posterior = self.model.posterior(
                torch.from_numpy(padded).to(self.device).long(), lengths.to(self.device)
            )
            return self.model.settle(posterior.mean)[: len(ids)]

    def decode(self, latents: NDArray[np.floating] | Tensor) -> NDArray[np.uint8]:
        """Decode latents greedily.

        A row may be no program: the published mask lets empty bodies pass, and 45 tokens may not be
        enough. `compile_ids` says which rows are programs.

        Args:
            latents: `[B, Z]` of real numbers.

        Returns:
            `[B, 46]` uint8, token ids, `DEF` first, padded.

        Raises:
            ConfigError: the latents have another width, or are not finite.
        """
        given = latents if isinstance(latents, Tensor) else _as_tensor(latents)
        if given.dim() != 2 or given.shape[1] != self.latent:
            got = list(given.shape)
            raise ConfigError(f"latents must have shape [programs, {self.latent}], got {got}")
        given = given.to(self.device, torch.float32)
        if not bool(torch.isfinite(given).all()):
            raise ConfigError("latents must be finite numbers, got NaN or infinity")
        ids = np.empty((len(given), MAX_GENERATED + 1), np.uint8)
        ids[:, 0] = DEF
        ids[:, 1:] = self.decoder.decode(given).cpu().numpy()
        return ids

    def texts(self, latents: NDArray[np.floating] | Tensor) -> list[str]:
        """Decode `latents` `[B, Z]` to texts; some may be no programs, as `decode` explains."""
        vocabulary = self.vocabulary
        return [" ".join(vocabulary.decode(row)) for row in self.decode(latents).tolist()]

    def _as_ids(self, programs: Sequence[Program | str] | NDArray[np.integer]) -> NDArray[np.uint8]:
        """Check programs, texts, trees or `programs` `[B, L]` ids; return `[B, L]` uint8."""
        vocabulary, width = self.vocabulary, MAX_GENERATED + 1
        if isinstance(programs, str | Program):
            raise ConfigError("programs are given as a list; put brackets around a single one")
        if isinstance(programs, np.ndarray):
            code = compile_ids(programs, vocabulary)
            if not code.valid.all():
                which = int(np.argmin(code.valid))
                raise ConfigError(f"row {which} of the token ids is not a program")
            longest = (programs != vocabulary.pad).sum(axis=1).max(initial=0)
            _check_length(int(longest))
            return programs[:, :width].astype(np.uint8)
        if not isinstance(programs, Sequence) or not all(
            isinstance(program, str | Program) for program in programs
        ):
            raise ConfigError("programs are a list of texts or trees, or an array of token ids")
        ids = np.full((len(programs), width), vocabulary.pad, np.uint8)
        for row, program in zip(ids, programs, strict=True):
            tokens = program.split() if isinstance(program, str) else tokens_of(program)
            check_tokens(tokens, vocabulary)
            _check_length(len(tokens))
            row[: len(tokens)] = vocabulary.encode(tokens)
        return ids


def _as_tensor(latents: Any) -> Tensor:
    """Turn numbers from anywhere into a tensor, `[...]`.

    Raises:
        ConfigError: they are no array of real numbers.
    """
    try:
        array = np.ascontiguousarray(latents)
        if array.dtype.kind not in "iuf":
            raise ValueError(f"got {array.dtype}")
    except ValueError as error:
        raise ConfigError(f"latents must be an array of real numbers ({error})") from error
    return torch.from_numpy(array)


def make_decoder(model: EmbeddingModel) -> Any:
    """Return the fast decoder for the device a model is on."""
    if next(model.parameters()).device.type == "cuda":
        from pomp.embedding.decoder_cuda import CudaDecoder

        return CudaDecoder(model)
    return CpuDecoder(model)


def _check_length(tokens: int) -> None:
    if tokens > MAX_GENERATED + 1:
        most = MAX_GENERATED + 1
        raise ConfigError(f"a program in the embedding has at most {most} tokens, got {tokens}")
