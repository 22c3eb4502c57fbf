"""Problems -> scored rollouts. Which engine generates is none of the algorithm's business."""

import hashlib
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import Literal, Protocol

import torch
from torch import Tensor

from bench.config import Sampling
from bench.scoring import checked_score
from tasks.core import Problem, Score, Task

FinishReason = Literal["stop", "length"]


@dataclass(frozen=True, kw_only=True)
class Completion:
    """One sampled answer. T counts the end-of-sequence token where one was sampled; none is ever added."""

    token_ids: list[int]  # (T,)
    logprobs: list[float]  # (T,) tempered, over the full vocabulary
    sampling_logprobs: list[float]  # (T,) after top-p and top-k: what the token was drawn from
    text: str  # without the end-of-sequence token
    finish_reason: FinishReason


@dataclass(frozen=True, kw_only=True)
class Sample:
    """A completion with its problem."""

    problem: Problem
    prompt_ids: list[int]
    completion: Completion
    occurrence: int = 0  # how often its step had drawn the problem before: each time makes a group of its own


@dataclass(frozen=True, kw_only=True)
class Rollout(Sample):
    """A sample with its verdict."""

    score: Score
    rules_reward: float | None = None  # the task's own, and the learned model's: where the score's reward mixes them
    model_reward: float | None = None
    paid_at: tuple[int, ...] = ()  # the token that each part of `score.earned` is paid at


class EngineError(Exception):
    """An engine cannot go on: its process has ended, or it generates from other weights than it was given.

    `log` is what its process wrote, where it has one.
    """

    def __init__(self, message: str, log: str = "") -> None:
        super().__init__(message)
        self.log = log


class RolloutEngine(Protocol):
    """Whatever generates: transformers, vLLM, the test double."""

    cache_bytes: int  # the largest key-value cache so far
    weights_bytes: int  # its own copy of the policy; 0 where it generates from the modules being trained
    resting_bytes: int  # of these two, what it keeps from `sleep` to the next `load_weights`

    def encode(self, prompt: str) -> list[int]:
        """Token ids of a user message in the model's chat template."""
        ...

    def decode(self, token_ids: Sequence[int]) -> str:
        """The text of generated tokens."""
        ...

    def generate(
        self, prompts: Sequence[list[int]], seeds: Sequence[Sequence[int]], sampling: Sampling
    ) -> list[list[Completion]]:
        """`len(seeds[i])` completions of prompt i, each a function of its prompt, its seed and the weights."""
        ...

    def load_weights(self, weights: Iterator[tuple[str, Tensor]]) -> None:
        """Generate from these weights from now on."""
        ...

    def sleep(self) -> None:
        """Give memory back until the next `load_weights`."""
        ...


def derive_seed(*parts: object) -> int:
    """A stable 63-bit seed: every random number of a run is a function of its seed and its purpose."""
    digest = hashlib.blake2b(repr(parts).encode(), digest_size=8).digest()
    return int.from_bytes(digest, "big") >> 1


def generator(*parts: object) -> torch.Generator:
    """A CPU generator at `derive_seed(*parts)`."""
    return torch.Generator().manual_seed(derive_seed(*parts))


class ProblemStream:
    """The prompt stream of a run, the same for every algorithm: each pass is a fresh shuffle; a position resumes it."""

    def __init__(self, problems: Sequence[Problem], seed: int, position: int = 0) -> None:
        self.problems = problems
        self.seed = seed
        self.position = position
        self.seen: Counter[str] = Counter()  # what `count_occurrences` has counted of this object: one step makes one
        self._epoch = -1
        self._order: list[int] = []

    def take(self, count: int) -> list[Problem]:
        """The next `count` problems."""
        return [self._next() for _ in range(count)]

    def _next(self) -> Problem:
        epoch, index = divmod(self.position, len(self.problems))
        if epoch != self._epoch:
            self._order = torch.randperm(len(self.problems), generator=generator(self.seed, "order", epoch)).tolist()
            self._epoch = epoch
        self.position += 1
        return self.problems[self._order[index]]


def generate(
    engine: RolloutEngine,
    problems: Sequence[Problem],
    num_samples: int,
    sampling: Sampling,
    seed_parts: tuple[object, ...],
    occurrences: Sequence[int] | None = None,
) -> list[Sample]:
    """`num_samples` completions of each problem, siblings adjacent.

    A sample's seed names its problem and its index among all samples of that problem, so that a problem that is drawn
    again gets others. `occurrences` are `count_occurrences` of a whole step, of which these problems may be a part.
    """
    times = count_occurrences(problems, Counter()) if occurrences is None else occurrences
    prompts = [engine.encode(problem.prompt) for problem in problems]
    seeds = [
        [derive_seed(*seed_parts, problem.id, i) for i in range(num_samples * time, num_samples * (time + 1))]
        for problem, time in zip(problems, times, strict=True)
    ]
    groups = engine.generate(prompts, seeds, sampling)
    return [
        Sample(problem=problem, prompt_ids=ids, completion=completion, occurrence=time)
        for problem, ids, group, time in zip(problems, prompts, groups, times, strict=True)
        for completion in group
    ]


def count_occurrences(problems: Sequence[Problem], seen: Counter[str]) -> list[int]:
    """How often each problem was drawn before, in `problems` or in what `seen` counts; they are added to it."""
    times: list[int] = []
    for problem in problems:
        times.append(seen[problem.id])
        seen[problem.id] += 1
    return times


def score(task: Task, samples: Sequence[Sample], num_threads: int = 4) -> list[Rollout]:
    """Verdicts on completions, in their order; a task that judges in other processes is kept busy by threads.

    Raises:
        ScoreError: the task, or the reward in its place, gave none that can be trained on.
    """
    with ThreadPoolExecutor(num_threads) as pool:
        judge = partial(checked_score, task)
        scores = pool.map(judge, (s.problem for s in samples), (s.completion.text for s in samples))
        return [Rollout(**vars(s), score=verdict) for s, verdict in zip(samples, scores, strict=True)]
