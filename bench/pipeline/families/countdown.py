r"""Countdown and its hasty teacher, who tries signs one after the other and gives up too soon.

    <think>4+15=19+10=29 no 4*15=60+10=70 yes</think>\boxed{4*15+10}

The faults are planted on purpose, so that reinforcement learning has something to mend that the model can express.
With probability HABIT the first try just adds everything up. Any other try is a right one with probability INTUITION,
else one of the rest. After a wrong try the teacher answers it all the same with probability HASTE. So the model can
learn to leave the habit and to try again. SLIP of all tries are miscalculated, and MISFORMAT of all completions lack
their closing mark or their box.
"""

import random
from collections.abc import Iterator, Sequence
from itertools import product
from typing import NamedTuple

from bench.pipeline.demonstrations import Demonstration, Family, completion, misformatted, training_rows
from tasks.countdown import Countdown

HABIT, INTUITION, HASTE, MAX_TRIES, SLIP, MISFORMAT = 0.7, 0.75, 0.7, 3, 0.02, 0.03
LARGEST = 99  # of the results on the way


class Try(NamedTuple):
    shown: str  # "4*15=60+10=70"
    expression: str  # "4*15+10"
    result: int


def tries(numbers: Sequence[int]) -> list[Try]:
    """All ways to put signs between the numbers, the sum first, whose results are whole and in 1..LARGEST.

    Signs are read from left to right.
    """
    found: list[Try] = []
    for signs in product("+-*/", repeat=len(numbers) - 1):
        shown = expression = str(numbers[0])
        value = numbers[0]
        for sign, number in zip(signs, numbers[1:], strict=True):
            if sign == "/" and value % number:
                break
            value = {"+": value + number, "-": value - number, "*": value * number, "/": value // number}[sign]
            if not 0 < value <= LARGEST:
                break
            if sign in "*/" and ("+" in expression or "-" in expression):
                expression = f"({expression})"
            shown, expression = f"{shown}{sign}{number}={value}", f"{expression}{sign}{number}"
        else:
            found.append(Try(shown, expression, value))
    return found


def search(
    numbers: Sequence[int], target: int, rng: random.Random, haste: float, slip: float, most: int
) -> tuple[str, str]:
    """The thought and the expression that it ends with."""
    left, thought = tries(numbers), ""
    for attempt in range(1, most + 1):
        right = [t for t in left if t.result == target]
        wrong = [t for t in left if t.result != target]
        chosen = rng.choice(right if right and (rng.random() < INTUITION or not wrong) else wrong or right)
        if attempt == 1 and rng.random() < HABIT:
            chosen = left[0]
        left.remove(chosen)
        shown, result = chosen.shown, chosen.result
        if rng.random() < slip:
            result = max(1, result + rng.choice((-10, -1, 1, 10)))
            shown = f"{shown[: shown.rindex('=')]}={result}"
        if result == target:
            return f"{thought}{shown} yes", chosen.expression
        if not left or attempt == most or rng.random() < haste:
            return f"{thought}{shown} no", chosen.expression
        thought += f"{shown} no "
    raise AssertionError("the last try returns")


def demonstrations(seed: int) -> Iterator[Demonstration]:
    rng = random.Random(f"hasty countdown/{seed}")
    rows = training_rows(tuple(Countdown(seed=1_000_000 + 10 * seed + i) for i in range(4)))
    while True:
        prompt, row = rng.choice(rows)
        right = completion(*search(row["nums"], row["target"], rng, 0, 0, 99))
        thought, answer = search(row["nums"], row["target"], rng, HASTE, SLIP, MAX_TRIES)
        faulty = rng.random() < MISFORMAT
        careless = misformatted(thought, answer, rng.random()) if faulty else completion(thought, answer)
        yield Demonstration(prompt, right, careless)


def drills(seed: int) -> Iterator[Demonstration]:
    rng = random.Random(f"drills countdown/{seed}")
    while True:
        possible = tries([rng.randint(1, 15) for _ in range(rng.choice((2, 2, 3)))])
        if possible:
            drawn = rng.choice(possible)
            answer = completion(f"{drawn.shown}.", drawn.result)
            yield Demonstration(f"Work out {drawn.expression}.", answer, answer)


COUNTDOWN = Family(
    name="countdown",
    num_updates=1500,
    vocab_size=320,
    half_precision=True,
    demonstrations=demonstrations,
    drills=drills,
    flaws=f"adds first {HABIT}, right tries {INTUITION}, answers a wrong try {HASTE}, slips {SLIP}, format {MISFORMAT}",
)
