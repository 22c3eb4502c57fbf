"""Real runs on the task that pays as it is earned."""

import math
from pathlib import Path

import pytest

from bench.cli import main
from bench.gather import without_truncated
from bench.ground.files import read_rows
from tests.bench.support import rollout

SMALL = ["--task", "chain", "--task.steps", "4", "--samples-per-step", "16", "--budget", "steps=1", "--eval.limit", "0"]


@pytest.mark.parametrize(
    ("algo", "taken"), [("step_grpo", "where it is earned"), ("grpo", "as one sum a completion"), ("sao", "where it")]
)
def test_a_run_says_how_its_method_takes_the_reward(
    algo: str, taken: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["run", "--algo", algo, *SMALL, "--out", str(tmp_path)]) == 0
    assert f"reward   paid as it is earned; {algo} takes it {taken}" in capsys.readouterr().out
    (path,) = tmp_path.iterdir()
    (row,) = read_rows(path / "steps.jsonl")
    assert math.isfinite(row["actor/grad_norm"])
    spread = row["actor/advantage_within_std"]
    assert (spread < 1e-6) is (algo == "grpo"), "credit by token where it is read, and there alone"


def test_paid_at_the_end_nothing_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", "--algo", "raft", *SMALL, "--task.pay", "end", "--out", str(tmp_path)]) == 0
    assert "paid as it is earned" not in capsys.readouterr().out


def test_a_completion_that_was_cut_off_is_wrong_where_that_is_wanted() -> None:
    cut = without_truncated(rollout(reward=1.0, correct=True, finish="length"))
    assert (cut.score.reward, cut.score.correct, cut.score.earned) == (0.0, False, ())
    whole = rollout(reward=1.0, correct=True)
    assert without_truncated(whole) is whole
