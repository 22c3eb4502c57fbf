"""One row of figures for each run, from its evaluations and its steps."""

from collections.abc import Sequence

from bench.ground.words import COUNTERS, FLOPS, LASTING
from bench.report.records import Frame, Records

MAXIMA = ("actor/kl", "actor/kl_max", "actor/grad_norm", "actor/grad_norm_max", "rollout/mismatch_kl")


def figures_of_runs(records: Records) -> Frame:
    """`records.runs` with one column for each figure of the whole run."""
    runs = records.runs.set_index("path")
    parts = [_from_evals(records.evals), _from_steps(records.steps)]
    return runs.join([part for part in parts if len(part)]).reset_index()


def _from_evals(evals: Frame) -> Frame:
    """`start_*` and `final_*`: the first and the last evaluation on the test split."""
    if evals.empty:
        return evals
    test = evals[evals["split"] == "test"].sort_values("step")
    wanted = [
        c
        for c in (
            "accuracy",
            "accuracy_ci95",
            "sampled_accuracy",
            "format_frac",
            "truncated_frac",
            "length_mean",
            "num_problems",
            "step",
        )
        if c in test
    ]
    by_run = test.groupby("path", observed=True)[wanted]
    out = by_run.first().add_prefix("start_").join(by_run.last().add_prefix("final_"))
    out["accuracy_drawdown"] = _drawdown(evals[evals["split"] == "validation"].sort_values("step"), "accuracy")
    return out


def _from_steps(steps: Frame) -> Frame:
    """Totals, extremes and means over a run's steps."""
    if steps.empty:
        return steps
    by_run = steps.groupby("path", observed=True)

    def has(names: Sequence[str]) -> list[str]:
        return [name for name in names if name in steps]

    means = [
        c
        for c in steps
        if c.startswith(("time/", "perf/", "verifier/", "completion/", "memory/", "reward/", "actor/adv"))
    ]
    out = by_run[has([*COUNTERS, FLOPS])].last().join(by_run[means].mean().add_prefix("mean:"))
    out = out.join(by_run[has(MAXIMA)].max().add_prefix("max:"))
    peaks = [c for c in steps if c.startswith("memory/")]
    out = out.join(by_run[peaks].max().add_prefix("max:"))
    out["num_steps"] = by_run["step"].max()
    held = has([f"memory/{role}_gib" for role in LASTING])
    out["trained_gib"] = out[[f"max:{name}" for name in held]].sum(axis=1, min_count=1)
    for name in has(("actor/entropy", "completion/length_mean", "critic/explained_variance")):
        out[f"first:{name}"], out[f"last:{name}"] = by_run[name].first(), by_run[name].last()
    if "reward/mean" in steps:
        out["reward_drawdown"] = _drawdown(steps, "reward/mean")
    return out.copy()


def _drawdown(rows: Frame, column: str) -> Frame:
    """The deepest fall from the best so far, run by run."""
    fall = rows.groupby("path", observed=True)[column].cummax() - rows[column]
    return fall.groupby(rows["path"], observed=True).max()
