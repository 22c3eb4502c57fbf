"""Figures of the R1 pipeline: its stages, and the learned reward against the gold one."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from bench.report.figures import Figure, band, blank_canvas, legend
from bench.report.pipeline_records import Arm

PANELS = {
    "accuracy": ("accuracy", "accuracy, %", 100),
    "language": ("language", "words in English, %", 100),
    "harmful refused": ("general/refused_harmful", "harmful requests refused, %", 100),
    "gold": ("general/gold_helpful", "gold reward of helpful answers", 1),
}


def stages_figure(arm: Arm) -> Figure | None:
    """Four figures by stage, each seed as a point, with mean and interval."""
    canvas, panels = blank_canvas(2, 2, 6.5)
    for axes, (name, label, scale) in zip(panels, PANELS.values(), strict=True):
        for x, stage in enumerate(arm.labels):
            values = scale * np.array(arm.values(stage, name))
            if not len(values):
                continue
            mean, low, high = band(values[:, None])
            error = None if np.isnan(low[0]) else [[mean[0] - low[0]], [high[0] - mean[0]]]
            axes.errorbar([x], [mean[0]], yerr=error, fmt="s", color="C0", capsize=4)
            axes.plot([x] * len(values), values, ".", color="0.5")
        axes.set_xticks(range(len(arm.labels)), arm.labels, rotation=25, ha="right")
        axes.set_ylabel(label)
    caption = (
        f"Each checkpoint of the pipeline (n = {len(arm.seeds)} seeds as points; mean, and 95% t interval from three "
        "seeds on)."
    )
    canvas.suptitle("The pipeline by stage", x=0.01, ha="left", fontsize="medium")
    return Figure(name="stages", title="The pipeline by stage", caption=caption, canvas=canvas)


def overoptimization(runs: Sequence[Sequence[dict[str, Any]]]) -> Figure | None:
    """The learned reward and the gold one of helpful answers, by step and by KL to the reference."""
    names = {"reward/model_by_kind/helpful": "learned reward", "reward/gold_by_kind/helpful": "gold reward"}
    rows = [row for run in runs for row in run if all(name in row for name in names)]
    if not rows:
        return None
    canvas, (by_step, by_length) = blank_canvas(1, 2, 3.6)
    for run in runs:
        known = [row for row in run if all(name in row for name in names)]
        steps = [row["step"] for row in known]
        for axes, x in ((by_step, steps), (by_length, [row["completion/length_mean"] for row in known])):
            for (name, label), colour, dash in zip(names.items(), ("C0", "C1"), ("-", "--"), strict=True):
                values = [row[name] for row in known]
                first = run is runs[0]
                axes.plot(x, values, dash if axes is by_step else ".", color=colour, label=label if first else None)
    by_step.set(xlabel="step with general prompts", ylabel="reward of helpful answers")
    by_length.set(xlabel="completion length, tokens")
    legend(canvas, by_step)
    title = "Learned reward against gold"
    canvas.suptitle(title, x=0.01, ha="left", fontsize="medium")
    caption = (
        f"Mean over a step's helpful completions, {len(runs)} run(s). Where the learned reward rises and the gold one "
        "falls, it is over-optimised."
    )
    return Figure(name="overoptimization", title=title, caption=caption, canvas=canvas)
