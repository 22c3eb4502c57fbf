"""A socket to something that may send anything: bounded in time and size, and what went wrong has a name."""

import contextlib
import json
import socket
import time
from collections.abc import Generator
from typing import Any, Self

from tasks.sandbox.cell.plain import MALFORMED


class Channel:
    """Our end of the socket."""

    def __init__(self, end: socket.socket, deadline: float, size: int) -> None:
        self.end, self.deadline, self._left, self._buffer = end, deadline, size, b""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.end.close()

    def send(self, message: dict[str, Any]) -> None:
        """One line. Raises TimeoutError, or OSError where the other side is gone."""
        self._wait()
        self.end.sendall(json.dumps(message).encode() + b"\n")

    def line(self) -> dict[str, Any]:
        """The next line. Raises TimeoutError; EOFError at the end; OverflowError past the size; one of MALFORMED."""
        parts = [self._buffer]
        while b"\n" not in parts[-1]:
            if not (data := self._receive()):
                raise EOFError
            parts.append(data)
        line, self._buffer = b"".join(parts).split(b"\n", 1)
        message = json.loads(line)
        if not isinstance(message, dict):
            raise ValueError("not an object")
        return message

    def rest(self) -> bytes:
        """Everything up to the end. Raises as `line`."""
        parts: list[bytes] = []
        while data := self._receive():
            parts.append(data)
        return b"".join(parts)

    def _receive(self) -> bytes:
        self._wait()
        data = self.end.recv(65536)
        self._left -= len(data)
        if self._left < 0:
            raise OverflowError
        return data

    def _wait(self) -> None:
        left = self.deadline - time.monotonic()
        if left <= 0:
            raise TimeoutError
        self.end.settimeout(left)


@contextlib.contextmanager
def ending() -> Generator[list[str]]:
    """Collects the name of what ended a conversation early."""
    errors: list[str] = []
    try:
        yield errors
    except TimeoutError:
        errors.append("timeout")
    except OverflowError:
        errors.append("output")
    except (EOFError, OSError):
        errors.append("died")
    except MALFORMED:
        errors.append("malformed")
