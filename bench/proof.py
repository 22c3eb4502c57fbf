"""Proof, before anything is written, that what samples and a plain forward pass are one model."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from bench.batch import Padded, Sequences, micro_batches, pad_columns
from bench.config import EngineConfig, Sampling
from bench.ground.errors import UserError
from bench.meter import is_out_of_memory
from bench.rollout import EngineError, RolloutEngine, derive_seed

Logprobs = Callable[[Padded], Tensor]  # (b, t) of the generated tokens, at the sampling's temperature

TOLERANCE = {"float32": 1e-4, "bfloat16": 0.1}  # nats a token; of 135M parameters in 30 layers 1e-5 and 0.025 are seen
OTHER_KERNELS = 1e-3  # the same in float32 for a sampler that is not the trainer's own modules
SINGLE = 5  # times the tolerance in float32, of one token: what a cache loses shows at few of them
LENGTH = 48  # tokens of the longer row where no layer has a window
PROOF_PROBLEMS = 8  # whose prompts' tokens make up the rows
BEYOND = 16  # tokens by which it is longer than a window
TOKENS = 8  # generated behind each row
WINDOWS = ("sliding_window", "attention_chunk_size", "window_size", "local_attention_window")


def window_of(config: Any) -> int:  # noqa: ANN401
    """The largest number of tokens that a layer of limited sight attends to; 0 where there is none."""
    text = config.get_text_config()
    found = [getattr(text, name, None) for name in WINDOWS]
    return max((size for size in found if isinstance(size, int)), default=0)


def long_prompts(prompts: Sequence[list[int]], config: Any, room: int) -> list[list[int]]:  # noqa: ANN401
    """Two rows of real prompts' tokens, one longer than the model's window where a run can be, one a third of it.

    They are of unequal length, so that sampler and trainer must pad. `room` is for the longest prompt and completion
    together: a window that they cannot leave is none. What it costs is bounded by the window: each row is sampled twice
    and passed twice, 4 * (48 + 16) tokens and as many forward without one.
    """
    positions = getattr(config.get_text_config(), "max_position_embeddings", None) or room
    room, window = min(room, positions), window_of(config)
    tokens = [token for prompt in prompts for token in prompt]
    length = max(1, min(room - TOKENS, max(LENGTH, window + BEYOND if window < room else 0)))
    long = (tokens * (length // len(tokens) + 1))[:length]
    return [long, long[: max(1, length // 3)]]


def prove_attention(
    sampler: RolloutEngine, logprobs: Logprobs, prompts: Sequence[list[int]], sampling: Sampling, where: EngineConfig
) -> None:
    """Refuse a model that the sampler does not run as a plain forward pass does.

    Raises:
        UserError: their log-probs differ by more than arithmetic explains, or the sampler cannot run it at all.
    """
    cache_bytes = sampler.cache_bytes
    try:
        agree_at_each(*both(sampler, logprobs, prompts, replace(sampling, max_new_tokens=TOKENS), where), where)
        sampler.cache_bytes = cache_bytes  # the run's own is recorded, not this one's
    except EngineError as error:
        raise UserError(
            f"--rollout {where.rollout} cannot sample this model as it is trained ({error}): what its config says "
            "about attention is lost there; take another rollout engine or another model"
        ) from error
    except (RuntimeError, ValueError, LookupError, TypeError, AttributeError) as error:
        if is_out_of_memory(error):
            raise
        first = str(error).strip().partition("\n")[0]
        raise UserError(
            f"--rollout {where.rollout} cannot sample this model ({type(error).__name__}: {first}); take another "
            "rollout engine or another model"
        ) from error


def both(
    sampler: RolloutEngine, logprobs: Logprobs, prompts: Sequence[list[int]], sampling: Sampling, where: EngineConfig
) -> tuple[Tensor, Tensor, Tensor]:
    """(B, T) log-probs of fresh completions, two a prompt, by a forward pass and by the sampler, and their mask."""
    tokens, theirs = sampled_rows(sampler, prompts, sampling)
    return passed(logprobs, tokens, where), theirs, tokens.mask


def sampled_rows(sampler: RolloutEngine, prompts: Sequence[list[int]], sampling: Sampling) -> tuple[Sequences, Tensor]:
    """Fresh completions, two a prompt, and their (B, T) log-probs by the sampler."""
    seeds = [[derive_seed("proof", row, i) for i in range(2)] for row in range(len(prompts))]
    groups = sampler.generate(prompts, seeds, sampling)
    sampled = [(ids, done) for ids, group in zip(prompts, groups, strict=True) for done in group]
    tokens = Sequences(
        rows=[torch.tensor(ids + done.token_ids) for ids, done in sampled],
        prompt_lengths=torch.tensor([len(ids) for ids, _ in sampled]),
        lengths=torch.tensor([len(done.token_ids) for _, done in sampled]),
    )
    return tokens, pad_columns([done.logprobs for _, done in sampled])


def passed(logprobs: Logprobs, tokens: Sequences, where: EngineConfig) -> Tensor:
    """(B, T) of `logprobs`, in micro-batches."""
    found = torch.zeros(tokens.mask.shape)
    for rows in micro_batches(tokens, torch.arange(len(tokens)), where.tokens_at_once):
        part = logprobs(tokens.pad(rows)).float().cpu()
        found[rows, : part.shape[1]] = part
    return found


def agree_at_each(trainer_logprobs: Tensor, rollout_logprobs: Tensor, mask: Tensor, where: EngineConfig) -> None:
    """`agree`, and in float32 at each token: half precision leaves single ones far apart.

    Raises:
        EngineError: they do not.
    """
    agree(trainer_logprobs, rollout_logprobs, mask, where)
    worst = float((trainer_logprobs - rollout_logprobs)[mask].abs().max())
    if where.dtype != "bfloat16" and worst > SINGLE * tolerance(where):
        raise EngineError(
            f"a token's log-prob is off by {worst:.3g} nats, where {SINGLE * tolerance(where):g} is allowed "
            "(5 times --engine.rollout-tolerance)"
        )


def tolerance(where: EngineConfig) -> float:
    """The largest mean difference that arithmetic explains, in nats a token."""
    if where.rollout_tolerance is not None:
        return where.rollout_tolerance
    exact = where.dtype != "bfloat16"
    return OTHER_KERNELS if exact and where.rollout != "hf" else TOLERANCE[where.dtype or "float32"]


def agree(trainer_logprobs: Tensor, rollout_logprobs: Tensor, mask: Tensor, where: EngineConfig) -> None:
    """Refuse (B, T) log-probs that equal weights cannot explain.

    A stale sampler shows once the policy has moved from what it generates from, so every step looks.

    Raises:
        EngineError: their mean absolute difference is above the tolerance.
    """
    limit = tolerance(where)
    error = float((trainer_logprobs - rollout_logprobs)[mask].abs().mean())
    if not error <= limit:
        raise EngineError(
            f"the sampler does not generate from the policy's weights: its log-probs are off by {error:.3g} nats a "
            f"token on average, where {limit:g} is allowed (--engine.rollout-tolerance)"
        )
