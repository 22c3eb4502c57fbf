"""GRPO done right: no division by the spread, no division by the completion's own length.

Liu et al. 2025 (arXiv:2503.20783). Both divisions bias GRPO: the first towards prompts that
are nearly all right or nearly all wrong, the second towards long wrong completions.

    A_i = r_i - mean of the group
    L   = sum of -min(ratio A, clip(ratio) A) / (N * generation budget)

The divisor is the budget, never the length of the longest completion at hand.
"""

from dataclasses import dataclass
from typing import ClassVar

from algorithms import ops
from algorithms.core import Aggregation
from algorithms.grpo import GRPO


@dataclass(frozen=True, kw_only=True)
class DrGRPO(GRPO):
    """GRPO without the spread's and the length's divisions."""

    formula_version: ClassVar[int] = 2

    aggregation: Aggregation = "constant"
    spread: ops.Spread = "none"
    kl_coef: float = 0.0
