"""Code: write a function, judged by tests that it cannot reach (docs/sandbox.md).

Three collections of problems: small functions made from a seed, MBPP (training and evaluation), HumanEval
(evaluation). What a row looks like: `tasks/program_rows.py`, `tasks/procedural/functions.py`.
"""

import os
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Literal

from tasks import program_rows, programs
from tasks.core import DataError, Problem, Score, Source, Split
from tasks.sandbox import Asserts, Check, Limits, Verdict, grade, open_sandbox
from tasks.sources import Rows


@dataclass(frozen=True, kw_only=True)
class Programming:
    """Writing functions that pass hidden tests."""

    NAME: ClassVar[str] = "code"

    dataset: Literal["mbpp", "humaneval"] = "mbpp"
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
    """Run model-written programs unprotected where no sandbox works. Recorded, and shown in reports' provenance."""
    seed: int = 0
    """Seed of the procedural problems; a run's own seed does not change its problems."""

    def problems(self, split: Split) -> Sequence[Problem]:
        """The problems of a split, in the order of their rows.

        Raises:
            DataError: no data, a row without tests, no such split, or no sandbox works here.
        """
        open_sandbox(self.limits, allow_unsandboxed=self.allow_unsandboxed)  # refuse now, not at the first verdict
        return self._load(split)[1]

    def score(self, problem: Problem, completion: str) -> Score:
        """Runs the completion's program against the tests in `problem.reference`."""
        tests = programs.tests_of(problem.reference)
        code, rule = programs.code_in(completion, programs.called_by(tests))
        reward, correct, error = 0.0, False, None
        try:
            verdict = self.judge(programs.program_of(code, tests), tests)
        except DataError as no_test_ran:
            error = str(no_test_ran)
        else:
            hidden = verdict.failures[tests.shown if isinstance(tests, Asserts) else 0 :] or verdict.failures
            fraction = sum(failure is None for failure in hidden) / len(hidden)
            correct, error = verdict.all_passed, verdict.error
            reward = fraction if self.reward == "fraction" else float(correct)
        return Score(reward=reward, correct=correct, format_ok=rule == "fence", answer=code, error=error, rule=rule)

    def judge(self, program: str, tests: Asserts | Check) -> Verdict:
        """The verdict on a whole program."""
        return grade(open_sandbox(self.limits, allow_unsandboxed=self.allow_unsandboxed), program, tests)

    def provenance(self, split: Split) -> dict[str, Any]:
        """Where the split came from and how its programs are run, for the console and the record."""
        rows, problems = self._load(split)
        template = program_rows.TEMPLATES[self._collection]
        isolation = open_sandbox(self.limits, allow_unsandboxed=self.allow_unsandboxed).isolation
        return {
            "task": self.NAME,
            "collection": self._collection,
            "split": split,
            "source": self.resolved_source,
            "origin": rows.origin,
            "num_rows": len(problems),
            "sha256": rows.sha256,
            "template_version": template.version,
            "template_sha256": template.sha256,
            "sandboxed": isolation != "none",
            "isolation": isolation,
            "limits": asdict(self.limits),
        }

    @property
    def resolved_source(self) -> Source:
        if self.data is not None and self.source == "hub":
            raise DataError(f"{self.NAME}: --data {self.data} and --source hub exclude each other; give one")
        return "path" if self.data is not None else self.source

    @property
    def _collection(self) -> program_rows.Collection:
        return "functions" if self.resolved_source == "procedural" else self.dataset

    def _load(self, split: Split) -> tuple[Rows, Sequence[Problem]]:
        data = "hub" if self.resolved_source == "hub" else self.data
        return program_rows.load_programs(self._collection, split, data, self.seed, os.environ.get("BENCH_DATA"))


def broken_references(problems: Sequence[Problem], task: Programming | None = None) -> list[tuple[str, str]]:
    """(id, reason) of the problems whose own reference solution fails their tests."""
    judge = task or Programming()
    broken: list[tuple[str, str]] = []
    for problem in problems:
        try:
            verdict = judge.judge(programs.solution_of(problem.reference), programs.tests_of(problem.reference))
            reasons = [failure for failure in verdict.failures if failure is not None]
        except DataError as error:
            reasons = [str(error)]
        broken += [(problem.id, reasons[0])] if reasons else []
    return broken
