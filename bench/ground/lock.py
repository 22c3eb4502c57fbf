"""One writer of a folder at a time, on this machine or another; a writer that died, however it did, holds nothing."""

import contextlib
import errno
import fcntl
import json
import os
import socket
import sys
import time
from collections.abc import Generator
from pathlib import Path
from threading import Event, Thread
from typing import IO

from bench.ground.errors import UserError

NAME = "lock"
BEAT_S = 10.0
PATIENCE_S = 35.0  # three beats, and what a shared file system takes to show them
UNSUPPORTED = (errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP)  # by some shared file systems, as they are mounted


@contextlib.contextmanager
def lock_folder(folder: Path, writer: str, *, patience_s: float = PATIENCE_S) -> Generator[IO[str]]:
    """Hold the folder while the block runs; processes that inherit the file hold it with us.

    Among the processes of one machine the kernel decides. Not every shared file system tells other machines of such a
    lock, so the holder's name stands in the file and changes with every beat: a name of another machine that still
    changes is alive.

    Args:
        folder: made where it is not there.
        writer: what else may hold it, for the message.
        patience_s: how long a holder on another machine is watched before it counts as dead.

    Raises:
        UserError: somebody holds it.
    """
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / NAME).open("a+", encoding="utf-8") as file:
        decided = _locked(file, folder, writer)
        name = _name_in(folder)
        if name and not (decided and machine() in name) and _beats(folder, name, patience_s):
            raise UserError(in_use(folder, writer))
        ended = Event()
        _write_name(file, 0)
        thread = Thread(target=_beat, args=(file, ended), daemon=True)
        thread.start()
        try:
            yield file
        finally:
            ended.set()
            thread.join()
            with contextlib.suppress(OSError):
                file.truncate(0)


def in_use(folder: Path, writer: str) -> str:
    """Who writes to the folder, and what to do."""
    try:
        holder = json.loads(_name_in(folder))
        by = f" (process {holder['process']} on {holder['host']})"
    except (ValueError, LookupError, TypeError):  # it is just writing its name
        by = ""
    return f"{folder} is in use: {writer}{by} has not ended; wait for its end, or stop it first"


def machine() -> str:
    """What tells this start of this machine from others; containers on one kernel, whose locks are common, share it."""
    with contextlib.suppress(OSError):
        return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="utf-8").strip()
    return socket.gethostname()


def _locked(file: IO[str], folder: Path, writer: str) -> bool:
    """Take the kernel's lock; False where the file system has none.

    Raises:
        UserError: another process has it.
    """
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno not in UNSUPPORTED:
            raise UserError(in_use(folder, writer)) from None
        return False
    return True


def _name_in(folder: Path) -> str:
    """The holder's name, as it is now: a file that is opened anew shows what another machine wrote."""
    with contextlib.suppress(OSError):
        return (folder / NAME).read_text(encoding="utf-8", errors="replace")
    return ""


def _beats(folder: Path, name: str, patience_s: float) -> bool:
    """Whether the name changes within our patience."""
    print(f"{folder} was in use on another machine; looking for {patience_s:.0f} s if it still is", file=sys.stderr)
    end = time.monotonic() + patience_s
    while time.monotonic() < end:
        if _name_in(folder) != name:
            return True
        time.sleep(min(1.0, patience_s / 10))
    return False


def _beat(file: IO[str], ended: Event) -> None:
    """Change our name at every beat."""
    count = 0
    while not ended.wait(BEAT_S):
        count += 1
        _write_name(file, count)


def _write_name(file: IO[str], beat: int) -> None:
    """A full disk does not end what we hold."""
    name = {"machine": machine(), "host": socket.gethostname(), "process": os.getpid(), "beat": beat}
    with contextlib.suppress(OSError):
        file.truncate(0)
        file.write(json.dumps(name) + "\n")
        file.flush()
        os.fsync(file.fileno())
