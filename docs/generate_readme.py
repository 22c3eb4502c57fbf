"""Fills README's generated parts: `python -m docs.generate_readme [REPORT [FOLDER]]`. A test keeps it up to date.

The embedded models' table comes from their cold_start.json; figures and tables of results from REPORT, a folder that
`bench report` or `bench compare` wrote, of which results/headline/ keeps what README shows. With FOLDER the report is
kept there instead, and README stays as it is.
"""

import json
import re
import shutil
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
README = ROOT / "README.md"
KEPT = ROOT / "results" / "headline"
SHOWN = ("results", "comparisons")
PICTURE = re.compile(r"^!\[([^]]*)\]\(figures/(learning[^)]*)\)\n\n(.*)$", re.MULTILINE)

PLANTED = """\
**How to read this.** The embedded model's cold start is made imperfect on purpose: it was taught by a careless teacher,
and most of what training gains is the undoing of these planted errors ([why](docs/decisions/4-planted-errors.md)). The
figures compare methods on one footing; they do not say what either adds to a model that was not prepared so, and what
a 0.4M-parameter model shows need not hold at 7B.
"""


def main(arguments: list[str]) -> None:
    """Write both parts, the results from a new report where one is given; or keep a report in a folder of its own."""
    if len(arguments) == 2:
        keep(Path(arguments[0]), Path(arguments[1]))
        return
    if arguments:
        keep(Path(arguments[0]), KEPT)
    README.write_text(filled(README.read_text()))


def keep(report: Path, into: Path) -> None:
    """Copy a report without its page and cache."""
    shutil.rmtree(into, ignore_errors=True)
    (into / "figures").mkdir(parents=True)
    (into / "tables").mkdir()
    shutil.copy(report / "report.md", into)
    for figure in (report / "figures").glob("*.png"):
        shutil.copy(figure, into / "figures")
    for table in [*(report / "tables").glob("*.md"), *(report / "tables").glob("*.csv")]:
        shutil.copy(table, into / "tables")


def filled(readme: str) -> str:
    """README with its generated parts as their sources have them."""
    readme = replaced(readme, "models", models())
    return replaced(readme, "results", results()) if KEPT.is_dir() else readme


def replaced(text: str, name: str, content: str) -> str:
    """The text with another block between its marks."""
    begin, end = f"<!-- {name}:begin -->\n", f"<!-- {name}:end -->"
    head, _, rest = text.partition(begin)
    return head + begin + content + end + rest.partition(end)[2]


def models() -> str:
    """One row for each embedded model."""
    head = "| task | parameters | planted errors | greedy | sampled | well-formed | problems |\n"
    rows = [head, "| --- | --- | --- | --- | --- | --- | --- |\n"]
    for path in sorted((ROOT / "bench" / "assets").glob("*/cold_start.json")):
        facts = json.loads(path.read_text())
        start = facts["start"]
        figure = "reward" if facts["task"] == "chain" else "accuracy"  # of which hardly any is right in all its steps
        shares = (start[key] for key in (f"greedy_{figure}", f"sampled_{figure}", "sampled_format_ok"))
        cells = [f"`{facts['task']}`", f"{facts['num_parameters']:,}", facts["planted_flaws"]]
        rows.append(f"| {' | '.join([*cells, *(f'{share:.1%}' for share in shares), str(start['num_problems'])])} |\n")
    return "".join(rows)


def results() -> str:
    """Learning curves with their captions, the tables, and how to read them."""
    report = (KEPT / "report.md").read_text()
    found = PICTURE.findall(report)
    pictures = [f"![{title}](results/headline/figures/{file})\n\n{caption}\n" for title, file, caption in found]
    tables = [path.read_text() for name in SHOWN if (path := KEPT / "tables" / f"{name}.md").exists()]
    more = "All tables and figures of this study: [results/headline](results/headline/report.md).\n"
    return "\n".join([PLANTED, *pictures, *tables, more])


if __name__ == "__main__":
    main(sys.argv[1:])
