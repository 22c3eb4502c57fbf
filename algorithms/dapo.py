"""Decoupled Clip and Dynamic sAmpling Policy Optimization.

Yu et al. 2025 (arXiv:2503.14476), four changes to GRPO, no KL:

    clip-higher           the ratio may rise to 1 + 0.28, so that rare tokens can grow
    dynamic sampling      only groups with both right and wrong completions are trained on;
                          the others are replaced by generating more
    token-mean            every token of the batch weighs the same
    overlong punishment   0 up to L - C tokens, then linear down to -1 at the budget L
"""

from collections.abc import Iterator
from dataclasses import dataclass

from torch import Tensor

from algorithms import ops
from algorithms.core import Aggregation, Scored
from algorithms.grpo import GRPO


@dataclass(frozen=True, kw_only=True)
class DAPO(GRPO):
    """GRPO with clip-higher, dynamic sampling, token-mean and a soft overlong punishment."""

    aggregation: Aggregation = "token-mean"
    kl_coef: float = 0.0
    clip_ratio_high: float | None = 0.28
    dynamic_sampling: bool = True
    """Train only on groups whose completions are neither all correct nor all wrong, by the binary verdict."""
    max_sampling_rounds: int = 10
    """Rounds of generation allowed to fill the batch with such groups."""
    overlong_frac: float = 0.2
    """C / L: the last part of the generation budget in which length is punished; 0 turns the punishment off."""

    def contradictions(self) -> Iterator[str]:
        yield from super().contradictions()
        if self.max_sampling_rounds < 1:
            yield f"max_sampling_rounds must be at least 1, got {self.max_sampling_rounds}"
        if not 0 <= self.overlong_frac <= 1:
            yield f"overlong_frac must lie in [0, 1], got {self.overlong_frac}"

    @property
    def max_rounds(self) -> int:
        return self.max_sampling_rounds if self.dynamic_sampling else 1

    def shape_rewards(self, scored: Scored) -> Tensor:
        if self.overlong_frac == 0:
            return scored.rewards
        buffer = self.overlong_frac * scored.max_new_tokens
        return scored.rewards + ops.overlong_penalty(scored.lengths, scored.max_new_tokens, buffer)

    def keep_group(self, scored: Scored) -> Tensor:
        if not self.dynamic_sampling:
            return super().keep_group(scored)
        # on verdicts, not rewards: shaped rewards differ within a group that is all wrong
        solved = ops.group_mean(scored.correct, scored.group)
        return (solved > 0) & (solved < 1)
