"""Choose modes from programs by what the best transitions could earn from them.

A set of modes is improved by exchange: at each place in turn every program is tried, and the one
whose set is estimated to earn most takes it, until a whole round changes nothing.
"""

from collections.abc import Callable, Sequence

from pomp.analysis.bounds import bound
from pomp.analysis.planning import estimate
from pomp.core.errors import PompError
from pomp.dsl.bytecode import compile_programs
from pomp.engine.units import DEFAULT_CAP
from pomp.karel.interpreter import Cap
from pomp.tasks.task import Setting

_EPISODES, _WIDTH = 16, 200  # of an estimate, and of a search


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
    pool = sorted(number for text, number in first_of.items() if _is_program(text))
    best = [first_of[programs[number]] for number in chosen]
    known: dict[frozenset[int], float] = {}

    def value_of(numbers: Sequence[int]) -> float:
        key = frozenset(numbers)
        if key not in known:
            texts = [programs[number] for number in sorted(key)]
            is_set = key <= set(pool)
            known[key] = estimate_set(setting, texts, cap) if is_set else float("-inf")
        return known[key]

    most = value_of(best)
    for _ in range(most_rounds):
        before = list(best)
        for place in range(len(best)):
            for number in pool:
                if is_stopped():
                    return None
                tried = [*best[:place], number, *best[place + 1 :]]
                if value_of(tried) > most:
                    best, most = tried, value_of(tried)
        if best == before:
            break
    return best


def estimate_set(setting: Setting, modes: Sequence[str], cap: Cap | str) -> float:
    """Estimate quickly what the best transitions could earn from modes.

    Where nothing is drawn, a search adds to what the planner finds.
    """
    found = estimate(setting, modes, cap, episodes=_EPISODES).value
    if setting.task.draws(setting):
        return found
    return max(found, bound(setting, modes, cap, width=_WIDTH).value)


def _is_program(text: str) -> bool:
    try:
        compile_programs([text])
    except PompError:
        return False
    return True
