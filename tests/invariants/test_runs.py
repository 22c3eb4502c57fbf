"""Every registered method through the command itself, on the embedded model."""

import json
from pathlib import Path

import pytest

from algorithms import ALGORITHMS
from bench.cli import main


@pytest.mark.parametrize("name", list(ALGORITHMS))
def test_runs_and_updates(name: str, tmp_path: Path) -> None:
    size = ["--samples-per-step", "16", "--sampling.max-new-tokens", "48", "--eval.limit", "0", "--quiet"]
    assert main(["run", "--algo", name, "--budget", "steps=4", *size, "--out", str(tmp_path)]) == 0
    (run,) = tmp_path.iterdir()
    last = json.loads((run / "steps.jsonl").read_text().splitlines()[-1])
    algorithm = ALGORITHMS[name]()
    learning = max(0, 4 - algorithm.value_pretraining)  # of four steps
    assert last["data/updates"] == learning * algorithm.num_epochs * algorithm.num_minibatches
    assert last["data/samples_trained"] == 64
    assert last["actor/grad_norm"] > 0
    assert ("critic/vf_loss" in last) is ("values" in algorithm.needs)
