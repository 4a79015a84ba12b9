"""Captured steps, with a graph that runs the captured function again instead of a GPU's."""

from contextlib import contextmanager, nullcontext

import pytest
import torch

from pomp.core import graphs
from pomp.embedding.config import DatasetConfig, ModelConfig, ReinforceConfig, TrainingConfig
from pomp.embedding.dataset import make_dataset
from pomp.embedding.train import Trainer

CONFIG = TrainingConfig(
    epochs=2,
    batch=32,
    demonstrations=2,
    model=ModelConfig(latent=8, width=8, policy_width=8),
    reinforce=ReinforceConfig(start_accuracy=0.0, batch=32, states=2),
)


class Stream:
    def wait_stream(self, other):
        pass


class Graph:
    """Replays by calling the work again and copying what it returns to where the capture did."""

    def pool(self):
        return self

    def replay(self):
        found = self.work()
        self.result.copy_(found)


@pytest.fixture
def captured(monkeypatch):
    """Let `capture` work without a GPU; returns the graphs it makes."""
    made = []
    plain = graphs.capture

    def capture(work, changed, **options):
        graph, result = plain(work, changed, **options)
        graph.work, graph.result = work, result
        made.append(graph)
        return graph, result

    @contextmanager
    def recording(graph, pool=None):
        yield

    monkeypatch.setattr(torch.cuda, "Stream", Stream)
    monkeypatch.setattr(torch.cuda, "current_stream", Stream)
    monkeypatch.setattr(torch.cuda, "stream", lambda stream: nullcontext())
    monkeypatch.setattr(torch.cuda, "CUDAGraph", Graph)
    monkeypatch.setattr(torch.cuda, "graph", recording)
    monkeypatch.setattr(graphs, "capture", capture)
    return made


def final_weights(dataset, *, is_captured):
    trainer = Trainer(CONFIG, dataset, "cpu", lambda model, metrics: None)
    for step in vars(trainer.steps).values():
        if isinstance(step, graphs.Replayed):
            step._is_captured = is_captured
    while not trainer.is_finished:
        trainer.step(lambda: False)
    return [weight.detach().clone() for weight in trainer.model.parameters()]


def test_capturing_changes_nothing(captured):
    dataset = make_dataset(DatasetConfig(train=96, validation=16, test=0, seed=8))
    plain = final_weights(dataset, is_captured=False)
    assert captured == []
    replayed = final_weights(dataset, is_captured=True)
    assert len(captured) >= 4  # a step of each kind
    assert all(torch.equal(one, two) for one, two in zip(plain, replayed, strict=True))
