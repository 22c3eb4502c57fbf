"""Proximal Policy Optimization with a learned critic.

Schulman et al. 2017 (arXiv:1707.06347); advantages by GAE (arXiv:1506.02438), from a
reward at the last token, or where a task pays it, and a KL cost at each token (arXiv:2203.02155):

    A   = whiten(GAE(gamma, lambda)),  R = GAE(gamma, lambda) + V_old
    L   = -min(ratio A, clip(ratio) A),  and for the critic 0.5 (V - R)^2 with a clip
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from algorithms.actor_critic import ActorCritic
from algorithms.policy_gradient import ClippedPolicyGradient

if TYPE_CHECKING:
    pass


@dataclass(frozen=True, kw_only=True)
class PPO(ActorCritic, ClippedPolicyGradient):
    """Proximal Policy Optimization: a critic, GAE, the clipped ratio."""
