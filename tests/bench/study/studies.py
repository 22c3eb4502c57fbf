"""Small studies for the tests of tuning, registration and equal budgets."""

from dataclasses import replace

from bench.study.file import parse_arm
from bench.study.schedule import Arm, Study, Tuning

RATES = {"optimizer.lr": [1e-4, 2e-4, 4e-4]}


def study(*arms: Arm, tuning: Tuning | None = None) -> Study:
    return Study(
        name="s",
        question="",
        arms=arms,
        tasks={"gsm8k": {}},
        models=["embedded"],
        seeds=2,
        settings={"eval": {"every": 4, "checkpoint": "best"}},
        variants={"": {}},
        reference=None,
        tuning=tuning or Tuning(points=3),
    )


def arm(name: str, space: dict[str, list[float]] | None = None) -> Arm:
    return replace(parse_arm(name), space=space or RATES)
