"""Verifiable tasks. Adding one: write one file, add one line here."""

from tasks.competition_math import CompetitionMath
from tasks.core import Task
from tasks.countdown import Countdown
from tasks.gsm8k import Gsm8k
from tasks.logic import Logic, puzzle_task

TASKS: dict[str, type[Task]] = {
    "gsm8k": Gsm8k,
    "math": CompetitionMath,
    "countdown": Countdown,
    "logic": Logic,
}


def find(name: str) -> type[Task] | None:
    """The task of a name, where `rg:NAME` is reasoning-gym's task NAME; None: there is none."""
    return puzzle_task(name) if name.startswith("rg:") else TASKS.get(name)
