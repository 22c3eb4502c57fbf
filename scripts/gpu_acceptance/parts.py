"""Runs the parts of a script one after the other: a row for each, whatever becomes of it, and never past the limit."""

import gc
import json
import signal
import time
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from bench.machine.provenance import provenance
from bench.session.record import finite
from scripts.gpu_acceptance.random_models import Bench

Figures = dict[str, Any]


class OutOfTimeError(Exception):
    """A part took longer than it may."""


@dataclass(frozen=True, kw_only=True)
class Part:
    """One thing to find out, and the seconds it may take. What was found before it failed is kept."""

    name: str
    limit_s: float
    find: Callable[[Bench, Figures], None]
    expected: tuple[str, ...] = ("ok",)


def run(bench: Bench, parts: Sequence[Part], out: Path, limit_s: float) -> int:
    """Every part in turn; 1 if one ended in a way that was not expected."""
    end = time.perf_counter() + limit_s
    stamp = provenance(bench.device)
    out.parent.mkdir(parents=True, exist_ok=True)
    surprises = 0
    with out.open("a") as file:
        for part in parts:
            row = attempt(part, bench, end - time.perf_counter())
            file.write(json.dumps(finite(row | {"provenance": stamp})) + "\n")
            file.flush()
            surprises += row["status"] not in part.expected
            print(f"{row['status']:<8}{row.get('seconds', 0):6.1f} s  {part.name}  {row.get('reason', '')}", flush=True)
    print(out)
    return int(surprises > 0)


def attempt(part: Part, bench: Bench, left_s: float) -> Figures:
    """A part's row: its figures, and why there are no more."""
    if left_s <= 0:
        return {"part": part.name, "status": "skipped", "reason": "no time was left"}
    start = time.perf_counter()
    found: Figures = {}
    row: Figures = {"part": part.name, "status": "ok"}
    try:
        with at_most(min(part.limit_s, left_s)):
            part.find(bench, found)
    except torch.OutOfMemoryError as error:
        row |= {"status": "oom", "reason": str(error).splitlines()[0]}
    except OutOfTimeError as error:
        row |= {"status": "timeout", "reason": str(error)}
    except Exception as error:  # one part's failure is a finding, and the others are still wanted
        row |= {"status": "error", "reason": f"{type(error).__name__}: {error}".splitlines()[0]}
    row["seconds"] = time.perf_counter() - start
    gc.collect()
    if bench.device.type == "cuda":
        torch.cuda.empty_cache()
    return row | found


@contextmanager
def at_most(seconds: float) -> Generator[None]:
    """Raise `OutOfTimeError` in the block when the time is over."""

    def ring(*_: object) -> None:
        raise OutOfTimeError(f"more than {seconds:.0f} s")

    before = signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
