"""Rewards at positions: who reads them, by numbers worked out by hand and by identities."""

from dataclasses import replace

import pytest
import torch
from torch import Tensor

from algorithms import ALGORITHMS, credit
from algorithms.core import Batch
from algorithms.ppo import PPO
from algorithms.step_grpo import StepGRPO
from tests.algorithms.support import make_batch, plain, some_batch

READERS = [name for name, cls in ALGORITHMS.items() if cls.reads_token_rewards]


def stepped() -> Batch:
    """Two siblings of two steps of two tokens, the second with an end mark of its own; they earned 1, 0 and 0, .5."""
    token_rewards = torch.tensor([[0, 1.0, 0, 0, 0], [0, 0, 0, 0.5, 0]], dtype=torch.float64)
    steps = torch.tensor([[0, 0, 1, 1, 2], [0, 0, 1, 1, 2]])
    return make_batch([1.0, 0.5], [4, 5], [0, 0], token_rewards=token_rewards, steps=steps)


def advantages(method: StepGRPO | PPO, batch: Batch) -> list[list[float]]:
    return [[round(x, 6) for x in row] for row in method.targets(batch).advantages.tolist()]


def test_own_step_less_the_groups_mean() -> None:
    method = StepGRPO(group_size=2, scale="none")
    assert advantages(method, stepped()) == [[0.5, 0.5, -0.25, -0.25, 0], [-0.5, -0.5, 0.25, 0.25, 0]]


def test_all_that_follows_less_the_groups_mean() -> None:
    method = StepGRPO(group_size=2, scale="none", reach="rest")
    assert advantages(method, stepped()) == [[0.25, 0.25, -0.25, -0.25, 0], [-0.25, -0.25, 0.25, 0.25, 0]]


def test_a_step_that_a_sibling_lacks_is_compared_with_those_that_have_it() -> None:
    batch = make_batch(
        [0.0, 1.0, 3.0],
        [1, 2, 2],
        [0, 0, 0],
        token_rewards=torch.tensor([[0, 0], [0, 1.0], [0, 3.0]], dtype=torch.float64),
        steps=torch.tensor([[0, 0], [0, 1], [0, 1]]),
    )
    assert advantages(StepGRPO(scale="none"), batch) == [[0, 0], [0, -1], [0, 1]]


def test_paid_at_the_end_it_is_the_group_advantage() -> None:
    """Dr. GRPO's advantage, then the division by the batch's spread."""
    batch = some_batch()
    found = StepGRPO(scale="none").targets(batch).advantages
    assert torch.allclose(found, plain("dr_grpo").targets(batch).advantages)
    scaled = StepGRPO().targets(batch).advantages
    assert scaled[batch.mask].std().item() == pytest.approx(1, abs=0.05)
    assert torch.allclose(scaled / scaled.abs().max(), found / found.abs().max())


def test_gae_by_hand() -> None:
    """Values 0.5 before each step: at lambda 0 a step's error, at lambda 1 all that follows."""
    batch = replace(stepped(), values=0.5 * stepped().mask.double())
    method = PPO(gae_over="step", gae_lambda=0.0, whiten="none", value_clip=None)
    assert advantages(method, batch)[0] == [1.0, 1.0, -0.5, -0.5, 0]
    assert advantages(method, batch)[1] == [0, 0, 0.5, 0.5, -0.5]
    assert advantages(replace(method, gae_lambda=1.0), batch)[0] == [0.5, 0.5, -0.5, -0.5, 0]


def one_token_a_step(batch: Batch) -> Batch:
    """Each token a step of its own."""
    return replace(batch, steps=torch.arange(batch.mask.shape[1]).expand(batch.mask.shape))


@pytest.mark.parametrize("lam", [0.0, 0.7, 1.0])
def test_one_token_a_step_is_gae(lam: float) -> None:
    batch = one_token_a_step(some_batch())
    by_token, by_step = (PPO(gae_lambda=lam, gae_over=over).targets(batch) for over in ("token", "step"))
    assert torch.allclose(by_token.advantages, by_step.advantages)
    assert by_token.returns is not None
    assert by_step.returns is not None
    assert torch.allclose(by_token.returns, by_step.returns)


@pytest.mark.parametrize("name", list(ALGORITHMS))
def test_only_those_that_say_so_read_where_a_reward_was_earned(name: str) -> None:
    """The others take the sum: other places of the same sum change nothing."""
    batch = stepped()
    moved = replace(batch, token_rewards=at_first(batch))
    same = torch.equal(plain(name).targets(batch).advantages, plain(name).targets(moved).advantages)
    assert same is (name not in READERS)


def at_first(batch: Batch) -> Tensor:
    return torch.cat([batch.rewards[:, None], torch.zeros_like(batch.old_logprobs[:, 1:])], 1)


def test_what_shaping_adds_is_paid_at_the_end() -> None:
    batch = stepped()
    found = credit.paid(batch.rewards - 1, batch.token_rewards, batch.mask)
    assert found.tolist() == [[0, 1, 0, -1, 0], [0, 0, 0, 0.5, -1]]
