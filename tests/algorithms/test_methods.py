"""Every other method against numbers worked by hand. Shared formulas have theirs in test_ops."""

import math

import pytest
import torch

from algorithms.cispo import CISPO
from algorithms.core import required
from algorithms.dapo import DAPO
from algorithms.dr_grpo import DrGRPO
from algorithms.gspo import GSPO
from algorithms.reinforce_pp import ReinforcePP, ReinforcePPBaseline
from algorithms.rloo import RLOO
from algorithms.vapo import VAPO
from tests.algorithms.support import make_batch, moved, output, policy_gradient

ROOT2 = math.sqrt(2)


def columns(*rows: list[float]) -> torch.Tensor:
    return torch.tensor(rows, dtype=torch.float64)


# --- Dr. GRPO -----------------------------------------------------------------------------------


def test_dr_grpo_by_hand() -> None:
    # rewards 1, 0, 0: deviations 2/3, -1/3, -1/3; lengths 2, 1, 4; ratio 1; budget 8
    batch = make_batch([1.0, 0.0, 0.0], [2, 1, 4], [0, 0, 0])
    assert DrGRPO().targets(batch).advantages[:, 0].tolist() == pytest.approx([2 / 3, -1 / 3, -1 / 3])
    loss, gradient = policy_gradient(DrGRPO(), batch, batch.old_logprobs.clone().requires_grad_())
    assert loss.item() == pytest.approx(-(2 * 2 / 3 - 1 / 3 - 4 / 3) / (3 * 8))
    assert gradient[0].tolist() == pytest.approx([-2 / 3 / 24] * 2 + [0, 0])


# --- DAPO ---------------------------------------------------------------------------------------


def test_dapo_clips_higher_above() -> None:
    # ratios e^0.4 = 1.49 -> 1.28 above and, for the negative advantage, e^-0.4 = 0.67 -> 0.8
    batch = make_batch([1.0, 0.0], [1, 1], [0, 0], old_logprobs=columns([-1.0], [-1.0]))
    loss, gradient = policy_gradient(DAPO(), batch, columns([-0.6], [-1.4]).requires_grad_())
    assert loss.item() == pytest.approx((-1.28 + 0.8) / ROOT2 / 2, abs=1e-6)
    assert not gradient.any()


def test_dapo_overlong_punishment_by_hand() -> None:
    # budget 8, C = 1.6: free to 6.4 tokens, 7 tokens cost 0.6 / 1.6, 8 cost 1, at half weight for rewards of 0 and 1
    batch = make_batch([1.0, 1.0, 0.0], [6, 7, 8], [0, 0, 0])
    assert DAPO().shape_rewards(batch).tolist() == pytest.approx([1.0, 1 - 0.375 / 2, -0.5])
    assert DAPO(overlong_weight=1.0).shape_rewards(batch).tolist() == pytest.approx([1.0, 1 - 0.375, -1.0])
    assert torch.equal(DAPO(overlong_frac=0).shape_rewards(batch), batch.rewards)


@pytest.mark.parametrize(
    ("refill", "missing", "kept_frac", "asked"),
    [
        ("missing", 8, 0.5, 16),  # 8 more at half kept
        ("missing", 1, 0.3, 4),  # rounded up: 1 / 0.3
        ("missing", 30, 0.5, 32),  # never more than a whole batch
        ("missing", 32, 0.0, 32),  # nothing kept says nothing of the rate
        ("whole", 1, 0.9, 32),
    ],
)
def test_dapo_asks_for_what_is_missing(refill: str, missing: int, kept_frac: float, asked: int) -> None:
    assert DAPO(refill=refill).prompts_to_ask(32, missing, kept_frac) == asked  # type: ignore[arg-type]


def test_dapo_filters_on_verdicts_not_on_rewards() -> None:
    # group 0 is all wrong though its rewards differ, group 1 all right, group 2 mixed
    rewards = [0.1, -0.4, 1.0, 0.7, 0.5, 0.0]
    correct = torch.tensor([False, False, True, True, True, False])
    batch = make_batch(rewards, [1] * 6, [0, 0, 1, 1, 2, 2], correct=correct)
    assert DAPO().keep_group(batch).tolist() == [False, False, False, False, True, True]
    assert DAPO().max_rounds == 10
    assert DAPO(dynamic_sampling=False).keep_group(batch).all()
    assert DAPO(dynamic_sampling=False).max_rounds == 1


# --- RLOO ---------------------------------------------------------------------------------------


def test_rloo_by_hand() -> None:
    # rewards 1, 0, 0.5: minus the others' means 0.25, 0.75, 0.5
    batch = make_batch([1.0, 0.0, 0.5], [2, 1, 3], [4, 4, 4])
    assert RLOO().targets(batch).advantages[:, 0].tolist() == pytest.approx([0.75, -0.75, 0.0])
    loss, _ = policy_gradient(RLOO(), batch, batch.old_logprobs.clone().requires_grad_())
    assert loss.item() == pytest.approx(-(2 * 0.75 - 0.75) / 3)  # summed over tokens, averaged over rows


def test_rloo_takes_the_kl_off_before_leaving_one_out() -> None:
    # sequence k1 = 0.3 + 0.2 and 0.1, coefficient 2: r' = 0 and -0.2
    old = columns([-1.0, -1.0], [-1.0, 0.0])
    batch = make_batch([1.0, 0.0], [2, 1], [0, 0], old_logprobs=old, ref_logprobs=old - columns([0.3, 0.2], [0.1, 0.0]))
    assert RLOO(kl_coef=2.0).targets(batch).advantages.tolist() == [pytest.approx([0.2] * 2), pytest.approx([-0.2, 0])]


def test_rloo_does_not_clip() -> None:
    batch = make_batch([1.0, 0.0], [1, 1], [0, 0], old_logprobs=columns([-1.0], [-1.0]))
    _, gradient = policy_gradient(RLOO(), batch, columns([0.0], [-3.0]).requires_grad_())
    assert gradient[:, 0].tolist() == pytest.approx([-math.e / 2, math.exp(-2) / 2])


# --- REINFORCE++ --------------------------------------------------------------------------------


def test_reinforce_pp_by_hand() -> None:
    # k1 0.5 at each token, coefficient 0.1: returns 0.9, 0.95 and 0.95 - 1; whitened over three tokens
    old = columns([-1.0, -1.0], [-1.0, 0.0])
    batch = make_batch([1.0, 0.0], [2, 1], [0, 1], old_logprobs=old, ref_logprobs=(old - 0.5) * columns([1, 1], [1, 0]))
    returns = [0.9, 0.95, -0.05]
    assert ReinforcePP(kl_coef=0.1, whiten="none").targets(batch).advantages.tolist() == [
        pytest.approx(returns[:2]),
        pytest.approx([returns[2], 0.0]),
    ]
    mean = sum(returns) / 3
    std = math.sqrt(sum((r - mean) ** 2 for r in returns) / 2)
    whitened = ReinforcePP(kl_coef=0.1).targets(batch).advantages
    assert whitened[batch.mask].tolist() == pytest.approx([(r - mean) / std for r in returns])


def test_reinforce_pp_baseline_by_hand() -> None:
    # deviations +-0.5, +-1 over rows of one token: variance (0.25 + 0.25 + 1 + 1) / 3
    batch = make_batch([1.0, 0.0, 5.0, 3.0], [1] * 4, [0, 0, 1, 1])
    std = math.sqrt(2.5 / 3)
    advantages = ReinforcePPBaseline().targets(batch).advantages[:, 0]
    assert advantages.tolist() == pytest.approx([0.5 / std, -0.5 / std, 1 / std, -1 / std])


def test_reinforce_pp_baseline_puts_k2_in_the_loss() -> None:
    ones = columns([-1.0], [-1.0])
    batch = make_batch([0.0, 0.0], [1, 1], [0, 0], old_logprobs=ones, ref_logprobs=ones - 0.4)
    loss, _ = policy_gradient(ReinforcePPBaseline(kl_coef=0.5), batch, ones.clone().requires_grad_())
    assert loss.item() == pytest.approx(0.5 * 0.4**2 / 2)


# --- GSPO ---------------------------------------------------------------------------------------


def test_gspo_by_hand() -> None:
    # mean log-ratios 1e-4 and -2e-4 stay inside the clip: s = e^1e-4 and e^-2e-4
    old = columns([-1.0, -1.0], [-1.0, 0.0])
    batch = make_batch([1.0, 0.0], [2, 1], [0, 0], old_logprobs=old)
    logprobs = (old + columns([3e-4, -1e-4], [-2e-4, 0.0])).requires_grad_()
    loss, gradient = policy_gradient(GSPO(), batch, logprobs)
    up, down = math.exp(1e-4) / ROOT2, math.exp(-2e-4) / ROOT2
    assert loss.item() == pytest.approx((-up + down) / 2, abs=1e-6)
    assert gradient[0].tolist() == pytest.approx([-up / 4, -up / 4], abs=1e-6)  # 1 / (N |o|)
    assert gradient[1].tolist() == pytest.approx([down / 2, 0.0], abs=1e-6)


def test_gspo_clips_whole_completions() -> None:
    old = columns([-1.0, -1.0], [-1.0, -1.0])
    batch = make_batch([1.0, 0.0], [2, 2], [0, 0], old_logprobs=old)
    logprobs = (old + columns([2e-3, -1e-3], [2e-3, -1e-3])).requires_grad_()  # mean 5e-4 is above 4e-4
    targets = GSPO().targets(batch)
    out = GSPO().policy_loss(output(logprobs), batch, targets)
    assert out.metrics["clip_frac"].tolist() == [[1.0, 1.0], [0.0, 0.0]]
    assert out.metrics["pg_loss"][0].tolist() == pytest.approx([-1.0004 / ROOT2] * 2, abs=2e-6)


# --- CISPO --------------------------------------------------------------------------------------


def test_cispo_by_hand() -> None:
    # ratios e^2 = 7.39 capped at 5, and e^-1; loss -w A log pi, gradient -w A
    batch = make_batch([1.0, 0.0], [1, 1], [0, 0], old_logprobs=columns([-3.0], [-1.0]))
    loss, gradient = policy_gradient(CISPO(), batch, columns([-1.0], [-2.0]).requires_grad_())
    low = math.exp(-1)
    assert loss.item() == pytest.approx((5 * 1.0 - low * 2.0) / ROOT2 / 2, abs=1e-5)
    assert gradient[:, 0].tolist() == pytest.approx([-5 / ROOT2 / 2, low / ROOT2 / 2], abs=1e-5)


# --- VAPO ---------------------------------------------------------------------------------------


def test_vapo_lambda_grows_with_the_length() -> None:
    batch = make_batch([1.0, 0.0, 1.0], [2, 4, 8], [0, 1, 2])
    assert VAPO(gae_length_alpha=0.25).policy_lambda(batch).tolist() == [0.0, 0.0, 0.5]  # type: ignore[union-attr]
    assert VAPO(gae_length_alpha=None, gae_lambda=0.9).policy_lambda(batch) == 0.9


def test_vapo_critic_sees_the_whole_reward() -> None:
    batch = make_batch([1.0, 0.0], [5, 2], [0, 1])
    returns = required(VAPO().targets(batch).returns)
    assert returns[batch.mask].tolist() == pytest.approx([1.0] * 5 + [0.0] * 2)


def test_vapo_raises_the_likelihood_of_right_completions_alone() -> None:
    batch = make_batch([1.0, 0.0, 1.0], [2, 3, 1], [0, 1, 2])
    logprobs = moved(batch)
    plain, without = policy_gradient(VAPO(positive_coef=0.0), batch, logprobs)
    loss, gradient = policy_gradient(VAPO(positive_coef=0.1), batch, logprobs)
    positive = batch.mask & batch.correct[:, None]
    assert (loss - plain).item() == pytest.approx(-0.1 * logprobs[positive].mean().item())
    assert torch.allclose(gradient - without, -0.1 / 3 * positive.double())


@pytest.mark.parametrize(
    ("make", "reason"),
    [
        (lambda: DAPO(max_sampling_rounds=0), "max_sampling_rounds"),
        (lambda: DAPO(overlong_frac=1.5), "overlong_frac"),
        (lambda: RLOO(group_size=1), "group_size must be at least 2"),
        (lambda: CISPO(ratio_cap=0.5), "ratio_cap"),
        (lambda: CISPO(group_size=1), "group_size must be at least 2"),
        (lambda: ReinforcePPBaseline(group_size=1), "baseline group needs"),
        (lambda: VAPO(gae_length_alpha=0.0), "gae_length_alpha"),
        (lambda: VAPO(positive_coef=-0.1), "positive_coef"),
    ],
)
def test_contradictory_fields_are_refused_with_the_reason(make: object, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        make()  # type: ignore[operator]
