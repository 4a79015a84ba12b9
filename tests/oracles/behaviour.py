"""How programs behave, from the specification alone: trials, demonstrations, states and match."""

from dataclasses import dataclass
from itertools import count

import numpy as np
from oracle import Plain, Reader, UnderCalls

from pomp.conformance.reference import Stream, World, execute
from pomp.dsl import LEAPS
from pomp.engine import reset

CAP = 9  # markers a cell can hold
SIZE = 8
MOVE, PICK, PUT = 0, 3, 4
PUBLISHED_CAP = "calls220"


def text_of(ids, vocabulary=LEAPS):
    """A row of token ids as text."""
    return " ".join(vocabulary.decode(ids))


def program(body):
    return f"DEF run m( {body} m)"


def padded(texts, width=46, vocabulary=LEAPS):
    """Texts as rows of token ids."""
    ids = np.full((len(texts), width), vocabulary.pad, np.uint8)
    for row, text in zip(ids, texts, strict=True):
        tokens = text.split()
        row[: len(tokens)] = vocabulary.encode(tokens)
    return ids


# ---------------------------------------------------------------- states


def world_at(cells, pose):
    """A world of the reference from its bytes and 4 * cell + facing."""
    cell, facing = divmod(int(pose), 4)
    return World.from_bytes(cells, SIZE, SIZE, *divmod(cell, SIZE), facing)


def state(world):
    """Everything there is about a world."""
    return world.to_bytes(), world.row, world.col, world.facing


def is_possible(world, action):
    """Whether an action does what it is for: no wall ahead, a marker to pick, room to put."""
    if action == MOVE:
        return world.is_clear(world.neighbour(0))
    if action == PICK:
        return world.usable(world.cell) > 0
    return action != PUT or world.usable(world.cell) < CAP


def run_states(text, cells, pose):
    """The states of a run, the first included, and whether the program came to its end."""
    world = world_at(cells, pose)
    states = [state(world)]

    def act(action):
        world.act(action, CAP)
        states.append(state(world))

    return states, execute(text, act, world.perceive, PUBLISHED_CAP).completed


def match(a, b):
    """How far two runs agree."""
    p, q = len(a), len(b)
    if p == q == 1:
        return 1.0
    c = 0
    while c < min(p, q) and a[c] == b[c]:
        c += 1
    return (c - 1) / (max(p, q) - 1)


def mean_match(text, other, starts, row):
    """The mean match of two programs from the starts found for one row of demonstrations."""
    found = int(starts.found[row])
    matches = []
    for cells, pose in zip(starts.cells[row, :found], starts.pose[row, :found], strict=True):
        runs = [run_states(one, cells, pose)[0] for one in (text, other)]
        matches.append(match(*runs))
    return sum(matches) / found


# ---------------------------------------------------------------- demonstrations


class ImpossibleActionError(Exception):
    """In error mode an action that cannot be done ends the trial."""


class Strict(Plain):
    """A world in error mode."""

    def act(self, action):
        row, col = self.ahead()
        here = self.rows[self.row][self.col]
        blocked = action == MOVE and self.rows[row][col] is None
        if blocked or (action == PICK and here == 0) or (action == PUT and here == CAP):
            raise ImpossibleActionError
        super().act(action)


class Watched(UnderCalls):
    """An interpreter that remembers which way each condition went."""

    def __init__(self, world, limit):
        super().__init__(world, limit)
        self.seen = set()

    def holds(self, condition):
        *plain, number = condition
        answer = super().holds(plain)
        self.seen.add((number, answer))
        return answer


def number_conditions(body, numbers):
    """The same statements with its number behind each condition."""
    numbered = []
    for kind, *parts in body:
        if kind in ("if", "while"):
            parts[0] = (*parts[0], next(numbers))
        parts = [
            number_conditions(part, numbers) if isinstance(part, list) else part for part in parts
        ]
        numbered.append((kind, *parts))
    return numbered


@dataclass(frozen=True)
class Trial:
    """One run of a program on a random world."""

    cells: bytes
    pose: int
    actions: list
    completed: bool
    failed: bool
    seen: set

    @property
    def states(self):
        return len(self.actions) + 1


def try_once(body, cells, pose, limits):
    """Run a numbered body from a start."""
    cell, facing = divmod(pose, 4)
    rows = [
        [None if byte & 16 else byte & 15 for byte in row]
        for row in cells.reshape(SIZE, SIZE).tolist()
    ]
    world = (Strict if limits.stop_on_error else Plain)(rows, (*divmod(cell, SIZE), facing))
    run = Watched(world, int(limits.cap.removeprefix("calls")))
    completed, failed = False, False
    try:
        completed = run.run(body)
    except ImpossibleActionError:
        failed = True
    return Trial(cells.tobytes(), pose, world.trace, completed, failed, run.seen)


@dataclass(frozen=True)
class Limits:
    """The numbers of one search for demonstrations."""

    wanted: int = 10
    trials: int = 100
    least_states: int = 4
    most_states: int = 20
    stop_on_error: bool = True
    cap: str = PUBLISHED_CAP


def accepted_trials(text, stream, setting, limits):
    """The trials that count, and the stream's state after the last one."""
    numbers = count()
    body = number_conditions(Reader(text.split()).program(), numbers)
    pairs = 2 * next(numbers)
    stream = Stream(int(stream))
    seen, before, accepted = set(), 0, []
    for _ in range(limits.trials):
        worlds = reset(setting, np.array([stream.state], np.uint64))
        stream.state = int(worlds.stream[0])
        trial = try_once(body, worlds.cells[0], int(worlds.pose[0]), limits)
        if not trial.failed:
            seen |= trial.seen
        if not trial.completed or trial.states > limits.most_states:
            continue
        is_new, is_all = len(seen) > before, pairs > 0 and len(seen) == pairs
        if not (pairs == 0 or is_new or is_all):
            continue
        is_long = trial.states >= limits.least_states
        if is_long or is_new or (is_all and stream.next() >> 63):
            accepted.append(trial)
            before = len(seen)
        if len(accepted) == limits.wanted:
            break
    return accepted, stream.state
