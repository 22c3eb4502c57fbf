"""Rewards at positions, and what the steps of a completion get of them. Shapes as in `algorithms.core`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from algorithms import ops

if TYPE_CHECKING:
    from torch import Tensor


def less_group_mean_by_column(x: Tensor, taken: Tensor, group: Tensor) -> Tensor:
    """Each column less its group's mean over the rows that have it: (B, K), (B, K) bool, (B,) -> (B, K).

    In float64, as `group_mean`; 0 where a row has no such column.
    """
    _, index = group.unique(return_inverse=True)
    cell = index[:, None] * x.shape[1] + torch.arange(x.shape[1], device=x.device)
    centred = torch.zeros(x.shape, dtype=torch.float64, device=x.device)
    centred[taken] = x[taken] - ops.group_mean(x[taken], cell[taken])
    return centred


def paid(rewards: Tensor, token_rewards: Tensor | None, mask: Tensor) -> Tensor:
    """Each token's share of its completion's reward: (B,), (B, T) or None, (B, T) -> (B, T).

    What `token_rewards` leave of `rewards` is paid at the last token: all of it without them, and what shaping added.
    """
    if token_rewards is None:
        return ops.at_last_token(rewards, mask)
    return token_rewards + ops.at_last_token(rewards - token_rewards.sum(dim=1), mask)


def by_step(x: Tensor, steps: Tensor, mask: Tensor) -> Tensor:
    """Sums over the tokens of each step: (B, T), (B, T) long, (B, T) -> (B, K)."""
    sums = x.new_zeros(len(x), int(steps.max()) + 1 if steps.numel() else 1)
    return sums.scatter_add(1, steps, x * mask)


def first_of_step(steps: Tensor, mask: Tensor) -> Tensor:
    """(B, T) bool: the first token of each step."""
    before = torch.nn.functional.pad(steps, (1, 0), value=-1)[:, :-1]
    return mask & (before != steps)


def step_index(steps: Tensor | None, mask: Tensor) -> Tensor:
    """(B, T) long: the step of each token; without steps a completion is one step."""
    return torch.zeros_like(mask, dtype=torch.long) if steps is None else steps


def gae_by_step(
    rewards: Tensor, values: Tensor, mask: Tensor, gamma: float, lam: float | Tensor, steps: Tensor
) -> Tensor:
    """`gae` over steps of several tokens, what a step got on each of its tokens: (B, T).

    A step's reward is the sum of its tokens', its value that of its first token. At one token a step it is `gae`.
    """
    earned, start = by_step(rewards, steps, mask), by_step(values, steps, first_of_step(steps, mask))
    taken = by_step(mask.to(values.dtype), steps, mask) > 0
    return ops.gae(earned, start, taken, gamma, lam).gather(1, steps) * mask


def value_by_step(values: Tensor, mask: Tensor, steps: Tensor) -> Tensor:
    """The value of each step's first token on all of its tokens: (B, T)."""
    return by_step(values, steps, first_of_step(steps, mask)).gather(1, steps) * mask
