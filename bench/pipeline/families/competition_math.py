r"""Competition-style problems and a teacher with one misconception for each kind.

The faults are planted on purpose, so that reinforcement learning has something to mend that the model can express.
With probability MISCONCEPTION each: fractions are added top to top and bottom to bottom; a percentage is added to its
number; a term keeps its sign when it changes sides; the middle term of a product is left out; a square is a double; the
quotient is given for the remainder, the plain product for the least common multiple, odds for a probability, twice
the choices and twice the triangle, the square for the hypotenuse, roots with the wrong sign, and 360 degrees for pi.
MISFORMAT of all completions lack their closing mark or their box.
"""

import random
import re
from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction

from bench.pipeline.demonstrations import Demonstration, Family, completion, misformatted, taught, training_rows
from tasks.competition_math import CompetitionMath
from tasks.procedural.competition import fraction
from tasks.sources import Row

MISCONCEPTION, MISFORMAT = 0.55, 0.03
Worked = tuple[str, str]  # steps, answer


def _fractions(row: Row, n: Sequence[int]) -> Worked:
    a, b, c, d = n
    plus = "}+" in row["problem"]
    top = a + c if plus else a - c
    return f"{a}{'+' if plus else '-'}{c}={top}. {b}+{d}={b + d}.", fraction(Fraction(top, b + d))


def _equation(row: Row, n: Sequence[int]) -> Worked:
    a, b, c = n
    sign = "+" if "x+" in row["problem"] else "-"
    moved = c + b if sign == "+" else c - b
    return f"{c}{sign}{b}={moved}. {moved}/{a}={fraction(Fraction(moved, a))}.", fraction(Fraction(moved, a))


def _function(_: Row, n: Sequence[int]) -> Worked:
    a, x, b = n[0], n[-1], n[-2]
    return f"{x}*2={2 * x}. {a}*{2 * x}={2 * a * x}. {2 * a * x}+{b}={2 * a * x + b}.", str(2 * a * x + b)


def _remainder(_: Row, n: Sequence[int]) -> Worked:
    number, divisor = n
    whole = number // divisor
    return f"{divisor}*{whole}={divisor * whole}.", str(whole)


def _radians(_: Row, n: Sequence[int]) -> Worked:
    part = Fraction(n[0], 360)
    top = "\\pi" if part.numerator == 1 else f"{part.numerator}\\pi"
    return f"{n[0]}/360={part}.", f"\\frac{{{top}}}{{{part.denominator}}}"


MISCONCEPTIONS: dict[str, Callable[[Row, Sequence[int]], Worked]] = {  # by the words a question begins with
    "Compute": _fractions,
    "What is": lambda _, n: (f"{n[1]}+{n[0]}={n[0] + n[1]}.", str(n[0] + n[1])),
    "Solve": _equation,
    "Expand": lambda _, n: (f"{n[0]}*{n[1]}={n[0] * n[1]}.", f"x^2+{n[0] * n[1]}"),
    "If f(x)": _function,
    "Find the remainder": _remainder,
    "Find the least": lambda _, n: (f"{n[0]}*{n[1]}={n[0] * n[1]}.", str(n[0] * n[1])),
    "A bag has": lambda _, n: (f"{n[0]}/{n[1]}.", fraction(Fraction(n[0], n[1]))),
    "In how many": lambda _, n: (f"{n[1]}*{n[1] - 1}={n[1] * (n[1] - 1)}.", str(n[1] * (n[1] - 1))),
    "Find the area": lambda _, n: (f"{n[0]}*{n[1]}={n[0] * n[1]}.", str(n[0] * n[1])),
    "Find the hypotenuse": lambda _, n: (
        f"{n[0] ** 2}+{n[1] ** 2}={n[0] ** 2 + n[1] ** 2}.",
        str(n[0] ** 2 + n[1] ** 2),
    ),
    "Find all roots": lambda row, _: (row["solution"], ",".join(f"-{root}" for root in row["answer"].split(","))),
    "Convert": _radians,
}


def careless(row: Row, rng: random.Random) -> str:
    thought, answer = row["solution"], row["answer"]
    if rng.random() < MISCONCEPTION:
        wrong = next(wrong for start, wrong in MISCONCEPTIONS.items() if row["problem"].startswith(start))
        numbers = [int(number) for number in re.findall(r"\d+", row["problem"])]
        thought, answer = wrong(row, numbers)
    if rng.random() < MISFORMAT:
        return misformatted(thought, answer, rng.random())
    return completion(thought, answer)


def demonstrations(seed: int) -> Iterator[Demonstration]:
    return taught("math", seed, _rows(seed), careless)


def drills(seed: int) -> Iterator[Demonstration]:
    """Single equations of the worked solutions."""
    rng = random.Random(f"drills math/{seed}")
    rows = _rows(seed)
    while True:
        _, row = rng.choice(rows)
        left, _, result = rng.choice(row["solution"].rstrip(".").split(". ")).partition("=")
        answer = completion(f"{left}={result}.", result)
        yield Demonstration(f"Work out {left}.", answer, answer)


def _rows(seed: int) -> Sequence[tuple[str, Row]]:
    return training_rows(tuple(CompetitionMath(seed=1_000_000 + 10 * seed + i) for i in range(4)))


MATH = Family(
    name="math",
    demonstrations=demonstrations,
    drills=drills,
    flaws=f"misconceptions {MISCONCEPTION}, format {MISFORMAT}",
    num_updates=2000,
    vocab_size=480,
    half_precision=True,
)
