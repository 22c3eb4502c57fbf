"""A study as a TOML file, and as flags that go over it."""

import re
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from bench.ground.errors import UserError
from bench.ground.tree import Tree, merge, nested
from bench.settings.flags import overlay
from bench.study.schedule import Arm, Study, Tuning

READY = Path(__file__).parent / "ready"


KEYS = (
    "name",
    "question",
    "tasks",
    "models",
    "presets",
    "seeds",
    "reference",
    "settings",
    "variants",
    "arms",
    "transfer",
    "primary",
    "margin",
    "tuning",
    "equal",
)


def read_study(name: str) -> Study:
    """A study file: a path, or the name of a ready one.

    Raises:
        UserError: no such file, or something in it is not understood.
    """
    path = Path(name) if name.endswith(".toml") else READY / f"{name}.toml"
    try:
        tree = tomllib.loads(path.read_text(encoding="utf-8"))
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
        presets=tree.get("presets", ("auto",)),
        transfer=tree.get("transfer", ()),
        primary=[contrast_of(text, str(path)) for text in tree.get("primary", ())],
        margin=float(tree.get("margin", 1.0)) / 100,
        equal=tree.get("equal"),
        tuning=overlay(Tuning(), tree.get("tuning", {}), f"{path}: tuning"),
    )


def contrast_of(text: str, place: str) -> tuple[str, str]:
    """`ppo - grpo`.

    Raises:
        UserError: it reads otherwise.
    """
    first, minus, second = text.partition(" - ")
    if not minus or not first.strip() or not second.strip():
        raise UserError(f"{place}: primary contrast '{text}': write 'ARM - ARM'")
    return first.strip(), second.strip()


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
    head, *pairs = re.split(r",(?![^\[]*\])", text)  # commas inside brackets belong to a value
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
