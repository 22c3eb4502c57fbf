"""The policy is the table in docs/verifier.md: each of its rules is judged here, and so are values in every form."""

import html
import json
import re
from fractions import Fraction
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tasks import latex, numerals
from tasks.competition_math import CompetitionMath
from tasks.core import Problem, Task
from tasks.countdown import Countdown
from tasks.gsm8k import Gsm8k
from tasks.logic import Logic
from tests.shared import SHARED, needs_shared

DOCUMENT = Path(__file__).resolve().parents[2] / "docs" / "verifier.md"
TASKS: dict[str, Task] = {"gsm8k": Gsm8k(), "math": CompetitionMath(), "countdown": Countdown(), "logic": Logic()}


def rules() -> list[list[str]]:
    section = DOCUMENT.read_text(encoding="utf-8").split("## Each rule by an example")[1].split("\n## ")[0]
    lines = [line for line in section.splitlines() if line.startswith("|")][2:]
    cells = [re.split(r"(?<!\\)\|", line)[1:-1] for line in lines]
    return [[html.unescape(cell.strip().strip("`").replace("\\|", "|")) for cell in row] for row in cells]


def correct(task: str, gold: str, answer: str) -> bool:
    if task == "logic":
        puzzle = "aiw" if gold.isdecimal() else "syllogism"
        gold = json.dumps({"answer": gold, "metadata": {"source_dataset": puzzle}})
    return TASKS[task].score(Problem(id="p", prompt="", reference=gold), f"\\boxed{{{answer}}}").correct


@pytest.mark.parametrize(("task", "rule", "gold", "right", "wrong"), rules())
def test_each_rule_accepts_and_rejects(task: str, rule: str, gold: str, right: str, wrong: str) -> None:
    assert correct(task, gold, right), f"{rule}: {right} should be right"
    assert not correct(task, gold, wrong), f"{rule}: {wrong} should be wrong"


def test_every_task_has_rules() -> None:
    assert {row[0] for row in rules()} == set(TASKS)


# --- values in every written form ------------------------------------------------------------------------------


def grouped(value: Fraction, comma: str) -> str:
    return f"{value.numerator:,}".replace(",", comma)


def written(value: Fraction) -> list[str]:
    """Every way of writing a value that both readers take."""
    over = f"{value.numerator}/{value.denominator}"
    sign, size = "-" if value < 0 else "", abs(value)
    forms = [
        f"\\frac{{{value.numerator}}}{{{value.denominator}}}",
        f"{sign}\\dfrac{{{size.numerator}}}{{{size.denominator}}}",
    ]
    if value.denominator == 1:
        commas = (",", "{,}", ",\\!", ",\\! ", "\\,", " ")
        forms = [over.partition("/")[0], *(grouped(value, comma) for comma in commas), f"{value.numerator}.0"]
    elif 10**6 % value.denominator == 0:
        forms.append(f"{float(value):.6f}")
    whole, rest = divmod(size, 1)
    if whole and rest:
        forms.append(f"{sign}{whole}\\frac{{{rest.numerator}}}{{{rest.denominator}}}")
    dressed = [
        "{}",
        "\\textcolor{{red}}{{{}}}",
        "\\underline{{{}}}",
        "**{}**",
        "\u200b{}",
        "\\left({}\\right)",
        "x = {}",
    ]
    every = [dress.format(form) for form in forms for dress in dressed]
    return [text for text in every if not re.fullmatch(r"\\left\([-0-9,]*,[0-9,]*\\right\)", text)]  # that is a pair


VALUES = st.one_of(
    st.integers(-30, 30).map(Fraction),
    st.integers(-(10**7), 10**7).map(Fraction),
    st.fractions(-50, 50, max_denominator=12),
    st.integers(-5000, 5000).map(lambda n: Fraction(n, 100)),
)


@given(VALUES, st.data())
def test_two_ways_of_writing_a_value_are_equal(value: Fraction, data: st.DataObject) -> None:
    one, other = (data.draw(st.sampled_from(written(value))) for _ in range(2))
    assert numerals.number_in(one) == value, one
    assert latex.compare_latex(one, other).equal, (one, other)


@settings(max_examples=200, deadline=None)
@given(VALUES, VALUES, st.data())
def test_no_two_different_values_are_equal_however_written(a: Fraction, b: Fraction, data: st.DataObject) -> None:
    one, other = data.draw(st.sampled_from(written(a))), data.draw(st.sampled_from(written(b)))
    assert latex.compare_latex(one, other).equal == (a == b), (one, other)
    assert (numerals.number_in(one) == numerals.number_in(other)) == (a == b), (one, other)


NUMBERS = st.integers(-20, 20)
OBJECTS = st.one_of(
    NUMBERS.map(lambda n: ("number", n)),
    st.tuples(NUMBERS, NUMBERS).map(lambda p: ("pair", p)),
    st.frozensets(NUMBERS, min_size=2, max_size=3).map(lambda p: ("set", p)),
    st.tuples(NUMBERS, NUMBERS).filter(lambda p: p[0] < p[1]).map(lambda p: ("closed", p)),
    NUMBERS.map(lambda n: ("sum of unknowns", n)),
    st.tuples(st.sampled_from("ABC"), st.sampled_from("+-"), st.sampled_from("DEF")).map(lambda p: ("letters", p)),
    st.sampled_from("ABCDEF").map(lambda p: ("choice", p)),
    NUMBERS.map(lambda n: ("text", n)),
)
SPACE = st.sampled_from(["", " ", "\\,", "\\ ", "\\quad "])


def as_latex(kind: str, value: object, space: str) -> str:
    listed = f",{space}".join(map(str, value)) if isinstance(value, tuple | frozenset) else str(value)
    return {
        "number": listed,
        "pair": f"({listed})",
        "set": f"\\{{{listed}\\}}",
        "closed": f"[{listed}]",
        "sum of unknowns": f"x+y{space}={space}{listed}",
        "letters": space.join(map(str, value)) if isinstance(value, tuple) else "",
        "choice": f"\\text{{({listed})}}",
        "text": f"\\text{{{listed} apples}}",
    }[kind]


@settings(max_examples=150, deadline=None)
@given(OBJECTS, OBJECTS, SPACE, SPACE)
def test_no_two_different_objects_are_equal(a: tuple[str, object], b: tuple[str, object], one: str, other: str) -> None:
    assert latex.compare_latex(as_latex(*a, one), as_latex(*b, other)).equal == (a == b)


@given(st.lists(st.integers(0, 99), min_size=2, max_size=4), SPACE.filter(bool), st.integers(0, 9999))
def test_numbers_side_by_side_equal_no_number(parts: list[int], space: str, gold: int) -> None:
    beside = space.join(map(str, parts))
    for number in (gold, sum(parts), int("".join(map(str, parts)))):
        assert not latex.compare_latex(str(number), beside).equal
        assert numerals.number_in(beside) != number


@needs_shared
def test_shared_cases_of_the_second_attack() -> None:
    lines = (SHARED / "cases" / "turn2" / "verifier_cases.jsonl").read_text(encoding="utf-8").splitlines()
    rows = [row for row in map(json.loads, lines) if not row["policy_dependent"]]
    assert {row["task"] for row in rows} == {"gsm8k", "math", "countdown"}
    wrong: list[str] = []
    for row in rows:
        problem = Problem(id=row["id"], prompt="", reference=row["gold"])
        if TASKS[row["task"]].score(problem, row["output"]).correct != row["correct"]:
            wrong.append(row["id"])
    assert not wrong
