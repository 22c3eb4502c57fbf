"""What a process gives up before it runs code that is not ours. Linux, x86_64 and aarch64."""

import ctypes
import os
import resource
import struct
from collections.abc import Mapping

# Bubblewrap makes the outer sandbox; these make each candidate's own, inside it.
CLONE_NEWNS, CLONE_NEWIPC, CLONE_NEWPID = 0x00020000, 0x08000000, 0x20000000
MS_RDONLY, MS_NOSUID, MS_NODEV, MS_NOEXEC = 0x1, 0x2, 0x4, 0x8
MS_REMOUNT, MS_BIND, MS_REC, MS_PRIVATE = 0x20, 0x1000, 0x4000, 0x40000
PR_SET_DUMPABLE, PR_CAPBSET_DROP, PR_SET_CHILD_SUBREAPER = 4, 24, 36
CAPABILITY_VERSION_3 = 0x20080522

LIBC = ctypes.CDLL(None, use_errno=True)


def check(result: int, what: str) -> None:
    if result != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")


def own_namespaces() -> None:
    """New mount and IPC namespaces; the next child gets a new pid namespace. Needs CAP_SYS_ADMIN."""
    check(LIBC.unshare(CLONE_NEWNS | CLONE_NEWIPC | CLONE_NEWPID), "unshare")
    check(LIBC.mount(None, b"/", None, MS_REC | MS_PRIVATE, None), "private mounts")


def protect_null() -> None:
    """Makes the one device node read-only, so that its mode, owner and times stay. Needs CAP_SYS_ADMIN.

    The node is the machine's own, and its owner may be us; writing to a device needs no writable mount.
    """
    flags = MS_REMOUNT | MS_BIND | MS_RDONLY | MS_NOSUID | MS_NOEXEC
    check(LIBC.mount(None, b"/dev/null", None, flags, None), "read-only /dev/null")


def own_tmp(size: int) -> None:
    """An empty /tmp of at most `size` bytes, which disappears with the mount namespace."""
    options = f"size={size},nr_inodes=1024,mode=1777".encode()
    check(LIBC.mount(b"tmpfs", b"/tmp", b"tmpfs", MS_NOSUID | MS_NODEV | MS_NOEXEC, options), "mount /tmp")


def adopt_orphans() -> None:
    """Makes this process the parent of descendants whose parent has died."""
    check(LIBC.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0), "subreaper")


def drop_capabilities() -> None:
    """Empties all capability sets, also the bound of what could be gained."""
    for capability in range(64):
        if LIBC.prctl(PR_CAPBSET_DROP, capability, 0, 0, 0) != 0:
            break  # past the last one that this kernel knows
    header, sets = struct.pack("Ii", CAPABILITY_VERSION_3, 0), bytes(24)
    check(LIBC.capset(header, sets), "capset")


def limit(limits: Mapping[str, int]) -> None:
    """Resource limits: `memory` and `file` in bytes, `cpu` in seconds; the soft limits are the hard ones."""
    for what, value in (
        (resource.RLIMIT_AS, limits["memory"]),
        (resource.RLIMIT_CPU, limits["cpu"]),
        (resource.RLIMIT_FSIZE, limits["file"]),
        (resource.RLIMIT_NOFILE, 64),
        (resource.RLIMIT_CORE, 0),
        (resource.RLIMIT_MSGQUEUE, 0),
        (resource.RLIMIT_SIGPENDING, 64),  # timers too: counted for the machine's user
        (resource.RLIMIT_RTPRIO, 0),
        (resource.RLIMIT_NICE, 0),
        (resource.RLIMIT_MEMLOCK, 0),
    ):
        resource.setrlimit(what, (value, value))
    check(LIBC.prctl(PR_SET_DUMPABLE, 0, 0, 0, 0), "no core dump")  # a piped one ignores RLIMIT_CORE
