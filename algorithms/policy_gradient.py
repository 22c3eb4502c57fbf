"""What policy-gradient methods share: the KL and entropy terms, the sampler's correction, the clipped surrogate."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal, Self

import torch

from algorithms import ops
from algorithms.core import Algorithm, Batch, Need, PolicyOutput, Targets, TokenLoss, required

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True, kw_only=True)
class PolicyGradient(Algorithm):
    """Loss = policy-gradient term * correction + kl_coef * KL - entropy_coef * entropy, per token.

    A method gives `targets` (its advantages) and `pg_loss` (its surrogate).
    """

    kl_coef: float = 0.0
    """Weight of KL(policy || reference); at 0 no reference model is built."""
    kl_estimator: ops.KLEstimator = "k3"
    """Estimator of the KL: k1 log-ratio, k2 half its square, k3 ref/pi - log(ref/pi) - 1. As a loss, on-policy, the
    expected gradient is zero for k1, the gradient of KL(policy || reference) for k2 and that of KL(reference || policy)
    for k3."""
    kl_place: Literal["reward", "loss"] = "loss"
    """Where the KL stands: in the reward it is a cost (at the old policy) that credit assignment sees, and its gradient
    is that of the score function; in the loss it is differentiated directly."""
    kl_times_ratio: bool = False
    """Multiply the KL in the loss by the ratio, not detached: unbiased off-policy, in value and gradient."""
    allow_k1_loss: bool = False
    """Accept k1 as a loss though its expected gradient is zero."""
    entropy_coef: float = 0.0
    """Weight of the entropy bonus; at 0 the entropy is measured without a gradient."""
    entropy_target: float | None = None
    """Move `entropy_coef` after each step so that the entropy (nats a token) stays at or above this."""
    entropy_coef_step: float = 0.005
    """How far one step moves `entropy_coef` (up below the target, down to 0 above it); arXiv:2505.22312."""
    correction: Literal["none", "token", "sequence", "geometric"] = "none"
    """Importance weight pi_old / pi_sampler on the policy-gradient term: of a token, of the whole completion, or of a
    token in completions whose geometric mean of weights lies within the bounds."""
    correction_mode: Literal["truncate", "mask"] = "truncate"
    """What happens to a correction beyond a bound: it becomes the bound, or 0. Masked on both sides, tokens are
    filtered as by IcePop (0.5 and 5)."""
    correction_cap: float = 2.0
    """Largest correction of a token or a completion."""
    correction_floor: float = 0.0
    """Smallest correction of a token or a completion; 0 bounds it from above alone."""
    mask_truncated: bool = False
    """Leave truncated completions out of the loss; they still count in their group's mean and spread."""

    def contradictions(self) -> Iterator[str]:
        yield from super().contradictions()
        if self.kl_coef < 0:
            yield f"kl_coef must not be negative (the KL is a cost), got {self.kl_coef}"
        if self.kl_in_loss and self.kl_estimator == "k1" and not (self.allow_k1_loss or self.kl_times_ratio):
            yield (
                "kl_estimator k1 in the loss has an expected gradient of zero: choose k2 or k3, "
                "or kl_place reward, or set allow_k1_loss if it is meant"
            )
        if self.kl_times_ratio and not self.kl_in_loss:
            yield "kl_times_ratio needs a KL in the loss: set kl_coef above 0 and kl_place loss"
        if self.correction_cap <= 0:
            yield f"correction_cap must be positive, got {self.correction_cap}"
        if not 0 <= self.correction_floor <= self.correction_cap:
            yield f"correction_floor must lie between 0 and correction_cap, got {self.correction_floor}"
        if self.correction == "geometric" and self.correction_mode != "mask":
            yield "correction geometric drops whole completions: set correction_mode mask"
        if self.entropy_target is not None and self.entropy_coef < 0:
            yield "entropy_target raises the entropy: entropy_coef must not start below 0"

    @property
    def kl_in_loss(self) -> bool:
        return self.kl_coef > 0 and self.kl_place == "loss"

    @property
    def needs(self) -> frozenset[Need]:
        columns: set[Need] = set()
        if self.kl_coef > 0:
            columns.add("ref_logprobs")
        if self.entropy_coef != 0:
            columns.add("entropy")
        return frozenset(columns)

    def kl_cost(self, batch: Batch) -> Tensor:
        """(B, T) what each token pays in the reward: kl_coef * KL at the old policy, or 0."""
        if self.kl_coef == 0 or self.kl_place == "loss":
            return torch.zeros_like(batch.old_logprobs)
        return self.kl_coef * ops.kl(batch.old_logprobs, required(batch.ref_logprobs), self.kl_estimator) * batch.mask

    def assign(self, batch: Batch, advantages: Tensor, returns: Tensor | None = None) -> Targets:
        """Targets from (B,) or (B, T) advantages, with the loss mask and the sampler's correction."""
        if advantages.dim() == 1:
            advantages = advantages[:, None] * batch.mask
        weight = None
        if self.correction != "none":
            weight = ops.correction_weight(
                batch.old_logprobs,
                batch.rollout_logprobs,
                batch.mask,
                self.correction,
                self.correction_mode,
                self.correction_cap,
                self.correction_floor,
            )
        return Targets(
            advantages=advantages.to(batch.old_logprobs.dtype),
            returns=returns,
            loss_mask=self.counted(batch),
            token_weight=weight,
        )

    def counted(self, batch: Batch) -> Tensor:
        """(B, T) bool: the tokens that count in the loss."""
        return batch.mask & ~batch.truncated[:, None] if self.mask_truncated else batch.mask

    def ratio(self, logprobs: Tensor, batch: Batch) -> Tensor:
        """(B, T) pi / pi_old."""
        return ops.importance_ratio(logprobs, batch.old_logprobs, batch.mask, "token")

    def pg_loss(self, logprobs: Tensor, ratio: Tensor, advantages: Tensor) -> tuple[Tensor, dict[str, Tensor]]:
        """(B, T) the negated surrogate, and metrics of it."""
        raise NotImplementedError  # pragma: abstract

    def policy_loss(self, policy: PolicyOutput, batch: Batch, targets: Targets) -> TokenLoss:
        logprobs, old = policy.logprobs, batch.old_logprobs
        ratio = self.ratio(logprobs, batch)
        pg_loss, metrics = self.pg_loss(logprobs, ratio, targets.advantages)
        if targets.token_weight is not None:
            pg_loss = pg_loss * targets.token_weight
            metrics["dropped_frac"] = (targets.token_weight == 0).to(ratio.dtype)
        loss = pg_loss
        if self.kl_in_loss:
            penalty = ops.kl(logprobs, required(batch.ref_logprobs), self.kl_estimator)
            if self.kl_times_ratio:
                penalty = penalty * ops.importance_ratio(logprobs, old, batch.mask, "token")
            loss = loss + self.kl_coef * penalty
        if self.entropy_coef != 0:
            loss = loss - self.entropy_coef * policy.entropy
        # tokens come from the old policy, so k3 estimates KL(old || policy) without bias
        metrics |= {"pg_loss": pg_loss, "ratio": ratio, "kl": ops.kl(old, logprobs, "k3"), "entropy": policy.entropy}
        if batch.ref_logprobs is not None:
            metrics["kl_ref"] = ops.kl(logprobs, batch.ref_logprobs, "k3")
        return TokenLoss(loss=loss, metrics={name: value.detach() for name, value in metrics.items()})

    def adapt(self, metrics: Mapping[str, float]) -> Self:
        if self.entropy_target is None or "entropy" not in metrics:  # a step that trains the critic alone
            return self
        step = self.entropy_coef_step if metrics["entropy"] < self.entropy_target else -self.entropy_coef_step
        return replace(self, entropy_coef=max(self.entropy_coef + step, 0.0))


@dataclass(frozen=True, kw_only=True)
class ClippedPolicyGradient(PolicyGradient):
    """The clipped surrogate of PPO (arXiv:1707.06347), which most methods keep."""

    clip_ratio: float = 0.2
    """Epsilon: the ratio is clipped at 1 - clip_ratio and, unless clip_ratio_high is set, at 1 + clip_ratio."""
    clip_ratio_high: float | None = None
    """Upper epsilon where it differs (DAPO's clip-higher)."""
    dual_clip: float | None = None
    """Bound, above 1, on the ratio where the advantage is negative (arXiv:1912.09729); off by default."""
    ratio_level: ops.Level = "token"
    """The ratio of each token, or GSPO's: exp of the completion's mean log-ratio (arXiv:2507.18071)."""

    def contradictions(self) -> Iterator[str]:
        yield from super().contradictions()
        if self.clip_ratio <= 0:
            yield f"clip_ratio must be positive (from 1 on there is no lower clip), got {self.clip_ratio}"
        if self.clip_high <= 0:
            yield f"clip_ratio_high must be positive, got {self.clip_high}"
        if self.dual_clip is not None and self.dual_clip <= 1:
            yield f"dual_clip must lie above 1, got {self.dual_clip}"

    @property
    def clip_high(self) -> float:
        return self.clip_ratio if self.clip_ratio_high is None else self.clip_ratio_high

    def ratio(self, logprobs: Tensor, batch: Batch) -> Tensor:
        return ops.importance_ratio(logprobs, batch.old_logprobs, batch.mask, self.ratio_level)

    def pg_loss(self, logprobs: Tensor, ratio: Tensor, advantages: Tensor) -> tuple[Tensor, dict[str, Tensor]]:
        surrogate = ops.clipped_surrogate(ratio, advantages, self.clip_ratio, self.clip_high)
        metrics = {"clip_frac": ops.is_clipped(ratio, advantages, self.clip_ratio, self.clip_high)}
        if self.dual_clip is not None:
            surrogate = ops.dual_clip(surrogate, advantages, self.dual_clip)
            metrics["dual_clip_frac"] = ((ratio > self.dual_clip) & (advantages < 0)).to(ratio.dtype)
        return -surrogate, metrics
