r"""Countdown: reach a target from given numbers by + - * / (the task of TinyZero and of arXiv:2512.07611).

    {"target": 98, "nums": [44, 19, 35]}        an answer: \boxed{44 + 19 + 35}

An answer may end in `= 98`. It is parsed, never evaluated by Python, and computed in exact fractions.
"""

import random
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar

from tasks import answers, arithmetic
from tasks.core import DataError, Problem, Score, Split
from tasks.dataset import SIZES, DataTask, Hub, Item, Template, split_rows
from tasks.procedural import countdown as countdown_rows
from tasks.sources import Row

_HUB = "Jiayi-Pan/Countdown-Tasks-3to4"  # has one split; TinyZero's cut of it


@dataclass(frozen=True, kw_only=True)
class Countdown(DataTask):
    """Numbers to a target."""

    NAME: ClassVar[str] = "countdown"
    HUB: ClassVar[Mapping[str, Hub]] = {
        "train": (_HUB, None, "train[:327680]"),
        "test": (_HUB, None, "train[327680:328704]"),
    }
    BOXED: ClassVar[Template] = Template(
        version=1,
        text="{question} Each number may be used once, with + - * / and parentheses.\n\n"
        "Think inside <think> and </think>, then give one expression in \\boxed{}.",
    )

    use_all: bool = True
    """Whether every number must be used; otherwise each at most once."""
    difficulty: countdown_rows.Difficulty = field(default_factory=countdown_rows.Difficulty)
    """How hard the procedural problems are."""

    def procedural(self, split: Split) -> Sequence[Row]:
        draw = random.Random(f"countdown {split} {self.seed}")
        return split_rows(self, split, countdown_rows.countdown_rows(draw, self.difficulty), SIZES[split])

    def item(self, row: Row, place: str) -> Item:
        numbers, target = row.get("nums", row.get("numbers")), row.get("target")
        if not isinstance(numbers, list | tuple) or not numbers or not all(_whole(n) for n in numbers):
            raise DataError(f"{place}: field 'nums' must be a list of whole numbers")
        if not _whole(target):
            raise DataError(f"{place}: field 'target' must be a whole number")
        listed = " ".join(map(str, numbers))
        question = f"Make {target} from {listed}."
        return Item(question=question, gold=f"{target}: {listed}", key=f"{target}: {sorted(numbers)}")

    def score(self, problem: Problem, completion: str) -> Score:
        target, _, listed = problem.reference.partition(":")
        reading = answers.read_answer(completion, think_opened=self.think_opened, markers=False)
        boxed = reading.text if reading.rule == "box" else None
        try:
            value, used = arithmetic.evaluate(boxed or "")
        except ValueError as error:
            reason = "no-answer" if boxed is None else str(error)
            return answers.score_answer(reading, self.weights, correct=False, answer=boxed, error=reason)
        given, spent = Counter(map(int, listed.split())), Counter(used)
        allowed = spent == given if self.use_all else spent <= given
        correct = allowed and value == int(target)
        return answers.score_answer(reading, self.weights, correct=correct, answer=boxed, error=None)


def _whole(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)
