"""How fast the sandbox is on this machine: `python -m tasks.sandbox.measure` prints the figures of docs/sandbox.md."""

import os
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from tasks.sandbox import Asserts, Isolation, Limits, grade, open_sandbox

TRIVIAL = "def f(x, y):\n    return x + y\n"
SLEEPER = "import time\ndef f(x, y):\n    time.sleep(1000)\n"
TESTS = Asserts(asserts=["assert f(1, 2) == 3", "assert f(-4, 9) == 5"])


def median_ms(run: Callable[[], object], repeats: int = 30) -> float:
    """Of `repeats` calls, one after the other."""
    seconds: list[float] = []
    for _ in range(repeats):
        start = time.perf_counter()
        run()
        seconds.append(time.perf_counter() - start)
    return 1000 * statistics.median(seconds)


def throughput(isolation: Isolation, count: int, threads: int) -> float:
    """Trivial programs judged a second."""
    sandbox = open_sandbox(Limits(), isolation=isolation)
    grade(sandbox, TRIVIAL, TESTS)
    start = time.perf_counter()
    with ThreadPoolExecutor(threads) as pool:
        verdicts = list(pool.map(grade, [sandbox] * count, [TRIVIAL] * count, [TESTS] * count))
    assert all(verdict.all_passed for verdict in verdicts)
    return count / (time.perf_counter() - start)


def sleepers(count: int, threads: int) -> tuple[float, float]:
    """(seconds, MiB by which this process grew) for programs that sleep past a limit of one second."""
    sandbox = open_sandbox(Limits(wall_s=1))
    grade(sandbox, TRIVIAL, TESTS)
    start, before = time.perf_counter(), resident_mib()
    with ThreadPoolExecutor(threads) as pool:
        verdicts = list(pool.map(grade, [sandbox] * count, [SLEEPER] * count, [TESTS] * count))
    assert all(verdict.error == "timeout" for verdict in verdicts)
    return time.perf_counter() - start, resident_mib() - before


def resident_mib() -> float:
    """This process's memory now."""
    with open("/proc/self/statm", encoding="utf-8") as file:
        return int(file.read().split()[1]) * resource.getpagesize() / 2**20


def main() -> None:
    """Prints one figure a line."""
    sandbox = open_sandbox(Limits())
    print(f"{os.cpu_count()} CPUs, load {os.getloadavg()[0]:.1f}, isolation: {sandbox.isolation}")
    plain = [sys.executable, "-I", "-S", "-c", TRIVIAL]
    print(f"python -I -S as a plain subprocess: {median_ms(lambda: subprocess.run(plain, check=True)):.1f} ms")
    for isolation in ("fork", "process"):
        box = open_sandbox(Limits(), isolation=isolation)
        print(f"one program, isolation {isolation}: {median_ms(lambda box=box: grade(box, TRIVIAL, TESTS)):.1f} ms")
        for threads in (1, 4):
            print(f"  {threads} threads: {throughput(isolation, 200, threads):.0f} programs/s")
    seconds, growth = sleepers(500, 8)
    print(f"500 programs that sleep past a limit of 1 s: {seconds:.0f} s, this process grew by {growth:.1f} MiB")


if __name__ == "__main__":
    main()
