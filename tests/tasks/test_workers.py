"""Worker processes: hard limits, whatever an answer does, and nothing left behind."""

import multiprocessing
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from pathlib import Path

import pytest

from tasks import workers
from tasks.competition_math import CompetitionMath
from tasks.core import Problem

EVAL = "builtins:eval"  # runs whatever it is given: the worst judge there could be
FOR_EVER = "9**9**9"


@pytest.fixture(autouse=True)
def quick_limit(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Workers of this file's own, with a third of the usual limit."""
    monkeypatch.setattr(workers, "CPU_LIMIT_S", 1.0)
    monkeypatch.setattr(workers, "_REGISTRY", workers._Registry())
    yield
    workers._REGISTRY.end()


def test_an_answer_that_never_ends_costs_its_limit_and_is_called_a_timeout() -> None:
    assert workers.call_worker(EVAL, "1+1") == workers.Verdict(2)
    (worker,) = workers._REGISTRY.pools[EVAL].workers
    assert workers.call_worker(EVAL, FOR_EVER) == workers.Verdict(None, "timeout")
    assert worker.process.returncode == -signal.SIGPROF  # by the kernel, in the middle of C code
    assert workers.call_worker(EVAL, "1+1") == workers.Verdict(2)


def test_what_waits_without_computing_is_stopped_by_the_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workers, "WALL_LIMIT_S", 1.0)
    assert workers.call_worker(EVAL, "__import__('time').sleep(60)").error == "timeout"


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        ("len(bytearray(3 << 30))", "memory"),
        ("__import__('os')._exit(3)", "crashed"),
        ("__import__('faulthandler')._sigsegv()", "crashed"),
        ("1/0", "failed"),
        ("print('[true, null]')", None),
    ],
)
def test_what_goes_wrong_is_said_and_the_next_answer_is_judged(answer: str, error: str | None) -> None:
    assert workers.call_worker(EVAL, answer).error == error
    assert workers.call_worker(EVAL, "'next'") == workers.Verdict("next")


@pytest.mark.parametrize(
    "attack",
    [
        "__import__('os').system('touch {path}')",
        "__import__('subprocess').run(['touch', '{path}'])",
        "open('{path}', 'w')",
        "__import__('pathlib').Path('{path}').touch()",
        "__import__('os').open('{path}', 0o102)",
        "__import__('os').mkdir('{path}')",
        "__import__('socket').create_connection(('127.0.0.1', 9))",
        "__import__('ctypes').CDLL(None)",
    ],
)
def test_an_answer_that_is_evaluated_cannot_write_start_or_connect(attack: str, tmp_path: Path) -> None:
    path = tmp_path / "pwned"
    assert workers.call_worker(EVAL, attack.format(path=path)).error == "failed"
    assert not path.exists()


def test_a_hung_answer_does_not_change_the_others_from_any_thread() -> None:
    answers = [FOR_EVER, *map(str, range(40))]
    with ThreadPoolExecutor(8) as threads:
        verdicts = list(threads.map(lambda answer: workers.call_worker(EVAL, answer), answers))
    assert verdicts[0].error == "timeout"
    assert [verdict.value for verdict in verdicts[1:]] == list(range(40))


def score_in_child(text: str) -> tuple[bool, str | None]:
    score = CompetitionMath().score(Problem(id="p", prompt="", reference="\\frac{1}{3}"), text)
    return score.correct, score.error


@pytest.mark.parametrize("method", ["spawn", "fork"])
def test_right_answers_are_right_in_a_thread_and_in_a_process_pool(method: str) -> None:
    texts = ["\\boxed{\\frac{\\sqrt{4}}{6}}", "\\boxed{3^{-1}}", "\\boxed{\\frac{x}{3}}"]
    expected = [(True, None), (True, None), (False, None)]
    found: list[tuple[bool, str | None]] = []
    thread = threading.Thread(target=lambda: found.extend(map(score_in_child, texts)))
    thread.start()
    thread.join()
    assert found == expected
    with ProcessPoolExecutor(2, mp_context=multiprocessing.get_context(method)) as pool:
        assert list(pool.map(score_in_child, texts)) == expected


PARENT = """
import sys, threading
from tasks import workers
workers.call_worker("builtins:eval", "1")
threading.Thread(target=workers.call_worker, args=("builtins:eval", "{busy}"), daemon=True).start()
(pool,) = workers._REGISTRY.pools.values()
print(*[worker.process.pid for worker in pool.workers], flush=True)
{then}
"""


@pytest.mark.parametrize("busy", ["1", FOR_EVER])
@pytest.mark.parametrize("end", ["killed", "returns"])
def test_no_worker_outlives_its_parent(busy: str, end: str) -> None:
    then = "import time; time.sleep(600)" if end == "killed" else ""
    root = Path(__file__).parents[2]
    parent = subprocess.Popen(
        [sys.executable, "-c", PARENT.format(busy=busy, then=then)], stdout=subprocess.PIPE, text=True, cwd=root
    )
    assert parent.stdout is not None
    children = [int(pid) for pid in parent.stdout.readline().split()]
    assert children
    if end == "killed":
        parent.send_signal(signal.SIGKILL)
    parent.wait(timeout=60)
    parent.stdout.close()
    patience = time.monotonic() + 60  # a busy worker has its CPU limit left to spend
    while any(map(_runs, children)) and time.monotonic() < patience:
        time.sleep(0.05)
    assert not any(map(_runs, children))


def _runs(pid: int) -> bool:
    try:
        command = Path(f"/proc/{pid}/cmdline").read_bytes()
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return False
    return b"worker_main" in command and state != "Z"


def test_no_more_workers_than_the_limit() -> None:
    with ThreadPoolExecutor(16) as threads:
        list(threads.map(lambda number: workers.call_worker(EVAL, str(number)), range(64)))
    pool = workers._REGISTRY.pools[EVAL]
    assert 1 <= len(pool.workers) <= min(workers.MAX_WORKERS, os.cpu_count() or 1)


def test_a_worker_that_cannot_start_is_an_error_that_says_so() -> None:
    with pytest.raises(RuntimeError, match="did not start"):
        workers.call_worker("tasks.no_such_module:function", "1")
