"""Whatever is logged is defined, and the page is the code's."""

from pathlib import Path

import pytest

from bench.ground.metric_reference import METRICS, find
from bench.report.costs import ROLES
from docs.generate_metrics import page
from tests.bench.small_runs import run


@pytest.mark.parametrize("algo", ["grpo", "ppo", "dapo", "vapo", "gspo", "cispo"])
def test_every_logged_metric_is_defined(algo: str, tmp_path: Path) -> None:
    import json

    path = run(tmp_path, "--algo", algo, "--budget", "steps=1", "--profile", "--completions-per-step", "1")
    logged = {name for line in (path / "steps.jsonl").read_text().splitlines() for name in json.loads(line)} - {"step"}
    assert [name for name in sorted(logged) if find(name) is None] == []


def test_names_are_unique() -> None:
    assert len({m.name for m in METRICS}) == len(METRICS)


def test_the_page_is_up_to_date() -> None:
    """`python -m docs.generate_metrics` writes it."""
    assert (Path(__file__).parents[3] / "docs" / "metrics.md").read_text() == page()


def test_the_report_shows_every_role_whose_memory_is_logged() -> None:
    logged = {m.name for m in METRICS if m.name.startswith("memory/") and m.name.endswith("_gib")}
    shown = {f"memory/{role}_gib" for role in ROLES}
    no_role = {"memory/roles_gib", "memory/unexplained_gib", "memory/reference_host_gib"}  # the last is off the device
    assert logged - no_role <= shown
