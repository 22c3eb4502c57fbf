"""Tensors -> updated weights. The only file that reduces an RL loss."""

import math
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field, fields
from typing import Any

import torch
from torch import Tensor

from algorithms import ops
from algorithms.core import Aggregation, Algorithm, Batch, Scored, Targets, TokenLoss
from bench.batch import Padded, Sequences, cut, shared_out
from bench.config import CriticConfig
from bench.meter import blamed_on
from bench.ranks import ALONE, Ranks
from bench.trainer import Role, TrainEngine

Metrics = dict[str, float]
OWNERS = {"old_logprobs": "policy", "ref_logprobs": "reference", "values": "critic"}
PREFIX: dict[Role, str] = {"policy": "actor", "critic": "critic"}


class DivergedError(Exception):
    """A loss or a gradient is not finite; the update was not applied."""


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


@dataclass(frozen=True, kw_only=True)
class Learner:
    """What learns: the engine, the padded tokens that it takes at once, and the ranks that share its passes."""

    engine: TrainEngine
    micro_batch_tokens: int
    ranks: Ranks = ALONE

    @torch.no_grad()
    def annotate(self, algorithm: Algorithm, sequences: Sequences, scores: Scored, rollout_logprobs: Tensor) -> Batch:
        """The batch as the algorithm sees it: old policy, and the columns that it needs. Whole on every rank."""
        passes = {"old_logprobs": self.engine.logprobs}
        if "ref_logprobs" in algorithm.needs:
            passes["ref_logprobs"] = self.engine.ref_logprobs
        if "values" in algorithm.needs:
            passes["values"] = self.engine.values
        mask = sequences.mask
        columns: dict[str, Tensor] = {}
        for rows, counts in self.shared_out(sequences, torch.arange(len(sequences))):
            padded = sequences.pad(rows)
            for name, run in passes.items():
                with blamed_on(OWNERS[name]):
                    part = run(padded).cpu()
                columns.setdefault(name, part.new_zeros(mask.shape))
                columns[name][rows, : part.shape[1]] += counts * part
        self.engine.park()
        columns = {name: self.ranks.total(column) for name, column in columns.items()}
        shared: dict[str, Any] = {f.name: getattr(scores, f.name) for f in fields(scores)}
        return Batch(**shared, **columns, mask=mask, rollout_logprobs=rollout_logprobs)  # pyright: ignore[reportArgumentType]

    def shared_out(self, sequences: Sequences, rows: Tensor) -> list[tuple[Tensor, bool]]:
        """This rank's micro-batches of `rows`, each with whether it counts."""
        return shared_out(sequences, rows, self.micro_batch_tokens, self.ranks)


@dataclass(frozen=True, kw_only=True)
class Schedule:
    """How the updates of one step are made."""

    policy_lr: float
    critic: CriticConfig
    critic_lr: float
    generator: torch.Generator  # draws the minibatches
    critic_only: bool = False


@dataclass(frozen=True, kw_only=True)
class Update:
    """All of one step's optimizer updates: who learns, by which method, from what."""

    learner: Learner
    algorithm: Algorithm
    sequences: Sequences
    batch: Batch
    targets: Targets
    means: Means = field(default_factory=Means)

    def make(self, schedule: Schedule) -> tuple[Metrics, int]:
        """In order: the critic's pass, then the policy's.

        Returns:
            Metrics by `actor/` and `critic/` names, and the number of policy updates.

        Raises:
            DivergedError: before the first update whose loss or gradient is not finite.
        """
        algorithm, critic, num_updates = self.algorithm, schedule.critic, 0
        if "values" in algorithm.needs:
            for rows in self._minibatches(critic.num_epochs, critic.num_minibatches, schedule.generator):
                self.apply("critic", rows, schedule.critic_lr)
        num_epochs = 0 if schedule.critic_only else algorithm.num_epochs
        for rows in self._minibatches(num_epochs, algorithm.num_minibatches, schedule.generator):
            self.apply("policy", rows, schedule.policy_lr)
            num_updates += 1
        return self.means.result(), num_updates

    def apply(self, role: Role, rows: Tensor, lr: float) -> None:
        """One update of one network by these rows, unless its loss or its gradient is not finite."""
        engine, prefix = self.learner.engine, PREFIX[role]
        with blamed_on(role):
            loss = self.accumulate(role, rows)
            if not math.isfinite(loss):
                engine.clear(role)
                raise DivergedError(f"the {role}'s loss is {loss}")
            norm = engine.step(role, lr)
        if not math.isfinite(norm):
            raise DivergedError(f"the {role}'s gradient norm is {norm}")
        self.means.add({f"{prefix}/loss": loss, f"{prefix}/grad_norm": norm}, weight=1)
        self.means.maximum(f"{prefix}/grad_norm_max", norm)

    def accumulate(self, role: Role, rows: Tensor) -> float:
        """One gradient over `rows`, by micro-batches; returns the loss.

        The weights are formed over the whole optimizer batch, so the micro-batch losses add up to its loss however it
        is split, over ranks, too. The critic's loss is a mean over tokens whatever the policy's aggregation is. Sums
        stay on the device until the last micro-batch is queued: reading one waits for all that came before it.
        """
        learner, device = self.learner, self.learner.engine.device
        weights = self._weights(rows, self.algorithm.aggregation if role == "policy" else "token-mean")
        share = self._weights(rows, "token-mean")
        sums: dict[str, Tensor] = {}
        for micro, counts in learner.shared_out(self.sequences, rows):
            padded = self.sequences.pad(micro)
            width = int(padded.lengths.max())
            batch = cut(self.batch, micro, width).to(device)
            targets = cut(self.targets, micro, width).to(device)
            out = self._loss(role, padded, batch, targets)
            loss = (counts * weights[micro, :width].to(device) * out.loss).sum()
            learner.engine.backward(loss)
            of_tokens = counts * share[micro, :width].to(device)
            parts = {f"{PREFIX[role]}/{name}": (of_tokens * v.detach()).sum() for name, v in out.metrics.items()}
            for name, part in ({"loss": loss.detach()} | parts).items():
                sums[name] = sums.get(name, 0.0) + part.double()
        metrics = dict(zip(sums, learner.ranks.total(torch.stack(list(sums.values())).cpu()).tolist(), strict=True))
        total = metrics.pop("loss")
        self.means.add(metrics, weight=float(self.counted[rows].sum()))
        if "actor/kl" in metrics:
            self.means.maximum("actor/kl_max", metrics["actor/kl"])
        return total

    @property
    def counted(self) -> Tensor:
        """(B, T) bool: the tokens that count."""
        return self.batch.mask if self.targets.loss_mask is None else self.targets.loss_mask

    def _weights(self, rows: Tensor, aggregation: Aggregation) -> Tensor:
        """(B, T) weights of one optimizer batch, zeros outside it."""
        weights = torch.zeros(self.batch.mask.shape)
        weights[rows] = ops.loss_weights(self.counted[rows], aggregation, self.batch.max_new_tokens)
        return weights

    def _loss(self, role: Role, padded: Padded, batch: Batch, targets: Targets) -> TokenLoss:
        """A differentiable pass over one micro-batch."""
        engine, algorithm = self.learner.engine, self.algorithm
        if role == "critic":
            return algorithm.value_loss(engine.values(padded), batch, targets)
        return algorithm.policy_loss(engine.forward(padded, entropy_grad="entropy" in algorithm.needs), batch, targets)

    def _minibatches(self, num_epochs: int, count: int, generator: torch.Generator) -> Iterator[Tensor]:
        for _ in range(num_epochs):
            yield from minibatches(len(self.sequences), count, generator)


def minibatches(num_rows: int, count: int, generator: torch.Generator) -> list[Tensor]:
    """A random split of the rows into `count` optimizer batches, whose sizes differ by at most one."""
    return [part for part in torch.randperm(num_rows, generator=generator).tensor_split(count) if len(part)]
