"""Servers in their sandboxes, seen from outside: starting them, giving them work, killing them."""

import contextlib
import json
import os
import signal
import socket
import subprocess
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

from tasks.sandbox import bubblewrap

Isolation = Literal["fork", "process", "none"]
MIB = 2**20
_STARTING = threading.Lock()
PATIENCE_S = 30.0  # with a server on a busy machine


class BrokenError(Exception):
    """A server died or does not answer."""


@dataclass(frozen=True, kw_only=True)
class Limits:
    """What one program may use. Processes and threads beyond its first: none."""

    wall_s: float = 10.0
    """Seconds from a program's start to its last answer, all tests of a problem together."""
    memory_mib: int = 512
    """Address space of a program, in MiB."""
    file_mib: int = 16
    """Largest file that a program may write, in MiB; all of /tmp may hold four times as much."""
    output_kib: int = 256
    """How much of the answers, or of standard output, is read, in KiB."""


# A sandbox dies with the *thread* that started it (PR_SET_PDEATHSIG): one that lives as long as this process.
@lru_cache(maxsize=1)
def _starter(pid: int) -> ThreadPoolExecutor:
    return ThreadPoolExecutor(1, thread_name_prefix="sandbox-start")


def _popen(command: list[str], environment: dict[str, str] | None, kept: list[int]) -> subprocess.Popen[bytes]:
    with _STARTING:
        started = _starter(os.getpid()).submit(
            subprocess.Popen[bytes],
            command,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            pass_fds=kept,
            start_new_session=True,
        )
    return started.result()


class Server:
    """One `tasks.cell.server` and our end of its control socket."""

    def __init__(self, isolation: Isolation, limits: Limits) -> None:
        self._control, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        settings: dict[str, int | str] = {"control": theirs.fileno(), "isolate": isolation}
        settings |= {"memory": limits.memory_mib * MIB, "file": limits.file_mib * MIB}
        settings |= {"tmp": 4 * limits.file_mib * MIB, "cpu": int(limits.wall_s) + 2}
        self._first: int | None = None  # a pidfd of the sandbox's first process, with which all others die
        if isolation == "none":
            command, environment = bubblewrap.unprotected(settings)
            self._process = _popen(command, environment, [theirs.fileno()])
        elif bwrap := bubblewrap.find():
            told, telling = os.pipe()
            command = bubblewrap.command(bwrap, settings, telling)
            self._process = _popen(command, None, [theirs.fileno(), telling])
            os.close(telling)
            with os.fdopen(told) as file, contextlib.suppress(ValueError, ProcessLookupError):  # it did not start
                self._first = os.pidfd_open(json.load(file)["child-pid"])
        else:
            raise BrokenError("bubblewrap is not installed")
        theirs.close()
        try:
            self._expect(b"ready", PATIENCE_S)
        except BrokenError as error:
            self.close()
            assert self._process.stderr is not None
            said = self._process.stderr.read().decode(errors="replace").strip().splitlines()
            raise BrokenError(said[-1] if said else str(error)) from error

    def start(self, role: str, *channels: socket.socket) -> None:
        """Starts a role with these sockets, whose copies here are closed."""
        try:
            socket.send_fds(self._control, [role.encode()], [c.fileno() for c in channels])
        except OSError as error:
            raise BrokenError(f"no server: {error}") from error
        finally:
            for channel in channels:
                channel.close()

    def end(self) -> None:
        """Kills everything started, and returns when it is gone."""
        try:
            self._control.send(b"end")
        except OSError as error:
            raise BrokenError(f"no server: {error}") from error
        self._expect(b"ended", PATIENCE_S)

    def close(self) -> None:
        """Kills the server and everything in its sandbox, and returns when it is gone."""
        self._control.close()
        with contextlib.suppress(ProcessLookupError):
            if self._first is None:
                os.killpg(self._process.pid, signal.SIGKILL)
            else:
                signal.pidfd_send_signal(self._first, signal.SIGKILL)
        self._process.wait()
        if self._first is not None:
            os.close(self._first)
            self._first = None

    def _expect(self, word: bytes, patience: float) -> None:
        self._control.settimeout(patience)
        try:
            said = self._control.recv(16)
        except OSError as error:
            raise BrokenError(f"the server does not answer: {error}") from error
        if said != word:
            raise BrokenError(f"the server said {said!r} instead of {word!r}")


class Cell:
    """A place where one program runs at a time."""

    def __init__(self, isolation: Isolation, limits: Limits) -> None:
        self._isolation: Isolation = isolation
        self._limits = limits
        self._servers: list[Server] = []

    def start(self, role: str, *channels: socket.socket) -> None:
        """Starts a role: in a fork of the one server, or in a server of its own."""
        if self._isolation != "fork" or not self._servers:
            self._servers.append(Server(self._isolation, self._limits))
        self._servers[-1].start(role, *channels)

    def end(self) -> None:
        """Nothing that was started is left when this returns."""
        if self._isolation == "fork":
            for server in self._servers:
                server.end()
        else:
            self.close()

    def close(self) -> None:
        """As `end`, and the server is gone too."""
        while self._servers:
            self._servers.pop().close()
