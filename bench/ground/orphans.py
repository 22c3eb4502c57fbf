"""Processes that end with the one that started them, however that one ends."""

import ctypes
import os
import signal

PARENT = "BENCH_PARENT"  # the process that this one must not outlive, by its id
SET_PDEATHSIG = 1  # prctl(2), Linux


def bound_to_me() -> dict[str, str]:
    """Put into a child's environment: it will then end with this process, if it calls `end_with_parent`."""
    return {PARENT: str(os.getpid())}


def end_with_parent() -> None:
    """Ask the kernel to kill this process when its parent ends, where the parent wants that (Linux)."""
    parent = os.environ.pop(PARENT, None)
    if parent is None or not hasattr(os, "sched_getaffinity"):
        return
    ctypes.CDLL(None).prctl(SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != int(parent):  # it had ended before the kernel was asked
        os.kill(os.getpid(), signal.SIGKILL)
