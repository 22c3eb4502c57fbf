"""The shared formulas against numbers worked by hand, identities and a plain loop."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from algorithms import ops
from algorithms.core import Aggregation


def t(*rows: object) -> Tensor:
    return torch.tensor(rows[0] if len(rows) == 1 else rows, dtype=torch.float64)


def bools(*rows: list[int]) -> Tensor:
    return torch.tensor(rows, dtype=torch.bool)


floats = st.floats(-5, 5, allow_nan=False)


# --- whitening ---------------------------------------------------------------------------------


def test_whiten_by_hand() -> None:
    # counted 1, 2, 3: mean 2, variance with n - 1 is 1
    result = ops.whiten(t([1.0, 2.0, 9.0], [3.0, 7.0, 7.0]), bools([1, 1, 0], [1, 0, 0]))
    assert result.tolist() == [[pytest.approx(-1.0), 0.0, 0.0], [pytest.approx(1.0), 0.0, 0.0]]


def test_whiten_one_token_or_none_gives_zero() -> None:
    assert ops.whiten(t([[3.0, 5.0]]), bools([1, 0])).tolist() == [[0.0, 0.0]]
    assert ops.whiten(t([[3.0, 5.0]]), bools([0, 0])).tolist() == [[0.0, 0.0]]


def test_whiten_equal_float32_values_give_exactly_zero() -> None:
    assert not ops.whiten(torch.full((3, 7), 0.1), torch.ones(3, 7, dtype=torch.bool)).any()


# --- groups ------------------------------------------------------------------------------------


def test_group_mean_and_spread_by_hand() -> None:
    rewards, group = t([1.0, 0.0, 3.0, 2.0, 5.0]), torch.tensor([9, 4, 9, 4, 4])
    assert ops.group_mean(rewards, group).tolist() == pytest.approx([2, 7 / 3, 2, 7 / 3, 7 / 3])
    # group 9: 1, 3; group 4: 0, 2, 5 with squared deviations 49/9, 1/9, 64/9
    sample, population = math.sqrt(114 / 9 / 2), math.sqrt(114 / 9 / 3)
    two = math.sqrt(2)
    assert ops.spread(rewards, group, "sample").tolist() == pytest.approx([two, sample, two, sample, sample])
    assert ops.spread(rewards, group, "population").tolist() == pytest.approx([1, population, 1] + [population] * 2)
    # whole batch, group means removed nowhere: mean 2.2, squared deviations sum to 14.8
    assert ops.spread(rewards, group, "batch").tolist() == pytest.approx([math.sqrt(14.8 / 4)] * 5)


def test_a_lone_row_has_no_spread() -> None:
    assert ops.spread(t([4.0]), torch.tensor([0]), "sample").tolist() == [0.0]


@pytest.mark.parametrize("reward", [0.1, 0.7, 1.3, -0.9])
def test_equal_float32_rewards_deviate_by_exactly_zero(reward: float) -> None:
    """In float32 the mean of eight 0.7s is off by one unit, which eps 1e-6 would blow up to 0.06."""
    rewards, group = torch.full((7,), reward), torch.zeros(7, dtype=torch.long)
    assert not (rewards - ops.group_mean(rewards, group)).any()


# --- GAE ---------------------------------------------------------------------------------------


def test_gae_by_hand() -> None:
    # deltas: 1 + .9*1 - .5 = 1.4;  0 + .9*2 - 1 = .8;  3 - 2 = 1; gamma lambda = .45
    advantages = ops.gae(t([[1.0, 0.0, 3.0]]), t([[0.5, 1.0, 2.0]]), bools([1, 1, 1]), 0.9, 0.5)
    assert advantages[0].tolist() == pytest.approx([1.4 + 0.45 * 1.25, 0.8 + 0.45, 1.0])


def test_gae_ignores_values_and_rewards_on_padding() -> None:
    advantages = ops.gae(t([[0.0, 1.0, 7.0]]), t([[0.0, 0.0, 100.0]]), bools([1, 1, 0]), 1.0, 0.95)
    assert advantages[0].tolist() == pytest.approx([0.95, 1.0, 0.0])


def test_gae_takes_a_lambda_for_each_completion() -> None:
    rewards, values, mask = t([[0.0, 1.0]] * 2), t([[0.2, 0.4]] * 2), bools([1, 1], [1, 1])
    both = ops.gae(rewards, values, mask, 1.0, t([0.0, 1.0]))
    for row, lam in enumerate((0.0, 1.0)):
        assert both[row].tolist() == ops.gae(rewards, values, mask, 1.0, lam)[row].tolist()


@given(st.lists(floats, min_size=4, max_size=4), st.lists(floats, min_size=4, max_size=4), st.floats(0.5, 1))
def test_gae_at_lambda_one_is_the_return_minus_the_value(
    rewards: list[float], values: list[float], gamma: float
) -> None:
    advantages = ops.gae(t([rewards]), t([values]), bools([1, 1, 1, 1]), gamma, 1.0)
    returns = [sum(gamma ** (k - i) * rewards[k] for k in range(i, 4)) for i in range(4)]
    assert advantages[0].tolist() == pytest.approx([r - v for r, v in zip(returns, values, strict=True)], abs=1e-9)


@given(st.lists(floats, min_size=3, max_size=3), st.lists(floats, min_size=3, max_size=3), st.floats(0.5, 1))
def test_gae_at_lambda_zero_is_the_td_error(rewards: list[float], values: list[float], gamma: float) -> None:
    advantages = ops.gae(t([rewards]), t([values]), bools([1, 1, 1]), gamma, 0.0)
    following = [*values[1:], 0.0]
    td = [r + gamma * n - v for r, n, v in zip(rewards, following, values, strict=True)]
    assert advantages[0].tolist() == pytest.approx(td, abs=1e-9)


def test_reward_goes_to_the_last_generated_token() -> None:
    mask = bools([1, 1, 1, 0, 0], [1, 1, 1, 1, 1])
    placed = ops.at_last_token(t([2.0, 3.0]), mask)
    assert placed.tolist() == [[0, 0, 2, 0, 0], [0, 0, 0, 0, 3]]
    advantages = ops.gae(placed, torch.zeros_like(placed), mask, 1.0, 1.0)
    assert advantages.tolist() == [[2, 2, 2, 0, 0], [3, 3, 3, 3, 3]]
    assert int((advantages != 0).sum()) == int(mask.sum())


# --- KL ----------------------------------------------------------------------------------------


def test_kl_estimators_by_hand() -> None:
    pi, ref = t([-1.0]), t([-2.0])
    assert ops.kl(pi, ref, "k1").item() == 1.0
    assert ops.kl(pi, ref, "k2").item() == 0.5
    assert ops.kl(pi, ref, "k3").item() == pytest.approx(0.367879, abs=1e-6)
    assert ops.kl(ref, pi, "k3").item() == pytest.approx(0.718282, abs=1e-6)


@pytest.mark.parametrize(("estimator", "slope"), [("k1", 1.0), ("k2", 1.0), ("k3", 0.632121)])
def test_kl_gradients_by_hand(estimator: ops.KLEstimator, slope: float) -> None:
    pi = t([-1.0]).requires_grad_()
    ops.kl(pi, t([-2.0]), estimator).sum().backward()
    assert pi.grad is not None
    assert pi.grad.item() == pytest.approx(slope, abs=1e-6)


def test_kl_stays_finite_at_a_gap_of_thirty() -> None:
    for estimator in ("k1", "k2", "k3"):
        assert torch.isfinite(ops.kl(torch.tensor([-31.0]), torch.tensor([-1.0]), estimator)).all()


@given(floats, floats)
def test_k3_is_never_negative_and_zero_only_for_equals(a: float, b: float) -> None:
    assert ops.kl(t([a]), t([b]), "k3").item() > -1e-30
    assert ops.kl(t([a]), t([a]), "k3").item() == 0


def test_k3_of_a_small_gap_keeps_its_digits() -> None:
    """In float32 exp(x) - x - 1 at 1e-4 would be noise of 6e-8 around 5e-9."""
    pi = torch.tensor([0.0])
    assert ops.kl(pi, pi - 1e-4, "k3").item() == pytest.approx(5e-9, rel=1e-3)


@pytest.mark.parametrize("estimator", ["k1", "k3"])
def test_k1_and_k3_are_unbiased(estimator: ops.KLEstimator) -> None:
    """Summed over a whole vocabulary with weights pi, both are the exact divergence."""
    generator = torch.Generator().manual_seed(0)
    pi, ref = torch.randn(2, 5, generator=generator, dtype=torch.float64).log_softmax(-1)
    exact = (pi.exp() * (pi - ref)).sum()
    assert (pi.exp() * ops.kl(pi, ref, estimator)).sum().item() == pytest.approx(exact.item())


@pytest.mark.parametrize("form", ["k1", "k2", "k3", "k1 * ratio", "k2 * ratio", "k3 * ratio"])
def test_the_expected_gradient_of_each_kl_loss(form: str) -> None:
    """What the field's help says, summed over a whole vocabulary at the policy that tokens were drawn from."""
    generator = torch.Generator().manual_seed(1)
    logits, ref = torch.randn(2, 6, generator=generator, dtype=torch.float64)
    ref = ref.log_softmax(-1)
    logits.requires_grad_()
    pi = logits.log_softmax(-1)
    drawn = pi.detach().exp()
    loss = ops.kl(pi, ref, form[:2])  # type: ignore[arg-type]
    if "ratio" in form:
        loss = loss * (pi - pi.detach()).exp()
    (expected,) = torch.autograd.grad((drawn * loss).sum(), logits, retain_graph=True)
    forward = (pi.exp() * (pi - ref)).sum()
    backward = (ref.exp() * (ref - pi)).sum()
    exact = {
        "k1": 0 * forward,
        "k2": forward,
        "k3": backward,
        "k1 * ratio": forward,
        "k2 * ratio": (pi.exp() * (pi - ref) ** 2 / 2).sum(),  # of its own expectation, which is not the KL
        "k3 * ratio": forward,
    }[form]
    (gradient,) = torch.autograd.grad(exact, logits)
    assert torch.allclose(expected, gradient, atol=1e-12)


# --- the clipped surrogate ----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("ratio", "advantage", "loss", "flat"),
    [(2.0, -1.0, 2.0, False), (0.5, -1.0, 0.8, True), (2.0, 1.0, -1.2, True), (0.5, 1.0, -0.5, False)],
)
def test_clipping_by_hand(ratio: float, advantage: float, loss: float, flat: bool) -> None:
    r = t([ratio]).requires_grad_()
    surrogate = ops.clipped_surrogate(r, t([advantage]), 0.2, 0.2)
    assert -surrogate.item() == pytest.approx(loss)
    surrogate.sum().backward()
    assert r.grad is not None
    assert (r.grad.item() == 0) is flat


def test_upper_clip_is_its_own() -> None:
    assert ops.clipped_surrogate(t([2.0]), t([1.0]), 0.2, 0.28).item() == pytest.approx(1.28)
    assert ops.clipped_surrogate(t([0.5]), t([-1.0]), 0.2, 0.28).item() == pytest.approx(-0.8)


def test_dual_clip_by_hand() -> None:
    ratio, advantage = t([10.0, 2.0, 10.0]), t([-1.0, -1.0, 1.0])
    bounded = ops.dual_clip(ops.clipped_surrogate(ratio, advantage, 0.2, 0.2), advantage, 3.0)
    assert (-bounded).tolist() == pytest.approx([3.0, 2.0, -1.2])


def test_clip_fraction_counts_only_where_the_clip_acts() -> None:
    clipped = ops.is_clipped(t([1.5, 1.5, 0.5, 0.5]), t([1.0, -1.0, 1.0, -1.0]), 0.2, 0.2)
    assert clipped.tolist() == [1, 0, 0, 1]
    assert ops.is_clipped(t([1.5, 0.5]), t([0.0, 0.0]), 0.2, 0.2).tolist() == [0, 0]


# --- ratios and corrections ---------------------------------------------------------------------


def test_sequence_ratio_is_the_geometric_mean_of_the_token_ratios() -> None:
    mask = bools([1, 1, 0], [1, 0, 0])
    new, old = t([[0.3, -0.1, 5.0], [0.4, 5.0, 5.0]]), t([[0.1, 0.1, 0.0], [0.1, 0.0, 0.0]])
    token = ops.importance_ratio(new, old, mask, "token")
    sequence = ops.importance_ratio(new, old, mask, "sequence")
    assert sequence[0].tolist() == pytest.approx([1.0] * 3)
    assert sequence[1].tolist() == pytest.approx([math.exp(0.3)] * 3)
    assert token.tolist() == [pytest.approx([math.exp(0.2), math.exp(-0.2), 1.0]), pytest.approx([math.exp(0.3), 1, 1])]


@pytest.mark.parametrize(
    ("level", "mode", "expected"),
    [
        ("token", "truncate", [[2.0, 0.5, 0.0]]),
        ("token", "mask", [[0.0, 0.5, 0.0]]),
        ("sequence", "truncate", [[1.5, 1.5, 0.0]]),
        ("sequence", "mask", [[1.5, 1.5, 0.0]]),
    ],
)
def test_correction_by_hand(level: ops.Level, mode: str, expected: list[list[float]]) -> None:
    # trainer / sampler: 3, 0.5; product 1.5; cap 2
    rollout = t([[-1.0, -1.0, 0.0]])
    old = (rollout + t([[math.log(3), math.log(0.5), 9.0]])).requires_grad_()
    weight = ops.correction_weight(old, rollout, bools([1, 1, 0]), level, mode, 2.0)  # type: ignore[arg-type]
    assert weight.tolist() == [pytest.approx(expected[0])]
    assert not weight.requires_grad


def test_overlong_penalty_by_hand() -> None:
    # L = 20, C = 4: nothing to 16 tokens, then a quarter each
    penalty = ops.overlong_penalty(torch.tensor([1, 16, 17, 18, 20]), 20, 4.0)
    assert penalty.tolist() == [0, 0, -0.25, -0.5, -1.0]


# --- the critic's loss --------------------------------------------------------------------------


def test_value_loss_takes_the_worse_of_clipped_and_not() -> None:
    assert ops.value_loss(t([1.0]), t([0.5]), t([0.9]), 0.2).item() == pytest.approx(0.02)
    assert ops.value_loss(t([1.0]), t([0.5]), t([0.9]), None).item() == pytest.approx(0.005)
    assert ops.value_loss(t([0.6]), t([0.5]), t([0.9]), 0.2).item() == pytest.approx(0.045)


# --- aggregation --------------------------------------------------------------------------------

BY_HAND: list[tuple[Aggregation, float]] = [
    ("token-mean", 0.5),
    ("sequence-mean", 0.0),
    ("sequence-sum", 1.0),
    ("constant", 0.25),
]


@pytest.mark.parametrize(("aggregation", "loss"), BY_HAND)
def test_aggregation_by_hand(aggregation: Aggregation, loss: float) -> None:
    # lengths 1 (A = +1) and 3 (A = -1), budget 4, per-token loss -A
    mask = bools([1, 0, 0], [1, 1, 1])
    token_loss = t([[-1.0, 50.0, 50.0], [1.0, 1.0, 1.0]])
    assert (ops.loss_weights(mask, aggregation, 4) * token_loss).sum().item() == pytest.approx(loss, abs=1e-6)


def test_token_mean_uses_the_whole_optimizer_batch() -> None:
    mask = torch.arange(80)[None] < torch.tensor([20, 80])[:, None]
    token_loss = torch.tensor([[3.0], [1.0]]).expand(2, 80)
    weights = ops.loss_weights(mask, "token-mean", 80)
    assert sum((weights[row] * token_loss[row]).sum().item() for row in range(2)) == pytest.approx(1.4)


@pytest.mark.parametrize("aggregation", [name for name, _ in BY_HAND])
def test_tokens_left_out_are_in_no_denominator(aggregation: Aggregation) -> None:
    mask = torch.zeros(4, 10, dtype=torch.bool)
    mask[0] = True
    loss = (ops.loss_weights(mask, aggregation, 10) * torch.ones(4, 10)).sum().item()
    # the constant divisor is constant: 4 rows of 10, whatever is left out of them
    right = {"sequence-sum": 10.0, "constant": 0.25}
    assert loss == pytest.approx(right.get(aggregation, 1.0))


@pytest.mark.parametrize("aggregation", [name for name, _ in BY_HAND])
def test_an_empty_mask_weighs_nothing(aggregation: Aggregation) -> None:
    weights = ops.loss_weights(torch.zeros(2, 3, dtype=torch.bool), aggregation, 3)
    assert weights.tolist() == [[0.0] * 3] * 2
