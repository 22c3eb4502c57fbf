"""Figures of learning: accuracy along each cost, training metrics by step, the critic."""

import numpy as np

from bench.report.comparison import Arm, Comparison
from bench.report.curves import AXES, Curves, curves, horizon_of
from bench.report.figures import (
    Axes,
    Drawn,
    Look,
    blank_canvas,
    counted_axis,
    draw_band,
    legend,
    looks,
    runs_an_arm,
)
from bench.report.records import Frame, Records

TRAINING = {
    "reward/mean": "mean reward",
    "actor/kl": "KL to the policy before the update",
    "actor/entropy": "entropy, nats a token",
    "completion/length_mean": "completion length, tokens",
    "actor/clip_frac": "clipped share of tokens",
    "reward/frac_zero_std_groups": "share of groups without signal",
}
GRID = 60  # points at which runs of unequal steps are averaged


def learning_curves(comparison: Comparison, records: Records) -> Drawn | None:
    """Accuracy against samples, tokens, seconds and FLOPs."""
    canvas, panels = blank_canvas(2, 2, 7)
    drawn = False
    for axes, (axis, (_, label)) in zip(panels, AXES.items(), strict=True):
        found = curves(comparison, records, axis)
        for name, look in looks(comparison).items():
            if name not in found:
                continue
            runs = found[name].values()
            end = _common_end(comparison, name, {seed: float(x[-1]) for seed, (x, _) in found[name].items()})
            grid = np.linspace(max(float(x[0]) for x, _ in runs), end, GRID)
            heights = np.array([np.interp(grid, x, y, left=np.nan, right=np.nan) for x, y in runs])
            draw_band(axes, grid, 100 * heights, look, f"{name} (n={len(heights)})")
            _mark_lost(axes, comparison, name, found[name], look)
            drawn = True
        if (end := horizon_of(comparison, found)) > 0:
            axes.axvline(end, color="0.6", linewidth=0.8)
        axes.set(xlabel=label, ylabel="accuracy, %")
        counted_axis(axes)
    legend(canvas, panels[0])
    caption = (
        f"Accuracy during training, mean and 95% t interval over seeds ({runs_an_arm(comparison)}); the grey line "
        "marks the cost that every finished run reached; a mean ends where the first finished run of its arm does. A "
        "cross marks where a run diverged; the mean goes on with the others."
    )
    return ("Learning curves", caption, canvas) if drawn else None


def _common_end(comparison: Comparison, name: str, ends: dict[int, float]) -> float:
    """How far every run of the arm reaches, those that broke apart: past it a mean would be of other runs."""
    arm = next(arm for arm in comparison.arms if arm.name == name)
    whole = arm.runs.index[arm.runs["status"] == "finished"]
    return min((end for seed, end in ends.items() if seed in whole), default=max(ends.values()))


def _mark_lost(axes: Axes, comparison: Comparison, name: str, found: Curves, look: Look) -> None:
    arm = next(arm for arm in comparison.arms if arm.name == name)
    for seed in arm.runs.index[arm.runs["status"] == "diverged"]:
        if seed in found:
            x, y = found[seed]
            axes.plot(x[-1], 100 * y[-1], "X", color=look.colour, markersize=9, markeredgecolor="black")


def training_metrics(comparison: Comparison, records: Records) -> Drawn | None:
    """KL, entropy, length, clip fraction and zero-variance groups, step by step."""
    present = {name: label for name, label in TRAINING.items() if name in records.steps}
    if not present:
        return None
    canvas, panels = blank_canvas(2, 3, 6)
    for axes, (name, label) in zip(panels, present.items(), strict=False):
        for arm, look in zip(comparison.arms, looks(comparison).values(), strict=True):
            table = _by_step(comparison, arm, records.steps, name)
            if len(table):
                draw_band(
                    axes, table.columns.to_numpy(float), table.to_numpy(float), look, f"{arm.name} (n={len(table)})"
                )
        axes.set(xlabel="step", title=label)
        counted_axis(axes, whole=True)
    for axes in panels[len(present) :]:
        axes.set_axis_off()
    legend(canvas, panels[0])
    caption = f"Training metrics by step, mean and 95% t interval over seeds ({runs_an_arm(comparison)})."
    return "Training metrics", caption, canvas


def _by_step(comparison: Comparison, arm: Arm, steps: Frame, name: str) -> Frame:
    """(runs, steps) of one metric, without the runs that do not have it, as far as every finished run went."""
    paths = comparison.paths(arm)
    part = steps.loc[steps["path"].isin(paths), ["path", "step", name]].dropna()
    if part.empty:
        return part
    part = part.assign(seed=part["path"].astype(str).map(paths))
    ends = part.groupby("seed")["step"].max()
    end = _common_end(comparison, arm.name, {int(seed): float(end) for seed, end in ends.items()})
    return part[part["step"] <= end].pivot_table(index="seed", columns="step", values=name)


def critic(comparison: Comparison, records: Records) -> Drawn | None:
    """Explained variance by step, and the error by position in the completion."""
    steps = records.steps
    if "critic/explained_variance" not in steps:
        return None
    positions = sorted(
        (c for c in steps if c.startswith("critic/error_at/")), key=lambda c: float(c.rpartition("/")[2])
    )
    canvas, panels = blank_canvas(1, 2 if positions else 1, 3.6)
    drawn = False
    for arm, look in zip(comparison.arms, looks(comparison).values(), strict=True):
        table = _by_step(comparison, arm, steps, "critic/explained_variance")
        if not len(table):
            continue
        drawn = True
        draw_band(panels[0], table.columns.to_numpy(float), table.to_numpy(float), look, f"{arm.name} (n={len(table)})")
        if positions:
            part = steps[steps["path"].isin(comparison.paths(arm))]
            late = part[part["step"] > part["step"].max() / 2].groupby("path", observed=True)[positions].mean()
            draw_band(
                panels[1], np.array([float(c.rpartition("/")[2]) for c in positions]), late.to_numpy(float), look, ""
            )
    panels[0].set(xlabel="step", ylabel="explained variance of returns")
    counted_axis(panels[0], whole=True)
    if positions:
        panels[1].set(xlabel="position in the completion, share of its length", ylabel="mean |value - return|")
    legend(canvas, panels[0])
    caption = (
        "How well the critic predicts the return before each update, and by position over the second half of the run; "
        f"mean and 95% t interval over seeds ({runs_an_arm(comparison)})."
    )
    return ("The critic", caption, canvas) if drawn else None
