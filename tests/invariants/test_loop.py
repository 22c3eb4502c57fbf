"""The hooks of an algorithm, as the loop calls them: shaping, filtering with refill, adaptation."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import cast

import pytest
import torch
from torch import Tensor

from algorithms.core import Algorithm, Batch, Targets
from algorithms.dapo import DAPO
from algorithms.grpo import GRPO
from bench.config import EngineConfig, RunConfig, Sampling
from bench.gather import NoSignalError
from bench.loop import Parts, State, Step, at_start, one_step
from bench.meter import Meter
from bench.metrics import rollout_metrics
from bench.rollout import Completion, ProblemStream, Rollout, count_occurrences, derive_seed
from bench.work import Work
from tasks.core import Problem, Score, Split, Task
from tests.invariants.tiny import engine_for

CPU = torch.device("cpu")


class Scripted:
    """A sampler that answers the n-th prompt it is given with the n-th script: one length and verdict a sample."""

    cache_bytes = 0
    weights_bytes = resting_bytes = 0

    def __init__(self, scripts: Sequence[Sequence[tuple[int, str]]]) -> None:
        self.scripts = iter(scripts)
        self.seeds: list[int] = []

    def encode(self, prompt: str) -> list[int]:
        return [3, 4]

    def decode(self, token_ids: Sequence[int]) -> str:
        return "".join(chr(97 + i) for i in token_ids)

    def generate(
        self, prompts: Sequence[list[int]], seeds: Sequence[Sequence[int]], sampling: Sampling
    ) -> list[list[Completion]]:
        self.seeds += [seed for part in seeds for seed in part]
        return [[completion(*sample) for sample in next(self.scripts)] for _ in prompts]

    def load_weights(self, weights: Iterator[tuple[str, Tensor]]) -> None:
        """It has none."""

    def sleep(self) -> None:
        """It holds nothing."""


def completion(length: int, text: str) -> Completion:
    logprobs = [-2.0] * length
    finish = "length" if length == 8 else "stop"
    return Completion(
        token_ids=[5] * length, logprobs=logprobs, sampling_logprobs=logprobs, text=text, finish_reason=finish
    )


@pytest.mark.parametrize(("group_size", "share"), [(2, 0.702), (4, 0.449), (8, 0.201), (16, 0.04)])
def test_the_share_of_silent_groups_is_what_chance_gives(group_size: int, share: float) -> None:
    """Of groups drawn at a success rate p, p^G + (1 - p)^G carry no signal."""
    p = 0.1819
    assert p**group_size + (1 - p) ** group_size == pytest.approx(share, abs=1e-3)
    draw = torch.Generator().manual_seed(group_size)
    num_groups = 3000
    right = torch.rand(num_groups, group_size, generator=draw) < p
    task = Verdicts()
    rollouts = [
        Rollout(problem=problem, prompt_ids=[1], completion=completion(1, text), score=task.score(problem, text))
        for g, row in enumerate(right.tolist())
        for problem in [Problem(id=str(g), prompt="q", reference="r")]
        for text in ["right" if r else "wrong" for r in row]
    ]
    row = rollout_metrics(rollouts, group_size)
    margin = 4 * (share * (1 - share) / num_groups) ** 0.5
    assert row["reward/frac_zero_std_groups"] == pytest.approx(share, abs=margin)
    assert row["reward/frac_all_correct_groups"] + row["reward/frac_all_wrong_groups"] == pytest.approx(
        row["reward/frac_zero_std_groups"]
    )


class Verdicts:
    """The completion says whether it is right, and is paid a little in either case."""

    def problems(self, split: Split) -> Sequence[Problem]:
        return [Problem(id=f"p{i}", prompt="q", reference="r") for i in range(20)]

    def score(self, problem: Problem, text: str) -> Score:
        return Score(reward=0.1 * len(text) + (text == "right"), correct=text == "right", answer=text)


@dataclass(frozen=True, kw_only=True)
class Watched(DAPO):
    """DAPO that shows the batches it was given."""

    group_size: int = 2
    overlong_frac: float = 0.5
    seen: list[Batch] = field(default_factory=list[Batch])

    def targets(self, batch: Batch) -> Targets:
        self.seen.append(batch)
        return super().targets(batch)


def step(
    algorithm: Algorithm, scripts: Sequence[Sequence[tuple[int, str]]], num_problems: int = 20
) -> tuple[Step, State, Scripted]:
    task = Verdicts()
    config = RunConfig(
        algo=algorithm,
        task=cast("Task", task),
        samples_per_step=4,
        sampling=Sampling(max_new_tokens=8),
        engine=EngineConfig(dtype="float32", micro_batch_tokens=4096),
    )
    config = replace(config, optimizer=replace(config.optimizer, lr=0.0), critic=replace(config.critic, lr=0.0))
    rollout = Scripted(scripts)
    parts = Parts(
        config=config,
        task=cast("Task", task),
        problems=task.problems("train")[:num_problems],
        sampler=rollout,
        trainer=engine_for(algorithm),
        meter=Meter(CPU),
        work=Work(None, 1.0),
    )
    state = at_start(algorithm, parts.work)
    return one_step(parts, state, 0.0), state, rollout


MIXED = [(3, "right"), (4, "wrong")]
ALL_RIGHT = [(2, "right"), (3, "right")]
ALL_WRONG = [(2, "wrong"), (3, "no")]  # rewards differ, verdicts do not


def test_groups_without_signal_are_replaced_and_counted() -> None:
    algorithm = Watched()
    result, state, _ = step(algorithm, [MIXED, ALL_WRONG, ALL_RIGHT, MIXED, *[MIXED] * 8])
    (batch,) = algorithm.seen
    assert len(batch.rewards) == 4
    assert batch.correct.tolist() == [True, False, True, False]
    assert result.row["data/samples_generated"] == 8
    assert result.row["data/samples_trained"] == 4
    assert state.position == 4


def test_the_punishment_is_trained_on_and_the_tasks_reward_is_reported() -> None:
    algorithm = Watched()
    result, _, _ = step(algorithm, [[(3, "right"), (8, "wrong")], [(6, "right"), (4, "wrong")]])
    (batch,) = algorithm.seen
    assert batch.rewards.tolist() == pytest.approx([1.5, 0.5 - 0.5, 1.5 - 0.25, 0.5])
    assert result.row["reward/shaped_frac"] == 0.5
    assert batch.truncated.tolist() == [False, True, False, False]
    assert batch.mask.sum(dim=1).tolist() == batch.lengths.tolist() == [3, 8, 6, 4]
    assert result.row["reward/mean"] == pytest.approx((1.5 + 0.5 + 1.5 + 0.5) / 4)


def test_no_signal_within_the_cap_says_what_share_was_right_and_wrong() -> None:
    with pytest.raises(NoSignalError, match="2 rounds: 25% of groups all right, 75% all wrong"):
        step(Watched(max_sampling_rounds=2), [ALL_WRONG, ALL_RIGHT, ALL_WRONG, ALL_WRONG])


def test_an_adaptive_coefficient_moves_from_step_to_step() -> None:
    _, state, _ = step(GRPO(group_size=2, entropy_target=100.0), [MIXED, MIXED])
    assert cast("GRPO", state.algorithm).entropy_coef == pytest.approx(0.005)


def test_every_sample_has_a_seed_of_its_own() -> None:
    """Over siblings, prompts and the rounds of a step."""
    _, _, rollout = step(Watched(), [ALL_WRONG, ALL_RIGHT, MIXED, MIXED])
    assert len(rollout.seeds) == 8
    assert len(set(rollout.seeds)) == 8


@dataclass(frozen=True, kw_only=True)
class Pairs(GRPO):
    """GRPO whose groups are remembered."""

    group_size: int = 2
    seen: list[Batch] = field(default_factory=list[Batch])

    def targets(self, batch: Batch) -> Targets:
        self.seen.append(batch)
        return super().targets(batch)


@pytest.mark.parametrize(("num_problems", "repeated"), [(20, 0.0), (2, 0.0), (1, 0.5)])
def test_a_problem_drawn_again_has_samples_and_a_group_of_its_own(num_problems: int, repeated: float) -> None:
    """Two prompts of two samples a step: each is a group, whatever the number of problems, and no seed comes twice."""
    algorithm = Pairs()
    result, _, rollout = step(algorithm, [MIXED, MIXED], num_problems)
    (batch,) = algorithm.seen
    assert batch.group.tolist() == [0, 0, 1, 1]
    assert len(set(rollout.seeds)) == 4
    assert result.row["prompt/repeated_frac"] == repeated


def test_rounds_of_one_step_are_told_apart() -> None:
    """A refill that draws the same problems again makes new groups of them."""
    algorithm = Watched()
    result, _, rollout = step(algorithm, [MIXED, ALL_WRONG, MIXED, *[MIXED] * 8], num_problems=1)
    (batch,) = algorithm.seen
    assert batch.group.tolist() == [0, 0, 1, 1]
    assert len(set(rollout.seeds)) == len(rollout.seeds) == 8 == result.row["data/samples_generated"]


def test_the_first_time_keeps_its_seeds() -> None:
    """The seed of a problem's n-th sample was named by problem and n before repeats were told apart."""
    _, _, rollout = step(Pairs(), [MIXED, MIXED], num_problems=20)
    stream = ProblemStream(Verdicts().problems("train"), RunConfig.seed)
    ids = [problem.id for problem in stream.take(2)]
    assert rollout.seeds == [derive_seed(RunConfig.seed, "rollout", 0, name, i) for name in ids for i in (0, 1)]
    assert count_occurrences(Verdicts().problems("test"), Counter({"p1": 2})) == [0, 2, *[0] * 18]
