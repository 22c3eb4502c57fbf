r"""Competition mathematics: MATH (arXiv:2103.03874), trained on its 7,500 and tested on MATH-500 (arXiv:2305.20050).

    {"problem": "Convert the point $(0,3)$ in rectangular coordinates to polar coordinates. ...",
     "answer": "\\left( 3, \\frac{\\pi}{2} \\right)", "subject": "Precalculus", "level": 2}

The gold is `answer`, else `final_answer`, else the last box of `solution`. How it is compared: docs/verifier.md.
"""

import random
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import ClassVar

from tasks import answers, latex, workers
from tasks.core import DataError, Problem, Score, Split
from tasks.dataset import SIZES, DataTask, Hub, Item, Template, split_rows
from tasks.procedural import competition as competition_rows
from tasks.sources import Row, text_field


@dataclass(frozen=True, kw_only=True)
class CompetitionMath(DataTask):
    """Competition mathematics with answers in LaTeX."""

    NAME: ClassVar[str] = "math"
    HUB: ClassVar[Mapping[str, Hub]] = {
        "train": ("DigitalLearningGmbH/MATH-lighteval", "default", "train"),
        "test": ("HuggingFaceH4/MATH-500", None, "test"),
    }
    BOXED: ClassVar[Template] = Template(
        version=1,
        text="{question}\n\nThink step by step inside <think> and </think>, then give the final answer in \\boxed{}.",
    )

    def procedural(self, split: Split) -> Sequence[Row]:
        draw = random.Random(f"math {split} {self.seed}")
        return split_rows(self, split, competition_rows.competition_rows(draw), SIZES[split])

    def item(self, row: Row, place: str) -> Item:
        question = text_field(row, place, "problem")
        named = {"level": row.get("level"), "subject": row.get("subject", row.get("type"))}
        meta = {name: str(value).removeprefix("Level ") for name, value in named.items() if value is not None}
        if "answer" in row or "final_answer" in row:
            return Item(
                question=question, gold=text_field(row, place, "answer", "final_answer").strip(" \n"), meta=meta
            )
        box = answers.last_box(text_field(row, place, "solution"))
        if box is None:
            raise DataError(f"{place}: the solution has no \\boxed{{}}")
        return Item(question=question, gold=box, meta=meta)

    def unusable(self, golds: Sequence[str]) -> Mapping[str, str]:
        if self.resolved_source == "procedural":
            return {}  # they are ours, and a test reads every kind
        with ThreadPoolExecutor(workers.MAX_WORKERS) as threads:
            different = sorted(set(golds))
            reasons = zip(different, threads.map(latex.why_unusable, different), strict=True)
        return {gold: reason for gold, reason in reasons if reason is not None}

    def score(self, problem: Problem, completion: str) -> Score:
        reading = answers.read_answer(completion, think_opened=self.think_opened, markers=False)
        if not reading.text:
            return answers.score_answer(reading, self.weights, correct=False, answer=None, error="no-answer")
        found = latex.compare_latex(problem.reference, reading.text)
        ruled = replace(reading, rule=f"{reading.rule}/{found.rule}")
        return answers.score_answer(ruled, self.weights, correct=found.equal, answer=reading.text, error=found.error)

    def same(self, problem: Problem, one: str, other: str) -> bool:
        """Whether two answers are equal by the rules that judge them."""
        del problem
        return latex.compare_latex(one, other).equal
