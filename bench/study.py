"""A study: arms x variants x tasks x models x seeds under one budget, from a TOML file with flags over it.

Keys of the file; settings are the tree that `bench run --config` reads, the later over the earlier:

- `name`, `question`: heading of the report, and what the study is to answer
- `tasks = ["gsm8k"]`, or `[tasks.gsm8k]` with settings for that task; `models`; `seeds`, their number
- `reference`: the arm that the others are compared with (default: every two)
- `transfer`: tasks on which finished runs are tested besides their own
- `[settings]` of every run
- `[variants.NAME]`: each variant is a comparison of its own
- `[arms.NAME]`: its settings, `algo_name` among them; of the arm alone `recipe` (to start from), `first_seed`, and
  `space`, a table of setting = values, for `--tune`
"""

import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, cast

from bench.config import Budget, UserError
from bench.report.groups import flatten
from bench.settings import Chosen, Tree, fingerprint, from_tree, merge, resolve, with_recipe

READY = Path(__file__).parent / "studies"
KEYS = ("name", "question", "tasks", "models", "seeds", "reference", "settings", "variants", "arms", "transfer")
Space = Mapping[str, Sequence[Any]]


@dataclass(frozen=True, kw_only=True)
class Arm:
    """One side of the comparison."""

    name: str
    tree: Tree
    recipe: str | None = None
    first_seed: int = 0
    space: Space = field(default_factory=dict[str, Sequence[Any]])


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
    transfer: Sequence[str] = ()  # tasks that finished runs are tested on besides


@dataclass(frozen=True, kw_only=True)
class Planned:
    """One run of a study, all of its settings known."""

    arm: str
    variant: str
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
        model = Path(self.chosen.config.model).name
        parts = (self.arm, self.variant, self.chosen.task_name, model, f"s{self.chosen.config.seed}")
        return "-".join(part.replace("/", "-").replace(":", ".") for part in parts if part)


def read(name: str) -> Study:
    """A study file: a path, or the name of a ready one.

    Raises:
        UserError: no such file, or something in it is not understood.
    """
    path = Path(name) if name.endswith(".toml") else READY / f"{name}.toml"
    try:
        tree = tomllib.loads(path.read_text())
    except FileNotFoundError:
        ready = ", ".join(sorted(p.stem for p in READY.glob("*.toml")))
        raise UserError(f"--study {name}: no such file; give a .toml file or one of: {ready}") from None
    except (OSError, tomllib.TOMLDecodeError) as error:
        raise UserError(f"--study {name}: {error}") from error
    if unknown := set(tree) - set(KEYS):
        raise UserError(f"{path}: unknown key '{sorted(unknown)[0]}'; known: {', '.join(KEYS)}")
    return Study(
        name=str(tree.get("name", path.stem)),
        question=str(tree.get("question", "")),
        arms=[arm_of(name, table) for name, table in tree.get("arms", {}).items()],
        tasks=tasks_of(tree.get("tasks", ["gsm8k"])),
        models=tree.get("models", ["embedded"]),
        seeds=tree.get("seeds", 3),
        settings=tree.get("settings", {}),
        variants=tree.get("variants", {"": {}}),
        reference=tree.get("reference"),
        transfer=tree.get("transfer", ()),
    )


def arm_of(name: str, table: Tree) -> Arm:
    """An arm's table: its run settings, and what is said of the arm itself."""
    own = {key: table[key] for key in ("recipe", "first_seed", "space") if key in table}
    return Arm(name=name, tree={key: value for key, value in table.items() if key not in own}, **own)


def tasks_of(tasks: Sequence[str] | Mapping[str, Tree]) -> Mapping[str, Tree]:
    """Each task and the settings that go with it."""
    return tasks if isinstance(tasks, Mapping) else {name: {} for name in tasks}


def parse_arm(text: str) -> Arm:
    """`grpo`, or `NAME=ALGO[@RECIPE][,SETTING=VALUE...]`.

    Raises:
        UserError: it reads otherwise.
    """
    head, *pairs = text.split(",")
    name, equals, algo = head.partition("=")
    algo, _, recipe = (algo if equals else name).partition("@")
    name = name if equals else head
    if not algo:
        raise UserError(f"--arms {text}: write ALGO or NAME=ALGO[@RECIPE][,SETTING=VALUE...]")
    return Arm(name=name, tree={"algo_name": algo, **parse_settings(pairs, "--arms")}, recipe=recipe or None)


def parse_settings(pairs: Sequence[str], flag: str) -> Tree:
    """`algo.kl-coef=0.04` pairs as a tree; values as TOML reads them, else text.

    Raises:
        UserError: one is no pair.
    """
    tree: Tree = {}
    for pair in pairs:
        key, equals, value = pair.partition("=")
        if not equals or not key:
            raise UserError(f"{flag} {pair}: write SETTING=VALUE, such as algo.kl-coef=0.04")
        tree = merge(tree, nested(key.replace("-", "_"), parse_value(value)))
    return tree


def parse_value(text: str) -> Any:  # noqa: ANN401 - any TOML value
    """A TOML value; what is none is text."""
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        return text


def nested(key: str, value: Any) -> Tree:  # noqa: ANN401 - any TOML value
    """`{"a": {"b": value}}` of `a.b`."""
    for part in reversed(key.split(".")):
        value = {part: value}
    return cast("Tree", value)


def plan(study: Study, out: Path) -> list[Planned]:
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
    groups = [[chosen_of(study, arm, *place, out) for arm in study.arms] for place in places(study)]
    for group in groups:
        refuse_unfair(group)
    offsets = [arm.first_seed for arm in study.arms]
    return [
        with_seed(run, offset + index)
        for index in range(study.seeds)
        for group in groups
        for run, offset in zip(group, offsets, strict=True)
    ]


def places(study: Study) -> Iterator[tuple[str, str, str]]:
    """Each (variant, task, model)."""
    for variant in study.variants:
        for task in study.tasks:
            for model in study.models:
                yield variant, task, model


def chosen_of(study: Study, arm: Arm, variant: str, task: str, model: str, out: Path) -> Planned:
    """An arm's settings in one place, resolved as the run itself will resolve them."""
    tree = merge(merge(merge(study.settings, study.tasks[task]), study.variants[variant]), arm.tree)
    tree = {"algo_name": arm.name, **tree, "task_name": task, "model": model, "name": arm.name, "out": str(out)}
    if arm.recipe is not None:
        tree = with_recipe(tree, arm.recipe)
    return Planned(arm=arm.name, variant=variant, chosen=resolve(from_tree(tree, f"arm {arm.name}")))


def with_seed(run: Planned, seed: int) -> Planned:
    """The same run under a seed."""
    return replace(run, chosen=replace(run.chosen, config=replace(run.chosen.config, seed=seed)))


def refuse_unfair(group: Sequence[Planned]) -> None:
    """Arms of one place must have equal budgets, data and evaluation.

    Raises:
        UserError: names the setting and both values.
    """
    for run in group:
        config = run.chosen.config
        if config.algo.max_rounds > 1 and Budget.parse(config.budget).kind == "steps" and len(group) > 1:
            raise UserError(
                f"unfair: a step of {run.arm} may generate more samples than others'; use --budget samples=N"
            )
    first = fair_part(group[0])
    for other in group[1:]:
        part = fair_part(other)
        for name in sorted(first.keys() | part.keys()):
            if first.get(name) != part.get(name):
                values = f"{group[0].arm} has {first.get(name)}, {other.arm} has {part.get(name)}"
                raise UserError(f"unfair: {name} must be equal for all arms ({values}); use variants to vary it")


def fair_part(run: Planned) -> dict[str, str]:
    """What must be equal: budget, data and evaluation, with the generation budget, which evaluation shares."""
    flat = flatten(run.chosen.tree())
    equal = {"task_name", "model", "budget", "data", "source", "long_prompts", "max_prompt_tokens"}
    equal |= {"sampling.max_new_tokens"} | {name for name in flat if name.startswith(("eval.", "task."))}
    equal -= {name for name in flat if name.startswith("task.weights.")}
    if Budget.parse(run.chosen.config.budget).kind == "steps":
        equal.add("samples_per_step")
    return {name: flat[name] for name in equal if name in flat}
