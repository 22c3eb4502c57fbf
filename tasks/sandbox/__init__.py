"""Running model-written programs where they can do no harm and cannot fake a verdict.

A program runs in a process of its own, in a bubblewrap sandbox (no network, read-only minimal system, private /tmp,
own pid, ipc, mount, uts and user namespaces, no capabilities, a system call filter, resource limits), and is killed
with all it started when its verdict is in or its time is up. It only evaluates calls: arguments go in, plain
values come out as JSON (`tasks/sandbox/cell/plain.py`), and are compared here or in a second sandboxed process that the
program cannot see. `docs/sandbox.md` has the threat model and the tests.

Not covered: faults of the kernel; programs that need processes, threads, sockets or packages (all refused); time and
memory as side channels between the program and others on the machine. Linux only.
"""

from tasks.sandbox.grade import Asserts, Check, Script, Tests, UnitTests, Verdict, grade, unfit
from tasks.sandbox.host import Isolation, Limits
from tasks.sandbox.run import Ran, Sandbox, SandboxError, open_sandbox

__all__ = [
    "Asserts",
    "Check",
    "Isolation",
    "Limits",
    "Ran",
    "Sandbox",
    "SandboxError",
    "Script",
    "Tests",
    "UnitTests",
    "Verdict",
    "grade",
    "open_sandbox",
    "unfit",
]
