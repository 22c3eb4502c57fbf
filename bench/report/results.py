"""Who got where, and who beat whom."""

from collections.abc import Sequence
from itertools import combinations

from bench.report.comparison import Arm, Comparison, difference_by_seed
from bench.report.outcomes import GREEDY, SAMPLED, endpoint_of
from bench.report.records import DAMAGED
from bench.report.tables import Cell, Row, Table, number, percent, points, text
from bench.stats import Difference

FEW = 3  # runs of which each is shown


def results(comparisons: Sequence[Comparison]) -> Table:
    """Before, after and gain of every arm."""
    rows = [_result(comparison, arm) for comparison in comparisons for arm in comparison.arms]
    return Table(
        name="results",
        title="Results",
        note=(
            "Sampled accuracy on the test split at the training temperature, which is what training optimises (greedy "
            "where an arm was not sampled from), in percent, mean over seeds with a 95% interval (from three runs; "
            "with three each is shown). Gain: after minus before of the same run. Completed: right, and not cut off. "
            "pass@k and maj@k: of k samples one is right, or the commonest. A run that diverged or found no signal "
            "counts with its last test accuracy; failed, damaged and unfinished runs are listed and not counted."
        ),
        rows=rows,
    )


def _result(comparison: Comparison, arm: Arm) -> Row:
    end = endpoint_of(comparison)
    before, after = arm.values(f"start_{end}"), arm.values(f"final_{end}")
    gain = difference_by_seed(after, before)
    trained = any(step > 0 for step in arm.values("final_step").values())
    shown = ", ".join(f"{100 * value:.1f}" for value in after.values()) if len(after) <= FEW else ""
    return {
        "setting": text(comparison.label),
        "arm": text(arm.name),
        "algorithm": text(arm.algo),
        "runs": Cell(text=runs_in_words(arm), value=len(after)),
        "problems": number(max(arm.values("final_num_problems").values(), default=None)),
        "in words": text(gain_in_words(gain) if trained else "not evaluated after training"),
        "before": percent(arm.share(f"start_{end}")),
        "after": percent(arm.share(f"final_{end}")),
        "each run": text(shown),
        "gain": points(gain) if trained else text(""),
        "completed": percent(arm.share(f"final_{'sampled_' if end == SAMPLED else ''}completed_accuracy")),
        "greedy, after": percent(arm.share(f"final_{GREEDY}")),
        **{f"pass@{k}": percent(arm.share(f"final_pass_at_{k}")) for k in (1, 4, 16)},
        "maj@k": percent(arm.share("final_maj_at_k")),
        "well-formed, after": percent(arm.share("final_format_frac")),
        "cut off, after": percent(arm.share("final_truncated_frac")),
    }


def runs_in_words(arm: Arm) -> str:
    """`5`, or `3, 1 diverged, 1 failed`."""
    parts = [str(arm.count("finished"))]
    lost = {status: arm.count(status) for status in ("diverged", "no-signal", "failed", DAMAGED)}
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
