"""The CUDA kernels under Numba's simulator, which needs no GPU."""

import os
import pickle
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from pomp.core.cuda import DeviceArray, as_launchable, check_device, export_dlpack, load_cuda
from pomp.core.errors import CudaError
from pomp.embedding.decoder import CpuDecoder
from pomp.engine.starts import draw_starts
from pomp.learning.adam import adam_step
from pomp.learning.clipped_loss import write_ppo_loss
from pomp.learning.gaussian_loss import gaussian_loss
from pomp.tasks.catalog import TASKS, find_task

from . import decoding, fused, learning, playing

HAS_CUDA = False
try:
    load_cuda()
    HAS_CUDA = True
except CudaError:
    pass


@pytest.fixture(scope="module")
def simulated(tmp_path_factory):
    target = tmp_path_factory.mktemp("simulated") / "found.pickle"
    environment = {**os.environ, "NUMBA_ENABLE_CUDASIM": "1", "NUMBA_DISABLE_JIT": "1"}
    environment["PYTHONPATH"] = os.pathsep.join(sys.path)
    script = Path(__file__).with_name("playing.py")
    subprocess.run([sys.executable, script, target], env=environment, check=True)
    return pickle.loads(target.read_bytes())


@pytest.mark.parametrize("task", TASKS, ids=lambda task: task.name)
def test_simulated_kernels_and_the_cpu_agree_to_the_bit(task, simulated):
    found, expected = simulated["played"][task.name], playing.play(task, "cpu", **playing.SMALL)
    assert expected.keys() == found.keys()
    for name, content in expected.items():
        assert found[name] == content, name


@pytest.mark.parametrize(
    "name",
    [
        "UpNDown",
        "Farmer",
        *(pytest.param(name, marks=pytest.mark.slow) for name in ("Seesaw", "DoorKey")),
    ],
)
def test_simulated_chains_are_the_cpus_to_the_bit(name, simulated):
    assert simulated["annealed"][name] == playing.anneal(name, "cpu", **playing.ANNEALED[name])


def test_simulated_decoding_gives_the_cpus_tokens(tmp_path):
    target = tmp_path / "tokens.npy"
    environment = {**os.environ, "NUMBA_ENABLE_CUDASIM": "1", "NUMBA_DISABLE_JIT": "1"}
    command = [sys.executable, "-m", "tests.gpu.decoding", str(target)]
    root = Path(__file__).parents[2]
    subprocess.run(command, env=environment, check=True, cwd=root)
    model, latents = decoding.model_and_latents()
    decoder = CpuDecoder(model)
    greedy, sampled = np.load(target)
    assert (greedy == decoder.decode(latents).numpy()).all()
    assert (sampled == decoder.decode(latents, decoding.noise_of(model)).numpy()).all()
    lengths = (greedy != model.vocabulary.pad).sum(axis=1)
    assert lengths.min() < lengths.max()  # some programs ended early and left the batch


def test_simulated_gradient_steps_are_the_cpus(tmp_path):
    target = tmp_path / "found.pickle"
    environment = {**os.environ, "NUMBA_ENABLE_CUDASIM": "1", "NUMBA_DISABLE_JIT": "1"}
    script = Path(__file__).with_name("learning.py")
    subprocess.run([sys.executable, script, target], env=environment, check=True)
    found = pickle.loads(target.read_bytes())
    steps, moves, (planes, channels_last) = (
        [learning.convert(part, torch.tensor) for part in one] for one in learning.inputs()
    )
    write_ppo_loss(learning.FIRST, learning.LOSS, *steps)
    adam_step(*moves)
    for ours, theirs in zip((*steps[2], *moves[2]), (*found["loss"], *found["adam"]), strict=True):
        assert ours.abs().max() > 1e-3
        np.testing.assert_allclose(ours, theirs, rtol=1e-6, atol=1e-7)
    outputs, drawn, _ = (learning.convert(part, torch.tensor) for part in learning.vectors())
    loss = gaussian_loss(learning.FIRST, learning.LOSS, outputs, drawn)
    for ours, theirs in zip(loss, found["vectors"], strict=True):
        assert ours.abs().max() > 1e-3
        np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-7)
    last = channels_last.clone().requires_grad_()
    for name, source in (("first", planes), ("last", last.movedim(3, 1))):
        patches = source.unfold(2, 2, 1).unfold(3, 2, 1)  # [R, C, H', W', 2, 2]
        expected = patches.permute(0, 2, 3, 4, 5, 1).flatten(3)
        assert (expected.detach().numpy() == found[name]).all()
    expected.backward(torch.tensor(found["last"]))
    np.testing.assert_allclose(last.grad, found["joined"], rtol=1e-6)


@pytest.mark.parametrize(
    "name", [pytest.param("grid and mode", marks=pytest.mark.slow), "perceptions"]
)
def test_simulated_fused_steps_are_those_of_tensor_operations(tmp_path, name):
    target = tmp_path / "found.pickle"
    environment = {**os.environ, "NUMBA_ENABLE_CUDASIM": "1", "NUMBA_DISABLE_JIT": "1"}
    command = [sys.executable, "-W", "ignore", str(Path(__file__).with_name("fused.py"))]
    subprocess.run([*command, target, name], env=environment, check=True)
    for ours, theirs in zip(fused.expected(name), pickle.loads(target.read_bytes()), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=2e-5)
        assert np.abs(ours).max() > 1e-3


def test_dlpack_shares_memory_and_keeps_it_alive():
    memory = np.arange(12, dtype=np.int32).reshape(3, 4)

    class Exported:
        def __dlpack_device__(self):
            return 1, 0

        def __dlpack__(self, **_):
            address = memory.ctypes.data
            return export_dlpack(address, (3, 4), memory.dtype, (1, 0), memory)

    shared = np.from_dlpack(Exported())
    assert (shared == memory).all()
    memory[1, 2] = 99
    assert shared[1, 2] == 99


@pytest.mark.skipif(HAS_CUDA, reason="there is a GPU")
def test_asking_for_cuda_without_one_says_what_to_do():
    setting = find_task("Seeder").configure()
    with pytest.raises(CudaError, match="use device='cpu'"):
        draw_starts(setting, 2, 0, device="cuda")


def test_an_unknown_device_is_refused():
    with pytest.raises(CudaError, match="'cpu', 'cuda' or 'auto', got 'tpu'"):
        check_device("tpu")


def test_an_array_on_the_cpu_is_refused_by_name():
    with pytest.raises(CudaError, match="actions must be on the CUDA device, got a ndarray"):
        as_launchable(np.zeros(3), "actions")


def test_a_numba_cuda_that_does_not_import_is_explained(monkeypatch):
    import importlib

    def fail(name):
        raise ImportError("cannot import name 'row_stack' from 'numpy'")

    monkeypatch.setattr(importlib, "import_module", fail)
    load_cuda.cache_clear()
    try:
        with pytest.raises(CudaError, match=r"row_stack.*pomp-rl\[cuda\].*go together"):
            load_cuda()
    finally:
        monkeypatch.undo()
        load_cuda.cache_clear()


def test_a_device_array_has_the_shape_and_type_of_its_memory():
    array = DeviceArray(np.zeros((2, 3), np.int16))
    assert (array.shape, array.dtype, array.nbytes, len(array)) == ((2, 3), np.int16, 12, 2)
