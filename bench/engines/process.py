"""An object in a process of its own, which may die without taking the run with it."""

import contextlib
import multiprocessing
import os
import signal
import tempfile
import traceback
import weakref
from collections.abc import Callable
from multiprocessing import connection
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

import pydantic

from bench.rollout import EngineError

GRACE_S = 10.0  # for the process to end by itself when it is no longer needed


class Remote:
    """Calls the methods of an object that another process made, one call at a time.

    Args:
        name: what messages call the process.
        make: builds the object there; it and its arguments must be picklable.
        args: of `make`.

    Raises:
        EngineError: the process ended, or the object could not be built.
    """

    def __init__(self, name: str, make: Callable[..., object], *args: object) -> None:
        self.name = name
        descriptor, log = tempfile.mkstemp(prefix=f"bench-{name}-", suffix=".log")
        os.close(descriptor)
        self.log = Path(log)
        context = multiprocessing.get_context("spawn")  # a fork would copy threads and devices in mid-use
        self._connection, theirs = context.Pipe()
        self.process = context.Process(target=serve, args=(theirs, log, make, args), name=name)
        self.process.start()
        theirs.close()
        self.close = weakref.finalize(self, stop, self.process, self._connection, self.log)
        self._answer()

    def call(self, method: str, *args: object) -> Any:  # noqa: ANN401 - whatever the method returns
        """The method's answer.

        Raises:
            EngineError: the process has ended, which is noticed at once, or the method failed there.
        """
        try:
            self._connection.send((method, args))
        except OSError:
            raise self._ended() from None
        return self._answer()

    def _answer(self) -> Any:  # noqa: ANN401
        connection.wait([self._connection, self.process.sentinel])
        try:
            failed, answer = self._connection.recv()
        except (EOFError, OSError):
            raise self._ended() from None
        if failed:
            raise EngineError(answer, self.log.read_text(errors="replace"))
        return answer

    def _ended(self) -> EngineError:
        self.process.join(GRACE_S)
        code = self.process.exitcode
        how = f"was killed by {signal.Signals(-code).name}" if code is not None and code < 0 else f"ended with {code}"
        return EngineError(f"the {self.name} process {how}", self.log.read_text(errors="replace"))


def stop(process: BaseProcess, ours: Connection, log: Path) -> None:
    """End the process, gently first, and drop its log."""
    ours.close()  # it ends when it reads the end of the pipe
    process.join(GRACE_S)
    if process.is_alive():
        process.kill()
        process.join()
    log.unlink(missing_ok=True)


def serve(theirs: Connection, log: str, make: Callable[..., object], args: tuple[object, ...]) -> None:
    """The process: builds the object, then answers calls until the other end of the pipe is closed."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the whole group; the run decides what it means
    descriptor = os.open(log, os.O_WRONLY | os.O_APPEND)
    for stream in (1, 2):
        os.dup2(descriptor, stream)
    built = attempt(theirs, make, args)
    with contextlib.suppress(EOFError, OSError):  # whoever asked is gone, or wants no more
        while built is not None:
            method, rest = theirs.recv()
            attempt(theirs, getattr(built, method), rest, answer=True)
    os._exit(0)  # an engine's own farewell takes seconds, and nothing of it is kept


def attempt(theirs: Connection, call: Callable[..., Any], args: tuple[object, ...], *, answer: bool = False) -> object:
    """Call, and tell the other end how it went: (failed, answer or reason). Returns what the call gave."""
    try:
        result = call(*args)
    except Exception as error:
        traceback.print_exc()
        theirs.send((True, reason(error)))
        return None
    theirs.send((False, result if answer else None))
    return result


def reason(error: Exception) -> str:
    """What went wrong in one line."""
    listed = error.errors()[0]["msg"] if isinstance(error, pydantic.ValidationError) else ""
    return " ".join((listed or str(error) or type(error).__name__).split())
