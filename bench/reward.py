"""A learned reward beside the task's own: what scores, and how both become the reward that is trained on."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Protocol

from torch import Tensor

from bench.config import RewardModelConfig
from bench.models.shape import ModelShape
from bench.rollout import Rollout

Conversation = tuple[str, str]  # the user's message, the completion


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
    """The rollouts, their reward a weighted sum of the task's and the model's; what is correct stays the task's."""
    scores = engine.score([(r.problem.prompt, r.completion.text) for r in rollouts])
    mixed: list[Rollout] = []
    for rollout, raw in zip(rollouts, scores.tolist(), strict=True):
        rules = rollout.score.reward
        reward = config.rules_weight * rules + config.weight * (raw - config.mean) / config.std
        verdict = replace(rollout.score, reward=reward)
        mixed.append(replace(rollout, score=verdict, rules_reward=rules, model_reward=raw))
    return mixed
