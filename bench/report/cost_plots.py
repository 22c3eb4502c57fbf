"""Figures of cost: memory by role, time by phase, accuracy against cost."""

from bench.ground.words import ROLES, STEP_PHASES
from bench.report.comparison import Arm, Comparison
from bench.report.figures import Drawn, blank_canvas, counted_axis, legend, looks, runs_an_arm, stacked
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
    """Final accuracy against seconds and FLOPs of the run."""
    del records
    axes_of = {"cost/device_s": "training seconds", "cost/flops": "estimated FLOPs"}
    canvas, panels = blank_canvas(1, 2, 4)
    drawn = False
    for axes, (column, label) in zip(panels, axes_of.items(), strict=True):
        for arm, look in zip(comparison.arms, looks(comparison).values(), strict=True):
            x, y = arm.values(column), arm.values("final_accuracy")
            both = [seed for seed in x if seed in y]
            if not both:
                continue
            drawn = True
            xs, ys = [x[s] for s in both], [100 * y[s] for s in both]
            axes.plot(xs, ys, look.marker, color=look.colour, alpha=0.4, markersize=5)
            mean = sum(xs) / len(xs), sum(ys) / len(ys)
            axes.plot(
                *mean,
                look.marker,
                color=look.colour,
                markersize=11,
                markeredgecolor="black",
                label=f"{arm.name} (n={len(both)})",
            )
        axes.margins(x=0.08)  # room for the mark of the dearest arm
        axes.set(xlabel=label, ylabel="test accuracy after training, %", xlim=(0, None))
        counted_axis(axes)
    legend(canvas, panels[0])
    return (
        (
            "Accuracy against cost",
            f"A small marker a run, a large one the mean ({runs_an_arm(comparison)}).",
            canvas,
        )
        if drawn
        else None
    )
