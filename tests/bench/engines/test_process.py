"""An object in another process: its answers, its failures, and its death."""

import os
import signal
import threading
import time
from pathlib import Path

import psutil
import pytest

from bench.engines.process import Remote
from bench.rollout import EngineError


class Adder:
    """Adds, fails and hangs on demand."""

    def __init__(self, start: int) -> None:
        if start < 0:
            raise ValueError("start must be\n at least 0")
        self.total = start

    def add(self, amount: int) -> int:
        print(f"adding {amount}", flush=True)
        self.total += amount
        return self.total

    def fail(self) -> None:
        raise RuntimeError("out of\nmemory")

    def hang(self) -> None:
        time.sleep(600)


def alive(process: psutil.Process) -> bool:
    return process.is_running() and process.status() != psutil.STATUS_ZOMBIE


def test_it_answers_and_keeps_its_state_elsewhere() -> None:
    remote = Remote("adder", Adder, 3)
    assert remote.process.pid != os.getpid()
    assert remote.call("add", 4) == 7
    assert remote.call("add", 1) == 8
    remote.close()
    assert remote.process.poll() is not None
    assert not remote.log.exists()


def test_a_failure_is_one_line_and_what_it_printed_and_the_process_goes_on() -> None:
    remote = Remote("adder", Adder, 0)
    remote.call("add", 41)
    with pytest.raises(EngineError, match=r"^out of memory$") as caught:
        remote.call("fail")
    assert "adding 41" in caught.value.log
    assert "Traceback" in caught.value.log
    assert remote.call("add", 1) == 42


def test_what_cannot_be_built_says_why() -> None:
    with pytest.raises(EngineError, match=r"^start must be at least 0$"):
        Remote("adder", Adder, -1)


def test_a_kill_in_the_middle_of_a_call_is_noticed() -> None:
    remote = Remote("adder", Adder, 0)
    remote.call("add", 5)
    pid = remote.process.pid
    threading.Timer(0.5, os.kill, (pid, signal.SIGKILL)).start()
    with pytest.raises(EngineError, match="the adder process was killed by SIGKILL") as caught:
        remote.call("hang")
    assert "adding 5" in caught.value.log
    with pytest.raises(EngineError, match="was killed by SIGKILL"):
        remote.call("add", 1)


def test_a_kill_between_calls_is_noticed_by_the_next() -> None:
    remote = Remote("adder", Adder, 0)
    pid = remote.process.pid
    os.kill(pid, signal.SIGKILL)
    remote.process.wait()
    with pytest.raises(EngineError, match="was killed by SIGKILL"):
        remote.call("add", 1)


@pytest.mark.parametrize("busy", [False, True], ids=["idle", "busy"])
def test_it_does_not_outlive_the_process_that_made_it(busy: bool, tmp_path: Path) -> None:
    """A run that is killed leaves no engine behind that holds a device."""
    note = tmp_path / "pid"
    maker = os.fork()
    if maker == 0:
        remote = Remote("adder", Adder, 0)
        note.write_text(str(remote.process.pid))
        remote.call("hang") if busy else time.sleep(600)
    while not note.exists() or not note.read_text():
        time.sleep(0.01)
    engine = psutil.Process(int(note.read_text()))
    assert alive(engine)
    os.kill(maker, signal.SIGKILL)
    os.waitpid(maker, 0)
    while alive(engine):  # it ends, or this test does not
        time.sleep(0.01)
