"""Machines on a GPU: `pytest -m cuda`."""

import numpy as np
import pytest
import torch

from pomp.learning.config import configure_learning
from pomp.learning.members import Member
from pomp.learning.ppo import Learner, RolloutBatch
from pomp.learning.training import Training
from pomp.machine.config import NetworkConfig
from pomp.machine.evaluation import evaluate
from pomp.machine.layers import Shape, draw_weights
from pomp.machine.memory import run_gru
from pomp.machine.network import Ensemble
from pomp.machine.policy import ProgramMachine
from pomp.machine.text import parse_machine
from pomp.machine.transitions import DecisionList, Rule
from pomp.runs.published import published_modes
from pomp.tasks.catalog import find_task

pytestmark = pytest.mark.cuda

SMALL = {"ppo.total": 4096, "validation.every": 2, "validation.episodes": 8}
KINDS = pytest.mark.parametrize(
    "changes",
    [
        pytest.param({}, id="feed-forward"),
        pytest.param({"network.memory": 8, "ppo.minibatch": 64}, id="recurrent"),
    ],
)


def train(device, changes, tasks=("UpNDown", "Farmer"), updates=4):
    config = configure_learning("paper", {**SMALL, **changes})
    settings = [find_task(name).configure() for name in tasks]
    members = [
        Member(one, published_modes(one.task.name), seed, 1e-3)
        for one in settings
        for seed in (0, 1)
    ]
    training = Training(members, config, device)
    for _ in range(updates):
        training.step()
    return training


@KINDS
def test_training_on_a_gpu_gives_the_same_bytes_twice(changes):
    first, second = (train("cuda", changes).to_arrays()[0] for _ in range(2))
    for name, array in first.items():
        assert array.tobytes() == second[name].tobytes(), name


@KINDS
def test_a_checkpoint_goes_on_to_the_same_bytes(changes):
    whole, cut = train("cuda", changes), train("cuda", changes, updates=2)
    again = train("cuda", changes, updates=0)
    again.restore(*cut.to_arrays())
    for _ in range(2):
        again.step()
    for name, array in whole.to_arrays()[0].items():
        assert array.tobytes() == again.to_arrays()[0][name].tobytes(), name


@KINDS
def test_the_first_rollout_is_the_cpus(changes):
    """Later ones may differ: networks round otherwise on another device."""
    trainings = [train(device, changes, updates=0) for device in ("cpu", "cuda")]
    steps = [one.rollouts.collect()[0] for one in trainings]
    chosen = [part.choices.cpu().numpy() for part in steps]
    assert (chosen[0] == chosen[1]).mean() > 0.99
    assert np.allclose(steps[0].values.cpu(), steps[1].values.cpu(), atol=1e-3)


def test_memories_and_their_gradients_are_the_cpus():
    torch.manual_seed(0)
    given = [torch.randn(5, 2, 3, 24), torch.randn(2, 3, 8), torch.randn(2, 24, 8) / 3]
    given += [torch.randn(2, 24)]
    goes_on, weights = torch.rand(5, 2, 3) > 0.3, torch.randn(5, 2, 3, 8)
    found = []
    for device in ("cpu", "cuda"):
        inputs = [part.to(device).requires_grad_() for part in given]
        states = run_gru(*inputs, goes_on.to(device))
        gradients = torch.autograd.grad((states * weights.to(device)).sum(), inputs)
        found.append([part.detach().cpu() for part in (states, *gradients)])
    for ours, theirs in zip(*found, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-2, atol=1e-3)


UPDATES = {
    "grid and mode": ({}, (8, 8), {}),
    "a large grid": ({}, (16, 16), {}),
    "a long grid": ({"hidden": 16}, (14, 22), {"ppo.minibatch": 8}),
    "grid": ({"inputs": "grid"}, (12, 12), {"ppo.minibatch": 64}),
    "perceptions": ({"inputs": "perceptions+mode"}, (8, 8), {}),
    "without norm": ({"weight_norm": False}, (8, 8), {"ppo.minibatch": 64}),
    "too wide for one launch": ({"hidden": 48}, (8, 8), {}),
}


@pytest.mark.parametrize("name", UPDATES)
def test_an_update_is_the_cpus(name):
    """But for rounding: networks multiply in TF32 on a GPU."""
    torch.manual_seed(0)
    network, (height, width), ppo = UPDATES[name]
    shape = Shape(NetworkConfig(**network), height, width, 4)
    config = configure_learning("paper", {"ppo.actors": 4, "ppo.total": 1024, **ppo}).ppo
    rows = [shape.pack(draw_weights(shape, np.uint64(seed))) for seed in (1, 2)]
    first, count = torch.from_numpy(np.stack(rows)), config.rollout
    planes = (torch.rand(2, count, 8, height, width) < 0.2).to(torch.uint8)
    readings = torch.randint(0, 16, (2, count), dtype=torch.int16)
    steps = RolloutBatch(
        planes if shape.sees_grid else readings,
        torch.randint(-1, 4, (2, count)),
        torch.randint(0, 5, (2, count)),
        torch.full((2, count), -1.6),
        *torch.randn(3, 2, count),
    )
    orders = torch.rand(config.epochs, 2, count).argsort(dim=2)
    moved, told, said = [], [], []
    for device in ("cpu", "cuda"):
        ensemble = Ensemble(shape, [4, 3], device)
        rates = torch.tensor([1e-3, 1e-4]).to(device)
        learner = Learner(config, ensemble, first.to(device), rates)
        parts = RolloutBatch(*(part.to(device) for part in steps.parts))
        with torch.no_grad():
            logits, values = ensemble(first.to(device), parts.observations, parts.modes)
        said.append(torch.cat([logits[..., :4], values.unsqueeze(-1)], dim=-1).cpu())
        told.append(learner.learn(parts, orders.to(device), 0).cpu())
        moved.append(learner.parameters.detach().cpu() - first)
    assert torch.allclose(*said, rtol=0.02, atol=5e-3)
    assert torch.allclose(*told, rtol=0.02, atol=1e-3)
    assert moved[0].abs().amax(dim=1)[0] > 5e-3
    for own, other in zip(*moved, strict=True):
        assert torch.nn.functional.cosine_similarity(own, other, dim=0) > 0.99


COMPASS = """
machine UpNDown
start if marker ahead -> go
start else -> left
mode go: DEF run m( move IF c( markersPresent c) i( pickMarker i) m)
  if no marker anywhere -> stop
  if marker ahead and frontIsClear -> go
  if marker right -> right
  else -> left
mode left: DEF run m( turnLeft m)
  if marker behind -> left
  else -> wait
mode wait: DEF run m( IF c( markersPresent c) i( pickMarker i) m)
  if idle -> go
  else -> left
mode right: DEF run m( turnRight move m)
  if not marker left -> go
  else -> wait
"""


@pytest.mark.parametrize("task", ["UpNDown", "Farmer", "Seesaw", "InfDoorKey", "InfHarvester"])
def test_a_compass_gives_the_same_episodes(task):
    machine = parse_machine(COMPASS.replace("UpNDown", task))
    found = [evaluate(machine, episodes=200, device=device) for device in ("cpu", "cuda")]
    assert (found[0].returns == found[1].returns).all()
    assert (found[0].paths == found[1].paths).all()
    assert len(np.unique(found[0].paths)) > 2


COUNTS = """machine UpNDown
start if markers at least 2 -> go
start else -> left
mode go: DEF run m( IF c( frontIsClear c) i( move i) pickMarker m)
  if markers below 1 and row at least 3 -> stop
  if free ahead at least 2 and heading below 2 -> go
  if way right at least 1 and way ahead below 3 -> right
  if marker left and not walls below 30 -> left
  else -> right
mode left: DEF run m( turnLeft m)
  if column at least 3 and frontIsClear -> go
  else -> right
mode right: DEF run m( turnRight move m)
  if markers here at least 1 -> left
  if free behind below 2 and way left below 1 -> right
  else -> go
"""


@pytest.mark.parametrize("task", ["UpNDown", "Farmer", "Seesaw", "InfDoorKey", "InfHarvester"])
def test_counts_give_the_same_episodes(task):
    machine = parse_machine(COUNTS.replace("UpNDown", task))
    found = [evaluate(machine, episodes=200, device=device) for device in ("cpu", "cuda")]
    assert (found[0].returns == found[1].returns).all()
    assert (found[0].paths == found[1].paths).all()
    assert len(np.unique(found[0].paths)) > 2


@pytest.mark.parametrize("task", ["Farmer", "InfHarvester"])
def test_a_decision_list_plays_the_same_episodes(task):
    rules = (Rule(to=1, when=("not frontIsClear",)), Rule(to=None, when=("rightIsClear",)), Rule(0))
    modes = published_modes(task)[:2]
    machine = ProgramMachine(task, modes, DecisionList(rules, (rules, rules)))
    found = [evaluate(machine, episodes=200, device=device) for device in ("cpu", "cuda")]
    assert (found[0].returns == found[1].returns).all()
    assert (found[0].paths == found[1].paths).all()
