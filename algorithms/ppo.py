"""Proximal Policy Optimization with a learned critic.

Schulman et al. 2017 (arXiv:1707.06347); advantages by GAE (arXiv:1506.02438), from a
reward at the last token and a KL cost at each (arXiv:2203.02155):

    A   = whiten(GAE(gamma, lambda)),  R = GAE(gamma, lambda) + V_old
    L   = -min(ratio A, clip(ratio) A),  and for the critic 0.5 (V - R)^2 with a clip
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from algorithms import ops
from algorithms.core import Batch, Need, Targets, TokenLoss, required
from algorithms.policy_gradient import ClippedPolicyGradient

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True, kw_only=True)
class PPO(ClippedPolicyGradient):
    """Proximal Policy Optimization: a critic, GAE, the clipped ratio."""

    group_size: int = 1
    kl_estimator: ops.KLEstimator = "k1"
    kl_place: Literal["reward", "loss"] = "reward"
    gamma: float = 1.0
    """Discount of what follows, for each token."""
    gae_lambda: float = 1.0
    """GAE's lambda: 1 is the return minus V, 0 the one-step error. At 0.95 DeepSeek-R1 found PPO far weaker."""
    gae_lambda_critic: float | None = None
    """Lambda of the critic's returns where it differs from the policy's (VAPO, arXiv:2504.05118)."""
    whiten: Literal["batch", "none"] = "batch"
    """Zero mean and unit variance of the advantages over the batch's counted tokens."""
    value_clip: float | None = 0.2
    """How far the critic may move from its values at rollout before the loss stops rewarding it."""

    def contradictions(self) -> Iterator[str]:
        yield from super().contradictions()
        for name in ("gamma", "gae_lambda", "gae_lambda_critic"):
            if (value := getattr(self, name)) is not None and not 0 <= value <= 1:
                yield f"{name} must lie in [0, 1], got {value}"
        if self.value_clip is not None and self.value_clip <= 0:
            yield f"value_clip must be positive, got {self.value_clip}"

    @property
    def needs(self) -> frozenset[Need]:
        columns: set[Need] = {"values"}
        return super().needs | columns

    def policy_lambda(self, batch: Batch) -> float | Tensor:
        """Lambda of the policy's advantages: one number, or (B,)."""
        del batch
        return self.gae_lambda

    def targets(self, batch: Batch) -> Targets:
        mask, values = batch.mask, required(batch.values)
        rewards = ops.at_last_token(batch.rewards, mask) - self.kl_cost(batch)
        advantages = ops.gae(rewards, values, mask, self.gamma, self.policy_lambda(batch))
        lam_critic = self.gae_lambda if self.gae_lambda_critic is None else self.gae_lambda_critic
        returns = ops.gae(rewards, values, mask, self.gamma, lam_critic) + values
        if self.whiten == "batch":
            advantages = ops.whiten(advantages, self.counted(batch))
        return self.assign(batch, advantages, returns)

    def value_loss(self, values: Tensor, batch: Batch, targets: Targets) -> TokenLoss:
        old, returns = required(batch.values), required(targets.returns)
        loss = ops.value_loss(values, old, returns, self.value_clip)
        return TokenLoss(loss=loss, metrics={"vf_loss": loss.detach()})
