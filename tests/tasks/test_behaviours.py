"""Reasoning behaviours, read exactly on countdown: thoughts labelled by hand, and searches with planted behaviours."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.report import behaviours
from tasks import TASKS
from tasks.behaviours import BEHAVIOURS, by_words, equations, observed, on_countdown
from tasks.core import Problem

ZERO = dict.fromkeys(BEHAVIOURS, 0)


def seen(numbers: list[int], target: int, thought: str) -> dict[str, int]:
    """The behaviours that occur."""
    counts = on_countdown(numbers, target, f"<think>{thought}</think>\\boxed{{1+1}}")
    return {name: count for name, count in counts.items() if count}


def test_chains_and_neighbours_are_read_as_single_calculations() -> None:
    found = [(e.used, e.result) for e in equations("4+15=19+10=29 no 4*15=60+10=70 yes 3 + 4 = 7 7*2=14. (1+2)*3=9")]
    assert found == [
        ((4, 15), 19),
        ((19, 10), 29),
        ((4, 15), 60),
        ((60, 10), 70),
        ((3, 4), 7),
        ((7, 2), 14),
        ((1, 2, 3), 9),
    ]


@pytest.mark.parametrize(
    ("thought", "expected"),
    [
        ("", {}),
        ("4*15=60+10=70", {}),
        ("4*15=60. 60+10=70.", {}),
        ("4*15=60+10=70 yes", {"verification": 1}),
        ("4+15=19+10=29 no 4*15=60+10=70 yes", {"verification": 2, "backtracking": 1}),
        ("4+15=19. 19+10=29, which is not 70. 4*15=60. 60+10=70.", {"verification": 1, "backtracking": 1}),
        ("4+15=19+10=29 < 70, so 4*15=60+10=70", {"verification": 1, "backtracking": 1}),
        # back to the state after the first equation, not to the beginning
        ("4*15=60. 60-10=50. Or 60+10=70.", {"backtracking": 1}),
        # made once more after it was reached: a check, not another path
        ("4*15=60. 60+10=70. Check: 4*15=60, 60+10=70.", {"verification": 1}),
        ("4*15=60. 60+10=70. So 4*15+10=70.", {"verification": 1}),
        ("I need 60 first. 4*15=60. 60+10=70.", {"subgoals": 1}),
        ("I need 61 first. 4*15=60. 60+10=70.", {}),
        ("With 4, 15 and 10 to 70: 4*15=60. 60+10=70.", {}),  # what is given is no goal
        ("70-10=60. 4*15=60. 60+10=70.", {"backward_chaining": 1, "subgoals": 1}),
        ("70-15=55.", {"backward_chaining": 1}),
        ("8*8=64. 4+15=19.", {}),  # numbers that are not there are part of no search
    ],
)
def test_thoughts_labelled_by_hand(thought: str, expected: dict[str, int]) -> None:
    assert seen([4, 15, 10], 70, thought) == expected


def test_a_target_among_the_numbers_is_used_as_a_number() -> None:
    assert seen([10, 5, 5], 10, "10+5=15. 15-5=10.") == {}


def test_the_answer_itself_is_not_read() -> None:
    assert on_countdown([1, 2], 3, "<think>1*2=2 no</think>\\boxed{1+2=3}") == ZERO | {"verification": 1}
    assert on_countdown([1, 2], 3, "\\boxed{1+2=3}") == ZERO


@given(st.text(max_size=200) | st.text(alphabet="0123456789+-*/=() .yesno", max_size=200))
def test_every_text_is_read(text: str) -> None:
    counts = on_countdown([4, 15, 10], 70, text)
    assert all(counts[name] >= 0 for name in BEHAVIOURS)


@given(st.integers(0, 10**6))
def test_planted_behaviours_are_found_to_the_last_one(seed: int) -> None:
    """Paths over three numbers: each is begun anew, judged or not, prepared by a subgoal or not, as a draw says."""
    rng = random.Random(seed)
    numbers, target = rng.sample(range(2, 40), 3), 5000
    planted, parts, known = dict(ZERO), list[str](), {*numbers, target}
    for path in range(rng.randint(1, 4)):
        a, b, c = rng.sample(numbers, 3)
        first = a * b if rng.random() < 0.5 else a + b
        if rng.random() < 0.5 and first not in known:
            parts.append(f"I want {first}.")
            planted["subgoals"] += 1
        last = first + c
        parts.append(f"{a}{'*' if first == a * b else '+'}{b}={first}. {first}+{c}={last}")
        known |= {first, last}
        planted["backtracking"] += path > 0
        if rng.random() < 0.5:
            parts.append(rng.choice(("no,", "is not 5000.", "< 5000.")))
            planted["verification"] += 1
        else:
            parts.append(".")
    if rng.random() < 0.5:
        parts.append(f"{target}-{numbers[0]}={target - numbers[0]}.")
        planted["backward_chaining"] += 1
    assert on_countdown(numbers, target, " ".join(parts)) == planted


def test_words_are_counted_whole_and_in_either_case() -> None:
    assert by_words("Wait, let me check: a mistake. Await the butler. Working backwards, first 3.") == {
        "verification": 1,
        "backtracking": 2,
        "subgoals": 1,
        "backward_chaining": 1,
    }


def test_a_task_that_can_be_read_exactly_is() -> None:
    problem = Problem(id="x", prompt="Make 70 from 4 15 10.", reference="70: 4 15 10")
    text = "<think>4+15=19+10=29 no wait 4*15=60+10=70 yes</think>\\boxed{4*15+10}"
    assert observed(TASKS["countdown"](), problem, text)["backtracking"] == 1
    assert observed(TASKS["countdown"](), problem, text)["verification"] == 2
    assert observed(TASKS["gsm8k"](), problem, text) == by_words(text)


def test_reports_read_the_names_that_runs_record() -> None:
    assert behaviours.BEHAVIOURS == BEHAVIOURS
