"""Group Relative Policy Optimization: the group's mean replaces the critic.

Shao et al. 2024 (arXiv:2402.03300), outcome supervision:

    A_i = (r_i - mean of the group) / (std of the group + eps)
    L   = -min(ratio A, clip(ratio) A) + kl_coef * k3,  averaged in each completion, then over them
"""

from collections.abc import Iterator
from dataclasses import dataclass

from algorithms import ops
from algorithms.core import Aggregation, Batch, Targets
from algorithms.policy_gradient import ClippedPolicyGradient, PolicyGradient


@dataclass(frozen=True, kw_only=True)
class GroupRelative(PolicyGradient):
    """One advantage a completion, from the rewards of its group."""

    group_size: int = 8
    spread: ops.Spread = "sample"
    """Divisor of the advantage: the group's std with n - 1 or n, the whole batch's std, or none."""
    eps: float = 1e-6
    """Small number that is added to the divisor of the advantage."""

    def contradictions(self) -> Iterator[str]:
        yield from super().contradictions()
        if self.group_size < 2:
            yield f"group_size must be at least 2: the group's mean is the baseline, got {self.group_size}"
        if self.eps <= 0:
            yield f"eps must be positive: a group of equal rewards has no spread, got {self.eps}"

    def targets(self, batch: Batch) -> Targets:
        rewards = batch.rewards - self.kl_cost(batch).sum(dim=1)
        advantages = rewards - ops.group_mean(rewards, batch.group)
        if self.spread != "none":
            advantages = advantages / (ops.spread(rewards, batch.group, self.spread) + self.eps)
        return self.assign(batch, advantages)


@dataclass(frozen=True, kw_only=True)
class GRPO(GroupRelative, ClippedPolicyGradient):
    """Group Relative Policy Optimization: no critic, KL to the reference in the loss."""

    aggregation: Aggregation = "sequence-mean"
    kl_coef: float = 0.04
