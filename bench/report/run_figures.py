"""One row of figures for each run, from its evaluations and its steps."""

import json
from collections.abc import Sequence
from typing import Any

from bench.ground.words import COUNTERS, FLOPS, LASTING
from bench.report.records import Frame, Records, pd

FIGURES = (
    *("accuracy", "completed_accuracy", "sampled_accuracy", "sampled_completed_accuracy", "format_frac"),
    *("truncated_frac", "sampled_truncated_frac", "length_mean", "num_problems", "num_samples", "step"),
)
MEANS = (
    *("time/", "perf/", "verifier/", "completion/", "memory/", "reward/", "actor/adv", "actor/clip", "actor/dual"),
    *("data/discarded", "prompt/repeated"),
)
MAXIMA = ("actor/kl", "actor/kl_max", "actor/grad_norm", "actor/grad_norm_max", "rollout/mismatch_kl")


def figures_of_runs(records: Records) -> Frame:
    """`records.runs` with one column for each figure of the whole run."""
    runs = records.runs.set_index("path")
    parts = [_from_evals(records.evals), _from_steps(records.steps), _at_gradient_clip(records)]
    return runs.join([part for part in parts if len(part)]).reset_index()


def _from_evals(evals: Frame) -> Frame:
    """`start_*` and `final_*`: the first and the last evaluation on the test split."""
    if evals.empty:
        return evals
    test = evals[evals["split"] == "test"].sort_values("step")
    test = test.assign(**_of_k(test))
    wanted = [c for c in (*FIGURES, *(c for c in test if c.startswith(("pass_at_", "maj_at_")))) if c in test]
    wanted = [c for c in wanted if c not in ("pass_at_k",)]
    by_run = test.groupby("path", observed=True)[wanted]
    out = by_run.first().add_prefix("start_").join(by_run.last().add_prefix("final_"))
    out["accuracy_drawdown"] = _drawdown(evals[evals["split"] == "validation"].sort_values("step"), "accuracy")
    return out


def _of_k(test: Frame) -> dict[str, Any]:
    """`pass_at_<k>` and `maj_at_k`, which an evaluation records as one object each."""
    columns: dict[str, Any] = {}
    if "pass_at_k" in test:
        known = [row if isinstance(row, dict) else {} for row in test["pass_at_k"]]
        for k in sorted({int(k) for row in known for k in row}):
            columns[f"pass_at_{k}"] = [row.get(str(k)) for row in known]
    if "maj_at_k" in test:
        columns["maj_at_k"] = [_only_value(row) for row in test["maj_at_k"]]
    return columns


def _only_value(row: Any) -> float | None:  # noqa: ANN401 - an object, or a missing figure
    known = row.values() if isinstance(row, dict) else ()
    return next((value for value in known if value is not None), None)


def _at_gradient_clip(records: Records) -> Frame:
    """Share of a run's steps in which the gradient's norm was cut: a bound that binds one arm alone is no detail."""
    if "actor/grad_norm_max" not in records.steps:
        return pd.Series(dtype=float, name="gradient_clipped_frac")
    configs = zip(records.runs["path"], records.runs["config"], strict=True)
    bounds = {path: json.loads(config).get("optimizer", {}).get("grad_clip") for path, config in configs}
    steps = records.steps[["path", "actor/grad_norm_max"]].dropna()
    over = steps["actor/grad_norm_max"] > steps["path"].astype(str).map(bounds).astype(float)
    return over.groupby(steps["path"].astype(str)).mean().rename("gradient_clipped_frac")


def _rates(steps: Frame) -> Frame:
    """Rates of the whole run, from totals: a mean of the steps' ratios would weigh short steps as long ones."""
    wanted = {
        "generated": ("data/tokens_generated", "time/rollout_s"),
        "trained": ("data/tokens_trained", "time/update_s"),
    }
    by_run = steps.groupby("path", observed=True)
    known = {
        f"{name}_per_s": by_run[counter].last() / by_run[seconds].sum()
        for name, (counter, seconds) in wanted.items()
        if counter in steps and seconds in steps
    }
    if "perf/mfu" in steps and "time/step_s" in steps:
        work = (steps["perf/mfu"] * steps["time/step_s"]).groupby(steps["path"], observed=True).sum()
        known["mfu"] = work / by_run["time/step_s"].sum()
    return pd.DataFrame(known)


def _from_steps(steps: Frame) -> Frame:
    """Totals, extremes and means over a run's steps."""
    if steps.empty:
        return steps
    by_run = steps.groupby("path", observed=True)

    def has(names: Sequence[str]) -> list[str]:
        return [name for name in names if name in steps]

    means = [c for c in steps if c.startswith(MEANS)]
    out = by_run[has([*COUNTERS, FLOPS])].last().join(by_run[means].mean().add_prefix("mean:"))
    out = out.join(by_run[has(MAXIMA)].max().add_prefix("max:"))
    peaks = [c for c in steps if c.startswith("memory/")]
    out = out.join(by_run[peaks].max().add_prefix("max:"))
    out = out.join(_rates(steps))
    out["num_steps"] = by_run["step"].max()
    held = has([f"memory/{role}_gib" for role in LASTING])
    out["trained_gib"] = out[[f"max:{name}" for name in held]].sum(axis=1, min_count=1)
    signs = [c for c in steps if c.startswith("behaviour/")]
    watched = [*has(("actor/entropy", "completion/length_mean", "critic/explained_variance")), *signs]
    out = out.join(by_run[watched].first().add_prefix("first:")).join(by_run[watched].last().add_prefix("last:"))
    if "reward/mean" in steps:
        out["reward_drawdown"] = _drawdown(steps, "reward/mean")
    return out


def _drawdown(rows: Frame, column: str) -> Frame:
    """The deepest fall from the best so far, run by run."""
    fall = rows.groupby("path", observed=True)[column].cummax() - rows[column]
    return fall.groupby(rows["path"], observed=True).max()
