"""The embedding on a GPU: `pytest -m cuda`."""

from dataclasses import replace

import numpy as np
import pytest

from pomp.embedding.config import DatasetConfig, ModelConfig, ReinforceConfig, TrainingConfig

pytestmark = pytest.mark.cuda
torch = pytest.importorskip("torch")


@pytest.fixture(scope="module")
def embedding():
    from pomp.embedding.space import Embedding

    return Embedding.load("paper", "cuda")


@pytest.fixture(scope="module")
def latents(embedding):
    from pomp.embedding.dataset import make_dataset

    dataset = make_dataset(DatasetConfig(train=3000, validation=0, test=0, seed=9))
    near = torch.from_numpy(embedding.encode(dataset.ids))
    far = torch.randn((97_000, 256), generator=torch.Generator().manual_seed(1))
    return torch.cat([near, far]).cuda()


def forward_and_gradients(module, *inputs):
    """What a module gives on a device, and the gradients of a fixed sum of it."""
    given = [tensor.clone().requires_grad_(tensor.is_floating_point()) for tensor in inputs]
    output = module(*given)
    weights = torch.arange(output.numel(), device=output.device).view(output.shape).sin()
    (output * weights).sum().backward()
    found = [tensor.grad for tensor in given if tensor.grad is not None]
    found += [weight.grad for weight in module.parameters()]
    return [tensor.detach().cpu() for tensor in (output, *found)]


@pytest.mark.parametrize("which", ["gru", "table", "convolution"])
def test_a_layer_agrees_with_torchs_own_on_the_cpu(which):
    from pomp.embedding.model import Convolution, TokenTable
    from pomp.embedding.recurrence import GRU

    draw = torch.Generator().manual_seed(0)
    module, inputs = {
        "gru": (GRU(51, 64), [torch.randn(32, 20, 51, generator=draw), torch.randn(32, 64)]),
        "table": (TokenTable(51, 51), [torch.randint(0, 51, (16, 9), generator=draw)]),
        "convolution": (Convolution(16), [torch.randn(8, 16, 8, 8, generator=draw)]),
    }[which]
    expected = forward_and_gradients(module, *inputs)
    module.zero_grad()
    found = forward_and_gradients(module.cuda(), *(tensor.cuda() for tensor in inputs))
    for one, two in zip(expected, found, strict=True):
        assert torch.allclose(one, two, rtol=1e-4, atol=1e-4 * float(one.abs().max()))


def test_a_latent_gives_the_same_tokens_in_any_batch(embedding, latents):
    whole = embedding.decode(latents)
    order = torch.randperm(len(latents), generator=torch.Generator().manual_seed(0))
    assert (embedding.decode(latents[order]) == whole[order.numpy()]).all()
    for batch in (1, 2, 64, 65, 100, 777, 3000, 16_384):
        last = min(len(latents), 20 * batch)
        parts = [embedding.decode(latents[at : at + batch]) for at in range(0, last, batch)]
        found = np.concatenate(parts)
        assert (found == whole[: len(found)]).all(), batch


def test_cpu_and_cuda_decode_almost_every_latent_alike(embedding, latents):
    from pomp.embedding.space import Embedding

    few = latents[:20_000]
    on_cpu = Embedding.load("paper").decode(few.cpu())
    assert (on_cpu != embedding.decode(few)).any(axis=1).mean() < 1e-3


def test_a_program_is_encoded_the_same_in_any_batch(embedding):
    from pomp.dsl.sampling import SamplerConfig, sample_programs

    ids = sample_programs(2500, 3, SamplerConfig(max_tokens=44))
    whole = embedding.encode(ids)
    assert (embedding.encode(ids[::-1]) == whole[::-1]).all()
    assert (embedding.encode(ids[7:8]) == whole[7:8]).all()


CONFIG = TrainingConfig(
    epochs=2,
    batch=64,
    demonstrations=3,
    model=ModelConfig(),
    reinforce=ReinforceConfig(start_accuracy=0.0, batch=128),
)


def trained(folder, dataset, config, stops):
    """The final weights after a training that was cut after some steps and resumed."""
    from pomp.runs.embeddings import EmbeddingRun

    for number, steps in enumerate([*stops, 10**9]):
        run = EmbeddingRun(config, dataset, folder, "cuda")
        run.folder.open("embedding", run.describe, resume=number > 0)
        training = run.train_on(dataset)
        training.open()
        while not training.is_finished and steps:
            training.advance(lambda: False)
            steps -= 1
        training.save()
        run.folder.close()
    assert training.is_finished
    return [weight.detach().cpu() for weight in training.trainer.model.parameters()]


def test_a_resumed_training_ends_in_the_same_bytes(tmp_path):
    from pomp.embedding.dataset import make_dataset

    dataset = make_dataset(DatasetConfig(train=512, validation=64, test=0, seed=2))
    straight = trained(tmp_path / "straight", dataset, CONFIG, [])
    cut = trained(tmp_path / "cut", dataset, CONFIG, [3, 9, 1])
    assert all(torch.equal(one, two) for one, two in zip(straight, cut, strict=True))
    other = trained(tmp_path / "other", dataset, replace(CONFIG, seed=1), [])
    assert not torch.equal(straight[0], other[0])
