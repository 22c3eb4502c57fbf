"""One HTML page with everything: it loads nothing, so it can be sent, archived and read offline or on a phone."""

import base64
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import jinja2

from bench.report.comparison import Comparison
from bench.report.figures import Figure
from bench.report.records import Records
from bench.report.tables import Table

FOLDER = Path(__file__).parent
SHOWN = 4  # completions an arm


def write_page(
    path: Path,
    *,
    title: str,
    summary: Sequence[str],
    tables: Sequence[Table],
    figures: Sequence[Figure],
    examples: Sequence[dict[str, Any]],
) -> None:
    """Fill the template, which escapes everything; the pictures are those already written beside the page."""
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(FOLDER), autoescape=True, undefined=jinja2.StrictUndefined
    )
    html = environment.get_template("page.html.j2").render(
        title=title,
        summary=summary,
        tables=[
            {"table": table, "columns": list(table.shown), "rows": table.shown.to_numpy().tolist()} for table in tables
        ],
        figures=[
            {"figure": figure, "data": _base64(path.parent / "figures" / f"{figure.name}.png")} for figure in figures
        ],
        examples=examples,
    )
    path.write_text(html, encoding="utf-8")


def _base64(picture: Path) -> str:
    return base64.b64encode(picture.read_bytes()).decode()


def examples(comparisons: Sequence[Comparison], records: Records) -> list[dict[str, Any]]:
    """The last completions of the first run of each arm, to be read."""
    found: list[dict[str, Any]] = []
    if records.completions.empty:
        return found
    by_run = dict(list(records.completions.groupby("path", observed=True)))
    for comparison in comparisons:
        for arm in comparison.arms:
            path = next((path for path in comparison.paths(arm) if path in by_run), None)
            if path is not None:
                rows = by_run[path].dropna(axis=1, how="all").tail(SHOWN).to_dict("records")
                found += [{"setting": comparison.label, "arm": arm.name, "row": _readable(row)} for row in rows]
    return found


def _readable(row: dict[str, Any]) -> dict[str, str]:
    """Strings as they are; the rest was kept as JSON."""
    return {
        key: str(value) for key, value in row.items() if key != "path" and value == value and value != json.dumps(None)
    }
