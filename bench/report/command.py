"""From run directories to tables, figures and one page. Reads records only; never imports torch.

records -> run_figures -> comparison -> curves, results, costs, efficiency, health, listing, claims -> tables
                                     -> learning_plots, outcome_plots, cost_plots -> figures
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro

from bench.ground.registration import Registration, registration_of
from bench.ground.runs import find_runs
from bench.report.activity import activity
from bench.report.answer import answer
from bench.report.claims import practical_comparison
from bench.report.comparison import Comparison, comparisons_in
from bench.report.costs import cost, memory
from bench.report.efficiency import efficiency, equal_cost
from bench.report.gallery import draw
from bench.report.hardware import hardware
from bench.report.health import stability, verifier
from bench.report.listing import arms, provenance, runs
from bench.report.page import examples, write_page
from bench.report.records import Records, load
from bench.report.results import results
from bench.report.tables import Table
from bench.report.verdicts import Judged, arm_differences, judge_all


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
    """Write a report and print its verdicts; returns the exit code.

    Raises:
        UserError: no run directory below the paths.
    """
    page = report(config.paths, config.out, title=config.title, reference=config.reference, target=config.target)
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
        UserError: no run directory below `paths`.
    """
    folders = find_runs(paths)
    records, registration = load(folders, out / "cache"), registration_of(folders)
    found = comparisons_in(records, arms)
    judged = judge_all(found, records, reference, registration)
    tables = [*_tables(found, records, judged, registration, reference, target), *extra]
    figures = draw(found, records, judged)
    for name in ("tables", "figures"):
        (out / name).mkdir(parents=True, exist_ok=True)
        for old in (out / name).iterdir():
            old.unlink()
    for table in tables:
        table.write(out / "tables")
    for figure in figures:
        figure.write(out / "figures")
    pictures = [f"![{figure.title}](figures/{figure.name}.png)\n\n{figure.caption}\n" for figure in figures]
    first = answer(found, judged)
    summary = [line for line in (question, *first, *introduction(found, records)) if line]
    verdicts = [table.markdown() for table in tables[:2]]
    lines = [f"{line}\n" for line in first]
    (out / "summary.md").write_text("\n".join([*lines, *verdicts, *(f"{line}\n" for line in left_out_in_words(found))]))
    (out / "report.md").write_text(
        "\n".join([f"# {title}\n", *(f"{line}\n" for line in summary), *(t.markdown() for t in tables), *pictures])
    )
    page = out / "index.html"
    write_page(page, title=title, summary=summary, tables=tables, figures=figures, examples=examples(found, records))
    return page


def _tables(
    found: Sequence[Comparison],
    records: Records,
    judged: Sequence[Judged],
    registration: Registration,
    reference: str | None,
    target: float | None,
) -> list[Table]:
    """In reading order: the verdicts, what they rest on, what they cost, where they come from."""
    margin = registration.margin
    tables = (
        results(found),
        arm_differences(judged, registration),
        practical_comparison(found, records, margin),
        activity(found),
        arms(found),
        efficiency(found, records, target),
        equal_cost(found, records, reference, target, margin),
        cost(found),
        memory(found),
        hardware(found),
        stability(found),
        verifier(found),
        provenance(found),
        runs(found),
    )
    return [table for table in tables if table is not None and table.rows]


def introduction(found: Sequence[Comparison], records: Records) -> list[str]:
    """What the page is made of, and what it cannot say."""
    finished = int((records.runs["status"] == "finished").sum())
    lines = [
        f"{len(records.runs)} runs, {finished} of them finished, in {len(found)} setting(s): "
        + "; ".join(f"{comparison.label} ({', '.join(arm.name for arm in comparison.arms)})" for comparison in found)
        + ". Only runs of one setting (same data, model, budget and evaluation) are compared."
    ]
    if any(model.startswith("embedded") for model in records.runs["model"]):
        lines.append(
            "The embedded model has under half a million parameters and was given planted errors at its cold start; "
            "most of what training gains is undoing them. What it shows need not hold for a large model."
        )
    return [*lines, *left_out_in_words(found)]


def left_out_in_words(found: Sequence[Comparison]) -> list[str]:
    """A line that says how many runs count nowhere, and why; none where all of them count."""
    rows = [row for comparison in found for _, row in comparison.left_out.iterrows()]
    if not rows:
        return []
    named = "; ".join(f"{Path(row['path']).name}: {row['why']}" for row in rows)
    return [f"{len(rows)} run(s) left out of every table but the list of runs. {named}."]
