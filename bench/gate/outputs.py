"""How findings are told: a table for the terminal, Markdown for a pull request, JUnit XML, JSON."""

import json
import xml.etree.ElementTree as ET
from collections.abc import Sequence
from pathlib import Path

from tabulate import tabulate

from bench.gate.verdict import Finding, overall

WORDS = {"pass": "passed", "worse": "worse", "cannot judge": "cannot judge"}
TIERS = {1: "results", 2: "cost", 3: "accuracy"}
COLUMNS = ("tier", "method", "quantity", "verdict", "measured", "tolerance", "detail")


def rows_of_findings(findings: Sequence[Finding]) -> list[list[str]]:
    """What was not passed first."""
    ordered = sorted(findings, key=lambda f: (f.status == "pass", f.status != "worse"))
    return [
        [f"{f.tier} {TIERS[f.tier]}", f.subject, f.quantity, WORDS[f.status], f.measured, f.tolerance, f.detail]
        for f in ordered
    ]


def findings_on_terminal(findings: Sequence[Finding]) -> str:
    """A table, its details below it."""
    shown = rows_of_findings(findings)
    lines = [f"{row[1]}, {row[2]}: {row[6]}" for row in shown if row[6] and row[3] != WORDS["pass"]]
    return "\n".join([tabulate([row[:6] for row in shown], headers=COLUMNS[:6], disable_numparse=True), *lines])


def headline_of_findings(findings: Sequence[Finding]) -> str:
    """`worse: 2 of 31 findings`."""
    verdict = overall(findings)
    same = sum(f.status == verdict for f in findings)
    return f"{WORDS[verdict]}: {same} of {len(findings)} findings"


def findings_in_markdown(findings: Sequence[Finding], facts: Sequence[str]) -> str:
    """Verdict, what is not passed in a table, the rest folded away."""
    shown = rows_of_findings(findings)
    bad = [row for row in shown if row[3] != WORDS["pass"]]
    good = [row for row in shown if row[3] == WORDS["pass"]]
    parts = [f"## Regression gate: {headline_of_findings(findings)}", "\n".join(f"- {fact}" for fact in facts)]
    if bad:
        parts.append(table_of_findings(bad))
    if good:
        parts.append(f"<details><summary>{len(good)} passed</summary>\n\n{table_of_findings(good)}\n\n</details>")
    return "\n\n".join(parts) + "\n"


def table_of_findings(shown: Sequence[Sequence[str]]) -> str:
    """As GitHub renders it: a pipe inside a cell would end it."""
    cells = [[cell.replace("|", "\\|").replace("\n", " ") for cell in row] for row in shown]
    return tabulate(cells, headers=COLUMNS, tablefmt="github", disable_numparse=True)


def junit(findings: Sequence[Finding]) -> bytes:
    """A suite a tier, a case a finding. What cannot be judged is skipped: neither green nor red."""
    root = ET.Element("testsuites", name="bench check")
    for tier in sorted({f.tier for f in findings}):
        mine = [f for f in findings if f.tier == tier]
        counts = {"failures": "worse", "skipped": "cannot judge"}
        attributes = {"name": f"tier {tier}: {TIERS[tier]}", "tests": str(len(mine))}
        attributes |= {key: str(sum(f.status == status for f in mine)) for key, status in counts.items()}
        suite = ET.SubElement(root, "testsuite", attributes)
        for f in mine:
            case = ET.SubElement(suite, "testcase", classname=f"tier{tier}.{f.subject}", name=f.quantity)
            message = " ".join(filter(None, (f.measured, f"(tolerance {f.tolerance})" * bool(f.tolerance))))
            if f.status != "pass":
                tag = "failure" if f.status == "worse" else "skipped"
                ET.SubElement(case, tag, message=message).text = f.detail
    ET.indent(root)
    return ET.tostring(root, encoding="utf-8", xml_declaration=True)


def as_json(findings: Sequence[Finding], facts: Sequence[str]) -> str:
    """All of it for programs."""
    found = [vars(finding) for finding in findings]
    return json.dumps({"verdict": overall(findings), "facts": list(facts), "findings": found}, indent=1)


def write_findings(findings: Sequence[Finding], facts: Sequence[str], folder: Path, summary: str | None) -> None:
    """`check.md`, `junit.xml` and `check.json`; the Markdown is also added to the job's summary where there is one."""
    folder.mkdir(parents=True, exist_ok=True)
    text = findings_in_markdown(findings, facts)
    (folder / "check.md").write_text(text, encoding="utf-8")
    (folder / "junit.xml").write_bytes(junit(findings))
    (folder / "check.json").write_text(as_json(findings, facts) + "\n", encoding="utf-8")
    if summary:
        with Path(summary).open("a", encoding="utf-8") as file:
            file.write(text)
