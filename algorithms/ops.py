"""The formulas that the algorithms share. Shapes as in `algorithms.core`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import torch

from algorithms.core import Aggregation

if TYPE_CHECKING:
    from torch import Tensor

KLEstimator = Literal["k1", "k2", "k3"]
Spread = Literal["sample", "population", "batch", "none"]
Level = Literal["token", "sequence"]
CorrectionLevel = Literal["token", "sequence", "geometric"]


def whiten(x: Tensor, mask: Tensor) -> Tensor:
    """Zero mean and unit variance over the tokens that count, zero elsewhere: (B, T), (B, T) -> (B, T).

    (x - mean) * rsqrt(var + 1e-8), var with n - 1; a single token gives 0.
    """
    counted = x[mask].double()
    mean = counted.sum() / max(len(counted), 1)
    var = ((counted - mean) ** 2).sum() / max(len(counted) - 1, 1)
    return ((x - mean) * torch.rsqrt(var + 1e-8) * mask).to(x.dtype)


def token_spread(x: Tensor, mask: Tensor) -> Tensor:
    """Standard deviation with n - 1 over the tokens that count, in float64: (B, T), (B, T) -> ()."""
    counted = x[mask].double()
    deviations = (counted - counted.sum() / max(len(counted), 1)) ** 2
    return (deviations.sum() / max(len(counted) - 1, 1)).sqrt()


def group_mean(x: Tensor, group: Tensor) -> Tensor:
    """Mean over each row's group, broadcast back to its rows, in float64: (B,), (B,) -> (B,).

    In float64 the mean of equal float32 rewards is that reward exactly, so that a group
    without signal gets advantages of exactly 0 however small the divisor.
    """
    _, index, size = group.unique(return_inverse=True, return_counts=True)
    total = torch.zeros(len(size), dtype=torch.float64, device=x.device).index_add(0, index, x.double())
    return (total / size)[index]


def group_max(x: Tensor, group: Tensor) -> Tensor:
    """Largest value of each row's group: (B,), (B,) -> (B,)."""
    _, index = group.unique(return_inverse=True)
    return x.new_zeros(int(index.max()) + 1).scatter_reduce(0, index, x, "amax", include_self=False)[index]


def group_size(group: Tensor) -> Tensor:
    """Rows in each row's group: (B,) -> (B,) long."""
    _, index, size = group.unique(return_inverse=True, return_counts=True)
    return size[index]


def spread(x: Tensor, group: Tensor, kind: Literal["sample", "population", "batch"]) -> Tensor:
    """Standard deviation that scales each row's advantage, in float64: (B,), (B,) -> (B,).

    sample: of the row's group with n - 1; population: with n; batch: of all rows with n - 1.
    One row alone has no spread: 0.
    """
    if kind == "batch":
        group = torch.zeros_like(group)
    variance = group_mean((x - group_mean(x, group)) ** 2, group)
    if kind != "population":
        size = group_size(group)
        variance = variance * size / (size - 1).clamp(min=1)
    return variance.sqrt()


def at_last_token(x: Tensor, mask: Tensor) -> Tensor:
    """Place a per-completion score on its last generated token: (B,), (B, T) -> (B, T)."""
    last = (mask.sum(dim=1) - 1).clamp(min=0)
    return x.new_zeros(mask.shape).scatter(1, last[:, None], x[:, None]) * mask


def gae(rewards: Tensor, values: Tensor, mask: Tensor, gamma: float, lam: float | Tensor) -> Tensor:
    """Generalized advantage estimation (arXiv:1506.02438), V = 0 past the last token: (B, T).

    delta_t = r_t + gamma V_{t+1} - V_t
    A_t     = delta_t + gamma lam A_{t+1}

    `lam` is one number, or (B,) for one a completion.
    """
    rewards, values = rewards * mask, values * mask
    advantages = torch.zeros_like(values)
    next_value = next_advantage = torch.zeros_like(values[:, 0])
    for t in reversed(range(rewards.shape[1])):
        delta = rewards[:, t] + gamma * next_value - values[:, t]
        next_advantage = delta + gamma * lam * next_advantage
        next_value = values[:, t]
        advantages[:, t] = next_advantage
    return advantages * mask


def kl(logprobs: Tensor, ref_logprobs: Tensor, estimator: KLEstimator) -> Tensor:
    """KL(pi || ref) per token, tokens drawn from pi (joschu.net/blog/kl-approx).

    k1  log pi - log ref                   unbiased, either sign
    k2  (log pi - log ref)^2 / 2           biased, never negative
    k3  ref/pi - log(ref/pi) - 1           unbiased, never negative (by expm1: small gaps keep their digits)
    """
    log_ratio = logprobs - ref_logprobs
    if estimator == "k1":
        return log_ratio
    if estimator == "k2":
        return log_ratio**2 / 2
    return torch.expm1(-log_ratio) + log_ratio


def importance_ratio(logprobs: Tensor, old_logprobs: Tensor, mask: Tensor, level: Level) -> Tensor:
    """Ratio pi / pi_old: (B, T); at sequence level exp of the row's mean log-ratio (arXiv:2507.18071 eq. 7)."""
    log_ratio = (logprobs - old_logprobs) * mask
    if level == "sequence":
        mean = log_ratio.sum(dim=1, keepdim=True) / mask.sum(dim=1, keepdim=True).clamp(min=1)
        log_ratio = mean.expand_as(log_ratio)
    return log_ratio.exp()


def clipped_surrogate(ratio: Tensor, advantages: Tensor, low: float, high: float) -> Tensor:
    """min(r A, clip(r, 1 - low, 1 + high) A), arXiv:1707.06347 eq. 7."""
    return torch.minimum(ratio * advantages, ratio.clamp(1 - low, 1 + high) * advantages)


def is_clipped(ratio: Tensor, advantages: Tensor, low: float, high: float) -> Tensor:
    """1 where the clip removes the gradient: above for a positive advantage, below for a negative one."""
    above = (ratio > 1 + high) & (advantages > 0)
    below = (ratio < 1 - low) & (advantages < 0)
    return (above | below).to(ratio.dtype)


def dual_clip(surrogate: Tensor, advantages: Tensor, bound: float) -> Tensor:
    """Bounds a negative advantage's surrogate from below at bound * A (arXiv:1912.09729 eq. 5)."""
    return torch.where(advantages < 0, torch.maximum(surrogate, bound * advantages), surrogate)


def value_loss(values: Tensor, old_values: Tensor, returns: Tensor, clip: float | None) -> Tensor:
    """0.5 max((V - R)^2, (V_old + clip(V - V_old, -c, c) - R)^2): (B, T)."""
    error = (values - returns) ** 2
    if clip is not None:
        near = old_values + (values - old_values).clamp(-clip, clip)
        error = torch.maximum(error, (near - returns) ** 2)
    return 0.5 * error


def correction_weight(
    old_logprobs: Tensor,
    rollout_logprobs: Tensor,
    mask: Tensor,
    level: CorrectionLevel,
    mode: Literal["truncate", "mask"],
    cap: float,
    floor: float = 0.0,
) -> Tensor:
    """Importance weight pi_old / pi_sampler where trainer and sampler differ, a constant: (B, T).

    The weight is a token's, or the product over the completion. Above `cap` it becomes `cap` (truncate) or 0 (mask),
    below `floor` likewise `floor` or 0. At level geometric the weight is a token's, and 0 on a whole completion whose
    geometric mean of weights is out of bounds.
    """
    log_ratio = (old_logprobs - rollout_logprobs) * mask
    if level == "sequence":
        log_ratio = log_ratio.sum(dim=1, keepdim=True).expand_as(log_ratio)
    judged = weight = log_ratio.exp()
    if level == "geometric":
        judged = (log_ratio.sum(dim=1, keepdim=True) / mask.sum(dim=1, keepdim=True).clamp(min=1)).exp()
    if mode == "truncate":
        weight = weight.clamp(min=floor, max=cap)
    else:
        weight = weight.masked_fill((judged > cap) | (judged < floor), 0.0)
    return (weight * mask).detach()


def overlong_penalty(lengths: Tensor, max_new_tokens: int, buffer: float) -> Tensor:
    """0 up to L - C tokens, then linear down to -1 at L (arXiv:2503.14476 eq. 13): (B,) -> (B,)."""
    return -((lengths - (max_new_tokens - buffer)) / buffer).clamp(0, 1)


def loss_weights(mask: Tensor, aggregation: Aggregation, budget: int) -> Tensor:
    """Per-token weights of one optimizer batch; the loss is their sum product with the token losses: (B, T).

    With |o_i| the counted tokens of row i, N the rows that have one, L the generation budget:

    token-mean     1 / sum_i |o_i|
    sequence-mean  1 / (N |o_i|)
    sequence-sum   1 / N
    constant       1 / (B L), whether or not every row has a counted token
    """
    lengths = mask.sum(dim=1, keepdim=True)  # (B, 1)
    if aggregation == "token-mean":
        return mask / lengths.sum().clamp(min=1)
    rows = (lengths > 0).sum().clamp(min=1)
    if aggregation == "sequence-mean":
        return mask / (rows * lengths.clamp(min=1))
    if aggregation == "sequence-sum":
        return mask / rows
    return mask / (len(mask) * budget)
