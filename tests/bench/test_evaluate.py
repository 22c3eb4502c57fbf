"""Evaluation: figures by hand, every problem once, the command."""

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from itertools import combinations
from pathlib import Path

import pytest

from bench.cli import main
from bench.config import ASSETS, EngineConfig, EvalConfig
from bench.engines.hf import HFRollout
from bench.evaluate import interval, judge, maj_at_k, pass_at_k, summarise
from bench.models.load import load_model, load_tokenizer
from tasks import TASKS
from tasks.competition_math import CompetitionMath
from tasks.core import Problem, Score, Split
from tests.bench.support import rollout


@pytest.mark.parametrize(("n", "c", "k"), [(4, 0, 1), (4, 1, 2), (5, 2, 3), (6, 6, 4), (8, 3, 8)])
def test_pass_at_k_is_the_share_of_subsets_with_a_right_one(n: int, c: int, k: int) -> None:
    subsets = list(combinations(range(n), k))
    assert pass_at_k(n, c, k) == pytest.approx(sum(min(s) < c for s in subsets) / len(subsets))


def answered(*pairs: tuple[str | None, bool]) -> list[object]:
    return [type("R", (), {"score": Score(reward=0, correct=right, answer=answer)})() for answer, right in pairs]


def test_majority_by_hand() -> None:
    assert maj_at_k(answered(("3", True), ("3", True), ("4", False))) == 1  # type: ignore[arg-type]
    assert maj_at_k(answered(("3", True), ("4", False), ("4", False))) == 0  # type: ignore[arg-type]
    assert maj_at_k(answered(("3", True), ("4", False))) == 0.5  # type: ignore[arg-type]
    assert maj_at_k(answered((None, False), (None, False), ("3", True))) == 1  # type: ignore[arg-type]
    assert maj_at_k(answered((None, False))) == 0  # type: ignore[arg-type]


def test_equal_answers_vote_together_whatever_they_are_written_as() -> None:
    """Three halves against two threes: as texts the threes would win."""
    votes = answered(("0.5", True), ("\\frac12", True), ("3", False), ("\\frac{1}{2}", True), ("3", False))
    task, problem = CompetitionMath(), Problem(id="p", prompt="", reference="0.5")
    assert maj_at_k(votes) == 0  # type: ignore[arg-type]
    assert maj_at_k(votes, partial(task.same, problem)) == 1  # type: ignore[arg-type]


def test_interval_by_hand() -> None:
    """Ten problems, four right: 0.4 +- 2.262 * 0.5164 / sqrt(10)."""
    low, high = interval([1.0] * 4 + [0.0] * 6) or (math.nan, math.nan)
    assert low == pytest.approx(0.0306, abs=1e-3)
    assert high == pytest.approx(0.7694, abs=1e-3)
    assert interval([1.0]) is None


@dataclass(frozen=True)
class Counting:
    """A task that is right where the completion has an even number of characters, and remembers what it saw."""

    seen: list[str]

    def problems(self, split: Split) -> Sequence[Problem]:
        questions = [f"Tom has {i} apples and buys 2. How many?" for i in range(13)]
        return [Problem(id=f"c/{split}/{i}", prompt=q, reference="") for i, q in enumerate(questions)]

    def score(self, problem: Problem, completion: str) -> Score:
        self.seen.append(problem.id)
        return Score(reward=0, correct=len(completion) % 2 == 0, answer=completion)


@pytest.mark.parametrize("batch", [4, 5, 8])
def test_every_problem_is_scored_once_whatever_the_batch(batch: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """13 problems; the figures agree with a count by hand over the recorded verdicts."""
    monkeypatch.setattr("bench.evaluate.BATCH", batch)
    task = Counting([])
    location = str(ASSETS / "gsm8k")
    config = EngineConfig(device="cpu", rollout_batch_size=batch)
    engine = HFRollout(load_model(location), load_tokenizer(location), config)
    verdicts = list(judge(engine, task, task.problems("test"), EvalConfig(num_samples=2), 24))
    assert sorted(task.seen) == sorted([p.id for p in task.problems("test")] * 3)
    summary = summarise(verdicts, 2)
    texts = [v.greedy.completion.text for v in verdicts if v.greedy is not None]
    assert summary["accuracy"] == pytest.approx(sum(len(t) % 2 == 0 for t in texts) / 13)
    sampled = [r.completion.text for v in verdicts for r in v.sampled]
    assert summary["sampled_accuracy"] == pytest.approx(sum(len(t) % 2 == 0 for t in sampled) / 26)
    assert summary["pass_at_k"]["1"] == pytest.approx(summary["sampled_accuracy"])
    assert (summary["num_problems"], len(sampled)) == (13, 26)


def test_greedy_only_leaves_sampled_figures_out() -> None:
    from bench.evaluate import Verdicts

    r = rollout(correct=True)
    summary = summarise([Verdicts(problem=r.problem, greedy=r, sampled=())], 0)
    assert summary["accuracy"] == 1
    assert "sampled_accuracy" not in summary


def test_an_answer_that_was_cut_off_is_not_completed() -> None:
    from bench.evaluate import Verdicts, describe, problem_rows

    whole, cut = rollout(correct=True), rollout(correct=True, finish="length")
    wrong = rollout(correct=False)
    verdicts = [Verdicts(problem=whole.problem, greedy=cut, sampled=(whole, cut, cut, wrong))]
    summary = summarise(verdicts, 4)
    assert (summary["accuracy"], summary["completed_accuracy"]) == (1, 0)
    assert (summary["sampled_accuracy"], summary["sampled_completed_accuracy"]) == (0.75, 0.25)
    assert summary["sampled_truncated_frac"] == 0.5
    assert [row["num_completed"] for row in problem_rows(verdicts)] == [1]
    assert "of which cut off 50.0%" in describe(summary)


def test_the_command_on_two_tasks_equals_a_hand_count(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    flags = ["--limit", "20", "--num-samples", "2", "--out", str(tmp_path), "--quiet"]
    assert main(["eval", "--task", "gsm8k", "countdown", *flags, "--model", str(ASSETS / "gsm8k")]) == 0
    (path,) = tmp_path.iterdir()
    rows = [json.loads(line) for line in (path / "eval_problems.jsonl").read_text().splitlines()]
    for row in (json.loads(line) for line in (path / "evals.jsonl").read_text().splitlines()):
        mine = [r for r in rows if r["task"] == row["task"]]
        assert len(mine) == row["num_problems"] == 20
        assert row["accuracy"] == sum(r["correct"] for r in mine) / 20
        assert row["sampled_accuracy"] == sum(r["num_correct"] for r in mine) / 40
    assert "gsm8k test: greedy accuracy" in capsys.readouterr().out


def test_the_command_refuses_one_path_for_two_tasks(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["eval", "--task", "gsm8k", "math", "--data", "x"]) == 2
    assert "one task" in capsys.readouterr().err


def test_a_tasks_own_settings_can_be_given(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    flags = ["--task", "gsm8k", "--limit", "2", "--num-samples", "0", "--out", str(tmp_path), "--quiet"]
    assert main(["eval", *flags, "--set", "seed=7"]) == 0
    (path,) = tmp_path.iterdir()
    provenance = json.loads((path / "provenance.json").read_text())["data"]["gsm8k"]
    assert provenance["sha256"] != TASKS["gsm8k"]().provenance("test")["sha256"]  # type: ignore[attr-defined]
    assert main(["eval", *flags, "--set", "sed=7"]) == 2
    assert "did you mean seed" in capsys.readouterr().err
