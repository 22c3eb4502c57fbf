"""GRPO: group statistics, the KL in the loss, and the terms every policy-gradient method shares."""

import math
from dataclasses import replace

import pytest
import torch

from algorithms import ops
from algorithms.core import required
from algorithms.grpo import GRPO
from bench.gate.formulas import reduced
from tests.algorithms.support import make_batch, moved, output, policy_gradient, some_batch

TWO_GROUPS = [1.0, 1.0, 1.0, 0.0, 0.0, 0.0, 0.0, 1.0]
RIGHT = [0.5, 0.5, 0.5, -1.5, -0.5, -0.5, -0.5, 1.5]
GROUPS = [0, 0, 0, 0, 1, 1, 1, 1]


def test_advantages_by_hand() -> None:
    advantages = GRPO().targets(make_batch(TWO_GROUPS, [2] * 8, GROUPS)).advantages
    assert advantages[:, 0].tolist() == pytest.approx(RIGHT, abs=1e-5)
    assert advantages[:, 1].tolist() == pytest.approx(RIGHT, abs=1e-5)


def test_groups_are_known_by_label_not_by_place() -> None:
    order = [5, 0, 7, 2, 1, 6, 3, 4]
    pick = lambda values: [values[i] for i in order]
    batch = make_batch(pick(TWO_GROUPS), [1] * 8, [40 if g else 3 for g in pick(GROUPS)])
    assert GRPO().targets(batch).advantages[:, 0].tolist() == pytest.approx(pick(RIGHT), abs=1e-5)


@pytest.mark.parametrize(
    ("spread", "first"),
    [("sample", 1 / math.sqrt(2)), ("population", 1.0), ("none", 1.0), ("batch", 1 / math.sqrt(20 / 3))],
)
def test_spread_by_hand(spread: ops.Spread, first: float) -> None:
    # groups (3, 1) and (7, 5): each deviates by 1; the whole batch has variance 20 / 3
    advantages = GRPO(spread=spread).targets(make_batch([3.0, 1.0, 7.0, 5.0], [1] * 4, [0, 0, 1, 1])).advantages
    assert advantages[:, 0].tolist() == pytest.approx([first, -first, first, -first], abs=1e-5)


def test_eps_joins_the_divisor() -> None:
    batch = make_batch([3.0, 1.0], [1, 1], [0, 0])
    assert GRPO(spread="population", eps=1.0).targets(batch).advantages[0, 0].item() == pytest.approx(0.5)


def test_an_all_equal_group_gives_no_policy_gradient() -> None:
    batch = make_batch([0.7] * 3 + [1.0, 0.0, 0.0], [3] * 6, [0] * 3 + [1] * 3)
    batch = replace(batch, rewards=batch.rewards.float())
    _, gradient = policy_gradient(GRPO(kl_coef=0.0), batch, moved(batch))
    assert not gradient[:3].any()
    assert gradient[3:].any()


def test_on_policy_loss_is_zero_and_its_gradient_is_not() -> None:
    batch = make_batch(TWO_GROUPS, [3] * 8, GROUPS)
    logprobs = batch.old_logprobs.clone().requires_grad_()
    loss, gradient = policy_gradient(GRPO(kl_coef=0.0), batch, logprobs)
    assert abs(loss.item()) < 1e-6
    assert gradient.norm().item() > 0


def test_kl_by_hand() -> None:
    # one token a row, ratio 1, advantages +-0.7071 cancel: the loss is 0.04 * k3(-1, -2)
    ones = torch.full((2, 1), -1.0, dtype=torch.float64)
    batch = make_batch([1.0, 0.0], [1, 1], [0, 0], old_logprobs=ones, ref_logprobs=ones - 1)
    loss, _ = policy_gradient(GRPO(), batch, ones.clone().requires_grad_())
    assert loss.item() == pytest.approx(0.04 * 0.367879, abs=1e-6)


def test_kl_pulls_towards_the_reference() -> None:  # the sign
    batch = make_batch([0.0, 0.0], [3, 3], [0, 0])
    logprobs = moved(batch)
    _, weak = policy_gradient(GRPO(kl_coef=0.1), batch, logprobs)
    _, strong = policy_gradient(GRPO(kl_coef=10.0), batch, logprobs)
    assert torch.allclose(strong, 100 * weak)
    gap = (logprobs - required(batch.ref_logprobs)).detach()
    assert torch.equal(weak.sign(), gap.sign())  # descent lowers a log-prob above the reference's


def test_kl_times_ratio_differentiates_the_ratio_too() -> None:
    batch = make_batch([0.0, 0.0], [2, 2], [0, 0])
    logprobs = moved(batch)
    _, gradient = policy_gradient(GRPO(kl_coef=1.0, kl_times_ratio=True, aggregation="sequence-sum"), batch, logprobs)
    x = (required(batch.ref_logprobs) - logprobs).detach()
    ratio = (logprobs - batch.old_logprobs).exp().detach()
    by_hand = ratio * (x.exp() - x - 1) + ratio * (1 - x.exp())
    assert torch.allclose(gradient, by_hand / 2)


def test_kl_in_the_reward_is_the_whole_completions() -> None:
    # k1 sums to 0.5 and 0.1, coefficient 1: rewards 0.5 and -0.1, deviations +-0.3
    old = torch.tensor([[-1.0, -1.0], [-1.0, 0.0]])
    ref = torch.tensor([[-1.25, -1.25], [-1.1, 0.0]])
    batch = make_batch([1.0, 0.0], [2, 1], [0, 0], old_logprobs=old, ref_logprobs=ref)
    algorithm = GRPO(kl_coef=1.0, kl_place="reward", kl_estimator="k1", spread="none")
    assert algorithm.targets(batch).advantages.tolist() == [pytest.approx([0.3, 0.3]), pytest.approx([-0.3, 0.0])]


def test_entropy_bonus_lowers_the_loss() -> None:
    batch = some_batch()
    logprobs = moved(batch)
    plain, _ = policy_gradient(GRPO(), batch, logprobs)
    bonus, _ = policy_gradient(GRPO(entropy_coef=0.1), batch, logprobs)
    weights = ops.loss_weights(batch.mask, "sequence-mean", batch.max_new_tokens)
    assert (plain - bonus).item() == pytest.approx(0.1 * (weights * output(logprobs).entropy).sum().item())


def test_entropy_coefficient_follows_its_target() -> None:
    algorithm = GRPO(entropy_target=0.5)
    assert algorithm.needs == {"ref_logprobs"}
    raised = algorithm.adapt({"entropy": 0.4})
    assert raised.entropy_coef == pytest.approx(0.005)
    assert "entropy" in raised.needs
    assert raised.adapt({"entropy": 0.6}).adapt({"entropy": 0.6}).entropy_coef == 0.0
    assert GRPO().adapt({"entropy": 0.4}) == GRPO()
    assert algorithm.adapt({}) == algorithm  # no policy update, nothing measured


def test_correction_weighs_the_policy_gradient_alone() -> None:
    batch = some_batch()
    logprobs = moved(batch)
    algorithm = GRPO(correction="token", entropy_coef=0.1)
    targets = algorithm.targets(batch)
    weight = required(targets.token_weight)
    assert torch.allclose(weight[batch.mask], (batch.old_logprobs - batch.rollout_logprobs).exp()[batch.mask])
    out = algorithm.policy_loss(output(logprobs), batch, targets)
    plain = GRPO(entropy_coef=0.1).policy_loss(output(logprobs), batch, GRPO().targets(batch))
    assert torch.allclose(out.metrics["pg_loss"], weight * plain.metrics["pg_loss"])
    assert torch.allclose(out.loss - out.metrics["pg_loss"], plain.loss - plain.metrics["pg_loss"])


def test_a_batch_of_masked_truncations_gives_zero() -> None:
    batch = make_batch([1.0, 0.0], [3, 2], [0, 0], truncated=torch.tensor([True, True]))
    loss, gradient = policy_gradient(GRPO(mask_truncated=True), batch, moved(batch))
    assert loss.item() == 0.0
    assert not gradient.any()


def test_masked_truncations_still_count_in_their_group() -> None:
    batch = make_batch([1.0, 0.0, 0.0], [2, 2, 2], [0, 0, 0], truncated=torch.tensor([False, False, True]))
    advantages = GRPO(mask_truncated=True, spread="none").targets(batch).advantages
    assert advantages[0, 0].item() == pytest.approx(2 / 3)


@pytest.mark.parametrize("aggregation", ["constant", "token-mean", "sequence-mean", "sequence-sum"])
@pytest.mark.parametrize("size", [1, 2, 8])
def test_micro_batches_add_up(aggregation: str, size: int) -> None:
    batch = make_batch(TWO_GROUPS, [1, 5, 2, 3, 4, 1, 2, 5], GROUPS)
    algorithm = GRPO(aggregation=aggregation)  # type: ignore[arg-type]
    logprobs = moved(batch)
    targets = algorithm.targets(batch)
    whole = reduced(algorithm, algorithm.policy_loss(output(logprobs), batch, targets).loss, batch, targets)
    weights = ops.loss_weights(required(targets.loss_mask), algorithm.aggregation, batch.max_new_tokens)
    total = torch.zeros((), dtype=torch.float64)
    for rows in torch.arange(8).split(size):
        out = algorithm.policy_loss(output(logprobs[rows]), batch[rows], targets[rows])
        total = total + (weights[rows] * out.loss).sum()
    assert total.item() == pytest.approx(whole.item(), abs=1e-12)


def test_metrics() -> None:
    batch = some_batch()
    logprobs = moved(batch)
    out = GRPO().policy_loss(output(logprobs), batch, GRPO().targets(batch))
    assert set(out.metrics) == {"pg_loss", "clip_frac", "ratio", "kl", "kl_ref", "entropy"}
    assert all(m.shape == batch.mask.shape and not m.requires_grad for m in out.metrics.values())
    log_ratio = (logprobs - batch.old_logprobs).detach()
    assert torch.allclose(out.metrics["kl"], log_ratio.exp() - 1 - log_ratio)
    without = some_batch(ref_logprobs=None)
    algorithm = GRPO(kl_coef=0.0)
    assert "kl_ref" not in algorithm.policy_loss(output(logprobs), without, algorithm.targets(without)).metrics


def test_a_group_of_one_is_refused() -> None:
    with pytest.raises(ValueError, match="group_size must be at least 2"):
        GRPO(group_size=1)
    with pytest.raises(ValueError, match="eps"):
        GRPO(eps=0.0)
