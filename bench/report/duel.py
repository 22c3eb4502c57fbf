"""A PPO arm and a GRPO arm set side by side."""

from dataclasses import dataclass

import numpy as np

from bench.contrast import Contrast
from bench.ground.words import MODELS
from bench.report.comparison import Arm, Comparison, difference_by_seed
from bench.report.outcomes import by_seed
from bench.report.records import Records
from bench.stats import MIN_T, Estimate


@dataclass(frozen=True, kw_only=True)
class Duel:
    """A PPO arm and a GRPO arm of one comparison."""

    comparison: Comparison
    records: Records
    ppo: Arm
    grpo: Arm

    def difference(self, column: str) -> Contrast | None:
        """GRPO minus PPO, over seeds."""
        a, b = self.grpo.values(column), self.ppo.values(column)
        return by_seed(self.grpo, self.ppo, a, b) if a and b else None

    def ratio(self, column: str) -> Estimate | None:
        """GRPO over PPO, by the mean of the logarithms."""
        logs = [{s: float(np.log(v)) for s, v in arm.values(column).items() if v > 0} for arm in (self.grpo, self.ppo)]
        d = difference_by_seed(*logs)
        if d is None:
            return None
        exact = min(d.n) >= MIN_T and d.low is None  # counts are equal by rule, not by chance
        ends = (d.mean, d.mean) if exact else (d.low, d.high)
        low, high = (None if end is None else float(np.exp(end)) for end in ends)
        return Estimate(mean=float(np.exp(d.mean)), low=low, high=high, n=min(d.n))


def models_held(arm: Arm) -> list[str]:
    """Models that the arm kept in memory."""
    return [role for role in MODELS if any(arm.values(f"max:memory/{role}_gib").values())]
