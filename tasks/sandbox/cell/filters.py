"""The system calls that a program may not make. Linux, x86_64 and aarch64."""

import ctypes
import errno
import platform
import struct

from .lockdown import LIBC, PR_SET_DUMPABLE, check

PR_SET_SECCOMP, PR_SET_NO_NEW_PRIVS = 22, 38
ARCHITECTURES = {"x86_64": (0, 0xC000003E), "aarch64": (1, 0xC00000B7)}  # (column below, audit number)
DENIED = {  # system call: numbers on x86_64 and aarch64, None where it does not exist
    # a new process, thread or program
    "fork": (57, None),
    "vfork": (58, None),
    "clone": (56, 220),
    "execve": (59, 221),
    "execveat": (322, 281),
    # sockets: some families (vsock, netlink) know no network namespace; socketpair stays, without an address
    "socket": (41, 198),
    "bind": (49, 200),
    "connect": (42, 203),
    "listen": (50, 201),
    # memory that RLIMIT_AS and the size of /tmp do not count
    "shmget": (29, 194),
    "semget": (64, 190),
    "msgget": (68, 186),
    "mq_open": (240, 180),
    "memfd_create": (319, 279),
    "memfd_secret": (447, 447),
    # quotas and queues of the whole machine or user
    "io_setup": (206, 0),
    "io_submit": (209, 2),
    "inotify_init": (253, None),
    "inotify_init1": (294, 26),
    "fanotify_init": (300, 262),
    "syncfs": (306, 267),
    "flock": (73, 32),
    "syslog": (103, 116),
    # what the page cache holds: one program could leave it for the next to read
    "mincore": (27, 232),
    "fadvise64": (221, 223),
    "readahead": (187, 213),
    "preadv2": (327, 286),
    "cachestat": (451, 451),
    # other processes, other namespaces, mounts
    "ptrace": (101, 117),
    "process_vm_readv": (310, 270),
    "process_vm_writev": (311, 271),
    "kcmp": (312, 272),
    "pidfd_open": (434, 434),
    "pidfd_getfd": (438, 438),
    "unshare": (272, 97),
    "setns": (308, 268),
    "mount": (165, 40),
    "umount2": (166, 39),
    "open_tree": (428, 428),
    "move_mount": (429, 429),
    "fsopen": (430, 430),
    "fspick": (433, 433),
    "mount_setattr": (442, 442),
    # parts of the kernel with a long record of faults
    "bpf": (321, 280),
    "perf_event_open": (298, 241),
    "userfaultfd": (323, 282),
    "io_uring_setup": (425, 425),
    "io_uring_enter": (426, 426),
    "io_uring_register": (427, 427),
    "add_key": (248, 217),
    "request_key": (249, 218),
    "keyctl": (250, 219),
    "open_by_handle_at": (304, 265),
}
SYNC = (162, 81)  # waits for all of the machine's disks and reports no failure, so a refusal would look like success
PRCTL, FCNTL = (157, 167), (72, 25)
DENIED_COMMANDS = (  # (system call, position of the argument, its value)
    (PRCTL, 0, PR_SET_DUMPABLE),  # a core dump that is piped to a program ignores RLIMIT_CORE
    *((FCNTL, 1, command) for command in (6, 7, 37, 38)),  # locks, which the machine's processes see
    *((FCNTL, 1, command) for command in (1024, 1026)),  # leases, and notices of changes
    (FCNTL, 1, 1031),  # a larger pipe: from a quota of the machine's user
)
CLONE3 = 435  # answered with ENOSYS, so that the C library falls back to clone, which is refused


def program() -> bytes:
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
    steps = [(load, 0, 0, 4), (equal, 1, 0, audit), (give, 0, 0, kill), (load, 0, 0, 0)]
    steps += [(at_least, 0, 1, 0x40000000), (give, 0, 0, kill)]  # x86_64's second numbering, x32
    steps += [(equal, 0, 1, CLONE3), (give, 0, 0, absent), (equal, 0, 1, SYNC[column]), (give, 0, 0, kill)]
    for number in (numbers[column] for numbers in DENIED.values()):
        if number is not None:
            steps += [(equal, 0, 1, number), (give, 0, 0, refuse)]
    for numbers, position, value in DENIED_COMMANDS:  # the low half: the kernel reads these arguments as 32 bits
        argument = (load, 0, 0, 16 + 8 * position)
        steps += [(equal, 0, 3, numbers[column]), argument, (equal, 0, 1, value), (give, 0, 0, refuse), (load, 0, 0, 0)]
    steps.append((give, 0, 0, allow))
    return b"".join(struct.pack("HBBI", *step) for step in steps)


def put_on(filtered: bytes) -> None:
    """Puts the filter on, for good."""
    check(LIBC.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), "no_new_privs")
    buffer = ctypes.create_string_buffer(filtered, len(filtered))
    pointer = struct.pack("HxxxxxxP", len(filtered) // 8, ctypes.addressof(buffer))
    check(LIBC.prctl(PR_SET_SECCOMP, 2, ctypes.c_char_p(pointer), 0, 0), "seccomp")
