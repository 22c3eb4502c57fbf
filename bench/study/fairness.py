"""Refuses arms that could not be compared. What must be equal stands in `bench.ground.comparable`."""

from collections.abc import Mapping

from bench.ground.comparable import terms, unequal_terms
from bench.ground.errors import UserError
from bench.settings.flags import Chosen


def refuse_unfair(arms: Mapping[str, Chosen]) -> None:
    """Arms of one comparison must have equal budgets, data and evaluation.

    Raises:
        UserError: names the setting and both values.
    """
    for name, chosen in arms.items():
        by_steps = chosen.config.parsed_budget.kind == "steps"
        if by_steps and chosen.config.algo.max_rounds > 1 and len(arms) > 1:
            raise UserError(f"unfair: a step of {name} may generate more samples than others'; use --budget samples=N")
    (first_name, first), *others = ((name, terms(chosen.tree())) for name, chosen in arms.items())
    for name, part in others:
        for setting in unequal_terms(first, part):
            values = f"{first_name} has {first.get(setting)}, {name} has {part.get(setting)}"
            raise UserError(f"unfair: {setting} must be equal for all arms ({values}); use variants to vary it")
