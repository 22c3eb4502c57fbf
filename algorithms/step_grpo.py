"""GRPO by step: each paid step of a completion against the same step of its siblings, without a critic.

For a task that pays as a completion goes (`Score.earned`). With r_ik what completion i earned in its k-th step:

    A_it = r_ik - mean of r_jk over the siblings j that have a k-th step,   k the step of token t
    L    = -min(ratio A, clip(ratio) A),  token-mean;  A divided by its spread over the batch

Right where steps are independent: what a step does to later ones is not credited. `reach` "rest" credits it, at the
variance of all that follows. GRPO's process supervision (arXiv:2402.03300, 4.1.3) is of the second kind, but takes one
mean and one spread over the steps of a group. A completion that is paid at its end is one step: Dr. GRPO's advantage.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar, Literal

from algorithms import credit, ops
from algorithms.core import Batch, Targets
from algorithms.policy_gradient import ClippedPolicyGradient


@dataclass(frozen=True, kw_only=True)
class StepGRPO(ClippedPolicyGradient):
    """A step's reward less its group's mean at that step: credit by position, and no critic."""

    reads_token_rewards: ClassVar[bool] = True

    group_size: int = 8
    reach: Literal["step", "rest"] = "step"
    """What a token is credited with: its own step's reward, or all rewards from its step on."""
    scale: Literal["batch", "none"] = "batch"
    """Divisor of the advantages: their spread over the batch's counted tokens, or none; their mean stays."""

    def contradictions(self) -> Iterator[str]:
        yield from super().contradictions()
        if self.group_size < 2:
            yield f"group_size must be at least 2: the group's mean is the baseline, got {self.group_size}"

    def targets(self, batch: Batch) -> Targets:
        steps = credit.step_index(batch.steps, batch.mask)
        rewards = credit.paid(batch.rewards, batch.token_rewards, batch.mask) - self.kl_cost(batch)
        earned = credit.by_step(rewards, steps, batch.mask)
        taken = credit.by_step(batch.mask.to(rewards.dtype), steps, batch.mask) > 0
        if self.reach == "rest":
            earned = earned.flip(1).cumsum(1).flip(1)
        over_mean = credit.less_group_mean_by_column(earned, taken, batch.group)
        advantages = over_mean.gather(1, steps) * batch.mask
        if self.scale == "batch":
            advantages = advantages / (ops.token_spread(advantages, self.counted(batch)) + 1e-8)
        return self.assign(batch, advantages)
