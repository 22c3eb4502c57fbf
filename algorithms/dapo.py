"""Decoupled Clip and Dynamic sAmpling Policy Optimization.

Yu et al. 2025 (arXiv:2503.14476), four changes to GRPO, no KL:

    clip-higher           the ratio may rise to 1 + 0.28, so that rare tokens can grow
    dynamic sampling      only groups with both right and wrong completions are trained on;
                          the others are replaced by generating as many as are missing
    token-mean            every token of the batch weighs the same
    overlong punishment   0 up to L - C tokens, then linear down at the budget L
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Literal

from algorithms import ops
from algorithms.core import Aggregation, Scored
from algorithms.grpo import GRPO

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True, kw_only=True)
class DAPO(GRPO):
    """GRPO with clip-higher, dynamic sampling, token-mean and a soft overlong punishment."""

    formula_version: ClassVar[int] = 2

    aggregation: Aggregation = "token-mean"
    kl_coef: float = 0.0
    clip_ratio_high: float | None = 0.28
    dynamic_sampling: bool = True
    """Train only on groups whose completions are neither all correct nor all wrong, by the binary verdict."""
    max_sampling_rounds: int = 10
    """Most rounds of generation by which a step fills its batch with groups that are kept."""
    refill: Literal["missing", "whole"] = "missing"
    """Prompts of a further round: as many as are missing at the keep rate so far, or a whole batch again as in the
    paper's code, whose surplus is thrown away."""
    overlong_frac: float = 0.2
    """C / L: the last part of the generation budget in which length is punished; 0 turns the punishment off."""
    overlong_weight: float = 0.5
    """Reward taken from a completion at L. The paper takes 1 where rewards are -1 and 1; ours are 0 and 1."""

    def contradictions(self) -> Iterator[str]:
        yield from super().contradictions()
        if self.max_sampling_rounds < 1:
            yield f"max_sampling_rounds must be at least 1, got {self.max_sampling_rounds}"
        if not 0 <= self.overlong_frac <= 1:
            yield f"overlong_frac must lie in [0, 1], got {self.overlong_frac}"

    @property
    def max_rounds(self) -> int:
        return self.max_sampling_rounds if self.dynamic_sampling else 1

    def prompts_to_ask(self, whole: int, missing: int, kept_frac: float) -> int:
        return min(whole, math.ceil(missing / kept_frac)) if self.refill == "missing" and kept_frac else whole

    def shape_rewards(self, scored: Scored) -> Tensor:
        if self.overlong_frac == 0:
            return scored.rewards
        buffer = self.overlong_frac * scored.max_new_tokens
        penalty = ops.overlong_penalty(scored.lengths, scored.max_new_tokens, buffer)
        return scored.rewards + self.overlong_weight * penalty

    def keep_group(self, scored: Scored) -> Tensor:
        if not self.dynamic_sampling:
            return super().keep_group(scored)
        # on verdicts, not rewards: shaped rewards differ within a group that is all wrong
        solved = ops.group_mean(scored.correct, scored.group)
        return (solved > 0) & (solved < 1)
