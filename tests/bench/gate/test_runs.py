"""Tiers 2 and 3 by real processes: steps in turns, and runs over seeds, of this tree against a copy of it."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from bench.cli import main

ROOT = Path(__file__).parents[3]
SMALL = ["--algo", "grpo", "--quiet", "--set", "samples-per-step=16", "eval.limit=6", "eval.num-samples=0"]
STEPS = ["--tiers", "2", "--pairs", "3", "--max-pairs", "3"]
RUNS = ["--tiers", "3", "--seeds", "3", "--max-seeds", "3", "--budget", "steps=1"]
UPDATE = '    with meter.phase("update"):\n'
BROKEN = ("bench/loop.py", UPDATE, UPDATE + "        1 / 0\n")

pytestmark = pytest.mark.slow


def findings(out: Path) -> dict[str, dict[str, Any]]:
    return {f["quantity"]: f for f in json.loads((out / "check.json").read_text())["findings"]}


@pytest.fixture
def head(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of this tree, in which we stand."""
    tree = tmp_path / "head"
    for name in ("algorithms", "bench", "tasks"):
        shutil.copytree(ROOT / name, tree / name, ignore=shutil.ignore_patterns("__pycache__"))
    monkeypatch.chdir(tree)
    return tree


def edit(tree: Path, file: str, old: str, new: str) -> None:
    text = (tree / file).read_text()
    assert text.count(old) == 1
    (tree / file).write_text(text.replace(old, new))


def test_a_tenth_more_memory_is_red_and_three_pairs_time_nothing(head: Path, tmp_path: Path) -> None:
    edit(head, "bench/engines/caches.py", "room, x.shape[3])", "room + 20, x.shape[3])")
    assert main(["check", *STEPS, *SMALL, "--base", str(ROOT), "--out", str(tmp_path / "out")]) == 1
    found = findings(tmp_path / "out")
    assert found["memory/kv_cache"]["status"] == "worse"
    assert found["memory/policy"]["status"] == found["memory/activations"]["status"] == "pass"
    assert found["throughput/rollout"]["measured"] == "too few pairs"
    pairs = json.loads((tmp_path / "out" / "grpo-steps.json").read_text())
    assert len(pairs) == 3
    for pair in pairs:
        assert pair["base"]["tokens"] == pair["head"]["tokens"]
        assert 0 < pair["head"]["own_s"]["rollout"] <= pair["head"]["wall_s"]["rollout"]


def test_a_head_that_cannot_step_is_red_and_a_base_that_cannot_is_not(head: Path, tmp_path: Path) -> None:
    edit(head, "bench/loop.py", '    with meter.phase("update"):\n', '    with meter.phase("update"):\n        1 / 0\n')
    flags = ["check", *STEPS, *SMALL, "--out", str(tmp_path / "out")]
    assert main([*flags, "--base", str(ROOT)]) == 1
    assert "ZeroDivisionError" in findings(tmp_path / "out")["a training step"]["detail"]
    old = tmp_path / "old"
    (old / "bench").mkdir(parents=True)
    (old / "bench" / "__init__.py").touch()
    assert main([*flags, "--base", str(old)]) == 1, "the head still cannot"
    edit(head, "bench/loop.py", "        1 / 0\n", "")
    assert main([*flags, "--base", str(old)]) == 3
    assert "bench.gate" in findings(tmp_path / "out")["a training step"]["detail"]


def test_equal_code_learns_equally(head: Path, tmp_path: Path) -> None:
    stale = tmp_path / "out" / "grpo-head" / "runs" / "of-an-earlier-check"
    stale.mkdir(parents=True)
    assert main(["check", *RUNS, *SMALL, "--base", str(ROOT), "--out", str(tmp_path / "out")]) == 0
    assert findings(tmp_path / "out")["accuracy"]["numbers"]["difference"] == 0
    assert not stale.exists()
