"""A verdict that can be trained on, or the name of what gave none: tasks and rewards may be others' code."""

import math
import traceback
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from bench.ground.errors import UserError
from tasks.core import Problem, Score, Task

LARGEST = 1e9  # its square, summed over a batch, is still a float32
KINDS: dict[str, tuple[type, ...]] = {
    "format_ok": (bool, type(None)),
    "answer": (str, type(None)),
    "error": (str, type(None)),
    "rule": (str, type(None)),
}


class ScoreError(UserError):
    """A reward or a verdict that nothing can be learnt from; the message names its code and the problem."""


def name_of(code: object) -> str:
    """`module:name`, as a flag would have it."""
    named: Any = code if hasattr(code, "__qualname__") else type(code)
    return f"{named.__module__}:{named.__qualname__}"


@contextmanager
def blamed_on(code: str, problem: Problem) -> Generator[None]:
    """Whatever is raised within, `exit()` among it, is said to be this code's.

    Raises:
        ScoreError: anything was raised but Ctrl-C.
    """
    try:
        yield
    except (ScoreError, KeyboardInterrupt):
        raise
    except BaseException as error:
        frames = traceback.extract_tb(error.__traceback__)
        place = f" ({Path(frames[-1].filename).name}:{frames[-1].lineno})"
        words = " ".join(f"{type(error).__name__}: {error}".split())
        raise ScoreError(f"{code}: {words}{place}, on problem {problem.id}") from error


def finite_reward(value: object, code: str, problem: Problem) -> float:
    """The reward as a number to train on.

    Raises:
        ScoreError: it is none, is not finite, or is too large for float32.
    """
    words = f"{code}: the reward of problem {problem.id} is "
    if isinstance(value, str | bytes) or not (hasattr(value, "__float__") or hasattr(value, "__index__")):
        raise ScoreError(f"{words}{type(value).__name__} {str(value)[:40]!r}, not a number")
    with blamed_on(code, problem):
        number = float(value)  # pyright: ignore[reportArgumentType]
    if not math.isfinite(number):
        raise ScoreError(f"{words}{number}; return a finite number for every completion")
    if abs(number) > LARGEST:
        raise ScoreError(f"{words}{number:g}; no more than {LARGEST:g} can be trained on in float32")
    return number


def checked_score(task: Task, problem: Problem, completion: str) -> Score:
    """The task's verdict.

    Raises:
        ScoreError: it raises instead, or gives something else than a verdict.
    """
    code = f"task {name_of(task)}"
    with blamed_on(code, problem):
        verdict: Any = task.score(problem, completion)
    if not isinstance(verdict, Score):
        raise ScoreError(f"{code}: score gave {type(verdict).__name__} for problem {problem.id}, not a Score")
    if verdict.correct not in (True, False):
        raise ScoreError(f"{code}: correct of problem {problem.id} is {verdict.correct!r}, not True or False")
    for name, kinds in KINDS.items():
        if not isinstance(getattr(verdict, name), kinds):
            kind = type(getattr(verdict, name)).__name__
            raise ScoreError(f"{code}: {name} of problem {problem.id} is {kind}, not {kinds[0].__name__} or None")
    reward = finite_reward(verdict.reward, code, problem)
    return replace(verdict, reward=reward, correct=bool(verdict.correct))
