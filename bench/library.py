"""The harness from Python: `run`, `load` and `compare`, with typed results and pandas frames.

Each does what the command of that name does, in the same folders and with the same records; a mistake in what is asked
for is raised as `bench.ground.errors.UserError`. Nothing heavy is imported before it is needed.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.ground.errors import UserError
from bench.ground.files import read_json

Frame = Any  # pandas' annotations are partial and would only report themselves


@dataclass(frozen=True, kw_only=True)
class RunResult:
    """One run: its folder, how it ended, and a frame for each stream of its records."""

    path: Path
    status: str  # finished, diverged, no-signal, interrupted
    summary: Mapping[str, Any]
    steps: Frame  # a row a step
    evals: Frame  # a row an evaluation


@dataclass(frozen=True, kw_only=True)
class StudyResult:
    """One study: its folder, its page, and its main tables as numbers."""

    path: Path
    page: Path
    results: Frame  # a row an arm
    differences: Frame  # a row a contrast, with its verdict
    exit_code: int  # 1 where a run failed


def run(settings: Mapping[str, Any] | None = None, **more: Any) -> RunResult:  # noqa: ANN401 - any setting
    """Train one model by one algorithm on one task.

    Args:
        settings: a tree as `--config` files hold it, such as {"algo_name": "grpo", "optimizer": {"lr": 1e-4}}.
        more: settings at the top of that tree, over it: `budget="steps=4"`, `task_name="math"`, `out=...`.

    Raises:
        UserError: an unknown setting, a wrong value, or a run that could not be started or go on.
    """
    from bench.ground.tree import merge
    from bench.session.checkpoint import Best
    from bench.session.run import begun
    from bench.settings.flags import from_tree

    session, state = begun(from_tree(merge(settings or {}, more), "settings"))
    session.drive(state, Best())
    if not (session.recorder.path / "summary.json").exists():
        raise UserError(f"{session.recorder.path} has no summary: the run could not go on")
    return result_of(session.recorder.path)


def result_of(path: Path) -> RunResult:
    """A run that was recorded before."""
    records, summary = load([path]), read_json(path / "summary.json")
    return RunResult(
        path=path, status=str(summary["status"]), summary=summary, steps=records.steps, evals=records.evals
    )


def load(paths: Sequence[Path | str]) -> Any:  # noqa: ANN401 - Records, whose module loads pandas
    """Every run at or below these paths, as `bench.report.records.Records`: frames `runs`, `steps`, `evals`, ...

    Raises:
        UserError: there is none.
    """
    import tempfile

    from bench.ground.runs import find_runs
    from bench.report import records

    with tempfile.TemporaryDirectory() as cache:
        return records.load(find_runs([Path(path) for path in paths]), Path(cache))


def compare(arms: Sequence[str], *, out: Path = Path("results/studies"), **flags: Any) -> StudyResult:  # noqa: ANN401
    """Train arms over seeds under one budget, and report.

    Args:
        arms: `ALGO` or `NAME=ALGO[@RECIPE][,SETTING=VALUE...]`, as for `--arms`.
        out: folder in which the study's own folder is made.
        flags: fields of `bench.study.compare.CompareConfig`: `task=("gsm8k",)`, `seeds=3`, `budget="samples=6144"`.

    Raises:
        UserError: a wrong flag, an unfair comparison, or no run that left any record.
    """
    import pandas as pd

    from bench.study.compare import compare as command
    from bench.study.compare import study_of
    from bench.study.config import CompareConfig

    try:
        config = CompareConfig(arms=tuple(arms), out=out, quiet=True, **flags)
    except TypeError as error:
        raise UserError(f"compare: {error}") from error
    exit_code = command(config)
    folder = out / study_of(config).name
    tables = folder / "report" / "tables"
    return StudyResult(
        path=folder,
        page=folder / "report" / "index.html",
        results=pd.read_csv(tables / "results.csv"),
        differences=pd.read_csv(tables / "comparisons.csv"),
        exit_code=exit_code,
    )
