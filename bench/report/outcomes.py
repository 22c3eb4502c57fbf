"""Seeds by problems: what a contrast between two arms is made of, and whether they may be paired."""

from collections.abc import Sequence
from typing import Any, cast

import numpy as np

from bench.contrast import Contrast, crossed, independent
from bench.report.comparison import Arm, Comparison
from bench.report.records import Frame, Records

Floats = np.ndarray[Any, np.dtype[np.float64]]
SAMPLED, GREEDY = "sampled_accuracy", "accuracy"


def endpoint_of(comparison: Comparison) -> str:
    """Sampled accuracy, which training optimises; greedy where some arm was not sampled from."""
    known = all(
        arm.values(f"final_{SAMPLED}").keys() == arm.values(f"final_{GREEDY}").keys() for arm in comparison.arms
    )
    return SAMPLED if known and any(arm.values(f"final_{SAMPLED}") for arm in comparison.arms) else GREEDY


def in_words(endpoint: str) -> str:
    """For notes and captions."""
    return "sampled accuracy" if endpoint == SAMPLED else "greedy accuracy"


def shares_prompts(first: Arm, second: Arm) -> bool:
    """Whether run i of both arms sees the same prompts: equal groups and steps, no refill, equal seeds.

    Fixed by the settings alone, so that what is found does not choose how it is tested.
    """

    def stream(arm: Arm) -> tuple[object, ...]:
        algo = cast("dict[str, Any]", arm.config.get("algo", {}))
        return algo.get("group_size"), arm.config.get("samples_per_step")

    refills = any(arm.config.get("algo", {}).get("dynamic_sampling") for arm in (first, second))
    return stream(first) == stream(second) and not refills and set(first.counted.index) == set(second.counted.index)


def contrast_of(comparison: Comparison, records: Records, first: Arm, second: Arm, endpoint: str) -> Contrast | None:
    """First minus second over seeds and problems; None where an arm has no result.

    Where verdicts by problem were not kept, the problems are taken as one.
    """
    ends = [arm.values(f"final_{endpoint}") for arm in (first, second)]
    if not all(ends):
        return None
    paired = shares_prompts(first, second)
    cells = [
        cells_of(comparison, records, arm, endpoint, sorted(end))
        for arm, end in zip((first, second), ends, strict=True)
    ]
    if any(frame is None for frame in cells):
        a, b = ([[end[seed]] for seed in sorted(end)] for end in ends)
    else:
        one, other = (cast("Frame", frame) for frame in cells)
        shared = one.columns.intersection(other.columns)
        a, b = one[shared].to_numpy(float), other[shared].to_numpy(float)
    return crossed(a, b) if paired and len(a) == len(b) else independent(a, b)


def cells_of(comparison: Comparison, records: Records, arm: Arm, endpoint: str, seeds: Sequence[int]) -> Frame | None:
    """(S, P) shares right, over the problems on which every run of the arm was tested; None where one kept none."""
    problems = records.problems
    column = "num_correct" if endpoint == SAMPLED else "correct"
    if problems.empty or column not in problems:
        return None
    paths = {path: seed for path, seed in comparison.paths(arm).items() if seed in seeds}
    part = problems[problems["path"].isin(paths)].dropna(subset=[column])
    right = part[column].astype(float)
    if endpoint == SAMPLED:
        right = right / part["num_samples"].astype(float)
    part = part.assign(right=right, path=part["path"].astype(str))
    table = part.pivot_table(index="path", columns="problem", values="right", observed=True).dropna(axis=1)
    return table if len(table) == len(seeds) and table.shape[1] else None


def by_seed(first: Arm, second: Arm, a: dict[int, float], b: dict[int, float]) -> Contrast:
    """First minus second of one figure a run, over seeds alone."""
    if shares_prompts(first, second) and a.keys() == b.keys():
        return crossed([[a[seed]] for seed in sorted(a)], [[b[seed]] for seed in sorted(b)])
    return independent([[value] for value in a.values()], [[value] for value in b.values()])
