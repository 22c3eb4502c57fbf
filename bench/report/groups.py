"""Runs -> settings -> arms: what may be compared with what, and one row of figures for each run."""

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, cast

import numpy as np

from bench.ground.tree import flatten
from bench.ground.words import COUNTERS, FLOPS, LASTING
from bench.report.records import Frame, Records
from bench.stats import Difference, Estimate, estimate, paired, unpaired

# runs with a result: one that ended early stays in the mean, at its last test accuracy
COUNTED = ("finished", "diverged", "no-signal")
AXES = {
    "samples": ("data/samples_generated", "generated samples"),
    "tokens": ("data/tokens_generated", "generated tokens"),
    "seconds": ("cost/device_s", "training seconds"),
    "flops": ("cost/flops", "estimated FLOPs"),
}
NAMING = ("task.", "eval.", "sampling.max_new_tokens")  # settings that may tell two comparisons apart
MAXIMA = ("actor/kl", "actor/kl_max", "actor/grad_norm", "actor/grad_norm_max", "rollout/mismatch_kl")
Floats = np.ndarray[Any, np.dtype[np.float64]]


@dataclass(frozen=True, kw_only=True)
class Arm:
    """One side of a comparison. `runs` is indexed by seed and holds every run, failed ones too."""

    name: str
    algo: str
    runs: Frame

    @property
    def counted(self) -> Frame:
        """The runs that have a result."""
        return self.runs[self.runs["status"].isin(COUNTED)]

    @property
    def config(self) -> dict[str, Any]:
        """Settings of the arm's first run."""
        return cast(dict[str, Any], json.loads(self.runs["config"].iloc[0]))

    def values(self, column: str) -> dict[int, float]:
        """Seed -> figure, where there is one."""
        if column not in self.runs:
            return {}
        known = self.counted[column].dropna()
        return {int(seed): float(value) for seed, value in known.items()}

    def mean(self, column: str) -> Estimate | None:
        """Over the runs that have the figure; None where none does."""
        values = list(self.values(column).values())
        return estimate(values) if values else None

    def count(self, *status: str) -> int:
        """Runs of that status."""
        return int(self.runs["status"].isin(status).sum())


@dataclass(frozen=True, kw_only=True)
class Setting:
    """Arms that share data, model, budget, evaluation and hardware preset, and so may be compared."""

    label: str
    arms: Sequence[Arm]

    def paths(self, arm: Arm) -> dict[str, int]:
        """Run directory -> seed, of the runs that have a result."""
        return {str(path): int(seed) for seed, path in arm.counted["path"].items()}


def differ(a: dict[int, float], b: dict[int, float]) -> Difference | None:
    """First minus second, paired by seed where at least two seeds are shared, else as independent runs."""
    shared = sorted(set(a) & set(b))
    if len(shared) >= 2 or (shared and len(a) == len(b) == 1):
        return paired([a[s] for s in shared], [b[s] for s in shared])
    return unpaired(list(a.values()), list(b.values())) if a and b else None


def settings(records: Records, order: Sequence[str] = ()) -> list[Setting]:
    """Every setting; its arms in the order given, the others after them as they were first run."""
    runs = figures(records).sort_values(["started_at", "path"])
    # of two runs of one arm and seed the later one counts
    runs = runs.drop_duplicates(["setting_key", "arm", "seed"], keep="last")
    groups = list(runs.groupby("setting_key", sort=False))
    labels = _labels([frame for _, frame in groups])
    return [Setting(label=label, arms=_arms(frame, order)) for label, (_, frame) in zip(labels, groups, strict=True)]


def _arms(runs: Frame, order: Sequence[str]) -> list[Arm]:
    arms = sorted(
        runs.groupby("arm", sort=False), key=lambda arm: order.index(arm[0]) if arm[0] in order else len(order)
    )
    return [
        Arm(name=str(name), algo=str(frame["algo"].iloc[0]), runs=frame.set_index("seed").sort_index())
        for name, frame in arms
    ]


def _labels(frames: Iterable[Frame]) -> list[str]:
    """Data and model, budget and preset; where that leaves two alike, what of task, evaluation or length differs."""
    firsts = [frame.iloc[0] for frame in frames]
    plain = [", ".join(str(f[c]) for c in ("data", "model", "budget", "preset") if f[c]) for f in firsts]
    flat = [{k: v for k, v in flatten(json.loads(f["config"])).items() if k.startswith(NAMING)} for f in firsts]
    labels: list[str] = []
    for i, label in enumerate(plain):
        alike = [flat[j] for j, other in enumerate(plain) if other == label]
        differing = [k for k in flat[i] if len({other.get(k) for other in alike}) > 1]
        label = ", ".join([label, *(f"{k.rpartition('.')[2]} {flat[i][k]}" for k in differing)])
        labels.append(f"{label} #{labels.count(label) + 1}" if label in labels else label)
    return labels


def figures(records: Records) -> Frame:
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
    # whole rows: first() and last() would fill a missing figure from another row
    start, final = (test.drop_duplicates("path", keep=k).set_index("path")[wanted] for k in ("first", "last"))
    out = start.add_prefix("start_").join(final.add_prefix("final_"))
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
    if "stability/nonfinite" in steps:
        out["nonfinite"] = by_run["stability/nonfinite"].sum()
    if "reward/mean" in steps:
        out["reward_drawdown"] = _drawdown(steps, "reward/mean")
    return out.copy()


def _drawdown(rows: Frame, column: str) -> Frame:
    """The deepest fall from the best so far, run by run."""
    fall = rows.groupby("path", observed=True)[column].cummax() - rows[column]
    return fall.groupby(rows["path"], observed=True).max()


def curve(evals: Frame, axis: str) -> dict[str, tuple[Floats, Floats]]:
    """Run directory -> (x, accuracy) along an axis: on validation where it was followed there, else on test."""
    x = AXES[axis][0]
    if evals.empty or x not in evals:
        return {}
    rows = evals[["path", "step", "split", x, "accuracy"]].dropna().sort_values(["path", "step"])
    paths, validation = rows["path"].astype(str).to_numpy(), (rows["split"] == "validation").to_numpy()
    xs, ys = rows[x].to_numpy(float), rows["accuracy"].to_numpy(float)
    starts = np.flatnonzero(np.append(True, paths[1:] != paths[:-1])) if len(rows) else np.array([], int)
    found: dict[str, tuple[Floats, Floats]] = {}
    for start, end in zip(starts, [*starts[1:], len(rows)], strict=True):
        followed = validation[start:end]
        used = followed if followed.sum() > 1 else ~followed
        found[str(paths[start])] = xs[start:end][used], ys[start:end][used]
    return found
