"""Figures of outcomes: seed by seed, differences between arms, sweeps over a number."""

from collections.abc import Sequence

import numpy as np
import seaborn as sns

from bench.ground.tree import flatten
from bench.report.comparison import Arm, Comparison
from bench.report.figures import Drawn, blank_canvas, looks, runs_an_arm
from bench.report.outcomes import endpoint_of, in_words
from bench.report.records import Records, pd
from bench.report.verdicts import Judged


def seeds(comparison: Comparison, records: Records) -> Drawn | None:
    """Every run's final accuracy."""
    end = endpoint_of(comparison)
    rows = [
        {"arm": arm.name, "accuracy": 100 * value, "seed": seed}
        for arm in comparison.arms
        for seed, value in arm.values(f"final_{end}").items()
    ]
    if not rows:
        return None
    canvas, (axes,) = blank_canvas(1, 1, 1.6 + 0.55 * len(comparison.arms))
    palette = {name: look.colour for name, look in looks(comparison).items()}
    frame = pd.DataFrame(rows)
    sns.stripplot(
        frame, x="accuracy", y="arm", hue="arm", palette=palette, ax=axes, size=7, alpha=0.65, jitter=0.12, legend=False
    )
    for y, arm in enumerate(frame["arm"].unique()):
        found = next(a for a in comparison.arms if a.name == arm).share(f"final_{end}")
        if found is not None and found.low is not None and found.high is not None:
            axes.plot([100 * found.low, 100 * found.high], [y + 0.3] * 2, color="black", linewidth=2)
            axes.plot(100 * found.mean, y + 0.3, "|", color="black", markersize=12, markeredgewidth=2)
    starts = [value for arm in comparison.arms for value in arm.values(f"start_{end}").values()]
    if starts:
        axes.axvline(100 * float(np.mean(starts)), color="0.5", linestyle=":", label="before training")
        axes.legend(loc="best")
    axes.set(xlabel=f"{in_words(end)} on test after training, %", ylabel="")
    caption = f"Final accuracy of every run (a dot a seed); bar: mean with 95% interval ({runs_an_arm(comparison)})."
    return "Seed by seed", caption, canvas


def differences(comparison: Comparison, judged: Sequence[Judged]) -> Drawn | None:
    """Contrasts with intervals, beside the margin."""
    known = [
        (item, contrast, ends)
        for item in judged
        if item.comparison is comparison and item.verdict is not None
        for contrast in [item.verdict.contrast]
        for ends in [contrast.interval() if contrast.error else None]
        if ends is not None
    ]
    if not known:
        return None
    canvas, (axes,) = blank_canvas(1, 1, 1.4 + 0.4 * len(known))
    for y, (item, contrast, (low, high)) in enumerate(known):
        reach = [[100 * (contrast.mean - low)], [100 * (high - contrast.mean)]]
        colour = "black" if item.primary else "0.45"
        axes.errorbar(100 * contrast.mean, y, xerr=reach, fmt="o", color=colour, capsize=4)
    margin = 100 * known[0][0].verdict.margin if known[0][0].verdict is not None else 0.0
    axes.axvspan(-margin, margin, color="0.5", alpha=0.15, label=f"margin, {margin:g} points")
    axes.axvline(0, color="0.5", linestyle=":")
    names = [f"{item.first.name} - {item.second.name} (n={min(c.seeds)})" for item, c, _ in known]
    axes.set_yticks(range(len(known)), names)
    axes.set_ylim(len(known) - 0.5, -0.5)
    axes.set(xlabel=f"difference of {in_words(endpoint_of(comparison))}, points")
    axes.legend(loc="best")
    caption = (
        "Differences with 95% intervals over seeds and problems, not corrected for their number (the verdicts in the "
        "table are); black: primary, grey: exploratory. Shaded: differences that are not worth acting on."
    )
    return "Differences between arms", caption, canvas


def sweep(comparison: Comparison, records: Records) -> Drawn | None:
    """Final accuracy over a number in which the arms of one algorithm differ (group size, KL coefficient, ...)."""
    found = swept(comparison)
    if not found:
        return None
    field, end = next(iter(found.values()))[0], endpoint_of(comparison)
    canvas, (axes,) = blank_canvas(1, 1, 4)
    palette = sns.color_palette("colorblind", 10)
    for i, (algo, (_, points)) in enumerate(found.items()):
        known = [(x, e) for x, arm in points if (e := arm.share(f"final_{end}")) is not None]
        x = [x for x, _ in known]
        low, high = (
            [
                100 * ((end if end is not None else e.mean) - e.mean)
                for _, e in known
                for end in [e.low if side else e.high]
            ]
            for side in (1, 0)
        )
        axes.errorbar(
            x,
            [100 * e.mean for _, e in known],
            yerr=np.abs([low, high]),
            marker="os^D"[i % 4],
            capsize=4,
            color=palette[i % 10],
            label=f"{algo} (n={min(e.n for _, e in known)} a point)",
        )
    values = [x for _, points in found.values() for x, _ in points]
    if min(values) > 0 and max(values) / min(values) >= 8:
        axes.set_xscale("log", base=2 if all(v == int(v) for v in values) else 10)
        axes.set_xticks(sorted(set(values)), [f"{v:g}" for v in sorted(set(values))])
    axes.set(xlabel=field, ylabel=f"{in_words(end)} after training, %")
    axes.legend()
    return f"Over {field}", f"Mean and 95% interval over seeds ({runs_an_arm(comparison)}).", canvas


def swept(comparison: Comparison) -> dict[str, tuple[str, list[tuple[float, Arm]]]]:
    """Algorithm -> the one number in which its arms (three or more) differ, and the arms by it."""
    found: dict[str, tuple[str, list[tuple[float, Arm]]]] = {}
    for algo in dict.fromkeys(arm.algo for arm in comparison.arms):
        arms = [arm for arm in comparison.arms if arm.algo == algo]
        configs = [flatten(arm.config) for arm in arms]
        fields = [
            f for f in configs[0] if f not in ("arm", "name", "seed", "out") and len({c.get(f) for c in configs}) > 1
        ]
        if len(arms) < 3 or len(fields) != 1 or not all(_numeric(c.get(fields[0])) for c in configs):
            continue
        points = [(float(config[fields[0]]), arm) for config, arm in zip(configs, arms, strict=True)]
        found[algo] = fields[0], sorted(points, key=lambda point: point[0])
    return found


def _numeric(value: str | None) -> bool:
    try:
        return value is not None and np.isfinite(float(value))
    except ValueError:
        return False
