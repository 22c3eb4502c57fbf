"""Runs -> comparisons -> arms: what may be compared with what, and what is left out of it."""

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from bench.ground.comparable import Terms
from bench.ground.tree import WITHOUT_EFFECT, flatten
from bench.report.records import Frame, Records, pd
from bench.report.run_figures import figures_of_runs
from bench.stats import Difference, Estimate, estimate_positive, estimate_share, paired, unpaired

# runs with a result: one that ended early stays in the mean, at its last test accuracy
COUNTED = ("finished", "diverged", "no-signal")
IN_LABEL = ("task_name", "model", "budget", "preset")  # said of every comparison
SHOWN = 40  # letters of a value in a label


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
        """Of an amount over the runs that have the figure; None where none does."""
        values = list(self.values(column).values())
        return estimate_positive(values) if values else None

    def share(self, column: str) -> Estimate | None:
        """Of a share, whose interval stays in [0, 1]."""
        values = list(self.values(column).values())
        return estimate_share(values) if values else None

    def count(self, *status: str) -> int:
        """Runs of that status."""
        return int(self.runs["status"].isin(status).sum())


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """Arms that agree in all that `bench.ground.comparable` asks for, and so may be compared."""

    label: str
    arms: Sequence[Arm]
    left_out: Frame = None  # one row a run that does not count; `why` says the reason

    def paths(self, arm: Arm) -> dict[str, int]:
        """Run directory -> seed, of the runs that have a result."""
        return {str(path): int(seed) for seed, path in arm.counted["path"].items()}


def difference_by_seed(a: dict[int, float], b: dict[int, float]) -> Difference | None:
    """First minus second, paired by seed where at least two seeds are shared, else as independent runs."""
    shared = sorted(set(a) & set(b))
    if len(shared) >= 2 or (shared and len(a) == len(b) == 1):
        return paired([a[s] for s in shared], [b[s] for s in shared])
    return unpaired(list(a.values()), list(b.values())) if a and b else None


def comparisons_in(records: Records, order: Sequence[str] = ()) -> list[Comparison]:
    """Every comparison; its arms in the order given, the others after them as they were first run."""
    runs, left_out = latest_runs(figures_of_runs(records))
    groups = list(runs.groupby("setting_key", sort=False))
    labels = _labels([frame for _, frame in groups])
    return [
        Comparison(label=label, arms=_arms(frame, order), left_out=left_out[left_out["setting_key"] == key])
        for label, (key, frame) in zip(labels, groups, strict=True)
    ]


def latest_runs(runs: Frame) -> tuple[Frame, Frame]:
    """The runs that count, of each comparison, arm and seed the last started one; and the others, with a `why`."""
    runs = runs.sort_values(["started_at", "path"])
    same = ["setting_key", "arm", "seed"]
    earlier = runs.duplicated(same, keep="last")
    kept, left_out = runs[~earlier], runs[earlier]
    later = {tuple(row[name] for name in same): row for _, row in kept.iterrows()}
    why = [_why_left_out(row, later[tuple(row[name] for name in same)]) for _, row in left_out.iterrows()]
    return kept, left_out.assign(why=pd.Series(why, index=left_out.index, dtype=object))


def _why_left_out(run: Frame, later: Frame) -> str:
    """Names the run that counts in its place, and the settings in which that one is another."""
    mine, other = (
        {name: value for name, value in flatten(json.loads(row["config"])).items() if name not in WITHOUT_EFFECT}
        for row in (run, later)
    )
    differing = [name for name in sorted(mine.keys() | other.keys()) if mine.get(name) != other.get(name)]
    changed = [f"{name} {other.get(name, 'absent')}, here {mine.get(name, 'absent')}" for name in differing]
    words = f"a later run of the same arm and seed counts: {Path(later['path']).name}"
    return "; ".join([words, *([f"it has {', '.join(changed)}"] if changed else [])])


def _arms(runs: Frame, order: Sequence[str]) -> list[Arm]:
    arms = sorted(
        runs.groupby("arm", sort=False), key=lambda arm: order.index(arm[0]) if arm[0] in order else len(order)
    )
    return [
        Arm(name=str(name), algo=str(frame["algo"].iloc[0]), runs=frame.set_index("seed").sort_index())
        for name, frame in arms
    ]


def _labels(frames: Iterable[Frame]) -> list[str]:
    """Data and model, budget and preset; where that leaves two alike, what else of the terms differs."""
    firsts = [frame.iloc[0] for frame in frames]
    plain = [", ".join(str(f[c]) for c in ("data", "model", "budget", "preset") if f[c]) for f in firsts]
    terms = [cast("Terms", json.loads(f["setting_key"])) for f in firsts]
    labels: list[str] = []
    for i, label in enumerate(plain):
        alike = [terms[j] for j, other in enumerate(plain) if other == label]
        names = [k for k in terms[i] if k not in IN_LABEL and len({other.get(k) for other in alike}) > 1]
        label = ", ".join([label, *(f"{k.rpartition('.')[2]} {terms[i][k][:SHOWN]}" for k in names)])
        labels.append(f"{label} #{labels.count(label) + 1}" if label in labels else label)
    return labels
