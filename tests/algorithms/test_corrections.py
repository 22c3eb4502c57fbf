"""Corrections between sampler and trainer, SAO's filter and RAFT's choice, by hand numbers."""

from dataclasses import replace

import pytest
import torch

from algorithms.core import Batch
from algorithms.grpo import GRPO
from algorithms.raft import RAFT
from algorithms.sao import SAO
from tests.algorithms.support import make_batch, moved, output, policy_gradient, some_batch


def drifted(*log_ratios: list[float]) -> Batch:
    """Rows whose tokens the trainer finds so much likelier than the sampler did."""
    batch = make_batch([1.0, 0.0], [3, 3], [0, 0])
    return replace(batch, rollout_logprobs=batch.old_logprobs - torch.tensor(log_ratios, dtype=torch.float64).log())


RATIOS = drifted([0.5, 1.0, 4.0], [1.0, 2.0, 1.0])


@pytest.mark.parametrize(
    ("settings", "weights"),
    [
        ({"correction": "token"}, [[0.5, 1, 2], [1, 2, 1]]),
        ({"correction": "token", "correction_floor": 0.8}, [[0.8, 1, 2], [1, 2, 1]]),
        ({"correction": "token", "correction_mode": "mask"}, [[0.5, 1, 0], [1, 2, 1]]),
        (
            {"correction": "token", "correction_mode": "mask", "correction_floor": 0.8, "correction_cap": 5.0},
            [[0, 1, 4], [1, 2, 1]],
        ),
        ({"correction": "sequence"}, [[2, 2, 2], [2, 2, 2]]),
        ({"correction": "sequence", "correction_mode": "mask", "correction_cap": 1.9}, [[0, 0, 0], [0, 0, 0]]),
        # geometric means 2^(1/3) = 1.26 in both rows; the tokens keep their own weights
        ({"correction": "geometric", "correction_mode": "mask", "correction_cap": 1.3}, [[0.5, 1, 4], [1, 2, 1]]),
        ({"correction": "geometric", "correction_mode": "mask", "correction_cap": 1.2}, [[0, 0, 0], [0, 0, 0]]),
    ],
)
def test_each_correction(settings: dict[str, object], weights: list[list[float]]) -> None:
    found = GRPO(**settings).targets(RATIOS).token_weight  # type: ignore[arg-type]
    assert found is not None
    assert torch.allclose(found, torch.tensor(weights, dtype=torch.float64))


def test_what_a_filter_dropped_is_measured_and_has_no_gradient() -> None:
    method = GRPO(correction="token", correction_mode="mask", correction_floor=0.8, kl_coef=0.0)
    targets = method.targets(RATIOS)
    dropped = method.policy_loss(output(moved(RATIOS)), RATIOS, targets).metrics["dropped_frac"]
    assert dropped.tolist() == [[1, 0, 1], [0, 0, 0]]
    _, gradient = policy_gradient(method, RATIOS, moved(RATIOS))
    assert (gradient == 0).tolist() == [[True, False, True], [False, False, False]]


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"correction_floor": 3.0}, "correction_floor must lie between 0 and correction_cap, got 3.0"),
        ({"correction_floor": -0.1}, "correction_floor must lie between"),
        ({"correction": "geometric"}, "correction geometric drops whole completions: set correction_mode mask"),
    ],
)
def test_bounds_that_cannot_be_are_refused(settings: dict[str, object], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        GRPO(**settings)  # type: ignore[arg-type]


def test_saos_filter_is_against_the_sampler_and_what_it_drops_stays_in_the_mean() -> None:
    """Ratios 0.5, 1 and 8 to the sampler: outside of [0.7, 6] a token has no gradient, inside one of its ratio."""
    batch = replace(drifted([0.5, 1.0, 8.0], [1.0, 1.0, 1.0]), values=torch.zeros(2, 3, dtype=torch.float64))
    method = SAO(whiten="none", gae_length_alpha=None)
    _, gradient = policy_gradient(method, batch, batch.old_logprobs.clone().requires_grad_())
    assert torch.allclose(gradient, torch.tensor([[0, -1 / 6, 0], [0, 0, 0]], dtype=torch.float64))
    metrics = method.policy_loss(output(batch.old_logprobs), batch, method.targets(batch)).metrics
    assert metrics["dropped_frac"].tolist() == [[1, 0, 1], [0, 0, 0]]


def test_saos_two_lambdas() -> None:
    """At a length of 2 the policy's is 1 - 1/3, the critic's 1: values 0.4, then 0.1, and a reward of 1 at the end."""
    batch = make_batch([1.0], [2], [0], values=torch.tensor([[0.4, 0.1]], dtype=torch.float64))
    targets = SAO(whiten="none").targets(batch)
    assert targets.advantages[0].tolist() == pytest.approx([-0.3 + 2 / 3 * 0.9, 0.9])
    assert targets.returns is not None
    assert targets.returns[0].tolist() == pytest.approx([1, 1])


def test_sao_refuses_a_second_correction() -> None:
    with pytest.raises(ValueError, match="would weigh by the sampler twice"):
        SAO(correction="token")


def test_raft_is_the_likelihood_of_right_completions() -> None:
    batch = some_batch()
    logprobs = moved(batch)
    loss, gradient = policy_gradient(RAFT(), batch, logprobs)
    right = batch.correct
    lengths = batch.mask.sum(1)
    by_hand = -(logprobs * batch.mask).sum(1)[right] / lengths[right]
    assert loss.item() == pytest.approx(by_hand.mean().item())
    assert not gradient[~right].any()
    assert gradient[right].sum().item() == pytest.approx(-1, abs=1e-6)


def test_raft_best_keeps_one_of_each_group_the_first_of_equals() -> None:
    batch = make_batch([0.1, 1.0, 1.0, 0.0, 0.0], [2] * 5, [4, 4, 4, 1, 1])
    kept = RAFT(keep="best").targets(batch).loss_mask
    assert kept is not None
    assert kept[:, 0].tolist() == [False, True, False, True, False]


def test_raft_has_nothing_to_learn_where_all_is_wrong() -> None:
    batch = make_batch([0.0, 0.0], [2, 3], [0, 0])
    loss, gradient = policy_gradient(RAFT(), batch, moved(batch))
    assert loss == 0
    assert not gradient.any()
