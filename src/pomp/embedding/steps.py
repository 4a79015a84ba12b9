"""The model's steps as CUDA graphs take them: plain functions of tensors with fixed shapes."""

from dataclasses import fields

import torch
from torch import Tensor

from pomp.core.graphs import Replayed
from pomp.embedding.batches import BehaviourBatch, Planes, ProgramBatch
from pomp.embedding.config import TrainingConfig
from pomp.embedding.model import EmbeddingModel, Posterior, initialise
from pomp.embedding.objective import Terms, reinforce_loss, supervised_terms

TERMS = tuple(field.name for field in fields(Terms))
"""What the supervised steps report, in this order."""


class Steps:
    """A model, its two optimisers, and one step of each."""

    def __init__(self, config: TrainingConfig, device: torch.device) -> None:
        self.config, self.device = config, device
        self.model = EmbeddingModel(config.model)
        initialise(self.model, config.seed)
        self.model.to(device)
        self._planes = Planes(config.model.channels).to(device)
        self.optimisers = {
            "adam": self._make_adam(1e-8),
            "reinforce": self._make_adam(config.reinforce.adam_epsilon),
        }
        self._descend = Replayed(self._supervised, lambda: self._changed("adam"), device)
        self._reward = Replayed(self._reinforced, lambda: self._changed("reinforce"), device)
        self._measure = Replayed(self._validated, list, device)
        self._place = Replayed(self._posterior, list, device)

    def _make_adam(self, epsilon: float) -> torch.optim.Adam:
        weights = self.model.parameters()
        if self.device.type != "cuda":
            return torch.optim.Adam(weights, eps=epsilon)
        rate = torch.zeros((), device=self.device)  # a graph reads it anew in every replay
        return torch.optim.Adam(weights, lr=rate, eps=epsilon, fused=True, capturable=True)

    def _changed(self, optimiser: str) -> list[Tensor]:
        """What a step writes to."""
        adam = self.optimisers[optimiser]
        states = (adam.state[weight] for weight in self.model.parameters() if weight in adam.state)
        kept = [value for state in states for value in state.values()]
        return [weight.data for weight in self.model.parameters()] + kept

    def descend(
        self,
        programs: ProgramBatch,
        behaviours: BehaviourBatch | None,
        noise: Tensor,
        rate: float,
    ) -> Tensor:
        """One optimiser step on L_P and L_L; returns the terms, see `TERMS`."""
        self._set_rate("adam", rate)
        return self._descend(noise, *_tensors(programs, behaviours))

    def measure(
        self, programs: ProgramBatch, behaviours: BehaviourBatch | None, noise: Tensor
    ) -> Tensor:
        """The terms without a step."""
        return self._measure(noise, *_tensors(programs, behaviours))

    def reward(
        self,
        originals: ProgramBatch,
        sampled: ProgramBatch,
        worth: Tensor,
        noise: Tensor,
        rate: float,
    ) -> None:
        """The optimiser steps of one reinforce update."""
        self._set_rate("reinforce", rate)
        tensors = (worth, noise, *_tensors(originals), *_tensors(sampled))
        size = len(worth) // self.config.reinforce.minibatches
        for first in range(0, len(worth), size):
            self._reward(*(tensor[first : first + size] for tensor in tensors))

    def sample(self, programs: ProgramBatch, noise: Tensor) -> Tensor:
        """Latents from programs' posteriors."""
        mean, log_sigma = self._place(programs.ids, programs.lengths)
        return self.model.sample(Posterior(mean, log_sigma), noise)

    def _set_rate(self, optimiser: str, rate: float) -> None:
        for group in self.optimisers[optimiser].param_groups:
            if isinstance(group["lr"], Tensor):
                group["lr"].fill_(rate)
            else:
                group["lr"] = rate

    # What the graphs hold.

    def _terms(self, noise: Tensor, *tensors: Tensor) -> Terms:
        programs = ProgramBatch(*tensors[:3])
        behaviours = BehaviourBatch(*tensors[3:]) if len(tensors) > 3 else None
        beta, weight = self.config.beta, self.config.behaviour
        return supervised_terms(self.model, self._planes, programs, behaviours, noise, beta, weight)

    def _supervised(self, noise: Tensor, *tensors: Tensor) -> Tensor:
        adam = self.optimisers["adam"]
        terms = self._terms(noise, *tensors)
        adam.zero_grad(set_to_none=True)
        terms.total.backward()  # type: ignore[no-untyped-call]  # torch leaves it untyped
        adam.step()
        return terms.stacked()

    def _validated(self, noise: Tensor, *tensors: Tensor) -> Tensor:
        with torch.no_grad():
            return self._terms(noise, *tensors).stacked()

    def _reinforced(self, worth: Tensor, noise: Tensor, *tensors: Tensor) -> Tensor:
        adam, config = self.optimisers["reinforce"], self.config.reinforce
        originals, sampled = ProgramBatch(*tensors[:3]), ProgramBatch(*tensors[3:])
        loss = reinforce_loss(self.model, originals, sampled, worth, noise, config)
        adam.zero_grad(set_to_none=True)
        loss.backward()  # type: ignore[no-untyped-call]  # torch leaves it untyped
        torch.nn.utils.clip_grad_norm_(self.model.parameters(), config.clip)
        adam.step()
        return loss.detach()

    def _posterior(self, ids: Tensor, lengths: Tensor) -> Tensor:
        with torch.no_grad():
            return torch.stack(self.model.posterior(ids, lengths))


def _tensors(*batches: ProgramBatch | BehaviourBatch | None) -> list[Tensor]:
    return [tensor for batch in batches if batch for tensor in vars(batch).values()]
