"""PPO: what its targets and losses add to the shared formulas."""

import pytest
import torch

from algorithms import ops
from algorithms.core import required
from algorithms.ppo import PPO
from tests.algorithms.support import make_batch, moved, output, policy_gradient, some_batch


def test_terminal_reward_reaches_every_token() -> None:
    batch = make_batch([2.0, 3.0], [3, 5], [0, 1], values=torch.zeros(2, 5, dtype=torch.float64))
    advantages = PPO(whiten="none").targets(batch).advantages
    assert advantages.tolist() == [[2, 2, 2, 0, 0], [3, 3, 3, 3, 3]]
    assert int((advantages != 0).sum()) == int(batch.mask.sum())


def test_returns_are_unwhitened_advantages_plus_values() -> None:
    batch = some_batch()
    plain = PPO(whiten="none", gae_lambda=0.9).targets(batch)
    whitened = PPO(gae_lambda=0.9).targets(batch)
    assert torch.equal(required(plain.returns), required(whitened.returns))
    assert torch.allclose(required(plain.returns), plain.advantages + required(batch.values))
    counted = whitened.advantages[batch.mask]
    assert counted.mean().item() == pytest.approx(0, abs=1e-7)
    assert counted.std().item() == pytest.approx(1, abs=1e-6)


def test_at_lambda_one_the_critic_learns_the_reward() -> None:
    batch = some_batch()
    returns = required(PPO().targets(batch).returns)
    assert torch.allclose(returns[batch.mask], batch.rewards[:, None].expand_as(returns)[batch.mask])


def test_kl_in_the_reward_by_hand() -> None:
    # k1 = (-1) - (-2) = 1 and (-1) - (-1.5) = 0.5, coefficient 0.1, reward 1 at the last token, lambda 1
    columns = {
        "old_logprobs": torch.tensor([[-1.0, -1.0]]),
        "ref_logprobs": torch.tensor([[-2.0, -1.5]]),
        "values": torch.zeros(1, 2),
    }
    batch = make_batch([1.0], [2], [0], **columns)
    assert PPO(kl_coef=0.1, whiten="none").targets(batch).advantages[0].tolist() == pytest.approx([0.85, 0.95])


def test_kl_in_the_reward_is_not_in_the_loss_too() -> None:
    batch = some_batch()
    algorithm = PPO(kl_coef=0.5)
    out = algorithm.policy_loss(output(moved(batch)), batch, algorithm.targets(batch))
    assert torch.equal(out.loss.detach(), out.metrics["pg_loss"])


def test_kl_in_the_loss_is_the_blog_form() -> None:
    batch = some_batch()
    algorithm = PPO(kl_coef=0.5, kl_place="loss", kl_estimator="k3")
    logprobs = moved(batch)
    targets = algorithm.targets(batch)
    assert torch.equal(targets.advantages, PPO().targets(batch).advantages)
    out = algorithm.policy_loss(output(logprobs), batch, targets)
    penalty = ops.kl(logprobs, required(batch.ref_logprobs), "k3")
    assert torch.allclose(out.loss, out.metrics["pg_loss"] + 0.5 * penalty)


def test_decoupled_lambda_moves_the_returns_alone() -> None:
    batch = some_batch()
    coupled, apart = PPO(gae_lambda=0.5).targets(batch), PPO(gae_lambda=0.5, gae_lambda_critic=1.0).targets(batch)
    assert torch.equal(coupled.advantages, apart.advantages)
    assert torch.equal(required(apart.returns), required(PPO().targets(batch).returns))


def test_value_clip_holds_to_the_values_at_rollout() -> None:
    batch = make_batch([0.9], [1], [0], values=torch.tensor([[0.5]]))
    algorithm = PPO()
    targets = algorithm.targets(batch)
    loss = lambda v: algorithm.value_loss(torch.tensor([[v]]), batch, targets).loss.item()
    assert loss(1.0) == pytest.approx(0.02)
    assert loss(0.9) == pytest.approx(0.02)  # still charged for having moved further than the clip
    assert required(batch.values).tolist() == [[0.5]]


def test_masked_truncated_completions_leave_the_whitening() -> None:
    truncated = torch.tensor([False, True, False, False, True, False])
    batch = some_batch(truncated=truncated)
    targets = PPO(mask_truncated=True).targets(batch)
    counted = batch.mask & ~truncated[:, None]
    assert torch.equal(required(targets.loss_mask), counted)
    assert targets.advantages[counted].std().item() == pytest.approx(1, abs=1e-6)
    _, gradient = policy_gradient(PPO(mask_truncated=True), batch, moved(batch))
    assert not gradient[~counted].any()


def test_needs_follow_the_coefficients() -> None:
    assert PPO().needs == {"values"}
    assert PPO(kl_coef=0.1, entropy_coef=0.01).needs == {"values", "ref_logprobs", "entropy"}


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"kl_coef": 0.1, "kl_place": "loss"}, "k1 in the loss"),
        ({"kl_coef": -0.1}, "kl_coef"),
        ({"kl_times_ratio": True}, "kl_times_ratio"),
        ({"gamma": 1.5}, "gamma"),
        ({"gae_lambda": -0.1}, "gae_lambda"),
        ({"gae_lambda_critic": 2.0}, "gae_lambda_critic"),
        ({"value_clip": 0.0}, "value_clip"),
        ({"clip_ratio": 0.0}, "clip_ratio"),
        ({"clip_ratio_high": -1.0}, "clip_ratio_high"),
        ({"dual_clip": 1.0}, "dual_clip"),
        ({"correction_cap": 0.0}, "correction_cap"),
        ({"group_size": 0}, "group_size"),
        ({"num_epochs": 0}, "num_epochs"),
        ({"num_minibatches": 0}, "num_minibatches"),
        ({"entropy_target": 0.2, "entropy_coef": -0.1}, "entropy_coef"),
    ],
)
def test_contradictory_fields_are_refused_with_the_reason(fields: dict[str, object], reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        PPO(**fields)  # type: ignore[arg-type]


def test_k1_in_the_loss_is_accepted_when_meant() -> None:
    assert PPO(kl_coef=0.1, kl_place="loss", allow_k1_loss=True).kl_in_loss
