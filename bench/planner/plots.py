"""Pictures of a plan: memory by role, what fits over model size and devices, cost against the group size."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import matplotlib as mpl
import pandas as pd

mpl.use("agg")

import matplotlib.pyplot as plt
import seaborn as sns
from matplotlib.artist import Artist
from matplotlib.colors import ListedColormap
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from bench.ground.words import GIB
from bench.machine.presets import NETWORK_GB_PER_S, Preset
from bench.planner.job import Job
from bench.planner.memory import ROLES
from bench.planner.search import Feasible, Plan, cheapest_plan, feasibility, plan_of_job
from bench.planner.sizes import ALIASES, resolve_shape

SIZES = [name for name in ALIASES if name[0].isdigit()]
COUNTS = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512)
GROUPS = (4, 8, 16, 32, 64)
FREE: frozenset[str] = frozenset()
LEVELS: dict[Feasible, str] = {
    "no": "does not fit",
    "LoRA": "with LoRA only",
    "off-load": "with off-load",
    "fits": "all on the devices",
}


def draw_plan_figures(planned: Sequence[Job], best: Sequence[Plan | None], folder: Path) -> None:
    """memory.png, feasible.png and group_size.png in `folder`."""
    sns.set_theme(style="whitegrid", context="paper")
    shown = [plan or plan_of_job(job) for job, plan in zip(planned, best, strict=True)]
    save_figure(memory_figure(shown), folder / "memory.png")
    one_preset = {job.method.name: job for job in planned}
    save_figure(feasible_figure(list(one_preset.values())), folder / "feasible.png")
    save_figure(group_figure(planned), folder / "group_size.png")


def save_figure(figure: Figure, path: Path) -> None:
    figure.savefig(path, dpi=150, bbox_inches="tight")
    plt.close(figure)


def memory_figure(plans: Sequence[Plan]) -> Figure:
    """Each plan's fullest phase by role, stacked, against its device's limit."""
    palette = sns.color_palette("tab20", len(ROLES))
    colours = {role: palette[index] for index, role in enumerate(ROLES)}
    longest = 0.0
    figure, axes = plt.subplots(figsize=(7, 1.2 + 0.45 * len(plans)))
    for row, plan in enumerate(plans):
        roles = plan.memory.phases[plan.memory.worst]
        left = 0.0
        for role in ROLES:
            size = roles.get(role, 0.0) / GIB
            if size:
                axes.barh(row, size, left=left, color=colours[role], height=0.65, linewidth=0)
                left += size
        limit = plan.job.preset.device.memory_gib
        axes.plot([limit, limit], [row - 0.42, row + 0.42], color="black", linewidth=2)
        note = plan.memory.worst[1].replace("_", ", ") + ("" if plan.fits else ": does not fit")
        longest = max(longest, left, limit)
        axes.text(max(left, limit), row, f"  {note}", va="center", fontsize=8)
    shown = {role for plan in plans for role, size in plan.memory.phases[plan.memory.worst].items() if size}
    used = [role for role in ROLES if role in shown]
    handles: list[Artist] = [Patch(color=colours[role]) for role in used]
    handles.append(Line2D([], [], color="black", linewidth=2))
    labels = [role.replace("_", " ") for role in used] + ["device's memory"]
    axes.legend(handles, labels, loc="upper left", bbox_to_anchor=(1.02, 1), frameon=False)
    axes.set_yticks(range(len(plans)), [f"{plan.job.method.name}, {plan.job.preset.name}" for plan in plans])
    axes.invert_yaxis()
    axes.grid(visible=False, axis="y")
    axes.set_xlim(0, 1.45 * longest)
    axes.set_xlabel("GiB on the fullest device, in its fullest phase")
    axes.set_title(f"Memory by role, {plans[0].job.model}", loc="left")
    return figure


def feasible_figure(jobs: Sequence[Job]) -> Figure:
    """For each algorithm, what it takes to fit, over model size and number of devices."""
    figure, axes = plt.subplots(1, len(jobs), figsize=(4.3 * len(jobs), 3.2), sharey=True, squeeze=False)
    colours = ListedColormap(["0.9", *sns.color_palette("crest_r", len(LEVELS) - 1)])
    for job, axis in zip(jobs, axes[0], strict=True):
        table = pd.DataFrame({size: [_level(job, size, count) for count in COUNTS] for size in SIZES}, index=COUNTS).T
        sns.heatmap(table, ax=axis, vmin=0, vmax=len(LEVELS) - 1, cmap=colours, linewidths=1, cbar=False)
        axis.set_title(f"{job.method.name} on {job.preset.device.name}", loc="left", fontsize=9)
        axis.set_xlabel("devices")
        axis.tick_params(axis="y", rotation=0)
    handles = [Patch(facecolor=colours(level), edgecolor="0.6") for level in range(len(LEVELS))]
    axes[0][-1].legend(handles, LEVELS.values(), loc="upper left", bbox_to_anchor=(1.02, 1), frameon=False)
    axes[0][0].set_ylabel("model")
    return figure


def _level(job: Job, size: str, count: int) -> int:
    scaled = replace(job, model=size, shape=resolve_shape(size), preset=_scaled(job.preset, count))
    return list(LEVELS).index(feasibility(scaled))


def _scaled(preset: Preset, count: int) -> Preset:
    per_node = min(8, count)
    network = preset.network_gb_per_s or NETWORK_GB_PER_S
    return replace(preset, nodes=count // per_node, devices_per_node=per_node, network_gb_per_s=network)


def group_figure(planned: Sequence[Job]) -> Figure:
    """Device-hours for 100,000 prompts against completions a prompt, each algorithm and configuration that fits."""
    rows: list[dict[str, object]] = []
    for job in planned:
        prompts = max(1, job.workload.samples_per_step // job.method.group_size)
        for group in GROUPS:
            workload = replace(job.workload, samples_per_step=group * min(prompts, 64))
            plan = cheapest_plan(replace(job, method=replace(job.method, group_size=group), workload=workload), FREE)
            hours = plan.gpu_hours(1e5 * group) if plan else None
            rows.append({"group": group, "hours": hours, "arm": f"{job.method.name}, {job.preset.name}"})
    table = pd.DataFrame(rows).dropna()
    figure, axes = plt.subplots(figsize=(5.6, 3.6))
    if len(table):
        sns.lineplot(table, x="group", y="hours", hue="arm", marker="o", ax=axes)
        axes.set_xscale("log", base=2)
        axes.set_yscale("log")
        axes.set_xticks(GROUPS, [str(group) for group in GROUPS])
        axes.legend(title=None, loc="upper left", bbox_to_anchor=(1.02, 1), frameon=False)
    axes.set_xlabel("completions a prompt")
    axes.set_ylabel("device-hours for 100,000 prompts")
    axes.set_title(f"Cost against the group size, {planned[0].model}", loc="left")
    return figure
