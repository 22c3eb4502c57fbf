import hashlib
import json
import re
from fractions import Fraction
from itertools import islice
from typing import get_args

import pytest

from tasks.core import DataError, Split
from tasks.procedural import word_problems
from tasks.procedural.story import Dice, Difficulty, Story, calculate
from tasks.procedural.word_problems import SIZES, split_of, stream_of_problems, word_problem_rows, worked_solution

CALCULATION = re.compile(r"<<(\d+)([-+*/])(\d+)=(\d+)>>")
Made = dict[str, list[dict[str, str]]]
DIGESTS = {"train": "ff6e13273e2a8229", "validation": "4af79b40963a06d4", "test": "446d70f9df8f6759"}
OPERATIONS = {
    "+": lambda a, b: a + b,
    "-": lambda a, b: a - b,
    "*": lambda a, b: a * b,
    "/": lambda a, b: Fraction(a, b),
}


@pytest.fixture(scope="module")
def made() -> Made:
    return {split: word_problem_rows(split) for split in get_args(Split)}


def test_sizes_and_no_question_twice_within_or_across_splits(made: Made) -> None:
    questions = [row["question"] for split in made for row in made[split]]
    assert {split: len(found) for split, found in made.items()} == SIZES
    assert len(set(questions)) == len(questions) == 22_000


def test_splits_stay_disjoint_whatever_the_seeds(made: Made) -> None:
    train = {row["question"] for row in made["train"]}
    for seed in (1, 2, 3):
        assert not train & {row["question"] for row in word_problem_rows("test", seed)}
    assert all(split_of(row["question"]) == split for split in made for row in made[split])


def test_every_worked_line_is_true_and_the_last_is_the_answer(made: Made) -> None:
    hard = word_problem_rows(
        "test", 5, Difficulty(min_steps=2, max_steps=12, max_start=500, max_change=90, max_rate=40, num_misleading=3)
    )
    for row in [*made["test"], *made["validation"], *made["train"][:3000], *hard]:
        *lines, last = row["answer"].split("\n")
        results = []
        for line in lines:
            left, op, right, result = CALCULATION.search(line).groups()
            assert OPERATIONS[op](int(left), int(right)) == int(result) >= 0, row
            assert f">>{result} " in line
            results.append(int(result))
        assert last == f"#### {results[-1]}"


def test_numbers_come_from_the_text_or_from_an_earlier_line(made: Made) -> None:
    words = {"doubles": 2, "twice": 2, "triples": 3, "three": 3}
    for row in made["test"]:
        known = {int(n) for n in re.findall(r"\d+", row["question"])}
        known |= {n for word, n in words.items() if word in row["question"].split()}
        for left, _, right, result in CALCULATION.findall(row["answer"]):
            assert {int(left), int(right)} <= known, row
            known.add(int(result))


def test_a_shop_told_and_solved_by_hand() -> None:
    story = Story(Dice("any"), Difficulty(), "dollars", ["Mia"])
    story.sentences = ["Mia buys 3 pencils for 4 dollars each.", "Mia pays with 20 dollars."]
    cost = story.calculate(3, "*", 4, "price")
    story.calculate(20, "-", cost, "change")
    problem = story.finish("How many dollars does Mia get back?")
    assert problem.answer == 8
    assert (
        worked_solution(problem)
        == "That comes to 3*4=<<3*4=12>>12 dollars\nThat leaves 20-12=<<20-12=8>>8 dollars\n#### 8"
    )
    assert (cost.value, cost.step) == (12, 0)


def test_the_same_on_every_machine(made: Made) -> None:
    digests = {
        split: hashlib.sha256("\n".join(json.dumps(row) for row in made[split]).encode()).hexdigest()[:16]
        for split in made
    }
    assert digests == DIGESTS


def test_seeds_differ(made: Made) -> None:
    assert word_problem_rows("test", 1) != made["test"]
    assert word_problem_rows("test", 0) == made["test"]


@pytest.mark.parametrize("steps", [(2, 2), (3, 5), (7, 12)])
def test_the_dial_sets_the_number_of_steps(steps: tuple[int, int]) -> None:
    found = [
        len(p.steps)
        for p in islice(stream_of_problems("train", 0, Difficulty(min_steps=steps[0], max_steps=steps[1])), 3000)
    ]
    assert (min(found), max(found)) == steps


def test_the_dial_sets_the_sizes_of_numbers() -> None:
    def largest(**dial: int) -> int:
        problems = islice(stream_of_problems("train", 0, Difficulty(**dial)), 2000)
        return max(int(n) for p in problems for n in re.findall(r"\d+", p.question))

    assert largest(max_start=10, max_change=5, max_rate=4) < largest() < largest(max_start=300, max_change=100)


def test_misleading_facts_are_told_and_never_used() -> None:
    for problem in islice(stream_of_problems("train", 0, Difficulty(num_misleading=2)), 500):
        assert len(problem.misleading) == 2
        for number in problem.misleading:
            assert re.search(rf"\b{number}\b", problem.question)
    plain, misled = (next(stream_of_problems("train", 0, Difficulty(num_misleading=n))) for n in (0, 2))
    assert len(re.findall(r"\d+", misled.question)) >= len(misled.misleading)
    assert not plain.misleading


@pytest.mark.parametrize("dial", [{"min_steps": 1}, {"min_steps": 4, "max_steps": 3}, {"max_rate": 1}])
def test_a_dial_that_makes_no_sense_is_refused(dial: dict[str, int]) -> None:
    with pytest.raises(DataError, match=r"steps|max_rate"):
        Difficulty(**dial)


def test_too_few_different_problems_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    problem = next(stream_of_problems("test", 0, Difficulty()))
    monkeypatch.setattr(word_problems, "STORIES", (lambda *_: problem,))
    with pytest.raises(DataError, match="allows only 1 different test problems"):
        word_problem_rows("test")


def test_calculate() -> None:
    assert [calculate(12, op, 3) for op in "+-*/"] == [15, 9, 36, 4]
