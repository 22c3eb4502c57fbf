"""What methods with a critic share: advantages by GAE (arXiv:1506.02438) from its values, and its loss."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Literal

from algorithms import credit, ops
from algorithms.core import Batch, Need, Targets, TokenLoss, required
from algorithms.policy_gradient import PolicyGradient

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True, kw_only=True)
class ActorCritic(PolicyGradient):
    """A learned critic, and advantages by GAE from its values."""

    reads_token_rewards: ClassVar[bool] = True

    group_size: int = 1
    kl_estimator: ops.KLEstimator = "k1"
    kl_place: Literal["reward", "loss"] = "reward"
    gamma: float = 1.0
    """Discount of what follows, for each token."""
    gae_lambda: float = 1.0
    """GAE's lambda: 1 is the return minus V, 0 the one-step error. At 0.95 DeepSeek-R1 found PPO far weaker."""
    gae_lambda_critic: float | None = None
    """Lambda of the critic's returns where it differs from the policy's (VAPO, arXiv:2504.05118)."""
    gae_over: Literal["token", "step"] = "token"
    """What GAE goes over: tokens, or the steps that the task pays for, of which all tokens get the same."""
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
        lam_critic = self.gae_lambda if self.gae_lambda_critic is None else self.gae_lambda_critic
        advantages = self.estimate(batch, self.policy_lambda(batch))
        returns = self.estimate(batch, lam_critic) + self.baseline(batch)
        if self.whiten == "batch":
            advantages = ops.whiten(advantages, self.counted(batch))
        return self.assign(batch, advantages, returns)

    def estimate(self, batch: Batch, lam: float | Tensor) -> Tensor:
        """(B, T) advantages by GAE, before whitening."""
        rewards = credit.paid(batch.rewards, batch.token_rewards, batch.mask) - self.kl_cost(batch)
        values = required(batch.values)
        if self.gae_over == "token":
            return ops.gae(rewards, values, batch.mask, self.gamma, lam)
        return credit.gae_by_step(rewards, values, batch.mask, self.gamma, lam, self.steps(batch))

    def baseline(self, batch: Batch) -> Tensor:
        """(B, T) what an advantage is over: the value of the token, or of its step's first."""
        values = required(batch.values)
        return values if self.gae_over == "token" else credit.value_by_step(values, batch.mask, self.steps(batch))

    def steps(self, batch: Batch) -> Tensor:
        return credit.step_index(batch.steps, batch.mask)

    def value_loss(self, values: Tensor, batch: Batch, targets: Targets) -> TokenLoss:
        old, returns = required(batch.values), required(targets.returns)
        loss = ops.value_loss(values, old, returns, self.value_clip)
        return TokenLoss(loss=loss, metrics={"vf_loss": loss.detach()})


@dataclass(frozen=True, kw_only=True)
class LengthAdaptive(ActorCritic):
    """A lambda for each completion, which its length decides (VAPO, arXiv:2504.05118)."""

    gae_lambda_critic: float | None = 1.0
    gae_length_alpha: float | None = 1.0
    """Alpha of the policy's length-adaptive lambda; without it `gae_lambda` holds. The paper's 0.05 (recipe `vapo`) is
    for thousands of tokens: at 34 tokens it makes lambda 0.41, and the embedded model learns little."""

    def contradictions(self) -> Iterator[str]:
        yield from super().contradictions()
        if self.gae_length_alpha is not None and self.gae_length_alpha <= 0:
            yield f"gae_length_alpha must be positive, got {self.gae_length_alpha}"

    def policy_lambda(self, batch: Batch) -> float | Tensor:
        if self.gae_length_alpha is None:
            return self.gae_lambda
        return (1 - 1 / (self.gae_length_alpha * batch.lengths.clamp(min=1))).clamp(min=0)
