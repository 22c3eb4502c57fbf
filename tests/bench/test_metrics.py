"""Figures of a step, against numbers worked by hand."""

import random
from dataclasses import replace

import pytest
import torch

from algorithms.core import Batch, Targets
from bench.metrics import (
    behaviour_metrics,
    error_by_position,
    explained_beyond_position,
    informative,
    rollout_metrics,
    selection_metrics,
)
from bench.rollout import Rollout
from bench.work import Work
from tasks.core import Problem, RewardWeights
from tasks.countdown import Countdown
from tasks.gsm8k import Gsm8k
from tests.bench.support import rollout


def test_shares_of_groups_by_hand() -> None:
    """Three groups of two: all right, all wrong, mixed; rewards of the wrong group differ by format."""
    rows = [
        rollout("a", reward=1.1, correct=True),
        rollout("a", reward=1.1, correct=True),
        rollout("b", reward=0.1),
        rollout("b", reward=0.0),
        rollout("c", reward=1.1, correct=True, tokens=(3, 1)),
        rollout("c", reward=0.0, finish="length", tokens=(3, 4, 5, 6)),
    ]
    found = rollout_metrics(rows, 2)
    assert found["reward/mean"] == pytest.approx(3.4 / 6)
    assert found["reward/correct_frac"] == pytest.approx(0.5)
    assert found["reward/solve_frac"] == pytest.approx(2 / 3)
    assert found["reward/frac_all_correct_groups"] == pytest.approx(1 / 3)
    assert found["reward/frac_all_wrong_groups"] == pytest.approx(1 / 3)
    assert found["reward/frac_zero_std_groups"] == pytest.approx(1 / 3)
    assert found["completion/length_mean"] == pytest.approx(18 / 6)
    assert found["completion/truncated_frac"] == pytest.approx(1 / 6)


@pytest.mark.parametrize(("group_size", "share"), [(2, 0.702), (4, 0.449), (8, 0.201), (16, 0.04)])
def test_the_share_without_signal_is_that_of_bernoulli_rewards(group_size: int, share: float) -> None:
    """At a pass rate of 0.1819 the share is p^G + (1 - p)^G; the logged one lies within four standard errors."""
    p, num_groups, draw = 0.1819, 2000, random.Random(0)
    assert p**group_size + (1 - p) ** group_size == pytest.approx(share, abs=5e-4)
    rows: list[Rollout] = []
    for g in range(num_groups):
        for _ in range(group_size):
            right = draw.random() < p
            rows.append(rollout(str(g), reward=float(right), correct=right, tokens=(1,)))
    found = rollout_metrics(rows, group_size)["reward/frac_zero_std_groups"]
    assert abs(found - share) < 4 * (share * (1 - share) / num_groups) ** 0.5 + 5e-4


def test_the_logged_reward_has_its_weights() -> None:
    """Values 1 and 0 at weights 0.7 and 0.3."""
    weights = RewardWeights(accuracy=0.7, format=0.3)
    assert weights.reward(correct=True, think_ok=False, box_ok=False) == pytest.approx(0.7)
    assert weights.reward(correct=False, think_ok=True, box_ok=False) == pytest.approx(0.15)
    signed = RewardWeights(right=1.0, wrong=-1.0, format=1.0)
    assert signed.reward(correct=False, think_ok=True, box_ok=True) == 0.0


def test_tokens_a_second_counts_real_tokens_over_the_phase() -> None:
    """50 real tokens of lengths 10 and 40 in one second are 50 a second."""
    work = Work(None, 1.0)
    measured = {"time/rollout_s": 1.0, "time/update_s": 2.0, "time/step_s": 4.0}
    rates = work.rates(measured, generated=50, trained=50, work={})
    assert rates.pop("perf/load") > 0  # the machine's
    assert rates == {"perf/generated_tokens_per_s": 50, "perf/trained_tokens_per_s": 25}


def test_shares_of_the_peak_by_hand() -> None:
    work = Work(None, 100.0)
    measured = {"time/rollout_s": 1.0, "time/update_s": 2.0, "time/step_s": 4.0}
    rates = work.rates(measured, generated=1, trained=1, work={"rollout": 50, "update": 150})
    assert rates["perf/mfu/rollout"] == 0.5
    assert rates["perf/mfu/update"] == 0.75
    assert rates["perf/mfu"] == 0.5


def test_the_critics_error_by_position() -> None:
    """One completion of ten tokens, reward 1, values 0.0, 0.1 ... 0.9: the i-th tenth is off by 1 - i / 10."""
    zeros = torch.zeros(1, 10)
    batch = Batch(
        rewards=torch.ones(1),
        correct=torch.ones(1, dtype=torch.bool),
        group=torch.zeros(1, dtype=torch.long),
        truncated=torch.zeros(1, dtype=torch.bool),
        lengths=torch.tensor([10]),
        max_new_tokens=10,
        mask=torch.ones(1, 10, dtype=torch.bool),
        old_logprobs=zeros,
        rollout_logprobs=zeros,
        values=torch.arange(10)[None] / 10,
    )
    found = error_by_position(batch)
    assert len(found) == 10
    assert found["critic/error_at/0.1"] == pytest.approx(1.0)
    assert found["critic/error_at/1.0"] == pytest.approx(0.1)


def test_behaviours_of_right_and_wrong_completions_by_hand() -> None:
    """Two right ones of 3 and 5 tokens with 2 verdicts in all, one wrong one of 4 tokens with a path given up."""
    problem = Problem(id="c", prompt="q", reference="70: 4 15 10")

    def made(text: str, tokens: int, *, correct: bool) -> Rollout:
        plain = rollout(tokens=(1,) * tokens, correct=correct)
        return replace(plain, problem=problem, completion=replace(plain.completion, text=text))

    rows = [
        made("<think>4*15=60+10=70 yes</think>", 3, correct=True),
        made("<think>70-10=60. 4*15=60+10=70 yes</think>", 5, correct=True),
        made("<think>4+15=19+10=29 4*10=40</think>", 4, correct=False),
    ]
    found = behaviour_metrics(Countdown(), rows)
    assert found["behaviour/exact"] == 1
    assert found["behaviour/right/verification"] == 1
    assert found["behaviour/right_per_100_tokens/verification"] == pytest.approx(100 * 2 / 8)
    assert found["behaviour/right/backward_chaining"] == 0.5
    assert found["behaviour/right/subgoals"] == 0.5
    assert found["behaviour/wrong/backtracking"] == 1
    assert found["behaviour/wrong_per_100_tokens/backtracking"] == 25
    assert found["behaviour/right/backtracking"] == 0


def test_where_none_is_right_there_is_no_figure_of_right_ones() -> None:
    found = behaviour_metrics(Gsm8k(), [rollout(correct=False)])
    assert found["behaviour/exact"] == 0
    assert [name for name in found if "right" in name] == []
    assert found["behaviour/wrong/verification"] == 0


def test_signal_as_predicted_and_as_measured() -> None:
    """One of four right: at p = 1/4 a group of two is mixed with 1 - 1/16 - 9/16; here one of two groups is."""
    rows = [rollout("a", correct=True), rollout("a"), rollout("b"), rollout("b")]
    found = rollout_metrics(rows, 2)
    assert found["reward/informative_predicted_frac"] == pytest.approx(6 / 16) == pytest.approx(informative(0.25, 2))
    assert found["reward/informative_frac"] == pytest.approx(1 / 2)
    assert found["reward/distinct_correct"] == 1


def test_what_is_trained_on_may_be_a_selection() -> None:
    """Groups of lengths 2, 4, 6 and 8 are generated, the first two trained on: 3 of a mean of 5, t = -4 / sqrt 2."""
    lengths = {"a": 2, "b": 4, "c": 6, "d": 8}
    rows = [rollout(name, tokens=(3,) * n, correct=name == "a") for name, n in lengths.items()]
    found = selection_metrics(rows, rows[:2])
    assert found["selection/length_shift"] == pytest.approx(-2)
    assert found["selection/length_z"] == pytest.approx(-4 / 2**0.5)
    assert found["selection/correct_shift"] == pytest.approx(0.25)
    assert selection_metrics(rows, rows) == {}


@pytest.mark.parametrize(("values", "explained"), [([[1.0, 0.0], [2.0, 1.0]], 0.8), ([[0.5, 0], [2.5, 1]], 1.0)])
def test_what_a_critic_knows_beside_the_position(values: list[list[float]], explained: float) -> None:
    """Returns .5 and 2.5, then 0 and 1: means by position 1.5 and .5 leave 2 + .5; values .5 off at two leave .5."""
    returns = torch.tensor([[0.5, 0.0], [2.5, 1.0]])
    batch = Batch(
        rewards=torch.zeros(2),
        correct=torch.zeros(2, dtype=torch.bool),
        group=torch.tensor([0, 1]),
        truncated=torch.zeros(2, dtype=torch.bool),
        lengths=torch.tensor([2, 2]),
        max_new_tokens=2,
        mask=torch.ones(2, 2, dtype=torch.bool),
        old_logprobs=torch.zeros(2, 2),
        rollout_logprobs=torch.zeros(2, 2),
        values=torch.tensor(values),
    )
    targets = Targets(advantages=torch.zeros(2, 2), returns=returns)
    assert explained_beyond_position(batch, targets) == pytest.approx(explained)
