"""Code: write a function, judged by tests that it cannot reach (docs/sandbox.md).

Three sources of problems: small functions made from a seed, MBPP (training and evaluation), HumanEval
(evaluation). What a row looks like: `tasks/programs.py`, `tasks/functions.py`.
"""

import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any, ClassVar, Literal

from tasks import functions, programs, sources
from tasks.core import DataError, Problem, Score, Source, Split
from tasks.dataset import PLAIN, Item, Template
from tasks.sandbox import Asserts, Limits, Sandbox, grade, open_sandbox
from tasks.sources import Row, Rows

Dataset = Literal["mbpp", "humaneval"]
FILES: Mapping[Dataset, str] = {"mbpp": "mbpp", "humaneval": "HumanEval"}
HUB: Mapping[Dataset, tuple[str, str]] = {
    "mbpp": ("google-research-datasets/mbpp", "full"),
    "humaneval": ("openai/openai_humaneval", "openai_humaneval"),
}
MBPP_IDS: Mapping[Split, range] = {"train": range(601, 975), "validation": range(511, 601), "test": range(11, 511)}


@dataclass(frozen=True, kw_only=True)
class Programming:
    """Writing functions that pass hidden tests."""

    NAME: ClassVar[str] = "code"

    dataset: Dataset = "mbpp"
    """Which official data set a path or the hub holds. HumanEval has a test split only."""
    source: Source = "procedural"
    """Where problems come from: small functions made here from a seed, a path, or the hub."""
    data: Path | None = None
    """File, or folder of mbpp.jsonl or HumanEval.jsonl.gz as published; implies `--source path`."""
    reward: Literal["all", "fraction"] = "all"
    """What training maximises: 1 where every test passes, or the fraction of the tests not shown that pass."""
    limits: Limits = field(default_factory=Limits)
    """What one program may use."""
    allow_unsandboxed: bool = False
    """Run model-written programs unprotected where no sandbox works. Recorded, and shown in every table."""
    seed: int = 0
    """Of the small functions; a run's own seed does not change its problems."""

    def problems(self, split: Split) -> Sequence[Problem]:
        """The problems of a split, in the order of their rows.

        Raises:
            DataError: no data, a row without tests, no such split, or no sandbox works here.
        """
        self._sandbox()  # refuse before anything is trained, not at the first verdict
        _, problems = _load(self, split, os.environ.get("BENCH_DATA"))
        return problems

    def score(self, problem: Problem, completion: str) -> Score:
        """Runs the completion's program; needs no more than `Problem.reference`."""
        code, rule = programs.code_in(completion)
        tests = programs.tests_of(problem.reference)
        shown = tests.shown if isinstance(tests, Asserts) else 0
        try:
            verdict = grade(self._sandbox(), programs.program_of(code, tests), tests)
        except DataError as error:
            return Score(reward=0.0, correct=False, format_ok=rule == "fence", answer=code, error=str(error), rule=rule)
        hidden = verdict.failures[shown:]
        fraction = sum(failure is None for failure in hidden) / len(hidden)
        reward = fraction if self.reward == "fraction" else float(verdict.all_passed)
        return Score(
            reward=reward,
            correct=verdict.all_passed,
            format_ok=rule == "fence",
            answer=code,
            error=verdict.error,
            rule=rule,
        )

    def provenance(self, split: Split) -> dict[str, Any]:
        """Where the split came from and how programs were run, for the console and the record."""
        rows, problems = _load(self, split, os.environ.get("BENCH_DATA"))
        template = self.prompt_template
        return {
            "task": self.NAME,
            "dataset": "functions" if self.resolved_source == "procedural" else self.dataset,
            "split": split,
            "source": self.resolved_source,
            "origin": rows.origin,
            "num_rows": len(problems),
            "sha256": rows.sha256,
            "template_version": template.version,
            "template_sha256": template.sha256,
            "sandboxed": self._sandbox().isolation != "none",
            "isolation": self._sandbox().isolation,
            "limits": asdict(self.limits),
        }

    @property
    def resolved_source(self) -> Source:
        return "path" if self.data is not None else self.source

    @property
    def prompt_template(self) -> Template:
        if self.resolved_source == "procedural":
            return PLAIN
        return programs.MBPP if self.dataset == "mbpp" else programs.HUMANEVAL

    def _sandbox(self) -> Sandbox:
        return open_sandbox(self.limits, allow_unsandboxed=self.allow_unsandboxed)


def broken_references(problems: Sequence[Problem], task: Programming | None = None) -> list[tuple[str, str]]:
    """(id, reason) of the problems whose own reference solution fails their tests."""
    judge = task or Programming()
    broken: list[tuple[str, str]] = []
    for problem in problems:
        tests = programs.tests_of(problem.reference)
        try:
            verdict = grade(judge._sandbox(), programs.solution_of(problem.reference), tests)
            wrong = [failure for failure in verdict.failures if failure is not None]
        except DataError as error:
            wrong = [str(error)]
        broken += [(problem.id, wrong[0])] if wrong else []
    return broken


@lru_cache(maxsize=16)
def _load(task: Programming, split: Split, bench_data: str | None) -> tuple[Rows, Sequence[Problem]]:
    del bench_data  # part of the key: sources.load reads it
    rows = _rows(task, split)
    read, fill = _reader(task), task.prompt_template.fill
    label = "functions" if task.resolved_source == "procedural" else task.dataset
    problems: list[Problem] = []
    for index, (row, place) in enumerate(zip(rows.rows, rows.places, strict=True)):
        if label == "mbpp" and row.get("task_id") not in MBPP_IDS[split]:
            continue
        item: Item = read(row, place)
        name = f"{task.NAME}/{label}/{split}/{row['task_id'] if label == 'mbpp' else index}"
        problems.append(Problem(id=name, prompt=fill(item.question), reference=item.gold, meta=item.meta))
    if not problems:
        ids = MBPP_IDS[split]
        raise DataError(f"{rows.origin}: no {split} problem; MBPP's have a task_id from {ids[0]} to {ids[-1]}")
    return rows, problems


def _rows(task: Programming, split: Split) -> Rows:
    source = task.resolved_source
    if source == "procedural":
        made: list[Row] = list(functions.rows(split, seed=task.seed))
        places = [f"functions[{i}]" for i in range(len(made))]
        return Rows(rows=made, origin="procedural", sha256=sources.canonical_sha256(made), places=places)
    if task.dataset == "humaneval" and split != "test":
        raise DataError("HumanEval has a test split only; for training use --task.dataset mbpp or --source procedural")
    stem = split if source == "hub" else FILES[task.dataset]
    return sources.load(source, name=task.NAME, split=stem, data=task.data, hub=HUB[task.dataset])
