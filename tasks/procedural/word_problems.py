r"""Seeded arithmetic word problems in the row format of GSM8K, written without end and needing no download.

    {"question": "Mia has 12 coins. Then Mia sells 5 coins. How many coins does Mia have now?",
     "answer": "That leaves 12-5=<<12-5=7>>7 coins\n#### 7"}

A question's text decides its split (by its checksum), so train, validation and test share no question, whatever
their seeds. Only `random()` is drawn, which Python promises to keep the same over versions and machines.
"""

import zlib
from collections.abc import Iterator

from tasks.core import DataError, Split
from tasks.procedural.stories import STORIES
from tasks.procedural.story import Dice, Difficulty, WordProblem, calculate

SIZES: dict[Split, int] = {"train": 20_000, "validation": 1_000, "test": 1_000}
LINES = {"+": "That makes", "-": "That leaves", "*": "That comes to", "/": "Each part is"}


def word_problem_rows(split: Split, seed: int = 0, difficulty: Difficulty = Difficulty()) -> list[dict[str, str]]:  # noqa: B008 (frozen)
    """`SIZES[split]` different rows, {"question", "answer"}; the same on every machine.

    Raises:
        DataError: the difficulty does not allow so many different problems.
    """
    found: dict[str, dict[str, str]] = {}
    for tries, problem in enumerate(stream_of_problems(split, seed, difficulty)):
        found.setdefault(problem.question, {"question": problem.question, "answer": worked_solution(problem)})
        if len(found) == SIZES[split]:
            break
        if tries > 20 * SIZES[split]:
            raise DataError(f"the difficulty allows only {len(found)} different {split} problems; raise its limits")
    return list(found.values())


def stream_of_problems(split: Split, seed: int, difficulty: Difficulty) -> Iterator[WordProblem]:
    """Problems of one split without end, repeats included."""
    dice = Dice(f"word problems/{split}/{seed}")
    while True:
        problem = dice.pick(STORIES)(dice, difficulty, dice.number(difficulty.min_steps, difficulty.max_steps))
        if split_of(problem.question) == split:
            yield problem


def split_of(question: str) -> Split:
    """The split a question belongs to: three in four are for training, one in eight each for validation and test."""
    return ("validation", "test", *["train"] * 6)[zlib.crc32(question.encode()) % 8]  # type: ignore[return-value]


def worked_solution(problem: WordProblem) -> str:
    """The answer field: one line a step with GSM8K's <<calculation>>, then `#### N`."""
    lines: list[str] = []
    for left, op, right, _ in problem.steps:
        text, result = f"{left.value}{op}{right.value}", calculate(left.value, op, right.value)
        lines.append(f"{LINES[op]} {text}=<<{text}={result}>>{result} {problem.unit}")
    return "\n".join([*lines, f"#### {problem.answer}"])
