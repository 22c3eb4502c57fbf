"""The examples run, and the page that shows the loop computes what the loop does."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from bench.ground.errors import UserError
from bench.library import compare, run
from examples import library, one_file


def test_one_file_takes_the_loops_own_steps(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(one_file, "PROMPTS", 4)
    sizes = {"samples_per_step": 32, "sampling": {"max_new_tokens": 64}, "eval": {"limit": 0}, "quiet": True}
    theirs = run(sizes, algo_name="grpo", budget="steps=2", out=str(tmp_path)).steps
    trainer = one_file.Trainer()
    for number in range(2):
        row = trainer.step(number)
        for name in ("reward/mean", "reward/correct_frac", "actor/grad_norm_max"):
            assert row[name] == pytest.approx(theirs[name].iloc[number], rel=1e-4), name


def test_one_file_is_a_page() -> None:
    assert len(Path(one_file.__file__).read_text().splitlines()) <= 130


def test_the_library_gives_frames(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    library.main(tmp_path)
    printed = capsys.readouterr().out
    assert "finished" in printed
    assert "no verdict: 1 run(s) an arm" in printed
    (summary,) = (tmp_path / "runs").glob("*/summary.json")
    assert json.loads(summary.read_text())["steps"] == 2


def test_a_mistake_is_the_users_error(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="did you mean budget"):
        run(budgt="steps=1", out=str(tmp_path))
    with pytest.raises(UserError, match="unexpected keyword argument 'seed'"):
        compare(("ppo",), seed=1, out=tmp_path)
    assert not list(tmp_path.iterdir())


def test_importing_the_library_loads_no_torch() -> None:
    code = "import bench.library, sys; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
