"""Memory tasks whose smallest machine is known: a GRU learns them, and that machine comes out.

Bits come one after the other, and after each the machine says whether the word so far belongs to a
language: words with an odd number of ones (two states), and Tomita's fourth, words without three
zeros in a row (four states). All that is between a recurrent network and its minimal Moore machine
takes part.
"""

import numpy as np
import pytest
import torch

from pomp.analysis.moore import minimise_moore, tabulate
from pomp.core.streams import Purpose, draw_units, open_streams
from pomp.machine.config import BottleneckConfig, QuantisingConfig
from pomp.machine.network import linear, remember
from pomp.machine.quantising import Lessons, fine_tune, quantise_memory

UNITS, STEPS, WORDS = 32, 40, 64
MACHINES = {  # what follows each state at 0 and at 1, and what it says, as they are reached
    "parity": ([[0, 1], [1, 0]], [0, 1]),
    "tomita 4": ([[1, 0], [2, 0], [3, 0], [3, 3]], [1, 1, 1, 0]),
}
CONFIG = QuantisingConfig(
    seen_units=4, state_units=16, epochs=200, patience=200, every=10, learning_rate=1e-3,
    bottleneck=BottleneckConfig(steps=1000),
)  # fmt: skip


def draw_words(seed, what, words=WORDS, steps=STEPS):
    """Return random words, `[T, N]` int64."""
    streams = open_streams(Purpose.TRAINING, seed, what, worlds=words)
    return (draw_units(streams, steps) < 0.5).astype(np.int64)


def answers(task, words):
    """Return what is to be said after each letter, `[T, N]` int64."""
    following, labels = map(np.array, MACHINES[task])
    state, said = np.zeros(words.shape[1], np.int64), []
    for letters in words:
        state = following[state, letters]
        said.append(labels[state])
    return np.stack(said)


def draw_parts(seed):
    """First weights of a GRU that is given two numbers, and of two choices behind it."""
    generator = torch.Generator().manual_seed(seed)
    shapes = {
        "memory.gates.weight": (1, 3 * UNITS, 2),
        "memory.gates.bias": (1, 3 * UNITS),
        "memory.recurrent.weight": (1, 3 * UNITS, UNITS),
        "memory.recurrent.bias": (1, 3 * UNITS),
        "actor.weight": (1, 2, UNITS),
        "actor.bias": (1, 2),
    }
    return {
        name: ((2 * torch.rand(shape, generator=generator) - 1) * UNITS**-0.5).requires_grad_()
        for name, shape in shapes.items()
    }


def look_at(words):
    """Return words as features, `[1, T * N, 2]` float32."""
    return torch.from_numpy(np.eye(2, dtype=np.float32)[words]).flatten(0, 1)[None]


def recall(parts, words):
    """Return states, `[T, N, U]`, and logits, `[T, N, 2]`."""
    steps, count = words.shape
    goes_on = torch.ones(steps, 1, count, dtype=torch.bool)
    states = remember(parts, look_at(words), torch.zeros(1, count, UNITS), goes_on)[:, 0]
    return states, linear(parts, "actor", states.flatten(0, 1)[None])[0].view(steps, count, 2)


def teach(task, seed):
    """Train a recurrent network until it makes no mistake on other words."""
    parts = draw_parts(seed)
    optimizer = torch.optim.Adam(parts.values(), 3e-3)
    for update in range(3000):
        words = draw_words(seed, update, steps=8 + 8 * (update % 3))
        _, logits = recall(parts, words)
        target = torch.from_numpy(answers(task, words)).flatten()
        loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1), target)
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(parts.values(), 1.0)
        optimizer.step()
        if update % 50 == 49 and float(loss.detach()) < 0.01:
            break
    return {name: part.detach() for name, part in parts.items()}


def extract(task, seed):
    """Teach, quantise, fine-tune, extract and minimise."""
    parts = teach(task, seed)
    words = draw_words(seed, 1 << 20)
    with torch.no_grad():
        states, logits = recall(parts, words)
    features = look_at(words)[0].view(STEPS, WORDS, 2)
    is_met = torch.ones(words.shape, dtype=torch.bool)
    lessons = Lessons(features, states, logits.softmax(dim=-1), is_met)
    others = draw_words(seed, 1 << 21, steps=4 * STEPS)

    def judge(memory):
        codes = encode_letters(memory)
        machine = tabulate(memory, codes, most_states=500)
        return float((machine.run(others) == answers(task, others)).mean())

    first = quantise_memory(parts, lessons, CONFIG, seed)
    memory = fine_tune(first, lessons, CONFIG, judge, goal=1.0)
    return first, memory, judge


def encode_letters(memory):
    """Return the codes of the letters 0 and 1, `[2, H]` int8."""
    return memory.encode_features(torch.eye(2)).to(torch.int8).numpy()


def check(task, seed):
    _, memory, _ = extract(task, seed)
    whole = tabulate(memory, encode_letters(memory), most_states=500)
    found = minimise_moore(whole)
    following, labels = MACHINES[task]
    assert found.following[:, found.groups].tolist() == following
    assert found.labels.tolist() == labels
    assert whole.is_closed
    return whole.states


@pytest.mark.parametrize("task", ["parity", pytest.param("tomita 4", marks=pytest.mark.slow)])
def test_the_smallest_machine_of_a_language_comes_out_of_a_recurrent_network(task):
    assert check(task, seed=0) >= len(MACHINES[task][0])


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(1, 5))
@pytest.mark.parametrize("task", MACHINES)
def test_it_comes_out_with_every_seed(task, seed):
    assert check(task, seed) >= len(MACHINES[task][0])
