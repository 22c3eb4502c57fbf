"""A study: arms x variants x tasks x models x presets x seeds under one budget, from a TOML file with flags over it.

Keys of the file; settings are the tree that `bench run --config` reads, the later over the earlier:

- `name`, `question`: heading of the report, and what the study is to answer
- `tasks = ["gsm8k"]`, or `[tasks.gsm8k]` with settings for that task; `models`; `presets`; `seeds`, their number
- `reference`: the arm that the others are compared with (default: every two)
- `transfer`: tasks on which finished runs are tested besides their own
- `primary = ["ppo - grpo"]`, one to three contrasts, and `margin`, the smallest difference worth acting on, in points:
  registered before the first run, and the only verdicts that are not exploratory
- `equal`: a unit of cost; every run may use what a pilot run of the first arm used of it under the stated budget
- `[tuning]`: `points` an arm, `seeds` a point, `extend` a grid whose edge wins
- `[settings]` of every run
- `[variants.NAME]`: each variant is a comparison of its own
- `[arms.NAME]`: its settings, `algo_name` among them; of the arm alone `recipe` (to start from), `first_seed`, and
  `space`, a table of setting = values, for `--tune`
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

from bench.ground.comparable import key_of, terms
from bench.ground.errors import UserError
from bench.ground.tree import Tree, fingerprint, merge
from bench.settings.flags import Chosen, from_tree, with_recipe
from bench.settings.resolve import resolve
from bench.study.fairness import refuse_unfair

MOST_PRIMARY = 3
EVALUATED: Tree = {"eval": {"limit": 500, "num_samples": 8, "validation_samples": 4}}  # where a study says nothing
Space = Mapping[str, Sequence[Any]]


class Place(NamedTuple):
    """A comparison of a study."""

    variant: str
    task: str
    model: str
    preset: str


@dataclass(frozen=True, kw_only=True)
class Arm:
    """One side of the comparison."""

    name: str
    tree: Tree
    recipe: str | None = None
    first_seed: int = 0
    space: Space = field(default_factory=dict[str, Sequence[Any]])


@dataclass(frozen=True, kw_only=True)
class Tuning:
    """How arms are tuned before the study; no points, no tuning."""

    points: int = 0
    """Points of an arm's space."""
    seeds: int = 3
    """Runs at each point."""
    extend: bool = False
    """Whether a grid grows once where its edge has won."""


@dataclass(frozen=True, kw_only=True)
class Study:
    """What is to be run."""

    name: str
    question: str
    arms: Sequence[Arm]
    tasks: Mapping[str, Tree]
    models: Sequence[str]
    seeds: int
    settings: Tree
    variants: Mapping[str, Tree]
    reference: str | None
    presets: Sequence[str] = ("auto",)
    transfer: Sequence[str] = ()  # tasks that finished runs are tested on besides
    primary: Sequence[tuple[str, str]] = ()  # contrasts, first minus second
    margin: float = 0.01  # a share: the smallest difference worth acting on
    tuning: Tuning = field(default_factory=Tuning)
    equal: str | None = None  # a unit of cost


@dataclass(frozen=True, kw_only=True)
class Planned:
    """One run of a study, all of its settings known."""

    arm: str
    place: Place
    chosen: Chosen

    @property
    def tree(self) -> Tree:
        """Its settings as its record will hold them."""
        return {"arm": self.arm, **self.chosen.tree()}

    @property
    def fingerprint(self) -> str:
        """Equal for runs that would give the same figures."""
        return fingerprint(self.tree)

    @property
    def label(self) -> str:
        """For people and file names."""
        parts = (self.arm, *place_parts(self.place), f"s{self.chosen.config.seed}")
        return "-".join(Path(part).name.replace(":", ".") for part in parts)


def place_parts(place: Place) -> list[str]:
    """The parts of a place that were asked for."""
    return [part for part in place if part not in ("", "auto")]


def schedule(study: Study, out: Path) -> list[Planned]:
    """Every run, seed by seed, so that a study stopped half-way has whole pairs.

    Raises:
        UserError: a setting that is wrong, or arms that would not be compared fairly.
    """
    if not study.arms:
        raise UserError("a study needs arms: --algos, --arms, or [arms.NAME] in its file")
    names = [arm.name for arm in study.arms]
    if len(set(names)) < len(names):
        raise UserError(f"two arms are called {next(n for n in names if names.count(n) > 1)}; give each its own name")
    if study.reference is not None and study.reference not in names:
        raise UserError(f"reference {study.reference}: no such arm; there are {', '.join(names)}")
    check_contrasts(study, names)
    groups = [[chosen_of(study, arm, place, out) for arm in study.arms] for place in places(study)]
    for group in groups:
        refuse_unfair({run.arm: run.chosen for run in group})
    refuse_one_comparison([group[0] for group in groups])
    offsets = [arm.first_seed for arm in study.arms]
    return [
        with_seed(run, offset + index)
        for index in range(study.seeds)
        for group in groups
        for run, offset in zip(group, offsets, strict=True)
    ]


def refuse_one_comparison(firsts: Sequence[Planned]) -> None:
    """Places must differ in what sets comparisons apart: a report, which sees records only, would merge them.

    Raises:
        UserError: two places would be one comparison.
    """
    known: dict[str, Place] = {}
    for run in firsts:
        other = known.setdefault(key_of(terms(run.tree)), run.place)
        if other != run.place:
            one, two = (", ".join(place_parts(place)) for place in (other, run.place))
            raise UserError(
                f"'{one}' and '{two}' differ in nothing that sets comparisons apart; vary it by arms instead"
            )


def check_contrasts(study: Study, names: Sequence[str]) -> None:
    """Refuse contrasts that cannot be judged.

    Raises:
        UserError: says which, and what would do.
    """
    if len(study.primary) > MOST_PRIMARY:
        raise UserError(f"{len(study.primary)} primary contrasts: name at most {MOST_PRIMARY}, the rest is exploratory")
    for name in (name for pair in study.primary for name in pair):
        if name not in names:
            raise UserError(f"primary contrast with {name}: no such arm; there are {', '.join(names)}")
    if study.margin < 0:
        raise UserError(f"margin {study.margin * 100:g}: a difference in points, must not be negative")


def places(study: Study) -> Iterator[Place]:
    """Each comparison: variant, task, model, preset."""
    return (Place(*parts) for parts in product(study.variants, study.tasks, study.models, study.presets))


def chosen_of(study: Study, arm: Arm, place: Place, out: Path) -> Planned:
    """An arm's settings in one place, resolved as the run itself will resolve them."""
    variant, task, model, preset = place
    tree = merge(merge(merge(merge(EVALUATED, study.settings), study.tasks[task]), study.variants[variant]), arm.tree)
    tree = {"algo_name": arm.name, "preset": preset, **tree}
    tree |= {"task_name": task, "model": model, "name": arm.name, "out": str(out)}
    if arm.recipe is not None:
        tree = with_recipe(tree, arm.recipe)
    return Planned(arm=arm.name, place=place, chosen=resolve(from_tree(tree, f"arm {arm.name}")))


def with_seed(run: Planned, seed: int) -> Planned:
    """The same run under a seed."""
    return replace(run, chosen=replace(run.chosen, config=replace(run.chosen.config, seed=seed)))
