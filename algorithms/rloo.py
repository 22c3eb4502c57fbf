"""REINFORCE Leave-One-Out: each completion's baseline is the mean of its siblings.

Ahmadian et al. 2024 (arXiv:2402.14740):

    r'_i = r_i - kl_coef * sum over tokens of log pi_old - log pi_ref
    A_i  = r'_i - mean of the other r'
    L    = -ratio A,  summed over the completion's tokens, without a clip

One update a batch, so that the ratio is 1 and the gradient is the paper's REINFORCE; with more, the ratio is ours.

The paper's learned reward calls for a KL coefficient; under a verifier it is 0 unless set.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Literal

from algorithms import ops
from algorithms.core import Aggregation, Batch, Targets
from algorithms.policy_gradient import PolicyGradient

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True, kw_only=True)
class RLOO(PolicyGradient):
    """REINFORCE with the siblings' mean as baseline, KL in the reward."""

    formula_version: ClassVar[int] = 2

    group_size: int = 8
    num_minibatches: int = 1
    """Optimizer updates of a batch: one is on-policy, as in the paper."""
    aggregation: Aggregation = "sequence-sum"
    kl_estimator: ops.KLEstimator = "k1"
    kl_place: Literal["reward", "loss"] = "reward"

    def contradictions(self) -> Iterator[str]:
        yield from super().contradictions()
        if self.group_size < 2:
            yield f"group_size must be at least 2: the others' mean is the baseline, got {self.group_size}"

    def targets(self, batch: Batch) -> Targets:
        rewards = batch.rewards - self.kl_cost(batch).sum(dim=1)
        size = ops.group_size(batch.group)
        others = (size * ops.group_mean(rewards, batch.group) - rewards) / (size - 1)
        return self.assign(batch, rewards - others)

    def pg_loss(self, logprobs: Tensor, ratio: Tensor, advantages: Tensor) -> tuple[Tensor, dict[str, Tensor]]:
        return -ratio * advantages, {}
