"""Rewards other than the task's own: a user's function in its place, a learned model beside it."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from torch import Tensor

from bench.config import RewardModelConfig
from bench.models.shape import ModelShape
from bench.rollout import Rollout
from bench.scoring import blamed_on, checked_score, finite_reward, name_of
from tasks.core import Problem, Score, Split, Task

Reward = Callable[[Problem, str], float]
Conversation = tuple[str, str]  # the user's message, the completion


@dataclass(frozen=True)
class RewardedTask:
    """A task whose reward is the user's function; what is correct stays the task's verdict."""

    task: Task
    reward: Reward

    def problems(self, split: Split) -> Sequence[Problem]:
        """The task's own."""
        return self.task.problems(split)

    def score(self, problem: Problem, completion: str) -> Score:
        """The task's verdict with the reward replaced.

        Raises:
            ScoreError: either gave nothing that can be trained on.
        """
        verdict, code = checked_score(self.task, problem, completion), f"--reward {name_of(self.reward)}"
        with blamed_on(code, problem):
            reward = self.reward(problem, completion)
        return replace(verdict, reward=finite_reward(reward, code, problem))


class RewardEngine(Protocol):
    """Whatever scores texts by a learned model."""

    shape: ModelShape | None  # to count work by; None for an architecture whose work is not counted

    def score(self, conversations: Sequence[Conversation]) -> Tensor:
        """(B,) on the CPU, as the model gives them; each depends on its own text only."""
        ...

    def memory(self) -> int:
        """Bytes of weights and buffers."""
        ...

    def take_lengths(self) -> list[int]:
        """Tokens of each text that was scored since the last call."""
        ...


def rewarded(rollouts: Sequence[Rollout], engine: RewardEngine, config: RewardModelConfig) -> list[Rollout]:
    """The rollouts, their reward a weighted sum of the task's and the model's; what is correct stays the task's.

    Raises:
        ScoreError: the model gave what is no finite number.
    """
    scores = engine.score([(r.problem.prompt, r.completion.text) for r in rollouts])
    mixed: list[Rollout] = []
    for rollout, raw in zip(rollouts, scores.tolist(), strict=True):
        rules = rollout.score.reward
        code = f"--reward-model {config.path}"
        standing = (finite_reward(raw, code, rollout.problem) - config.mean) / config.std
        reward = finite_reward(config.rules_weight * rules + config.weight * standing, code, rollout.problem)
        verdict = replace(rollout.score, reward=reward)
        mixed.append(replace(rollout, score=verdict, rules_reward=rules, model_reward=raw))
    return mixed
