"""Logic puzzles, made and judged by reasoning-gym, which also opens its other tasks as `rg:NAME`.

A row is one of the library's entries: {"question", "answer", "metadata": {"source_dataset": "aiw", ...}}. The hub
source is the knights-and-knaves set of arXiv:2410.23123. An answer is right where the library's judge gives full marks.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, make_dataclass
from functools import cache
from typing import ClassVar

from tasks import answers, numerals, puzzles
from tasks.core import DataError, Problem, Score, Split
from tasks.dataset import DataTask, Hub, Item, Template, split_rows
from tasks.decoration import bare_text
from tasks.sources import Row, text_field

_HUB = "K-and-K/knights-and-knaves"


@dataclass(frozen=True, kw_only=True)
class Logic(DataTask):
    """Logic puzzles, made and judged by reasoning-gym."""

    NAME: ClassVar[str] = "logic"
    HUB: ClassVar[Mapping[str, Hub]] = {"train": (_HUB, "train", "3ppl"), "test": (_HUB, "test", "3ppl")}
    BOXED: ClassVar[Template] = Template(
        version=1, text="{question}\n\nThink inside <think> and </think>, then give the final answer in \\boxed{}."
    )

    puzzles: tuple[str, ...] = ("siblings", "syllogisms")
    """Generators of the procedural source, in turn: any of `puzzles.SETTINGS` or any of reasoning-gym's names."""
    settings: tuple[str, ...] = ()
    """Settings of the generators, as `name=value` with the value in JSON, e.g. `n_people=3`."""

    num_train: int = 2048
    """Number of procedural problems to train on; some generators take milliseconds for each."""
    num_test: int = 512
    """Number of procedural problems to test on; there are half as many to validate on."""

    def procedural(self, split: Split) -> Sequence[Row]:
        seed = self.seed + {"train": 0, "validation": 10**6, "test": 2 * 10**6}[split]
        count = {"train": self.num_train, "validation": self.num_test // 2, "test": self.num_test}[split]
        settings = dict(map(puzzles.parse_puzzle_setting, self.settings))
        return split_rows(self, split, puzzles.puzzle_entries(self.puzzles, seed=seed, settings=settings), count)

    def item(self, row: Row, place: str) -> Item:
        if "quiz" in row:
            row = puzzles.from_knights_and_knaves(row, place)
        question, metadata = text_field(row, place, "question"), row.get("metadata")
        if not isinstance(metadata, Mapping) or "source_dataset" not in metadata:
            raise DataError(f"{place}: no metadata with 'source_dataset', which names the judge")
        puzzle = str(metadata["source_dataset"])
        gold = puzzles.plain_entry({"answer": row.get("answer"), "metadata": metadata})
        return Item(question=question, gold=json.dumps(gold), meta={"puzzle": puzzle})

    def unusable(self, golds: Sequence[str]) -> Mapping[str, str]:
        return {gold: reason for gold in golds if (reason := puzzles.why_refused(gold)) is not None}

    def score(self, problem: Problem, completion: str) -> Score:
        reading = answers.read_answer(completion, think_opened=self.think_opened, markers=False)
        if not reading.text:
            return answers.score_answer(reading, self.weights, correct=False, answer=None, error="no-answer")
        answer = _as_written(problem.reference, reading.text)
        verdict = puzzles.grade_puzzle(problem.reference, answer)
        correct = verdict.value is not None and verdict.value >= 1
        return answers.score_answer(reading, self.weights, correct=correct, answer=answer, error=verdict.error)


def _as_written(reference: str, text: str) -> str:
    """An answer without decoration; a word or whole number as the gold writes it: the judges compare letters."""
    said, gold = bare_text(text), json.loads(reference)["answer"]
    if not isinstance(gold, str):
        return said
    whole = gold.isdecimal() and gold == str(int(gold))
    if whole and numerals.number_in(said) == int(gold):
        return gold
    return gold if gold.isalpha() and said.casefold() == gold.casefold() else said


@cache
def puzzle_task(name: str) -> type[Logic]:
    """The task `rg:NAME`: one of reasoning-gym's own, at its default settings unless `settings` says otherwise.

    Raises:
        DataError: reasoning-gym has no such task.
    """
    puzzle = puzzles.known_puzzles(name.removeprefix("rg:"))
    fields = [("puzzles", tuple[str, ...], field(default=(puzzle,)))]
    own = {"NAME": name, "HUB": {}}  # the hub's set is of another puzzle
    return make_dataclass(name, fields, bases=(Logic,), namespace=own, frozen=True, kw_only=True)
