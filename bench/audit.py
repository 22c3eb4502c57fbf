"""`bench doctor --task NAME`: are a task's own problems sound, before a model is judged by them."""

from collections.abc import Sequence

from bench.ground.errors import UserError
from bench.settings.flags import Chosen
from bench.settings.resolve import with_source
from tasks.core import SPLITS, DataError, Problem, Task
from tasks.programming import Programming, broken_references


def audit(chosen: Chosen) -> int:
    """Print each split's size and every row that cannot be used or whose reference fails; 1 if there is one."""
    task = with_source(chosen.config, ours=chosen.config.source == "auto" and chosen.config.data is None)
    num_faults = found = 0
    for split in SPLITS:
        try:
            problems = task.problems(split)
        except DataError as error:
            print(f"{split}: {error}")
            continue
        faults = [*excluded(task, split), *broken(task, problems)]
        print(f"{split}: {len(problems)} problems, {len(faults)} faults")
        for fault in faults:
            print(f"  {fault}")
        found += len(problems)
        num_faults += len(faults)
    if not found:
        raise UserError(f"{chosen.task_name}: no split could be loaded")
    return int(num_faults > 0)


def excluded(task: Task, split: str) -> Sequence[str]:
    """Rows that were left out at load, and why."""
    describe = getattr(task, "provenance", None)
    return describe(split).get("excluded", ()) if describe is not None else ()


def broken(task: Task, problems: Sequence[Problem]) -> list[str]:
    """Problems whose own reference solution fails their tests."""
    if not isinstance(task, Programming):
        return []
    return [f"{name}: its reference fails: {reason}" for name, reason in broken_references(problems, task)]
