"""An object in a process of its own, which may die without taking the run with it."""

import contextlib
import os
import signal
import subprocess
import sys
import tempfile
import textwrap
import threading
import time
import traceback
import weakref
from collections.abc import Callable
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import pydantic

from bench.rollout import EngineError

GRACE_S = 10.0  # for the process to end by itself when it is no longer needed
WATCH_S = 1.0  # between looks at whether it is still there


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
        self.log = Path(log)
        self._connection, theirs = Pipe()
        self.process = subprocess.Popen(
            [sys.executable, "-m", "bench.engines.process", str(theirs.fileno())],
            stdin=subprocess.DEVNULL,
            stdout=descriptor,
            stderr=descriptor,
            pass_fds=[theirs.fileno()],
            env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
            start_new_session=True,  # Ctrl-C is for the run, which decides what it means
        )
        theirs.close()
        os.close(descriptor)
        self.close = weakref.finalize(self, stop, self.process, self._connection, self.log)
        self._request(make, args)

    def call(self, method: str, *args: object) -> Any:  # noqa: ANN401 - whatever the method returns
        """The method's answer.

        Raises:
            EngineError: the process has ended, or the method failed there.
        """
        return self._request(method, args)

    def _request(self, what: object, args: tuple[object, ...]) -> object:
        try:
            self._connection.send((what, args))
            while not self._connection.poll(WATCH_S):
                if self.process.poll() is not None:
                    raise EOFError
            failed, answer = self._connection.recv()
        except (EOFError, OSError):
            raise EngineError(f"the {self.name} process {self._end()}", self._written()) from None
        if failed:
            raise EngineError(answer, self._written())
        return answer

    def _end(self) -> str:
        code = self.process.wait()
        return f"was killed by {signal.Signals(-code).name}" if code < 0 else f"ended with exit code {code}"

    def _written(self) -> str:
        return self.log.read_text(errors="replace")


def stop(process: subprocess.Popen[bytes], ours: Connection, log: Path) -> None:
    """End the process and its own children, gently first, and drop its log."""
    ours.close()  # it ends when it reads the end of the pipe
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(GRACE_S)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    log.unlink(missing_ok=True)


def serve(theirs: Connection) -> None:
    """The process: builds an object, then answers calls until the other end of the pipe is closed."""
    make, args = theirs.recv()
    built = attempt(theirs, make, args)
    while built is not None:
        method, rest = theirs.recv()
        attempt(theirs, getattr(built, method), rest, answer=True)


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
    """What went wrong in one line; some libraries list all that would have been right."""
    listed = error.errors()[0]["msg"] if isinstance(error, pydantic.ValidationError) else ""
    return textwrap.shorten(listed or str(error) or type(error).__name__, 240, placeholder=" ...")


def leave_with(parent: int) -> None:
    """End soon after the process that started this one, whatever this one is doing."""
    while os.getppid() == parent:
        time.sleep(WATCH_S)
    os._exit(1)


if __name__ == "__main__":
    threading.Thread(target=leave_with, args=(os.getppid(),), daemon=True).start()
    with contextlib.suppress(EOFError, OSError):  # whoever asked is gone, or wants no more
        serve(Connection(int(sys.argv[1])))
    sys.stdout.flush()
    os._exit(0)  # an engine's own farewell takes seconds, and nothing of it is kept
