"""The sandbox's first process: forks one fresh, locked-down process for each role it is told to start.

It reads commands, never the content of a job: programs and answers go over sockets of the job's own, which arrive
with the command. What it forks from has therefore seen no candidate, no test and no earlier job.
"""

import gc
import importlib
import json
import os
import signal
import socket
import sys
from collections.abc import Callable

from . import candidate, examiner, filters, lockdown

ROLES: dict[str, Callable[..., None]] = {
    "functions": candidate.functions,
    "script": candidate.script,
    "examiner": examiner.examine,
    "comparer": examiner.compare,
}
# Loaded once, so that a program that imports them does not pay; most of HumanEval and MBPP need no other.
WARM = "bisect collections copy datetime functools hashlib heapq itertools math operator random re statistics string"


def main(arguments: str) -> None:
    """Serves commands from `control` until it is closed.

    Args:
        arguments: JSON: control (file descriptor), isolate ("fork": own namespaces for each role; "process": this
            process is the role's, one command only; "none": likewise, and no sandbox is around it),
            memory, file, tmp (bytes), cpu (s).
    """
    settings = json.loads(arguments)
    control = socket.socket(fileno=settings["control"])
    filtered = filters.program() if settings["isolate"] != "none" else None
    for name in WARM.split():
        importlib.import_module(name)
    if settings["isolate"] != "none":
        lockdown.protect_null()
    if settings["isolate"] == "process":
        lockdown.own_tmp(settings["tmp"])
    if settings["isolate"] != "fork":
        control.send(b"ready")
        role, channels = _command(control)
        control.close()
        _become(role, channels, settings, filtered)
    lockdown.adopt_orphans()
    gc.freeze()  # keeps the collector from touching, and so copying, the pages that forks share
    started: list[int] = []
    control.send(b"ready")
    while True:
        role, channels = _command(control)
        if not role:
            break
        if role == "end":
            _end(started)
            control.send(b"ended")
        else:
            started.append(_fork(role, channels, settings, filtered, control))
            for channel in channels:
                channel.close()


def _command(control: socket.socket) -> tuple[str, list[socket.socket]]:
    message, fds, _, _ = socket.recv_fds(control, 64, 2)
    return message.decode(), [socket.socket(fileno=fd) for fd in fds]


def _end(started: list[int]) -> None:
    """Kills what was started; returns when the kernel has removed every process of its namespaces."""
    for pid in started:
        os.kill(pid, signal.SIGKILL)
    for pid in started:
        os.waitpid(pid, 0)
    started.clear()


def _fork(
    role: str, channels: list[socket.socket], settings: dict[str, int], filtered: bytes | None, control: socket.socket
) -> int:
    """Starts a role in namespaces of its own; the pid of their first process, whose death ends them."""
    ours, theirs = os.pipe()
    helper = os.fork()
    if helper == 0:
        try:
            control.close()
            lockdown.own_namespaces()
            first = os.fork()
            if first == 0:
                os.close(ours)
                os.close(theirs)
                _first(role, channels, settings, filtered)
            os.write(theirs, str(first).encode())
        finally:
            os._exit(0)
    os.close(theirs)
    with os.fdopen(ours) as told:
        first = int(told.read())
    os.waitpid(helper, 0)
    return first


def _first(role: str, channels: list[socket.socket], settings: dict[str, int], filtered: bytes | None) -> None:
    """Process 1 of the new pid namespace: signals do not reach it, so the role runs in process 2."""
    try:
        lockdown.own_tmp(settings["tmp"])
        child = os.fork()
        if child == 0:
            _become(role, channels, settings, filtered)
        for channel in channels:
            channel.close()
        os.waitpid(child, 0)
    finally:
        os._exit(0)


def _become(role: str, channels: list[socket.socket], settings: dict[str, int], filtered: bytes | None) -> None:
    """Gives up what is left and runs the role; never returns."""
    try:
        if os.getsid(0) != os.getpid():
            os.setsid()
        null = os.open("/dev/null", os.O_RDWR)
        for fd in (0, 1, 2):
            os.dup2(null, fd)
        kept = sorted(channel.fileno() for channel in channels)
        for low, high in zip([2, *kept], [*kept, 1024], strict=True):
            os.closerange(low + 1, high)
        os.chdir("/tmp")
        lockdown.drop_capabilities()
        lockdown.limit(settings)
        if filtered is not None:
            filters.put_on(filtered)
        ROLES[role](*channels)
    finally:
        os._exit(0)


if __name__ == "__main__":
    main(sys.argv[1])
