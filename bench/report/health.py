"""Whether runs held together, and whether their verdicts can be believed."""

from collections.abc import Sequence

from bench.report.comparison import Arm, Comparison
from bench.report.tables import Cell, Row, Table, number, percent, quantity, share, text
from bench.stability import COLLAPSED
from bench.stats import estimate_positive


def stability_table(comparisons: Sequence[Comparison]) -> Table:
    """Diverged and collapsed runs, extremes and drawdown."""
    rows = [_stability(comparison, arm) for comparison in comparisons for arm in comparison.arms]
    return Table(
        name="stability",
        title="Stability",
        note=(
            "Diverged: a loss or gradient was not finite. Collapsed: entropy fell below a tenth of its first value. "
            "Ended below its start: test accuracy. KL (to the policy before the update) and gradient norm: the largest "
            "of a run, then mean and largest over runs. Drawdown: the deepest fall from the best so far, of the step's "
            "mean reward and of validation accuracy. Length drift: last step's mean completion length over the "
            "first's. Spread: standard deviation over seeds."
        ),
        rows=rows,
    )


def _stability(comparison: Comparison, arm: Arm) -> Row:
    start, final = arm.values("start_accuracy"), arm.values("final_accuracy")
    entropy = _ratio(arm, "actor/entropy")
    kl = "max:actor/kl_max" if arm.values("max:actor/kl_max") else "max:actor/kl"
    norm = "max:actor/grad_norm_max" if arm.values("max:actor/grad_norm_max") else "max:actor/grad_norm"
    length = _ratio(arm, "completion/length_mean")
    return {
        "setting": text(comparison.label),
        "arm": text(arm.name),
        "diverged": share(arm.count("diverged"), len(arm.runs)),
        "failed": share(len(arm.runs) - len(arm.counted), len(arm.runs)),
        "collapsed": share(sum(r < COLLAPSED for r in entropy), len(entropy)) if entropy else text(""),
        "ended below its start": share(sum(final[s] < start[s] for s in final if s in start), len(final)),
        "largest KL": quantity(arm.mean(kl)),
        "worst KL": number(max(arm.values(kl).values(), default=None)),
        "largest gradient norm": quantity(arm.mean(norm)),
        "worst gradient norm": number(max(arm.values(norm).values(), default=None)),
        "entropy kept": percent(estimate_positive(entropy)) if entropy else text(""),
        "reward drawdown": quantity(arm.mean("reward_drawdown")),
        "accuracy drawdown": percent(arm.share("accuracy_drawdown")),
        "length drift": quantity(estimate_positive(length)) if length else text(""),
        "spread of accuracy, points": spread_of_accuracies(list(final.values())),
        "groups without signal, %": percent(arm.share("mean:reward/frac_zero_std_groups")),
    }


def _ratio(arm: Arm, name: str) -> list[float]:
    first, last = arm.values(f"first:{name}"), arm.values(f"last:{name}")
    return [last[seed] / first[seed] for seed in last if first.get(seed)]


def spread_of_accuracies(values: Sequence[float]) -> Cell:
    """Sample standard deviation of accuracies, in points; missing below two runs."""
    if len(values) < 2:
        return text("")
    mean = sum(values) / len(values)
    deviation = (sum((v - mean) ** 2 for v in values) / (len(values) - 1)) ** 0.5
    return Cell(text=f"{deviation * 100:.1f}", value=deviation)


def verifier_table(comparisons: Sequence[Comparison]) -> Table:
    """How often no verdict could be reached in training."""
    rows: list[Row] = [
        {
            "setting": text(comparison.label),
            "arm": text(arm.name),
            "no answer read": percent(arm.share("mean:verifier/parse_fail_frac")),
            "timed out": percent(arm.share("mean:verifier/timeout_frac")),
            "error": percent(arm.share("mean:verifier/error_frac")),
            "well-formed": percent(arm.share("mean:completion/format_frac")),
            "cut off": percent(arm.share("mean:completion/truncated_frac")),
            "reward, mean": quantity(arm.mean("mean:reward/mean")),
            "correct": percent(arm.share("mean:reward/correct_frac")),
            "scoring, s/step": quantity(arm.mean("mean:time/score_s")),
        }
        for comparison in comparisons
        for arm in comparison.arms
    ]
    note = "Percent of the completions sampled in training, mean over steps, then over runs. Reward is not correctness."
    return Table(name="verifier", title="Verifier and completions", note=note, rows=rows)


def num_broken(arm: Arm) -> int:
    """Runs that diverged or ended below their start."""
    start, final = arm.values("start_accuracy"), arm.values("final_accuracy")
    diverged = set(arm.runs.index[arm.runs["status"] == "diverged"])
    return len(diverged | {seed for seed in final if seed in start and final[seed] < start[seed]})
