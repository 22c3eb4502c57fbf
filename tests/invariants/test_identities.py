"""One method as a special case of another. GAE's own identities are in test_ops."""

import torch

from algorithms.cispo import CISPO
from algorithms.core import Algorithm, required
from algorithms.dapo import DAPO
from algorithms.dr_grpo import DrGRPO
from algorithms.grpo import GRPO
from algorithms.gspo import GSPO
from algorithms.ppo import PPO
from algorithms.reinforce_pp import ReinforcePP, ReinforcePPBaseline
from algorithms.rloo import RLOO
from algorithms.vapo import VAPO
from tests.algorithms.support import make_batch, moved, output, policy_gradient, some_batch, wider


def same(a: Algorithm, b: Algorithm, batch_seed: int = 0) -> None:
    batch = some_batch(batch_seed)
    logprobs = moved(batch)
    loss, gradient = policy_gradient(a, batch, logprobs)
    other_loss, other_gradient = policy_gradient(b, batch, logprobs)
    assert torch.allclose(loss, other_loss)
    assert torch.allclose(gradient, other_gradient)
    assert gradient.any()


def test_rloo_is_the_deviation_times_g_over_g_minus_one() -> None:
    batch = some_batch()
    deviation = DrGRPO().targets(batch).advantages
    assert torch.allclose(RLOO().targets(batch).advantages, 3 / 2 * deviation)


def test_gspo_on_one_token_is_the_token_ratio() -> None:
    batch = make_batch([1.0, 0.0, 0.5], [1, 1, 1], [0, 0, 0])
    logprobs = moved(batch, scale=1e-4)
    _, gradient = policy_gradient(GSPO(), batch, logprobs)
    _, token = policy_gradient(GSPO(ratio_level="token"), batch, logprobs)
    assert torch.equal(gradient, token)


def test_gspo_of_equal_log_ratios_is_the_token_ratio() -> None:
    batch = make_batch([1.0, 0.0, 0.5], [2, 3, 1], [0, 0, 0])
    logprobs = (batch.old_logprobs + 1e-4 * batch.mask).requires_grad_()
    sequence = GSPO().policy_loss(output(logprobs), batch, GSPO().targets(batch)).loss
    token = GSPO(ratio_level="token")
    assert torch.allclose(
        sequence[batch.mask], token.policy_loss(output(logprobs), batch, token.targets(batch)).loss[batch.mask]
    )


def test_dapo_without_its_changes_is_grpo_with_token_mean() -> None:
    bare = DAPO(clip_ratio_high=None, dynamic_sampling=False, overlong_frac=0.0)
    same(bare, GRPO(kl_coef=0.0, aggregation="token-mean"))
    batch = some_batch()
    assert torch.equal(bare.shape_rewards(batch), batch.rewards)
    assert bare.keep_group(batch).all()


def test_dr_grpo_is_grpo_of_three_other_fields() -> None:
    same(DrGRPO(), GRPO(kl_coef=0.0, spread="none", aggregation="constant"))


def test_dr_grpo_ignores_added_padding_and_longer_neighbours() -> None:
    batch = make_batch([1.0, 0.0, 1.0, 0.0], [2, 3, 5, 1], [0, 0, 1, 1])
    logprobs = moved(batch)
    _, gradient = policy_gradient(DrGRPO(), batch, logprobs)
    padded = torch.nn.functional.pad(logprobs.detach(), (0, 3)).requires_grad_()
    _, wide = policy_gradient(DrGRPO(), wider(batch, 3), padded)
    assert torch.equal(gradient, wide[:, :5])
    narrow = batch[torch.tensor([0, 1])]  # alone, the first group would be 3 wide: its divisor stays the budget
    _, alone = policy_gradient(DrGRPO(), narrow, logprobs[:2].detach().requires_grad_())
    assert torch.allclose(alone, 2 * gradient[:2])  # half the rows, the same budget


def test_reinforce_pp_is_ppo_whose_critic_knows_nothing() -> None:
    batch = some_batch(values=torch.zeros(6, 5, dtype=torch.float64))
    logprobs = moved(batch)
    for settings in ({"kl_coef": 0.0}, {"kl_coef": 0.2}):
        _, gradient = policy_gradient(ReinforcePP(**settings), batch, logprobs)  # type: ignore[arg-type]
        _, other = policy_gradient(PPO(**settings), batch, logprobs)  # type: ignore[arg-type]
        assert torch.allclose(gradient, other)


def test_reinforce_pp_baseline_unwhitened_is_dr_grpo_with_token_mean() -> None:
    same(ReinforcePPBaseline(whiten="none", kl_coef=0.0), DrGRPO(aggregation="token-mean"))


def test_uncapped_cispo_has_the_gradient_of_the_unclipped_ratio() -> None:
    batch = some_batch()
    logprobs = moved(batch)
    _, cispo = policy_gradient(CISPO(ratio_cap=1e9, spread="none"), batch, logprobs)
    _, rloo = policy_gradient(RLOO(aggregation="token-mean"), batch, logprobs)
    assert torch.allclose(3 / 2 * cispo, rloo)


def test_vapo_without_its_changes_is_ppo() -> None:
    bare = VAPO(
        clip_ratio_high=None,
        gae_lambda_critic=None,
        gae_length_alpha=None,
        positive_coef=0.0,
        group_size=1,
        gae_lambda=0.7,
    )
    same(bare, PPO(gae_lambda=0.7))
    batch = some_batch()
    returns = required(bare.targets(batch).returns)
    assert torch.equal(returns, required(PPO(gae_lambda=0.7).targets(batch).returns))


def test_a_far_dual_clip_is_none() -> None:
    same(GRPO(dual_clip=1e6), GRPO())


def test_a_correction_of_equal_samplers_is_none() -> None:
    batch = some_batch()
    batch = some_batch(rollout_logprobs=batch.old_logprobs)
    logprobs = moved(batch)
    _, gradient = policy_gradient(GRPO(), batch, logprobs)
    for level in ("token", "sequence"):
        for mode in ("truncate", "mask"):
            _, other = policy_gradient(GRPO(correction=level, correction_mode=mode), batch, logprobs)  # type: ignore[arg-type]
            assert torch.allclose(gradient, other)
