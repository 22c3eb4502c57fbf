"""What a process gives up before it runs code that is not ours. Linux, x86_64 and aarch64."""

import ctypes
import errno
import os
import platform
import resource
import struct
from collections.abc import Mapping

# Bubblewrap makes the outer sandbox; these make each candidate's own, inside it.
CLONE_NEWNS, CLONE_NEWIPC, CLONE_NEWPID = 0x00020000, 0x08000000, 0x20000000
MS_NOSUID, MS_NODEV, MS_NOEXEC, MS_REC, MS_PRIVATE = 0x2, 0x4, 0x8, 0x4000, 0x40000
PR_SET_DUMPABLE, PR_SET_SECCOMP, PR_CAPBSET_DROP, PR_SET_CHILD_SUBREAPER, PR_SET_NO_NEW_PRIVS = 4, 22, 24, 36, 38
CAPABILITY_VERSION_3 = 0x20080522

ARCHITECTURES = {"x86_64": (0, 0xC000003E), "aarch64": (1, 0xC00000B7)}  # (column below, audit number)
DENIED = {  # system call: numbers on x86_64 and aarch64, None where it does not exist
    # a new process, thread or program
    "fork": (57, None),
    "vfork": (58, None),
    "clone": (56, 220),
    "execve": (59, 221),
    "execveat": (322, 281),
    # sockets: some families (vsock, netlink) know no network namespace; socketpair stays
    "socket": (41, 198),
    # memory that RLIMIT_AS and the size of /tmp do not count
    "shmget": (29, 194),
    "semget": (64, 190),
    "msgget": (68, 186),
    "mq_open": (240, 180),
    "memfd_create": (319, 279),
    "memfd_secret": (447, 447),
    # other processes, other namespaces
    "ptrace": (101, 117),
    "process_vm_readv": (310, 270),
    "process_vm_writev": (311, 271),
    "kcmp": (312, 272),
    "pidfd_open": (434, 434),
    "pidfd_getfd": (438, 438),
    "unshare": (272, 97),
    "setns": (308, 268),
    # parts of the kernel with a long record of faults
    "bpf": (321, 280),
    "perf_event_open": (298, 241),
    "userfaultfd": (323, 282),
    "io_uring_setup": (425, 425),
    "add_key": (248, 217),
    "request_key": (249, 218),
    "keyctl": (250, 219),
    "open_by_handle_at": (304, 265),
}
CLONE3 = 435  # answered with ENOSYS, so that the C library falls back to clone, which is refused

LIBC = ctypes.CDLL(None, use_errno=True)


def check(result: int, what: str) -> None:
    if result != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")


def own_namespaces() -> None:
    """New mount and IPC namespaces; the next child gets a new pid namespace. Needs CAP_SYS_ADMIN."""
    check(LIBC.unshare(CLONE_NEWNS | CLONE_NEWIPC | CLONE_NEWPID), "unshare")
    check(LIBC.mount(None, b"/", None, MS_REC | MS_PRIVATE, None), "private mounts")


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
        (resource.RLIMIT_MEMLOCK, 0),
    ):
        resource.setrlimit(what, (value, value))
    check(LIBC.prctl(PR_SET_DUMPABLE, 0, 0, 0, 0), "no core dump")  # a piped one ignores RLIMIT_CORE


def filter_program() -> bytes:
    """The seccomp filter, as classic BPF instructions (code, jump if true, jump if false, constant).

    Raises:
        OSError: on an architecture whose system calls are not listed.
    """
    machine = platform.machine()
    if machine not in ARCHITECTURES:
        raise OSError(errno.ENOSYS, f"no system call filter for {machine}")
    column, audit = ARCHITECTURES[machine]
    load, equal, at_least, give = 0x20, 0x15, 0x35, 0x06
    refuse, absent, kill, allow = 0x00050000 | errno.EPERM, 0x00050000 | errno.ENOSYS, 0x80000000, 0x7FFF0000
    program = [(load, 0, 0, 4), (equal, 1, 0, audit), (give, 0, 0, kill), (load, 0, 0, 0)]
    program += [(at_least, 0, 1, 0x40000000), (give, 0, 0, kill)]  # x86_64's second numbering, x32
    program += [(equal, 0, 1, CLONE3), (give, 0, 0, absent)]
    for number in (numbers[column] for numbers in DENIED.values()):
        if number is not None:
            program += [(equal, 0, 1, number), (give, 0, 0, refuse)]
    program.append((give, 0, 0, allow))
    return b"".join(struct.pack("HBBI", *instruction) for instruction in program)


def filter_calls(program: bytes) -> None:
    """Puts the filter on, for good."""
    check(LIBC.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), "no_new_privs")
    buffer = ctypes.create_string_buffer(program, len(program))
    pointer = struct.pack("HxxxxxxP", len(program) // 8, ctypes.addressof(buffer))
    check(LIBC.prctl(PR_SET_SECCOMP, 2, ctypes.c_char_p(pointer), 0, 0), "seccomp")
