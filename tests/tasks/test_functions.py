"""The procedural source of programs: right by construction, graded by tests that tell wrong ones apart."""

import ast
import random

import pytest

from tasks.core import SPLITS, Split
from tasks.procedural.functions import NUM_TESTS, Function, function_rows, functions


def run(code: str, tests: list[str]) -> list[bool]:
    """Which tests our own code passes (trusted text: no sandbox)."""
    space: dict[str, object] = {}
    exec(code, space)
    passed: list[bool] = []
    for test in tests:
        try:
            exec(test, space)
            passed.append(True)
        except AssertionError:
            passed.append(False)
    return passed


def test_a_function_reads_as_it_computes() -> None:
    function = Function(kind="sum", times=2, offset=3)
    assert function.text == "Write f(x, y) that returns twice the sum of x and y, plus 3."
    assert function.code == "def f(x, y):\n    return 2*(x+y)+3"
    assert Function(kind="last", names=("a", "b"), offset=-4).code == "def f(a):\n    return a[-1]-4"


@pytest.mark.parametrize("split", SPLITS)
def test_every_reference_passes_its_own_tests(split: Split) -> None:
    for row in function_rows(split):
        assert run(str(row["code"]), row["test_list"]) == [True] * NUM_TESTS, row["text"]  # pyright: ignore


def test_a_misread_function_fails_hidden_tests() -> None:
    """Each reading wrong by one step differs from the right one on at least one test."""
    for row, function in list(zip(function_rows("test"), functions("test"), strict=True))[:200]:
        for times, offset in ((function.times + 1, function.offset), (function.times, function.offset + 1)):
            wrong = Function(kind=function.kind, times=times, offset=offset, names=function.names)
            assert not all(run(wrong.code, row["test_list"])), (row["text"], wrong.code)  # pyright: ignore


def test_splits_share_no_function_and_no_text() -> None:
    keys = [{(f.kind, f.times, f.offset) for f in functions(split)} for split in SPLITS]
    texts = [{row["text"] for row in function_rows(split)} for split in SPLITS]
    for one, other in ((0, 1), (0, 2), (1, 2)):
        assert not keys[one] & keys[other]
        assert not texts[one] & texts[other]


def test_rows_depend_on_the_seed_only() -> None:
    first = function_rows("train", seed=1)
    random.seed(7)
    function_rows("validation", seed=5)
    assert function_rows("train", seed=1) == first
    assert function_rows("train", seed=1) != function_rows("train", seed=2)
    assert all(isinstance(ast.parse(str(row["code"])), ast.Module) for row in function_rows("validation"))
