"""Rejection-sampling fine-tuning: supervised training on one's own good completions, anew each step.

RAFT (arXiv:2304.06767) keeps the best completion of each prompt; ReST-EM (arXiv:2312.06585), STaR and what is called
expert iteration keep every right one. The bar that reinforcement learning has to clear at equal cost:

    L = -log pi,  over the tokens of the completions that are kept, and over nothing else

No wrong completion teaches anything; there is no baseline and no ratio. A prompt with more right completions weighs
more.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

import torch

from algorithms import ops
from algorithms.core import Aggregation, Batch, Targets
from algorithms.policy_gradient import PolicyGradient

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True, kw_only=True)
class RAFT(PolicyGradient):
    """Rejection-sampling fine-tuning: maximum likelihood on right completions."""

    group_size: int = 8
    aggregation: Aggregation = "sequence-mean"
    keep: Literal["right", "best"] = "right"
    """What is trained on: every right completion, or of each group the one with the highest reward, the first of
    equals."""

    def contradictions(self) -> Iterator[str]:
        yield from super().contradictions()
        if self.kl_coef > 0 and self.kl_place == "reward":
            yield "kl_place reward does nothing here: no advantage is formed; set kl_place loss"

    def targets(self, batch: Batch) -> Targets:
        kept = batch.correct if self.keep == "right" else first_best(batch)
        targets = self.assign(batch, torch.ones_like(batch.rewards))
        return replace(targets, loss_mask=self.counted(batch) & kept[:, None])

    def pg_loss(self, logprobs: Tensor, ratio: Tensor, advantages: Tensor) -> tuple[Tensor, dict[str, Tensor]]:
        return -logprobs * advantages, {}


def first_best(batch: Batch) -> Tensor:
    """(B,) bool: the first row of each group that has its group's highest reward."""
    best = ops.group_max(batch.rewards, batch.group) == batch.rewards
    rows = torch.arange(len(best), device=best.device)
    return best & (ops.group_max(torch.where(best, -rows, -len(best)), batch.group) == -rows)
