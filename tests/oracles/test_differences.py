# ruff: noqa: ANN401 - the peers are untyped
"""Where the peers mean something else by the same name. Each docstring, `peer: statement`, is a row of the reference
page, and the test under it is its proof.
"""

import dataclasses
import math
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from algorithms import ops
from algorithms.cispo import CISPO
from algorithms.core import required
from algorithms.dr_grpo import DrGRPO
from algorithms.grpo import GRPO
from algorithms.gspo import GSPO
from algorithms.ppo import PPO
from algorithms.reinforce_pp import ReinforcePP
from algorithms.rloo import RLOO
from tests.oracles import against_openrlhf, against_trl, against_verl, peers
from tests.oracles.draws import compare, draw, largest, ours, theirs

pytestmark = pytest.mark.skipif(
    not peers.present, reason="the peers are installed and these tests run by `make oracles`"
)

CLOSE = 1e-5
FAR = 1e-3


def default(config: Any, name: str) -> object:
    return next(f.default for f in dataclasses.fields(config) if f.name == name)


def test_trl_grpo_defaults() -> None:
    """TRL: its GRPOTrainer as it comes is token-mean (loss_type dapo), without KL (beta 0), eps 1e-4."""
    config = peers.importlib.import_module("trl.trainer.grpo_config").GRPOConfig
    assert (default(config, "loss_type"), default(config, "beta")) == ("dapo", 0.0)
    d = draw(0)
    loss = against_trl.policy_loss(d, against_trl.advantages_of(d, "group"), "dapo")
    assert compare(GRPO(eps=1e-4, kl_coef=0.0, aggregation="token-mean"), loss, d) < CLOSE
    assert compare(GRPO(), loss, d) > FAR


def test_trl_kl_times_ratio() -> None:
    """TRL: with a KL it multiplies k3 by the ratio unless use_bias_correction_kl is off; ours: kl_times_ratio."""
    config = peers.importlib.import_module("trl.trainer.grpo_config").GRPOConfig
    assert default(config, "use_bias_correction_kl") is True
    d = draw(0)
    loss = against_trl.policy_loss(
        d, against_trl.advantages_of(d, "group"), "grpo", beta=0.04, use_bias_correction_kl=True
    )
    assert compare(GRPO(eps=1e-4, kl_times_ratio=True), loss, d) < CLOSE
    assert compare(GRPO(eps=1e-4), loss, d) > CLOSE


def test_trl_rloo_ratio() -> None:
    """TRL: RLOO clips the ratio of the whole completion (the product over its tokens); ours is a token's, unclipped."""
    d = draw(0)
    advantages = RLOO().targets(d.batch).advantages[:, 0]
    module = peers.importlib.import_module("trl.trainer.rloo_trainer")

    def loss_at(logprobs: torch.Tensor) -> torch.Tensor:
        identity = SimpleNamespace(reduce=lambda x, **_: x, gather=lambda x: x)
        this = SimpleNamespace(
            _get_per_token_logps_and_entropies=lambda *a, **k: (logprobs, torch.zeros_like(logprobs), None),
            accelerator=identity,
            model=SimpleNamespace(training=True),
            _metrics={"train": against_trl.defaultdict(list)},
            aux_loss_enabled=False,
            epsilon_low=0.2,
            epsilon_high=0.2,
        )
        empty = torch.zeros(len(advantages), 0, dtype=torch.long)
        inputs = {
            "prompt_ids": empty,
            "prompt_mask": empty,
            "completion_ids": d.batch.mask.long(),
            "completion_mask": d.batch.mask.long(),
            "advantages": advantages,
            "old_logps": d.batch.old_logprobs.sum(dim=1),
        }
        return module.RLOOTrainer._compute_loss(this, None, inputs)

    start = dataclasses.replace(d, logprobs=d.batch.old_logprobs.clone().requires_grad_())
    assert largest((ours(RLOO(), start)[1], theirs(loss_at(start.logprobs), start)[1])) < CLOSE
    assert largest((ours(RLOO(), d)[1], theirs(loss_at(d.logprobs), d)[1])) > FAR


def test_trl_ppo_reward_position() -> None:
    """TRL: PPO puts the reward on the place after the last generated token, which its policy loss masks."""
    d = draw(0)
    last = d.batch.mask.sum(dim=1) - 1
    names = {
        "ref_logprobs": d.batch.old_logprobs,
        "logprobs": d.batch.old_logprobs,
        "args": SimpleNamespace(kl_coef=0.0, kl_estimator="k1"),
        "sequence_lengths": last,
        "sequence_lengths_p1": last + 1,
        "scores": torch.ones(len(last)),
    }
    train = against_trl.ppo_module().PPOTrainer.train
    rewards = peers.run_between(train, "# 4. compute rewards", "# 5. whiten rewards", names)["rewards"]
    width = d.batch.mask.shape[1]
    expected = torch.where(last + 1 < width, last + 1, last)
    assert torch.equal(rewards.argmax(dim=1), expected)
    assert torch.equal(ops.at_last_token(torch.ones(len(last)), d.batch.mask).argmax(dim=1), last)


def test_trl_cispo_cap() -> None:
    """TRL: CISPO's epsilon_high is the cap itself; in verl the cap is 1 + clip_ratio_high; ours is named ratio_cap."""
    d = draw(0, scale=1.0)
    trl = against_trl.policy_loss(d, against_trl.advantages_of(d, "group"), "cispo", epsilon_high=1.2)
    verl = against_verl.policy_loss("cispo", d, against_verl.grouped(d), "token-mean", low=1.0, high=1.2)
    assert compare(CISPO(eps=1e-4, ratio_cap=1.2), trl, d) < CLOSE
    assert compare(CISPO(ratio_cap=2.2), verl, d) < CLOSE


def test_verl_dual_clip() -> None:
    """verl: its clipped loss always has the dual clip, at 3 unless set; ours is off unless set."""
    d = draw(0, scale=2.0)
    loss = against_verl.policy_loss("vanilla", d, against_verl.grouped(d), "seq-mean-token-mean")
    assert compare(GRPO(kl_coef=0.0, dual_clip=3.0), loss, d) < CLOSE
    assert compare(GRPO(kl_coef=0.0), loss, d) > FAR


def test_verl_token_mean() -> None:
    """verl: loss_agg_mode is token-mean for every method unless set, GRPO and GSPO included."""
    assert default(peers.importlib.import_module("verl.workers.config").ActorConfig, "loss_agg_mode") == "token-mean"
    d = draw(0, scale=1e-3)
    loss = against_verl.policy_loss("gspo", d, against_verl.grouped(d), "token-mean", low=3e-4, high=4e-4)
    assert largest((ours(GSPO(aggregation="token-mean"), d)[0], loss.detach())) < CLOSE
    assert compare(GSPO(), loss, d) > CLOSE


def test_verl_dr_grpo_divisor() -> None:
    """verl: the constant divisor is the padded length of the batch unless loss_scale_factor is set."""
    d = draw(0)
    advantages = against_verl.grouped(d, norm_adv_by_std_in_grpo=False)
    loss = against_verl.policy_loss("vanilla", d, advantages, "seq-mean-token-sum-norm")
    by_width = dataclasses.replace(d, batch=dataclasses.replace(d.batch, max_new_tokens=d.batch.mask.shape[1]))
    assert compare(DrGRPO(dual_clip=3.0), loss, by_width) < CLOSE
    assert compare(DrGRPO(dual_clip=3.0), loss, d) > FAR


def test_verl_group_of_one() -> None:
    """verl: a completion alone in its group keeps its raw reward as advantage; ours refuses a group size of 1."""
    score, mask = torch.tensor([[0.0, 0.7]]), torch.ones(1, 2)
    advantages, _ = against_verl.core().compute_grpo_outcome_advantage(score, mask, against_verl.np.array(["p"]))
    assert advantages[0, 0].item() == pytest.approx(0.7, abs=1e-5)
    with pytest.raises(ValueError, match="group_size"):
        GRPO(group_size=1)


def test_verl_values_on_padding() -> None:
    """verl: GAE leaves advantages on padding that are not 0, for the loss to mask; ours are 0 there."""
    d = draw(0)
    advantages, _ = against_verl.core().compute_gae_advantage_return(
        d.scores, required(d.batch.values), d.mask, 1.0, 1.0
    )
    assert advantages[~d.batch.mask].any()
    assert not PPO().targets(d.batch).advantages[~d.batch.mask].any()


def test_verl_whitening_one_token() -> None:
    """verl: whitening a single token is an error; ours gives it 0."""
    functional = peers.importlib.import_module("verl.utils.torch_functional")
    with pytest.raises(ValueError, match="mask is one"):
        functional.masked_whiten(torch.ones(1, 1), torch.ones(1, 1))
    assert ops.whiten(torch.ones(1, 1), torch.ones(1, 1, dtype=torch.bool)).item() == 0


def test_verl_kl_clamp() -> None:
    """verl: k3 is clamped to 10, and OpenRLHF clamps every estimator to +-10; ours is not clamped."""
    pi, ref = torch.tensor([-31.0]), torch.tensor([-1.0])
    assert against_verl.core().kl_penalty(pi, ref, "k3").item() == 10
    assert against_openrlhf.utils().compute_approx_kl(pi, ref, kl_estimator="k1").item() == -10
    assert ops.kl(pi, ref, "k3").item() == pytest.approx(math.exp(30) - 31, rel=1e-5)


def test_openrlhf_whitening() -> None:
    """OpenRLHF: whitens with n where ours, verl and TRL take n - 1."""
    d = draw(0)
    theirs = against_openrlhf.advantages_of(d, "reinforce", normalised=True)
    n = int(d.batch.mask.sum())
    whitened = ReinforcePP(kl_coef=0.0).targets(d.batch).advantages
    assert largest((whitened * math.sqrt(n / (n - 1)), theirs)) < CLOSE


def test_openrlhf_dr_grpo() -> None:
    """OpenRLHF: dr_grpo drops the spread only; its loss is a token mean, there is no constant divisor."""
    d = draw(0)
    advantages = against_openrlhf.advantages_of(d, "dr_grpo", normalised=False)
    loss = against_openrlhf.policy_loss(d, advantages)
    assert compare(DrGRPO(aggregation="token-mean"), loss, d) < CLOSE
    assert compare(DrGRPO(), loss, d) > FAR


def test_openrlhf_grpo_eps() -> None:
    """OpenRLHF: group_norm adds 1e-9 to the spread; ours 1e-6, TRL 1e-4."""
    d = draw(0)
    advantages = against_openrlhf.advantages_of(d, "group_norm", normalised=False)
    deviation = DrGRPO().targets(d.batch).advantages
    spread = ops.spread(d.batch.rewards, d.batch.group, "sample")[:, None]
    assert largest((deviation / (spread + 1e-9), advantages)) < 1e-9


def test_openrlhf_gspo_aggregation() -> None:
    """OpenRLHF: GSPO is a sequence mean whatever token_level_loss says."""
    d = draw(0, scale=1e-3)
    advantages = GSPO().targets(d.batch).advantages
    settings = {"clip_eps_low": 3e-4, "clip_eps_high": 4e-4, "policy_loss_type": "gspo", "token_level_loss": True}
    assert compare(GSPO(), against_openrlhf.policy_loss(d, advantages, **settings), d) < CLOSE


def test_openrlhf_correction_band() -> None:
    """OpenRLHF: the sampler correction also has a lower bound (0.5 by default); ours bounds it from above alone."""
    d = draw(0)
    batch = dataclasses.replace(d.batch, rollout_logprobs=d.batch.old_logprobs + 2.0 * d.mask)
    d = dataclasses.replace(d, batch=batch)
    algorithm = GRPO(kl_coef=0.0, correction="token", correction_cap=5.0)
    for low, agrees in ((0.0, True), (0.5, False)):
        module = against_openrlhf.loss_module()
        settings = {"is_correction_level": "token", "is_correction_mode": "clip", "is_correction_threshold": [low, 5.0]}
        loss = module.PolicyLoss(token_level_loss=False, **settings)(
            d.logprobs, batch.old_logprobs, algorithm.targets(batch).advantages, d.mask, batch.rollout_logprobs
        )[0]
        assert (compare(algorithm, loss, d) < CLOSE) is agrees
