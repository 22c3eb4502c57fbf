"""What the documents say stays true: commands parse, examples run, and no file names the machine it was written on."""

import json
import re
import shlex
import subprocess
from pathlib import Path
from typing import Any

import pytest
import tyro

from bench.cli import main
from bench.config import ASSETS
from bench.settings.plugins import find_algorithm, find_task
from docs.generate_readme import filled, keep
from tasks.core import SPLITS

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
COMMAND = "python -m bench "
FENCE = re.compile(r"^```(\w*)\n(.*?)^```", re.DOTALL | re.MULTILINE)
INLINE = re.compile(rf"`[^`\n]*({COMMAND}[^`]+)`")
EXAMPLE = re.compile(r"# (?:algorithms|tasks)/(\w+)\.py\n")
SMALL = ["--budget", "steps=1", "--samples-per-step", "16", "--eval.limit", "6", "--eval.num-samples", "2", "--quiet"]


class ParsedError(Exception):
    """The flags are good, and the command itself is not wanted here."""


def commands(text: str) -> list[str]:
    """Every command of a page, in fences of the shell and inline."""
    fences = "".join(body for language, body in FENCE.findall(text) if language in ("", "bash"))
    lines = fences.replace("\\\n", " ").splitlines()
    return [line[line.index(COMMAND) :] for line in lines if COMMAND in line] + INLINE.findall(FENCE.sub("", text))


def arguments(command: str) -> list[str]:
    """The words after `python -m bench`, without a comment or a redirection behind them."""
    words = shlex.split(command.removeprefix(COMMAND), comments=True)
    ends = [i for i, word in enumerate(words) if word.startswith((">", "|", "&"))]
    return words[: ends[0]] if ends else words


def examples() -> dict[str, str]:
    """CONTRIBUTING's whole files by module name."""
    blocks = [body for language, body in FENCE.findall((ROOT / "CONTRIBUTING.md").read_text()) if language == "python"]
    return {match[1]: body for body in blocks if (match := EXAMPLE.match(body))}


@pytest.mark.parametrize("command", sorted({c for page in PAGES for c in commands(page.read_text())}))
def test_a_command_in_the_documents_parses(command: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bench.cli.without_hub", lambda: None)  # it waits for a network that parsing does not need
    words = arguments(command)
    if "--resume" in words:
        at = words.index("--resume")
        assert words[0] == "run"
        assert set(words[1:at] + words[at + 2 :]) <= {"--quiet"}
    elif words[0] == "run":
        assert main([*words, "--print-config"]) == 0
    elif words == ["list"]:
        assert main(words) == 0
    else:
        parse = tyro.cli

        def cli(*args: Any, **kwargs: Any) -> None:  # noqa: ANN401 - tyro's own
            parse(*args, **kwargs)
            raise ParsedError

        monkeypatch.setattr(tyro, "cli", cli)
        with pytest.raises(ParsedError):
            main(words)


def test_the_two_commands_of_a_newcomer_are_in_the_readme() -> None:
    readme = (ROOT / "README.md").read_text()
    targets = re.findall(r"^(\w+):", (ROOT / "Makefile").read_text(), re.MULTILINE)
    for target in ("run", "test"):
        assert f"make {target}" in readme
        assert target in targets


def test_the_generated_parts_are_those_of_their_sources() -> None:
    readme = (ROOT / "README.md").read_text()
    assert "| `gsm8k` |" in readme
    assert filled(readme) == readme, "run: python -m docs.generate_readme"


def test_a_report_fills_the_results(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    report = tmp_path / "report"
    for folder, name, text in (
        ("tables", "results.md", "## Results\n\n| arm |\n| --- |\n| ppo |\n"),
        ("tables", "runs.csv", "run\n"),
        ("figures", "learning.png", ""),
    ):
        (report / folder).mkdir(parents=True, exist_ok=True)
        (report / folder / name).write_text(text)
    (report / "report.md").write_text("# T\n\n![Learning curves: x](figures/learning.png)\n\nFrom 3 runs.\n\n")
    kept = tmp_path / "kept"
    monkeypatch.setattr("docs.generate_readme.KEPT", kept)
    keep(report, kept)
    text = filled(
        "a\n<!-- models:begin -->\n<!-- models:end -->\n<!-- results:begin -->\nLAST YEAR\n<!-- results:end -->\nz\n"
    )
    assert "LAST YEAR" not in text
    assert "![Learning curves: x](results/headline/figures/learning.png)\n\nFrom 3 runs." in text
    assert "imperfect on purpose" in text
    assert "| ppo |" in text
    assert text.endswith("<!-- results:end -->\nz\n")
    assert {p.name for p in kept.rglob("*") if p.is_file()} == {"report.md", "results.md", "runs.csv", "learning.png"}


def test_links_lead_somewhere() -> None:
    for page in PAGES:
        for target in re.findall(r"\]\((?!https?:|#)([^)#]+)", FENCE.sub("", page.read_text())):
            assert (page.parent / target).exists(), f"{page.name}: {target}"


def test_the_example_of_an_algorithm_trains(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "sign_grpo.py").write_text(examples()["sign_grpo"])
    monkeypatch.syspath_prepend(tmp_path)
    assert find_algorithm("sign_grpo:SignGRPO")().group_size == 8
    assert main(["run", "--algo", "sign_grpo:SignGRPO", *SMALL, "--out", str(tmp_path / "runs")]) == 0
    (run,) = (tmp_path / "runs").iterdir()
    assert json.loads((run / "steps.jsonl").read_text())["actor/grad_norm"] > 0


def test_the_example_of_a_task_trains_and_is_short(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = examples()["reverse"]
    assert len(text.splitlines()) < 30
    (tmp_path / "reverse.py").write_text(text)
    monkeypatch.syspath_prepend(tmp_path)
    task = find_task("reverse:Reverse")()
    splits = [{problem.reference for problem in task.problems(split)} for split in SPLITS]
    assert all(splits)
    assert not any(a & b for a in splits for b in splits if a is not b)
    problem = task.problems("test")[0]
    assert task.score(problem, f"<think>x</think>\\boxed{{{problem.reference}}}").correct
    assert not task.score(problem, problem.reference).correct
    chosen = ["--task", "reverse:Reverse", "--model", str(ASSETS / "gsm8k")]
    assert main(["run", *chosen, *SMALL, "--out", str(tmp_path / "runs")]) == 0


def test_no_file_names_the_machine_it_was_written_on() -> None:
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=False)
    if listed.returncode:
        pytest.skip("not a checkout: git cannot say which files are tracked")
    # put together here, since this file is tracked, too
    places = re.compile("|".join("/" + place + "/" for place in ("work", "tmp/h", "tmp/venv", "root", "home")).encode())
    paths = [ROOT / name for name in filter(None, listed.stdout.split("\0"))]
    found = {str(path): match[0] for path in paths if path.is_file() and (match := places.search(path.read_bytes()))}
    assert not found
