"""The networks of stage 1: encoder, posterior, decoder and condition policy.

The published shapes; `parameter_counts` is checked against the published numbers.
"""

import math
from typing import NamedTuple

import torch
from torch import Tensor, nn

from pomp.dsl.grammar import published_mask
from pomp.dsl.vocabulary import Action, Vocabulary
from pomp.embedding.config import ModelConfig
from pomp.embedding.dataset import SIZE, find_vocabulary
from pomp.embedding.recurrence import GRU

NO_OP = len(Action)
"""The action index that stands for "the program has ended"."""

LOWEST = torch.finfo(torch.float32).min
"""Added to the logits of tokens the grammar forbids."""

_FILTERS, _KERNEL = 32, 3


class Posterior(NamedTuple):
    """Where a program may lie: `[B, Z]` each."""

    mean: Tensor
    log_sigma: Tensor


class TokenTable(nn.Embedding):
    """An embedding; on a GPU its gradient is a product, which always adds in the same order."""

    def forward(self, ids: Tensor) -> Tensor:
        """`[...]` int64 to `[..., E]`."""
        if ids.device.type != "cuda":
            return super().forward(ids)
        every = torch.arange(self.num_embeddings, device=ids.device)
        return (ids.unsqueeze(-1) == every).to(self.weight.dtype) @ self.weight


class Convolution(nn.Conv2d):
    """3x3, no padding; on a GPU a product of patches, where cuDNN would choose a slow transform."""

    def __init__(self, channels: int) -> None:
        super().__init__(channels, _FILTERS, _KERNEL)

    def forward(self, planes: Tensor) -> Tensor:
        """`[R, C, H, W]` to `[R, 32, H - 2, W - 2]`."""
        if planes.device.type != "cuda":
            return super().forward(planes)
        patches = planes.unfold(2, _KERNEL, 1).unfold(3, _KERNEL, 1)  # [R, C, H, W, 3, 3]
        rows = patches.permute(0, 2, 3, 1, 4, 5).flatten(3)  # [R, H, W, 9 C]
        return nn.functional.linear(rows, self.weight.flatten(1), self.bias).permute(0, 3, 1, 2)


class Encoder(nn.Module):
    """Tokens -> the last state of a GRU."""

    def __init__(self, tokens: int, width: int) -> None:
        super().__init__()
        self.embed = TokenTable(tokens, tokens)
        self.gru = GRU(tokens, width)

    def forward(self, ids: Tensor, lengths: Tensor) -> Tensor:
        """`[B, L]` int64, `DEF` first, and `[B]` int64 to `[B, W]`."""
        embedded = self.embed(ids)
        start = embedded.new_zeros((len(ids), self.gru.hidden_size))
        states = self.gru(embedded, start)  # [B, L, W]
        # The state at the last token: padding to its right does not leak in.
        is_last = torch.arange(ids.shape[1], device=ids.device) == (lengths - 1).unsqueeze(1)
        return (states * is_last.unsqueeze(2)).sum(dim=1)


class Decoder(nn.Module):
    """A latent and the tokens so far -> logits of the next token, before the grammar's mask."""

    def __init__(self, tokens: int, width: int) -> None:
        super().__init__()
        self.embed = TokenTable(tokens, tokens)
        self.gru = GRU(tokens + width, width)
        self.hidden = nn.Linear(width + tokens + width, width)
        self.output = nn.Linear(width, tokens)

    def forward(self, latent: Tensor, ids: Tensor) -> Tensor:
        """`[B, W]` and `[B, L]` int64, `DEF` first, to `[B, L, V]`."""
        embedded = self.embed(ids)
        repeated = latent.unsqueeze(1).expand(-1, ids.shape[1], -1)
        states = self.gru(torch.cat([embedded, repeated], dim=2), latent)
        joined = torch.cat([states, embedded, repeated], dim=2)
        return self.output(torch.tanh(self.hidden(joined)))


class ConditionPolicy(nn.Module):
    """A latent, the world and the last action -> logits of the next action: behave like it."""

    def __init__(self, channels: int, latent: int, width: int) -> None:
        super().__init__()
        side = SIZE - 2 * (_KERNEL - 1)
        self.see = nn.Sequential(
            *(Convolution(channels), nn.ReLU()),
            *(Convolution(_FILTERS), nn.ReLU()),
            *(nn.Flatten(), nn.Linear(_FILTERS * side * side, width), nn.ReLU()),
        )
        self.embed = TokenTable(NO_OP + 1, NO_OP + 1)
        self.gru = GRU(latent + width + NO_OP + 1, width)
        self.head = nn.Sequential(
            *(nn.Linear(width, width), nn.Tanh(), nn.Linear(width, width), nn.Tanh()),
            nn.Linear(width, NO_OP + 1),
        )

    def forward(
        self, latent: Tensor, seen: Tensor, previous: Tensor, state: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        """Some steps of N behaviours.

        Args:
            latent: `[N, Z]`.
            seen: `[N, T, W]`: the worlds' features, from `see`.
            previous: `[N, T]` int64: the action before each step, `NO_OP` before the first.
            state: `[N, W]`, the GRU's, to go on from; None: the beginning, which is the latent.

        Returns:
            Logits `[N, T, 6]`, and the GRU's state after the last step.
        """
        repeated = latent.unsqueeze(1).expand(-1, previous.shape[1], -1)
        steps = torch.cat([repeated, seen, self.embed(previous)], dim=2)
        states = self.gru(steps, latent if state is None else state)
        return self.head(states), states[:, -1]


class EmbeddingModel(nn.Module):
    """The whole of stage 1; weights are drawn by `initialise`, or loaded."""

    legal: Tensor

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.config = config
        tokens, width, latent = len(self.vocabulary), config.width, config.latent
        self.encoder = Encoder(tokens, width)
        is_joined = latent != width
        self.squeeze = nn.Linear(width, latent) if is_joined else nn.Identity()
        self.mean = nn.Linear(latent, latent)
        self.log_sigma = nn.Linear(latent, latent)
        self.widen = nn.Linear(latent, width) if is_joined else nn.Identity()
        self.decoder = Decoder(tokens, width)
        self.policy = ConditionPolicy(config.channels, latent, config.policy_width)
        legal = torch.from_numpy(published_mask(self.vocabulary).legal)
        self.register_buffer("legal", legal, persistent=False)

    @property
    def vocabulary(self) -> Vocabulary:
        """The dialect it reads and writes."""
        return find_vocabulary(self.config.vocabulary)

    def posterior(self, ids: Tensor, lengths: Tensor) -> Posterior:
        """Where programs lie: `[B, L]` and `[B]` int64 to two `[B, Z]`."""
        states = self.squeeze(self.encoder(ids, lengths))
        return Posterior(self.mean(states), self.log_sigma(states))

    def settle(self, latent: Tensor) -> Tensor:
        """A point of the posterior as the latent that is decoded (HPRL squashes it)."""
        return torch.tanh(latent) if self.config.tanh else latent

    def sample(self, posterior: Posterior, noise: Tensor) -> Tensor:
        """A latent from the posterior and standard normal noise, `[B, Z]` each."""
        spread = torch.exp(posterior.log_sigma) * (self.config.noise * noise)
        return self.settle(posterior.mean + spread)

    def token_logits(self, latent: Tensor, ids: Tensor, states: Tensor) -> Tensor:
        """Masked logits of the tokens that follow each prefix.

        Args:
            latent: `[B, Z]`.
            ids: `[B, L]` int64: the tokens read, `DEF` first.
            states: `[B, L]` int64: the grammar's state after reading each.

        Returns:
            `[B, L, V]`; forbidden tokens have the lowest float.
        """
        logits = self.decoder(self.widen(latent), ids)
        return logits.masked_fill(~self.legal[states], LOWEST)

    def parameter_counts(self) -> dict[str, int]:
        """How many numbers each part learns."""
        parts = {
            "encoder": (self.encoder,),
            "posterior": (self.squeeze, self.mean, self.log_sigma),
            "decoder": (self.widen, self.decoder),
            "policy": (self.policy,),
        }
        counts = {
            name: sum(weight.numel() for module in modules for weight in module.parameters())
            for name, modules in parts.items()
        }
        return counts | {"total": sum(counts.values())}


def initialise(model: EmbeddingModel, seed: int) -> None:
    """Draw the first weights, on the CPU: the same on every device.

    GRUs are orthogonal without bias; so are, with gain sqrt 2, the decoder's head and the policy.
    The rest is PyTorch's default.
    """
    generator = torch.Generator().manual_seed(seed)
    own_heads = {id(module) for part in (model.decoder, model.policy) for module in part.modules()}
    for module in model.modules():
        if isinstance(module, nn.Embedding):
            nn.init.normal_(module.weight, generator=generator)
        elif isinstance(module, nn.GRU):
            for weight in module.parameters():
                if weight.dim() > 1:
                    nn.init.orthogonal_(weight, generator=generator)
                else:
                    nn.init.zeros_(weight)
        elif isinstance(module, nn.Linear | nn.Conv2d):
            assert module.bias is not None
            if id(module) in own_heads:
                nn.init.orthogonal_(module.weight, math.sqrt(2), generator=generator)
                nn.init.zeros_(module.bias)
            else:
                bound = 1 / math.sqrt(module.weight.shape[1])
                nn.init.uniform_(module.weight, -bound, bound, generator=generator)
                nn.init.uniform_(module.bias, -bound, bound, generator=generator)
