"""Algorithms, tasks and rewards by name or by import path, so that users need no fork."""

import importlib
import sys
from collections.abc import Mapping
from dataclasses import is_dataclass
from pathlib import Path
from typing import Any, cast

from algorithms import ALGORITHMS
from algorithms.core import Algorithm
from bench.ground.errors import UserError, nearest
from tasks import TASKS
from tasks.core import DataError, Task
from tasks.logic import puzzle_task


def find_algorithm(name: str) -> type[Algorithm]:
    """A registered algorithm, or `pkg.mod:Class`.

    Raises:
        UserError: unknown; says the nearest name.
    """
    found = imported(name, "--algo") if ":" in name else named(name, ALGORITHMS, "--algo")
    if not (isinstance(found, type) and issubclass(found, Algorithm)):
        raise UserError(f"--algo {name}: not a subclass of algorithms.core.Algorithm")
    return found


def find_task(name: str) -> type[Task]:
    """A registered task, `rg:NAME` of reasoning-gym, or `pkg.mod:Class`.

    Raises:
        UserError: unknown; says the nearest name.
    """
    if name.startswith("rg:"):
        try:
            return puzzle_task(name)
        except DataError as error:
            raise UserError(f"--task {name}: {error}") from error
    found = imported(name, "--task") if ":" in name else named(name, TASKS, "--task")
    if not (isinstance(found, type) and hasattr(found, "problems") and hasattr(found, "score")):
        raise UserError(f"--task {name}: not a task; it needs problems(split) and score(problem, completion)")
    if not is_dataclass(found):
        raise UserError(f"--task {name}: put @dataclass(frozen=True) above it: its fields are the recorded settings")
    return cast("type[Task]", found)


def named(name: str, table: Mapping[str, Any], flag: str) -> Any:  # noqa: ANN401 - whatever the table holds
    """An entry of a registry.

    Raises:
        UserError: unknown; says the nearest name, or all of them.
    """
    if name in table:
        return table[name]
    raise UserError(f"{flag} {name}: unknown; {nearest(name, table)}")


def imported(path: str, flag: str) -> Any:  # noqa: ANN401 - whatever the module holds
    """The object at `pkg.mod:name`, with the working folder importable.

    Raises:
        UserError: no such module or name.
    """
    module, _, attribute = path.partition(":")
    if str(Path.cwd()) not in sys.path:
        sys.path.insert(0, str(Path.cwd()))
    try:
        return getattr(importlib.import_module(module), attribute)
    except ImportError as error:
        raise UserError(f"{flag} {path}: cannot import {module}: {error}") from error
    except AttributeError as error:
        raise UserError(f"{flag} {path}: {module} has no {attribute}") from error
