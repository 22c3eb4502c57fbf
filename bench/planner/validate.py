"""`plan --validate RUNS`: prediction beside measurement, for each role and phase of recorded runs."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median

import pandas as pd
from rich.console import Console

from bench.ground.errors import UserError
from bench.ground.tree import Tree
from bench.ground.words import GIB, ROLES, Phase
from bench.planner import tables
from bench.planner.job import Method
from bench.planner.memory import memory_of_job
from bench.planner.methods import of_algorithm
from bench.planner.predict import Steps, jobs_of_run, peak_of, records_of
from bench.planner.step_time import step_seconds

MEASURED_PHASES: tuple[Phase, ...] = ("rollout", "logprobs", "update")


@dataclass(frozen=True, kw_only=True)
class Checked:
    """One figure of one run; what was not measured is None."""

    run: str
    what: str
    unit: str
    predicted: float | None
    measured: float | None

    @property
    def error(self) -> float | None:
        """Of the prediction, as a share of the measurement."""
        if self.predicted is None or not self.measured:
            return None
        return self.predicted / self.measured - 1


def report_validation(runs: Sequence[Path], out: Path, *, quiet: bool) -> int:
    """Print the comparison and write it as validation.{md,csv}.

    Raises:
        UserError: a directory without a run's records, or a model that is not covered.
    """
    rows = [row for run in runs for row in compare_with_run(run)]
    table = pd.DataFrame(
        [
            {
                "run": row.run,
                "what": row.what,
                "unit": row.unit,
                "predicted": row.predicted,
                "measured": row.measured,
                "error": None if row.error is None else f"{row.error:+.1%}",
            }
            for row in rows
        ]
    )
    Console(quiet=quiet).print(tables.markdown_table(table), soft_wrap=True)
    out.mkdir(parents=True, exist_ok=True)
    (out / "validation.md").write_text(tables.markdown_table(table) + "\n", encoding="utf-8")
    table.to_csv(out / "validation.csv", index=False)
    print(f"wrote {out / 'validation.md'}")
    return 0


def compare_with_run(run: Path) -> list[Checked]:
    """Roles, phases and times of one run, in that order."""
    config, provenance, steps = records_of(run)
    job, rollout_job = jobs_of_run(config, provenance, steps, recorded_method(config))
    held, rolled = memory_of_job(job), memory_of_job(rollout_job)
    label = f"{config['arm']}, {config['model']}"

    def largest(name: str) -> float | None:
        found = [row[name] for row in steps if name in row]
        return max(found) if found else None

    rows: list[Checked] = []
    for role in ROLES:
        source = rolled if role == "kv_cache" else held
        predicted = max(roles.get(role, 0.0) for roles in source.phases.values())
        measured = largest(f"memory/{role}_gib")
        if predicted or measured:
            rows.append(_gib(label, role, predicted, measured))
    for phase in MEASURED_PHASES:
        rows.append(_gib(label, f"peak of {phase}", peak_of(phase, held, rolled), _measured_peak(phase, steps)))
    seconds = step_seconds(job) or {}
    for phase in MEASURED_PHASES:
        times = [row[f"time/{phase}_s"] for row in steps if f"time/{phase}_s" in row]
        measured = median(times) if times else None
        rows.append(Checked(run=label, what=f"{phase} time", unit="s", predicted=seconds[phase], measured=measured))
    return rows


def _measured_peak(phase: str, steps: Steps) -> float | None:
    """Of the first step outside the update: an allocator keeps what a phase gave back, and later phases show it."""
    name = f"memory/peak_gib/{phase}"
    found = [row[name] for row in steps if name in row]
    return None if not found else max(found) if phase == "update" else found[0]


def _gib(run: str, what: str, predicted: float, measured: float | None) -> Checked:
    return Checked(run=run, what=what, unit="GiB", predicted=predicted / GIB, measured=measured)


def recorded_method(config: Tree) -> Method:
    """The algorithm's costs from its recorded settings."""
    from algorithms import ALGORITHMS

    name = config["algo_name"]
    if name not in ALGORITHMS:
        raise UserError(f"algorithm {name!r} of the run is not one of {', '.join(ALGORITHMS)}")
    return of_algorithm(name, ALGORITHMS[name](**config["algo"]), critic_epochs=config["critic"]["num_epochs"])
