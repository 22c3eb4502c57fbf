"""What the R1 pipeline is asked for: its settings, and which stages each arm has with what budget."""

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal

from bench.config import ASSETS
from bench.ground.errors import UserError
from bench.pipeline.sizes import PRESETS, Sizes

BASE, DPO = "base", "dpo"
NUMBERS = (0, 1, 2, 3, 4)


@dataclass(frozen=True, kw_only=True)
class R1:
    """DeepSeek-R1's pipeline: cold start, reasoning RL, rejection sampling, RL with preferences."""

    task: Literal["gsm8k", "math", "countdown", "logic"] = "gsm8k"
    """Task that is reasoned about."""
    model: str = BASE
    """Model that stages 1 and 3 start from: `base` (ours, pretrained only), a folder, a hub id or smollm2-135m."""
    algo: str = "grpo"
    """Method of reinforcement learning, by name or import path."""
    general_algo: str | None = None
    """Method of the steps with general prompts, such as ppo, or dpo on pairs of the model's own answers. None: the same
    as of the other steps."""
    stages: str = "1-4"
    """Stages to make now, such as 1-4, 0-4 or 3,4; those before the first must stand in the output folder."""
    skip: str = ""
    """Stages that are left out, such as 1,3; their samples and updates go to the stages of their kind that are left."""
    ablation: bool = False
    """Make the pipeline whole and once without each stage, at equal budget; shared beginnings are made once."""
    seeds: int = 1
    """Number of seeds, from 0 on."""
    examples: Path | None = None
    """JSONL of examples for stage 1, {"prompt", "completion"} or {"messages"}. None: the task's own solver, or the kept
    samples of stage 0 where that is made."""
    preferences: Path | None = None
    """Folder of train.jsonl and test.jsonl with preference pairs. None: ours."""
    data: Path | None = None
    """File or folder of the task's problems in the official format."""
    source: Literal["auto", "procedural", "path", "hub"] = "auto"
    """Where the task's problems come from. auto: procedural for our base, as in `run` for any other model."""
    preset: Literal["auto", "embedded", "smollm2-135m", "qwen2.5-0.5b"] = "auto"
    """Sizes of the stages. auto: smollm2-135m for that model, qwen2.5-0.5b for any other but ours."""
    sizes: Sizes = field(default_factory=Sizes)
    out: Path = Path("results/pipeline/r1")
    """Folder of the stages and the report."""
    quiet: bool = False
    """Print the closing lines only."""


@dataclass(frozen=True, kw_only=True)
class Plan:
    """One arm: which stages, with what budget each."""

    name: str
    numbers: frozenset[int]
    sizes: Sizes


def numbers(text: str) -> frozenset[int]:
    """`1-3,4` as numbers of stages.

    Raises:
        UserError: anything else.
    """
    found: set[int] = set()
    for part in filter(None, (part.strip() for part in text.split(","))):
        first, dash, last = part.partition("-")
        if not first.isdigit() or (dash and not last.isdigit()):
            raise UserError(f"{text}: stages are numbers such as 1-4 or 1,3")
        found |= set(range(int(first), int(last if dash else first) + 1))
    if not found <= set(NUMBERS):
        raise UserError(f"{text}: there are stages 0 to 4")
    return frozenset(found)


def plans(config: R1, sizes: Sizes) -> list[Plan]:
    """The arms: the pipeline as asked for, and in an ablation once without each stage.

    Raises:
        UserError: nothing is left to make.
    """
    wanted, skipped = numbers(config.stages), numbers(config.skip)
    zero = {0} if 0 in wanted else set[int]()
    whole = frozenset({1, 2, 3, 4, *zero} - {n for n in (1, 2, 3, 4) if n > max(wanted, default=0)} - skipped)
    if not whole - {0}:
        raise UserError("--stages and --skip leave nothing to make")
    names = "" if not skipped else f"without {', '.join(map(str, sorted(skipped)))}"
    last = f", {config.general_algo} last" if config.general_algo else ""
    arms = [Plan(name=(names or "whole") + last, numbers=whole, sizes=moved(sizes, whole))]
    if config.ablation:
        for number in sorted(whole - {0}):
            left = whole - {number}
            arms.append(Plan(name=f"without {number}{last}", numbers=left, sizes=moved(sizes, left)))
    return arms


def moved(sizes: Sizes, left: frozenset[int]) -> Sizes:
    """A stage that is left out gives its budget to the one of its kind that is left: supervised 1 and 3, RL 2 and 4."""
    last = max(left, default=0)
    if 1 not in left and 3 in left:
        updates = sizes.restart.num_updates + sizes.cold.num_updates
        sizes = replace(sizes, restart=replace(sizes.restart, num_updates=updates))
    elif 3 not in left and 1 in left and last > 2:
        updates = sizes.cold.num_updates + sizes.restart.num_updates
        sizes = replace(sizes, cold=replace(sizes.cold, num_updates=updates))
    if 2 not in left and 4 in left:
        sizes = replace(sizes, second_steps=sizes.second_steps + sizes.first_steps)
    elif 4 not in left and 2 in left and last > 2:
        sizes = replace(sizes, first_steps=sizes.first_steps + sizes.second_steps + sizes.general_steps)
    return sizes


def is_ours(model: str) -> bool:
    """Whether it is one of the models that are shipped."""
    return model == BASE or Path(model).resolve().is_relative_to(ASSETS)


def with_preset(config: R1) -> R1:
    """The defaults, of which the sizes are those that the flags' preset names; flags go over them."""
    named = config.preset
    if named == "auto":
        ours = is_ours(config.model)
        named = "embedded" if ours else config.model if config.model in PRESETS else "qwen2.5-0.5b"
    return R1(sizes=PRESETS[named])
