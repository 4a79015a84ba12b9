"""The model's steps as CUDA graphs take them: plain functions of tensors with fixed shapes.

Axes: B programs, Z the latent. Arrays: `noise` `[B, Z]` float32, standard normal noise for the
latents; `rewards` `[B]` float32, the normalised rewards of sampled programs.
"""

from dataclasses import fields

import torch
from torch import Tensor

from pomp.core.graphs import Replayed
from pomp.embedding.batches import BehaviourBatch, Planes, ProgramBatch
from pomp.embedding.config import TrainingConfig
from pomp.embedding.model import EmbeddingModel, Posterior, initialise
from pomp.embedding.objective import Terms, reinforce_loss, supervised_terms

TERMS = tuple(field.name for field in fields(Terms))
"""The terms that the supervised steps return, in this order."""


class Steps:
    """A model, its two optimizers, and one step of each."""

    def __init__(self, config: TrainingConfig, device: torch.device) -> None:
        self.config, self.device = config, device
        self.model = EmbeddingModel(config.model)
        initialise(self.model, config.seed)
        self.model.to(device)
        self._planes = Planes(config.model.channels).to(device)
        self.optimizers = {
            "adam": self._make_adam(1e-8),
            "reinforce": self._make_adam(config.reinforce.adam_epsilon),
        }
        self._step_optimizer = Replayed(self._supervised, lambda: self._changed("adam"), device)
        self._reinforce = Replayed(self._reinforced, lambda: self._changed("reinforce"), device)
        self._measure = Replayed(self._validated, list, device)
        self._encode = Replayed(self._posterior, list, device)

    def _make_adam(self, eps: float) -> torch.optim.Adam:
        weights = self.model.parameters()
        if self.device.type != "cuda":
            return torch.optim.Adam(weights, eps=eps)
        learning_rate = torch.zeros((), device=self.device)  # graphs read it in every replay
        return torch.optim.Adam(weights, lr=learning_rate, eps=eps, fused=True, capturable=True)

    def _changed(self, optimizer: str) -> list[Tensor]:
        """Return the tensors a step writes to, of any shapes `[...]`."""
        adam = self.optimizers[optimizer]
        states = (adam.state[weight] for weight in self.model.parameters() if weight in adam.state)
        kept = [value for state in states for value in state.values()]
        return [weight.data for weight in self.model.parameters()] + kept

    def step_optimizer(
        self,
        programs: ProgramBatch,
        behaviours: BehaviourBatch | None,
        noise: Tensor,
        learning_rate: float,
    ) -> Tensor:
        """Make one optimizer step on L_P and L_L; return the terms, `[len(TERMS)]` float32."""
        self._set_learning_rate("adam", learning_rate)
        return self._step_optimizer(noise, *_tensors(programs, behaviours))

    def measure(
        self, programs: ProgramBatch, behaviours: BehaviourBatch | None, noise: Tensor
    ) -> Tensor:
        """Return the terms, `[len(TERMS)]` float32, without a step."""
        return self._measure(noise, *_tensors(programs, behaviours))

    def reinforce(
        self,
        originals: ProgramBatch,
        sampled: ProgramBatch,
        rewards: Tensor,
        noise: Tensor,
        learning_rate: float,
    ) -> None:
        """Make the optimizer steps of one reinforce update.

        Args:
            originals: B programs.
            sampled: the programs sampled from their latents.
            rewards: `[B]` float32, their normalised rewards.
            noise: `[B, Z]` float32, standard normal noise for the latents.
            learning_rate: Adam's.
        """
        self._set_learning_rate("reinforce", learning_rate)
        tensors = (rewards, noise, *_tensors(originals), *_tensors(sampled))
        size = len(rewards) // self.config.reinforce.minibatches
        for first in range(0, len(rewards), size):
            self._reinforce(*(tensor[first : first + size] for tensor in tensors))

    def sample(self, programs: ProgramBatch, noise: Tensor) -> Tensor:
        """Sample `[B, Z]` float32 latents from programs' posteriors."""
        mean, log_sigma = self._encode(programs.ids, programs.lengths)
        return self.model.sample(Posterior(mean, log_sigma), noise)

    def _set_learning_rate(self, optimizer: str, learning_rate: float) -> None:
        for group in self.optimizers[optimizer].param_groups:
            if isinstance(group["lr"], Tensor):
                group["lr"].fill_(learning_rate)
            else:
                group["lr"] = learning_rate

    # What the graphs hold; `tensors` are the fields of a `ProgramBatch`, and more.

    def _terms(self, noise: Tensor, *tensors: Tensor) -> Terms:
        """Return the terms of the programs and the behaviours in `tensors`."""
        programs = ProgramBatch(*tensors[:3])
        behaviours = BehaviourBatch(*tensors[3:]) if len(tensors) > 3 else None
        beta, weight = self.config.beta, self.config.behaviour
        return supervised_terms(self.model, self._planes, programs, behaviours, noise, beta, weight)

    def _supervised(self, noise: Tensor, *tensors: Tensor) -> Tensor:
        """Make one step of Adam; return the terms, `[len(TERMS)]` float32."""
        adam = self.optimizers["adam"]
        terms = self._terms(noise, *tensors)
        adam.zero_grad(set_to_none=True)
        terms.total.backward()  # type: ignore[no-untyped-call]  # torch leaves it untyped
        adam.step()
        return terms.stacked()

    def _validated(self, noise: Tensor, *tensors: Tensor) -> Tensor:
        """Return the terms, `[len(TERMS)]` float32."""
        with torch.no_grad():
            return self._terms(noise, *tensors).stacked()

    def _reinforced(self, rewards: Tensor, noise: Tensor, *tensors: Tensor) -> Tensor:
        """Make one step of Adam on a minibatch with `rewards` `[B]`; return the loss, `[]`."""
        adam, config = self.optimizers["reinforce"], self.config.reinforce
        originals, sampled = ProgramBatch(*tensors[:3]), ProgramBatch(*tensors[3:])
        loss = reinforce_loss(self.model, originals, sampled, rewards, noise, config)
        adam.zero_grad(set_to_none=True)
        loss.backward()  # type: ignore[no-untyped-call]  # torch leaves it untyped
        torch.nn.utils.clip_grad_norm_(self.model.parameters(), config.gradient_norm)
        adam.step()
        return loss.detach()

    def _posterior(self, ids: Tensor, lengths: Tensor) -> Tensor:
        """Encode `ids` `[B, L]` of `lengths` `[B]`; return means and log sigmas, `[2, B, Z]`."""
        with torch.no_grad():
            return torch.stack(self.model.posterior(ids, lengths))


def _tensors(*batches: ProgramBatch | BehaviourBatch | None) -> list[Tensor]:
    """Return the fields of batches, tensors of any shapes `[...]`, in their order."""
    return [tensor for batch in batches if batch for tensor in vars(batch).values()]
