"""What must be equal for two arms to be compared: budget, data and evaluation."""

from collections.abc import Mapping

from bench.ground.errors import UserError
from bench.ground.tree import flatten
from bench.settings.flags import Chosen

EQUAL = {"task_name", "model", "preset", "budget", "data", "source", "long_prompts", "max_prompt_tokens"}


def refuse_unfair(arms: Mapping[str, Chosen]) -> None:
    """Arms of one comparison must have equal budgets, data and evaluation.

    Raises:
        UserError: names the setting and both values.
    """
    for name, chosen in arms.items():
        by_steps = chosen.config.parsed_budget.kind == "steps"
        if by_steps and chosen.config.algo.max_rounds > 1 and len(arms) > 1:
            raise UserError(f"unfair: a step of {name} may generate more samples than others'; use --budget samples=N")
    (first_name, first), *others = ((name, fair_part(chosen)) for name, chosen in arms.items())
    for name, part in others:
        for setting in sorted(first.keys() | part.keys()):
            if first.get(setting) != part.get(setting):
                values = f"{first_name} has {first.get(setting)}, {name} has {part.get(setting)}"
                raise UserError(f"unfair: {setting} must be equal for all arms ({values}); use variants to vary it")


def fair_part(chosen: Chosen) -> dict[str, str]:
    """What must be equal, with the generation budget, which evaluation shares. Rewards may differ: verdicts do not."""
    flat = flatten(chosen.tree())
    equal = EQUAL | {"sampling.max_new_tokens"} | {name for name in flat if name.startswith(("eval.", "task."))}
    equal -= {name for name in flat if name.startswith("task.weights.")}
    if chosen.config.parsed_budget.kind == "steps":
        equal.add("samples_per_step")
    return {name: flat[name] for name in equal if name in flat}
