"""REINFORCE++: returns whitened over the whole batch, PPO's clip, no critic.

Hu et al. 2025 (arXiv:2501.03262). Statistics of one small group are noisy; those of the batch are not.

    R_t = sum from t on of (reward at the last token - kl_coef * k1)
    A   = whiten(R)
    L   = -min(ratio A, clip(ratio) A),  token-mean

The baseline form subtracts the group's mean reward before whitening, and puts k2 in the loss.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from algorithms import ops
from algorithms.core import Batch, Targets
from algorithms.policy_gradient import ClippedPolicyGradient


@dataclass(frozen=True, kw_only=True)
class ReinforcePP(ClippedPolicyGradient):
    """REINFORCE++: one completion a prompt, k1 in the reward."""

    group_size: int = 1
    kl_coef: float = 0.001
    kl_estimator: ops.KLEstimator = "k1"
    kl_place: Literal["reward", "loss"] = "reward"
    baseline: Literal["none", "group"] = "none"
    """What is subtracted from the reward: nothing, or the group's mean."""
    whiten: Literal["batch", "none"] = "batch"
    """Whether the advantages are given zero mean and unit variance over the batch's counted tokens."""

    def contradictions(self) -> Iterator[str]:
        yield from super().contradictions()
        if self.baseline == "group" and self.group_size < 2:
            yield f"baseline group needs a group_size of at least 2, got {self.group_size}"

    def targets(self, batch: Batch) -> Targets:
        rewards = batch.rewards
        if self.baseline == "group":
            rewards = rewards - ops.group_mean(rewards, batch.group)
        per_token = ops.at_last_token(rewards, batch.mask) - self.kl_cost(batch)
        returns = per_token.flip(1).cumsum(1).flip(1) * batch.mask
        if self.whiten == "batch":
            returns = ops.whiten(returns, self.counted(batch))
        return self.assign(batch, returns)


@dataclass(frozen=True, kw_only=True)
class ReinforcePPBaseline(ReinforcePP):
    """REINFORCE++, baseline form: the group's mean subtracted, k2 in the loss."""

    group_size: int = 8
    kl_estimator: ops.KLEstimator = "k2"
    kl_place: Literal["reward", "loss"] = "loss"
    baseline: Literal["none", "group"] = "group"
