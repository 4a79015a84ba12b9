"""The networks of stage 1: encoder, posterior, decoder and condition policy.

They have the published shapes; `parameter_counts` is checked against the published numbers. Axes: B
programs, L tokens, V tokens of the vocabulary, Z the latent, W a network's width; N behaviours of T
steps. Arrays: `latent` `[B, Z]` float32; `ids` `[B, L]` int64, token ids, `DEF` first, padded;
`lengths` `[B]` int64, how many of them are no padding.
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
"""The logit of a token that the grammar forbids."""

_FILTERS, _KERNEL = 32, 3


class Posterior(NamedTuple):
    """The normal distributions that programs are encoded to.

    Attributes:
        mean: `[B, Z]` float32.
        log_sigma: `[B, Z]` float32, the logarithms of the standard deviations.
    """

    mean: Tensor
    log_sigma: Tensor


class TokenTable(nn.Embedding):
    """An embedding; on a GPU its gradient is a product, which always adds in the same order."""

    def reset_parameters(self) -> None:
        """Draw nothing: weights come from `initialise` or a file.

        PyTorch's own drawing, on a model without memory, imports its compiler: a second.
        """

    def forward(self, ids: Tensor) -> Tensor:
        """Look up `ids` `[...]` int64; return `[..., E]` float32."""
        if ids.device.type != "cuda":
            return super().forward(ids)
        every = torch.arange(self.num_embeddings, device=ids.device)
        return (ids.unsqueeze(-1) == every).to(self.weight.dtype) @ self.weight


class Convolution(nn.Conv2d):
    """3x3, no padding; on a GPU a product of patches, where cuDNN would choose a slow transform."""

    def __init__(self, channels: int) -> None:
        super().__init__(channels, _FILTERS, _KERNEL)

    def forward(self, planes: Tensor) -> Tensor:
        """Convolve `planes` `[N, C, H, W]` float32; return `[N, 32, H - 2, W - 2]`."""
        if planes.device.type != "cuda":
            return super().forward(planes)
        patches = planes.unfold(2, _KERNEL, 1).unfold(3, _KERNEL, 1)  # [N, C, H, W, 3, 3]
        rows = patches.permute(0, 2, 3, 1, 4, 5).flatten(3)  # [N, H, W, 9 C]
        return nn.functional.linear(rows, self.weight.flatten(1), self.bias).permute(0, 3, 1, 2)


class Encoder(nn.Module):
    """A GRU that reads tokens; its last state stands for the program."""

    def __init__(self, tokens: int, width: int) -> None:
        super().__init__()
        self.embed = TokenTable(tokens, tokens)
        self.gru = GRU(tokens, width)

    def forward(self, ids: Tensor, lengths: Tensor) -> Tensor:
        """Return `[B, W]` float32, the GRU's states after each program's last token."""
        embedded = self.embed(ids)
        start = embedded.new_zeros((len(ids), self.gru.hidden_size))
        states = self.gru(embedded, start)  # [B, L, W]
        # The state at the last token: padding to its right does not leak in.
        is_last = torch.arange(ids.shape[1], device=ids.device) == (lengths - 1).unsqueeze(1)
        return (states * is_last.unsqueeze(2)).sum(dim=1)


class Decoder(nn.Module):
    """Maps a latent and the tokens so far to the next token's logits, before the mask."""

    def __init__(self, tokens: int, width: int) -> None:
        super().__init__()
        self.embed = TokenTable(tokens, tokens)
        self.gru = GRU(tokens + width, width)
        self.hidden = nn.Linear(width + tokens + width, width)
        self.output = nn.Linear(width, tokens)

    def forward(self, latent: Tensor, ids: Tensor) -> Tensor:
        """Return the logits after each prefix, `[B, L, V]` float32.

        Args:
            latent: `[B, W]` float32, the latents at the decoder's width.
            ids: `[B, L]` int64, the tokens read, `DEF` first.
        """
        embedded = self.embed(ids)
        repeated = latent.unsqueeze(1).expand(-1, ids.shape[1], -1)
        states = self.gru(torch.cat([embedded, repeated], dim=2), latent)
        joined = torch.cat([states, embedded, repeated], dim=2)
        return self.output(torch.tanh(self.hidden(joined)))


class ConditionPolicy(nn.Module):
    """Maps a latent, the world and the last action to logits: it acts like the latent's program."""

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
        """Compute the logits of some steps of N behaviours.

        Args:
            latent: `[N, Z]` float32, their programs' latents.
            seen: `[N, T, W]` float32, the worlds' features, from `see`.
            previous: `[N, T]` int64, the action before each step, `NO_OP` before the first.
            state: `[N, W]` float32, the GRU's state to go on from. None: it begins with the latent.

        Returns:
            `[N, T, 6]` float32, the logits, and `[N, W]`, the GRU's state after the last step.
        """
        repeated = latent.unsqueeze(1).expand(-1, previous.shape[1], -1)
        steps = torch.cat([repeated, seen, self.embed(previous)], dim=2)
        states = self.gru(steps, latent if state is None else state)
        return self.head(states), states[:, -1]


class EmbeddingModel(nn.Module):
    """All networks of stage 1; weights are drawn by `initialise`, or loaded."""

    legal: Tensor

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.config = config
        self.grammar = published_mask(self.vocabulary)
        tokens, width, latent = len(self.vocabulary), config.width, config.latent
        self.encoder = Encoder(tokens, width)
        is_joined = latent != width
        self.squeeze = nn.Linear(width, latent) if is_joined else nn.Identity()
        self.mean = nn.Linear(latent, latent)
        self.log_sigma = nn.Linear(latent, latent)
        self.widen = nn.Linear(latent, width) if is_joined else nn.Identity()
        self.decoder = Decoder(tokens, width)
        self.policy = ConditionPolicy(config.channels, latent, config.policy_width)
        legal = torch.from_numpy(self.grammar.legal)
        self.register_buffer("legal", legal, persistent=False)

    @property
    def vocabulary(self) -> Vocabulary:
        """The tokens it reads and writes."""
        return find_vocabulary(self.config.vocabulary)

    def posterior(self, ids: Tensor, lengths: Tensor) -> Posterior:
        """Encode programs `ids` of `lengths` tokens."""
        states = self.squeeze(self.encoder(ids, lengths))
        return Posterior(self.mean(states), self.log_sigma(states))

    def settle(self, latent: Tensor) -> Tensor:
        """Return the `[B, Z]` latent to decode for a point of the posterior; HPRL squashes it."""
        return torch.tanh(latent) if self.config.tanh else latent

    def sample(self, posterior: Posterior, noise: Tensor) -> Tensor:
        """Sample `[B, Z]` latents from a posterior with standard normal `noise` `[B, Z]`."""
        deviation = torch.exp(posterior.log_sigma) * (self.config.noise * noise)
        return self.settle(posterior.mean + deviation)

    def token_logits(self, latent: Tensor, ids: Tensor, states: Tensor) -> Tensor:
        """Compute the masked logits of the tokens that follow each prefix.

        Args:
            latent: `[B, Z]` float32, the latents.
            ids: `[B, L]` int64, the tokens read, `DEF` first.
            states: `[B, L]` int64, the grammar's state after reading each.

        Returns:
            `[B, L, V]` float32; forbidden tokens have the lowest float.
        """
        logits = self.decoder(self.widen(latent), ids)
        return logits.masked_fill(~self.legal[states], LOWEST)

    def parameter_counts(self) -> dict[str, int]:
        """Return how many weights each part has."""
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
    """Draw the first weights, on the CPU, so that they are the same on every device.

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
