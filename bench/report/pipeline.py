"""The R1 pipeline in tables and figures, from the records of its stages."""

from pathlib import Path


def write_report(out: Path) -> Path:
    page = out / "report.md"
    page.write_text("todo\n")
    return page
