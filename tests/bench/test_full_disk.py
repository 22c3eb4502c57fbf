"""Where nothing more can be written, every command says so in one line with exit code 2."""

import resource
import subprocess
import sys
from pathlib import Path

import pytest

from tests.bench.factory import make_run

COMMANDS = (
    "plan --out {out}",
    "report {runs} --out {out}",
    "run --budget steps=1 --samples-per-step 16 --eval.limit 2 --eval.num-samples 0 --out {out} --quiet",
    "check --tiers 1 --algo grpo --out {out}",
)


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: command.split()[0])
def test_a_full_disk_is_one_line(command: str, tmp_path: Path) -> None:
    """Files of at most 300 bytes stand for a disk that takes no more: both are an OSError in the middle of a write."""
    for seed in range(3):
        make_run(tmp_path / "runs", "grpo", seed)
    given = command.format(out=tmp_path / "out", runs=tmp_path / "runs").split()
    done = subprocess.run(
        [sys.executable, "-m", "bench", *given],
        capture_output=True,
        text=True,
        check=False,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (300, 300)),
    )
    assert done.returncode == 2, done.stderr
    last = done.stderr.strip().splitlines()[-1]
    assert last.startswith("error: cannot write")
    assert "free some space or take --out" in last
    assert "Traceback" not in done.stderr
