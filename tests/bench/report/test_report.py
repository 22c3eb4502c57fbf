"""Records in, tables and figures out: hand-computed figures, honest words, a cache that notices changes."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from bench.ground.errors import UserError
from bench.ground.registration import Registration
from bench.ground.runs import find_runs
from bench.ground.sums import seal
from bench.report import gallery, listing
from bench.report.claims import practical_comparison
from bench.report.command import report
from bench.report.comparison import comparisons_in
from bench.report.cost_plots import frontier
from bench.report.costs import cost_table
from bench.report.efficiency import efficiency, equal_cost
from bench.report.figures import Figure
from bench.report.listing import arms
from bench.report.records import Records, load
from bench.report.results import results
from bench.report.tables import Table, number, percent
from bench.report.verdicts import arm_differences, judge_all
from bench.stats import Estimate
from tests.bench.factory import make_run


def loaded(root: Path) -> Records:
    return load(find_runs([root]), root.parent / "cache")


def rows(table: Table | None) -> list[dict[str, str]]:
    assert table is not None
    return [{name: cell.text for name, cell in row.items()} for row in table.rows]


def rewrite(path: Path, change: dict[str, Any]) -> None:
    path.write_text(json.dumps(json.loads(path.read_text()) | change))


def set_final(run: Path, accuracy: float) -> None:
    lines = [json.loads(line) for line in (run / "evals.jsonl").read_text().splitlines()]
    lines[-1] |= {"accuracy": accuracy, "sampled_accuracy": accuracy}
    lines[0] |= {"sampled_accuracy": lines[0]["accuracy"]}
    (run / "eval_problems.jsonl").write_text("")  # the verdicts would be of another accuracy
    (run / "evals.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))


def differences(records: Records, registration: Registration | None = None) -> list[dict[str, str]]:
    given = registration or Registration()
    return rows(arm_differences(judge_all(comparisons_in(records), records, None, given), given))


def drawn(records: Records) -> list[Figure]:
    found = comparisons_in(records)
    return gallery.draw(found, records, judge_all(found, records, None, Registration()))


@pytest.fixture
def study(tmp_path: Path) -> Path:
    """Two arms by three seeds, final accuracies 0.52, 0.64, 0.43 and 0.50, 0.60, 0.40, all from 0.30."""
    for seed, (a, b) in enumerate([(0.52, 0.50), (0.64, 0.60), (0.43, 0.40)]):
        set_final(make_run(tmp_path / "runs", "ppo", seed), a)
        set_final(make_run(tmp_path / "runs", "grpo", seed), b)
    return tmp_path / "runs"


def test_results_by_hand(study: Path) -> None:
    grpo, ppo = rows(results(comparisons_in(loaded(study))))
    # arcsine of the roots 0.80540, 0.92730, 0.71513: mean 0.81594, s = 0.10648, half-width 0.26451 at t = 4.30265
    assert ppo["after"] == "53.0 [27.5, 77.8]"
    assert ppo["each run"] == "52.0, 64.0, 43.0"
    assert ppo["gain"] == "+23.0 [-3.2, +49.2]"
    assert ppo["before"] == "30.0"
    assert ppo["in words"] == "no detectable gain"
    assert grpo["arm"] == "grpo"
    assert grpo["setting"] == "gsm8k (procedural), embedded, steps=12"


def test_differences_by_hand(study: Path) -> None:
    (row,) = differences(loaded(study))
    # groups of 1 and 8 share no prompts, so Welch: 0.03, error sqrt((0.01110 + 0.01) / 3) = 0.08387, df 3.989
    assert row["arms"] == "ppo - grpo"
    assert row["difference"] == "+3.0 [-20.3, +26.3]"
    assert row["n"] == "3 and 3, independent"
    assert row["kind"] == "exploratory"
    assert row["verdict"].startswith("undecided: ")
    unequal = "KL 0.0 against 0.04; models policy, critic against policy, reference; prompts not shared"
    assert row["differs also in"] == unequal


def test_arms_that_share_their_prompts_are_paired(tmp_path: Path) -> None:
    for seed, (a, b) in enumerate([(0.52, 0.50), (0.64, 0.60), (0.43, 0.40)]):
        for arm, value in (("a", a), ("b", b)):
            set_final(make_run(tmp_path / "runs", arm, seed, algo="grpo"), value)
    (row,) = differences(loaded(tmp_path / "runs"))
    # 0.02, 0.04, 0.03: mean 0.03 with half-width 0.0248, p = 0.0351; 5.6535 standard errors of 0.00577 detectable
    assert row["arms"] == "b - a"
    assert row["difference"] == "-3.0 [-5.5, -0.5]"
    assert row["p (adjusted)"] == "0.035"
    assert row["detectable"] == "3.3"
    assert row["n"] == "3 pairs"
    assert row["verdict"] == "b is worse than a by 3.0 points"


def test_a_registered_contrast_is_primary_with_its_margin(tmp_path: Path) -> None:
    for seed, (a, b) in enumerate([(0.520, 0.519), (0.640, 0.641), (0.430, 0.4305)]):
        for arm, value in (("a", a), ("b", b), ("c", b)):
            set_final(make_run(tmp_path / "runs", arm, seed, algo="grpo"), value)
    found = differences(loaded(tmp_path / "runs"), Registration(primary=[("b", "a")], margin=0.02))
    assert [row["kind"] for row in found] == ["primary", "exploratory", "exploratory"]
    assert found[0]["arms"] == "b - a"
    assert found[0]["verdict"] == "b and a are equivalent within 2 points"


def test_verdicts_by_problem_enter_the_interval(tmp_path: Path) -> None:
    """Two arms whose seeds agree wholly and whose problems do not: the spread over problems is what is left."""
    right = {"a": [4, 4, 0, 4, 2], "b": [0, 4, 0, 4, 2]}
    for seed in range(3):
        for arm, counts in right.items():
            run = make_run(tmp_path / "runs", arm, seed, algo="grpo")
            mean = sum(counts) / 20
            set_final(run, mean)
            lines = [
                {"step": 12, "split": "test", "task": "gsm8k", "problem": f"p{i}", "num_correct": n, "num_samples": 4}
                for i, n in enumerate(counts)
            ]
            (run / "eval_problems.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    (row,) = differences(loaded(tmp_path / "runs"))
    # differences 1, 0, 0, 0, 0 by problem: mean 0.2, error sqrt(0.2 / 5) = 0.2, t(0.975, 4) = 2.776
    assert row["difference"].lstrip("+-") in ("20.0 [-35.5, +75.5]", "20.0 [-75.5, +35.5]")
    assert row["n"] == "3 pairs, 5 problems"


def test_an_idle_mechanism_is_not_exercised(tmp_path: Path) -> None:
    for seed in range(3):
        for arm, clip in (("narrow", 0.2), ("wide", 0.3)):
            algo = {"group_size": 8, "kl_coef": 0.0, "clip_ratio": clip}
            run = make_run(tmp_path / "runs", arm, seed, algo="grpo", config={"algo": algo})
            lines = [
                json.loads(line) | {"actor/clip_frac": 2e-5} for line in (run / "steps.jsonl").read_text().splitlines()
            ]
            (run / "steps.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    (row,) = differences(loaded(tmp_path / "runs"))
    assert row["verdict"].startswith("not exercised")
    (run,) = (tmp_path / "runs").glob("*-wide-*-s0")
    text = (run / "steps.jsonl").read_text().replace("2e-05", "0.2")
    (run / "steps.jsonl").write_text(text)
    (row,) = differences(loaded(tmp_path / "runs"))
    assert not row["verdict"].startswith("not exercised")


def test_arms_on_other_seeds_are_compared_as_independent(tmp_path: Path) -> None:
    for seed in range(3):
        make_run(tmp_path / "runs", "a", seed, algo="grpo")
        make_run(tmp_path / "runs", "b", seed + 10, algo="grpo")
    records = loaded(tmp_path / "runs")
    (row,) = differences(records)
    assert row["n"] == "3 and 3, independent, 40 problems"


def test_lost_runs_stay_visible(tmp_path: Path) -> None:
    for seed in range(4):
        make_run(tmp_path / "runs", "ppo", seed, status={0: "diverged", 1: None}.get(seed, "finished"), gain=0.4)
        make_run(tmp_path / "runs", "grpo", seed, gain=0.4)
    records = loaded(tmp_path / "runs")
    found = comparisons_in(records)
    ppo = next(row for row in rows(results(found)) if row["arm"] == "ppo")
    assert ppo["runs"] == "2, 1 diverged, 1 unfinished"
    # the diverged run counts at its last test accuracy, which is its start
    arm = next(arm for arm in found[0].arms if arm.name == "ppo")
    assert arm.values("final_accuracy")[0] == pytest.approx(0.3)
    assert 1 not in arm.values("final_accuracy")
    (row,) = differences(records)
    assert row["verdict"].endswith("(ppo: 1 of 4 diverged; ppo: 1 of 4 without result)")
    assert row["n"].startswith("3 and 4, independent")


def test_a_run_that_failed_says_why(tmp_path: Path) -> None:
    run = make_run(tmp_path / "runs", "ppo", 0, status=None)
    (run / "failure.json").write_text(json.dumps({"message": "error: no space left", "exit_code": 2}))
    (row,) = rows(listing.runs(comparisons_in(loaded(tmp_path / "runs"))))
    assert (row["status"], row["message"]) == ("failed", "error: no space left")
    (result,) = rows(results(comparisons_in(loaded(tmp_path / "runs"))))
    assert result["runs"] == "0, 1 failed"


def sealed(run: Path) -> Path:
    """The run with the checksums of a finished one."""
    seal(run, [file for file in run.iterdir() if file.is_file()])
    return run


def test_a_figure_that_was_changed_after_the_run_is_left_out_and_told(tmp_path: Path) -> None:
    for seed in range(3):
        run = sealed(make_run(tmp_path / "runs", "ppo", seed, gain=0.4))
    before = rows(results(comparisons_in(loaded(tmp_path / "runs"))))
    set_final(run, 0.95)
    (row,) = rows(results(comparisons_in(loaded(tmp_path / "runs"))))
    assert (before[0]["runs"], row["runs"]) == ("3", "2, 1 damaged")
    assert "95.0" not in row["each run"]
    listed = rows(listing.runs(comparisons_in(loaded(tmp_path / "runs"))))
    assert sum("was changed after it was written" in row["message"] for row in listed) == 1


@pytest.mark.parametrize("document", ["config.json", "provenance.json"])
def test_a_run_whose_documents_were_changed_is_no_arm_of_its_own(tmp_path: Path, document: str) -> None:
    for seed in range(3):
        run = sealed(make_run(tmp_path / "runs", "ppo", seed, gain=0.4))
    (run / document).write_text((run / document).read_text().replace('"', ' "', 1))
    records = loaded(tmp_path / "runs")
    assert list(records.unread) == [str(run)]
    assert "changed after it was written" in records.unread[str(run)]
    (row,) = rows(results(comparisons_in(records)))
    assert row["runs"] == "2"


def test_settings_are_never_mixed(tmp_path: Path) -> None:
    make_run(tmp_path / "runs", "ppo", 0)
    other = make_run(tmp_path / "runs", "grpo", 0)
    official = {"source": "hub", "origin": "openai/gsm8k", "num_rows": 1319, "sha256": "9" * 64}
    rewrite(other / "provenance.json", {"data": {"test": official}})
    longer = make_run(tmp_path / "runs", "dapo", 0)
    rewrite(longer / "config.json", {"budget": "steps=99"})
    stricter = make_run(tmp_path / "runs", "rloo", 0)
    rewrite(stricter / "config.json", {"eval": {"limit": 100, "checkpoint": "last"}})
    found = comparisons_in(loaded(tmp_path / "runs"))
    assert {setting.label: [arm.name for arm in setting.arms] for setting in found} == {
        "gsm8k (procedural), embedded, steps=99": ["dapo"],
        "gsm8k (openai/gsm8k test, 1319), embedded, steps=12": ["grpo"],
        "gsm8k (procedural), embedded, steps=12, limit 500": ["ppo"],
        "gsm8k (procedural), embedded, steps=12, limit 100": ["rloo"],
    }


def test_the_later_run_of_a_seed_counts(tmp_path: Path) -> None:
    first, second = (make_run(tmp_path / name, "ppo", 0) for name in ("runs/a", "runs/b"))
    set_final(first, 0.4)
    set_final(second, 0.8)
    rewrite(second / "provenance.json", {"started_at": "2026-12-01T00:00:00+00:00"})
    (setting,) = comparisons_in(loaded(tmp_path / "runs"))
    assert setting.arms[0].values("final_accuracy") == {0: 0.8}
    page = report([tmp_path / "runs"], tmp_path / "out")
    counted, other = rows(listing.runs([setting]))
    assert "left out" not in counted
    assert other["left out"] == f"a later run of the same arm and seed counts: {second.name}"
    assert "1 run(s) left out" in (page.parent / "summary.md").read_text()


def test_runs_that_compare_would_refuse_are_not_merged(tmp_path: Path) -> None:
    for name, change in {
        "a": {"task": {"use_all": True}},
        "b": {"source": "hub"},
        "c": {"samples_per_step": 8},
    }.items():
        make_run(tmp_path / "runs" / name, "grpo", 0, config=change)
    found = comparisons_in(loaded(tmp_path / "runs"))
    assert len(found) == 3
    assert len({comparison.label for comparison in found}) == 3


def test_an_unsandboxed_run_shows(tmp_path: Path) -> None:
    for arm, sandboxed in (("ppo", True), ("grpo", False)):
        run = make_run(tmp_path / "runs", arm, 0)
        data = json.loads((run / "provenance.json").read_text())["data"]
        rewrite(run / "provenance.json", {"data": {k: part | {"sandboxed": sandboxed} for k, part in data.items()}})
    shown = {
        row["arm"]: row["unsandboxed"] for row in rows(listing.provenance(comparisons_in(loaded(tmp_path / "runs"))))
    }
    assert shown == {"ppo": "-", "grpo": "yes"}


def test_a_torn_last_row_is_dropped(tmp_path: Path) -> None:
    run = make_run(tmp_path / "runs", "ppo", 0, status=None)
    with (run / "steps.jsonl").open("a") as file:
        file.write('{"step": 13, "reward/me')
    assert loaded(tmp_path / "runs").steps["step"].max() == 12


def test_the_cache_gives_the_same_and_notices_changes(study: Path) -> None:
    first, again = loaded(study), loaded(study)
    for name in ("runs", "steps", "evals", "problems", "completions"):
        left, right = getattr(first, name), getattr(again, name)
        pd.testing.assert_frame_equal(left.astype({"path": str}), right.astype({"path": str}))
    set_final(next(study.glob("*-ppo-*-s0")), 0.99)
    make_run(study, "dapo", 0)
    changed = loaded(study)
    assert len(changed.runs) == 7
    assert changed.evals["accuracy"].max() == 0.99
    assert not changed.evals.duplicated(["path", "step", "split"]).any()
    for path in study.glob("*-dapo-*"):
        path.rename(study.parent / "elsewhere")
    assert len(loaded(study).runs) == 6


def test_no_runs_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="no run directory"):
        find_runs([tmp_path])


def test_at_equal_cost_by_hand(tmp_path: Path) -> None:
    curve = {"ppo": [0.3, 0.4, 0.5], "grpo": [0.3, 0.5, 0.6]}
    for arm, heights in curve.items():
        run = make_run(tmp_path / "runs", arm, 0)
        evals = [
            {
                "step": i,
                "split": "validation",
                "task": "gsm8k",
                "accuracy": h,
                "num_problems": 10,
                "data/samples_generated": 100 * i,
                "cost/device_s": (2 if arm == "ppo" else 1) * i,
            }
            for i, h in enumerate(heights)
        ]
        ends = [evals[i] | {"split": "test", "accuracy": 0.99} for i in (0, 2)]
        (run / "evals.jsonl").write_text("".join(json.dumps(row) + "\n" for row in [ends[0], *evals, ends[1]]))
    records = loaded(tmp_path / "runs")
    found = {(row["cost in"], row["arm"]): row for row in rows(efficiency(comparisons_in(records), records, 0.45))}
    samples, seconds = found["generated samples", "ppo"], found["training seconds", "ppo"]
    assert (samples["up to"], samples["accuracy there"], samples["mean accuracy"]) == ("200", "50.0", "40.0")
    assert samples["median cost to it"] == "150"
    # ppo is followed to 4 s, but grpo only to 2 s: there ppo stands at 0.4
    assert (seconds["up to"], seconds["accuracy there"], seconds["mean accuracy"]) == ("2", "40.0", "35.0")
    assert found["generated samples", "grpo"]["median cost to it"] == "75"
    differences = {row["cost in"]: row for row in rows(equal_cost(comparisons_in(records), records, None, 0.45))}
    assert differences["training seconds"]["accuracy there"] == "-20.0"
    assert differences["training seconds"]["cost saved"] == "-1.25"  # ppo not there after the whole 2 s, grpo at 0.75 s


def claim(records: Records, aspect: str) -> tuple[str, str]:
    found = {row["aspect"]: row for row in rows(practical_comparison(comparisons_in(records), records))}
    return found[aspect]["verdict"], found[aspect]["measured here"]


def test_claims_are_judged_by_measurement(tmp_path: Path) -> None:
    for seed in range(3):
        make_run(tmp_path / "runs", "ppo", seed, gain=0.2)
        make_run(tmp_path / "runs", "grpo", seed, gain=0.4)
    records = loaded(tmp_path / "runs")
    verdict, words = claim(records, "models in memory")
    assert verdict == "by construction"
    assert words.startswith("PPO 2 (policy, critic); GRPO 2 (policy, reference)")
    assert claim(records, "memory overhead")[0] == "not measured"  # one holds a reference, the other does not
    assert claim(records, "reward")[0] == "contradicted"  # PPO learned from a rule
    assert claim(records, "advantage")[0] == "not measured"
    assert claim(records, "sparse rewards")[0] == "not measured"
    assert claim(records, "sample efficiency")[0] == "contradicted"
    verdict, words = claim(records, "compute per step")
    assert verdict == "contradicted"
    assert words.endswith("GRPO over PPO: 0.423")


@pytest.mark.parametrize(
    ("gains", "verdict"),
    [((0.10, 0.40), "supported"), ((0.40, 0.10), "contradicted"), ((0.30, 0.31), "undecided")],
)
def test_a_claim_can_come_out_either_way(tmp_path: Path, gains: tuple[float, float], verdict: str) -> None:
    sparse = {"task": {"weights": {"format": 0.0}}}
    for seed in range(4):
        for arm, gain in zip(("ppo", "grpo"), gains, strict=True):
            make_run(tmp_path / "runs", arm, seed, gain=gain, config=sparse)
    assert claim(loaded(tmp_path / "runs"), "sparse rewards")[0] == verdict


def test_what_was_not_shown_is_no_support(tmp_path: Path) -> None:
    """A gain of PPO that the runs cannot tell from none does not show that it needs a learned reward."""
    for seed, final in enumerate((0.40, 0.25, 0.45)):
        set_final(make_run(tmp_path / "runs", "ppo", seed), final)
        make_run(tmp_path / "runs", "grpo", seed)
    assert claim(loaded(tmp_path / "runs"), "reward")[0] == "undecided"


@pytest.mark.parametrize(("grpo", "verdict"), [(0.7, "supported"), (0.9, "contradicted"), (0.3, "contradicted")])
def test_memory_is_compared_where_nothing_but_the_critic_differs(tmp_path: Path, grpo: float, verdict: str) -> None:
    for arm, roles in (("ppo", {"policy": 0.5, "critic": 0.5}), ("grpo", {"policy": grpo})):
        for seed in range(3):
            run = make_run(tmp_path / "runs", arm, seed)
            lines = [json.loads(line) for line in (run / "steps.jsonl").read_text().splitlines()]
            kept = [{k: v for k, v in line.items() if not k.startswith("memory/")} for line in lines]
            kept = [line | {f"memory/{role}_gib": size for role, size in roles.items()} for line in kept]
            (run / "steps.jsonl").write_text("".join(json.dumps(line) + "\n" for line in kept))
    assert claim(loaded(tmp_path / "runs"), "memory overhead")[0] == verdict


def test_arms_show_only_what_differs(study: Path) -> None:
    assert {row["differs in"]: (row["ppo"], row["grpo"]) for row in rows(arms(comparisons_in(loaded(study))))} == {
        "algo.group_size": ("1", "8"),
        "algo.kl_coef": ("0.0", "0.04"),
        "algo_name": ("ppo", "grpo"),
    }


def test_missing_figures_are_absent_and_never_zero(tmp_path: Path) -> None:
    assert number(None).value is None
    assert number(float("nan")).text == "-"
    assert percent(None).text == "-"
    assert percent(Estimate(mean=0.5, low=None, high=None, n=1)).text == "50.0"
    make_run(tmp_path / "runs", "grpo", 0)
    page = report([tmp_path / "runs"], tmp_path / "out")
    memory = pd.read_csv(page.parent / "tables" / "memory.csv")
    assert memory["critic"].isna().all()
    assert memory["reference"].item() == pytest.approx(0.0015)


def test_figures_are_labelled_and_say_their_n(tmp_path: Path) -> None:
    for size in (4, 8, 16):
        for seed in range(3):
            make_run(tmp_path / "runs", f"g{size}", seed, algo="grpo", config={"algo": {"group_size": size}})
    for seed in range(3):
        make_run(tmp_path / "runs", "ppo", seed)
    records = loaded(tmp_path / "runs")
    figures = {figure.name: figure for figure in drawn(records)}
    expected = "learning seeds differences sweep cost_accuracy step_time memory training critic"
    assert set(figures) == set(expected.split())
    for figure in figures.values():
        for axes in figure.canvas.axes:
            assert axes.get_xlabel(), figure.name
        texts = [text.get_text() for text in figure.canvas.findobj(lambda o: hasattr(o, "get_text"))]
        assert "n=" in " ".join(texts) or "n = " in figure.caption, figure.name
    assert figures["sweep"].canvas.axes[0].get_xlabel() == "algo.group_size"


def test_arms_are_shown_in_the_order_asked_for(study: Path) -> None:
    records = loaded(study)
    (setting,) = comparisons_in(records)
    first, second = (arm.name for arm in setting.arms)
    (turned,) = comparisons_in(records, [second, first])
    assert [arm.name for arm in turned.arms] == [second, first]


def test_a_mean_curve_ends_where_its_first_finished_run_does(tmp_path: Path) -> None:
    """Past that point a mean over the runs left would move because runs leave, not because any learns."""
    for seed, steps in enumerate((4, 4, 8)):
        make_run(tmp_path / "runs", "grpo", seed, steps=steps, config={"budget": "samples=1024"})
    records = loaded(tmp_path / "runs")
    figures = {figure.name: figure for figure in drawn(records)}
    ends = {max(line.get_xdata()[-1] for line in axes.lines) for axes in figures["training"].canvas.axes if axes.lines}  # type: ignore[index]
    assert ends == {4}
    samples = figures["learning"].canvas.axes[0]
    short = records.steps.groupby("path", observed=True)["data/samples_generated"].max().min()
    assert max(samples.lines[0].get_xdata()) == short  # type: ignore[arg-type]


def test_the_report_never_loads_torch() -> None:
    code = "import bench.report.command, bench.stats, sys; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_seconds_of_a_shared_machine_are_withheld(tmp_path: Path) -> None:
    for arm, wanting in (("ppo", 0.9), ("grpo", 2.4)):
        run = make_run(tmp_path / "runs", arm, 0)
        lines = [json.loads(line) | {"perf/load": wanting} for line in (run / "steps.jsonl").read_text().splitlines()]
        (run / "steps.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    shown = {row["arm"]: row for row in rows(cost_table(comparisons_in(loaded(tmp_path / "runs"))))}
    assert shown["grpo"]["seconds"] == shown["grpo"]["s/step"] == shown["grpo"]["MFU"] == "shared machine"
    assert shown["grpo"]["samples"] == shown["ppo"]["samples"] == "3,072"
    assert shown["ppo"]["seconds"] == "31.2"  # 12 steps of 2.6
    # 12 steps of 8,704 tokens in 2.6 * 0.35 s each
    assert shown["ppo"]["generated tokens/s"] == "9,565"


def test_a_frontier_by_hand() -> None:
    points = [(1.0, 0.3), (2.0, 0.2), (2.0, 0.5), (3.0, 0.5), (4.0, 0.6)]
    assert frontier(points) == [(1.0, 0.3), (2.0, 0.5), (4.0, 0.6)]
