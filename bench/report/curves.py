"""Accuracy along a unit of cost, run by run: the curve, its target, and how far all runs were followed."""

from typing import Any

import numpy as np

from bench.report.comparison import Comparison
from bench.report.outcomes import GREEDY, SAMPLED
from bench.report.records import Frame, Records

AXES = {
    "samples": ("data/samples_generated", "generated samples"),
    "tokens": ("data/tokens_generated", "generated tokens"),
    "seconds": ("cost/device_s", "training seconds"),
    "flops": ("cost/flops", "estimated FLOPs"),
}
FRACTION = 0.9  # of the way from the start to the lowest arm's end: the target, unless one is given
Floats = np.ndarray[Any, np.dtype[np.float64]]
Curves = dict[int, tuple[Floats, Floats]]  # seed -> (x, accuracy)


def curves(comparison: Comparison, records: Records, axis: str) -> dict[str, Curves]:
    """Arm -> its finished runs' curves."""
    wanted = {path: (arm.name, seed) for arm in comparison.arms for path, seed in comparison.paths(arm).items()}
    found: dict[str, Curves] = {arm.name: {} for arm in comparison.arms}
    mine = records.evals[records.evals["path"].isin(wanted)]
    for path, (x, y) in curves_by_run(mine, axis).items():
        name, seed = wanted[path]
        if len(x) > 1:
            found[name][seed] = x, y
    return {name: part for name, part in found.items() if part}


def target_of(comparison: Comparison, found: dict[str, Curves]) -> float | None:
    """An accuracy that every arm's mean reaches, late: 90% of the way from the start to the lowest end."""
    if not found:
        return None
    starts = [y[0] for part in found.values() for _, y in part.values()]
    ends = [np.mean([y[-1] for _, y in part.values()]) for part in found.values()]
    return float(np.mean(starts) + FRACTION * (min(ends) - np.mean(starts)))


def horizon_of(comparison: Comparison, found: dict[str, Curves]) -> float:
    """How far all finished runs were followed: the common budget of comparisons at equal cost."""
    finished = {arm.name: set(arm.runs.index[arm.runs["status"] == "finished"]) for arm in comparison.arms}
    ends = [x[-1] for name, part in found.items() for seed, (x, _) in part.items() if seed in finished[name]]
    return float(min(ends)) if ends else 0.0


def curves_by_run(evals: Frame, axis: str) -> dict[str, tuple[Floats, Floats]]:
    """Run directory -> (x, accuracy) along an axis: on validation where it was followed there, else on test.

    Sampled accuracy, or greedy where some evaluation was not sampled.
    """
    x = AXES[axis][0]
    if evals.empty or x not in evals:
        return {}
    end = SAMPLED if SAMPLED in evals and evals[SAMPLED].notna().all() else GREEDY
    rows = evals[["path", "step", "split", x, end]].dropna().sort_values(["path", "step"])
    paths, validation = rows["path"].astype(str).to_numpy(), (rows["split"] == "validation").to_numpy()
    xs, ys = rows[x].to_numpy(float), rows[end].to_numpy(float)
    starts = np.flatnonzero(np.append(True, paths[1:] != paths[:-1])) if len(rows) else np.array([], int)
    found: dict[str, tuple[Floats, Floats]] = {}
    for start, end in zip(starts, [*starts[1:], len(rows)], strict=True):
        followed = validation[start:end]
        used = followed if followed.sum() > 1 else ~followed
        found[str(paths[start])] = xs[start:end][used], ys[start:end][used]
    return found
