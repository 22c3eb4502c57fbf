"""Plans on the console and as files."""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from pathlib import Path

import pandas as pd
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from bench.ground.words import GIB
from bench.planner import tables
from bench.planner.config import PlanConfig
from bench.planner.job import BYTES, Job
from bench.planner.memory import weights_only
from bench.planner.methods import budget_samples
from bench.planner.run_command import to_run
from bench.planner.search import Plan, cheapest_plan, describe_setting, plan_of_job, remedies

WIDE = 160  # columns of a table that goes to a file or a pipe


def show_weights(planned: Sequence[Job], quiet: bool) -> int:
    """GB (10^9 bytes) of the weights of every model held; each algorithm once, since devices do not matter."""
    console = Console(quiet=quiet)
    for job in {job.method.name: job for job in planned}.values():
        roles = weights_only(job)
        nominal = re.fullmatch(r"([\d.]+)b", job.model.lower())
        each = float(nominal[1]) * BYTES[job.setting.dtype] if nominal else 0.0
        first = f"{len(roles)} x {each:g} GB = {len(roles) * each:g} GB by the name; " if nominal else ""
        exact = f"{len(roles)} x {job.shape.params / 1e9:.2f}B parameters = {sum(roles.values()) / 1e9:.1f} GB"
        console.print(
            f"{job.method.name}, {job.model} in {job.setting.dtype}, weights only: {first}{exact}", soft_wrap=True
        )
        console.print(f"  held: {', '.join(roles)}")
    return 0


def show_plans(planned: Sequence[Job], config: PlanConfig, pinned: frozenset[str]) -> int:
    """Search, print and write; 0 when something fits."""
    console = Console(quiet=config.quiet, width=None if sys.stdout.isatty() else WIDE)
    shape = planned[0].shape
    active = f" ({shape.active_params / 1e9:.1f}B active)" if shape.num_experts else ""
    console.print(
        f"{config.model}: {shape.params / 1e9:.2f}B parameters{active}; {config.samples_per_step} samples a step of "
        f"{config.max_prompt_tokens} + {config.sampling.max_new_tokens} tokens; {config.reward} reward"
    )
    best = [cheapest_plan(job, pinned) for job in planned]
    sections = [plan_section(job, plan, config, pinned) for job, plan in zip(planned, best, strict=True)]
    comparison = show_comparison(planned, best, config)
    if len(planned) > 1:
        print_table(console, comparison.drop(columns="setting", errors="ignore"))
        for job, plan, text in zip(planned, best, sections, strict=True):
            summary = f"cheapest: {describe_setting(plan.job.setting)}" if plan else fit_verdict(text)
            console.print(escape(f"{job.method.name} on {job.preset.name}: {summary}"), soft_wrap=True)
    else:
        console.print(escape(sections[0]), soft_wrap=True)
    folder = write_plan(config, planned, best, sections, comparison)
    print(f"wrote {folder}")
    return 0 if any(best) else 1


def show_comparison(planned: Sequence[Job], best: Sequence[Plan | None], config: PlanConfig) -> pd.DataFrame:
    """The comparison table, each row at its own budget."""
    rows: list[dict[str, object]] = []
    for job, plan in zip(planned, best, strict=True):
        samples = budget_samples(config.budget, job, plan.samples_per_s if plan else None)
        rows.append(tables.comparison_row(job, plan, samples or 0.0, config.price))
    return tables.comparison_table(rows)


def fit_verdict(section: str) -> str:
    """The lines before the first table."""
    return section.split("\n\n")[0]


def plan_section(job: Job, best: Plan | None, config: PlanConfig, pinned: frozenset[str]) -> str:
    """One algorithm on one configuration, in Markdown."""
    as_set = plan_of_job(job)
    answer = "fits" if as_set.fits else "does not fit"
    lines = [
        f"as set ({describe_setting(job.setting)}): {answer}, {as_set.memory.peak_bytes / GIB:.1f} of "
        f"{job.preset.device.memory_gib:g} GiB in {as_set.memory.worst[1]}"
    ]
    shown = best or as_set
    if best:
        lines.append(f"cheapest that fits: {describe_setting(best.job.setting)}")
        lines += ["", *to_run(best, config, pinned)]
    else:
        options = remedies(job, pinned)
        lines.append("nothing fits. What would:" if options else "nothing fits, and no change tried would make it")
        lines += [f"- {option}" for option in options]
    held = tables.memory_table(shown.memory, job.preset.device.memory_gib)
    lines += ["", "GiB on a device", "", tables.markdown_table(held, index=True)]
    lines += ["", tables.markdown_table(tables.terms_table(shown.job)), "", tables.symbols_of_formulas(shown.job)]
    if best and best.seconds:
        lines += ["", tables.markdown_table(tables.time_table(best)), "", spending_of_plan(best, config)]
    elif best:
        lines += ["", "no time is predicted: the device's rates are not known"]
    return "\n".join(lines)


def spending_of_plan(plan: Plan, config: PlanConfig) -> str:
    """What the budget buys."""
    samples = budget_samples(config.budget, plan.job, plan.samples_per_s)
    if samples is None or plan.samples_per_s is None:
        return ""
    hours = plan.gpu_hours(samples) or 0.0
    text = (
        f"{tables.number_text(plan.generated_tokens_per_s)} generated tokens/s, "
        f"{tables.number_text(plan.samples_per_s)} samples/s; "
        f"{config.budget} is {samples:,.0f} samples in {samples / plan.job.workload.samples_per_step:,.0f} steps, "
        f"{tables.number_text(hours)} device-hours"
    )
    return text + (f", cost {tables.number_text(hours * config.price)}" if config.price is not None else "")


def write_plan(
    config: PlanConfig,
    planned: Sequence[Job],
    best: Sequence[Plan | None],
    sections: Sequence[str],
    comparison: pd.DataFrame,
) -> Path:
    """plan.md, comparison.{md,csv,html} and, on request, the plots, in one folder that is named after the question."""
    folder = config.out / "-".join(["plan", config.model.replace("/", "_"), *config.algos])
    folder.mkdir(parents=True, exist_ok=True)
    titles = [f"{job.method.name} on {job.preset.name}" for job in planned]
    text = "\n\n".join(f"## {title}\n\n{body}" for title, body in zip(titles, sections, strict=True))
    (folder / "plan.md").write_text(
        f"# Plan for {config.model}\n\n{tables.markdown_table(comparison)}\n\n{text}\n", encoding="utf-8"
    )
    (folder / "comparison.md").write_text(tables.markdown_table(comparison) + "\n", encoding="utf-8")
    comparison.to_csv(folder / "comparison.csv", index=False)
    comparison.map(tables.number_text).to_html(folder / "comparison.html", index=False)
    if config.plots:
        from bench.planner.plots import draw_plan_figures

        draw_plan_figures(planned, best, folder)
    return folder


def print_table(console: Console, table: pd.DataFrame) -> None:
    """With rich, to the width of the console."""
    grid = Table(box=None, padding=(0, 2, 0, 0))
    for column in table.columns:
        grid.add_column(str(column), overflow="fold")
    for row in table.itertuples(index=False):
        grid.add_row(*(escape(tables.number_text(value)) for value in row))
    console.print(grid)
