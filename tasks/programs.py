"""Programming problems as HumanEval and MBPP write them, and the program that a completion holds.

`Problem.reference` is JSON that no model sees: the style of the tests, the tests, and the reference solution.
"""

import dataclasses
import json
import re
from typing import Any

from tasks.answers import answer_part
from tasks.core import DataError
from tasks.dataset import Item, Template
from tasks.sandbox import Asserts, Check
from tasks.sources import Row, text_field

FENCE = re.compile(r"^[ \t]*```[^\n`]*\n(.*?)(?:^[ \t]*```[ \t]*$|\Z)", re.DOTALL | re.MULTILINE)
NAME = re.compile(r"(?!assert\b)(?!int\b)[A-Za-z_]\w*(?=\s*\()")

HUMANEVAL = Template(
    version=1, text="Complete this Python function. Answer with the whole function in one code block.\n\n{question}"
)
MBPP = Template(version=1, text="{question}\n\nAnswer with one Python code block.")


def code_in(completion: str) -> tuple[str, str]:
    """(code, rule): the last fenced block of the answer part ("fence"), else the whole of it ("text").

    A block that is never closed runs to the end. The answer part is what follows `</think>`.
    """
    part = answer_part(completion)
    blocks = FENCE.findall(part)
    return (blocks[-1], "fence") if blocks else (part, "text")


def humaneval(row: Row, place: str) -> Item:
    """A row of HumanEval (arXiv:2107.03374): the function's head and docstring, and check(candidate).

    {"task_id": "HumanEval/23", "prompt": "def strlen(string: str) -> int: ...", "entry_point": "strlen",
    "canonical_solution": "    return len(string)", "test": "def check(candidate): ..."}
    """
    prompt, entry = text_field(row, place, "prompt"), text_field(row, place, "entry_point")
    test = text_field(row, place, "test")
    if "def check(" not in test or "candidate" not in test.split("def check(", 1)[1]:
        raise DataError(f"{place}: the test defines no check(candidate)")
    tests = Check(test=test, entry_point=entry, prelude=prompt)
    solution = prompt + text_field(row, place, "canonical_solution")
    return Item(question=prompt, gold=_reference(tests, solution), meta={"name": text_field(row, place, "task_id")})


def mbpp(row: Row, place: str) -> Item:
    """A row of MBPP (arXiv:2108.07732): a sentence, and assertions, of which the prompt shows the first.

    {"task_id": 601, "text": "Write a function to ...", "code": "def f(a): ...", "test_setup_code": "",
    "test_list": ["assert f(1) == 2", ...], "challenge_test_list": []}

    A completion fitted to the shown assertion cannot pass the others; a row with one assertion shows none.
    """
    text, tests = text_field(row, place, "text"), row.get("test_list")
    if not isinstance(tests, list) or not tests or not all(isinstance(t, str) for t in tests):
        raise DataError(f"{place}: no tests: 'test_list' must be a list of assertions")
    shown = min(1, len(tests) - 1)
    name = NAME.search(tests[0])
    if name is None:
        raise DataError(f"{place}: the first test calls no function")
    example = f" For example:\n\n{tests[0]}" if shown else ""
    asserts = Asserts(asserts=tests, setup=text_field(row, place, "test_setup_code"), shown=shown)
    question = f"{text}\n\nCall the function {name[0]}.{example}"
    return Item(question=question, gold=_reference(asserts, text_field(row, place, "code")))


def small_function(row: Row, place: str) -> Item:
    """A row of `tasks.functions`: the sentence says all, and no test is shown."""
    tests = Asserts(asserts=row["test_list"])
    meta = {"kind": row["kind"], "steps": row["steps"]}
    return Item(question=text_field(row, place, "text"), gold=_reference(tests, row["code"]), meta=meta)


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


def _reference(tests: Asserts | Check, solution: str) -> str:
    return json.dumps({"tests": dataclasses.asdict(tests), "solution": solution})
