"""Logic puzzles by reasoning-gym."""

import json
from pathlib import Path

import pytest

from tasks import puzzles
from tasks.core import DataError, Problem
from tasks.logic import Logic, puzzle_task

KNIGHTS = {"quiz": "Zoe says ...", "names": ["Zoe", "Bo"], "solution_text": "Zoe is a knave, and Bo is a knight."}


def test_the_judge_is_the_library_s() -> None:
    task = Logic()
    entry = {"question": "Yes or no?", "answer": "Yes", "metadata": {"source_dataset": "syllogism"}}
    problem = _problem(task, entry)
    for text, correct in (
        ("\\boxed{Yes}", True),
        ("\\boxed{\\text{Yes}}", True),
        ("\\boxed{No}", False),
        ("Yes", False),
    ):
        assert task.score(problem, f"<think>so</think>{text}").correct == correct
    assert task.score(problem, "\\boxed{Yes and No}").correct is False  # part marks are no marks


def test_a_row_of_the_hub_is_judged_as_the_library_s_puzzle() -> None:
    task = Logic()
    problem = _problem(task, KNIGHTS)
    assert task.score(problem, "\\boxed{Bo is a knight, and Zoe is a knave}").correct
    assert not task.score(problem, "\\boxed{Bo is a knave, and Zoe is a knave}").correct


def test_a_judge_that_evaluates_python_cannot_do_harm(tmp_path: Path) -> None:
    task = Logic()
    entry = {"question": "?", "answer": "x", "metadata": {"source_dataset": "polynomial_multiplication"}}
    attack = f"__import__('os').system('touch {tmp_path}/pwned')"
    score = task.score(_problem(task, entry), f"\\boxed{{{attack}}}")
    assert not score.correct
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("name", ["chain_sum", "knights_knaves", "number_sequence", "graph_color"])
def test_any_puzzle_of_the_library_is_a_task(name: str) -> None:
    task = puzzle_task(f"rg:{name}")
    made = task(num_train=8, num_test=16)
    problems = made.problems("test")
    assert problems[0].id == f"rg:{name}/test/0"
    assert problems[0].meta["puzzle"] == name
    answer = json.loads(problems[0].reference)["answer"]
    if answer is not None:
        assert made.score(problems[0], f"\\boxed{{{answer}}}").correct
    assert not made.score(problems[0], "\\boxed{nonsense}").correct


def test_settings_reach_the_generator() -> None:
    task = puzzle_task("rg:chain_sum")
    small = task(settings=("max_terms=2", "max_digits=1"), num_train=32, num_test=16)
    assert all(len(p.prompt.split(":")[1].split()) == 4 for p in small.problems("test"))  # a + b =


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (("no_such=1",), "does not take these settings"),
        (("max_terms",), "write name=value with the value in JSON"),
        (("max_terms=two",), "the value is not JSON"),
    ],
)
def test_wrong_settings_are_refused(settings: tuple[str, ...], message: str) -> None:
    with pytest.raises(DataError, match=message):
        Logic(puzzles=("chain_sum",), settings=settings).problems("test")


def test_an_unknown_puzzle_is_refused_with_the_nearest_name() -> None:
    with pytest.raises(DataError, match=r"no puzzle 'chainsum'; did you mean chain_sum\?"):
        puzzle_task("rg:chainsum")
    with pytest.raises(DataError, match=r"no puzzle 'silbings'; did you mean siblings\?"):
        Logic(puzzles=("silbings",)).problems("test")


def test_a_row_without_a_judge_is_refused() -> None:
    with pytest.raises(DataError, match="p:1: no metadata with 'source_dataset'"):
        Logic().item({"question": "?", "answer": "!"}, "p:1")


def test_a_gold_that_its_own_judge_refuses_is_found() -> None:
    right = json.dumps({"answer": "5", "metadata": {"source_dataset": "aiw"}})
    assert puzzles.why_refused(right) is None
    assert "refuses the gold" in (puzzles.why_refused(right.replace("aiw", "no_such_judge")) or "")


def _problem(task: Logic, row: dict[str, object]) -> Problem:
    return Problem(id="p", prompt="", reference=task.item(row, "").gold)
