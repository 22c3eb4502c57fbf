"""Chains of look-ups: what is right, and where it pays."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tasks.chain import COLUMNS, KEYS, LABELS, Chain
from tasks.core import SPLITS, Score

FOUR = Chain(steps=4)
PROBLEM = FOUR.problems("train")[0]
RIGHT = PROBLEM.reference


def spoilt(*steps: int) -> str:
    """The right answer with another letter in these steps."""
    pieces = RIGHT.split(";")
    for i in steps:
        pieces[i] = pieces[i][:-1] + ("A" if pieces[i][-1] != "A" else "B")
    return ";".join(pieces)


def test_a_right_answer_pays_a_share_at_each_semicolon() -> None:
    found = FOUR.score(PROBLEM, RIGHT)
    assert found.correct
    assert found.reward == 1
    assert found.earned == tuple((9 * i, 0.25) for i in range(1, 5))  # " Aa ko F;" has nine characters
    assert all(RIGHT[end - 1] == ";" for end, _ in found.earned)


def test_a_wrong_step_is_paid_nothing_and_costs_no_other() -> None:
    found = FOUR.score(PROBLEM, spoilt(1, 2))
    assert [amount for _, amount in found.earned] == [0.25, 0, 0, 0.25]
    assert (found.reward, found.correct, found.format_ok) == (0.5, False, True)


@pytest.mark.parametrize(
    ("pay", "answer", "reward"), [("end", spoilt(3), 0.75), ("all", spoilt(3), 0.0), ("all", RIGHT, 1.0)]
)
def test_the_other_payments_come_at_the_end(pay: str, answer: str, reward: float) -> None:
    task = replace(FOUR, pay=pay)  # type: ignore[arg-type]
    found = task.score(PROBLEM, answer)
    assert (found.reward, found.earned) == (reward, ())
    assert not task.pays_as_earned


@pytest.mark.parametrize(
    ("answer", "paid"),
    [
        ("", []),
        (RIGHT[:-1], [0.25, 0.25, 0.25]),  # the last semicolon is missing
        (RIGHT + " Ea ko F;", [0.25] * 4),  # a step too many is not paid, and the whole is not right
        (RIGHT[9:], [0, 0, 0]),
    ],
)
def test_what_is_malformed_is_not_correct(answer: str, paid: list[float]) -> None:
    found = FOUR.score(PROBLEM, answer)
    assert [amount for _, amount in found.earned] == paid
    assert not found.correct
    assert not found.format_ok


@given(st.text(alphabet=" ABCabko;\n", max_size=60))
def test_payments_lie_within_any_text_and_add_up(text: str) -> None:
    found = FOUR.score(PROBLEM, text)
    assert all(1 <= end <= len(text) for end, _ in found.earned)
    assert sum(amount for _, amount in found.earned) == pytest.approx(found.reward)


@pytest.mark.parametrize("steps", [2, 16, 64])
def test_a_problem_asks_different_keys_and_splits_share_none(steps: int) -> None:
    task = Chain(steps=steps)
    prompts = [{p.prompt for p in task.problems(split)} for split in SPLITS]
    assert not prompts[0] & prompts[1] | prompts[0] & prompts[2] | prompts[1] & prompts[2]
    for problem in task.problems("test")[:20]:
        words = problem.prompt.split(":")[1].split()
        assert words[::2] == list(LABELS[:steps])
        assert len(set(words[1::2])) == steps
        assert task.score(problem, problem.reference) == Score(
            reward=pytest.approx(1), correct=True, format_ok=True, answer=problem.reference,
            earned=tuple((9 * i, 1 / steps) for i in range(1, steps + 1)),
        )  # fmt: skip


def test_each_letter_stands_for_as_many_keys() -> None:
    assert len(set(KEYS)) == 128
    for letters in ([*column.values()] for column in COLUMNS):
        assert sorted(letters.count(letter) for letter in set(letters)) == [8] * 16


@pytest.mark.parametrize("steps", [1, 65])
def test_a_length_that_cannot_be_is_refused(steps: int) -> None:
    with pytest.raises(ValueError, match="steps must lie between 2 and 64"):
        Chain(steps=steps)
