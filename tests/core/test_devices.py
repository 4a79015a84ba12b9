"""`auto` stands for CUDA where it can be used, and else for the CPU."""

import logging

import pytest

from pomp import draw_starts, find_task
from pomp.core import cuda
from pomp.core.errors import CudaError


@pytest.fixture(autouse=True)
def _forget():
    cuda._find_device.cache_clear()
    yield
    cuda._find_device.cache_clear()


def test_auto_is_the_cpu_where_cuda_cannot_be_used(monkeypatch, caplog):
    def refuse():
        raise CudaError("none here")

    monkeypatch.setattr(cuda, "load_cuda", refuse)
    with caplog.at_level(logging.INFO, "pomp"):
        assert [cuda.check_device("auto"), cuda.check_device("auto")] == ["cpu", "cpu"]
    assert caplog.messages == ["device auto: cpu is taken"]
    assert draw_starts(find_task("Maze").configure(), 2, 0, device="auto").device == "cpu"


def test_auto_is_cuda_where_it_can_be_used(monkeypatch):
    monkeypatch.setattr(cuda, "load_cuda", lambda: None)
    assert cuda.check_device("auto") == "cuda"


def test_another_name_is_refused():
    with pytest.raises(CudaError, match="a device is 'cpu', 'cuda' or 'auto', got 'tpu'"):
        cuda.check_device("tpu")
