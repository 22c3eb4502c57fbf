"""Inputs that no library can change: a tiny float64 model, and rollouts with their verdicts, all from plain arithmetic.

The model is GPT-2's architecture, which computes in the dtype of its weights throughout; Llama's norm and rotary
embedding fall back to float32, whose rounding differs between processors.
"""

import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from transformers import GPT2Config, GPT2LMHeadModel

from bench.config import Sampling
from bench.gate.formulas import wave
from bench.rollout import Completion
from tasks.core import Problem, Score, Split

VOCAB = 19
BUDGET = 8
NUM_PROBLEMS = 8
SIBLINGS = 8  # completions stored for each problem

# rewards of a problem's completions: all right, all wrong, few right, most right, wrong by different rewards, mixed
REWARDS = (
    (1.0,) * 8,
    (0.0,) * 8,
    (0.0, 0.0, 1.0, 0.0, 0.0, 0.1, 0.0, 1.1),
    (1.1, 1.0, 1.1, 0.1, 1.1, 1.1, 0.0, 1.1),
    (0.1, 0.0, 0.05, 0.1, 0.0, 0.1, 0.05, 0.0),
    (1.0, 0.0, 0.1, 1.1, 0.0, 1.0, 0.1, 0.0),
    (0.25, 1.0, 0.0, 0.75, 1.1, 0.0, 0.5, 1.0),
    (0.0, 1.1, 1.1, 0.0, 0.1, 0.1, 1.0, 1.0),
)


@torch.no_grad()
def stored_model() -> GPT2LMHeadModel:
    """Two layers of width 16, float64, every weight from its name: far from uniform, and without dropout."""
    config = GPT2Config(
        vocab_size=VOCAB,
        n_positions=32,
        n_embd=16,
        n_layer=2,
        n_head=2,
        bos_token_id=1,
        eos_token_id=1,
        resid_pdrop=0.0,
        embd_pdrop=0.0,
        attn_pdrop=0.0,
    )
    model = GPT2LMHeadModel(config).double()
    for name, parameter in model.named_parameters():
        parameter.copy_(wave(*parameter.shape, phase=float(zlib.crc32(name.encode()) % 1000), scale=0.4))
        if ".ln_" in name and name.endswith("weight"):
            parameter += 1
    return model.eval()


@dataclass(frozen=True)
class StoredTask:
    """Problems and verdicts by number; `p3c5` is the sixth completion of the fourth problem."""

    def problems(self, split: Split) -> Sequence[Problem]:
        """The same for every split."""
        del split
        return [Problem(id=f"stored/{p}", prompt=str(p), reference="") for p in range(NUM_PROBLEMS)]

    def score(self, problem: Problem, completion: str) -> Score:
        """As the table has it; from 1 on a completion is right."""
        p, _, c = completion.removeprefix("p").partition("c")
        assert problem.id == f"stored/{p}", "a verdict was asked on another problem's completion"
        reward = REWARDS[int(p)][int(c)]
        return Score(reward=reward, correct=reward >= 1, format_ok=reward > 0)


class StoredRollouts:
    """A `RolloutEngine` that plays back: each time a problem is asked again, its next completions."""

    cache_bytes = 0
    weights_bytes = resting_bytes = 0

    def __init__(self) -> None:
        self._used = [0] * NUM_PROBLEMS

    def encode(self, prompt: str) -> list[int]:
        """Two to five tokens, the first of which is the problem's number."""
        p = int(prompt)
        return [p, *((5 * p + 3 * i + 2) % VOCAB for i in range(1 + p % 4))]

    def decode(self, token_ids: Sequence[int]) -> str:
        """Stored texts are not of their tokens: no stored task pays within one."""
        return "".join(chr(97 + i) for i in token_ids)

    def generate(
        self, prompts: Sequence[list[int]], seeds: Sequence[Sequence[int]], sampling: Sampling
    ) -> list[list[Completion]]:
        """As many as there are seeds; nothing is drawn."""
        del sampling
        return [[self._next(prompt[0]) for _ in part] for prompt, part in zip(prompts, seeds, strict=True)]

    def load_weights(self, weights: Iterator[tuple[str, Tensor]]) -> None:
        """Playing back needs none."""

    def sleep(self) -> None:
        """Nothing to give back."""

    def _next(self, p: int) -> Completion:
        c = self._used[p] % SIBLINGS
        self._used[p] += 1
        length = 1 + (3 * p + 5 * c + p * c) % BUDGET
        tokens = [2 + (7 * p + 11 * c + 5 * t + t * t) % (VOCAB - 2) for t in range(length)]
        stopped = length < BUDGET
        if stopped:
            tokens[-1] = 1
        logprobs = [round(-2.6 + 1.4 * x, 3) for x in wave(length, phase=float(SIBLINGS * p + c)).tolist()]
        return Completion(
            token_ids=tokens,
            logprobs=logprobs,
            sampling_logprobs=[round(x + 0.05, 3) for x in logprobs],  # as if top-p had cut a twentieth
            text=f"p{p}c{c}",
            finish_reason="stop" if stopped else "length",
        )
