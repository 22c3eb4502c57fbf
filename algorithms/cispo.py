"""Clipped Importance Sampling Policy Optimization: cap the weight, keep every token's gradient.

MiniMax 2025 (arXiv:2506.13585). Where PPO's clip silences a token, here only its weight is bounded:

    L = -sg(min(ratio, cap)) A log pi,  token-mean

with sg the stop-gradient. The paper bounds the ratio from above alone and gives no number.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from algorithms.core import Aggregation
from algorithms.grpo import GroupRelative

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True, kw_only=True)
class CISPO(GroupRelative):
    """Group advantages on REINFORCE, its importance weight capped and constant."""

    aggregation: Aggregation = "token-mean"
    ratio_cap: float = 5.0
    """Largest importance weight (arXiv:2510.13786 finds 4, 5 and 8 alike)."""

    def contradictions(self) -> Iterator[str]:
        yield from super().contradictions()
        if self.ratio_cap < 1:
            yield f"ratio_cap must be at least 1, the ratio of an unchanged policy, got {self.ratio_cap}"

    def pg_loss(self, logprobs: Tensor, ratio: Tensor, advantages: Tensor) -> tuple[Tensor, dict[str, Tensor]]:
        weight = ratio.detach().clamp(max=self.ratio_cap)
        capped = (ratio > self.ratio_cap) & (advantages != 0)
        return -weight * advantages * logprobs, {"clip_frac": capped.to(ratio.dtype)}
