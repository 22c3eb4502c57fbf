"""Group Sequence Policy Optimization: the importance ratio of the whole completion.

Zheng et al. 2025 (arXiv:2507.18071). A reward belongs to a completion, so its ratio does too:

    s_i = exp(mean over tokens of log pi - log pi_old)
    L   = -min(s A, clip(s) A),  averaged over completions

A mean log-ratio moves little, hence the narrow clip.
"""

from dataclasses import dataclass

from algorithms import ops
from algorithms.grpo import GRPO


@dataclass(frozen=True, kw_only=True)
class GSPO(GRPO):
    """GRPO with one ratio a completion."""

    kl_coef: float = 0.0
    clip_ratio: float = 3e-4
    clip_ratio_high: float | None = 4e-4
    ratio_level: ops.Level = "sequence"
