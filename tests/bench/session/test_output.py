"""Standard output may close, fill up or lack letters: a run goes on, and a table ends without a traceback."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.bench.small_runs import SMALL

BENCH = [sys.executable, "-m", "bench"]
LOUD = [flag for flag in SMALL if flag != "--quiet"]
FLAGS = [*LOUD, "--algo.group-size", "4", "--eval.limit", "0", "--budget", "steps=2", "--sampling.max-new-tokens", "8"]


@pytest.mark.parametrize("full", [False, True], ids=["closed", "full"])
def test_a_run_outlives_its_reader(full: bool, tmp_path: Path) -> None:
    command = [*BENCH, "run", *FLAGS, "--out", str(tmp_path / "out")]
    ours, theirs = (None, os.open("/dev/full", os.O_WRONLY)) if full else os.pipe()
    if ours is not None:
        os.close(ours)
    done = subprocess.run(command, stdout=theirs, stderr=subprocess.PIPE, text=True, check=False)
    os.close(theirs)
    (path,) = (tmp_path / "out").iterdir()
    assert (done.returncode, done.stderr) == (0, "")
    assert json.loads((path / "summary.json").read_text())["status"] == "finished"


@pytest.mark.parametrize("arguments", [["list"], ["plan", "--help"], ["run", "--print-config"]], ids=" ".join)
def test_a_table_ends_with_its_reader(arguments: list[str]) -> None:
    ours, theirs = os.pipe()
    os.close(ours)
    done = subprocess.run([*BENCH, *arguments], stdout=theirs, stderr=subprocess.PIPE, text=True, check=False)
    os.close(theirs)
    assert (done.returncode, done.stderr) == (141, "")


def test_a_locale_without_the_letter_ends_no_run(tmp_path: Path) -> None:
    for split in ("train", "test"):
        rows = [{"question": f"Zoë {split} has {n} pens?", "answer": f"#### {n}"} for n in range(40)]
        lines = [json.dumps(row, ensure_ascii=False) for row in rows]
        (tmp_path / f"{split}.jsonl").write_text("\n".join(lines), encoding="utf-8")
    locale = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    command = [*BENCH, "run", *FLAGS, "--data", str(tmp_path), "--out", str(tmp_path / "out")]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env={**os.environ, **locale})
    assert (done.returncode, done.stderr) == (0, "")
    (path,) = (tmp_path / "out").iterdir()
    assert "Zoë" in (path / "completions.jsonl").read_text(encoding="utf-8")
    named = [*command[:-1], str(tmp_path / "named"), "--name", "zoë"]  # which tokenizers cannot write a path of
    done = subprocess.run(named, capture_output=True, text=True, check=False, env={**os.environ, **locale})
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert "set PYTHONUTF8=1" in done.stderr
