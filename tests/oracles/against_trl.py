# ruff: noqa: ANN401 - the peers are untyped
"""TRL 1.12.0: the loss methods of its trainers on a stand-in `self`, and the lines that make its advantages."""

from collections import defaultdict
from functools import cache
from types import SimpleNamespace
from typing import Any

import torch
from torch import Tensor

from algorithms.cispo import CISPO
from algorithms.core import required
from algorithms.dapo import DAPO
from algorithms.dr_grpo import DrGRPO
from algorithms.grpo import GRPO
from algorithms.gspo import GSPO
from algorithms.ppo import PPO
from algorithms.rloo import RLOO
from tests.algorithms.support import BUDGET
from tests.oracles import peers
from tests.oracles.draws import GROUP_SIZE, Draw, compare, draw, largest


@cache
def trainer() -> Any:
    return peers.importlib.import_module("trl.trainer.grpo_trainer").GRPOTrainer


@cache
def ppo_module() -> Any:
    return peers.importlib.import_module("trl.experimental.ppo.ppo_trainer")


def advantages_of(d: Draw, scale_rewards: str) -> Tensor:
    """(B,) by the lines of its rollout method."""
    this = SimpleNamespace(
        multi_objective_aggregation="sum_then_normalize", scale_rewards=scale_rewards, reward_weights=torch.ones(1)
    )
    names = {
        "self": this,
        "rewards_per_func": d.batch.rewards[:, None],
        "unscorable_mask": torch.zeros(len(d.batch.rewards), dtype=torch.bool),
        "num_generations": GROUP_SIZE,
        "device": "cpu",
    }
    method = trainer()._generate_and_score_completions
    start, end = 'if self.multi_objective_aggregation == "sum_then_normalize"', "# Unscorable completions (every"
    return peers.run_between(method, start, end, names)["advantages"]


def policy_loss(d: Draw, advantages: Tensor, loss_type: str, **settings: Any) -> Tensor:
    identity = SimpleNamespace(
        num_processes=1, reduce=lambda x, **_: x, gather=lambda x: x, gather_for_metrics=lambda x: x
    )
    args = SimpleNamespace(
        use_bias_correction_kl=settings.pop("use_bias_correction_kl", False), delta=None, steps_per_generation=1
    )
    this = SimpleNamespace(
        accelerator=identity,
        args=args,
        loss_type=loss_type,
        model=SimpleNamespace(training=True),
        _get_per_token_logps_and_entropies=lambda *a, **k: (d.logprobs, torch.zeros_like(d.logprobs), None),
        _metrics={"train": defaultdict(list)},
        current_gradient_accumulation_steps=1,
        max_completion_length=BUDGET,
        top_entropy_quantile=1.0,
        off_policy_mask_threshold=None,
        use_vllm=False,
        vllm_importance_sampling_correction=True,
        aux_loss_enabled=False,
        _entropy_bonus_enabled=False,
    )
    defaults = {"importance_sampling_level": "token", "beta": 0.0, "epsilon_low": 0.2, "epsilon_high": 0.2}
    vars(this).update(defaults | settings)
    empty = torch.zeros(len(d.batch.rewards), 0, dtype=torch.long)
    inputs = {
        "prompt_ids": empty,
        "prompt_mask": empty,
        "completion_ids": d.batch.mask.long(),
        "completion_mask": d.batch.mask.long(),
        "advantages": advantages,
        "old_per_token_logps": d.batch.old_logprobs,
        "ref_per_token_logps": d.batch.ref_logprobs,
        "num_items_in_batch": d.batch.mask.sum(),
        "importance_sampling_ratio": required(
            GRPO(correction="token", correction_cap=1.1).targets(d.batch).token_weight
        ),
    }
    return trainer()._compute_loss(this, None, inputs)


def ppo(seed: int) -> float:
    """Its GAE, whitening, policy and value loss; where it puts the reward is a stated difference."""
    d = draw(seed)
    algorithm = PPO(gamma=0.99, gae_lambda=0.95)
    values = required(d.batch.values)
    args = SimpleNamespace(gamma=0.99, lam=0.95, cliprange=0.2, cliprange_value=0.2, vf_coef=1.0)
    names: dict[str, Any] = {
        "responses": d.batch.mask,
        "rewards": d.scores,
        "values": values,
        "padding_mask": ~d.batch.mask,
        "args": args,
    }
    train = ppo_module().PPOTrainer.train
    scope = peers.run_between(train, "# 6. compute advantages and returns", "empty_cache()", names)
    targets = algorithm.targets(d.batch)
    names |= {
        "vpred": d.values,
        "mb_values": values,
        "mb_return": scope["returns"],
        "mb_advantage": scope["advantages"],
        "mb_logprobs": d.batch.old_logprobs,
        "new_logprobs": d.logprobs,
        "padding_mask_p1": ~d.batch.mask,
        "micro_batch_inds": slice(None),
    }
    result = peers.run_between(train, "vpredclipped = torch.clamp(", "loss = pg_loss + args.vf_coef", names)
    our_value_loss = algorithm.value_loss(d.values, d.batch, targets).loss[d.batch.mask].mean()
    return max(
        largest(
            (targets.advantages, scope["advantages"]),
            (required(targets.returns) * d.mask, scope["returns"] * d.mask),
            (our_value_loss.detach(), result["vf_loss"].detach()),
        ),
        compare(algorithm, result["pg_loss"], d),
    )


def grpo(seed: int) -> float:
    d = draw(seed)
    advantages = advantages_of(d, "group")
    plain, weighted = GRPO(eps=1e-4), GRPO(eps=1e-4, kl_times_ratio=True)
    return max(
        largest((plain.targets(d.batch).advantages, advantages[:, None] * d.mask)),
        compare(plain, policy_loss(d, advantages, "grpo", beta=0.04), d),
        compare(weighted, policy_loss(d, advantages, "grpo", beta=0.04, use_bias_correction_kl=True), d),
    )


def grpo_batch_spread(seed: int) -> float:
    d = draw(seed)
    ours = GRPO(eps=1e-4, spread="batch").targets(d.batch).advantages
    return largest((ours, advantages_of(d, "batch")[:, None] * d.mask))


def dr_grpo(seed: int) -> float:
    d = draw(seed)
    return compare(DrGRPO(), policy_loss(d, advantages_of(d, "none"), "dr_grpo"), d)


def dapo(seed: int) -> float:
    d = draw(seed)
    return compare(DAPO(eps=1e-4), policy_loss(d, advantages_of(d, "group"), "dapo", epsilon_high=0.28), d)


def rloo(seed: int) -> float:
    d = draw(seed)
    module = peers.importlib.import_module("trl.trainer.rloo_trainer")
    batch = d.batch
    names = {
        "self": SimpleNamespace(beta=0.05),
        "rewards": batch.rewards,
        "old_per_token_logps": batch.old_logprobs,
        "ref_per_token_logps": batch.ref_logprobs,
        "completion_mask": batch.mask.long(),
        "gather": lambda x: x,
        "num_generations": GROUP_SIZE,
        "unscorable_mask": torch.zeros(len(batch.rewards), dtype=torch.bool),
    }
    method = module.RLOOTrainer._generate_and_score_completions
    advantages = peers.run_between(
        method, "# Include the KL penalty in the reward", "# Normalize advantages over", names
    )["advantages"]
    return largest((RLOO(kl_coef=0.05).targets(batch).advantages, advantages[:, None] * d.mask))


def gspo(seed: int) -> float:
    d = draw(seed, scale=1e-3)
    settings = {"importance_sampling_level": "sequence", "epsilon_low": 3e-4, "epsilon_high": 4e-4}
    return compare(GSPO(eps=1e-4), policy_loss(d, advantages_of(d, "group"), "grpo", **settings), d)


def cispo(seed: int) -> float:
    d = draw(seed, scale=1.0)
    return compare(CISPO(eps=1e-4), policy_loss(d, advantages_of(d, "group"), "cispo", epsilon_high=5.0), d)


def correction(seed: int) -> float:
    d = draw(seed)
    algorithm = GRPO(eps=1e-4, correction="token", correction_cap=1.1)
    return compare(algorithm, policy_loss(d, advantages_of(d, "group"), "grpo", beta=0.04, use_vllm=True), d)


CASES = {
    "ppo": ppo,
    "grpo": grpo,
    "grpo, spread batch": grpo_batch_spread,
    "dr_grpo": dr_grpo,
    "dapo": dapo,
    "rloo": rloo,
    "gspo": gspo,
    "cispo": cispo,
    "sampler correction": correction,
}
