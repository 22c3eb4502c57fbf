"""How a word problem is told: its difficulty, its sentences, and the calculations that they ask for."""

import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, TypeVar

from tasks.core import DataError

T = TypeVar("T")
# fmt: off
NAMES = ("Anna", "Ben", "Carla", "Dan", "Emma", "Fred", "Gina", "Hugo", "Ida", "Jack", "Kim", "Leo",
         "Mia", "Nick", "Olga", "Paul", "Rosa", "Sam", "Tina", "Umar", "Vera", "Will", "Yara", "Zoe")
THINGS = ("apples", "beads", "books", "buttons", "cards", "coins", "eggs", "lemons",
          "marbles", "nuts", "pencils", "plums", "shells", "stamps", "stickers", "tickets")
# fmt: on
ASIDES = (  # facts with a number that nothing depends on
    "{other} has {k} {things}.",
    "{name} is {k} years old.",
    "{name} lives at number {k}.",
    "It is {k} minutes past noon.",
)


@dataclass(frozen=True, kw_only=True)
class Difficulty:
    """How hard the problems are; the defaults suit the embedded model."""

    min_steps: int = 2
    """Fewest calculations a problem needs."""
    max_steps: int = 4
    """Most calculations a problem needs."""
    max_start: int = 30
    """Largest amount that a story starts with."""
    max_change: int = 12
    """Largest amount that one event adds or takes away."""
    max_rate: int = 9
    """Largest price, or amount a day."""
    num_misleading: int = 0
    """Sentences with a number that the answer does not depend on."""

    def __post_init__(self) -> None:
        if not 2 <= self.min_steps <= self.max_steps <= 12:
            raise DataError(
                f"difficulty needs 2 <= min_steps <= max_steps <= 12, not {self.min_steps} and {self.max_steps}"
            )
        if self.max_start < 4 or self.max_change < 3 or self.max_rate < 3 or self.num_misleading < 0:
            raise DataError("difficulty needs max_start >= 4, max_change >= 3, max_rate >= 3 and num_misleading >= 0")


class Number(NamedTuple):
    """A number of a story: read from its text, or the result of an earlier step."""

    value: int
    step: int | None = None  # the step it is the result of


class Step(NamedTuple):
    """One calculation, and what a reader must understand to choose it."""

    left: Number
    op: str  # + - * /
    right: Number
    skill: str  # gain lose scale share rate fewer more times total price change left

    @property
    def result(self) -> int:
        return calculate(self.left.value, self.op, self.right.value)


class WordProblem(NamedTuple):
    question: str
    steps: Sequence[Step]
    unit: str
    misleading: Sequence[int]  # the numbers that nothing depends on

    @property
    def answer(self) -> int:
        return self.steps[-1].result


def calculate(left: int, op: str, right: int) -> int:
    """`left op right` in whole numbers; division rounds down."""
    if op == "+":
        return left + right
    if op == "-":
        return left - right
    return left * right if op == "*" else left // right


class Dice:
    def __init__(self, seed: str) -> None:
        self.random = random.Random(seed).random

    def number(self, low: int, high: int) -> int:
        return low + int(self.random() * (high - low + 1))

    def pick(self, items: Sequence[T]) -> T:
        return items[int(self.random() * len(items))]

    def names(self, count: int) -> list[str]:
        chosen: list[str] = []
        while len(chosen) < count:
            name = self.pick(NAMES)
            if name not in chosen:
                chosen.append(name)
        return chosen


class Story:
    """Sentences and the calculations they ask for, as they are told."""

    def __init__(self, dice: Dice, difficulty: Difficulty, unit: str, names: Sequence[str]) -> None:
        self.dice, self.difficulty, self.unit, self.names = dice, difficulty, unit, names
        self.sentences: list[str] = []
        self.steps: list[Step] = []

    def calculate(self, left: Number | int, op: str, right: Number | int, skill: str) -> Number:
        left = Number(left) if isinstance(left, int) else left
        right = Number(right) if isinstance(right, int) else right
        self.steps.append(Step(left, op, right, skill))
        return Number(self.steps[-1].result, len(self.steps) - 1)

    def event(self, held: Number | int) -> Number:
        """One thing that happens to what the hero holds."""
        dice, name, things, most = self.dice, self.names[0], self.unit, self.difficulty.max_change
        value = held if isinstance(held, int) else held.value
        when = dice.pick(("", "Then ", "Later ", "After that ")) if self.sentences else ""
        kind = dice.random()
        if kind < 0.2 and value <= self.difficulty.max_start:
            word, factor = dice.pick((("doubles", 2), ("triples", 3)))
            self.sentences.append(f"{when}{name} {word} the {things}.")
            return self.calculate(held, "*", factor, "scale")
        parts = [d for d in (2, 3, 4, 5) if value % d == 0 and value > d]
        if kind < 0.4 and parts:
            part = dice.pick(parts)
            self.sentences.append(f"{when}{name} splits the {things} into {part} equal piles and keeps one.")
            return self.calculate(held, "/", part, "share")
        if kind < 0.7 or value < 6:
            change = dice.number(2, most)
            self.sentences.append(
                f"{when}{name} {dice.pick(('buys', 'finds', 'wins', 'gets'))} {change} more {things}."
            )
            return self.calculate(held, "+", change, "gain")
        change = dice.number(2, min(most, value - 1))
        self.sentences.append(
            f"{when}{name} {dice.pick(('loses', 'sells', 'gives away', 'uses up'))} {change} {things}."
        )
        return self.calculate(held, "-", change, "lose")

    def finish(self, question: str) -> WordProblem:
        misleading: list[int] = []
        for _ in range(self.difficulty.num_misleading):
            number = self.dice.number(2, self.difficulty.max_start)
            other = self.dice.pick([name for name in NAMES if name not in self.names])
            aside = self.dice.pick(ASIDES).format(name=self.names[0], other=other, things=self.unit, k=number)
            self.sentences.insert(self.dice.number(1, len(self.sentences)), aside)
            misleading.append(number)
        return WordProblem(" ".join([*self.sentences, question]), self.steps, self.unit, misleading)
