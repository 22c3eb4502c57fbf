"""Rewards other than the task's own: a user's function in its place, a learned model beside it."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from torch import Tensor

from bench.config import RewardModelConfig
from bench.models.shape import ModelShape
from bench.rollout import Rollout, Sample
from bench.scoring import blamed_on, checked_score, finite_reward, name_of
from tasks.answers import answer_part
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
        """The task's verdict with the reward replaced, which is paid at the end.

        Raises:
            ScoreError: either gave nothing that can be trained on.
        """
        verdict, code = checked_score(self.task, problem, completion), f"--reward {name_of(self.reward)}"
        with blamed_on(code, problem):
            reward = self.reward(problem, completion)
        return replace(verdict, reward=finite_reward(reward, code, problem), earned=())


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


@dataclass(frozen=True)
class Route:
    """A learned reward, and the kinds of prompt that it judges."""

    engine: RewardEngine
    config: RewardModelConfig

    def takes(self, problem: Problem) -> bool:
        """Whether the model judges this problem's completions."""
        return not self.config.kinds or problem.meta.get("kind") in self.config.kinds

    def read(self, sample: Sample) -> Conversation:
        """What the model is given of a completion."""
        text = sample.completion.text
        return sample.problem.prompt, answer_part(text) if self.config.reads == "summary" else text


def routed(rollouts: Sequence[Rollout], routes: Sequence[Route]) -> list[Rollout]:
    """The rollouts with the reward that the kind of their prompt has: a model's, mixed with the task's, or the task's.

    What is correct stays the task's. No two routes take one kind.
    """
    judged = list(rollouts)
    for route in routes:
        mine = [i for i, rollout in enumerate(judged) if route.takes(rollout.problem)]
        for i, rollout in zip(mine, rewarded([judged[i] for i in mine], route), strict=True):
            judged[i] = rollout
    return judged


def rewarded(rollouts: Sequence[Rollout], route: Route) -> list[Rollout]:
    """The rollouts, their reward a weighted sum of the task's and the model's.

    The task's part is paid where the task pays it, the model's at the end.

    Raises:
        ScoreError: the model gave what is no finite number.
    """
    scores = route.engine.score([route.read(rollout) for rollout in rollouts])
    config = route.config
    mixed: list[Rollout] = []
    for rollout, raw in zip(rollouts, scores.tolist(), strict=True):
        rules = rollout.score.reward
        code = f"--reward-model {config.path}"
        learned = config.weight * (finite_reward(raw, code, rollout.problem) - config.mean) / config.std
        reward = finite_reward(config.rules_weight * rules + learned, code, rollout.problem)
        earned = tuple((end, config.rules_weight * amount) for end, amount in rollout.score.earned)
        if earned:
            earned = (*earned, (len(rollout.completion.text), learned))
        verdict = replace(rollout.score, reward=reward, earned=earned)
        mixed.append(replace(rollout, score=verdict, rules_reward=rules, model_reward=raw))
    return mixed
