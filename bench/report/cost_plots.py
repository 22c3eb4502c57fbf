"""Figures of cost: memory by role, time by phase, accuracy against cost."""

from collections.abc import Sequence

from bench.ground.words import ROLES, STEP_PHASES
from bench.report.comparison import Arm, Comparison
from bench.report.figures import Drawn, blank_canvas, counted_axis, legend, looks, runs_an_arm, stacked
from bench.report.outcomes import endpoint_of, in_words
from bench.report.records import Records


def memory_by_role(comparison: Comparison, records: Records) -> Drawn | None:
    """Bytes by role, stacked for each arm."""
    del records
    parts = {role: [_mean(arm, f"max:memory/{role}_gib") * 1024 for arm in comparison.arms] for role in ROLES}
    held = {role.replace("_", " "): sizes for role, sizes in parts.items() if any(sizes)}
    if not held:
        return None
    large = max(map(sum, zip(*held.values(), strict=True))) > 2048
    unit = {role: [size / 1024 if large else size for size in part] for role, part in held.items()}
    canvas, (axes,) = blank_canvas(1, 1, 2 + 0.5 * len(comparison.arms))
    stacked(axes, [arm.name for arm in comparison.arms], unit, "GiB" if large else "MiB")
    legend(canvas, axes)
    caption = (
        f"Bytes held by role, counted from storages, largest over a run's steps, mean over runs "
        f"({runs_an_arm(comparison)}). The cache of the rollout and the activations of the update never exist at once."
    )
    return "Memory by role", caption, canvas


def step_time(comparison: Comparison, records: Records) -> Drawn | None:
    """Seconds of a step by phase."""
    del records
    parts = {phase: [_mean(arm, f"mean:time/{phase}_s") for arm in comparison.arms] for phase in STEP_PHASES}
    known = {phase: part for phase, part in parts.items() if any(part)}
    if not known:
        return None
    canvas, (axes,) = blank_canvas(1, 1, 2 + 0.5 * len(comparison.arms))
    stacked(axes, [arm.name for arm in comparison.arms], known, "seconds a step")
    legend(canvas, axes)
    return "Where a step's time goes", f"Mean over steps, then over runs ({runs_an_arm(comparison)}).", canvas


def _mean(arm: Arm, column: str) -> float:
    found = arm.mean(column)
    return 0.0 if found is None else found.mean


def cost_accuracy(comparison: Comparison, records: Records) -> Drawn | None:
    """Final accuracy against what the run cost, and the arms that no other beats at their cost."""
    del records
    axes_of = {"cost/flops": "estimated FLOPs", "data/tokens_generated": "generated tokens"}
    end = endpoint_of(comparison)
    canvas, panels = blank_canvas(1, 2, 4)
    drawn = False
    for axes, (column, label) in zip(panels, axes_of.items(), strict=True):
        means: list[tuple[float, float]] = []
        for arm, look in zip(comparison.arms, looks(comparison).values(), strict=True):
            x, y = arm.mean(column), arm.share(f"final_{end}")
            if x is None or y is None:
                continue
            drawn = True
            means.append((x.mean, 100 * y.mean))
            ends = [(m.low, m.high) if m.low is not None and m.high is not None else (m.mean, m.mean) for m in (x, y)]
            sides = zip((x, y), ends, (1, 100), strict=True)
            reach = [[[scale * (m.mean - low)], [scale * (high - m.mean)]] for m, (low, high), scale in sides]
            axes.errorbar(
                *means[-1],
                xerr=reach[0],
                yerr=reach[1],
                fmt=look.marker,
                color=look.colour,
                markersize=9,
                capsize=3,
                label=f"{arm.name} (n={y.n})",
            )
        best = frontier(means)
        axes.step([x for x, _ in best], [y for _, y in best], where="post", color="0.5", linestyle="--", zorder=0)
        axes.margins(x=0.08)  # room for the mark of the dearest arm
        axes.set(xlabel=label, ylabel=f"{in_words(end)} after training, %", xlim=(0, None))
        counted_axis(axes)
    legend(canvas, panels[0])
    caption = (
        f"Mean with 95% intervals ({runs_an_arm(comparison)}). Dashed: the frontier, arms that none beats at their "
        "cost or less, by means alone. Runs of equal samples differ in cost: `compare --equal` makes it equal."
    )
    return ("Accuracy against cost", caption, canvas) if drawn else None


def frontier(points: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
    """The (cost, accuracy) points that no cheaper or equally cheap one reaches, by cost."""
    best: list[tuple[float, float]] = []
    for cost, accuracy in sorted(points, key=lambda point: (point[0], -point[1])):
        if not best or accuracy > best[-1][1]:
            best.append((cost, accuracy))
    return best
