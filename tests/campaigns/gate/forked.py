"""Workers and runs as forks: what `bench check` starts as processes, without importing everything each time."""

import json
import os
import signal
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Self

import datasets  # noqa: F401 - imported before the forks, once for all
import pandas  # noqa: F401 - likewise
import pyarrow  # noqa: F401 - likewise
import tyro  # noqa: F401 - likewise

from bench.gate.accuracy import Results, read_runs
from bench.gate.costs import Side, WorkerError
from bench.gate.training import with_missing
from bench.ground.errors import UserError
from tasks.core import Split
from tasks.gsm8k import Gsm8k
from tests.faults.forks import forked, spawned

TIMEOUT_S = 900


def small_data(folder: Path) -> Path:
    """2000 and 300 of the embedded model's problems, read from files: making all of them takes longer than a run."""
    folder.mkdir(parents=True)
    splits: tuple[tuple[Split, int], ...] = (("train", 2000), ("test", 300))
    for split, count in splits:
        rows = Gsm8k().procedural(split)[:count]
        (folder / f"{split}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return folder


class ForkedWorker:
    """`bench.gate.worker` of a tree."""

    def __init__(self, side: Side, tree: Path, settings: Path, log: Path) -> None:
        self.side: Side = side
        to_child, from_child = os.pipe(), os.pipe()

        def work() -> int:
            os.close(to_child[1])
            from bench.gate.worker import serve

            with os.fdopen(to_child[0]) as requests, os.fdopen(from_child[1], "w") as replies:
                serve(str(settings), requests, replies)
            return 0

        self._pid = spawned(tree, work, TIMEOUT_S, log)
        os.close(to_child[0])
        os.close(from_child[1])
        self._requests, self._replies = os.fdopen(to_child[1], "w"), os.fdopen(from_child[0])
        self._answer()
        self.step()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        os.kill(self._pid, signal.SIGKILL)
        os.waitpid(self._pid, 0)

    def step(self) -> dict[str, Any]:
        """Ask for one step, and wait for its cost."""
        print("step", file=self._requests, flush=True)
        return self._answer()

    def _answer(self) -> dict[str, Any]:
        line = self._replies.readline()
        if not line:
            raise WorkerError(self.side, "it ended")
        return json.loads(line)


class ForkedRuns:
    """`bench run` of a tree over seeds from `first` on."""

    def __init__(self, subject: str, tree: Path, folder: Path, flags: Sequence[str], first: int = 0) -> None:
        self.subject, self.tree, self.folder, self.flags, self.first = subject, tree, folder, flags, first

    def results(self, count: int) -> Results:
        """Of so many seeds, run where they have not ended yet."""
        self.folder.mkdir(parents=True, exist_ok=True)
        for seed in range(self.first, self.first + count):
            if not list(self.folder.glob(f"*-s{seed}")):
                self._run(seed)
        if not list(self.folder.glob("*/config.json")):
            raise UserError(f"{self.subject}: no run left a record")
        (results,) = read_runs(self.folder).values()
        return with_missing(results, range(self.first, self.first + count))

    def _run(self, seed: int) -> None:
        def work() -> int:
            from bench.cli import main

            return main(["run", *self.flags, "--seed", str(seed), "--out", str(self.folder), "--quiet"])

        forked(self.tree, work, TIMEOUT_S, self.folder / f"{seed}.log")
