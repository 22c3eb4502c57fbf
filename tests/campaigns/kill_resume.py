"""Kills runs at random moments, resumes them, and compares with the run left alone.

    python -m tests.campaigns.kill_resume [N]

N kills (default 100), PPO and GRPO in turn, each `kill -9` at a moment drawn over the length of the whole run, so that
loading, evaluation, steps and checkpoints are all hit. Every resumed run must have the same rows (times aside), the
same weights and the same optimizer states, bit for bit. Each run is a fork of one process that has loaded the
libraries, so that a kill costs about the run itself.
"""

import os
import random
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import torch

from bench.cli import main
from bench.models.load import latest_checkpoint
from tests.bench.small_runs import SMALL, TIMES, rows

STREAMS = ("steps", "evals", "eval_problems", "completions")
FLAGS = (*SMALL, "--budget", "steps=5", "--eval.every", "2", "--eval.validation-limit", "6")


def spawn(arguments: Sequence[str]) -> int:
    """Run the command in a fork; returns its process id."""
    pid = os.fork()
    if pid == 0:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        os._exit(main(list(arguments)))
    return pid


def exit_code(pid: int) -> int:
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def only(folder: Path) -> Path | None:
    """The one run in a folder, if it got that far."""
    return next(folder.iterdir(), None) if folder.exists() else None


def state(run: Path) -> dict[str, object]:
    """The checkpoint without its times."""
    folder = latest_checkpoint(run)
    content = torch.load(folder / "state.pt", weights_only=True)
    content["counters"] = {k: v for k, v in content["counters"].items() if not k.startswith(TIMES)}
    return content | {"trainer": torch.load(folder / "trainer" / "engine.pt", weights_only=True)}


def equal(a: object, b: object) -> bool:
    """Deep equality, tensors bit for bit."""
    if isinstance(a, torch.Tensor):
        return isinstance(b, torch.Tensor) and torch.equal(a, b)
    if isinstance(a, dict):
        return isinstance(b, dict) and a.keys() == b.keys() and all(equal(a[k], b[k]) for k in a)
    if isinstance(a, list | tuple):
        return isinstance(b, list | tuple) and len(a) == len(b) and all(map(equal, a, b))
    return a == b


def kill_once(algo: str, moment: float, whole: Path, scratch: Path) -> tuple[str, bool]:
    """Kill after `moment` seconds and resume; returns how far the run had got, and whether the end is the same."""
    flags = ["run", *FLAGS, "--algo", algo, "--out", str(scratch)]
    pid = spawn(flags)
    time.sleep(moment)
    os.kill(pid, signal.SIGKILL)
    exit_code(pid)
    run = only(scratch)
    if run is None or not (run / "config.json").exists():
        return "before its records", True  # nothing was promised, and nothing half-written is taken for a run
    if (run / "summary.json").exists():
        return "after its end", True
    reached = "before a checkpoint" if not list(run.glob("checkpoint/step-*[0-9]")) else "after a checkpoint"
    if exit_code(spawn(["run", "--resume", str(run), "--quiet"])):
        return reached, False
    same = all(rows(run, stream) == rows(whole, stream) for stream in STREAMS)
    return reached, same and equal(state(run), state(whole))


def study(count: int) -> int:
    """Print each outcome's count; returns 1 if any resumed run differs."""
    torch.set_num_threads(1)
    draw = random.Random(0)
    outcomes: dict[tuple[str, str, bool], int] = {}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        wholes: dict[str, tuple[Path, float]] = {}
        for algo in ("grpo", "ppo"):
            start = time.monotonic()
            assert exit_code(spawn(["run", *FLAGS, "--algo", algo, "--out", str(folder / algo)])) == 0
            run = only(folder / algo)
            assert run is not None
            wholes[algo] = run, time.monotonic() - start
        for i in range(count):
            algo = ("grpo", "ppo")[i % 2]
            whole, seconds = wholes[algo]
            scratch = folder / "killed"
            reached, same = kill_once(algo, draw.uniform(0, seconds), whole, scratch)
            outcomes[algo, reached, same] = outcomes.get((algo, reached, same), 0) + 1
            shutil.rmtree(scratch, ignore_errors=True)
    for (algo, reached, same), number in sorted(outcomes.items()):
        print(f"{algo:<5} killed {reached:<20} {'equal' if same else 'DIFFERENT':<10}{number:>4}")
    return int(any(not same for _, _, same in outcomes))


if __name__ == "__main__":
    sys.exit(study(int(sys.argv[1]) if len(sys.argv) > 1 else 100))
