"""Runs of a study: what has ended stays, what was stopped goes on, a failure does not stop the rest."""

import json
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import nullcontext
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from threading import Event
from typing import TypedDict

from bench.ground.runs import FAILURE, read_document, read_ending
from bench.ground.tree import fingerprint
from bench.study.board import Board, last_line, minutes
from bench.study.execute import Executor
from bench.study.schedule import Planned

Say = Callable[[str], None]
STUDY_WRITER = "another compare, or a run that one started,"


class Took(TypedDict):
    """Of an outcome."""

    seconds: float
    device_s: float


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """What became of a planned run. `path` is None when it left no records."""

    run: Planned
    path: Path | None
    status: str
    message: str = ""
    seconds: float | None = None  # wall clock, evaluation and start-up included, and the wait for a place on a cluster
    device_s: float = 0.0  # of devices held, in this start of the study


def recorded_runs(runs: Path) -> dict[str, Path]:
    """Fingerprint -> run directory, of everything below `runs`; of two alike, the later."""
    found: dict[str, Path] = {}
    for config in sorted(runs.glob("*/config.json")):
        found[fingerprint(read_document(config.parent, config.name))] = config.parent
    return found


def wall_seconds(path: Path) -> float | None:
    """From the run's start to its summary."""
    summary, provenance = path / "summary.json", path / "provenance.json"
    if not summary.exists() or not provenance.exists():
        return None
    started = datetime.fromisoformat(read_document(path, "provenance.json")["started_at"]).timestamp()
    return summary.stat().st_mtime - started


def split_ended(planned: Sequence[Planned], runs: Path) -> tuple[list[Outcome], list[tuple[Planned, Path | None]]]:
    """What has ended, and what is to do: a run, and its directory where it was begun."""
    known, ended, to_do = recorded_runs(runs), list[Outcome](), list[tuple[Planned, Path | None]]()
    for run in planned:
        path = known.get(run.fingerprint)
        status = "new" if path is None else str(read_ending(path)["status"])
        if status in ("finished", "diverged", "no-signal"):
            ended.append(Outcome(run=run, path=path, status=status))
        else:
            to_do.append((run, path))
    return ended, to_do


def estimate_s(to_do: Sequence[Planned], folders: Sequence[Path]) -> float | None:
    """Seconds of the runs one after another, from runs of the same kind that are recorded; None where one is not."""
    rates: dict[tuple[str, str, str], list[float]] = {}
    for folder in folders:
        for summary in folder.glob("*/summary.json"):
            config, end = (read_document(summary.parent, name) for name in ("config.json", "summary.json"))
            seconds = wall_seconds(summary.parent)
            if end["status"] == "finished" and end["steps"] and seconds is not None:
                kind = (config["algo_name"], config["task_name"], config["model"])
                rates.setdefault(kind, []).append(seconds / end["steps"])
    total = 0.0
    for run in to_do:
        config, budget = run.chosen.config, run.chosen.config.parsed_budget
        steps = {"steps": budget.amount, "samples": budget.amount / config.samples_per_step}.get(budget.kind)
        known = rates.get((run.chosen.algo_name, run.chosen.task_name, config.model))
        if budget.kind == "seconds":
            total += budget.amount
        elif steps is None or not known:
            return None
        else:
            total += steps * sum(known) / len(known)
    return total


class Launcher:
    """Has an executor carry out what is to do, and tells what becomes of it."""

    def __init__(self, folder: Path, executor: Executor, say: Say, *, live: bool = False) -> None:
        self.folder, self.executor, self.say, self.live = folder, executor, say, live
        self._stopped = Event()

    def run(self, to_do: Sequence[tuple[Planned, Path | None]]) -> list[Outcome]:
        """Outcomes in the order in which runs ended. Ctrl-C lets the running ones save, and starts no other.

        Raises:
            UserError: a run that the executor can never carry out; none has been started then.
            KeyboardInterrupt: after they have saved.
        """
        for run, _ in to_do:
            self.executor.check(run)
        outcomes: list[Outcome] = []
        board = Board(len(to_do))
        with (
            ThreadPoolExecutor(max_workers=self.executor.jobs or max(1, len(to_do))) as pool,
            board.shown() if self.live else nullcontext(),
        ):
            futures = [pool.submit(self._one, run, path, board) for run, path in to_do]
            try:
                for future in as_completed(futures):
                    outcomes.append(future.result())
                    left = board.left_s()
                    about = "" if left is None else f"; about {minutes(left)} left"
                    self.say(f"[{len(outcomes)}/{len(to_do)}] {describe_outcome(outcomes[-1])}{about}")
            except KeyboardInterrupt:
                self._stopped.set()
                self.executor.stop()
                raise
        if to_do:
            self.say(
                f"cost     {sum(o.device_s for o in outcomes):,.0f} device seconds, attempts that were lost included"
            )
        return outcomes

    def _one(self, run: Planned, path: Path | None, board: Board) -> Outcome:
        if self._stopped.is_set():
            return Outcome(run=run, path=path, status="not started")
        start, log = time.monotonic(), self.folder / "logs" / f"{run.label}.log"
        log.parent.mkdir(parents=True, exist_ok=True)
        with board.row(run.label, log):
            ended = self.executor.execute(run, path, log)
        path = path or recorded_runs(run.chosen.config.out).get(run.fingerprint)
        took = Took(seconds=time.monotonic() - start, device_s=ended.device_s)
        if path is not None and (path / "summary.json").exists():
            (path / FAILURE).unlink(missing_ok=True)
            end = read_ending(path)
            words = str(end.get("message") or "")
            return Outcome(run=run, path=path, status=str(end["status"]), message=words, **took)
        message = last_line(log) or f"exit code {ended.code}"
        if path is not None:
            failure = {"message": message, "exit_code": ended.code, "log": log.name}
            (path / FAILURE).write_text(json.dumps(failure), encoding="utf-8")
        return Outcome(run=run, path=path, status="failed", message=message, **took)


def describe_outcome(outcome: Outcome) -> str:
    """One line."""
    took = "" if outcome.seconds is None else f" after {minutes(outcome.seconds)}"
    return f"{outcome.run.label}: {outcome.status}{took}" + (f" ({outcome.message})" if outcome.message else "")
