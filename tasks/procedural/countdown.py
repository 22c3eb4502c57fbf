"""Countdown problems made from a known solution, so that each has one."""

import random
from collections.abc import Iterator
from dataclasses import dataclass

from tasks.sources import Row


@dataclass(frozen=True, kw_only=True)
class Difficulty:
    """How large the made problems are, and how much is given away."""

    num_numbers: int = 3
    """How many numbers a problem has."""
    max_number: int = 15
    """The largest number."""
    max_target: int = 99
    """The largest target, and the largest value on the way to it."""
    in_order: bool = True
    """The numbers are listed in the order in which a known solution uses them."""


def countdown_rows(draw: random.Random, difficulty: Difficulty) -> Iterator[Row]:
    """Rows without end, repeats included: {"target", "nums"}, with the known solution's steps and expression."""
    while True:
        numbers = [draw.randint(1, difficulty.max_number) for _ in range(difficulty.num_numbers)]
        value, steps, shown = numbers[0], list[str](), str(numbers[0])
        for number in numbers[1:]:
            sign = draw.choice("+-*" if value % number else "+-*/")
            made = {"+": value + number, "-": value - number, "*": value * number, "/": value // number}[sign]
            steps.append(f"{value}{sign}{number}={made}.")
            shown = f"({shown})" if sign in "*/" and ("+" in shown or "-" in shown) else shown
            shown, value = f"{shown}{sign}{number}", made
            if not 0 < value <= difficulty.max_target:
                break
        else:
            listed = numbers if difficulty.in_order else draw.sample(numbers, len(numbers))
            yield {"target": value, "nums": listed, "solution": " ".join(steps), "answer": shown}
