"""SAO: one rollout a prompt, a critic, and a filter on how far a token is from its sampler.

arXiv:2607.07508, used for GLM-5.2. There is no old policy: the sampler stands behind the ratio.

    r   = pi / pi_sampler
    L   = -sg(f(r)) A log pi,  f(r) = r where 1 - filter_low <= r <= 1 + filter_high, else 0;  token-mean
    A   = GAE with lambda 1 - 1 / (alpha * length), and lambda 1 for the critic's returns

with sg the stop-gradient. A token that is dropped stays in the mean's denominator. The paper's two critic updates for
each of the policy's are `--critic.num-epochs 2` here; its frozen attention and offline pretraining of the critic are
not built.

No implementation is released: bounds and alpha are by several accounts of the paper.
Whether it whitens advantages none of them says; here it does, as `ppo`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from algorithms import ops
from algorithms.actor_critic import LengthAdaptive
from algorithms.core import Batch

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True, kw_only=True)
class SAO(LengthAdaptive):
    """Single rollouts with a critic, decoupled and length-adaptive lambda, a token filter against the sampler."""

    gae_length_alpha: float | None = 1.5
    """Alpha of the policy's length-adaptive lambda, 1 - 1 / (alpha * length); without it `gae_lambda` holds."""
    filter_low: float = 0.3
    """How far below 1 the ratio to the sampler may lie before a token is dropped; 0.8 for programs."""
    filter_high: float = 5.0
    """How far above 1 the ratio to the sampler may lie before a token is dropped; 3 for programs."""

    def contradictions(self) -> Iterator[str]:
        yield from super().contradictions()
        for name in ("filter_low", "filter_high"):
            if getattr(self, name) <= 0:
                yield f"{name} must be positive, got {getattr(self, name)}"
        if self.correction != "none":
            yield f"correction {self.correction} would weigh by the sampler twice: the filter's ratio is to it already"

    def ratio(self, logprobs: Tensor, batch: Batch) -> Tensor:
        return ops.importance_ratio(logprobs, batch.rollout_logprobs, batch.mask, "token")

    def pg_loss(self, logprobs: Tensor, ratio: Tensor, advantages: Tensor) -> tuple[Tensor, dict[str, Tensor]]:
        r = ratio.detach()
        kept = (r >= 1 - self.filter_low) & (r <= 1 + self.filter_high)
        return -(r * kept) * advantages * logprobs, {"dropped_frac": (~kept).to(r.dtype)}
