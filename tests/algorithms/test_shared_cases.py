"""Rows of the shared fault reports that are pure algorithm maths, with the file's own numbers."""

import json
from functools import cache
from typing import Any

import pytest
import torch

from algorithms import ops
from algorithms.grpo import GRPO
from algorithms.ppo import PPO
from tests.algorithms.support import make_batch
from tests.shared import SHARED, needs_shared

pytestmark = needs_shared


@cache
def expected(case: str) -> Any:  # noqa: ANN401 - a number, a list or a table, as the file has it
    """What the file says a right implementation gives."""
    lines = (SHARED / "cases" / "trainer_cases.jsonl").read_text().splitlines()
    return next(row["expected"] for row in map(json.loads, lines) if row["id"] == case)


def one(x: float) -> torch.Tensor:
    return torch.tensor([x], dtype=torch.float64)


def test_tr_05_group_statistics() -> None:
    batch = make_batch([1.0, 1, 1, 0, 0, 0, 0, 1], [1] * 8, [0] * 4 + [1] * 4)
    advantages = GRPO().targets(batch).advantages[:, 0]
    assert advantages.tolist() == pytest.approx(expected("tr-05")["right"], abs=1e-5)


def test_tr_11_aggregation() -> None:
    mask = torch.tensor([[True, False, False], [True, True, True]])
    token_loss = torch.tensor([[-1.0, 0, 0], [1.0, 1, 1]])
    result = lambda aggregation: (ops.loss_weights(mask, aggregation, 4) * token_loss).sum().item()
    right = expected("tr-11")
    assert result("sequence-mean") == pytest.approx(right["seq_mean_token_mean"], abs=1e-6)
    assert result("token-mean") == pytest.approx(right["token_mean"])
    assert result("constant") == pytest.approx(right["dr_grpo_const_len_4"])


def test_tr_12_token_mean_over_the_optimizer_batch() -> None:
    mask = torch.arange(80)[None] < torch.tensor([20, 80])[:, None]
    weights = ops.loss_weights(mask, "token-mean", 80)
    loss = (weights[0] * 3.0).sum() + (weights[1] * 1.0).sum()
    assert loss.item() == pytest.approx(expected("tr-12")["right"])


def test_tr_14_masked_tokens_are_in_no_denominator() -> None:
    mask = torch.arange(10)[None] < torch.tensor([10, 0, 0, 0])[:, None]
    loss = ops.loss_weights(mask, "token-mean", 10).sum().item()
    assert loss == pytest.approx(expected("tr-14")["right"])


def test_tr_17_kl_estimators() -> None:
    right = expected("tr-17")
    for estimator in ("k1", "k2", "k3"):
        assert ops.kl(one(-1), one(-2), estimator).item() == pytest.approx(right[estimator], abs=1e-6)


@pytest.mark.parametrize("estimator", ["k1", "k2", "k3"])
def test_tr_18_kl_gradients(estimator: ops.KLEstimator) -> None:
    pi = one(-1).requires_grad_()
    ops.kl(pi, one(-2), estimator).sum().backward()
    assert pi.grad is not None
    assert pi.grad.item() == pytest.approx(expected("tr-18")["d" + estimator], abs=1e-6)


def test_tr_33_terminal_reward() -> None:
    batch = make_batch([2.0, 2.0], [3, 5], [0, 1], values=torch.zeros(2, 5))
    assert PPO(whiten="none").targets(batch).advantages[0].tolist() == expected("tr-33")["advantages"]


def test_tr_34_masked_values() -> None:
    rewards, values = torch.tensor([[0.0, 1.0, 0.0]]), torch.tensor([[0.0, 0.0, 100.0]])
    advantages = ops.gae(rewards, values, torch.tensor([[True, True, False]]), 1.0, 0.95)
    assert advantages[0].tolist() == pytest.approx(expected("tr-34")["right"])


def test_tr_39_clipping() -> None:
    right = expected("tr-39")
    for case in ("2,-1", "0.5,-1", "2,+1", "0.5,+1"):
        ratio, advantage = map(float, case.split(","))
        assert -ops.clipped_surrogate(one(ratio), one(advantage), 0.2, 0.2).item() == pytest.approx(right[case])
    bounded = ops.dual_clip(ops.clipped_surrogate(one(10), one(-1), 0.2, 0.2), one(-1), 3.0)
    assert -bounded.item() == pytest.approx(right["dual_10,-1"])


def test_tr_40_clipping_reaches_the_loss() -> None:
    loss, _ = PPO().pg_loss(one(0), one(2), one(1))
    assert loss.item() == pytest.approx(expected("tr-40")["loss"])
    wider, _ = PPO(clip_ratio=0.5).pg_loss(one(0), one(2), one(1))
    assert wider.item() == pytest.approx(-1.5)


def test_tr_41_clip_fraction() -> None:
    ratio, advantages = torch.tensor([1.5, 1.5, 0.5, 0.5]), torch.tensor([1.0, -1.0, 1.0, -1.0])
    _, metrics = PPO().pg_loss(ratio.log(), ratio, advantages)
    assert metrics["clip_frac"].mean().item() == expected("tr-41")["clip_fraction"]


def test_tr_42_value_clip() -> None:
    loss = ops.value_loss(one(1.0), one(0.5), one(0.9), 0.2)
    assert loss.item() == pytest.approx(expected("tr-42")["loss"])
