"""Gradients of one arm at fixed weights: rollouts, credit and loss by the run's own code; no update of the policy."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from algorithms.core import Algorithm
from bench.batch import Sequences, pad_columns, scored, sequences
from bench.engines.torch_train import TorchEngine
from bench.gather import generated
from bench.loop import at_start
from bench.parts import Parts
from bench.rollout import ProblemStream, Rollout, generator
from bench.train import Learner, Schedule, Update


@dataclass(frozen=True, kw_only=True)
class Measured:
    """What was measured of an arm."""

    gradients: Tensor  # (m, P) of m batches, on the CPU
    samples: int  # of a batch
    tokens: float  # generated for a sample
    flops: float | None  # counted for a sample: rollout, passes, one update; None where they are not counted
    explained: float | None = None  # of the returns' variance by the critic, on these rollouts, which it has not seen


def rollouts_of(parts: Parts, samples: int, purpose: int) -> list[Rollout]:
    """Fresh rollouts of the arm's group size; `purpose` keeps those for the critic, an arm and the reference apart."""
    size = parts.config.algo.group_size
    state = at_start(parts.config.algo, parts.work)
    seeded = replace(parts, config=replace(parts.config, seed=parts.config.seed + 1_000_003 * purpose))
    stream = ProblemStream(parts.problems, seeded.config.seed)
    return generated(seeded, state, stream, samples // size)


def measure(parts: Parts, samples: int, purpose: int) -> Measured:
    """The gradient of each batch of `samples_per_step` out of `samples` rollouts."""
    config, batch_size = parts.config, parts.config.samples_per_step
    rollouts = rollouts_of(parts, samples, purpose)
    found: list[Tensor] = []
    explained: list[float] = []
    for start in range(0, len(rollouts), batch_size):
        update = prepared(parts, rollouts[start : start + batch_size])
        found.append(gradient(update))
        if update.batch.values is not None and update.targets.returns is not None:
            mask = update.batch.mask
            returns, values = update.targets.returns[mask], update.batch.values[mask]
            explained.append(1 - float((returns - values).var() / returns.var()))
    work = parts.work.step(rollouts, rollouts, once(config.algo), config, {}, policy_updated=True)
    return Measured(
        gradients=torch.stack(found),
        samples=batch_size,
        tokens=sum(len(r.completion.token_ids) for r in rollouts) / len(rollouts),
        flops=sum(work.values()) / len(rollouts) if work else None,
        explained=sum(explained) / len(explained) if explained else None,
    )


def once(algorithm: Algorithm) -> Algorithm:
    """The method with one pass over its batch: one gradient is measured, and one is counted."""
    return replace(algorithm, num_epochs=1, num_minibatches=1)


def prepared(parts: Parts, rollouts: Sequence[Rollout]) -> Update:
    """A batch with its targets, as a step makes them."""
    config, algorithm = parts.config, once(parts.config.algo)
    tokens: Sequences = sequences(rollouts)
    plain = scored(rollouts, config.sampling.generation_budget)
    scores = replace(plain, rewards=algorithm.shape_rewards(plain))
    learner = Learner(engine=parts.trainer, micro_batch_tokens=config.engine.tokens_at_once, ranks=parts.ranks)
    batch = learner.annotate(algorithm, tokens, scores, pad_columns([r.completion.logprobs for r in rollouts]))
    return Update(learner=learner, algorithm=algorithm, sequences=tokens, batch=batch, targets=algorithm.targets(batch))


def gradient(update: Update) -> Tensor:
    """(P,) of the policy's loss over the whole batch; nothing is applied."""
    engine = update.learner.engine
    assert isinstance(engine, TorchEngine), "gradients are read from one device's parameters"
    update.accumulate("policy", torch.arange(len(update.sequences)))
    parameters = [p for p in engine.modules["policy"].parameters() if p.requires_grad]
    flat = torch.cat([(torch.zeros_like(p) if p.grad is None else p.grad).flatten() for p in parameters])
    engine.clear("policy")
    return flat.float().cpu()


def fit_critic(parts: Parts, samples: int) -> None:
    """Train the arm's critic on rollouts of the policy as it is, by the passes and the rate of its own settings."""
    config = parts.config
    assert config.critic.lr is not None, "settings are resolved before they are used"
    rollouts = rollouts_of(parts, samples, purpose=1)
    for start in range(0, len(rollouts), config.samples_per_step):
        prepared(parts, rollouts[start : start + config.samples_per_step]).make(
            Schedule(
                policy_lr=0.0,
                critic=config.critic,
                critic_lr=config.critic.lr,
                generator=generator(config.seed, "gradient critic", start),
                critic_only=True,
            )
        )
