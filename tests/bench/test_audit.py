"""`bench doctor --task`: rows that cannot be judged by are listed with their place."""

import json
from pathlib import Path

import pytest

from bench.cli import main


def test_a_reference_that_fails_its_own_tests_is_listed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    shared = {"text": "Add.", "test_setup_code": "", "test_list": ["assert f(1) == 2"], "challenge_test_list": []}
    rows = [
        {"task_id": 20, "code": "def f(a):\n    return a + 1", **shared},
        {"task_id": 21, "code": "def f(a):\n    return a", **shared},
    ]
    file = tmp_path / "mbpp.jsonl"
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert main(["doctor", "--task", "code", "--task.dataset", "mbpp", "--data", str(file)]) == 1
    out = capsys.readouterr().out
    assert "test: 2 problems, 1 faults" in out
    assert "21: its reference fails" in out


def test_an_unusable_gold_is_listed_with_its_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for split, answer in (("train", "#### 3"), ("test", "#### many")):
        rows = [{"question": f"{split} {i}", "answer": answer if i else "#### 4"} for i in range(40)]
        (tmp_path / f"{split}.jsonl").write_text("".join(json.dumps(r) + "\n" for r in rows))
    assert main(["doctor", "--task", "gsm8k", "--data", str(tmp_path)]) == 1
    out = capsys.readouterr().out
    assert "test: 1 problems, 39 faults" in out
    assert "test.jsonl:2" in out


def test_a_sound_task_is_0(tmp_path: Path) -> None:
    for split in ("train", "test"):
        rows = [{"question": f"{split} {i}", "answer": "#### 4"} for i in range(40)]
        (tmp_path / f"{split}.jsonl").write_text("".join(json.dumps(r) + "\n" for r in rows))
    assert main(["doctor", "--task", "gsm8k", "--data", str(tmp_path)]) == 0
