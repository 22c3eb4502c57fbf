"""Rewards that nothing can be learnt from: their code is named with the problem, and no run ends by them."""

import json
import math
import re
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from bench.cli import main
from bench.reward import RewardedTask
from bench.scoring import ScoreError, checked_score, finite_reward
from tasks.core import Problem, Score
from tasks.gsm8k import Gsm8k
from tests.bench.small_runs import SMALL

PROBLEM = Problem(id="mine/train/7", prompt="?", reference="1")


@dataclass(frozen=True)
class Given:
    """A task that answers whatever it was given, or raises it."""

    verdict: Any

    def problems(self, split: str) -> list[Problem]:
        return [PROBLEM]

    def score(self, problem: Problem, completion: str) -> Any:  # noqa: ANN401
        if isinstance(self.verdict, BaseException):
            raise self.verdict
        return self.verdict


BAD: list[Any] = [math.nan, math.inf, -math.inf, None, "0.5", [1.0], 1j, 10**400, 1e12, torch.ones(2), object()]
RAISED = [ValueError("of my own"), SystemExit(0), SystemExit("bye"), OSError(28, "No space left"), RecursionError()]


def in_short(value: object) -> str:
    """The same in every process that collects these tests: no addresses."""
    return re.sub(r" at 0x[0-9a-f]+", "", repr(value))[:60]


@pytest.mark.parametrize("reward", [*BAD, *RAISED], ids=in_short)
def test_a_reward_is_blamed_with_its_problem(reward: Any) -> None:  # noqa: ANN401
    def mine(problem: Problem, completion: str) -> Any:  # noqa: ANN401
        if isinstance(reward, BaseException):
            raise reward
        return reward

    task = RewardedTask(Given(Score(reward=0.0, correct=False)), mine)
    with pytest.raises(ScoreError, match=r"--reward tests.bench.test_scoring:.*mine.*problem mine/train/7") as found:
        task.score(PROBLEM, "text")
    assert "\n" not in str(found.value)


@pytest.mark.parametrize(
    "verdict",
    [
        *[Score(reward=reward, correct=True) for reward in BAD],
        *RAISED,
        None,
        1.0,
        Score(reward=1.0, correct="yes"),  # pyright: ignore[reportArgumentType]
        Score(reward=1.0, correct=None),  # pyright: ignore[reportArgumentType]
        Score(reward=1.0, correct=True, answer=7),  # pyright: ignore[reportArgumentType]
        Score(reward=1.0, correct=True, format_ok=0.5),  # pyright: ignore[reportArgumentType]
    ],
    ids=in_short,
)
def test_so_is_a_task(verdict: Any) -> None:  # noqa: ANN401
    with pytest.raises(ScoreError, match=r"task tests.bench.test_scoring:Given: .*problem mine/train/7"):
        checked_score(Given(verdict), PROBLEM, "text")


@pytest.mark.parametrize("value", [1, True, 0.5, np.float32(0.5), np.int64(2), torch.tensor(0.5), -1e9])
def test_numbers_of_any_library_are_rewards(value: Any) -> None:  # noqa: ANN401
    assert finite_reward(value, "--reward a:b", PROBLEM) == float(value)
    assert checked_score(Given(Score(reward=value, correct=np.True_)), PROBLEM, "").correct is True  # pyright: ignore[reportArgumentType]


REWARDS = """
import math, sys
calls = 0
def late_nan(problem, completion):
    global calls
    calls += 1
    return math.nan if calls > 20 else float(len(completion) % 3)
def leaves(problem, completion):
    sys.exit(0)
"""


@pytest.mark.parametrize(
    ("name", "step", "words"), [("late_nan", 2, "is nan; return a finite"), ("leaves", 1, "SystemExit: 0")]
)
def test_a_run_ends_by_blame_and_has_not_ended(
    name: str,
    step: int,
    words: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    monkeypatch.delitem(sys.modules, "my_rewards", raising=False)
    (tmp_path / "my_rewards.py").write_text(REWARDS)
    flags = ["--reward", f"my_rewards:{name}", "--algo.group-size", "4", "--eval.limit", "0", "--budget", "steps=5"]
    assert main(["run", *SMALL, *flags, "--sampling.max-new-tokens", "8", "--out", "out"]) == 2
    said = capsys.readouterr().err
    assert said.startswith(f"error: step {step}: --reward my_rewards:{name}: ")
    assert words in said
    assert "problem gsm8k/train/" in said
    assert "--resume out/" in said
    (path,) = (tmp_path / "out").iterdir()
    assert not (path / "summary.json").exists()


def test_an_evaluation_is_no_figure_either(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def score(self: Gsm8k, problem: Problem, completion: str) -> Score:
        del self, problem, completion
        return Score(reward=math.nan, correct=False)

    monkeypatch.setattr(Gsm8k, "score", score)
    assert main(["eval", "--task", "gsm8k", "--limit", "2", "--num-samples", "0", "--out", str(tmp_path)]) == 2
    assert "error: task tasks.gsm8k:Gsm8k: the reward of problem gsm8k/" in capsys.readouterr().err
    (path,) = tmp_path.iterdir()
    assert not (path / "evals.jsonl").exists()
    assert json.loads((path / "config.json").read_text())["limit"] == 2
