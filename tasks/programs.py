"""The program that a completion holds, and `Problem.reference`: JSON that no model sees, with tests and solution."""

import dataclasses
import json
import re
from typing import Any

from tasks.answers import answer_part
from tasks.sandbox import Asserts, Check

FENCE = re.compile(r"^[ \t]*```[^\n`]*\n(.*?)(?:^[ \t]*```[ \t]*$|\Z)", re.DOTALL | re.MULTILINE)


def code_in(completion: str) -> tuple[str, str]:
    """(code, rule): the last fenced block of the answer part ("fence"), else the whole of it ("text").

    A block that is never closed runs to the end. The answer part is what follows `</think>`.
    """
    part = answer_part(completion)
    blocks = FENCE.findall(part)
    return (blocks[-1], "fence") if blocks else (part, "text")


def reference(tests: Asserts | Check, solution: str) -> str:
    """What `tests_of` and `solution_of` read."""
    return json.dumps({"tests": dataclasses.asdict(tests), "solution": solution})


def tests_of(reference: str) -> Asserts | Check:
    """The tests in `Problem.reference`."""
    fields: dict[str, Any] = json.loads(reference)["tests"]
    return Check(**fields) if "entry_point" in fields else Asserts(**fields)


def solution_of(reference: str) -> str:
    """The reference solution in `Problem.reference`, a whole program."""
    return json.loads(reference)["solution"]


def program_of(code: str, tests: Asserts | Check) -> str:
    """The program to run. Code that does not define HumanEval's function continues its prompt."""
    if isinstance(tests, Asserts):
        return code
    head = rf"^def\s+{re.escape(tests.entry_point)}\b"
    if re.search(head, code, re.MULTILINE) is None:
        return tests.prelude + code
    return re.split(head, tests.prelude, flags=re.MULTILINE)[0] + code  # imports and helpers, then the code
