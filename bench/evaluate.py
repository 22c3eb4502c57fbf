"""Held-out accuracy under fixed sampling, equal for every arm; never timed as training."""

import math
import operator
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from scipy import stats  # type: ignore[import-untyped]

from bench.config import EvalConfig, Sampling
from bench.metrics import mean_of
from bench.rollout import Rollout, RolloutEngine, generate, score
from bench.scoring import blamed_on, name_of
from tasks.core import Equivalence, Problem, Task

BATCH = 256  # problems generated and scored at a time
TELLING = 0.005  # share of completions that were right and cut off, from which on it is said


@dataclass(frozen=True, kw_only=True)
class Verdicts:
    """What one problem's completions came to."""

    problem: Problem
    greedy: Rollout | None
    sampled: Sequence[Rollout]
    majority: float | None = None  # maj@k; None: not sampled

    @property
    def num_correct(self) -> int:
        """Right answers among the sampled."""
        return sum(r.score.correct for r in self.sampled)

    @property
    def num_completed(self) -> int:
        """Right answers among the sampled that came to an end of their own."""
        return sum(completed(r) for r in self.sampled)


def completed(rollout: Rollout) -> bool:
    """Whether an answer is right and its completion was not cut off: the stricter verdict of two."""
    return rollout.score.correct and rollout.completion.finish_reason == "stop"


def pass_at_k(num_samples: int, num_correct: int, k: int) -> float:
    """Unbiased estimate of the chance that k samples hold a right one: 1 - C(n - c, k) / C(n, k), arXiv:2107.03374."""
    return 1.0 - math.comb(num_samples - num_correct, k) / math.comb(num_samples, k)


def maj_at_k(sampled: Sequence[Rollout], same: Callable[[str, str], bool] = operator.eq) -> float:
    """Whether the commonest answer is right; answers that tie share the verdict. Unread answers cast no vote.

    Args:
        sampled: completions of one problem.
        same: whether two answers are one, whatever they are written as.
    """
    groups: list[list[Rollout]] = []
    for rollout in sampled:
        answer = rollout.score.answer
        if answer is None:
            continue
        group = next((g for g in groups if answer == g[0].score.answer or same(str(g[0].score.answer), answer)), None)
        if group is None:
            groups.append([rollout])
        else:
            group.append(rollout)
    best = max(map(len, groups), default=0)
    winners = [group[0].score.correct for group in groups if len(group) == best]
    return sum(winners) / len(winners) if winners else 0.0


def interval(per_problem: Sequence[float]) -> list[float] | None:
    """95% t interval of a mean of shares over problems (so clustered by problem); None for fewer than two."""
    n = len(per_problem)
    if n < 2:
        return None
    mean = sum(per_problem) / n
    deviation = math.sqrt(sum((x - mean) ** 2 for x in per_problem) / (n - 1))
    half = float(stats.t.ppf(0.975, n - 1)) * deviation / math.sqrt(n)
    return [max(0.0, mean - half), min(1.0, mean + half)]


def judge(
    engine: RolloutEngine, task: Task, problems: Sequence[Problem], config: EvalConfig, max_new_tokens: int
) -> Iterator[Verdicts]:
    """Greedy and sampled completions of each problem, judged. Samples depend on the problem, not on the run."""
    greedy = Sampling(max_new_tokens=max_new_tokens, temperature=0.0)
    sampling = replace(greedy, temperature=config.temperature, top_p=config.top_p)
    for start in range(0, len(problems), BATCH):
        part = problems[start : start + BATCH]
        first = score(task, generate(engine, part, 1, greedy, ("evaluate", config.seed)))
        rest: list[Rollout] = []
        if config.num_samples:
            rest = score(task, generate(engine, part, config.num_samples, sampling, ("evaluate", config.seed)))
        for i, problem in enumerate(part):
            sampled = rest[i * config.num_samples : (i + 1) * config.num_samples]
            majority = maj_at_k(sampled, _sameness(task, problem)) if sampled else None
            yield Verdicts(problem=problem, greedy=first[i], sampled=sampled, majority=majority)


def _sameness(task: Task, problem: Problem) -> Callable[[str, str], bool]:
    if not isinstance(task, Equivalence):
        return operator.eq

    def same(one: str, other: str) -> bool:
        with blamed_on(f"task {name_of(task)}", problem):
            return bool(task.same(problem, one, other))

    return same


def summarise(verdicts: Sequence[Verdicts], num_samples: int) -> dict[str, Any]:
    """The figures of one evaluation. Absent: what was not sampled."""
    greedy = [v.greedy for v in verdicts if v.greedy is not None]
    correct = [float(r.score.correct) for r in greedy]
    row: dict[str, Any] = {
        "num_problems": len(verdicts),
        "accuracy": sum(correct) / len(correct),
        "accuracy_ci95": interval(correct),
        "completed_accuracy": mean_of(completed(r) for r in greedy),
        "format_frac": mean_of(r.score.format_ok for r in greedy),
        "truncated_frac": mean_of(r.completion.finish_reason == "length" for r in greedy),
        "length_mean": mean_of(len(r.completion.token_ids) for r in greedy),
        "error_frac": mean_of(r.score.error is not None for r in greedy),
        "reward_mean": mean_of(r.score.reward for r in greedy),
    }
    if num_samples:
        rates = [v.num_correct / num_samples for v in verdicts]
        sampled = [r for v in verdicts for r in v.sampled]
        powers = [2**i for i in range(num_samples.bit_length()) if 2**i <= num_samples]
        row |= {
            "num_samples": num_samples,
            "sampled_accuracy": sum(rates) / len(rates),
            "sampled_accuracy_ci95": interval(rates),
            "sampled_completed_accuracy": mean_of(completed(r) for r in sampled),
            "sampled_truncated_frac": mean_of(
                r.completion.finish_reason == "length" for v in verdicts for r in v.sampled
            ),
            "sampled_reward_mean": mean_of(r.score.reward for r in sampled),
            "sampled_format_frac": mean_of(r.score.format_ok for r in sampled),
            "pass_at_k": {str(k): mean_of(pass_at_k(num_samples, v.num_correct, k) for v in verdicts) for k in powers},
            "maj_at_k": {str(num_samples): mean_of(v.majority for v in verdicts)},
        }
    return row


def describe(summary: dict[str, Any]) -> str:
    """The figures in one line."""
    text = f"greedy accuracy {summary['accuracy']:.1%}"
    if summary["accuracy_ci95"] is not None:
        low, high = summary["accuracy_ci95"]
        text += f" [{low:.1%}, {high:.1%}]"
    if "sampled_accuracy" in summary:
        text += f", sampled {summary['sampled_accuracy']:.1%}"
        without = summary["sampled_completed_accuracy"]
        if summary["sampled_accuracy"] - without > TELLING:
            text += f" (of which cut off {summary['sampled_accuracy'] - without:.1%})"
    if summary["format_frac"] is not None:
        text += f", well-formed {summary['format_frac']:.1%}"
    return text + f" ({summary['num_problems']} problems)"


def problem_rows(verdicts: Sequence[Verdicts]) -> Iterator[dict[str, Any]]:
    """One row a problem, so that arms can be compared problem by problem."""
    for v in verdicts:
        yield {
            "problem": v.problem.id,
            "correct": v.greedy.score.correct if v.greedy is not None else None,
            "answer": v.greedy.score.answer if v.greedy is not None else None,
            "num_correct": v.num_correct if v.sampled else None,
            "num_completed": v.num_completed if v.sampled else None,
            "num_samples": len(v.sampled) or None,
        }
