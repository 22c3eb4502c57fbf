"""Which weights the sampler generates from, and proof that it does."""

from collections.abc import Sequence

import torch
from torch import Tensor

from bench.batch import micro_batches, pad_columns, sequences
from bench.config import RunConfig
from bench.rollout import EngineError, RolloutEngine, generate
from bench.trainer import TrainEngine
from tasks.core import Problem

Snapshot = dict[str, Tensor]

TOLERANCE = {"float32": 1e-3, "bfloat16": 0.1}  # nats a token; the kernels' own differences are a tenth of it
PROOF_PROBLEMS = 8
PROOF_EVERY = 10  # steps, after the first few


def hand_over(
    sampler: RolloutEngine,
    trainer: TrainEngine,
    past: list[Snapshot],
    problems: Sequence[Problem],
    config: RunConfig,
    step: int,
) -> None:
    """Give the sampler the policy's weights of `rollout_lag` steps ago (the first ones, before there are older).

    `past` holds what later steps will generate from, oldest first; it is brought up to date. Under a lag the batch
    cannot prove a sync, since it is sampled from other weights than the trainer's by intent: a few completions do.

    Raises:
        EngineError: the sampler does not generate from what it was given.
    """
    if not config.rollout_lag:
        sampler.load_weights(trainer.weights())
        return
    past.append({name: tensor.cpu().clone() for name, tensor in trainer.weights()})
    del past[: -(config.rollout_lag + 1)]
    if step < 3 or step % PROOF_EVERY == 0:
        sampler.load_weights(iter(past[-1].items()))
        prove(sampler, trainer, problems[:PROOF_PROBLEMS], config)
    sampler.load_weights(iter(past[0].items()))


def prove(sampler: RolloutEngine, trainer: TrainEngine, problems: Sequence[Problem], config: RunConfig) -> None:
    """Compare log-probs of fresh completions, by sampler and by trainer, which must hold equal weights.

    Raises:
        EngineError: they differ by more than arithmetic explains.
    """
    samples = generate(sampler, problems, 1, config.sampling, (config.seed, "proof"))
    tokens = sequences(samples)
    theirs = pad_columns([s.completion.logprobs for s in samples])
    ours = torch.zeros(tokens.mask.shape)
    for rows in micro_batches(tokens, torch.arange(len(tokens)), config.engine.tokens_at_once):
        part = trainer.logprobs(tokens.pad(rows)).float().cpu()
        ours[rows, : part.shape[1]] = part
    agree(ours, theirs, tokens.mask, config)


def agree(trainer_logprobs: Tensor, rollout_logprobs: Tensor, mask: Tensor, config: RunConfig) -> None:
    """Refuse (B, T) log-probs that equal weights cannot explain.

    A stale sampler shows once the policy has moved from what it generates from, so every step looks.

    Raises:
        EngineError: their mean absolute difference is above the tolerance.
    """
    given = config.engine.rollout_tolerance
    limit = TOLERANCE[config.engine.dtype or "float32"] if given is None else given
    error = float((trainer_logprobs - rollout_logprobs)[mask].abs().mean())
    if not error <= limit:
        raise EngineError(
            f"the sampler does not generate from the policy's weights: its log-probs are off by {error:.3g} nats a "
            f"token on average, where {limit:g} is allowed (--engine.rollout-tolerance)"
        )
