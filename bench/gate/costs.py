"""Tier 2: two processes, one in each tree, step in turns until every quantity is decided, or a cap is reached."""

import json
import os
import random
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Literal, Protocol, Self

from bench.gate.ratios import Cost, Pair, judge_ratio, undecided
from bench.gate.tolerances import Tolerances
from bench.gate.verdict import Finding
from bench.study.board import last_line

Side = Literal["base", "head"]
Say = Callable[[str], None]


class WorkerError(Exception):
    """A worker ended instead of answering; the message is its last line."""

    def __init__(self, side: Side, message: str) -> None:
        super().__init__(message)
        self.side: Side = side


class Stepper(Protocol):
    """Makes one training step and says what it cost."""

    def step(self) -> Cost:
        """One step.

        Raises:
            WorkerError: it cannot.
        """
        ...


class Worker:
    """`bench.gate.worker` in a tree, one thread on a CPU."""

    def __init__(self, side: Side, tree: Path, settings: Path, log: Path) -> None:
        self.side: Side = side
        self.log = log
        # an installed copy of this package would lend its own to a tree that has none
        self._lacking = (tree / "bench").is_dir() and not (tree / "bench" / "gate" / "worker.py").is_file()
        # one arena: else each thread that scores gets memory of its own, as many as happen to run at once
        environment = {**os.environ, "OMP_NUM_THREADS": "1", "MALLOC_ARENA_MAX": "1", "PYTHONPATH": str(tree)}
        with log.open("wb") as file:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "bench.gate.worker", str(settings.resolve())],
                cwd=tree,
                env=environment,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=file,
                text=True,
            )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self._process.kill()
        self._process.wait()

    def ready(self) -> None:
        """Wait until it has loaded."""
        if self._lacking:
            raise WorkerError(self.side, "no bench.gate.worker there: it is from before this command")
        self._answer()

    def step(self) -> Cost:
        """Ask for one step, and wait for its cost."""
        assert self._process.stdin is not None
        try:
            print("step", file=self._process.stdin, flush=True)
        except BrokenPipeError:
            raise WorkerError(self.side, last_line(self.log) or "it ended without a word") from None
        return self._answer()

    def _answer(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            self._process.wait()
            raise WorkerError(self.side, last_line(self.log) or "it ended without a word")
        return json.loads(line)


def check_costs(
    subject: str,
    trees: Mapping[Side, Path],
    settings: Path,
    folder: Path,
    tolerances: Tolerances,
    sizes: Sequence[int],
    say: Say,
) -> list[Finding]:
    """Findings of one method. `sizes` are the numbers of pairs at which to look; the first tree is tried first."""
    stem = subject.replace(":", ".")
    with ExitStack() as stack:
        workers: dict[Side, Worker] = {
            side: stack.enter_context(Worker(side, tree, settings, folder / f"{stem}-{side}.log"))
            for side, tree in trees.items()
        }
        try:
            for worker in workers.values():
                worker.ready()
                worker.step()  # what is done once, in the first step, is no step's cost
            found, pairs = in_turns(workers, subject, tolerances, sizes, say)
        except WorkerError as error:
            return [worker_finding(subject, error)]
    (folder / f"{stem}-steps.json").write_text(json.dumps([vars(pair) for pair in pairs]), encoding="utf-8")
    return found


def in_turns(
    workers: Mapping[Side, Stepper], subject: str, tolerances: Tolerances, sizes: Sequence[int], say: Say
) -> tuple[list[Finding], list[Pair]]:
    """Step in turns, first whom a coin chooses, up to the look that settles it. A quantity once decided stays so."""
    coin, pairs = random.Random(subject), list[Pair]()
    found, decided = list[Finding](), dict[str, Finding]()
    orders: tuple[tuple[Side, Side], ...] = (("base", "head"), ("head", "base"))
    for size in sizes:
        while len(pairs) < size:
            cost = {side: workers[side].step() for side in coin.choice(orders)}
            pairs.append(Pair(base=cost["base"], head=cost["head"]))
        judged = [f for f in judge_ratio(pairs, subject, tolerances) if f.quantity not in decided]
        decided |= {f.quantity: f for f in judged if f.status != "cannot judge"}
        found = [*decided.values(), *(f for f in judged if f.status == "cannot judge")]
        say(f"{subject}: {size} pairs of steps, {sum(f.status == 'cannot judge' for f in found)} quantities undecided")
        if not undecided(found) or any(f.status == "worse" for f in found):
            break  # the exit code is settled
    return found, pairs


def worker_finding(subject: str, error: WorkerError) -> Finding:
    """A head that cannot step is worse; a base that cannot leaves nothing to compare with."""
    return Finding(
        tier=2,
        subject=subject,
        quantity="a training step",
        status="worse" if error.side == "head" else "cannot judge",
        measured=f"the {error.side}'s worker ended",
        detail=str(error),
    )
