"""A study that is killed at once takes its runs with it: nothing goes on computing, or writing, unseen."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

pytestmark = pytest.mark.skipif(not Path("/proc").is_dir(), reason="asks Linux who runs")
SETTINGS = ["samples-per-step=16", "eval.limit=2", "eval.num-samples=0"]


def naming(folder: Path) -> list[int]:
    """Processes whose command line names the folder."""
    found: list[int] = []
    for entry in Path("/proc").iterdir():
        try:
            if entry.name.isdigit() and str(folder).encode() in (entry / "cmdline").read_bytes():
                found.append(int(entry.name))
        except OSError:  # it has ended meanwhile
            continue
    return found


def wait_for(condition: Callable[[], bool], patience_s: float = 90) -> bool:
    end = time.monotonic() + patience_s
    while not condition() and time.monotonic() < end:
        time.sleep(0.1)
    return condition()


def test_runs_end_with_a_study_that_was_killed(tmp_path: Path) -> None:
    out = tmp_path / "studies"
    command = [sys.executable, "-m", "bench", "compare", "--arms", "grpo", "ppo", "--jobs", "2", "--seeds", "1"]
    command += ["--task", "gsm8k", "--budget", "steps=5000", "--out", str(out), "--set", *SETTINGS]
    study = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        assert wait_for(lambda: len(list(out.glob("*/runs/*/steps.jsonl"))) == 2), "both runs are training"
        assert len(naming(out)) >= 3
        study.send_signal(signal.SIGKILL)
        study.wait()
        assert wait_for(lambda: not naming(out), 20), "a run has outlived its study"
    finally:
        for process in naming(out):
            os.kill(process, signal.SIGKILL)
        study.wait()
