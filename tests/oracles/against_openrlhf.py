# ruff: noqa: ANN401 - the peers are untyped
"""OpenRLHF 0.11.2. It whitens with n where we take n - 1, so advantages are compared before whitening."""

from functools import cache, partial
from types import SimpleNamespace
from typing import Any

import torch
from torch import Tensor

from algorithms import ops
from algorithms.core import required
from algorithms.dapo import DAPO
from algorithms.grpo import GRPO
from algorithms.gspo import GSPO
from algorithms.ppo import PPO
from algorithms.reinforce_pp import ReinforcePP, ReinforcePPBaseline
from algorithms.rloo import RLOO
from tests.algorithms.support import BUDGET
from tests.oracles import peers
from tests.oracles.draws import GROUP_SIZE, Draw, compare, draw, largest


@cache
def loss_module() -> Any:
    return peers.openrlhf("models.loss")


@cache
def utils() -> Any:
    return peers.openrlhf("models.utils")


@cache
def maker() -> Any:
    return peers.openrlhf("trainer.ppo_utils.experience_maker").RemoteExperienceMaker


def advantages_of(d: Draw, estimator: str, *, normalised: bool, kl_coef: float = 0.0) -> Tensor:
    """(B, T) by its own pipeline: group baseline, KL in the reward, returns, normalisation over the batch."""
    maker()
    batch = d.batch
    experience = SimpleNamespace(
        index=list(range(len(batch.rewards))),
        rewards=batch.rewards,
        kl=(batch.old_logprobs - required(batch.ref_logprobs)) * d.mask,
        action_mask=batch.mask,
        values=required(batch.values),
        info={},
    )
    advantage = SimpleNamespace(estimator=estimator, gamma=1.0, lambd=1.0, no_std_norm=not normalised)
    args = SimpleNamespace(
        algo=SimpleNamespace(advantage=advantage),
        rollout=SimpleNamespace(n_samples_per_prompt=GROUP_SIZE),
        reward=SimpleNamespace(clip_range=None),
    )
    this = SimpleNamespace(
        strategy=SimpleNamespace(args=args),
        kl_ctl=SimpleNamespace(value=kl_coef),
        advantage_estimator=estimator,
        get_advantages_and_returns=lambda *a: maker().get_advantages_and_returns(None, *a),
        get_cumulative_returns=lambda *a: maker().get_cumulative_returns(None, *a),
    )
    maker().compute_advantages_and_returns(this, [experience])
    return experience.advantages * d.mask


def policy_loss(d: Draw, advantages: Tensor, **settings: Any) -> Tensor:
    return loss_module().PolicyLoss(**settings)(d.logprobs, d.batch.old_logprobs, advantages, d.mask)[0]


def aggregate(d: Draw, penalty: Tensor, *, token_level: bool) -> Tensor:
    return loss_module().aggregate_loss(penalty, d.mask, token_level_loss=token_level)


def centred(advantages: Tensor, d: Draw) -> Tensor:
    return (advantages - advantages[d.batch.mask].mean()) * d.mask


def ppo(seed: int) -> float:
    d = draw(seed)
    batch, values = d.batch, required(d.batch.values)
    algorithm = PPO(kl_coef=0.1, gamma=0.99, gae_lambda=0.95, whiten="none", dual_clip=3.0)
    kl = utils().compute_approx_kl(batch.old_logprobs, batch.ref_logprobs, kl_estimator="k1") * d.mask
    rewards = utils().compute_reward(batch.rewards, 0.1, kl, action_mask=batch.mask)
    advantages, returns = maker().get_advantages_and_returns(None, values, rewards, batch.mask, 0.99, 0.95)
    targets = algorithm.targets(batch)
    value_loss = loss_module().ValueLoss(0.2)(d.values, values, required(targets.returns), d.mask)
    our_value_loss = algorithm.value_loss(d.values, batch, targets).loss[batch.mask].mean()
    return max(
        largest(
            (targets.advantages, advantages * d.mask),
            (required(targets.returns) * d.mask, returns * d.mask),
            (our_value_loss.detach(), value_loss.detach()),
        ),
        compare(algorithm, policy_loss(d, targets.advantages, dual_clip=3.0), d),
    )


def grpo(seed: int) -> float:
    d = draw(seed)
    algorithm = GRPO(eps=1e-9)
    advantages = advantages_of(d, "group_norm", normalised=False)
    k3 = utils().compute_approx_kl(d.logprobs, d.batch.ref_logprobs, kl_estimator="k3")
    loss = policy_loss(d, advantages, token_level_loss=False) + 0.04 * aggregate(d, k3, token_level=False)
    return max(largest((algorithm.targets(d.batch).advantages, advantages)), compare(algorithm, loss, d))


def dapo(seed: int) -> float:
    d = draw(seed)
    advantages = advantages_of(d, "group_norm", normalised=False)
    penalised = d.batch.rewards.clone()
    experience = SimpleNamespace(rewards=penalised, response_length=d.batch.lengths, info={})
    peers.openrlhf("trainer.ppo_utils.length_penalty").apply_overlong_penalty([experience], BUDGET, 4, 1.0)
    shaped = DAPO(overlong_frac=0.5, overlong_weight=1.0).shape_rewards(d.batch)
    loss = policy_loss(d, advantages, clip_eps_low=0.2, clip_eps_high=0.28)
    return max(largest((shaped, experience.rewards)), compare(DAPO(eps=1e-9), loss, d))


def rloo(seed: int) -> float:
    d = draw(seed)
    return largest((RLOO().targets(d.batch).advantages, advantages_of(d, "rloo", normalised=False)))


def reinforce_pp(seed: int) -> float:
    d = draw(seed)
    plain = ReinforcePP(kl_coef=0.1, whiten="none").targets(d.batch).advantages
    theirs = advantages_of(d, "reinforce", normalised=False, kl_coef=0.1)
    algorithm = ReinforcePP(kl_coef=0.1)
    loss = policy_loss(d, algorithm.targets(d.batch).advantages)
    return max(largest((centred(plain, d), theirs)), compare(algorithm, loss, d))


def reinforce_pp_baseline(seed: int) -> float:
    d = draw(seed)
    plain = ReinforcePPBaseline(whiten="none").targets(d.batch).advantages
    theirs = advantages_of(d, "reinforce_baseline", normalised=False)
    algorithm = ReinforcePPBaseline(kl_coef=0.1)
    k2 = utils().compute_approx_kl(d.logprobs, d.batch.ref_logprobs, kl_estimator="k2")
    loss = policy_loss(d, algorithm.targets(d.batch).advantages) + 0.1 * aggregate(d, k2, token_level=True)
    return max(largest((centred(plain, d), theirs)), compare(algorithm, loss, d))


def gspo(seed: int) -> float:
    d = draw(seed, scale=1e-3)
    advantages = GSPO().targets(d.batch).advantages
    loss = policy_loss(d, advantages, clip_eps_low=3e-4, clip_eps_high=4e-4, policy_loss_type="gspo")
    return compare(GSPO(), loss, d)


def correction(seed: int) -> float:
    d = draw(seed)
    batch = d.batch
    algorithm = PPO(correction="token", correction_cap=1.1)
    settings = {"is_correction_level": "token", "is_correction_mode": "clip", "is_correction_threshold": [0.0, 1.1]}
    loss = loss_module().PolicyLoss(**settings)(
        d.logprobs, batch.old_logprobs, algorithm.targets(batch).advantages, d.mask, batch.rollout_logprobs
    )[0]
    weight = ops.correction_weight(batch.old_logprobs, batch.rollout_logprobs, batch.mask, "token", "truncate", 1.1)
    assert torch.equal(weight, required(algorithm.targets(batch).token_weight))
    return compare(algorithm, loss, d)


def bounded(seed: int, mode: str, level: str = "token") -> float:
    """Both bounds: clamped to them, filtered by token, or whole completions by their geometric mean."""
    d = draw(seed)
    batch = d.batch
    ours: dict[str, Any] = {
        "correction": {"token": "token", "seq": "geometric"}[level],
        "correction_mode": {"clip": "truncate", "mask": "mask"}[mode],
        "correction_floor": 0.9,
        "correction_cap": 1.1,
    }
    algorithm = PPO(**ours)
    settings = {"is_correction_level": level, "is_correction_mode": mode, "is_correction_threshold": [0.9, 1.1]}
    loss = loss_module().PolicyLoss(**settings)(
        d.logprobs, batch.old_logprobs, algorithm.targets(batch).advantages, d.mask, batch.rollout_logprobs
    )[0]
    return compare(algorithm, loss, d)


CASES = {
    "ppo": ppo,
    "grpo": grpo,
    "dapo": dapo,
    "rloo": rloo,
    "reinforce_pp": reinforce_pp,
    "reinforce_pp_baseline": reinforce_pp_baseline,
    "gspo": gspo,
    "sampler correction": correction,
    "correction with a floor": partial(bounded, mode="clip"),
    "token filter": partial(bounded, mode="mask"),
    "filter by geometric mean": partial(bounded, mode="mask", level="seq"),
}
