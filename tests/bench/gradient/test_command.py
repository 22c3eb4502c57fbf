"""`bench gradient` on the real small model, and what it refuses."""

from pathlib import Path

import pytest
import torch

from bench.cli import main
from bench.gradient.command import GradientConfig, chosen_of
from bench.gradient.measure import gradient, prepared, rollouts_of
from bench.ground.files import read_json
from bench.session.loaded import Loaded

SMALL = ["--set", "task.steps=4", "--samples", "32", "--reference-samples", "32", "--batch", "8"]


def test_a_table_of_two_arms(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "table"
    arms = ["--arms", "rloo", "critic=ppo,algo.gae_lambda=0.9", "--critic-samples", "8"]
    assert main(["gradient", *SMALL, *arms, "--out", str(out)]) == 0
    rows = read_json(out / "gradient.json")["rows"]
    assert [row["arm"] for row in rows] == ["rloo", "critic"]
    assert rows[1]["flops"] > rows[0]["flops"], "the critic's passes are counted"
    assert rows[0]["at_samples"] == rows[0]["at_flops"]
    assert "| rloo |" in (out / "gradient.md").read_text()
    assert "| rloo |" in capsys.readouterr().out
    assert main(["gradient", *SMALL, *arms, "--out", str(out)]) == 2
    assert "never overwrites" in capsys.readouterr().err


def test_the_policy_stays_as_it_is_and_the_gradient_adds_up() -> None:
    """The gradient of sequence-sum over two halves is their mean."""
    chosen = chosen_of(GradientConfig(batch=16, set=("task.steps=4",)), "rloo")
    parts = Loaded(chosen).parts()
    before = [tensor.clone() for _, tensor in parts.trainer.weights()]
    rollouts = rollouts_of(parts, 16, purpose=2)
    whole = gradient(prepared(parts, rollouts))
    halves = [gradient(prepared(parts, part)) for part in (rollouts[:8], rollouts[8:])]
    assert torch.allclose(whole, sum(halves) / 2, atol=1e-6)
    assert whole.any()
    assert all(torch.equal(a, b) for a, (_, b) in zip(before, parts.trainer.weights(), strict=True))


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (["--samples", "100"], "give at least 4 whole batches of 8"),
        (["--critic-samples", "9"], "--critic-samples 9: give whole batches of 8"),
        (["--arms", "rloo", "rloo"], "two arms of one name"),
        (["--arms", "nothing"], "nothing"),
    ],
)
def test_what_cannot_be_measured_is_one_line(flags: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["gradient", *SMALL, *flags]) == 2
    assert said in capsys.readouterr().err
