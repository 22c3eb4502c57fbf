# ruff: noqa: ANN401 - the peers are untyped
"""verl 0.9.1, `core_algos`. Its policy loss always has the dual clip; it takes advantages on padding as they come."""

from functools import cache
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from algorithms import ops
from algorithms.cispo import CISPO
from algorithms.core import required
from algorithms.dapo import DAPO
from algorithms.dr_grpo import DrGRPO
from algorithms.grpo import GRPO
from algorithms.gspo import GSPO
from algorithms.ppo import PPO
from algorithms.reinforce_pp import ReinforcePP, ReinforcePPBaseline
from algorithms.rloo import RLOO
from tests.algorithms.support import BUDGET
from tests.oracles import peers
from tests.oracles.draws import Draw, compare, draw, largest

DUAL = 3.0


@cache
def core() -> Any:
    return peers.verl()


def index(d: Draw) -> np.ndarray:
    return d.batch.group.numpy().astype(object)


def policy_loss(
    name: str, d: Draw, advantages: Tensor, mode: str, low: float = 0.2, high: float = 0.2, **extra: Any
) -> Tensor:
    config = peers.verl_actor_config(clip_ratio=low, clip_ratio_low=low, clip_ratio_high=high, clip_ratio_c=DUAL)
    config.global_batch_info.update(extra)
    loss, _ = core().get_policy_loss_fn(name)(
        old_log_prob=d.batch.old_logprobs,
        log_prob=d.logprobs,
        advantages=advantages,
        response_mask=d.mask,
        loss_agg_mode=mode,
        config=config,
    )
    return loss


def kl_loss(d: Draw, estimator: str, mode: str) -> Tensor:
    penalty = core().kl_penalty(d.logprobs, required(d.batch.ref_logprobs), estimator)
    return core().agg_loss(penalty, d.mask, mode)


def grouped(d: Draw, **settings: Any) -> Tensor:
    return core().compute_grpo_outcome_advantage(d.scores, d.mask, index(d), **settings)[0]


def ppo(seed: int) -> float:
    d = draw(seed)
    algorithm = PPO(kl_coef=0.1, gamma=0.99, gae_lambda=0.95, dual_clip=DUAL)
    rewards = core().compute_rewards(d.scores, d.batch.old_logprobs, required(d.batch.ref_logprobs), 0.1)
    values = required(d.batch.values)
    advantages, returns = core().compute_gae_advantage_return(rewards, values, d.mask, 0.99, 0.95)
    targets = algorithm.targets(d.batch)
    value_loss, _ = core().compute_value_loss(d.values, returns, values, d.mask, 0.2)
    our_value_loss = algorithm.value_loss(d.values, d.batch, targets).loss[d.batch.mask].mean()
    grads = [torch.autograd.grad(loss, d.values, retain_graph=True)[0] for loss in (value_loss, our_value_loss)]
    return max(
        largest(
            (targets.advantages, advantages * d.mask),
            (required(targets.returns) * d.mask, returns * d.mask),
            (our_value_loss.detach(), value_loss.detach()),
            (grads[0], grads[1]),
        ),
        compare(algorithm, policy_loss("vanilla", d, advantages, "token-mean"), d),
    )


def grpo(seed: int) -> float:
    d = draw(seed)
    algorithm = GRPO(dual_clip=DUAL)
    loss = policy_loss("vanilla", d, grouped(d), "seq-mean-token-mean") + 0.04 * kl_loss(d, "k3", "seq-mean-token-mean")
    return max(largest((algorithm.targets(d.batch).advantages, grouped(d))), compare(algorithm, loss, d))


def dr_grpo(seed: int) -> float:
    d = draw(seed)
    advantages = grouped(d, norm_adv_by_std_in_grpo=False)
    loss = policy_loss("vanilla", d, advantages, "seq-mean-token-sum-norm", loss_scale_factor=BUDGET)
    algorithm = DrGRPO(dual_clip=DUAL)
    return max(largest((algorithm.targets(d.batch).advantages, advantages)), compare(algorithm, loss, d))


def dapo(seed: int) -> float:
    d = draw(seed)
    return compare(DAPO(dual_clip=DUAL), policy_loss("vanilla", d, grouped(d), "token-mean", high=0.28), d)


def rloo(seed: int) -> float:
    d = draw(seed)
    advantages, _ = core().compute_rloo_outcome_advantage(d.scores, d.mask, index(d))
    return largest((RLOO().targets(d.batch).advantages, advantages))


def reinforce_pp(seed: int) -> float:
    d = draw(seed)
    algorithm = ReinforcePP(kl_coef=0.1, dual_clip=DUAL)
    rewards = core().compute_rewards(d.scores, d.batch.old_logprobs, required(d.batch.ref_logprobs), 0.1)
    advantages, _ = core().compute_reinforce_plus_plus_outcome_advantage(
        rewards, d.mask, config=SimpleNamespace(gamma=1.0)
    )
    loss = policy_loss("vanilla", d, advantages, "token-mean")
    return max(largest((algorithm.targets(d.batch).advantages, advantages)), compare(algorithm, loss, d))


def reinforce_pp_baseline(seed: int) -> float:
    d = draw(seed)
    algorithm = ReinforcePPBaseline(kl_coef=0.1, dual_clip=DUAL)
    advantages, _ = core().compute_reinforce_plus_plus_baseline_outcome_advantage(d.scores, d.mask, index(d))
    loss = policy_loss("vanilla", d, advantages, "token-mean") + 0.1 * kl_loss(d, "k2", "token-mean")
    return max(largest((algorithm.targets(d.batch).advantages, advantages)), compare(algorithm, loss, d))


def gspo(seed: int) -> float:
    d = draw(seed, scale=1e-3)
    return compare(GSPO(), policy_loss("gspo", d, grouped(d), "seq-mean-token-mean", low=3e-4, high=4e-4), d)


def cispo(seed: int) -> float:
    d = draw(seed, scale=1.0)
    return compare(CISPO(), policy_loss("cispo", d, grouped(d), "token-mean", low=1.0, high=4.0), d)


def correction(seed: int) -> float:
    d = draw(seed)
    helper = peers.importlib.import_module("verl.trainer.ppo.rollout_corr_helper")
    log_ratio = d.batch.old_logprobs - d.batch.rollout_logprobs
    pairs: list[tuple[Tensor, Tensor]] = []
    for level in ("token", "sequence"):
        result = helper.compute_rollout_correction_weights(log_ratio, d.mask, level, 1.1)
        batch = d.batch
        weight = ops.correction_weight(batch.old_logprobs, batch.rollout_logprobs, batch.mask, level, "truncate", 1.1)
        pairs.append((weight, result[0]))
    return largest(*pairs)


CASES = {
    "ppo": ppo,
    "grpo": grpo,
    "dr_grpo": dr_grpo,
    "dapo": dapo,
    "rloo": rloo,
    "reinforce_pp": reinforce_pp,
    "reinforce_pp_baseline": reinforce_pp_baseline,
    "gspo": gspo,
    "cispo": cispo,
    "sampler correction": correction,
}
