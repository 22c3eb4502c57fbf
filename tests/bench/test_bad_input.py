"""What a user gets wrong, and what a machine does: one line, and nothing half-written."""

import json
import resource
import subprocess
import sys
from pathlib import Path

import pytest

from bench.cli import main
from tests.bench.small_runs import SMALL, rows, run, weights


def write(folder: Path, *, train: list[str] | None = None, test: list[str] | None = None) -> Path:
    """A data folder in GSM8K's format, line by line."""
    good = [
        json.dumps({"question": f"What is {i} + 1?", "answer": f"It is {i + 1}.\n#### {i + 1}"}) for i in range(200)
    ]
    held = [json.dumps({"question": f"What is {i} + 2?", "answer": f"#### {i + 2}"}) for i in range(20)]
    folder.mkdir(exist_ok=True)
    (folder / "train.jsonl").write_text("\n".join(good if train is None else train))
    (folder / "test.jsonl").write_text("\n".join(held if test is None else test))
    return folder


def refused(capsys: pytest.CaptureFixture[str], tmp_path: Path, *flags: str) -> str:
    """The error of a run that must not start, which leaves nothing behind."""
    assert main(["run", *SMALL, "--budget", "steps=1", *flags, "--out", str(tmp_path / "out")]) == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    assert not (tmp_path / "out").exists()
    return error


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("{broken", "train.jsonl:1: not a JSON row"),
        ("[1, 2]", "train.jsonl:1: a row must be a JSON object"),
        ('{"question": "q"}', "train.jsonl:1: no field 'answer'"),
        ('{"question": 3, "answer": "#### 3"}', "train.jsonl:1: field 'question' must be text"),
        ('{"question": "q", "answer": "3"}', "train.jsonl:1: the answer has no line"),
    ],
)
def test_a_malformed_row_is_named_by_file_and_line(
    line: str, words: str, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    assert words in refused(capsys, tmp_path, "--data", str(write(tmp_path / "data", train=[line])))


def test_empty_data_is_refused(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert "no rows" in refused(capsys, tmp_path, "--data", str(write(tmp_path / "data", train=[])))


def test_data_that_is_not_there_is_refused(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert "no such file" in refused(capsys, tmp_path, "--data", str(tmp_path / "nowhere"))


def test_no_data_and_no_hub_is_refused_without_a_fallback(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:9")  # nobody listens there
    monkeypatch.delenv("BENCH_DATA", raising=False)
    from bench.config import ASSETS

    command = [sys.executable, "-m", "bench", "run", *SMALL, "--source", "hub", "--model", str(ASSETS / "gsm8k")]
    done = subprocess.run([*command, "--out", str(tmp_path / "out")], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "give --data PATH or set BENCH_DATA" in done.stderr
    assert done.stderr.count("\n") == 1
    assert not (tmp_path / "out").exists()


def test_long_prompts_are_refused_or_dropped_and_counted_never_cut(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    long = json.dumps({"question": "Why? " * 300, "answer": "#### 1"})
    good = [json.dumps({"question": f"What is {i} + 1?", "answer": f"#### {i + 1}"}) for i in range(200)]
    data = str(write(tmp_path / "data", train=[long, *good]))
    flags = ["--data", data, "--max-prompt-tokens", "200", "--task.template", "plain"]
    error = refused(capsys, tmp_path, *flags)
    assert "gsm8k/train/0: its prompt is over 200 tokens" in error
    path = run(tmp_path / "dropped", *flags, "--long-prompts", "drop", "--budget", "steps=1")
    assert json.loads((path / "provenance.json").read_text())["num_dropped_prompts"] == 1


def test_a_place_that_cannot_be_written_is_refused(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    assert main(["run", *SMALL, "--budget", "steps=1", "--out", str(tmp_path / "file" / "below")]) == 2
    assert "cannot be written" in capsys.readouterr().err


def test_a_full_disk_ends_the_run_with_one_line_and_it_goes_on_later(tmp_path: Path) -> None:
    """Files may grow to 1 MB only, so the checkpoint's weights do not fit; what was recorded stays."""
    flags = ["--budget", "steps=3", "--algo.group-size", "4"]
    whole = run(tmp_path / "whole", *flags)
    done = subprocess.run(
        [sys.executable, "-m", "bench", "run", *SMALL, *flags, "--out", str(tmp_path / "full")],
        capture_output=True,
        text=True,
        check=False,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (2**20, 2**20)),
    )
    assert done.returncode == 1, done.stderr
    assert "cannot write: checkpoint of step 2" in done.stdout
    (path,) = (tmp_path / "full").iterdir()
    assert not (path / "summary.json").exists()
    assert [r["step"] for r in rows(path)] == [1, 2]
    assert main(["run", "--resume", str(path), "--quiet"]) == 0
    assert rows(path) == rows(whole)
    a, b = weights(path), weights(whole)
    assert all((a[name] == b[name]).all() for name in b)
