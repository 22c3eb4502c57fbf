"""Judging in worker processes with a hard limit for each answer.

Symbolic judges can run for ever or eat all memory on one answer (9^9^9^9), and some evaluate Python. Threads cannot be
killed and signals reach the main thread only, so each judge runs in processes of its own: one answer at a time, stopped
by the kernel at a CPU and a memory limit, unable to write files or start programs; one that dies is replaced.

    call("tasks.equivalence:judge_equivalence", gold, answer).value

is safe from any thread, in forked children and without an `if __name__ == "__main__"` guard. The limit is CPU time, so
that a verdict does not depend on how busy the machine is; the wall-clock limit is for what waits without computing.
Workers end with their parent: each reads a pipe that closes when the parent dies, however it dies.
"""

import atexit
import contextlib
import json
import os
import select
import signal
import subprocess
import sys
import threading
import time
from collections import deque
from dataclasses import dataclass
from pathlib import Path
from typing import Any

CPU_LIMIT_S = 3.0
WALL_LIMIT_S = 15.0
START_LIMIT_S = 120.0  # importing the judge, on a busy machine
MEMORY_LIMIT_BYTES = 1 << 30  # beyond what the imported judge holds
MAX_WORKERS = 4


@dataclass(frozen=True)
class Verdict:
    """What a worker said, or why it said nothing."""

    value: Any  # what the function returned; None with an error
    error: str | None = None  # "timeout", "memory", "crashed", "failed"


def call_worker(function: str, *arguments: str) -> Verdict:
    """Run `pkg.mod:function` on text in a worker. What it returns must be JSON; what it raises is "failed"."""
    return _pool(function).call(arguments)


def _pool(function: str) -> "_Pool":
    with _REGISTRY.lock:
        return _REGISTRY.pools.setdefault(function, _Pool(function, size=min(MAX_WORKERS, os.cpu_count() or 1)))


class _Pool:
    """Workers of one judge, started when first needed."""

    def __init__(self, function: str, size: int) -> None:
        self.function, self.size = function, size
        self.idle: deque[_Worker] = deque()
        self.workers: set[_Worker] = set()
        self.free = threading.Condition()

    def call(self, arguments: tuple[str, ...]) -> Verdict:
        worker = self._take()
        try:
            verdict = worker.ask(arguments)
        except BaseException:
            worker.end()  # an answer still under way would be taken for the next one's
            self._give_back(worker)
            raise
        self._give_back(worker)
        return verdict

    def _take(self) -> "_Worker":
        with self.free:
            while not self.idle and len(self.workers) >= self.size:
                self.free.wait()
            if not self.idle:
                self._start()
            return self.idle.pop()

    def _give_back(self, worker: "_Worker") -> None:
        with self.free:
            if worker.alive:
                self.idle.append(worker)
            else:
                self.workers.discard(worker)
                self._start()  # warms up while the others work
            self.free.notify()

    def _start(self) -> None:
        worker = _Worker(self.function)
        self.workers.add(worker)
        self.idle.appendleft(worker)

    def end(self) -> None:
        for worker in self.workers:
            worker.end()


class _Worker:
    """One process that answers lines of JSON."""

    def __init__(self, function: str) -> None:
        single = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
        path = [str(Path(__file__).parents[1]), *(entry or os.getcwd() for entry in sys.path)]
        environment = {**os.environ, **single, "PYTHONPATH": os.pathsep.join(path), "PYTHONHASHSEED": "0"}
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tasks.worker_main", function, str(CPU_LIMIT_S), str(MEMORY_LIMIT_BYTES)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=environment,
            cwd=Path("/"),
            start_new_session=True,  # an interrupt from the keyboard is the parent's to handle
        )
        self.alive, self.ready, self.buffer = True, False, b""

    def ask(self, arguments: tuple[str, ...]) -> Verdict:
        if not self.ready:
            hello = self._line(START_LIMIT_S)
            if hello is None:
                self.end()
                raise RuntimeError("a verifier worker did not start; is the project installed completely?")
            self.ready = True
        try:
            assert self.process.stdin is not None
            self.process.stdin.write(json.dumps(arguments).encode() + b"\n")
            self.process.stdin.flush()
        except BrokenPipeError:
            return self._died()
        line = self._line(WALL_LIMIT_S)
        if line is None:
            return self._died()
        value, error = json.loads(line)
        if error == "memory":
            self.end()  # a process that ran out of memory once is not to be trusted
        return Verdict(value, error)

    def _died(self) -> Verdict:
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(timeout=0.2)
        code = self.process.returncode
        self.end()
        timed_out = code is None or -code in (signal.SIGPROF, signal.SIGXCPU)
        return Verdict(None, "timeout" if timed_out else "crashed")

    def _line(self, limit_s: float) -> bytes | None:
        """The next line it writes; None when it dies or the limit passes."""
        assert self.process.stdout is not None
        pipe, end, poll = self.process.stdout.fileno(), time.monotonic() + limit_s, select.poll()
        poll.register(pipe, select.POLLIN)
        while b"\n" not in self.buffer:
            if not poll.poll(max(0.0, end - time.monotonic()) * 1000):
                return None
            chunk = os.read(pipe, 65536)
            if not chunk:
                return None
            self.buffer += chunk
        line, _, self.buffer = self.buffer.partition(b"\n")
        return line

    def end(self) -> None:
        self.alive = False
        self.process.kill()
        self.process.wait()
        for pipe in (self.process.stdin, self.process.stdout):
            if pipe is not None:
                with contextlib.suppress(OSError):
                    pipe.close()


class _Registry:
    """The pools of this process; a forked child begins with none, for the parent's workers answer the parent."""

    def __init__(self) -> None:
        self.forget()

    def forget(self) -> None:
        self.lock = threading.Lock()
        self.pools: dict[str, _Pool] = {}

    def end(self) -> None:
        for pool in self.pools.values():
            pool.end()


_REGISTRY = _Registry()
os.register_at_fork(after_in_child=lambda: _REGISTRY.forget())  # whichever registry is in use then
atexit.register(_REGISTRY.end)
