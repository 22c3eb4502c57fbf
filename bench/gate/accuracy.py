"""Tier 3: accuracy over seeds, against runs of the base or stored ones: no worse than a margin?

The interval is that of head minus base, paired where both have the same seeds. Looks at growing numbers of seeds are
each made at Pocock's level, so that all of them together err at most 5% of the time at the margin itself.
"""

import json
import math
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from bench.gate.verdict import Finding, Status
from bench.ground.comparable import Terms, unequal_terms
from bench.ground.errors import UserError
from bench.ground.files import read_json, read_rows
from bench.ground.runs import find_runs
from bench.report.comparison import latest_runs
from bench.report.records import load
from bench.report.run_figures import figures_of_runs
from bench.stats import MIN_T, POCOCK, Difference, estimate, paired, unpaired


@dataclass(frozen=True, kw_only=True)
class Results:
    """Runs of one method that may be compared with one another."""

    terms: Terms  # what must be equal: data, model, budget, evaluation, preset
    accuracy: Mapping[int, float]  # seed -> on the test split after training
    start: float | None = None  # mean before training
    lost: Mapping[int, str] = field(default_factory=dict[int, str])  # seed -> why there is no accuracy
    preset: str = ""
    left_out: Sequence[str] = ()  # a line a run that counts for nothing


def read_runs(folder: Path) -> dict[str, Results]:
    """Arm -> results, of everything below the folder.

    Raises:
        UserError: no runs there, or one arm under several settings.
    """
    with tempfile.TemporaryDirectory() as cache:
        records = load(find_runs([folder]), Path(cache))
        if records.unread:
            path, why = next(iter(records.unread.items()))
            raise UserError(f"{path} cannot be judged: {why}")
        frame, left_out = latest_runs(figures_of_runs(records))
    found: dict[str, Results] = {}
    for (arm, key), runs in frame.groupby(["arm", "setting_key"], sort=False):
        if arm in found:
            raise UserError(f"{folder}: arm {arm} was run under several settings; give a folder of one")
        earlier = left_out[left_out["arm"] == arm]
        lines = [
            f"{Path(path).name} is left out: {why}" for path, why in zip(earlier["path"], earlier["why"], strict=True)
        ]
        results = results_of(runs.to_dict("records"), json.loads(key))
        twice = {int(seed): "is recorded twice" for seed in earlier["seed"]}
        found[str(arm)] = replace(results, lost={**results.lost, **twice}, left_out=lines)
    return found


def base_runs(against: Path | None) -> dict[str, Results] | None:
    """Recorded runs to be held against, where it is a folder of them that was given."""
    return read_runs(against) if against is not None and against.is_dir() else None


def results_of(rows: Sequence[Mapping[str, Any]], terms: Terms) -> Results:
    """From one row a run. A run that did not finish, or has no whole test after training, is lost."""
    accuracy, starts, lost = dict[int, float](), list[float](), dict[int, str]()
    for row in rows:
        seed = int(row["seed"])
        if row["status"] != "finished":
            lost[seed] = " ".join(filter(None, (str(row["status"]), str(row["message"]))))
            continue
        try:
            start, accuracy[seed] = tested(Path(row["path"]))
            starts += [] if start is None else [start]
        except UserError as error:
            lost[seed] = str(error)
    start = sum(starts) / len(starts) if starts else None
    return Results(terms=terms, accuracy=accuracy, start=start, lost=lost, preset=str(rows[0]["preset"]))


def tested(path: Path) -> tuple[float | None, float]:
    """Accuracy on the test split before training (None where it was not tested then) and after it.

    Raises:
        UserError: there is none after training, or a row of the test split is not whole. No row stands for another.
    """
    found: dict[float, float] = {}
    for row in read_rows(path / "evals.jsonl"):
        if row.get("split") not in ("test", "validation"):
            raise UserError(f"an evaluation of the split {row.get('split')!r}")
        if row["split"] == "test":
            step, value = (number_of(row, name) for name in ("step", "accuracy"))
            if not 0 <= value <= 1:
                raise UserError(f"accuracy {value} is not in [0, 1]")
            if step in found:
                raise UserError(f"two tests at step {step:g}")
            found[step] = value
    last = max(found, default=0)
    if not last > 0:
        raise UserError("no test accuracy after training")
    steps = read_json(path / "summary.json").get("steps", last)
    if steps != last:
        raise UserError(f"the last test is at step {last:g}, and training ended at step {steps}")
    return found.get(0), found[last]


def number_of(row: Mapping[str, Any], name: str) -> float:
    """A finite number.

    Raises:
        UserError: it is missing or something else.
    """
    value = row.get(name)
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise UserError(f"the {name} of a test is {value!r}, not a number")
    return float(value)


def judge_accuracy(subject: str, head: Results, base: Results, margin: float, level: float) -> Finding:
    """One look. `margin` is a negative fraction."""
    if different := unequal(head.terms, base.terms):
        return accuracy_finding(subject, "cannot judge", "other settings", margin, detail=different)
    if base.lost:
        return accuracy_finding(
            subject, "cannot judge", "the base has lost runs", margin, detail=lost_in_words(base.lost)
        )
    if head.lost:
        return accuracy_finding(subject, "worse", "runs without a result", margin, detail=lost_in_words(head.lost))
    if gap := unmatched(head.accuracy, base.accuracy):
        return accuracy_finding(subject, *gap, margin)
    difference = head_minus_base(head.accuracy, base.accuracy, level)
    sizes = f"{len(head.accuracy)} runs against {len(base.accuracy)}"
    if difference is None or difference.low is None or difference.high is None:
        why = "too few runs" if difference is None else "every run differs by the same, which leaves no spread"
        return accuracy_finding(subject, "cannot judge", f"{why}: {sizes}", margin, {"n": len(head.accuracy)})
    verdict: Status = "pass" if difference.low > margin else "worse" if difference.high < margin else "cannot judge"
    mean, low, high = (100 * x for x in (difference.mean, difference.low, difference.high))
    used = {seed: base.accuracy[seed] for seed in head.accuracy} if difference.paired else base.accuracy
    means = [estimate(list(side.values())).mean for side in (used, head.accuracy)]
    return accuracy_finding(
        subject,
        verdict,
        f"{mean:+.1f} [{low:+.1f}, {high:+.1f}] points",
        margin,
        {"difference": mean / 100, "low": low / 100, "high": high / 100, "level": level, "n": len(head.accuracy)},
        detail=f"{means[0]:.1%} -> {means[1]:.1%}, {sizes}{', paired by seed' * difference.paired}"
        + little_to_lose(means[0], base.start, margin)
        + left_open(head, base),
    )


def gone(head: Mapping[str, Results], base: Mapping[str, Results], folder: Path, margin: float) -> Iterator[Finding]:
    """A finding for each arm of the base that the head has no runs of."""
    for name in base:
        if name not in head:
            yield accuracy_finding(name, "worse", f"no {name} in {folder}", margin, detail="the base has runs of it")


def unmatched(head: Mapping[int, float], base: Mapping[int, float]) -> tuple[Status, str] | None:
    """What one side has of runs and the other lacks: shared seeds must be all, others as many."""
    shared = bool(set(head) & set(base))
    gone = set(base) - set(head) if shared else set(range(len(base) - len(head)))
    extra = set(head) - set(base) if shared else set(range(len(head) - len(base)))
    if gone:
        which = f"seeds {', '.join(map(str, sorted(gone)))}" if shared else f"{len(gone)} runs"
        return "worse", f"{which} of the base are gone"
    if extra:
        which = f"seeds {', '.join(map(str, sorted(extra)))}" if shared else f"{len(extra)} runs"
        return "cannot judge", f"the base lacks {which} of the head"
    return None


def head_minus_base(head: Mapping[int, float], base: Mapping[int, float], level: float) -> Difference | None:
    """Head minus base, paired where the base has every seed of the head, else as independent runs."""
    if min(len(head), len(base)) < MIN_T:
        return None
    if set(head) <= set(base):
        return paired(list(head.values()), [base[seed] for seed in head], level)
    return unpaired(list(head.values()), list(base.values()), level)


def little_to_lose(mean: float, start: float | None, margin: float) -> str:
    """A warning where training itself gains so little that losing all of it would hardly show."""
    gain = None if start is None else mean - start
    return f"; the base gains only {100 * gain:.1f} points" if gain is not None and gain < -2 * margin else ""


def accuracy_finding(
    subject: str,
    verdict: Status,
    measured: str,
    margin: float,
    numbers: dict[str, float] | None = None,
    detail: str = "",
) -> Finding:
    """As tier 3 words it."""
    return Finding(
        tier=3,
        subject=subject,
        quantity="accuracy",
        status=verdict,
        measured=measured,
        tolerance=f"{100 * margin:+.0f} points",
        detail=detail,
        numbers=dict(numbers or {}),
    )


def lost_in_words(lost: Mapping[int, str]) -> str:
    """`seed 3: diverged in step 4: ...`."""
    return "; ".join(f"seed {seed}: {why}" for seed, why in sorted(lost.items()))


def unequal(head: Terms, base: Terms) -> str:
    """What both say and say differently; a term that one side's version does not record cannot be held against it."""
    different = [name for name in unequal_terms(head, base) if name in head and name in base]
    return "; ".join(f"{name}: {head[name]} here, {base[name]} in the base" for name in different)


def left_open(head: Results, base: Results) -> str:
    """What had to be left open: terms that one side does not record, and runs of either that count for nothing."""
    parts: list[str] = []
    for side, mine, other in (("the base", base.terms, head.terms), ("these runs", head.terms, base.terms)):
        if missing := sorted(other.keys() - mine.keys()):
            parts.append(f"{side} do{'es' * (mine is base.terms)} not record {', '.join(missing)}")
    return "".join(f"; {part}" for part in [*parts, *head.left_out, *base.left_out])


def level_of(num_looks: int) -> float:
    """Of each look.

    Raises:
        UserError: more looks than there are levels for.
    """
    if num_looks not in POCOCK:
        raise UserError(f"{num_looks} looks at the seeds are too many: raise --seeds, or lower --max-seeds")
    return 1 - POCOCK[num_looks]
