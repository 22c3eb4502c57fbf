"""Rows of HumanEval, MBPP and our small functions, and the problems that they make."""

import re
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Literal

from tasks import sources
from tasks.core import DataError, Problem, Split
from tasks.dataset import PLAIN, Item, Template
from tasks.procedural import functions
from tasks.programs import reference
from tasks.sandbox import Asserts, Check, unfit
from tasks.sources import Row, Rows, text_field

Collection = Literal["functions", "mbpp", "humaneval"]
FILES: Mapping[Collection, str] = {"mbpp": "mbpp", "humaneval": "HumanEval"}
HUB: Mapping[Collection, tuple[str, str]] = {
    "mbpp": ("google-research-datasets/mbpp", "full"),
    "humaneval": ("openai/openai_humaneval", "openai_humaneval"),
}
MBPP_IDS: Mapping[Split, range] = {"train": range(601, 975), "validation": range(511, 601), "test": range(11, 511)}
TEMPLATES: Mapping[Collection, Template] = {
    "functions": PLAIN,
    "mbpp": Template(version=2, text="{question}\n\nAnswer with one Python code block."),
    "humaneval": Template(
        version=1, text="Complete this Python function. Answer with the whole function in one code block.\n\n{question}"
    ),
}
NAME = re.compile(r"(?!assert\b)(?!int\b)[A-Za-z_]\w*(?=\s*\()")


@lru_cache(maxsize=16)
def load_programs(
    collection: Collection, split: Split, data: Path | Literal["hub"] | None, seed: int, bench_data: str | None
) -> tuple[Rows, Sequence[Problem]]:
    """The rows of a collection as found, and the problems of a split in their order.

    Args:
        collection: which.
        split: ours; MBPP's are by task_id, as its authors number them.
        data: a file or folder, "hub", or None for `$BENCH_DATA/code`.
        seed: of the small functions.
        bench_data: `$BENCH_DATA`, which is read elsewhere: part of the key under which the result is kept.

    Raises:
        DataError: no data, a row without tests, or no such split.
    """
    del bench_data
    rows = _rows(collection, split, data, seed)
    problems: list[Problem] = []
    for index, (row, place) in enumerate(zip(rows.rows, rows.places, strict=True)):
        number = row.get("task_id") if collection == "mbpp" else index
        if collection == "mbpp" and number not in MBPP_IDS[split]:
            continue
        item, name = READERS[collection](row, place), f"code/{collection}/{split}/{number}"
        prompt = TEMPLATES[collection].fill(item.question)
        problems.append(Problem(id=name, prompt=prompt, reference=item.gold, meta=item.meta))
    if not problems:
        ids = MBPP_IDS[split]
        raise DataError(f"{rows.origin}: no {split} problem; MBPP's have a task_id from {ids[0]} to {ids[-1]}")
    return rows, problems


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
    return Item(question=prompt, gold=reference(tests, solution), meta={"name": text_field(row, place, "task_id")})


def mbpp(row: Row, place: str) -> Item:
    """A row of MBPP (arXiv:2108.07732): a sentence, and assertions, of which the prompt shows the first.

    {"task_id": 601, "text": "Write a function to ...", "code": "def f(a): ...", "test_setup_code": "",
    "test_list": ["assert f(1) == 2", ...], "challenge_test_list": []}

    The sanitized rows have "prompt" and "test_imports" in place of "text" and "test_setup_code".
    A completion fitted to the shown assertion cannot pass the others; a row with one assertion shows none.
    """
    text, tests = text_field(row, place, "text", "prompt"), row.get("test_list")
    if not isinstance(tests, list) or not tests or not all(isinstance(t, str) for t in tests):
        raise DataError(f"{place}: no tests: 'test_list' must be a list of assertions")
    if why := next(filter(None, map(unfit, tests)), None):
        raise DataError(f"{place}: {why}")
    shown = min(1, len(tests) - 1)
    code, setup = text_field(row, place, "code"), _setup(row, place)
    name = _called(tests[0], code, place)
    example = f" For example:\n\n{tests[0]}" if shown else ""
    asserts = Asserts(asserts=tests, setup=setup, shown=shown)
    question = f"{text}\n\nCall the function {name}.{example}"
    return Item(question=question, gold=reference(asserts, code))


def _called(test: str, code: str, place: str) -> str:
    """The function that the prompt names: the first in the test that the row's code defines, else the first called."""
    names = [found[0] for found in NAME.finditer(test)]
    if not names:
        raise DataError(f"{place}: the first test calls no function")
    return next((name for name in names if re.search(rf"^def\s+{name}\b", code, re.MULTILINE)), names[0])


def _setup(row: Row, place: str) -> str:
    imports = row.get("test_imports")
    if imports is None:
        return text_field(row, place, "test_setup_code")
    if not isinstance(imports, list) or not all(isinstance(line, str) for line in imports):
        raise DataError(f"{place}: field 'test_imports' must be a list of import lines")
    return "\n".join(imports)


def small_function(row: Row, place: str) -> Item:
    """A row of `tasks.procedural.functions`: the sentence says all, and no test is shown."""
    tests = Asserts(asserts=row["test_list"])
    meta = {"kind": row["kind"], "steps": row["steps"]}
    return Item(question=text_field(row, place, "text"), gold=reference(tests, row["code"]), meta=meta)


READERS: Mapping[Collection, Callable[[Row, str], Item]] = {
    "functions": small_function,
    "mbpp": mbpp,
    "humaneval": humaneval,
}


def _rows(collection: Collection, split: Split, data: Path | Literal["hub"] | None, seed: int) -> Rows:
    if collection == "functions":
        made: list[Row] = list(functions.function_rows(split, seed=seed))
        places = [f"functions[{i}]" for i in range(len(made))]
        return Rows(rows=made, origin="procedural", sha256=sources.canonical_sha256(made), places=places)
    if collection == "humaneval" and split != "test":
        raise DataError("HumanEval has a test split only; for training use --task.dataset mbpp or --source procedural")
    hub = (*HUB[collection], split)
    if data == "hub":
        return sources.load_rows("hub", name="code", split=split, data=None, hub=hub)
    return sources.load_rows("path", name="code", split=FILES[collection], data=data, hub=hub)
