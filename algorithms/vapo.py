"""Value-model-based Augmented PPO: PPO for long completions with a sparse reward.

Yue et al. 2025 (arXiv:2504.05118), changes to PPO:

    decoupled lambda        1 for the critic's returns, so that the reward does not decay on its way
    length-adaptive lambda  max(0, 1 - 1 / (alpha * length)) for the policy's advantages
    clip-higher             as DAPO
    positive examples       + mu * mean of -log pi over the tokens of right completions

    value pretraining       the critic learns alone at first; critic.pretrain_steps sets another length
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar

from algorithms.actor_critic import LengthAdaptive
from algorithms.core import Batch, PolicyOutput, Targets, TokenLoss, required
from algorithms.ppo import PPO

if TYPE_CHECKING:
    pass


@dataclass(frozen=True, kw_only=True)
class VAPO(LengthAdaptive, PPO):
    """PPO with length-adaptive and decoupled lambda, clip-higher and a term on right completions."""

    formula_version: ClassVar[int] = 2

    group_size: int = 8
    clip_ratio_high: float | None = 0.28
    positive_coef: float = 0.1
    """Mu: weight of the likelihood of right completions."""

    @property
    def value_pretraining(self) -> int:
        """3 steps: the paper's 50 (recipe `vapo`) are for thousands of steps, where a run of ours has dozens."""
        return 3

    def contradictions(self) -> Iterator[str]:
        yield from super().contradictions()
        if self.positive_coef < 0:
            yield f"positive_coef must not be negative, got {self.positive_coef}"

    def targets(self, batch: Batch) -> Targets:
        counted = self.counted(batch)
        positive = counted & batch.correct[:, None]
        # a token-mean over all counted tokens becomes a mean over the positive ones
        weight = positive * (counted.sum() / positive.sum().clamp(min=1))
        return replace(super().targets(batch), nll_weight=weight)

    def policy_loss(self, policy: PolicyOutput, batch: Batch, targets: Targets) -> TokenLoss:
        out = super().policy_loss(policy, batch, targets)
        nll = -policy.logprobs * required(targets.nll_weight)
        return TokenLoss(loss=out.loss + self.positive_coef * nll, metrics=out.metrics | {"positive_nll": nll.detach()})
