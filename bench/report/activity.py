"""Whether the mechanisms that tell methods apart were active: arms that differ by an idle one were not compared."""

from collections.abc import Callable, Mapping, Sequence

from bench.ground.tree import WITHOUT_EFFECT, flatten
from bench.report.comparison import Arm, Comparison
from bench.report.tables import Row, Table, percent, quantity, text

IDLE = 1e-3  # share of tokens, completions or samples below which a mechanism did nothing
ALIKE = 0.02  # spread of lengths over their mean below which ways of averaging tokens cannot differ


def length_spread(arm: Arm) -> float | None:
    """Coefficient of variation of the lengths in a step, mean over steps and runs."""
    spread, mean = arm.mean("mean:completion/length_std"), arm.mean("mean:completion/length_mean")
    return None if spread is None or mean is None or not mean.mean else spread.mean / mean.mean


def discarded(arm: Arm) -> float | None:
    """Share of the generated samples that were not trained on."""
    generated, trained = arm.mean("data/samples_generated"), arm.mean("data/samples_trained")
    return None if generated is None or trained is None else 1 - trained.mean / generated.mean


def share_of(column: str) -> Callable[[Arm], float | None]:
    """A measure: a recorded share, mean over steps and runs."""

    def measure(arm: Arm) -> float | None:
        found = arm.share(column)
        return None if found is None else found.mean

    return measure


Measure = tuple[Callable[[Arm], float | None], float]  # and the value below which the mechanism is idle
CLIPPED: Measure = (share_of("mean:actor/clip_frac"), IDLE)
DROPPED: Measure = (share_of("mean:actor/dropped_frac"), IDLE)
MECHANISMS: Mapping[str, Measure] = {
    "algo.clip_ratio": CLIPPED,
    "algo.clip_ratio_high": CLIPPED,
    "algo.ratio_cap": CLIPPED,
    "algo.correction_floor": DROPPED,
    "algo.filter_low": DROPPED,
    "algo.filter_high": DROPPED,
    "algo.dual_clip": (share_of("mean:actor/dual_clip_frac"), IDLE),
    "algo.aggregation": (length_spread, ALIKE),
    "algo.dynamic_sampling": (discarded, IDLE),
    "algo.max_sampling_rounds": (discarded, IDLE),
    "algo.overlong_frac": (share_of("mean:reward/shaped_frac"), IDLE),
    "algo.mask_truncated": (share_of("mean:completion/truncated_frac"), IDLE),
}
"""Setting -> what shows that it did something. A setting that is not here is taken to act."""


def activity(comparisons: Sequence[Comparison]) -> Table:
    """Beside each arm, how much each mechanism did."""
    rows: list[Row] = [
        {
            "setting": text(comparison.label),
            "arm": text(arm.name),
            "tokens clipped": percent(arm.share("mean:actor/clip_frac")),
            "tokens dropped": percent(arm.share("mean:actor/dropped_frac")),
            "dual clip": percent(arm.share("mean:actor/dual_clip_frac")),
            "KL of an update": quantity(arm.mean("max:actor/kl")),
            "spread of lengths": percent(length_spread(arm)),
            "cut off": percent(arm.share("mean:completion/truncated_frac")),
            "rewards shaped": percent(arm.share("mean:reward/shaped_frac")),
            "groups without signal": percent(arm.share("mean:reward/frac_zero_std_groups")),
            "prompts repeated in a step": percent(arm.share("mean:prompt/repeated_frac")),
            "discarded, with signal": percent(arm.share("mean:data/discarded_signal_frac")),
            "discarded": percent(discarded(arm)),
            "steps at the gradient clip": percent(arm.share("gradient_clipped_frac")),
            "critic explains": percent(arm.mean("last:critic/explained_variance")),
        }
        for comparison in comparisons
        for arm in comparison.arms
    ]
    note = (
        "Percent, mean over steps, then over runs: what a method does beyond its advantage. Two arms that differ by a "
        "mechanism alone that did nothing in either are marked 'not exercised'. KL: the largest of a run, in nats. "
        "Spread of lengths: standard deviation over mean, within a step. Critic: explained variance in the last step."
    )
    return Table(name="activity", title="Mechanisms at work", note=note, rows=rows)


def exercised(first: Arm, second: Arm) -> bool:
    """False where the arms' settings differ in mechanisms alone that were idle in both."""
    configs = [flatten(arm.config) for arm in (first, second)]
    ignored = {*WITHOUT_EFFECT, "name", "seed", "arm", "algo_name"}
    names = {name for config in configs for name in config} - ignored
    differing = {name for name in names if configs[0].get(name) != configs[1].get(name)}
    return not differing or not all(_is_idle(name, first, second) for name in differing)


def _is_idle(name: str, first: Arm, second: Arm) -> bool:
    if name not in MECHANISMS:
        return False
    measure, least = MECHANISMS[name]
    found = [measure(arm) for arm in (first, second)]
    return all(value is not None and value < least for value in found)
