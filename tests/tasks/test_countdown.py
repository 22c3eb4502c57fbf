"""Countdown: arithmetic by hand, and what an answer may use."""

import contextlib
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tasks import arithmetic
from tasks.core import DataError, Problem
from tasks.countdown import Countdown


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1+2*3", 7),
        ("(1+2)*3", 9),
        ("8/3/2", "4/3"),
        ("10-4-3", 3),
        ("8/(3-8/3)", 24),
        ("44 + 19 + 35 = 98", 98),
        ("6 \\times 4 \\div 2", 12),
        ("6 \u00d7 4 \u2212 2", 22),
        ("\\frac{6}{4} \\cdot 2", 3),
        ("\\left(1+2\\right)\\cdot 3", 9),
    ],
)
def test_value(text: str, value: int | str) -> None:
    assert arithmetic.evaluate(text)[0] == Fraction(value)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "unparseable"),
        ("1+", "unparseable"),
        ("(1+2", "unparseable"),
        ("1 2", "unparseable"),
        ("2**3", "unparseable"),
        ("2^3", "unparseable"),
        ("-1+2", "unparseable"),
        ("1.5+2", "unparseable"),
        ("7//2", "unparseable"),
        ("5%3", "unparseable"),
        ("abs(3)", "unparseable"),
        ("__import__('os').system('true')", "unparseable"),
        ("(" * 5000, "unparseable"),
        ("1" * 100, "unparseable"),
        ("3/(2-2)", "division by zero"),
        ("1+2=4", "false equation"),
        ("1+2=3=4", "false equation"),
    ],
)
def test_what_is_no_arithmetic(text: str, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        arithmetic.evaluate(text)


TREES = st.recursive(
    st.integers(1, 50).map(str),
    lambda inner: st.tuples(inner, st.sampled_from("+-*/"), inner).map(lambda p: f"({p[0]}{p[1]}{p[2]})"),
    max_leaves=8,
)


@given(TREES)
def test_values_are_those_of_exact_fractions(tree: str) -> None:
    numbers = [int(n) for n in tree.translate(str.maketrans("+-*/()", "      ")).split()]
    exact = "".join(f" Fraction({part}) " if part.isdigit() else part for part in _parts(tree))
    try:
        expected = eval(exact, {"Fraction": Fraction})
    except ZeroDivisionError:
        with pytest.raises(ValueError, match="division by zero"):
            arithmetic.evaluate(tree)
    else:
        assert arithmetic.evaluate(tree) == (expected, numbers)


def _parts(tree: str) -> list[str]:
    spaced = "".join(f" {char} " if char in "+-*/()" else char for char in tree)
    return spaced.split()


@given(st.text(max_size=60) | st.lists(st.sampled_from("0123456789+-*/()= "), max_size=60).map("".join))
def test_any_text_has_a_value_or_a_reason(text: str) -> None:
    with contextlib.suppress(ValueError):
        assert isinstance(arithmetic.evaluate(text)[0], Fraction)


PROBLEM = Problem(id="p", prompt="", reference="24: 4 6 6")


@pytest.mark.parametrize(
    ("answer", "all_used", "at_most_once"),
    [
        ("4*6", False, True),
        ("6*4+6-6", False, False),  # 6 three times
        ("4*6*6/6", False, False),
        ("6+6*4", False, False),  # 30
        ("6*6-4*3", False, False),  # 3 is not given
        ("(6+6)*4/2", False, False),
        ("6/6*4", False, False),  # all used, but 4
    ],
)
def test_each_number_at_most_once(answer: str, all_used: bool, at_most_once: bool) -> None:
    text = f"<think></think>\\boxed{{{answer}}}"
    assert Countdown().score(PROBLEM, text).correct == all_used
    assert Countdown(use_all=False).score(PROBLEM, text).correct == at_most_once


def test_a_given_number_may_be_used_as_often_as_it_is_given() -> None:
    problem = Problem(id="p", prompt="", reference="16: 4 6 6")
    score = Countdown().score(problem, "<think></think>\\boxed{6 + 6 + 4 = 16}")
    assert (score.correct, score.format_ok, score.answer, score.error) == (True, True, "6 + 6 + 4 = 16", None)
    assert not Countdown().score(problem, "6 + 6 + 4 = 16").correct  # not in a box: not an answer
    assert Countdown().score(problem, "\\boxed{6+6+}").error == "unparseable"
    assert Countdown().score(problem, "\\boxed{}").error == "no-answer"


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ({"target": 3}, "p:1: field 'nums' must be a list of whole numbers"),
        ({"target": 3, "nums": [1, "2"]}, "p:1: field 'nums' must be a list of whole numbers"),
        ({"target": 3.5, "nums": [1, 2]}, "p:1: field 'target' must be a whole number"),
    ],
)
def test_malformed_rows(row: dict[str, object], message: str) -> None:
    with pytest.raises(DataError, match=message):
        Countdown().item(row, "p:1")


def test_the_same_numbers_in_another_order_are_the_same_problem() -> None:
    one, other = {"target": 98, "nums": [44, 19, 35]}, {"target": 98, "nums": [35, 44, 19]}
    assert Countdown().item(one, "").identity == Countdown().item(other, "").identity
    assert Countdown().item(one, "").question == "Make 98 from 44 19 35."
