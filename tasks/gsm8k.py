r"""GSM8K: grade-school word problems with whole-number answers (arXiv:2110.14168).

A row of the official files (the solution's last line holds the answer; `<<...>>` are calculator notes):

    {"question": "Natalia sold clips to 48 of her friends in April, ...",
     "answer": "Natalia sold 48/2 = <<48/2=24>>24 clips in May.\n...\n#### 72"}

Accuracy is equality of value with the number after `####`; what is read from a completion: docs/verifier.md.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar

from tasks import answers, numerals
from tasks.core import DataError, Problem, Score, Split
from tasks.dataset import DataTask, Hub, Item, Template
from tasks.procedural import word_problems
from tasks.procedural.story import Difficulty
from tasks.sources import Row, text_field


@dataclass(frozen=True, kw_only=True)
class Gsm8k(DataTask):
    """Grade-school word problems."""

    NAME: ClassVar[str] = "gsm8k"
    HUB: ClassVar[Mapping[str, Hub]] = {
        "train": ("openai/gsm8k", "main", "train"),
        "test": ("openai/gsm8k", "main", "test"),
    }
    BOXED: ClassVar[Template] = Template(
        version=1,
        text="{question}\n\nThink step by step inside <think> and </think>, then give the final number in \\boxed{}.",
    )

    difficulty: Difficulty = field(default_factory=Difficulty)
    """How hard the procedural problems are: steps, sizes of numbers, misleading facts."""

    def procedural(self, split: Split) -> Sequence[Row]:
        return word_problems.word_problem_rows(split, self.seed, self.difficulty)

    def item(self, row: Row, place: str) -> Item:
        question, solution = text_field(row, place, "question"), text_field(row, place, "answer")
        _, mark, gold = solution.rpartition("####")
        if not mark:
            raise DataError(f"{place}: the answer has no line '#### N'")
        return Item(question=question, gold=gold.strip(" \n"))

    def unusable(self, golds: Sequence[str]) -> Mapping[str, str]:
        return {
            gold: f"gold {gold!r} is no number; write it alone behind '####'"
            for gold in golds
            if numerals.number_in(gold) is None
        }

    def score(self, problem: Problem, completion: str) -> Score:
        reading = answers.read_answer(completion, think_opened=self.think_opened)
        return answers.judge_number(problem.reference, reading, self.weights)
