"""Whole small runs of the embedded model for the tests: started in this process, and read without the clock."""

import json
import os
from pathlib import Path
from typing import Any

import torch

from bench.cli import main
from bench.models.load import latest_checkpoint

SMALL = ["--samples-per-step", "16", "--eval.limit", "6", "--eval.num-samples", "2"]
SMALL += ["--checkpoint-every", "2", "--quiet"]
TIMES = ("time/", "perf/", "memory/", "cost/device_s")


def run(out: Path, *flags: str) -> Path:
    """Run in this process; the only new folder is the run's."""
    before = set(out.glob("*"))
    assert main(["run", *SMALL, *flags, "--out", str(out)]) == 0
    (made,) = set(out.glob("*")) - before
    return made


def rows(path: Path, stream: str = "steps") -> list[dict[str, Any]]:
    """Rows without what depends on the clock."""
    lines = [json.loads(line) for line in (path / f"{stream}.jsonl").read_text().splitlines()]
    return [{k: v for k, v in row.items() if not k.startswith(TIMES)} for row in lines]


def weights(path: Path) -> dict[str, torch.Tensor]:
    """Every trained weight of the last checkpoint, by role and name."""
    state = torch.load(latest_checkpoint(path) / "trainer" / "engine.pt", weights_only=True)
    return {f"{role}.{k}": v for role, module in state["modules"].items() for k, v in module.items()}


def with_plugins(folder: Path) -> dict[str, str]:
    """The environment of a process that also imports modules of `folder`."""
    return {**os.environ, "PYTHONPATH": f"{folder}:{Path.cwd()}"}
