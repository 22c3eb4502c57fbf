"""The written report: its files, and the page in a real browser, offline and as narrow as a phone."""

import re
import shutil
import subprocess
from pathlib import Path

import pandas as pd
import pytest

from bench.ground.errors import UserError
from bench.report.command import Wanted, report, report_command
from bench.report.config import ReportConfig
from tests.bench.factory import make_run

BROWSER = next(
    (path for name in ("chromium", "chromium-browser", "google-chrome") if (path := shutil.which(name))), None
)
EVIL = "</pre><script>document.title = 'owned'</script><img src=x onerror=\"document.title='owned'\">"
PROBE = """<script>
const table = document.querySelector("#results ~ * table");
const column = [...table.tHead.rows[0].cells].findIndex((cell) => cell.textContent === "after");
const order = () => [...table.tBodies[0].rows].map((row) => parseFloat(row.cells[column].textContent));
table.tHead.rows[0].cells[column].firstChild.click();
const up = order().join(" ");
table.tHead.rows[0].cells[column].firstChild.click();
const down = order().join(" ");
const fits = document.documentElement.scrollWidth <= document.documentElement.clientWidth;
const loaded = [...document.images].filter((image) => image.naturalWidth > 0).length + "/" + document.images.length;
document.body.innerHTML = `<p id=probe>${[up, down, fits, loaded, document.title].join("|")}</p>`;
</script>"""


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("study")
    for seed in range(3):
        make_run(root / "runs", "ppo", seed, gain=0.2, completion=EVIL)
        make_run(root / "runs", "grpo", seed, gain=0.3, status="diverged" if seed == 2 else "finished")
        make_run(root / "runs", "dapo_50%", seed, algo="dapo", gain=0.4)
    return report([root / "runs"], root / "out", Wanted(title="A study"))


def test_every_table_and_figure_is_written_in_every_form(page: Path) -> None:
    tables = {path.stem for path in (page.parent / "tables").iterdir()}
    assert {"results", "comparisons", "claims", "cost", "memory", "efficiency", "stability", "verifier"} <= tables
    for stem in tables:
        assert {path.suffix for path in (page.parent / "tables").glob(f"{stem}.*")} == {".csv", ".md", ".tex", ".html"}
    figures = [path for path in (page.parent / "figures").iterdir() if path.suffix == ".png"]
    assert len(figures) >= 7
    assert all(path.read_bytes().startswith(b"\x89PNG") and path.with_suffix(".svg").exists() for path in figures)


def test_csv_holds_numbers(page: Path) -> None:
    results = pd.read_csv(page.parent / "tables" / "results.csv").set_index("arm")
    assert results["after"].between(0.3, 0.9).all()
    assert (results["after low"] < results["after"]).all()
    assert results.loc["grpo", "runs"] == 3


def test_latex_is_escaped(page: Path) -> None:
    tex = (page.parent / "tables" / "results.tex").read_text()
    assert r"dapo\_50\%" in tex
    assert not re.search(r"(?<!\\)[%&_](?![^\n]*\\\\)(?![a-z]*\})", tex.split(r"\label")[0].split(r"\caption")[1])


def test_the_page_loads_nothing(page: Path) -> None:
    html = page.read_text()
    targets = re.findall(r"<[a-z]+[^>]*\s(?:src|href)=[\"']?([^\"' >]*)", html)
    assert targets
    assert all(target.startswith(("data:", "#")) for target in targets)
    assert "http://" not in html
    assert "https://" not in html


def test_completions_are_escaped(page: Path) -> None:
    html = page.read_text()
    assert "&lt;script&gt;document.title" in html
    assert html.count("<script>") == 1


@pytest.mark.skipif(BROWSER is None, reason="no Chromium here (apt-get install chromium)")
def test_the_page_sorts_fits_a_phone_and_runs_no_completion(page: Path, tmp_path: Path) -> None:
    assert BROWSER is not None
    probe = tmp_path / "probe.html"
    probe.write_text(page.read_text().replace("</body>", PROBE + "</body>"))
    frame = tmp_path / "phone.html"  # headless windows are never as narrow as a phone; a frame is
    frame.write_text(f'<iframe id=f width=390 height=800 src="{probe.name}"></iframe>')
    command = [BROWSER, "--headless", "--no-sandbox", "--disable-gpu", "--allow-file-access-from-files"]
    command += ["--host-resolver-rules=MAP * ~NOTFOUND", f"--user-data-dir={tmp_path / 'profile'}", "--dump-dom"]
    found_probe = "document.getElementById('f').contentDocument.getElementById('probe')"
    frame.write_text(frame.read_text() + f"<script>onload=()=>document.body.append({found_probe})</script>")
    found = subprocess.run([*command, frame.as_uri()], capture_output=True, text=True, timeout=120, check=True)
    match = re.search(r'<p id="probe">(.*?)</p>', found.stdout)
    assert match is not None, found.stdout[-2000:] + found.stderr[-2000:]
    up, down, fits, loaded, title = match.group(1).split("|")
    values = [float(value) for value in up.split()]
    assert len(values) == 3
    assert values == sorted(values)
    assert [float(value) for value in down.split()] == values[::-1]
    assert fits == "true"
    shown, all_of_them = loaded.split("/")
    assert shown == all_of_them
    assert int(shown) >= 7
    assert title == "A study"


def test_the_command_prints_verdicts_and_the_path(page: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = page.parent
    assert report_command(ReportConfig(paths=(out.parent / "runs",), out=out, title="A study")) == 0
    printed = capsys.readouterr().out
    assert "is highest" in printed
    assert "undecided" in printed or "is better than" in printed or "are equivalent" in printed
    assert printed.strip().endswith("index.html")
    with pytest.raises(UserError, match="no run directory"):
        report_command(ReportConfig(paths=(out / "tables",), out=out))
