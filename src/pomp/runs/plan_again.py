"""What a training that is resumed is asked for: as before, but for what is given now."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from pomp.core.configs import changed
from pomp.core.errors import ConfigError
from pomp.learning.baselines import BASELINES
from pomp.learning.config import LearningConfig
from pomp.learning.methods import LearningMethod, OwnLearning
from pomp.modes.methods import method_source
from pomp.modes.proposers import Method
from pomp.runs.asked import OWN_SENSORS, with_sources
from pomp.runs.plan import GIVEN, TrainPlan, evolve_again, find_own, sort_changes, with_given
from pomp.tasks.task import Setting


def plan_again(
    before: TrainPlan,
    settings: Sequence[Setting] | None,
    seeds: Sequence[int] | None,
    preset: str | None,
    method: str | Method | LearningMethod | None,
    modes: str | Path | Sequence[str] | None,
    changes: Mapping[str, Any],
    allow: Collection[str] = (),
) -> TrainPlan:
    """Plan a training that was begun before: what is given replaces what it was begun with.

    Args:
        before: the plan that it was begun with.
        settings: the tasks; None, here and below: as before.
        seeds: whole numbers.
        preset: paper, code or best.
        method: what searches the modes, a baseline, or a method of your own.
        modes: where modes or machines are that were found before, or the modes themselves.
        changes: settings to change, as for `make_plan`.
        allow: further modules that machines which are given may name.

    Raises:
        UnknownNameError: no such field.
        ConfigError: a value that does not fit, or another method.
    """
    own, of_search, rates = sort_changes(changes)
    of_search = with_sources(of_search)
    searcher, learns = find_own(method)
    if isinstance(searcher, str) and searcher in BASELINES:
        baseline, searcher = BASELINES[searcher], None
        _check_method(before, baseline.name, before.method)
        modes, own = baseline.modes, {**baseline.changes, **own}
    if learns is not None and learns.modes:
        modes = learns.modes
    source = method_source(searcher) if isinstance(searcher, Method) else searcher
    _check_method(before, source, before.searcher)
    by_own = _learn_again(before.own, learns, own)
    own = {} if by_own else own
    learning: LearningConfig = changed(before.learning, own)
    if "ppo.learning_rate" in own:
        rates = rates or (learning.ppo.learning_rate,)
    plan = replace(
        before,
        settings=tuple(settings or before.settings),
        seeds=tuple(seeds or before.seeds),
        preset=preset or before.preset,
        learning=learning,
        learning_rates=rates or before.learning_rates,
        own=by_own,
    )
    if modes is not None:
        sensed = of_search.pop(OWN_SENSORS, plan.own_sensors)
        return with_given(replace(plan, own_sensors=sensed), modes, allow)
    return _search_again(plan, of_search) if of_search else plan


def _check_method(before: TrainPlan, asked: str | None, had: str | None) -> None:
    """Refuse another method than the one that a training was begun with.

    Args:
        before: the plan that it was begun with.
        asked: the method of now; None: none is named.
        had: the one before; None: modes were given.
    """
    if asked not in (None, had):
        begun = "given modes" if before.method == GIVEN else f"the method {before.method}"
        raise ConfigError(f"the training was begun with {begun}, not with the method {asked}")


def _learn_again(
    before: OwnLearning | None, method: LearningMethod | None, changes: Mapping[str, Any]
) -> OwnLearning | None:
    """Plan how a method of one's own learns, if one was asked for, now or before."""
    if method is None and before is None:
        return None
    if before is not None and method in (None, before.method):
        return OwnLearning(before.method, changed(before.settings, changes))
    assert method is not None
    return OwnLearning(method, changed(method.settings(), changes))


def _search_again(before: TrainPlan, changes: Mapping[str, Any]) -> TrainPlan:
    """Plan a training whose search has other settings than before."""
    if before.evolution is not None:
        return replace(before, evolution=evolve_again(before.evolution, changes))
    if not before.searches:
        raise ConfigError("the modes are given: there is no search whose settings could change")
    return replace(before, searches=tuple(changed(one, changes) for one in before.searches))
