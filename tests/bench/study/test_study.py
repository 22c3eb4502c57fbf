"""Studies: what is planned, what is refused as unfair, what is run again and what is not."""

import json
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from bench.ground.errors import UserError
from bench.report.tables import Table
from bench.study import transfer
from bench.study.board import minutes
from bench.study.compare import compare, study_of
from bench.study.config import CompareConfig
from bench.study.file import READY, parse_arm, parse_settings, read_study
from bench.study.launch import Outcome, estimate_s, split_ended
from bench.study.schedule import Arm, Planned, Study, schedule

GRPO, PPO = Arm(name="grpo", tree={"algo_name": "grpo"}), Arm(name="ppo", tree={"algo_name": "ppo"})
RUNS = Path("runs")


def study(*arms: Arm, **changes: Any) -> Study:  # noqa: ANN401 - any field
    """One task, one model, two seeds."""
    plain = Study(
        name="s",
        question="",
        arms=arms,
        tasks={"gsm8k": {}},
        models=["embedded"],
        seeds=2,
        settings={},
        variants={"": {}},
        reference=None,
    )
    return replace(plain, **changes)


def record(run: Planned, folder: Path, status: str | None, *, started: str = "2026-11-30T06:00:00+00:00") -> Path:
    """The directory that this run would leave."""
    path = folder / run.label
    path.mkdir(parents=True)
    (path / "config.json").write_text(json.dumps(json.loads(json.dumps(run.tree, default=str))))
    (path / "provenance.json").write_text(json.dumps({"started_at": started}))
    if status is not None:
        (path / "summary.json").write_text(json.dumps({"status": status, "steps": 24}))
    return path


@pytest.mark.parametrize(
    ("text", "name", "tree", "recipe"),
    [
        ("grpo", "grpo", {"algo_name": "grpo"}, None),
        ("grpo@dapo", "grpo@dapo", {"algo_name": "grpo"}, "dapo"),
        ("b=grpo,optimizer.betas=[0.8,0.9]", "b", {"algo_name": "grpo", "optimizer": {"betas": [0.8, 0.9]}}, None),
        ("kl0=grpo,algo.kl-coef=0", "kl0", {"algo_name": "grpo", "algo": {"kl_coef": 0}}, None),
        (
            "a=ppo@vapo,optimizer.schedule=linear",
            "a",
            {"algo_name": "ppo", "optimizer": {"schedule": "linear"}},
            "vapo",
        ),
    ],
)
def test_arms_from_flags(text: str, name: str, tree: dict[str, Any], recipe: str | None) -> None:
    assert parse_arm(text) == Arm(name=name, tree=tree, recipe=recipe)


@pytest.mark.parametrize("text", ["name=", "grpo,algo.kl_coef", "=grpo,x"])
def test_arms_that_cannot_be_read_are_refused(text: str) -> None:
    with pytest.raises(UserError, match="write"):
        parse_arm(text)


def test_settings_from_flags() -> None:
    pairs = ["eval.every=4", "eval.limit=100", "algo.kl-coef=0.5", "optimizer.schedule=cosine", "quiet=true"]
    assert parse_settings(pairs, "--set") == {
        "eval": {"every": 4, "limit": 100},
        "algo": {"kl_coef": 0.5},
        "optimizer": {"schedule": "cosine"},
        "quiet": True,
    }


def test_a_plan_goes_seed_by_seed_so_that_pairs_are_whole() -> None:
    later = replace(GRPO, name="later", first_seed=100)
    planned = schedule(study(GRPO, later), RUNS)
    assert [(run.arm, run.chosen.config.seed) for run in planned] == [
        ("grpo", 0),
        ("later", 100),
        ("grpo", 1),
        ("later", 101),
    ]
    assert len({run.fingerprint for run in planned}) == 4


def test_later_settings_go_over_earlier_ones() -> None:
    s = study(
        replace(GRPO, tree={"algo_name": "grpo", "optimizer": {"lr": 4.0}}),
        settings={"optimizer": {"lr": 1.0, "weight_decay": 1.0, "grad_clip": 1.5}, "engine": {"device": "cpu"}},
        tasks={"gsm8k": {"optimizer": {"lr": 2.0, "weight_decay": 2.0}}},
        variants={"v": {"optimizer": {"lr": 3.0}}},
    )
    optimizer = schedule(s, RUNS)[0].chosen.config.optimizer
    assert (optimizer.lr, optimizer.weight_decay, optimizer.grad_clip) == (4.0, 2.0, 1.5)


def test_a_recipe_is_what_an_arm_starts_from() -> None:
    arm = Arm(name="blog", tree={"algo_name": "grpo", "algo": {"kl_coef": 0.5}}, recipe="blog-post")
    same = {"sampling": {"max_new_tokens": 64}}
    config = schedule(study(arm, settings=same), RUNS)[0].chosen.config
    assert config.algo.group_size == 16  # the recipe's
    assert config.algo.kl_coef == 0.5  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("change", "name"),
    [
        ({"budget": "steps=9"}, "budget"),
        ({"samples_per_step": 128}, "samples_per_step"),
        ({"eval": {"limit": 9}}, "eval.limit"),
        ({"sampling": {"max_new_tokens": 32}}, "sampling.max_new_tokens"),
        ({"task": {"seed": 7}}, "task.seed"),
        ({"task": {"difficulty": {"max_start": 60}}}, "task.difficulty.max_start"),
    ],
)
def test_unequal_budgets_data_and_evaluation_are_refused(change: dict[str, Any], name: str) -> None:
    other = Arm(name="other", tree={"algo_name": "grpo", **change})
    with pytest.raises(UserError, match=f"unfair: {name} must be equal"):
        schedule(study(GRPO, other), RUNS)


def test_variants_that_a_report_could_not_tell_apart_are_refused() -> None:
    variants = {"slow": {"optimizer": {"lr": 0.1}}, "fast": {"optimizer": {"lr": 0.2}}}
    with pytest.raises(UserError, match="'slow, gsm8k, embedded' and 'fast, gsm8k, embedded' differ in nothing"):
        schedule(study(GRPO, variants=variants), RUNS)


def test_equal_samples_may_be_cut_into_steps_differently() -> None:
    other = Arm(name="other", tree={"algo_name": "grpo", "samples_per_step": 128})
    assert len(schedule(study(GRPO, other, settings={"budget": "samples=1024"}), RUNS)) == 4


def test_steps_are_no_equal_budget_for_an_arm_that_samples_again() -> None:
    dapo = Arm(name="dapo", tree={"algo_name": "dapo"})
    with pytest.raises(UserError, match="a step of dapo may generate more samples"):
        schedule(study(GRPO, dapo), RUNS)
    assert len(schedule(study(GRPO, dapo, settings={"budget": "samples=512"}), RUNS)) == 4


def test_arms_may_differ_in_method_and_reward() -> None:
    other = Arm(name="other", tree={"algo_name": "ppo", "task": {"weights": {"format": 0.0}}, "optimizer": {"lr": 0.1}})
    assert len(schedule(study(GRPO, other), RUNS)) == 4


def test_mistakes_are_one_line() -> None:
    for wrong, words in [
        (study(), "needs arms"),
        (study(GRPO, GRPO), "two arms are called grpo"),
        (study(GRPO, reference="x"), "no such arm"),
        (study(replace(GRPO, tree={"algo_name": "grpo", "algo": {"kl_cof": 1}})), "kl_cof"),
    ]:
        with pytest.raises(UserError, match=words):
            schedule(wrong, RUNS)
    with pytest.raises(UserError, match=r"one of: .*default"):
        read_study("no_such_study")


def test_a_study_file_with_an_unknown_key_is_refused(tmp_path: Path) -> None:
    (tmp_path / "s.toml").write_text("sedes = 3")
    with pytest.raises(UserError, match="unknown key 'sedes'"):
        read_study(str(tmp_path / "s.toml"))


@pytest.mark.parametrize("path", sorted(READY.glob("*.toml")), ids=lambda path: path.stem)
def test_ready_studies_plan_and_say_what_they_ask(path: Path) -> None:
    found = read_study(path.stem)
    planned = schedule(found, RUNS)
    assert found.name == path.stem
    assert found.question.endswith("?")
    assert len(planned) == len(found.arms) * len(found.variants) * len(found.tasks) * len(found.models) * found.seeds
    assert found.seeds >= 3
    assert all(run.chosen.config.eval.every for run in planned), "a curve needs evaluations on the way"


def test_flags_go_over_the_file() -> None:
    found = study_of(
        CompareConfig(algos=("grpo", "rloo"), task=("gsm8k",), seeds=5, budget="steps=2", set=("eval.limit=9",))
    )
    assert [arm.name for arm in found.arms] == ["grpo", "rloo"]
    assert (found.name, found.seeds) == ("grpo-rloo", 5)
    assert found.settings["budget"] == "steps=2"
    assert found.settings["eval"] == {"every": 4, "limit": 9}
    assert study_of(CompareConfig(study="group_size")).name == "group_size"


def test_what_has_ended_is_not_run_again(tmp_path: Path) -> None:
    planned = schedule(study(GRPO, PPO, seeds=3), tmp_path)
    statuses = ["finished", "diverged", "interrupted", None, "no-signal"]
    paths = [record(run, tmp_path, status) for run, status in zip(planned, statuses, strict=False)]
    ended, to_do = split_ended(planned, tmp_path)
    assert [outcome.path for outcome in ended] == [paths[0], paths[1], paths[4]]
    assert to_do == [(planned[2], paths[2]), (planned[3], paths[3]), (planned[5], None)]


def test_other_settings_are_another_run(tmp_path: Path) -> None:
    record(schedule(study(GRPO), tmp_path)[0], tmp_path, "finished")
    _, to_do = split_ended(schedule(study(GRPO, settings={"budget": "steps=9"}), tmp_path), tmp_path)
    assert [path for _, path in to_do] == [None, None]


def test_the_estimate_scales_what_was_measured(tmp_path: Path) -> None:
    planned = schedule(study(GRPO, PPO, settings={"budget": "steps=48"}), tmp_path)
    path = record(planned[0], tmp_path, "finished")
    assert estimate_s(planned, [tmp_path]) is None  # nothing is known of ppo
    start = 1_796_018_400  # 2026-11-30T06:00:00Z
    os.utime(path / "summary.json", (start + 60, start + 60))
    # 60 s for 24 steps, so 120 s for 48
    assert estimate_s([run for run in planned if run.arm == "grpo"], [tmp_path]) == pytest.approx(240)
    timed = schedule(study(PPO, settings={"budget": "seconds=30"}), tmp_path)
    assert estimate_s(timed, []) == 60
    assert (minutes(45), minutes(600), minutes(7200)) == ("45 s", "10 min", "2.0 h")


def test_transfer_compares_each_run_with_where_it_started(tmp_path: Path) -> None:
    outcomes: list[Outcome] = []
    for run, accuracy in zip(schedule(study(GRPO, seeds=3), tmp_path), (0.2, 0.3, None), strict=True):
        path = record(run, tmp_path / "runs", "finished")
        (path / "provenance.json").write_text(json.dumps({"model": {"location": "/models/small"}}))
        outcomes.append(Outcome(run=run, path=path, status="finished"))
        evaluated(tmp_path / "transfer" / run.label, accuracy)
    evaluated(tmp_path / "transfer" / "start-small", 0.1)
    (row,) = transfer.transfer_table(outcomes, tmp_path / "transfer").rows
    assert {name: cell.text for name, cell in row.items()} == {
        "trained on": "gsm8k, embedded",
        "arm": "grpo",
        "tested on": "math",
        "before": "10.0",
        "after": "25.0",
        "gain": "+15.0",
        "runs": "2 of 3",
    }


def evaluated(folder: Path, accuracy: float | None) -> None:
    (folder / "an-evaluation").mkdir(parents=True)
    rows = [] if accuracy is None else [{"task": "math", "split": "test", "accuracy": accuracy}]
    (folder / "an-evaluation" / "evals.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))


def cells(table: Table, column: str) -> list[str]:
    return [row[column].text for row in table.rows]


@pytest.mark.slow
def test_a_study_goes_on_after_failures_and_repeats_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    small = ("samples_per_step=16", "eval.limit=8", "eval.num_samples=0", "eval.every=1", "eval.validation_limit=8")
    config = CompareConfig(
        arms=("grpo", "wild=grpo,optimizer.lr=1e30", "broken=grpo,optimizer.betas=[2.0,2.0]"),
        seeds=1,
        budget="steps=2",
        set=small,
        out=tmp_path,
        name="small",
    )
    assert compare(config) == 1
    printed = capsys.readouterr().out
    assert "wild-gsm8k-embedded-s0: diverged" in printed
    assert "failed   broken-gsm8k-embedded-s0" in printed
    assert "0, 1 diverged" in printed
    report = tmp_path / "small" / "report"
    assert "broken-gsm8k-embedded-" in (report / "tables" / "unrecorded.csv").read_text()
    summaries = {path: path.stat().st_mtime_ns for path in (tmp_path / "small" / "runs").glob("*/summary.json")}
    assert len(summaries) == 2
    before = (report / "tables" / "results.csv").read_text()
    assert compare(config) == 1
    assert {path: path.stat().st_mtime_ns for path in (tmp_path / "small" / "runs").glob("*/summary.json")} == summaries
    assert (report / "tables" / "results.csv").read_text() == before
    assert "[1/1] broken" in capsys.readouterr().out
