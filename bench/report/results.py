"""Who got where, and who beat whom."""

from collections.abc import Sequence
from itertools import combinations
from typing import cast

from bench.report.comparison import Arm, Comparison, difference_by_seed
from bench.report.records import Frame, Records
from bench.report.tables import Cell, Row, Table, number, percent, points, text
from bench.stats import MIN_BOOTSTRAP, MIN_T, Difference, bootstrap_t, by_problem, holm, probability_of_improvement

ALPHA = 0.05


def results(comparisons: Sequence[Comparison]) -> Table:
    """Before, after and gain of every arm."""
    rows = [_result(comparison, arm) for comparison in comparisons for arm in comparison.arms]
    return Table(
        name="results",
        title="Results",
        note=(
            "Greedy accuracy on the test split, in percent, mean over seeds with a 95% t interval (from three runs). "
            "Gain: after minus before of the same run. A run that diverged or found no signal counts with its last "
            "test accuracy; failed and unfinished runs are listed and not counted."
        ),
        rows=rows,
    )


def _result(comparison: Comparison, arm: Arm) -> Row:
    before, after = arm.values("start_accuracy"), arm.values("final_accuracy")
    gain = difference_by_seed(after, before)
    trained = any(step > 0 for step in arm.values("final_step").values())
    return {
        "setting": text(comparison.label),
        "arm": text(arm.name),
        "algorithm": text(arm.algo),
        "runs": Cell(text=runs_in_words(arm), value=len(after)),
        "problems": number(max(arm.values("final_num_problems").values(), default=None)),
        "in words": text(gain_in_words(gain) if trained else "not evaluated after training"),
        "before": percent(arm.mean("start_accuracy")),
        "after": percent(arm.mean("final_accuracy")),
        "gain": points(gain) if trained else text(""),
        "sampled, after": percent(arm.mean("final_sampled_accuracy")),
        "well-formed, after": percent(arm.mean("final_format_frac")),
        "cut off, after": percent(arm.mean("final_truncated_frac")),
    }


def runs_in_words(arm: Arm) -> str:
    """`5`, or `3, 1 diverged, 1 failed`."""
    parts = [str(arm.count("finished"))]
    lost = {status: arm.count(status) for status in ("diverged", "no-signal", "failed")}
    lost["unfinished"] = len(arm.runs) - arm.count("finished", *lost)
    return ", ".join(parts + [f"{count} {status}" for status, count in lost.items() if count])


def gain_in_words(gain: Difference | None) -> str:
    """Whether training helped."""
    if gain is None:
        return "no result"
    if gain.low is None or gain.high is None:
        return f"no verdict from {min(gain.n)} run{'s' * (min(gain.n) != 1)}"
    if gain.low > 0:
        return "learned"
    return "got worse" if gain.high < 0 else "no detectable gain"


def pairs(comparison: Comparison, reference: str | None) -> list[tuple[Arm, Arm]]:
    """Every two arms; with a reference, each other arm against it."""
    if reference is None or reference not in {arm.name for arm in comparison.arms}:
        return [(b, a) for a, b in combinations(comparison.arms, 2)]
    base = next(arm for arm in comparison.arms if arm.name == reference)
    return [(arm, base) for arm in comparison.arms if arm is not base]


def arm_differences(comparisons: Sequence[Comparison], records: Records, reference: str | None) -> Table:
    """Differences of final accuracy between arms, with verdicts."""
    rows: list[Row] = []
    for comparison in comparisons:
        matched = pairs(comparison, reference)
        found = [difference_by_seed(a.values("final_accuracy"), b.values("final_accuracy")) for a, b in matched]
        adjusted = adjust([None if d is None else d.p for d in found])
        for (a, b), difference, p in zip(matched, found, adjusted, strict=True):
            rows.append(_comparison(comparison, a, b, difference, p, records))
    return Table(
        name="comparisons",
        title="Differences between arms",
        note=(
            "Test accuracy of the first arm minus the second, in percentage points, with 95% intervals. By seed: over "
            "training runs, paired where both arms used the same seeds (else Welch): whether the methods differ. By "
            "problem: over test problems, for these checkpoints. p: two-sided by seed, Holm-adjusted over the "
            "comparisons of the setting; the verdict follows it. Detectable: the true difference that this design "
            "finds with 80% power. Bootstrap-t and interquartile mean appear from ten seeds on."
        ),
        rows=rows,
    )


def adjust(p: Sequence[float | None]) -> list[float | None]:
    """Holm's adjustment of the p-values there are."""
    known = iter(holm([value for value in p if value is not None]))
    return [None if value is None else next(known) for value in p]


def _comparison(
    comparison: Comparison, a: Arm, b: Arm, difference: Difference | None, p: float | None, records: Records
) -> Row:
    first, second = a.values("final_accuracy"), b.values("final_accuracy")
    improvement = probability_of_improvement([*first.values()], [*second.values()]) if first and second else None
    return {
        "setting": text(comparison.label),
        "arms": text(f"{a.name} - {b.name}"),
        "verdict": text(verdict(a.name, b.name, difference, p) + lost_in_words(a, b)),
        "by seed": points(difference),
        "n": text("" if difference is None else _sizes(difference)),
        "p (Holm)": number(p, 2),
        "detectable": percent(None if difference is None else difference.detectable),
        "by problem": points(problem_difference(comparison, a, b, records)),
        "P(first beats second)": percent(improvement),
        **_robust(first, second),
    }


def _sizes(d: Difference) -> str:
    return f"{d.n[0]} pairs" if d.paired else f"{d.n[0]} and {d.n[1]}, unpaired"


def _robust(first: dict[int, float], second: dict[int, float]) -> Row:
    shared = sorted(set(first) & set(second))
    if len(shared) < MIN_BOOTSTRAP:
        return {}
    d = [first[s] - second[s] for s in shared]
    named = {"bootstrap-t": 0.0, "interquartile mean": 0.25}
    estimates = {name: bootstrap_t(d, seed=0, trim=trim) for name, trim in named.items()}
    return {
        name: Cell(
            text=f"{mean * 100:+.1f} [{low * 100:+.1f}, {high * 100:+.1f}]",
            value=float(mean),
            low=float(low),
            high=float(high),
        )
        for name, (mean, low, high) in estimates.items()
    }


def verdict(a: str, b: str, difference: Difference | None, p: float | None) -> str:
    """The comparison in words."""
    if difference is None:
        return "no verdict: an arm has no result"
    if p is None or difference.detectable is None:
        if min(difference.n) < MIN_T:
            return f"no verdict: {min(difference.n)} run(s) an arm, at least {MIN_T} are needed"
        same = f"{abs(difference.mean) * 100:.1f} points"
        return f"no verdict: the arms differ by {same} each time, which leaves no spread to judge by"
    if p < ALPHA:
        winner, loser = (a, b) if difference.mean > 0 else (b, a)
        return f"{winner} is better than {loser} by {abs(difference.mean) * 100:.1f} points"
    if difference.error == 0:
        return "the same result in every pair of runs"
    detectable = f"minimum detectable: {difference.detectable * 100:.1f} points"
    after = (
        ", after the correction for several comparisons" if difference.p is not None and difference.p < ALPHA else ""
    )
    return f"no detectable difference at n={min(difference.n)} ({detectable}){after}"


def lost_in_words(*arms: Arm) -> str:
    """Which runs ended early or gave no result, in brackets; empty when all is well."""
    words = [
        f"{arm.name}: {arm.count('diverged')} of {len(arm.runs)} diverged" for arm in arms if arm.count("diverged")
    ]
    words += [
        f"{arm.name}: {lost} of {len(arm.runs)} without result" for arm in arms if (lost := _num_without_result(arm))
    ]
    return f" ({'; '.join(words)})" if words else ""


def _num_without_result(arm: Arm) -> int:
    return len(arm.runs) - len(arm.values("final_accuracy"))


def problem_difference(comparison: Comparison, a: Arm, b: Arm, records: Records) -> Difference | None:
    """The difference over the problems that all runs of both arms were tested on."""
    if records.problems.empty:
        return None
    both = [_verdicts(records.problems, [*comparison.paths(arm)]) for arm in (a, b)]
    if any(frame is None for frame in both):
        return None
    first, second = (cast(Frame, frame) for frame in both)
    shared = first.columns.intersection(second.columns)
    return by_problem(first[shared].to_numpy(), second[shared].to_numpy()) if len(shared) else None


def _verdicts(problems: Frame, paths: list[str]) -> Frame | None:
    """(runs, problems) of greedy verdicts, over the problems common to the runs."""
    part = problems[problems["path"].isin(paths)].dropna(subset=["correct"])
    if part.empty:
        return None
    part = part.assign(correct=part["correct"].astype(float), path=part["path"].astype(str))
    return part.pivot_table(index="path", columns="problem", values="correct", observed=True).dropna(axis=1)
