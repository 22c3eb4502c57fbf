"""Tensors -> updated weights. The only file that reduces an RL loss."""

import math
from collections import defaultdict
from dataclasses import dataclass, fields
from typing import Any, Protocol, TypeVar

import torch
from torch import Tensor

from algorithms import ops
from algorithms.core import Aggregation, Algorithm, Batch, Rows, Scored, Targets, TokenLoss
from bench.batch import Padded, Sequences, cut, shared_out, to_device
from bench.config import CriticConfig
from bench.meter import blamed_on
from bench.ranks import ALONE, Ranks
from bench.trainer import Role, TrainEngine

Metrics = dict[str, float]
OWNERS = {"old_logprobs": "policy", "ref_logprobs": "reference", "values": "critic"}
RowsT = TypeVar("RowsT", bound=Rows)


class DivergedError(Exception):
    """A loss or a gradient is not finite; the update was not applied."""


@dataclass(frozen=True, kw_only=True)
class LearningRates:
    """Of one step."""

    policy: float
    critic: float


class Means:
    """Means weighted by tokens, and maxima, over the updates of a step."""

    def __init__(self) -> None:
        self._total: defaultdict[str, float] = defaultdict(float)
        self._weight: defaultdict[str, float] = defaultdict(float)
        self._max: dict[str, float] = {}

    def add(self, values: Metrics, weight: float) -> None:
        """Add one update's means, which `weight` tokens stand behind."""
        for name, value in values.items():
            self._total[name] += weight * value
            self._weight[name] += weight

    def maximum(self, name: str, value: float) -> None:
        """Keep the largest value of a metric."""
        self._max[name] = max(value, self._max.get(name, -math.inf))

    def result(self) -> Metrics:
        """Every mean that has any weight, and every maximum."""
        return {k: self._total[k] / w for k, w in self._weight.items() if w} | self._max


@torch.no_grad()
def annotate(
    engine: TrainEngine,
    algorithm: Algorithm,
    sequences: Sequences,
    scores: Scored,
    rollout_logprobs: Tensor,
    max_tokens: int,
    ranks: Ranks = ALONE,
) -> Batch:
    """The batch as the algorithm sees it: old policy, and the columns that it needs. Whole on every rank."""
    passes = {"old_logprobs": engine.logprobs}
    if "ref_logprobs" in algorithm.needs:
        passes["ref_logprobs"] = engine.ref_logprobs
    if "values" in algorithm.needs:
        passes["values"] = engine.values
    mask = sequences.mask
    columns: dict[str, Tensor] = {}
    for rows, counts in shared_out(sequences, torch.arange(len(sequences)), max_tokens, ranks):
        padded = sequences.pad(rows)
        for name, run in passes.items():
            with blamed_on(OWNERS[name]):
                part = run(padded).cpu()
            columns.setdefault(name, part.new_zeros(mask.shape))
            columns[name][rows, : part.shape[1]] += counts * part
    engine.park()
    columns = {name: ranks.total(column) for name, column in columns.items()}
    shared: dict[str, Any] = {f.name: getattr(scores, f.name) for f in fields(scores)}
    return Batch(**shared, **columns, mask=mask, rollout_logprobs=rollout_logprobs)  # pyright: ignore[reportArgumentType]


def update(
    engine: TrainEngine,
    algorithm: Algorithm,
    critic: CriticConfig,
    sequences: Sequences,
    batch: Batch,
    targets: Targets,
    rates: LearningRates,
    max_tokens: int,
    generator: torch.Generator,
    *,
    critic_only: bool = False,
    ranks: Ranks = ALONE,
) -> tuple[Metrics, int]:
    """All of one step's optimizer updates, in order: the critic's pass, then the policy's.

    Returns:
        Metrics by `actor/` and `critic/` names, and the number of policy updates.

    Raises:
        DivergedError: before the first update whose loss or gradient is not finite.
    """
    means = Means()
    if "values" in algorithm.needs:
        for _ in range(critic.num_epochs):
            for rows in minibatches(len(sequences), critic.num_minibatches, generator):
                critic_step(engine, algorithm, sequences, batch, targets, rows, rates.critic, max_tokens, means, ranks)
    num_updates = 0
    for _ in range(0 if critic_only else algorithm.num_epochs):
        for rows in minibatches(len(sequences), algorithm.num_minibatches, generator):
            policy_step(engine, algorithm, sequences, batch, targets, rows, rates.policy, max_tokens, means, ranks)
            num_updates += 1
    return means.result(), num_updates


def minibatches(num_rows: int, count: int, generator: torch.Generator) -> list[Tensor]:
    """A random split of the rows into `count` optimizer batches, whose sizes differ by at most one."""
    return [part for part in torch.randperm(num_rows, generator=generator).tensor_split(count) if len(part)]


def policy_step(
    engine: TrainEngine,
    algorithm: Algorithm,
    sequences: Sequences,
    batch: Batch,
    targets: Targets,
    rows: Tensor,
    lr: float,
    max_tokens: int,
    means: Means,
    ranks: Ranks = ALONE,
) -> None:
    """One update of the policy."""

    def micro_loss(padded: Padded, part: Batch, part_targets: Targets) -> TokenLoss:
        output = engine.forward(padded, entropy_grad="entropy" in algorithm.needs)
        return algorithm.policy_loss(output, part, part_targets)

    with blamed_on("policy"):
        loss = accumulate(
            engine,
            sequences,
            batch,
            targets,
            rows,
            algorithm.aggregation,
            max_tokens,
            micro_loss,
            means,
            "actor",
            ranks,
        )
        apply(engine, "policy", lr, loss, means, "actor")


def critic_step(
    engine: TrainEngine,
    algorithm: Algorithm,
    sequences: Sequences,
    batch: Batch,
    targets: Targets,
    rows: Tensor,
    lr: float,
    max_tokens: int,
    means: Means,
    ranks: Ranks = ALONE,
) -> None:
    """One update of the critic; its loss is a mean over tokens whatever the policy's aggregation is."""

    def micro_loss(padded: Padded, part: Batch, part_targets: Targets) -> TokenLoss:
        return algorithm.value_loss(engine.values(padded), part, part_targets)

    with blamed_on("critic"):
        loss = accumulate(
            engine, sequences, batch, targets, rows, "token-mean", max_tokens, micro_loss, means, "critic", ranks
        )
        apply(engine, "critic", lr, loss, means, "critic")


class MicroLoss(Protocol):
    """A differentiable pass over one micro-batch."""

    def __call__(self, padded: Padded, part: Batch, part_targets: Targets) -> TokenLoss: ...


def accumulate(
    engine: TrainEngine,
    sequences: Sequences,
    batch: Batch,
    targets: Targets,
    rows: Tensor,
    aggregation: Aggregation,
    max_tokens: int,
    micro_loss: MicroLoss,
    means: Means,
    prefix: str,
    ranks: Ranks = ALONE,
) -> float:
    """One gradient over `rows`, by micro-batches; returns the loss.

    The weights are formed over the whole optimizer batch, so the micro-batch losses add up to its loss however it
    is split, over ranks, too.
    """
    counted = targets.loss_mask if targets.loss_mask is not None else batch.mask
    weights = torch.zeros(batch.mask.shape)
    weights[rows] = ops.loss_weights(counted[rows], aggregation, batch.max_new_tokens)
    share = torch.zeros(batch.mask.shape)
    share[rows] = ops.loss_weights(counted[rows], "token-mean", batch.max_new_tokens)
    sums: defaultdict[str, float] = defaultdict(float)
    for micro, counts in shared_out(sequences, rows, max_tokens, ranks):
        padded = sequences.pad(micro)
        width = int(padded.lengths.max())
        out = micro_loss(
            padded,
            to_device(cut(batch, micro, width), engine.device),
            to_device(cut(targets, micro, width), engine.device),
        )
        part = (counts * weights[micro, :width].to(engine.device) * out.loss).sum()
        engine.backward(part)
        sums["loss"] += float(part.detach())
        of_tokens = counts * share[micro, :width].to(engine.device)
        for name, value in out.metrics.items():
            sums[f"{prefix}/{name}"] += float((of_tokens * value.detach()).sum())
    metrics = ranks.sum(sums)
    loss = metrics.pop("loss")
    means.add(metrics, weight=float(counted[rows].sum()))
    if "actor/kl" in metrics:
        means.maximum("actor/kl_max", metrics["actor/kl"])
    return loss


def apply(engine: TrainEngine, role: Role, lr: float, loss: float, means: Means, prefix: str) -> None:
    """Step unless the loss or the gradient is not finite."""
    if not math.isfinite(loss):
        engine.clear(role)
        raise DivergedError(f"the {role}'s loss is {loss}")
    norm = engine.step(role, lr)
    if not math.isfinite(norm):
        raise DivergedError(f"the {role}'s gradient norm is {norm}")
    means.add({f"{prefix}/loss": loss, f"{prefix}/grad_norm": norm}, weight=1)
    means.maximum(f"{prefix}/grad_norm_max", norm)
