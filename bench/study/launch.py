"""Runs of a study as subprocesses: what has ended stays, what was stopped goes on, a failure does not stop the rest."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from threading import Event
from typing import IO

from bench.ground.moment import of_study
from bench.ground.orphans import bound_to_me
from bench.ground.runs import FAILURE, read_document, read_ending
from bench.ground.tree import fingerprint
from bench.settings.flags import to_toml
from bench.study.schedule import Planned

Say = Callable[[str], None]
STUDY_WRITER = "another compare, or a run that one started,"


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """What became of a planned run. `path` is None when it left no records."""

    run: Planned
    path: Path | None
    status: str
    message: str = ""
    seconds: float | None = None  # wall clock, evaluation and start-up included


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
    """Runs what is to do, `jobs` at a time."""

    def __init__(self, folder: Path, held: IO[str], jobs: int, say: Say) -> None:
        self.folder, self.held, self.jobs, self.say = folder, held, jobs, say
        self.time = of_study(folder)
        self._processes: list[subprocess.Popen[bytes]] = []
        self._stopped = Event()

    def run(self, to_do: Sequence[tuple[Planned, Path | None]]) -> list[Outcome]:
        """Outcomes in the order in which runs ended. Ctrl-C lets the running ones save, and starts no other.

        Raises:
            KeyboardInterrupt: after they have saved.
        """
        outcomes: list[Outcome] = []
        start = time.monotonic()
        with ThreadPoolExecutor(max_workers=self.jobs) as pool:
            futures = [pool.submit(self._one, run, path) for run, path in to_do]
            try:
                for future in as_completed(futures):
                    outcomes.append(future.result())
                    left = (time.monotonic() - start) / len(outcomes) * (len(to_do) - len(outcomes))
                    self.say(
                        f"[{len(outcomes)}/{len(to_do)}] {describe_outcome(outcomes[-1])}; about {minutes(left)} left"
                    )
            except KeyboardInterrupt:
                self._stopped.set()
                for process in self._processes:
                    process.send_signal(signal.SIGINT)
                raise
        return outcomes

    def _one(self, run: Planned, path: Path | None) -> Outcome:
        if self._stopped.is_set():
            return Outcome(run=run, path=path, status="not started")
        start, log = time.monotonic(), self.folder / "logs" / f"{run.label}.log"
        log.parent.mkdir(parents=True, exist_ok=True)
        command = [sys.executable, "-m", "bench", "run", *self._arguments(run, path)]
        threads = str(max(1, (os.cpu_count() or 1) // self.jobs))
        environment = {"OMP_NUM_THREADS": threads, **os.environ, **self.time, **bound_to_me()}
        with log.open("wb") as file:
            process = subprocess.Popen(
                command,
                stdout=file,
                stderr=subprocess.STDOUT,
                env=environment,
                start_new_session=True,  # Ctrl-C reaches it once, through us
                pass_fds=[self.held.fileno()],
            )
            self._processes.append(process)
            code = process.wait()
            self._processes.remove(process)
        path = path or recorded_runs(run.chosen.config.out).get(run.fingerprint)
        seconds = time.monotonic() - start
        if path is not None and (path / "summary.json").exists():
            (path / FAILURE).unlink(missing_ok=True)
            end = read_ending(path)
            words = str(end.get("message") or "")
            return Outcome(run=run, path=path, status=str(end["status"]), message=words, seconds=seconds)
        message = last_line(log) or f"exit code {code}"
        if path is not None:
            (path / FAILURE).write_text(
                json.dumps({"message": message, "exit_code": code, "log": log.name}), encoding="utf-8"
            )
        return Outcome(run=run, path=path, status="failed", message=message, seconds=seconds)

    def _arguments(self, run: Planned, path: Path | None) -> list[str]:
        if path is not None:
            return ["--resume", str(path)]
        file = self.folder / "configs" / f"{run.label}.toml"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(to_toml(run.chosen), encoding="utf-8")
        return ["--config", str(file)]


def last_line(log: Path) -> str:
    """The last line that says something: an error's own words."""
    lines = [line.strip() for line in log.read_text(encoding="utf-8", errors="replace").splitlines() if line.strip()]
    return lines[-1] if lines else ""


def describe_outcome(outcome: Outcome) -> str:
    """One line."""
    took = "" if outcome.seconds is None else f" after {minutes(outcome.seconds)}"
    return f"{outcome.run.label}: {outcome.status}{took}" + (f" ({outcome.message})" if outcome.message else "")


def minutes(seconds: float) -> str:
    """`45 s`, `12 min`, `3.5 h`."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"
