"""Trackers get what steps.jsonl gets."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from bench.cli import main
from tests.bench.small_runs import SMALL, rows, run


def test_tensorboard_holds_every_step(tmp_path: Path) -> None:
    accumulator = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    path = run(tmp_path, "--budget", "steps=2", "--track", "tensorboard")
    events = accumulator.EventAccumulator(str(path))
    events.Reload()
    got = [(e.step, e.value) for e in events.Scalars("reward/mean")]
    assert got == [(r["step"], pytest.approx(r["reward/mean"])) for r in rows(path)]


def test_wandb_is_given_every_step(tmp_path: Path) -> None:
    pytest.importorskip("wandb")
    command = [sys.executable, "-m", "bench", "run", *SMALL, "--budget", "steps=1", "--track", "wandb"]
    environment = {**os.environ, "WANDB_MODE": "offline", "WANDB_SILENT": "true", "HOME": str(tmp_path)}
    done = subprocess.run(
        [*command, "--out", str(tmp_path / "out")], capture_output=True, text=True, check=False, env=environment
    )
    assert done.returncode == 0, done.stderr
    assert list((tmp_path / "out").glob("*/wandb/offline-run-*/*.wandb"))


def test_a_tracker_that_is_not_installed_is_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    assert main(["run", *SMALL, "--track", "wandb", "--out", str(tmp_path / "out")]) == 2
    assert "pip install wandb" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()
