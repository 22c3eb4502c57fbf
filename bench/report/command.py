"""From run directories to tables, figures and one page. Reads records only; never imports torch.

records -> run_figures -> comparison -> curves, results, costs, efficiency, health, listing, claims -> tables
                                     -> learning_plots, outcome_plots, cost_plots -> figures
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from bench.ground.registration import Registration, registration_of
from bench.ground.runs import find_runs
from bench.report.activity import activity
from bench.report.answer import answer
from bench.report.behaviours import behaviours, behaviours_in_words
from bench.report.claims import practical_comparison
from bench.report.comparison import Comparison, comparisons_in
from bench.report.config import ReportConfig
from bench.report.costs import cost_table, memory_table
from bench.report.efficiency import efficiency, equal_cost
from bench.report.figures import Figure
from bench.report.gallery import draw
from bench.report.hardware import hardware_table
from bench.report.health import stability_table, verifier_table
from bench.report.listing import arms, provenance, runs
from bench.report.page import examples, write_page
from bench.report.records import Records, load
from bench.report.results import results
from bench.report.tables import Table
from bench.report.verdicts import Judged, arm_differences, judge_all


def report_command(config: ReportConfig) -> int:
    """Write a report and print its verdicts; returns the exit code.

    Raises:
        UserError: no run directory below the paths.
    """
    wanted = Wanted(title=config.title, reference=config.reference, target=config.target)
    page = report(config.paths, config.out, wanted)
    if not config.quiet:
        print((config.out / "summary.md").read_text(encoding="utf-8"))
    print(page)
    return 0


@dataclass(frozen=True, kw_only=True)
class Wanted:
    """What a report is to say besides what the records do."""

    title: str = "PPO against GRPO"
    question: str = ""
    reference: str | None = None  # the arm that the others are compared with
    target: float | None = None  # accuracy for cost-to-target
    arms: Sequence[str] = ()  # the order in which arms are shown; without it, that in which they were first run
    extra: Sequence[Table] = ()  # tables that only a study has


def report(paths: Sequence[Path], out: Path, wanted: Wanted | None = None) -> Path:
    """Write `tables/`, `figures/`, `summary.md`, `report.md` and `index.html` below `out`; returns the page's path.

    Raises:
        UserError: no run directory below `paths`.
    """
    wanted, folders = wanted or Wanted(), find_runs(paths)
    records, registration = load(folders, out / "cache"), registration_of(folders)
    found = comparisons_in(records, wanted.arms)
    judged = judge_all(found, records, wanted.reference, registration)
    tables = [*_tables(found, records, judged, registration, wanted), *wanted.extra]
    figures = draw(found, records, judged)
    for name in ("tables", "figures"):
        (out / name).mkdir(parents=True, exist_ok=True)
        for old in (out / name).iterdir():
            old.unlink()
    for table in tables:
        table.write(out / "tables")
    for figure in figures:
        figure.write(out / "figures")
    first = answer(found, judged)
    summary = [line for line in (wanted.question, *first, *introduction(found, records)) if line]
    _write_texts(out, wanted.title, [first, summary, left_out_in_words(found)], tables, figures)
    page, shown = out / "index.html", examples(found, records)
    write_page(page, title=wanted.title, summary=summary, tables=tables, figures=figures, examples=shown)
    return page


def _write_texts(
    out: Path, title: str, lines: Sequence[Sequence[str]], tables: Sequence[Table], figures: Sequence[Figure]
) -> None:
    """`summary.md`: the answer, the first two tables, what was left out; `report.md`: everything."""
    first, summary, left_out = ([f"{line}\n" for line in part] for part in lines)
    pictures = [f"![{figure.title}](figures/{figure.name}.png)\n\n{figure.caption}\n" for figure in figures]
    verdicts = [table.markdown() for table in tables[:2]]
    (out / "summary.md").write_text("\n".join([*first, *verdicts, *left_out]), encoding="utf-8")
    whole = [f"# {title}\n", *summary, *(t.markdown() for t in tables), *pictures]
    (out / "report.md").write_text("\n".join(whole), encoding="utf-8")


def _tables(
    found: Sequence[Comparison],
    records: Records,
    judged: Sequence[Judged],
    registration: Registration,
    wanted: Wanted,
) -> list[Table]:
    """In reading order: the verdicts, what they rest on, what they cost, where they come from."""
    margin = registration.margin
    tables = (
        results(found),
        arm_differences(judged, registration),
        practical_comparison(found, records, margin),
        activity(found),
        arms(found),
        efficiency(found, records, wanted.target),
        equal_cost(found, records, wanted.reference, wanted.target, margin),
        cost_table(found),
        memory_table(found),
        hardware_table(found),
        stability_table(found),
        verifier_table(found),
        behaviours(found),
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
    lines += [f"{Path(path).name} is no run that can be read: {why}" for path, why in records.unread.items()]
    return [*lines, *behaviours_in_words(found), *left_out_in_words(found)]


def left_out_in_words(found: Sequence[Comparison]) -> list[str]:
    """A line that says how many runs count nowhere, and why; none where all of them count."""
    rows = [row for comparison in found for _, row in comparison.left_out.iterrows()]
    if not rows:
        return []
    named = "; ".join(f"{Path(row['path']).name}: {row['why']}" for row in rows)
    return [f"{len(rows)} run(s) left out of every table but the list of runs. {named}."]
