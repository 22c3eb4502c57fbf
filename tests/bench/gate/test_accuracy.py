"""Tier 3: the verdict on runs over seeds, its errors under repeated looks, and records made by other programs."""

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bench.cli import main
from bench.gate.accuracy import Results, judge_accuracy, level_of, read_runs
from bench.gate.baselines import move_baseline, read_baseline
from bench.gate.verdict import look_sizes
from bench.ground.errors import UserError
from tests.bench.factory import make_run

MARGIN = -0.05


def results(*accuracy: float, first_seed: int = 0, terms: dict[str, str] | None = None, **extra: object) -> Results:
    return Results(terms=terms or {}, accuracy=dict(enumerate(accuracy, start=first_seed)), **extra)  # type: ignore[arg-type]


def verdict(head: Results, base: Results) -> str:
    return judge_accuracy("x", head, base, MARGIN, 0.95).status


def test_clear_cases() -> None:
    base = results(0.80, 0.81, 0.79, 0.80)
    assert verdict(results(0.81, 0.80, 0.80, 0.79), base) == "pass"
    assert verdict(results(0.60, 0.62, 0.61, 0.59), base) == "worse"
    assert verdict(results(0.70, 0.85, 0.60, 0.80), base) == "cannot judge"
    assert verdict(results(0.95, 0.96, 0.94, 0.94), base) == "pass", "better is no reason to stop"


def test_the_margin_decides_which_end_of_the_interval_counts() -> None:
    """Worse by 3 points for sure is within 5; the same numbers against a margin of 2 are red."""
    base, head = results(0.80, 0.81, 0.79, 0.80), results(0.77, 0.78, 0.76, 0.768)
    assert judge_accuracy("x", head, base, -0.05, 0.95).status == "pass"
    assert judge_accuracy("x", head, base, -0.02, 0.95).status == "worse"


def test_equal_seeds_are_paired_and_equal_runs_pass_at_once() -> None:
    same = results(0.5, 0.9, 0.7)
    assert verdict(same, same) == "pass"
    assert verdict(results(0.5, 0.9, 0.7, first_seed=10), same) == "cannot judge"


def test_what_is_lost_never_passes() -> None:
    whole = results(0.8, 0.8, 0.81, 0.79)
    assert verdict(results(0.8, 0.8, 0.81, lost={3: "diverged in step 4"}), whole) == "worse"
    assert verdict(results(0.8, 0.8, 0.81, lost={3: "failed"}), results(0.8, 0.8, 0.81)) == "worse", "one more, lost"
    assert verdict(whole, results(0.8, 0.8, 0.81, lost={3: "failed"})) == "cannot judge"
    assert verdict(results(0.8, 0.8), whole) == "worse", "seeds of the base are gone"
    assert verdict(results(), whole) == "worse"
    assert verdict(whole, results(0.8, 0.8, 0.81)) == "cannot judge", "the base lacks a seed"
    assert verdict(results(0.8, 0.8, 0.8, first_seed=10), whole) == "worse", "fewer runs, of other seeds"


def test_other_settings_cannot_be_judged() -> None:
    here, there = {"budget": "samples=10"}, {"budget": "samples=20"}
    finding = judge_accuracy("x", results(0.8, 0.8, 0.8, terms=here), results(0.8, 0.8, 0.8, terms=there), -0.05, 0.95)
    assert finding.status == "cannot judge"
    assert "samples=10" in finding.detail


def test_a_base_that_hardly_learns_is_pointed_out() -> None:
    finding = judge_accuracy("x", results(0.4, 0.41, 0.4), results(0.4, 0.41, 0.4, start=0.37), -0.05, 0.95)
    assert "gains only 3.3 points" in finding.detail


def simulated(difference: float, sd: float, count: int = 2000) -> dict[str, float]:
    """Shares of verdicts of the whole sequential rule, unpaired seeds, by simulation."""
    draw = np.random.default_rng([int(-1000 * difference), int(1000 * sd)])
    sizes = look_sizes(4, 12)
    found = {"pass": 0, "worse": 0, "cannot judge": 0}
    for _ in range(count):
        base, head = draw.normal(0.8, sd, 12), draw.normal(0.8 + difference, sd, 12)
        for n in sizes:
            ours, theirs = results(*head[:n], first_seed=100), results(*base[:n])
            status = judge_accuracy("x", ours, theirs, MARGIN, level_of(len(sizes))).status
            if status != "cannot judge":
                break
        found[status] += 1
    return {status: number / count for status, number in found.items()}


def test_unchanged_code_is_never_red_and_mostly_passes() -> None:
    shares = simulated(0.0, 0.03)
    assert shares["worse"] <= 0.002
    assert shares["pass"] >= 0.9


def test_at_the_margin_itself_all_looks_together_err_as_often_as_one_may() -> None:
    """Two-sided 5%: 2.5% red and 2.5% passed, whatever the number of looks."""
    shares = simulated(-0.05, 0.03, 4000)
    assert shares["worse"] <= 0.035
    assert shares["pass"] <= 0.035


@pytest.mark.parametrize(("cost", "least"), [(-0.10, 0.85), (-0.15, 0.999)])
def test_what_costs_ten_points_is_red(cost: float, least: float) -> None:
    assert simulated(cost, 0.03, 1000)["worse"] >= least


def runs(folder: Path, gain: float, seeds: range, arm: str = "mine", **settings: object) -> Path:
    for seed in seeds:
        make_run(folder, arm, seed, gain=gain, **settings)  # type: ignore[arg-type]
    return folder


def test_recorded_runs_against_recorded_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    base = runs(tmp_path / "base", 0.3, range(5))
    good, bad = runs(tmp_path / "good", 0.3, range(10, 15)), runs(tmp_path / "bad", 0.1, range(10, 15))
    flags = ["check", "--tiers", "3", "--quiet", "--against", str(base), "--runs"]
    assert main([*flags, str(good)]) == 0
    assert main([*flags, str(bad)]) == 1
    make_run(good, "mine", 20, status="diverged")
    assert main([*flags, str(good)]) == 1
    other = runs(tmp_path / "other", 0.3, range(5), task="math")
    assert main([*flags, str(other)]) == 3


def test_recorded_runs_against_a_stored_baseline(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    base, bad = runs(tmp_path / "base", 0.3, range(5)), runs(tmp_path / "bad", 0.1, range(10, 15))
    flags = ["check", "--tiers", "3", "--quiet", "--runs"]
    assert main([*flags, str(base)]) == 3, "there is no baseline yet"
    assert main([*flags, str(base), "--against", "nowhere.json"]) == 2
    assert main([*flags, str(base), "--update-baseline", "--reason", "the first"]) == 0
    (stored,) = (tmp_path / "results/baselines").glob("*/*.json")
    assert stored.name == "gsm8k-embedded-mine-steps12.json"
    assert main([*flags, str(base)]) == 0
    assert main([*flags, str(bad)]) == 1
    assert main([*flags, str(bad), "--against", str(stored)]) == 1


def test_a_baseline_remembers_who_moved_it_why_and_by_how_much(tmp_path: Path) -> None:
    path = tmp_path / "b.json"
    move_baseline(path, "x", results(0.8, 0.8), "the first")
    move_baseline(path, "x", results(0.7, 0.7), "a smaller model")
    history = json.loads(path.read_text())["history"]
    assert [move["why"] for move in history] == ["the first", "a smaller model"]
    assert history[1]["changed"] == "80.0% (2 runs) -> 70.0% (2 runs)"
    assert read_baseline(path).accuracy == {0: 0.7, 1: 0.7}
    with pytest.raises(UserError, match="seed 1: diverged"):
        move_baseline(path, "x", results(0.8, lost={1: "diverged"}), "hide it")


def test_a_run_that_was_not_tested_after_training_is_lost(tmp_path: Path) -> None:
    path = make_run(tmp_path, "mine", 0)
    rows = [json.loads(line) for line in (path / "evals.jsonl").read_text().splitlines()]
    (path / "evals.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows if row["step"] == 0))
    assert read_runs(tmp_path)["mine"].lost == {0: "no test accuracy after training"}


def test_the_records_that_the_documents_describe_are_enough(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    page = (Path(__file__).parents[3] / "docs" / "gate.md").read_text()
    (example,) = re.findall(r"^```python\n(# write_records\.py\n.*?)^```", page, re.DOTALL | re.MULTILINE)
    names: dict[str, Any] = {}
    exec(example, names)
    monkeypatch.chdir(tmp_path)
    for seed in range(4):
        names["write_run"](Path(f"runs/base/{seed}"), seed=seed, before=0.2, after=0.6 + 0.01 * seed)
        names["write_run"](Path(f"runs/head/{seed}"), seed=seed + 10, before=0.2, after=0.61 + 0.01 * seed)
        names["write_run"](Path(f"runs/bad/{seed}"), seed=seed + 10, before=0.2, after=0.4 + 0.01 * seed)
    flags = ["check", "--tiers", "3", "--quiet", "--against", "runs/base", "--runs"]
    assert main([*flags, "runs/head"]) == 0
    assert main([*flags, "runs/bad"]) == 1
    names["write_run"](Path("runs/head/4"), seed=14, before=0.2, after=0.6, status="failed")
    assert main([*flags, "runs/head"]) == 1
    assert main(["check", "--tiers", "3", "--runs", "runs/base", "--update-baseline", "--reason", "1.4"]) == 0
    assert Path("results/baselines/8xH100-80GB/gsm8k-my-1b-grpo-steps100.json").exists()
    assert main(["check", "--tiers", "3", "--quiet", "--runs", "runs/bad"]) == 1
