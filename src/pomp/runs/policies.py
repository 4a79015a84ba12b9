"""What any policy earns, on the starts that machines are evaluated on."""

from collections.abc import Callable, Sequence
from typing import Any

import gymnasium as gym
import numpy as np

from pomp.core.errors import ConfigError
from pomp.engine.starts import draw_starts
from pomp.envs.batch import EPISODE, EVALUATION_SEED
from pomp.envs.karel_env import KarelEnv
from pomp.envs.option_env import ProgramOptionEnv
from pomp.machine.evaluation import Evaluation
from pomp.runs.published import published_rows
from pomp.tasks.catalog import find_task, is_shipped
from pomp.tasks.task import Setting, Task

Environment = gym.Env[Any, Any]
Act = Callable[[list[Any], bool], Sequence[Any]]
"""Turns the observations of worlds, and whether these are their first, into actions."""

_TOLD = ("return", "programs", "actions", "ended")


class PolicyEvaluation(Evaluation):
    """What became of N episodes of a policy; as text, it stands beside the paper's numbers.

    `ended` tells whether the environment ended the episode, not its limit; `programs` is zero but
    where programs were the actions; no `paths` are kept.
    """

    def __str__(self) -> str:
        """Return a table: what the policy earned, and what the paper's methods did."""
        task, (low, high) = self.setting.task, self.interval
        actions, count = float(self.actions.mean()), len(self.returns)
        episodes = "1 episode" if count == 1 else f"{count} episodes"
        lines = [
            f"{task.name}: mean return {self.mean:.4f}, 95 % interval {low:.4f} to {high:.4f}",
            f"{episodes}: std {self.std:.4f}, {actions:.1f} actions on average",
        ]
        rows = published_rows(task.name) if _is_published(self.setting) else {}
        wide = max(map(len, ["this policy", *rows]))
        lines += [f"  {'this policy':<{wide}}  {self.mean:.2f} ± {self.std:.2f}"] if rows else []
        lines += [
            f"  {name:<{wide}}  {row['mean']:.2f} ± {row['std']:.2f}  (published)"
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
    seed: int = 0,
    deterministic: bool = True,
) -> PolicyEvaluation:
    """Play episodes of a policy from the starts that `pomp.evaluate` and `pomp eval` play.

    A function or an agent plays them one after the other. A model with `predict` plays all side by
    side, so it is asked once a step for the actions in all worlds.

    Args:
        env: the task, whose `KarelEnv` is played; or a function that makes the environment which
            the policy was trained on, `KarelEnv` or `ProgramOptionEnv` in any wrappers.
        policy: a function of an observation that returns an action; an agent with
            `get_action(observation)`; or a model with `predict(observations, state=,
            episode_start=, deterministic=)`, as Stable-Baselines3 has it.
        episodes: how many; None: the task's `episodes`, as the paper's tables have.
        seed: decides which starts are drawn.
        deterministic: what `predict` is told.

    Raises:
        ConfigError: the policy is none of these, the environment is not ours, or a number is wrong.
    """
    act, is_for_many = _actor(policy, deterministic)
    make = env if callable(env) else _maker(env)
    envs = [make()]
    base = envs[0].unwrapped
    if not isinstance(base, KarelEnv | ProgramOptionEnv):
        raise ConfigError(
            f"evaluation starts are for KarelEnv and ProgramOptionEnv, got {type(base).__name__}"
        )
    setting = base.setting
    count = setting.task.episodes if episodes is None else episodes
    draw_starts(setting, count, seed)  # refuses numbers that are wrong
    if is_for_many:
        envs += [make() for _ in range(count - 1)]
    ends = [end for first in range(0, count, len(envs)) for end in _play(envs, act, seed, first)]
    numbers = {name: np.array([end.get(name, 0) for end in ends]) for name in _TOLD}
    return PolicyEvaluation(
        setting,
        numbers["return"].astype(np.float64),
        numbers["programs"].astype(np.int64),
        numbers["actions"].astype(np.int64),
        numbers["ended"].astype(np.bool_),
        np.empty((count, 0), np.int16),
    )


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
        return list(np.asarray(actions).reshape(len(observations), -1)[:, 0])

    return act


def _stack(observations: list[Any]) -> Any:
    """Return the observations of worlds as one, with an axis for the worlds in front."""
    if isinstance(observations[0], dict):
        names = observations[0]
        return {name: np.stack([one[name] for one in observations]) for name in names}
    return np.stack(observations)


def _play(envs: Sequence[Environment], act: Act, seed: int, first: int) -> list[dict[str, Any]]:
    """Play one episode in each environment, side by side.

    Args:
        envs: the environments.
        act: the policy.
        seed: of the starts.
        first: the number of the start in the first environment.

    Returns:
        The information at the end of each, with whether it `ended` before its limit.
    """
    seen, ends = [], list[dict[str, Any]]()
    for number, env in enumerate(envs, first):
        observation, info = env.reset(options={EVALUATION_SEED: seed, EPISODE: number})
        seen.append(observation)
        ends.append(info)
    running, is_first = set(range(len(envs))), True
    while running:
        actions = act(seen, is_first)
        is_first = False
        for place in sorted(running):
            action = int(np.asarray(actions[place]).item())
            seen[place], _, ended, cut, info = envs[place].step(action)
            ends[place] = {**info, "ended": ended}
            if ended or cut:
                running.discard(place)
    return ends
