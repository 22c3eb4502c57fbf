"""Rejection sampling: several completions a problem, of which the right and readable ones are kept (R1, stage 3)."""

import json
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from bench.config import Sampling
from bench.ground.files import read_rows
from bench.pipeline.examples import Example, unreadable
from bench.rollout import Rollout, RolloutEngine, generate, score
from tasks.core import Problem, Task

CHUNK = 64  # problems between two rows that a resume goes on from


@dataclass(frozen=True, kw_only=True)
class Rejection:
    """How examples are sampled."""

    num_problems: int = 512
    """Problems of the training split that are asked."""
    num_samples: int = 4
    """Completions of each."""
    keep_per_problem: int = 2
    """Most completions that are kept of one problem, so that easy ones do not crowd out the others."""


@dataclass(frozen=True, kw_only=True)
class Yield:
    """What became of the samples."""

    kept: Sequence[Example]
    facts: dict[str, Any]  # counts and pass rates, for the card


@dataclass(frozen=True, kw_only=True)
class Ask:
    """Who is asked what, and where the answers are kept as they come."""

    engine: RolloutEngine
    task: Task
    problems: Sequence[Problem]
    sampling: Sampling
    seed: int
    file: Path


def sampled(ask: Ask, settings: Rejection, stopped: Callable[[], bool] = lambda: False) -> bool:
    """Write one row a problem to `ask.file`, after those that are there; returns whether all are.

    A completion depends on its problem and the seed only, so that going on changes nothing.
    """
    wanted = ask.problems[: settings.num_problems]
    rows = read_rows(ask.file)
    ask.file.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows))  # without a torn one
    done = len(rows)
    with ask.file.open("a") as file:
        for start in range(done, len(wanted), CHUNK):
            part = wanted[start : start + CHUNK]
            samples = generate(ask.engine, part, settings.num_samples, ask.sampling, ("reject", ask.seed))
            rollouts = score(ask.task, samples)
            for i, problem in enumerate(part):
                mine = rollouts[i * settings.num_samples : (i + 1) * settings.num_samples]
                file.write(json.dumps(row_of(problem, mine), ensure_ascii=False) + "\n")
            file.flush()
            if stopped() and start + CHUNK < len(wanted):
                return False
    return True


def row_of(problem: Problem, rollouts: Sequence[Rollout]) -> dict[str, Any]:
    """One problem's samples with their verdicts."""
    return {
        "problem": problem.id,
        "prompt": problem.prompt,
        "samples": [
            {
                "completion": r.completion.text,
                "correct": r.score.correct,
                "ended": r.completion.finish_reason == "stop",
                "tokens": len(r.completion.token_ids),
            }
            for r in rollouts
        ],
    }


def kept(rows: Sequence[dict[str, Any]], settings: Rejection) -> Yield:
    """The samples that survive: right, ended by themselves, readable, unlike one another, and so many a problem."""
    reasons: Counter[str] = Counter()
    examples: list[Example] = []
    rates: list[float] = []
    for row in rows:
        samples = row["samples"]
        rates.append(sum(sample["correct"] for sample in samples) / len(samples))
        survivors: dict[str, None] = {}
        for sample in samples:
            reason = why_not(sample)
            reasons[reason or "kept before balancing"] += 1
            if reason is None:
                survivors[sample["completion"]] = None
        examples += [
            Example(prompt=row["prompt"], completion=text, source="sampled", problem=row["problem"])
            for text in list(survivors)[: settings.keep_per_problem]
        ]
    count = sum(len(row["samples"]) for row in rows)
    facts = {
        **asdict(settings),
        "num_samples_in_all": count,
        "pass_rate": sum(rates) / max(1, len(rates)),
        "problems_solved": sum(rate > 0 for rate in rates),
        "problems_always_solved": sum(rate == 1 for rate in rates),
        "problems_never_solved": sum(rate == 0 for rate in rates),
        "num_kept": len(examples),
        "yield": len(examples) / max(1, count),
        "samples_by_reason": dict(reasons),
        "tokens_generated": sum(sample["tokens"] for row in rows for sample in row["samples"]),
    }
    return Yield(kept=examples, facts=facts)


def why_not(sample: dict[str, Any]) -> str | None:
    """Why a sample is not kept, by the first rule that it breaks."""
    if not sample["correct"]:
        return "wrong"
    return unreadable(sample["completion"]) if sample["ended"] else "cut off"


def in_words(facts: dict[str, Any]) -> str:
    """Pass rates and yield in one line."""
    reasons = ", ".join(f"{reason} {count}" for reason, count in sorted(facts["samples_by_reason"].items()))
    return (
        f"{facts['num_samples_in_all']} samples of {facts['problems_solved'] + facts['problems_never_solved']} "
        "problems: "
        f"pass rate {facts['pass_rate']:.1%}, never solved {facts['problems_never_solved']}; "
        f"kept {facts['num_kept']} ({facts['yield']:.1%}); {reasons}"
    )
