"""From flags and TOML to one resolved `RunConfig`, and back to text."""

import contextlib
import dataclasses
import io
import itertools
import re
import tomllib
import typing
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, cast

import pydantic
import tomli_w
import tyro

from algorithms.core import Algorithm
from bench.config import RunConfig
from bench.ground.errors import UserError, nearest
from bench.ground.tree import Tree, merge, nested, plain, without_none
from bench.settings.plugins import find_algorithm, find_task
from tasks.core import Task

SHORT = {
    "--engine": "--engine.train",
    "--rollout": "--engine.rollout",
    "--zero": "--engine.zero",
    "--offload": "--engine.offload",
    "--reward-model": "--reward-model.path",
    "--safety-model": "--safety-model.path",
}
RENAMED = {
    "train_engine": "engine.train",
    "rollout_engine": "engine.rollout",
    "zero_stage": "engine.zero",
    "lora_rank": "lora.rank",
    "completion_tokens": "sampling.max_new_tokens",
    "prompt_tokens": "max_prompt_tokens",
    "kl_coef": "algo.kl_coef",
    "group_size": "algo.group_size",
    "dtype": "engine.dtype",
}  # settings by the name that they had, in flags, files and records, and by the one that they have; both are read
SWITCHES = ("--engine.gradient-checkpointing",)  # `--name` and `--no-name`, where None is a third choice
LISTS = ("--engine.offload", "--lora.targets")  # several values, with commas or without
FORMER = {f"--{old.replace('_', '-')}": f"--{new.replace('_', '-')}" for old, new in RENAMED.items()}
BOX = re.compile(r"[╭╮╰╯│─]+|-{3,}|^\s*[|+]|[|+]\s*$")  # drawn in ASCII where the terminal knows no more


@dataclass(frozen=True, kw_only=True)
class Chosen:
    """A `RunConfig` and the names by which its algorithm and task were chosen, which `asdict` forgets."""

    algo_name: str
    task_name: str
    config: RunConfig

    def tree(self) -> Tree:
        """All of it as JSON and TOML hold it."""
        return {"algo_name": self.algo_name, "task_name": self.task_name, **plain(self.config)}


def run_class(algorithm: type[Algorithm], task: type[Task]) -> type[RunConfig]:
    """`RunConfig` with the chosen classes' own fields, which flags and files can then set."""
    try:
        defaults = algorithm(), task()
    except TypeError as error:
        raise UserError(
            f"{algorithm.__name__} and {task.__name__} must be constructible without arguments: {error}"
        ) from error
    fields = [
        ("algo", algorithm, field(default=defaults[0])),
        ("task", task, field(default_factory=lambda: defaults[1])),
    ]
    made = dataclasses.make_dataclass("RunConfig", fields, bases=(RunConfig,), frozen=True, kw_only=True)
    made.__doc__ = RunConfig.__doc__
    return cast("type[RunConfig]", made)


def from_tree(tree: Mapping[str, Any], place: str) -> Chosen:
    """Settings from a TOML or JSON tree; what it leaves out keeps its default.

    Raises:
        UserError: an unknown key, or a value of the wrong type; names the key.
    """
    rest = dict(tree)
    algo_name, task_name = rest.pop("algo_name", "grpo"), rest.pop("task_name", "gsm8k")
    made = run_class(find_algorithm(algo_name), find_task(task_name))
    return Chosen(algo_name=algo_name, task_name=task_name, config=overlay(made(**{}), rest, place))


def overlay(config: Any, tree: Mapping[str, Any], place: str) -> Any:  # noqa: ANN401 - any dataclass in the tree
    """`config` with the tree's values, checked against the declared types.

    Raises:
        UserError: naming the key.
    """
    changes: Tree = {}
    known = {f.name: f for f in dataclasses.fields(config)}
    tree = by_present_names(tree, known)
    hints = typing.get_type_hints(type(config))
    for key, value in tree.items():
        if key not in known:
            raise UserError(f"{place}: unknown setting '{key}'; {nearest(key, known)}")
        current = getattr(config, key)
        if dataclasses.is_dataclass(current) and isinstance(value, Mapping):
            changes[key] = overlay(current, cast("Tree", value), f"{place}: {key}")
            continue
        try:
            changes[key] = pydantic.TypeAdapter(hints[key]).validate_python(value)
        except pydantic.ValidationError as error:
            raise UserError(f"{place}: {key} = {value!r}: {error.errors()[0]['msg']}") from error
    try:
        return replace(config, **changes)
    except ValueError as error:
        raise UserError(f"{place}: {error}") from error


def parse(arguments: Sequence[str]) -> Chosen:
    """Flags over a `--config` file over a `--recipe` over the defaults.

    Raises:
        UserError: anything wrong with them, in one line.
    """
    rest = long_names(arguments)
    algo, task, file, recipe = (take(rest, flag) for flag in ("--algo", "--task", "--config", "--recipe"))
    tree: Tree = read_toml(Path(file)) if file else {}
    tree = {**tree, **{k: v for k, v in {"algo_name": algo, "task_name": task}.items() if v is not None}}
    if recipe is not None:
        tree = with_recipe(tree, recipe)
    chosen = from_tree(tree, file or "settings")
    config = flags(type(chosen.config), rest, prog="python -m bench run", default=chosen.config)
    return replace(chosen, config=config)


def long_names(arguments: Sequence[str]) -> list[str]:
    """The arguments with short and former flags written out, and values joined by commas apart."""
    written: list[str] = []
    listing = False
    for argument in arguments:
        flag, equals, value = argument.partition("=")
        if flag.startswith("--"):
            flag = SHORT.get(flag, FORMER.get(flag, flag))
            listing = flag in LISTS
            written += [flag, *value.split(",")] if listing and equals else [flag + equals + value]
        else:
            written += argument.split(",") if listing else [argument]
    return written


def switched(arguments: Sequence[str]) -> list[str]:
    """The arguments with `--name True` for `--name` and `--name False` for `--no-name`, for each of `SWITCHES`."""
    written: list[str] = []
    following = [*arguments[1:], "--"]
    for argument, after in zip(arguments, following, strict=False):
        head, _, leaf = argument.rpartition(".")
        name = f"{head}.{leaf.removeprefix('no-')}"
        if name in SWITCHES and after not in ("True", "False", "None"):
            written += [name, str(name == argument)]
        else:
            written.append(argument)
    return written


def by_present_names(tree: Mapping[str, Any], known: Collection[str]) -> Mapping[str, Any]:
    """The tree with every setting that is not `known`, but was renamed to one that is, under its present name."""
    former = [key for key in tree if key not in known and RENAMED.get(key, "").partition(".")[0] in known]
    present = {key: value for key, value in tree.items() if key not in former}
    for key in former:
        present = merge(nested(RENAMED[key], tree[key]), present)
    return present


def with_recipe(tree: Tree, name: str) -> Tree:
    """The tree over a recipe's settings.

    Raises:
        UserError: unknown recipe, or none of that name for the algorithm.
    """
    from bench.settings.recipes import recipe_tree

    return merge(recipe_tree(name, tree.get("algo_name")), tree)


def take(arguments: list[str], flag: str) -> str | None:
    """Remove `flag VALUE` or `flag=VALUE` from the arguments; returns the value.

    Raises:
        UserError: the flag comes without a value.
    """
    value = None
    for i, argument in reversed(list(enumerate(arguments))):
        if argument == flag:
            if i + 1 >= len(arguments) or arguments[i + 1].startswith("--"):
                raise UserError(f"{flag} needs a value")
            value = value or arguments[i + 1]
            del arguments[i : i + 2]
        elif argument.startswith(flag + "="):
            value = value or argument.partition("=")[2]
            del arguments[i]
    return value


def flags(cls: Any, arguments: Sequence[str], *, prog: str, default: Any = None) -> Any:  # noqa: ANN401 - what tyro builds
    """Parse by tyro, its boxed error told in one line.

    Raises:
        UserError: an unknown flag (with the nearest) or a bad value.
    """
    caught = io.StringIO()
    extra = {} if default is None else {"default": default}
    try:
        with contextlib.redirect_stderr(caught):
            return tyro.cli(cls, args=list(arguments), prog=prog, **extra)
    except SystemExit as end:
        if not end.code:
            raise
        raise UserError(one_line(caught.getvalue())) from None
    except ValueError as error:
        raise UserError(str(error)) from error


def one_line(boxed: str) -> str:
    """The message of a boxed error, which ends at the first rule or blank line, and its first suggestion."""
    lines = [BOX.sub(" ", raw).strip() for raw in boxed.splitlines()[1:]]
    body = itertools.dropwhile(lambda line: not line, lines)
    message = " ".join(itertools.takewhile(bool, body))
    for line, following in itertools.pairwise(lines):
        if line.startswith("Perhaps you meant"):
            return f"{message}; did you mean {following.split()[0]}?"
    return message


def read_toml(path: Path) -> Tree:
    """A settings file.

    Raises:
        UserError: it cannot be read.
    """
    try:
        return tomllib.loads(path.read_text(encoding="utf-8-sig"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise UserError(f"--config {path}: {error}") from error


def to_toml(chosen: Chosen) -> str:
    """The whole tree, readable by `--config`."""
    return tomli_w.dumps(without_none(chosen.tree()))
