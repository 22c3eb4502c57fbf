"""Equal cost in a unit of one's choice: what a pilot run used of it becomes every run's budget."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from bench.ground.budget import COUNTER, KINDS, Budget
from bench.ground.errors import UserError
from bench.ground.files import read_rows
from bench.ground.tree import merge
from bench.study.launch import Outcome
from bench.study.schedule import Planned, Study, schedule

PILOT_SEED = 2_000_000  # apart from the study's seeds and its trials'
Run = Callable[[Sequence[Planned]], list[Outcome]]


def check_unit(study: Study, jobs: int | None) -> None:
    """Refuse a unit that does not exist, and seconds of runs that share their cores.

    Raises:
        UserError: says which, and what would do.
    """
    unit = study.equal
    if unit is None:
        return
    if unit not in KINDS or unit == "steps":
        raise UserError(f"--equal {unit}: expected one of {', '.join(COUNTER)}")
    if unit == "seconds" and jobs != 1:
        given = "--executor ray" if jobs is None else f"--jobs {jobs}"
        raise UserError(f"--equal seconds {given}: runs that share cores take each other's time; use --jobs 1")


def at_equal_cost(study: Study, out: Path, run: Run) -> Study:
    """The study with every task's budget in the wanted unit.

    Raises:
        UserError: the pilot did not finish, or does not count this unit.
    """
    if study.equal is None:
        return study
    pilot = replace(study.arms[0], name=f"{study.arms[0].name}~pilot", first_seed=PILOT_SEED)
    pilot.tree.setdefault("algo_name", study.arms[0].name)
    settings = merge(study.settings, {"eval": {"limit": 0, "every": 0, "checkpoint": "last"}})
    alone = replace(study, arms=[pilot], seeds=1, settings=settings, reference=None, primary=())
    planned = schedule(alone, out)
    if all(found.chosen.config.parsed_budget.kind == study.equal for found in planned):
        return study
    budgets = {outcome.run.place[1]: budget_of(outcome, study.equal) for outcome in run(planned)}
    tasks: Mapping[str, dict[str, object]] = {
        name: merge(tree, {"budget": budgets[name]}) for name, tree in study.tasks.items()
    }
    return replace(study, tasks=tasks)


def budget_of(outcome: Outcome, unit: str) -> str:
    """What a run used of a unit, as a budget."""
    rows = read_rows(outcome.path / "steps.jsonl") if outcome.path is not None else []
    if outcome.status != "finished" or not rows:
        raise UserError(f"--equal {unit}: the pilot {outcome.run.label} did not finish: {outcome.message}")
    counter = COUNTER[KINDS[unit]]
    if counter not in rows[-1]:
        raise UserError(f"--equal {unit}: the work of this model is not counted; take samples or tokens")
    text = f"{unit}={rows[-1][counter]:.6g}"
    Budget.parse(text)
    return text
