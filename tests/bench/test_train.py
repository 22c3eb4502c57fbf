"""The reduction of losses, and what an update does."""

import math
from dataclasses import dataclass, replace

import pytest
import torch
from torch import Tensor

from algorithms import ops
from algorithms.core import Algorithm, Batch, PolicyOutput, Targets, TokenLoss
from algorithms.grpo import GRPO
from algorithms.ppo import PPO
from bench.batch import cut, micro_batches, pad_columns, scored, sequences
from bench.config import CriticConfig
from bench.rollout import Rollout, generator
from bench.train import DivergedError, Learner, Means, Metrics, Schedule, Update, minibatches
from bench.trainer import TrainEngine
from tests.bench.support import engine, ragged, rollout, tiny_llama

NO_LIMIT = 10_000


def rollouts(num_groups: int = 3, group_size: int = 4) -> list[Rollout]:
    draw = torch.Generator().manual_seed(3)
    result: list[Rollout] = []
    for g in range(num_groups):
        for i in range(group_size):
            n = int(torch.randint(1, 8, (1,), generator=draw))
            tokens = torch.randint(2, 40, (n,), generator=draw).tolist()
            result.append(rollout(f"p{g}", tokens=tokens, reward=float((i + g) % 3), correct=i == 0))
    return result


def batch_of(algorithm: Algorithm, rows: list[Rollout], trainer: TrainEngine, limit: int = NO_LIMIT) -> Batch:
    columns = pad_columns([r.completion.logprobs for r in rows])
    learner = Learner(engine=trainer, micro_batch_tokens=limit)
    return learner.annotate(algorithm, sequences(rows), scored(rows, 8), columns)


def update_of(
    algorithm: Algorithm, rows: list[Rollout], trainer: TrainEngine, batch: Batch, limit: int = NO_LIMIT
) -> Update:
    """The update by this batch, whole in one micro-batch unless limited."""
    learner = Learner(engine=trainer, micro_batch_tokens=limit)
    targets = algorithm.targets(batch)
    return Update(learner=learner, algorithm=algorithm, sequences=sequences(rows), batch=batch, targets=targets)


def updated(
    algorithm: Algorithm, rows: list[Rollout], trainer: TrainEngine, limit: int = NO_LIMIT, *, critic_only: bool = False
) -> tuple[Metrics, int]:
    """What one step's updates report."""
    batch = batch_of(algorithm, rows, trainer, limit)
    return update_of(algorithm, rows, trainer, batch, limit).make(schedule(critic_only=critic_only))


def schedule(*, critic_only: bool = False) -> Schedule:
    critic = CriticConfig(lr=1e-2)
    return Schedule(policy_lr=1e-2, critic=critic, critic_lr=1e-2, generator=generator(0), critic_only=critic_only)


def gradient(algorithm: Algorithm, max_tokens: int) -> Tensor:
    """The policy's gradient of one optimizer batch of all rows, off-policy, so that ratios matter."""
    rows = rollouts()
    trainer = engine(tiny_llama(), needs=sorted(algorithm.needs))
    batch = batch_of(algorithm, rows, trainer)
    shift = 0.3 * torch.randn(batch.mask.shape, generator=torch.Generator().manual_seed(1)) * batch.mask
    batch = replace(batch, old_logprobs=batch.old_logprobs + shift)
    update_of(algorithm, rows, trainer, batch, max_tokens).accumulate("policy", torch.arange(len(rows)))
    return torch.cat([p.grad.flatten() for p in trainer.policy.parameters() if p.grad is not None])


@pytest.mark.parametrize("aggregation", ["token-mean", "sequence-mean", "sequence-sum", "constant"])
def test_micro_batches_do_not_change_the_gradient(aggregation: str) -> None:
    """1, a few, or all rows at once."""
    algorithm = GRPO(group_size=4, kl_coef=0.0, aggregation=aggregation)  # type: ignore[arg-type]
    whole = gradient(algorithm, 10_000)
    assert whole.norm() > 1e-3
    for max_tokens in (1, 25):
        assert (gradient(algorithm, max_tokens) - whole).norm() < 1e-5 * whole.norm()


def test_token_mean_over_micro_batches_by_hand() -> None:
    """20 tokens of mean loss 3 and 80 of mean loss 1 make 1.4, not 2."""
    mask = torch.ones(2, 80, dtype=torch.bool)
    mask[0, 20:] = False
    loss = torch.where(torch.arange(2)[:, None] == 0, 3.0, 1.0) * mask
    weights = ops.loss_weights(mask, "token-mean", 80)
    assert float(sum((weights[i] * loss[i]).sum() for i in range(2))) == pytest.approx(1.4)


def test_the_step_is_the_same_for_any_micro_batch_size() -> None:
    algorithm = PPO(group_size=1)
    ends: list[Tensor] = []
    for max_tokens in (1, 10_000):
        rows = rollouts()
        trainer = engine(tiny_llama(), needs=["values"])
        updated(algorithm, rows, trainer, max_tokens)
        ends.append(torch.cat([p.detach().flatten() for m in trainer.modules.values() for p in m.parameters()]))
    assert torch.allclose(ends[0], ends[1], atol=2e-5)


def test_first_grpo_loss_is_zero_and_still_teaches() -> None:
    """On-policy the loss is 0 by construction; the gradient is not, and weights move."""
    algorithm = GRPO(group_size=4, kl_coef=0.0, num_minibatches=1)
    rows = rollouts()
    trainer = engine(tiny_llama())
    before = [p.detach().clone() for p in trainer.policy.parameters()]
    metrics, updates = updated(algorithm, rows, trainer)
    assert abs(metrics["actor/loss"]) < 1e-6
    assert metrics["actor/grad_norm"] > 0.01
    assert updates == 1
    assert any(not torch.equal(a, b) for a, b in zip(before, trainer.policy.parameters(), strict=True))


def test_old_values_stay_fixed_through_an_update() -> None:
    """The clip of the value loss needs the values of the rollout."""
    algorithm = PPO(group_size=1)
    rows = rollouts()
    trainer = engine(tiny_llama(), needs=["values"])
    batch = batch_of(algorithm, rows, trainer)
    kept = batch.values.clone()  # type: ignore[union-attr]
    update_of(algorithm, rows, trainer, batch).make(schedule())
    assert torch.equal(kept, batch.values)  # type: ignore[arg-type]
    assert not torch.allclose(batch_of(algorithm, rows, trainer).values, kept)  # type: ignore[arg-type]


def test_critic_pretraining_leaves_the_policy_alone() -> None:
    algorithm = PPO(group_size=1)
    rows = rollouts()
    trainer = engine(tiny_llama(), needs=["values"])
    before = [p.detach().clone() for p in trainer.policy.parameters()]
    metrics, updates = updated(algorithm, rows, trainer, critic_only=True)
    assert updates == 0
    assert metrics["critic/grad_norm"] > 0
    assert all(torch.equal(a, b) for a, b in zip(before, trainer.policy.parameters(), strict=True))


@dataclass(frozen=True, kw_only=True)
class Poisoned(GRPO):
    """A method whose second update has a loss that is not a number."""

    group_size: int = 4
    kl_coef: float = 0.0
    poison: float = math.nan

    def policy_loss(self, policy: PolicyOutput, batch: Batch, targets: Targets) -> TokenLoss:
        return TokenLoss(loss=policy.logprobs * self.poison, metrics={})


@pytest.mark.parametrize("poison", [math.nan, math.inf])
def test_a_loss_that_is_not_finite_is_not_applied(poison: float) -> None:
    rows = rollouts()
    trainer = engine(tiny_llama())
    before = [p.detach().clone() for p in trainer.policy.parameters()]
    algorithm = Poisoned(poison=poison)
    with pytest.raises(DivergedError, match="policy"):
        updated(algorithm, rows, trainer)
    assert all(torch.equal(a, b) for a, b in zip(before, trainer.policy.parameters(), strict=True))
    assert all(p.grad is None for p in trainer.policy.parameters())


def test_everything_truncated_and_masked_gives_zero() -> None:
    algorithm = GRPO(group_size=4, kl_coef=0.0, mask_truncated=True)
    rows = [replace(r, completion=replace(r.completion, finish_reason="length")) for r in rollouts()]
    trainer = engine(tiny_llama())
    metrics, _ = updated(algorithm, rows, trainer)
    assert metrics["actor/loss"] == 0
    assert metrics["actor/grad_norm"] == 0


def test_kl_coefficient_reaches_the_gradient() -> None:
    """Away from the reference, 0 and 10 differ."""
    got: list[Tensor] = []
    for coefficient in (0.0, 10.0):
        algorithm = GRPO(group_size=4, kl_coef=coefficient)
        trainer = engine(tiny_llama(), needs=sorted(algorithm.needs))
        if trainer.reference is not None:
            trainer.reference.load_state(tiny_llama(seed=7).state_dict())
        rows = rollouts()
        batch = batch_of(algorithm, rows, trainer)
        out = algorithm.policy_loss(
            trainer.forward(sequences(rows).pad(torch.arange(len(rows))), entropy_grad=False),
            batch,
            algorithm.targets(batch),
        )
        out.loss.sum().backward()
        got.append(torch.cat([p.grad.flatten() for p in trainer.policy.parameters() if p.grad is not None]))
    assert not torch.allclose(got[0], got[1])


def test_no_model_is_built_that_is_not_needed() -> None:
    held = {
        (algo, coefficient): set(engine(tiny_llama(), needs=sorted(cls(kl_coef=coefficient).needs)).memory())
        & {"policy", "critic", "reference"}
        for algo, cls in (("grpo", GRPO), ("ppo", PPO))
        for coefficient in (0.0, 0.1)
    }
    assert held[("grpo", 0.0)] == {"policy"}
    assert held[("grpo", 0.1)] == {"policy", "reference"}
    assert held[("ppo", 0.0)] == {"policy", "critic"}
    assert held[("ppo", 0.1)] == {"policy", "critic", "reference"}


def test_metrics_are_weighted_by_tokens() -> None:
    means = Means()
    means.add({"a": 1.0}, weight=30)
    means.add({"a": 4.0}, weight=10)
    means.maximum("m", 2.0)
    means.maximum("m", 1.0)
    assert means.result() == {"a": 1.75, "m": 2.0}


def test_minibatches_take_every_row_once() -> None:
    parts = minibatches(10, 3, generator(0))
    assert sorted(torch.cat(parts).tolist()) == list(range(10))
    assert {len(p) for p in parts} == {3, 4}


@pytest.mark.parametrize("max_tokens", [1, 12, 30, 1000])
def test_micro_batches_take_every_row_once_within_the_budget(max_tokens: int) -> None:
    rows = ragged(rows=20)
    parts = micro_batches(rows, torch.arange(20), max_tokens)
    assert sorted(torch.cat(parts).tolist()) == list(range(20))
    for part in parts:
        assert len(part) == 1 or rows.pad(part).tokens.numel() <= max_tokens


def test_cut_keeps_rows_and_narrows_columns() -> None:
    rows = rollouts()
    batch = batch_of(GRPO(group_size=4, kl_coef=0.0), rows, engine(tiny_llama()))
    part = cut(batch, torch.tensor([2, 5]), 3)
    assert part.mask.shape == (2, 3)
    assert torch.equal(part.rewards, batch.rewards[[2, 5]])
    assert part.max_new_tokens == 8


def test_groups_go_by_problem_not_by_position() -> None:
    """Shuffled rows keep their groups."""
    rows = rollouts()
    order = torch.randperm(len(rows), generator=generator(1)).tolist()
    straight = GRPO(group_size=4, kl_coef=0.0).targets(
        batch_of(GRPO(group_size=4, kl_coef=0.0), rows, engine(tiny_llama()))
    )
    shuffled = [rows[i] for i in order]
    mixed = GRPO(group_size=4, kl_coef=0.0).targets(
        batch_of(GRPO(group_size=4, kl_coef=0.0), shuffled, engine(tiny_llama()))
    )
    assert torch.allclose(straight.advantages[order], mixed.advantages)
