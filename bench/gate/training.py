"""Runs over seeds in a tree, by its own code, and as many of them as the verdict needs."""

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Protocol

import tomli_w

from bench.gate.accuracy import Results, accuracy_finding, judge_accuracy, level_of, read_runs
from bench.gate.verdict import Finding
from bench.ground.errors import UserError
from bench.ground.orphans import bound_to_me
from bench.ground.tree import Tree
from bench.study.board import last_line
from bench.study.config import ExecutorConfig

Say = Callable[[str], None]


class Source(Protocol):
    """Whatever makes runs of a method over seeds."""

    subject: str

    def results(self, count: int) -> Results:
        """Of the seeds from 0 on, as many as asked for.

        Raises:
            UserError: it cannot run at all.
        """
        ...


@dataclass(kw_only=True)
class Trained:
    """A method to train in one tree, into one folder."""

    subject: str
    study: Path
    tree: Path
    folder: Path
    executor: ExecutorConfig = field(default_factory=ExecutorConfig)

    def results(self, count: int) -> Results:
        """Of the seeds from 0 on, run where they have not ended yet.

        Raises:
            UserError: this tree's code cannot even plan them.
        """
        self.folder.mkdir(parents=True, exist_ok=True)
        log = self.folder / "seeds.log"
        arguments = [str(self.study.resolve()), str(self.folder.resolve()), str(count), str(self.executor.at_once or 0)]
        if self.executor.executor == "ray":  # a base may be of before there was a choice
            arguments.append(json.dumps(self.executor.of_ray()))
        with log.open("wb") as file:
            code = subprocess.call(
                [sys.executable, "-m", "bench.gate.seeds", *arguments],
                cwd=self.tree,
                env={**os.environ, "PYTHONPATH": str(self.tree), **bound_to_me()},
                stdout=file,
                stderr=subprocess.STDOUT,
            )
        if code or not any((self.folder / "runs").glob("*/config.json")):
            raise UserError(f"{self.subject} in {self.tree}: {last_line(log)}")
        return with_missing(read_runs(self.folder / "runs")[self.subject], range(count))


def with_missing(results: Results, seeds: Iterable[int]) -> Results:
    """A planned run that left no record is lost, too."""
    missing = set(seeds) - set(results.accuracy) - set(results.lost)
    return replace(results, lost={**results.lost, **dict.fromkeys(missing, "left no record; see its log")})


def write_study(path: Path, subject: str, task: str, model: str, settings: Tree) -> Path:
    """A study of one arm, as `bench.study.schedule` reads it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    tree = {"tasks": [task], "models": [model], "settings": settings, "arms": {subject: {"algo_name": subject}}}
    path.write_text(tomli_w.dumps(tree), encoding="utf-8")
    return path


def first_seeds(base: Results, size: int) -> Results:
    """The seeds of a stored baseline that a look of this size runs; all of it where it has none of them."""
    part = {seed: value for seed, value in base.accuracy.items() if seed < size}
    return replace(base, accuracy=part or base.accuracy)


def check_accuracy(head: Source, base: Source | Results, margin: float, sizes: Sequence[int], say: Say) -> Finding:
    """The first look that decides, or the last one. Base runs are made as they are needed."""
    level = level_of(len(sizes))
    if isinstance(base, Results) and set(base.accuracy) == set(range(len(base.accuracy))):
        sizes = sorted({min(size, len(base.accuracy)) for size in sizes})  # more seeds would have none to pair with
    finding = accuracy_finding(head.subject, "cannot judge", "no runs", margin)
    for size in sizes:
        try:
            theirs = first_seeds(base, size) if isinstance(base, Results) else base.results(size)
        except UserError as error:
            return accuracy_finding(head.subject, "cannot judge", "the base cannot run", margin, detail=str(error))
        try:
            ours = head.results(size)
        except UserError as error:
            return accuracy_finding(head.subject, "worse", "it cannot run", margin, detail=str(error))
        finding = judge_accuracy(head.subject, ours, theirs, margin, level)
        say(f"{head.subject}: {size} seeds: {finding.status}, {finding.measured}")
        if finding.status != "cannot judge" or "low" not in finding.numbers:
            break
    return finding
