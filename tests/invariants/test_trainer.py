"""Through the real training engine on a tiny real model, for every method: how a batch is cut changes nothing."""

import math
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch import Tensor

from algorithms import ALGORITHMS
from algorithms.core import Batch, PolicyOutput, Targets, TokenLoss
from algorithms.grpo import GRPO
from algorithms.ppo import PPO
from bench.engines.torch_train import TorchEngine
from bench.train import DivergedError, Learner, Update
from bench.trainer import Role
from tests.algorithms.support import plain
from tests.invariants.tiny import NO_LIMIT, KeepsGradients, annotated, engine_for, gradients, lively, tiny_sequences

EVERY = pytest.mark.parametrize("name", list(ALGORITHMS))
Gradients = dict[Role, Tensor]


def same(ours: Gradients, theirs: Gradients) -> None:
    assert ours.keys() == theirs.keys()
    for role, gradient in ours.items():
        assert gradient.any()
        assert torch.allclose(gradient, theirs[role], rtol=1e-4, atol=2e-6 * float(gradient.abs().max()))


@EVERY
def test_micro_batch_size_and_accumulation_change_nothing(name: str) -> None:
    """One row at a time, a few, or all at once."""
    algorithm = lively(name)
    engine = engine_for(algorithm)
    sequences, scores = tiny_sequences()
    batch, targets = annotated(engine, algorithm, sequences, scores)
    whole, metrics = gradients(engine, algorithm, sequences, batch, targets)
    for max_tokens in (1, 20, 33):
        split, split_metrics = gradients(engine, algorithm, sequences, batch, targets, max_tokens=max_tokens)
        same(whole, split)
        assert split_metrics == pytest.approx(metrics, rel=1e-4, abs=1e-6)


@EVERY
def test_row_order_and_neighbours_change_nothing(name: str) -> None:
    algorithm = lively(name)
    engine = engine_for(algorithm)
    batch, targets = annotated(engine, algorithm, *tiny_sequences())
    whole, _ = gradients(engine, algorithm, tiny_sequences()[0], batch, targets)
    order = torch.tensor([6, 1, 4, 0, 7, 3, 2, 5])
    other = engine_for(algorithm)
    shuffled, scores = tiny_sequences(order)
    same(whole, gradients(other, algorithm, shuffled, *annotated(other, algorithm, shuffled, scores), max_tokens=25)[0])


@EVERY
def test_gradient_checkpointing_changes_nothing(name: str) -> None:
    algorithm = lively(name)
    results: list[Gradients] = []
    for checkpointing in (False, True):
        engine = engine_for(algorithm, gradient_checkpointing=checkpointing)
        sequences, scores = tiny_sequences()
        batch, targets = annotated(engine, algorithm, sequences, scores)
        results.append(gradients(engine, algorithm, sequences, batch, targets)[0])
    same(*results)


@EVERY
def test_rows_without_a_counted_token_have_no_gradient(name: str) -> None:
    """A minibatch of truncated, masked rows alone: loss 0, gradient 0, nothing raised."""
    algorithm = lively(name)
    engine = engine_for(algorithm)
    sequences, scores = tiny_sequences()
    scores = replace(scores, truncated=torch.ones(8, dtype=torch.bool))
    batch, targets = annotated(engine, algorithm, sequences, scores)
    kept, metrics = gradients(engine, algorithm, sequences, batch, targets)
    assert not any(gradient.any() for gradient in kept.values())
    assert metrics["actor/loss"] == 0.0


@EVERY
def test_the_first_update_is_on_policy(name: str) -> None:
    """Ratio 1 within 1e-5 whatever the micro-batches, and exactly 1 for equal shapes; KL to the old policy 0."""
    algorithm = plain(name)
    engine = engine_for(algorithm)
    sequences, scores = tiny_sequences()
    batch, targets = annotated(engine, algorithm, sequences, scores, move=0.0)
    _, metrics = gradients(engine, algorithm, sequences, batch, targets)
    assert metrics["actor/kl"] == pytest.approx(0.0, abs=1e-9)
    if name == "sao":
        return  # its ratio is to the sampler, whose log-probs are others here
    assert metrics["actor/ratio"] == pytest.approx(1.0, abs=1e-6)
    _, split = gradients(engine, algorithm, sequences, batch, targets, max_tokens=20)
    assert split["actor/ratio"] == pytest.approx(1.0, abs=1e-5)


class EveryOther(KeepsGradients):
    """A rank that runs every second micro-batch of an optimizer batch whose weights are formed over all of it."""

    rank = 0
    seen = 0

    def backward(self, loss: Tensor) -> None:
        """Skip the other rank's."""
        self.seen += 1
        if self.seen % 2 == self.rank:
            loss.backward()

    def step(self, role: Role, lr: float) -> float:
        """Sum the ranks' gradients first."""
        for parameter in self.modules[role].parameters():
            parameter.grad = torch.zeros_like(parameter) if parameter.grad is None else parameter.grad
            dist.all_reduce(parameter.grad)
        return super().step(role, lr)


def rank_work(rank: int, store: str, out: str) -> None:
    """Both ranks: gather the columns, assign credit on the whole batch, sum the gradients."""
    dist.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=2)
    torch.set_num_threads(1)
    EveryOther.rank = rank
    results: dict[str, Gradients] = {}
    for name in ALGORITHMS:
        algorithm = lively(name)
        engine = engine_for(algorithm, EveryOther)
        sequences, scores = tiny_sequences()
        batch, _ = annotated(engine, algorithm, sequences, scores)
        mine = torch.arange(8)[rank::2]  # each rank holds one row of every group
        parts: list[Batch | None] = [None, None]
        dist.all_gather_object(parts, batch[mine])
        results[name], _ = gradients(
            engine, algorithm, sequences, batch, gathered_targets(algorithm, parts), max_tokens=20
        )
    if rank == 0:
        torch.save(results, out)
    dist.destroy_process_group()


def gathered_targets(algorithm: object, parts: list[Batch | None]) -> Targets:
    """Targets of the rows in the order that gathering gives, put back in their places."""
    even, odd = parts
    assert even is not None
    assert odd is not None
    columns = {
        key: torch.cat([value, getattr(odd, key)]) if isinstance(value, Tensor) else value
        for key, value in vars(even).items()
    }
    targets: Targets = algorithm.targets(Batch(**columns))  # type: ignore[attr-defined]
    return targets[torch.tensor([0, 4, 1, 5, 2, 6, 3, 7])]


@pytest.mark.slow
def test_two_processes_change_nothing(tmp_path: Path) -> None:
    """A data-parallel split over gloo that cuts every group in two, for every method."""
    mp.spawn(rank_work, args=(str(tmp_path / "store"), str(tmp_path / "out.pt")), nprocs=2)
    results: dict[str, Gradients] = torch.load(tmp_path / "out.pt")
    for name in ALGORITHMS:
        algorithm = lively(name)
        engine = engine_for(algorithm)
        sequences, scores = tiny_sequences()
        batch, targets = annotated(engine, algorithm, sequences, scores)
        same(gradients(engine, algorithm, sequences, batch, targets)[0], results[name])


def test_the_critics_loss_is_a_token_mean_whatever_the_policys_is() -> None:
    kept: list[Gradients] = []
    for aggregation in ("token-mean", "sequence-sum"):
        algorithm = PPO(aggregation=aggregation)  # type: ignore[arg-type]
        engine = engine_for(algorithm)
        sequences, scores = tiny_sequences()
        kept.append(gradients(engine, algorithm, sequences, *annotated(engine, algorithm, sequences, scores))[0])
    assert torch.equal(kept[0]["critic"], kept[1]["critic"])
    assert not torch.allclose(kept[0]["policy"], kept[1]["policy"])


def test_metrics_are_token_means_whatever_the_aggregation_is() -> None:
    seen: list[dict[str, float]] = []
    for aggregation in ("token-mean", "sequence-mean", "sequence-sum", "constant"):
        algorithm = GRPO(aggregation=aggregation, group_size=2)  # type: ignore[arg-type]
        engine = engine_for(algorithm)
        sequences, scores = tiny_sequences()
        batch, targets = annotated(engine, algorithm, sequences, scores)
        metrics = gradients(engine, algorithm, sequences, batch, targets)[1]
        seen.append({k: v for k, v in metrics.items() if "grad" not in k and k != "actor/loss"})
    assert all(metrics == pytest.approx(seen[0]) for metrics in seen)


def test_the_reference_stays_where_it_was() -> None:
    """And starts where the policy does: KL 0 at the first step."""
    algorithm = GRPO(group_size=2)
    engine = engine_for(algorithm)
    sequences, scores = tiny_sequences()
    before, _ = annotated(engine, algorithm, sequences, scores, move=0.1)
    after, _ = annotated(engine, algorithm, sequences, scores)
    assert before.ref_logprobs is not None
    assert after.ref_logprobs is not None
    assert torch.equal(before.ref_logprobs, before.old_logprobs)
    assert torch.equal(before.ref_logprobs, after.ref_logprobs)
    assert not torch.allclose(before.old_logprobs, after.old_logprobs)


@dataclass(frozen=True, kw_only=True)
class Broken(GRPO):
    """A loss or its gradient, one of the two not finite."""

    group_size: int = 2
    kl_coef: float = 0.0
    infinite_loss: bool = False

    def policy_loss(self, policy: PolicyOutput, batch: Batch, targets: Targets) -> TokenLoss:
        loss = policy.logprobs + math.inf if self.infinite_loss else (0 * policy.logprobs).abs().sqrt()
        return TokenLoss(loss=loss, metrics={})


@pytest.mark.parametrize("infinite_loss", [True, False])
def test_neither_a_loss_nor_a_gradient_that_is_not_finite_is_applied(infinite_loss: bool) -> None:
    algorithm = Broken(infinite_loss=infinite_loss)
    engine = engine_for(algorithm, TorchEngine)  # type: ignore[arg-type]
    sequences, scores = tiny_sequences()
    batch, targets = annotated(engine, algorithm, sequences, scores)
    before = [p.detach().clone() for p in engine.policy.parameters()]
    learner = Learner(engine=engine, micro_batch_tokens=NO_LIMIT)
    update = Update(learner=learner, algorithm=algorithm, sequences=sequences, batch=batch, targets=targets)
    with pytest.raises(DivergedError):
        update.apply("policy", torch.arange(8), 1e-3)
    assert all(torch.equal(a, b) for a, b in zip(before, engine.policy.parameters(), strict=True))
