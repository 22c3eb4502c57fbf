"""All runs of a study while they go: one table on a terminal, and an estimate of what is left."""

import re
import time
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from threading import Lock

from rich.live import Live
from rich.table import Table

SHOWN = 30  # rows; a study of hundreds does not fit a screen
LEFT = re.compile(r"  left (\d+) s$")  # at the end of a step's line, see bench.session.console


@dataclass(frozen=True, kw_only=True)
class Going:
    """A run that has been handed to the executor."""

    log: Path
    since: float


class Board:
    """What goes and what has ended. Rows come and go from several threads."""

    def __init__(self, total: int) -> None:
        self.total, self.ended = total, 0
        self._start, self._lock = time.monotonic(), Lock()
        self._going: dict[str, Going] = {}

    @contextmanager
    def row(self, label: str, log: Path) -> Generator[None]:
        """A run's line while the block goes on."""
        with self._lock:
            self._going[label] = Going(log=log, since=time.monotonic())
        try:
            yield
        finally:
            with self._lock:
                del self._going[label]
                self.ended += 1

    @contextmanager
    def shown(self) -> Generator[None]:
        """Keep the table on the terminal; lines that are printed meanwhile stand above it."""
        with Live(get_renderable=self.table, refresh_per_second=1, transient=True):
            yield

    def left_s(self) -> float | None:
        """Seconds until all have ended at the pace so far; None before anything has been done."""
        with self._lock:
            going, ended = list(self._going.values()), self.ended
        done = ended + sum(share_done(run) for run in going)
        return (time.monotonic() - self._start) / done * (self.total - done) if done else None

    def table(self) -> Table:
        """As it is now: those that have said something first."""
        with self._lock:
            going, ended = dict(self._going), self.ended
        said = {label: (last_line(run.log), run.since) for label, run in going.items()}
        left = self.left_s()
        title = f"{ended} of {self.total} ended" + ("" if left is None else f", about {minutes(left)} left")
        table = Table("run", "for", "now", title=title, title_justify="left", box=None)
        rows = sorted(said.items(), key=lambda row: (not row[1][0], row[0]))
        for label, (line, since) in rows[:SHOWN]:
            table.add_row(label, minutes(time.monotonic() - since), (line or "waits for a place")[:100])
        if len(rows) > SHOWN:
            table.caption = f"and {len(rows) - SHOWN} more"
        return table


def share_done(run: Going) -> float:
    """Of a run, by its own estimate of the seconds left; 0 where it gives none."""
    found, elapsed = LEFT.search(last_line(run.log)), time.monotonic() - run.since
    return elapsed / (elapsed + float(found[1])) if found else 0.0


def last_line(log: Path) -> str:
    """The last line that says something: an error's own words."""
    if not log.exists():
        return ""
    lines = [line.strip() for line in log.read_text(encoding="utf-8", errors="replace").splitlines() if line.strip()]
    return lines[-1] if lines else ""


def minutes(seconds: float) -> str:
    """`45 s`, `12 min`, `3.5 h`."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"
