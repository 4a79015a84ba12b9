"""Choose modes from programs by what transitions could earn from them.

A set of modes is improved by exchange: at each place in turn every program is tried, and the one
whose set is estimated to earn most takes it, until a whole round changes nothing. It begins once
with the set that is given, and once with the best single program everywhere; the better end counts.
"""

from collections.abc import Callable, Sequence

import numpy as np

from pomp.analysis.planning import play_sets
from pomp.dsl.bytecode import compile_programs, is_program
from pomp.engine.units import DEFAULT_CAP
from pomp.karel.interpreter import Cap
from pomp.modes.methods import is_certain
from pomp.tasks.task import Setting

_EPISODES, _DEPTH = 16, 8  # of an estimate: how many, and how far the planner looks ahead


def choose_modes(
    setting: Setting,
    programs: Sequence[str],
    chosen: Sequence[int],
    cap: Cap | str = DEFAULT_CAP,
    *,
    most_rounds: int = 5,
    is_stopped: Callable[[], bool] = lambda: False,
) -> list[int] | None:
    """Choose as many of some programs as were chosen before, so that they can earn more together.

    Args:
        setting: the task.
        programs: what to choose from.
        chosen: numbers of the programs to begin with.
        cap: how long one execution of a mode may last.
        most_rounds: rounds of exchanges at most.
        is_stopped: asked before every estimate; if true, nothing is chosen.

    Returns:
        Numbers of programs, one for each place; None: it was stopped.
    """
    first_of = {text: number for number, text in reversed(list(enumerate(programs)))}
    pool = sorted(number for text, number in first_of.items() if is_program(text))
    if not pool:
        return list(chosen)
    begun = [first_of[programs[number]] for number in chosen]
    alone = estimate_sets(setting, programs, [[number] for number in pool], cap)
    first = pool[alone.index(max(alone))]
    # What is no program gives way to the best; and modes may have been chosen badly from the first.
    beginnings = [[number if number in pool else first for number in begun], [first] * len(begun)]
    found = []
    for beginning in beginnings:
        better = _exchange(setting, programs, pool, beginning, cap, most_rounds, is_stopped)
        if better is None:
            return None
        found.append(better)
    return max(found, key=lambda one: one[0])[1]


def _exchange(
    setting: Setting,
    programs: Sequence[str],
    pool: list[int],
    best: list[int],
    cap: Cap | str,
    most_rounds: int,
    is_stopped: Callable[[], bool],
) -> tuple[float, list[int]] | None:
    """Improve a set by exchange; returns what it is estimated to earn, and the set."""
    most = estimate_sets(setting, programs, [best], cap)[0]
    for _ in range(most_rounds):
        before = list(best)
        for place in range(len(best)):
            if is_stopped():
                return None
            tried = [[*best[:place], number, *best[place + 1 :]] for number in pool]
            values = estimate_sets(setting, programs, tried, cap)
            if max(values) > most:
                most = max(values)
                best = tried[values.index(most)]
        if best == before:
            break
    return most, best


def estimate_sets(
    setting: Setting, programs: Sequence[str], sets: Sequence[Sequence[int]], cap: Cap | str
) -> list[float]:
    """Estimate what transitions that are learned could earn from each of several sets of modes.

    It is what a planner earns that looks eight macro steps ahead: rewards that take longer to reach
    are seldom found by a network that learns (`docs/RESULTS.md` has the measurement).

    Args:
        setting: the task.
        programs: texts.
        sets: numbers of programs, equally many in each.
        cap: how long one execution of a mode may last.
    """
    used = sorted({number for one in sets for number in one})
    rows = np.searchsorted(used, np.array(sets))
    code = compile_programs([programs[number] for number in used])
    episodes = 1 if is_certain(setting) else _EPISODES
    returns = play_sets(setting, code, rows, cap, episodes, depth=_DEPTH)
    return [float(mean) for mean in returns.mean(axis=1)]
