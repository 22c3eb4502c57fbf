"""From run directories to tables, figures and one page. Reads records only; never imports torch.

records -> groups -> results, costs, efficiency, health, listing, claims -> tables
                  -> learning_plots, outcome_plots, cost_plots -> figures
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro

from bench.report.claims import practical_comparison
from bench.report.costs import cost, memory
from bench.report.efficiency import efficiency, equal_cost
from bench.report.gallery import draw
from bench.report.groups import Setting, settings
from bench.report.hardware import hardware
from bench.report.health import stability, verifier
from bench.report.listing import arms, provenance, runs, unread
from bench.report.page import examples, write
from bench.report.records import Records, find_runs, load
from bench.report.results import comparisons, results
from bench.report.tables import Table, plain_text


@dataclass(frozen=True, kw_only=True)
class ReportConfig:
    """Tables, figures and a page from recorded runs."""

    paths: Annotated[tuple[Path, ...], tyro.conf.Positional] = (Path("results/runs"),)
    """Run directories, or folders that hold some at any depth."""
    out: Path = Path("results/report")
    """Folder for the report, and its cache."""
    title: str = "PPO against GRPO"
    """Heading of the page."""
    reference: str | None = None
    """Arm against which the others are compared. None: every two arms."""
    target: float | None = None
    """Accuracy for cost-to-target. None: 90% of the way from the start to the lowest arm's end."""
    quiet: bool = False
    """Print the page's path only."""


def report_command(config: ReportConfig) -> int:
    """Write a report and print its verdicts; returns the exit code."""
    try:
        page = report(config.paths, config.out, title=config.title, reference=config.reference, target=config.target)
    except FileNotFoundError as error:
        print(f"error: {error}")
        return 2
    if not config.quiet:
        print((config.out / "summary.md").read_text())
    print(page)
    return 0


def report(
    paths: Sequence[Path],
    out: Path,
    *,
    title: str = "PPO against GRPO",
    question: str = "",
    reference: str | None = None,
    target: float | None = None,
    arms: Sequence[str] = (),
    extra: Sequence[Table] = (),
) -> Path:
    """Write `tables/`, `figures/`, `summary.md`, `report.md` and `index.html` below `out`; returns the page's path.

    `arms` is the order in which arms are shown; without it, the order in which they were first run.

    Raises:
        FileNotFoundError: no run directory below `paths`.
    """
    records = load(find_runs(paths), out / "cache")
    found = settings(records, arms)
    tables = [*_tables(found, records, reference, target), *extra]
    figures = draw(found, records, reference)
    for name in ("tables", "figures"):
        (out / name).mkdir(parents=True, exist_ok=True)
        for old in (out / name).iterdir():
            old.unlink()
    for table in tables:
        table.write(out / "tables")
    for figure in figures:
        figure.write(out / "figures")
    pictures = [f"![{figure.title}](figures/{figure.name}.png)\n\n{figure.caption}\n" for figure in figures]
    said = [line for line in (question, *introduction(found, records)) if line]
    (out / "summary.md").write_text("\n".join(table.markdown() for table in tables[:2]))
    opening = [f"# {plain_text(title)}\n", *(f"{plain_text(line)}\n" for line in said)]
    (out / "report.md").write_text("\n".join([*opening, *(table.markdown() for table in tables), *pictures]))
    page = out / "index.html"
    write(page, title=title, summary=said, tables=tables, figures=figures, examples=examples(found, records))
    return page


def _tables(found: Sequence[Setting], records: Records, reference: str | None, target: float | None) -> list[Table]:
    """In reading order: the verdicts, what they rest on, what they cost, where they come from."""
    tables = (
        results(found),
        comparisons(found, records, reference),
        practical_comparison(found, records),
        arms(found),
        efficiency(found, records, target),
        equal_cost(found, records, reference, target),
        cost(found),
        memory(found),
        hardware(found),
        stability(found),
        verifier(found),
        provenance(found),
        runs(found),
        unread(records),
    )
    return [table for table in tables if table is not None and table.rows]


def introduction(found: Sequence[Setting], records: Records) -> list[str]:
    """What the page is made of, and what it cannot say."""
    finished = int((records.runs["status"] == "finished").sum())
    lines = [
        f"{len(records.runs)} runs, {finished} of them finished, in {len(found)} setting(s): "
        + "; ".join(f"{setting.label} ({', '.join(arm.name for arm in setting.arms)})" for setting in found)
        + ". Only runs of one setting (same data, model, budget and evaluation) are compared."
    ]
    if len(records.unread):
        lines.append(f"{len(records.unread)} folder(s) could not be read and are left out; the last table says why.")
    if any(model.startswith("embedded") for model in records.runs["model"]):
        lines.append(
            "The embedded model has under half a million parameters and was given planted errors at its cold start; "
            "most of what training gains is undoing them. What it shows need not hold for a large model."
        )
    return lines
