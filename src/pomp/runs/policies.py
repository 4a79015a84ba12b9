"""What any policy earns, on the starts that machines are evaluated on."""

from collections.abc import Callable, Sequence
from typing import Any

import gymnasium as gym
import numpy as np

from pomp.core.errors import ConfigError
from pomp.engine.starts import draw_starts
from pomp.envs.batch import EPISODE, EVALUATION_SEED, START
from pomp.envs.karel_env import KarelEnv
from pomp.envs.option_env import ProgramOptionEnv
from pomp.machine.evaluation import Evaluation, list_all
from pomp.runs.published import published_rows
from pomp.tasks.catalog import find_task, is_shipped
from pomp.tasks.task import Setting, Task

Environment = gym.Env[Any, Any]
Act = Callable[[list[Any], bool], Sequence[Any]]
"""Turns the observations of worlds, and whether these are their first, into actions."""

_TOLD = ("return", "programs", "actions", "ended")
_DREW = "drew"

_Information = dict[str, Any]


class PolicyEvaluation(Evaluation):
    """What became of N episodes of a policy; as text, it stands beside the paper's numbers.

    `ended` tells whether the environment ended the episode, not its limit; `programs` is zero but
    where programs were the actions; no `paths` are kept.
    """

    def __str__(self) -> str:
        """Return a table: what the policy earned, and what the paper's methods did."""
        task, (low, high), count = self.setting.task, self.interval, len(self.returns)
        actions = float(np.average(self.actions, weights=self.weights))
        if self.is_exact:
            worth = f"exact return {self.mean:z.4f}"
            starts = "its only start" if count == 1 else f"all {count} starts, by their probability"
        else:
            worth = f"mean return {self.mean:z.4f}, 95 % interval {low:.4f} to {high:.4f}"
            starts = f"{count} drawn start{'s' if count > 1 else ''}"
        spread = f"std {self.std:.4f}, " if count > 1 else ""
        lines = [f"{task.name}: {worth}", f"{starts}: {spread}{actions:.1f} actions on average"]
        rows = published_rows(task.name) if _is_published(self.setting) else {}
        wide = max(map(len, ["this policy", *rows]))
        own = f" ± {self.std:.2f} over starts" if count > 1 else ""
        lines += [f"  {'this policy':<{wide}}  {self.mean:z.2f}{own}"] if rows else []
        lines += [
            f"  {name:<{wide}}  {row['mean']:.2f} ± {row['std']:.2f} over seeds (published)"
            for name, row in sorted(rows.items(), key=lambda one: -one[1]["mean"])
        ]
        return "\n".join(lines)


def _is_published(setting: Setting) -> bool:
    """Whether the paper's numbers are about this setting."""
    is_own_size = (setting.height, setting.width) == setting.task.size
    return is_shipped(setting.task) and is_own_size and setting.scale == 1


def evaluate_policy(
    env: str | Task | Setting | Callable[[], Environment],
    policy: Any,
    *,
    episodes: int | None = None,
    seed: int | None = None,
    deterministic: bool = True,
) -> PolicyEvaluation:
    """Play episodes of a policy from the starts that `pomp.evaluate` and `pomp eval` play.

    By the same rule: every start is played once, and the mean is the expected return, if neither
    `episodes` nor `seed` is given, there are at most `MOST_LISTED` starts, and nothing else is
    random: the task does not draw, and the policy is `deterministic`. Else starts are drawn.

    A function or an agent plays them one after the other. A model with `predict` plays all side by
    side, so it is asked once a step for the actions in all worlds.

    Args:
        env: the task, whose `KarelEnv` is played; or a function that makes the environment which
            the policy was trained on, `KarelEnv` or `ProgramOptionEnv` in any wrappers.
        policy: a function of an observation that returns an action; an agent with
            `get_action(observation)`; or a model with `predict(observations, state=,
            episode_start=, deterministic=)`, as Stable-Baselines3 has it.
        episodes: how many are drawn; None: the task's `episodes`, as the paper's tables have.
        seed: decides which starts are drawn; None: 0.
        deterministic: what `predict` is told; False, too, if a function or an agent draws.

    Raises:
        ConfigError: the policy is none of these, the environment is not ours, or a number is wrong.
    """
    act, is_for_many = _actor(policy, deterministic)
    if isinstance(env, gym.Env):
        name = type(env.unwrapped).__name__
        raise ConfigError(f"env is a task or a function that makes one, as lambda: {name}(...)")
    make = env if callable(env) else _maker(env)
    envs = [make()]
    base = envs[0].unwrapped
    if not isinstance(base, KarelEnv | ProgramOptionEnv):
        raise ConfigError(
            f"evaluation starts are for KarelEnv and ProgramOptionEnv, got {type(base).__name__}"
        )
    setting = base.setting
    is_listed = episodes is None and seed is None and deterministic
    ends, weights = list[_Information](), None
    if is_listed and (listed := list_all(setting)):
        worlds, weights = listed
        starts = [{START: worlds.map_of(place)} for place in range(len(worlds))]
        ends = _play_all(make, envs, act, _numbered(starts, 0), is_for_many)
        if any(end[_DREW] for end in ends):  # though the task does not say so
            ends, weights = [], None
    if weights is None:
        count = setting.task.episodes if episodes is None else episodes
        draw_starts(setting, count, seed or 0)  # refuses numbers that are wrong
        ends = _play_all(make, envs, act, _numbered([{}] * count, seed or 0), is_for_many)
    numbers = {name: np.array([end.get(name, 0) for end in ends]) for name in _TOLD}
    return PolicyEvaluation(
        setting,
        numbers["return"].astype(np.float64),
        numbers["programs"].astype(np.int64),
        numbers["actions"].astype(np.int64),
        numbers["ended"].astype(np.bool_),
        np.empty((len(ends), 0), np.int16),
        weights,
    )


def _numbered(starts: Sequence[_Information], seed: int) -> list[_Information]:
    """Return options of `reset`, with the random streams of the evaluation of a seed."""
    return [{EVALUATION_SEED: seed, EPISODE: place, **one} for place, one in enumerate(starts)]


def _play_all(
    make: Callable[[], Environment],
    envs: list[Environment],
    act: Act,
    starts: Sequence[_Information],
    is_for_many: bool,
) -> list[_Information]:
    """Play one episode from each start.

    Args:
        make: makes an environment.
        envs: the environments that there are; more are added.
        act: the policy.
        starts: options of `reset`.
        is_for_many: whether the policy plays many worlds side by side.

    Returns:
        As `_play`.
    """
    if is_for_many:
        envs += [make() for _ in range(len(starts) - len(envs))]
    parts = [starts[first : first + len(envs)] for first in range(0, len(starts), len(envs))]
    return [end for part in parts for end in _play(envs[: len(part)], act, part)]


def _maker(task: str | Task | Setting) -> Callable[[], Environment]:
    """Return what makes the plain environment of a task."""
    chosen = task if isinstance(task, Setting) else find_task(task)
    return lambda: KarelEnv(chosen)


def _actor(policy: Any, deterministic: bool) -> tuple[Act, bool]:
    """Return what acts for a policy, and whether it can play many worlds side by side.

    Raises:
        ConfigError: it is no policy.
    """
    choose = getattr(policy, "predict", getattr(policy, "get_action", policy))
    if isinstance(policy, type) or not callable(choose):
        raise ConfigError(
            "a policy is a function of an observation, or has predict or get_action; got "
            f"{policy!r:.80}"
        )
    if hasattr(policy, "predict"):
        return _predictor(policy, deterministic), True
    return lambda observations, is_first: [choose(one) for one in observations], False


def _predictor(policy: Any, deterministic: bool) -> Act:
    """Return what asks a model for the actions in all worlds at once, and keeps its states."""
    state: Any = None

    def act(observations: list[Any], is_first: bool) -> Sequence[Any]:
        nonlocal state
        starts = np.full(len(observations), is_first)
        actions, state = policy.predict(
            _stack(observations), state=None if is_first else state, episode_start=starts,
            deterministic=deterministic,
        )  # fmt: skip
        chosen = np.asarray(actions)
        if len(chosen.reshape(-1)) != len(observations):
            shape = chosen.shape
            raise ConfigError(f"predict must return {len(observations)} actions, got shape {shape}")
        return list(chosen.reshape(-1))

    return act


def _stack(observations: list[Any]) -> Any:
    """Return the observations of worlds as one, with an axis for the worlds in front."""
    if isinstance(observations[0], dict):
        names = observations[0]
        return {name: np.stack([one[name] for one in observations]) for name in names}
    return np.stack(observations)


def _play(
    envs: Sequence[Environment], act: Act, starts: Sequence[_Information]
) -> list[_Information]:
    """Play one episode in each environment, side by side.

    Args:
        envs: the environments.
        act: the policy.
        starts: options of `reset`, for each.

    Returns:
        The information at the end of each, with whether it `ended` before its limit, and whether
        the task `drew` at random.
    """
    seen, ends, before = [], list[_Information](), list[int]()
    for env, start in zip(envs, starts, strict=True):
        observation, info = env.reset(options=start)
        seen.append(observation)
        ends.append(info)
        before.append(_stream_of(env))
    running, is_first = set(range(len(envs))), True
    while running:
        actions = act(seen, is_first)
        is_first = False
        for place in sorted(running):
            action = _whole_number(actions[place])
            seen[place], _, ended, cut, info = envs[place].step(action)
            drew = _stream_of(envs[place]) != before[place]
            ends[place] = {**info, "ended": ended, _DREW: drew}
            if ended or cut:
                running.discard(place)
    return ends


def _whole_number(action: Any) -> int:
    """Return the action that a policy chose.

    Raises:
        ConfigError: it is no whole number.
    """
    chosen = np.asarray(action)
    if chosen.size != 1 or not np.issubdtype(chosen.dtype, np.integer):
        raise ConfigError(f"a policy must return the number of an action, got {action!r:.80}")
    return int(chosen.item())


def _stream_of(env: Environment) -> int:
    """Return the state of the random stream that an environment's task draws from."""
    worlds = env.unwrapped.worlds  # type: ignore[attr-defined] # of KarelEnv and ProgramOptionEnv
    return int(worlds.stream[0])
