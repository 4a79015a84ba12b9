"""On a GPU: `pytest -m cuda`."""

import numpy as np
import pytest

import pomp.core.cuda
from pomp.core.cuda import as_launchable, to_host
from pomp.core.errors import CudaError, DeviceMemoryError
from pomp.dsl.bytecode import compile_ids
from pomp.dsl.sampling import sample_programs
from pomp.engine.rollout_cuda import LaunchPad
from pomp.engine.rollouts import act_on, rollout, run_launches
from pomp.engine.starts import draw_starts
from pomp.engine.units import CANDIDATE, Launch, Units
from pomp.tasks.catalog import TASKS, find_task

from . import playing

pytestmark = pytest.mark.cuda


@pytest.mark.parametrize("task", TASKS, ids=lambda task: task.name)
def test_cpu_and_cuda_agree_to_the_bit(task):
    sizes = {"programs": 4000, "starts": 32, "steps": 200}
    expected = playing.play(task, "cpu", **sizes)
    found = playing.play(task, "cuda", **sizes)
    for name, content in expected.items():
        assert found[name] == content, name


@pytest.mark.parametrize("name", playing.ANNEALED)
def test_chains_of_annealing_agree_to_the_bit(name):
    more = {**playing.ANNEALED[name], "chains": 300}
    assert playing.anneal(name, "cuda", **more) == playing.anneal(name, "cpu", **more)


@pytest.mark.parametrize("name", ["InfHarvester", "Seesaw", "UpNDown", "Farmer", "InfDoorKey"])
def test_programs_that_are_repeated_until_done_agree_to_the_bit(name):
    setting = find_task(name).configure()
    code = compile_ids(sample_programs(1500, 7))
    table = np.array([[n % 5, n, 0] for n in range(1500)], np.int32)
    units = Units(np.full((5, 1), CANDIDATE, np.int32), table, 32, rounds=1000, patience=400)
    results = []
    for device in ("cpu", "cuda"):
        worlds = draw_starts(setting, 32, 0, device=device)
        results += run_launches([Launch(setting, code, units, worlds)], LaunchPad())
    (returns, actions), (there, acted) = results
    assert (actions == acted).all(), np.flatnonzero((actions != acted).any(axis=1))[:10]
    assert (returns == there).all()


def test_deep_programs_run_on_the_gpu_too():
    setting = find_task("Seeder").configure()
    deep = "DEF run m( " + "REPEAT R=2 r( " * 100 + "move " + "r) " * 100 + "m)"
    cpu, cuda = (
        rollout(setting, [deep], draw_starts(setting, 4, 0, device=device)).to("cpu")
        for device in ("cpu", "cuda")
    )
    assert (cpu.calls == cuda.calls).all()
    assert (cpu.actions == cuda.actions).all()


def test_results_reach_torch_without_a_copy():
    torch = pytest.importorskip("torch")
    setting = find_task("Seeder").configure()
    worlds = draw_starts(setting, 8, 0, device="cuda")
    result = rollout(setting, ["DEF run m( putMarker m)"], worlds)
    by_interface = torch.as_tensor(result.returns, device="cuda")
    by_dlpack = torch.from_dlpack(result.returns)
    address = result.returns.__cuda_array_interface__["data"][0]
    assert by_interface.data_ptr() == by_dlpack.data_ptr() == address
    assert by_dlpack.cpu().numpy() == pytest.approx(to_host(result.returns))


def test_actions_come_from_torch_without_a_copy():
    torch = pytest.importorskip("torch")
    setting = find_task("Harvester").configure()
    worlds = draw_starts(setting, 8, 0, device="cuda")
    for dtype in (torch.int64, torch.uint8, torch.int32):
        act_on(setting, worlds, torch.full((8,), 3, dtype=dtype, device="cuda"))
    assert (worlds.to("cpu").actions == 3).all()


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda torch: torch.zeros(3, dtype=torch.int64, device="cuda"), "shape"),
        (lambda torch: torch.zeros(8, dtype=torch.int64), "on the CUDA device"),
        (lambda torch: torch.zeros(16, dtype=torch.int64, device="cuda")[::2], "contiguous"),
    ],
)
def test_wrong_tensors_are_refused(make, message):
    torch = pytest.importorskip("torch")
    setting = find_task("Harvester").configure()
    worlds = draw_starts(setting, 8, 0, device="cuda")
    with pytest.raises(CudaError, match=message):
        act_on(setting, worlds, make(torch))


def test_too_little_memory_means_smaller_parts_and_the_same_result(monkeypatch):
    setting = find_task("Maze").configure()
    code = compile_ids(sample_programs(100, 0))
    worlds = draw_starts(setting, 16, 0, device="cuda")
    whole = rollout(setting, code, worlds, keep_worlds=True).to("cpu")
    real = pomp.core.cuda.empty_on_device

    def tight(shape, dtype):
        if np.prod(shape) * np.dtype(dtype).itemsize > 20_000:
            raise DeviceMemoryError("too little memory")
        return real(shape, dtype)

    for module in ("pomp.engine.rollout_cuda", "pomp.karel.world"):
        monkeypatch.setattr(f"{module}.empty_on_device", tight)
    parts = rollout(setting, code, worlds, keep_worlds=True)
    assert parts.returns.tobytes() == whole.returns.tobytes()
    assert parts.worlds.cells.tobytes() == whole.worlds.cells.tobytes()


@pytest.mark.parametrize("name", ["OneStroke", "DoorKey", "InfHarvester"])
def test_the_torch_environment_is_the_vector_environment(name):
    torch = pytest.importorskip("torch")
    pytest.importorskip("gymnasium")
    from pomp.envs import KarelTorchEnv, KarelVectorEnv

    count = 64
    on_cpu = KarelVectorEnv(name, count, max_episode_steps=90)
    on_gpu = KarelTorchEnv(name, count, max_episode_steps=90)
    planes, _ = on_cpu.reset(seed=3)
    assert (on_gpu.reset(seed=3).cpu().numpy() == planes).all()
    for row in np.random.default_rng(0).integers(0, 5, (300, count)):
        planes, rewards, terminated, truncated, _ = on_cpu.step(row)
        found = on_gpu.step(torch.from_numpy(row).cuda())
        assert (found[0].cpu().numpy() == planes).all()
        assert found[1].cpu().numpy() == pytest.approx(rewards, abs=1e-6)
        assert (found[2].cpu().numpy() == terminated).all()
        assert (found[3].cpu().numpy() == truncated).all()


def test_an_action_out_of_range_is_found():
    torch = pytest.importorskip("torch")
    pytest.importorskip("gymnasium")
    from pomp.envs import KarelTorchEnv

    env = KarelTorchEnv("Seeder", 8)
    env.reset()
    env.step(torch.full((8,), 7, device="cuda"))
    with pytest.raises(CudaError, match=r"not in 0\.\.4"):
        env.check()


def test_a_view_that_is_launchable_is_the_same_memory():
    torch = pytest.importorskip("torch")
    tensor = torch.arange(6, device="cuda")
    assert as_launchable(tensor).__cuda_array_interface__["data"][0] == tensor.data_ptr()
