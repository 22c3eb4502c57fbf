"""What of an algorithm, and of a budget, a plan needs to know. Algorithms are asked, not copied: they import torch."""

from __future__ import annotations

from dataclasses import fields
from typing import TYPE_CHECKING, Any

from bench.ground.budget import Budget
from bench.ground.errors import UserError, nearest
from bench.planner.job import Job, Method

if TYPE_CHECKING:
    from algorithms.core import Algorithm


def method(name: str, kl_coef: float | None = None, group_size: int | None = None) -> Method:
    """What an algorithm holds and how often it passes over its samples, from its own settings.

    Raises:
        UserError: no such algorithm, or a setting that it does not have or refuses.
    """
    from algorithms import ALGORITHMS

    if name not in ALGORITHMS:
        raise UserError(f"unknown algorithm {name!r}: {nearest(name, ALGORITHMS)}")
    known = {f.name for f in fields(ALGORITHMS[name])}
    given = {"kl_coef": kl_coef, "group_size": group_size}
    # kl_coef 0 asks nothing of a method without one; a method with groups cannot take PPO's size
    wanted: dict[str, Any] = {key: value for key, value in given.items() if value is not None and key in known}
    return of_algorithm(name, ALGORITHMS[name](**wanted))


def of_algorithm(name: str, algorithm: Algorithm, critic_epochs: int = 1) -> Method:
    """The part of an algorithm's settings that costs anything."""
    return Method(
        name=name,
        critic="values" in algorithm.needs,
        reference="ref_logprobs" in algorithm.needs,
        group_size=algorithm.group_size,
        num_epochs=algorithm.num_epochs,
        num_minibatches=algorithm.num_minibatches,
        critic_epochs=critic_epochs,
    )


def budget_samples(text: str, job: Job, samples_per_s: float | None) -> float | None:
    """Samples that `--budget` amounts to; None where its unit cannot be turned into samples."""
    budget = Budget.parse(text)
    per_unit: dict[str, float | None] = {
        "steps": job.workload.samples_per_step,
        "samples": 1,
        "tokens": 1 / job.workload.completion_tokens,
        "updates": job.workload.samples_per_step / job.method.num_epochs / job.method.num_minibatches,
        "seconds": samples_per_s,
    }
    unit = per_unit.get(budget.kind)
    return budget.amount * unit if unit is not None else None
