"""A verifier worker's process: reads lines of JSON arguments and writes as many [value, error], until its input ends.

Started by `tasks.workers`:

    python -m tasks.worker_main pkg.mod:function CPU_LIMIT_S MEMORY_LIMIT_BYTES
"""

import importlib
import json
import os
import resource
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

FORBIDDEN = ("os.", "subprocess.", "socket.", "shutil.", "ctypes.", "pty.", "webbrowser.", "urllib.", "ftplib.")
ALLOWED = ("os.listdir", "os.scandir", "os.walk", "os.fwalk")  # importing needs them
WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND


def forbid_effects(event: str, arguments: tuple[Any, ...]) -> None:
    """Audit hook: a judge that evaluates what a model wrote must not write, start or connect to anything.

    Not a sandbox, for Python cannot make one from within; programs are run in `tasks.sandbox`.
    """
    if event == "open":
        if isinstance(arguments[2], int) and arguments[2] & WRITING:
            raise PermissionError("a verifier worker may not write")
    elif event.startswith(FORBIDDEN) and event not in ALLOWED:
        raise PermissionError(f"a verifier worker may not use {event}")


def serve(function: Callable[..., Any], answers: int, cpu_limit_s: float) -> None:
    """Answer lines of standard input on file descriptor `answers`.

    The CPU timer's signal kills the process, in whatever C code it is; it measures this answer alone.
    """
    os.write(answers, b"ready\n")
    for line in sys.stdin.buffer:
        signal.setitimer(signal.ITIMER_PROF, cpu_limit_s)
        try:
            reply = [function(*json.loads(line)), None]
        except MemoryError:
            reply = [None, "memory"]
        except Exception:
            reply = [None, "failed"]
        signal.setitimer(signal.ITIMER_PROF, 0)
        os.write(answers, json.dumps(reply).encode() + b"\n")


def limit_memory(beyond_bytes: int) -> None:
    """Lets the address space grow by so much; other systems than Linux neither tell its size nor keep the limit."""
    if sys.platform == "linux":
        held = int(Path("/proc/self/statm").read_text(encoding="utf-8").split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (held + beyond_bytes, held + beyond_bytes))


def main() -> None:
    name, cpu_limit_s, memory_limit_bytes = sys.argv[1], float(sys.argv[2]), int(sys.argv[3])
    signal.signal(signal.SIGPROF, signal.SIG_DFL)
    sys.dont_write_bytecode = True
    sys.setrecursionlimit(3000)
    answers = os.dup(1)
    os.dup2(2, 1)  # a library that prints must not speak for us
    module, _, attribute = name.partition(":")
    function = getattr(importlib.import_module(module), attribute)
    limit_memory(memory_limit_bytes)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    sys.addaudithook(forbid_effects)
    serve(function, answers, cpu_limit_s)


if __name__ == "__main__":
    main()
