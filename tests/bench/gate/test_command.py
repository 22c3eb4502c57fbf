"""`bench check` as a user meets it: flags, exit codes, what it writes, and the workflow that calls it."""

import json
import re
import shlex
import subprocess
import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Any

import pytest
import tyro
import yaml

from bench.cli import main
from bench.gate.check import CheckConfig, refuse
from bench.gate.outputs import findings_in_markdown, findings_on_terminal, junit, write_findings
from bench.gate.trees import base_tree
from bench.gate.verdict import EXIT_CODES, Finding, overall
from bench.ground.errors import UserError
from bench.settings.flags import flags

ROOT = Path(__file__).parents[3]
WORKFLOW = ROOT / ".github" / "workflows" / "regression.yml"
FINDINGS = [
    Finding(tier=1, subject="grpo", quantity="formulas", status="pass", measured="0 of 9 numbers moved"),
    Finding(tier=2, subject="grpo", quantity="throughput/rollout", status="worse", measured="-20%", tolerance="-10%"),
    Finding(tier=3, subject="ppo", quantity="accuracy", status="cannot judge", detail="a | pipe <and> more"),
]


def test_the_exit_code_follows_the_worst() -> None:
    assert EXIT_CODES[overall(FINDINGS)] == 1
    assert EXIT_CODES[overall([FINDINGS[0], FINDINGS[2]])] == 3
    assert EXIT_CODES[overall([FINDINGS[0]])] == 0
    assert EXIT_CODES[overall([])] == 3, "a check of nothing has passed nothing"


def test_markdown_shows_what_is_wrong_first_and_stays_a_table() -> None:
    text = findings_in_markdown(FINDINGS, ["a fact"])
    assert text.startswith("## Regression gate: worse: 1 of 3 findings\n\n- a fact\n")
    table = text[: text.index("<details>")].splitlines()
    rows = [line for line in table if line.startswith("|")]
    assert [re.split(r"(?<!\\)\|", row)[4].strip() for row in rows[2:]] == ["worse", "cannot judge"]
    assert len({len(re.split(r"(?<!\\)\|", row)) for row in rows}) == 1
    assert "1 passed" in text


def test_junit_has_a_suite_a_tier() -> None:
    root = ET.fromstring(junit(FINDINGS))
    suites = root.findall("testsuite")
    assert [(s.get("tests"), s.get("failures"), s.get("skipped")) for s in suites] == [
        ("1", "0", "0"),
        ("1", "1", "0"),
        ("1", "0", "1"),
    ]
    assert suites[1].find("testcase/failure").get("message") == "-20% (tolerance -10%)"  # type: ignore[union-attr]


def test_the_summary_of_a_job_is_added_to(tmp_path: Path) -> None:
    summary = tmp_path / "summary"
    summary.write_text("before\n")
    write_findings(FINDINGS, ["a fact"], tmp_path / "out", str(summary))
    assert summary.read_text() == "before\n" + (tmp_path / "out" / "check.md").read_text()
    content = json.loads((tmp_path / "out" / "check.json").read_text())
    assert content["verdict"] == "worse"
    assert [f["status"] for f in content["findings"]] == ["pass", "worse", "cannot judge"]
    assert "throughput/rollout" in findings_on_terminal(FINDINGS)


@pytest.mark.parametrize(
    "wrong",
    [
        "--tiers 2",
        "--tiers 3 --against x",
        "--tiers 1 3 --runs x",
        "--tiers 3 --runs x --against nowhere",
        "--update-baseline",
        "--seeds 2",
        "--pairs 50",
        "--algo grop",
        "--tiers 4",
        "--tolerance fast",
        "--set nothing",
        "--config nowhere.toml",
        "--tiers 3 --seeds 3 --max-seeds 100",
        "--tiers 2 --base no-such-commit",
    ],
)
def test_a_mistake_is_one_line_and_code_2(
    wrong: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["check", *wrong.split()]) == 2
    assert len(capsys.readouterr().err.strip().splitlines()) == 1


def test_a_file_holds_the_same_settings(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "gate.toml"
    file.write_text('tiers = [1]\nalgo = ["rloo"]\nquiet = true\nout = "' + str(tmp_path / "out") + '"\n')
    assert main(["check", "--config", str(file)]) == 0
    assert "rloo" in capsys.readouterr().out
    file.write_text('tolerances = ["throughput: -10%"]\n')
    assert main(["check", "--config", str(file)]) == 2
    assert "did you mean tolerance?" in capsys.readouterr().err


def repository(path: Path) -> None:
    git = lambda *words: subprocess.run(["git", "-C", str(path), *words], check=True, capture_output=True)
    git("init", "--quiet")
    for name in ("one", "two"):
        (path / "sub").mkdir(exist_ok=True)
        (path / "sub" / "file").write_text(name)
        git("add", "-A")
        git("-c", "user.name=x", "-c", "user.email=x@y", "commit", "--quiet", "-m", name)


def test_the_base_is_a_commit_beside_us_or_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    repository(tmp_path)
    monkeypatch.chdir(tmp_path / "sub")
    with base_tree("HEAD~1") as tree:
        assert (tree / "file").read_text() == "one", "the folder that corresponds to this one"
    assert not tree.exists()
    listed = subprocess.run(["git", "worktree", "list"], capture_output=True, text=True, check=True).stdout
    assert len(listed.splitlines()) == 1
    with base_tree("../sub") as tree:
        assert (tree / "file").read_text() == "two"
    with pytest.raises(UserError, match="neither a folder nor a commit"), base_tree("HEAD~9"):
        pass


def steps() -> list[dict[str, Any]]:
    (job,) = yaml.safe_load(WORKFLOW.read_text())["jobs"].values()
    return job["steps"]


def commands(script: str) -> list[list[str]]:
    lines = script.replace("\\\n", " ").splitlines()
    return [shlex.split(line[: line.find("||")] if "||" in line else line) for line in lines]


def test_the_workflow_has_every_tier_and_each_command_parses() -> None:
    content = yaml.safe_load(WORKFLOW.read_text())
    assert "pull_request" in content[True], "YAML reads the key `on` as a truth value"
    checks = [c for step in steps() for c in commands(step.get("run", "")) if c[:3] == ["python", "-m", "bench"]]
    found: set[int] = set()
    for command in checks:
        assert command[3] == "check"
        config = flags(CheckConfig, command[4:], prog="check")
        refuse(config)
        found |= set(config.tiers)
    assert found == {1, 2, 3}


def test_the_workflow_fails_on_worse_and_warns_where_it_cannot_judge(tmp_path: Path) -> None:
    """Each step's own script, with a command that only returns a code in place of the check."""
    (tmp_path / "python").write_text('#!/bin/sh\nexit "$CODE"\n')
    (tmp_path / "python").chmod(0o755)
    scripts = [step["run"] for step in steps() if "bench check" in step.get("run", "")]
    for code, want in ((0, [0, 0, 0]), (1, [1, 1, 1]), (2, [2, 1, 1]), (3, [3, 0, 0])):
        done = [
            subprocess.run(
                ["bash", "-e", "-c", script],
                env={"PATH": f"{tmp_path}:/usr/bin:/bin", "CODE": str(code), "BASE": "HEAD~1"},
                capture_output=True,
                text=True,
                check=False,
            )
            for script in scripts
        ]
        assert [d.returncode for d in done] == want
        assert sum("::warning::" in d.stdout for d in done) == (2 if code == 3 else 0)


def test_help_names_the_exit_codes(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        tyro.cli(CheckConfig, args=["--help"])
    assert "3 cannot judge" in " ".join(capsys.readouterr().out.split())
