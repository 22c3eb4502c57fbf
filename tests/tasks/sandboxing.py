"""What the sandbox's tests share: whether one works here, and what is left of it on the machine."""

import os
from pathlib import Path

import pytest

from tasks.core import DataError
from tasks.sandbox import Limits, Sandbox, open_sandbox


def _works() -> bool:
    try:
        open_sandbox(Limits())
    except DataError:
        return False
    return True


needs_sandbox = pytest.mark.skipif(
    not _works(), reason="no sandbox works here: bubblewrap or user namespaces are missing"
)

ADD = "def add(a, b):\n    return a + b\n"


def fresh(**limits: float) -> Sandbox:
    """A sandbox of our own kind here, shared by the tests that ask for the same limits."""
    return open_sandbox(Limits(**limits))  # type: ignore[arg-type]


def descendants(root: int | None = None) -> set[int]:
    """Processes below this one, at any depth, in any namespace."""
    parents: dict[int, int] = {}
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            fields = (folder / "stat").read_text().rpartition(")")[2].split()
        except OSError:  # gone meanwhile
            continue
        parents[int(folder.name)] = int(fields[1])
    found = {root or os.getpid()}
    while more := {pid for pid, parent in parents.items() if parent in found} - found:
        found |= more
    return found - {root or os.getpid()}


def command_lines() -> str:
    """Of every process on the machine."""
    lines: list[str] = []
    for file in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            lines.append(file.read_bytes().replace(b"\0", b" ").decode(errors="replace"))
        except OSError:
            continue
    return "\n".join(lines)


def namespaces() -> set[str]:
    """The pid, mount and ipc namespaces of this process's descendants."""
    found: set[str] = set()
    for pid in descendants():
        for kind in ("pid", "mnt", "ipc"):
            try:
                found.add(os.readlink(f"/proc/{pid}/ns/{kind}"))
            except OSError:
                continue
    return found


def resident_mib() -> float:
    """Memory of this process."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 2**20
