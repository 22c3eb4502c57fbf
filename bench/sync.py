"""Which weights the sampler generates from, and proof that it does."""

from collections.abc import Sequence

from torch import Tensor

from bench import proof
from bench.batch import pad_columns, sequences
from bench.config import RunConfig
from bench.rollout import RolloutEngine, generate
from bench.trainer import TrainEngine
from tasks.core import Problem

Snapshot = dict[str, Tensor]

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
        prove(sampler, trainer, problems[: proof.PROOF_PROBLEMS], config)
    sampler.load_weights(iter(past[0].items()))


def prove(sampler: RolloutEngine, trainer: TrainEngine, problems: Sequence[Problem], config: RunConfig) -> None:
    """Compare log-probs of fresh completions, by sampler and by trainer, which must hold equal weights.

    Raises:
        EngineError: they differ by more than arithmetic explains.
    """
    samples = generate(sampler, problems, 1, config.sampling, (config.seed, "proof"))
    tokens = sequences(samples)
    theirs = pad_columns([sample.completion.logprobs for sample in samples])
    proof.agree(proof.passed(trainer.logprobs, tokens, config.engine), theirs, tokens.mask, config.engine)


def renewal(trainer: TrainEngine, every: int, before: float, made: int) -> dict[str, float]:
    """Make the reference the policy where its time has come within a step's updates.

    Args:
        trainer: holds both.
        every: policy updates between two renewals; 0 for never.
        before: updates before the step.
        made: in the step.

    Returns:
        `actor/reference_renewed`, 1 or 0; nothing where it never is.
    """
    if not every:
        return {}
    due = (before + made) // every > before // every
    if due:
        trainer.renew_reference()
    return {"actor/reference_renewed": float(due)}
