r"""Small competition-style problems of our own, in MATH's row format, with answers in LaTeX.

Short on purpose: a question of some 10 words, one or two steps, numbers mostly below 50. Subjects are named as in MATH.
"""

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from math import comb, gcd, isqrt, lcm

from tasks.sources import Row

Made = tuple[str, str, str]  # problem, worked steps, answer


def competition_rows(draw: random.Random) -> Iterator[Row]:
    """Rows without end, repeats included: {"problem", "level", "type", "solution", "answer"}."""
    while True:
        kind = draw.choice(KINDS)
        problem, steps, answer = kind.make(draw)
        yield {
            "problem": problem,
            "level": f"Level {kind.level}",
            "type": kind.subject,
            "solution": steps,
            "answer": answer,
        }


def fraction(value: Fraction) -> str:
    """A value as MATH writes it: lowest terms, whole numbers plain."""
    sign, top, bottom = "-" if value < 0 else "", abs(value.numerator), value.denominator
    return f"{sign}{top}" if bottom == 1 else f"{sign}\\frac{{{top}}}{{{bottom}}}"


def sum_of_fractions(draw: random.Random) -> Made:
    a, b = draw.randint(1, 5), draw.randint(2, 6)
    c, d = draw.randint(1, 5), draw.randint(2, 6)
    sign, both = draw.choice("+-"), lcm(b, d)
    left, right = a * both // b, c * both // d
    total = left + right if sign == "+" else left - right
    steps = f"{left}/{both}{sign}{right}/{both}={total}/{both}."
    return f"Compute \\frac{{{a}}}{{{b}}}{sign}\\frac{{{c}}}{{{d}}}.", steps, fraction(Fraction(total, both))


def percentage(draw: random.Random) -> Made:
    percent, of = draw.choice([10, 20, 25, 40, 50, 60, 75, 80]), draw.randint(2, 24) * 5
    share = Fraction(percent, 100)
    steps = f"{percent}/100={share}. {of}*{share.numerator}={of * share.numerator}."
    return f"What is {percent}\\% of {of}?", steps, fraction(share * of)


def linear_equation(draw: random.Random) -> Made:
    a, x, b = draw.randint(2, 9), draw.randint(1, 9), draw.randint(1, 12)
    sign = draw.choice("+-")
    c = a * x + b if sign == "+" else a * x - b
    moved = f"{c}{'-' if sign == '+' else '+'}{b}={a * x}."
    return f"Solve {a}x{sign}{b}={c} for x.", f"{moved} {a * x}/{a}={x}.", str(x)


def product_of_binomials(draw: random.Random) -> Made:
    a, b = draw.randint(1, 9), draw.randint(1, 9)
    steps = f"{a}+{b}={a + b}. {a}*{b}={a * b}."
    return f"Expand (x+{a})(x+{b}).", steps, f"x^2+{a + b}x+{a * b}"


def value_of_function(draw: random.Random) -> Made:
    a, b, x = draw.randint(2, 5), draw.randint(1, 9), draw.randint(2, 5)
    steps = f"{x}*{x}={x * x}. {a}*{x * x}={a * x * x}. {a * x * x}+{b}={a * x * x + b}."
    return f"If f(x)={a}x^2+{b}, find f({x}).", steps, str(a * x * x + b)


def remainder(draw: random.Random) -> Made:
    divisor, number = draw.randint(3, 9), draw.randint(10, 79)
    whole = number - number % divisor
    steps = f"{divisor}*{whole // divisor}={whole}. {number}-{whole}={number - whole}."
    return f"Find the remainder when {number} is divided by {divisor}.", steps, str(number - whole)


def least_common_multiple(draw: random.Random) -> Made:
    a, b = draw.randint(2, 15), draw.randint(2, 15)
    common = gcd(a, b)
    steps = f"{a}*{b}={a * b}. {a * b}/{common}={lcm(a, b)}."
    return f"Find the least common multiple of {a} and {b}.", steps, str(lcm(a, b))


def probability(draw: random.Random) -> Made:
    red, blue = draw.randint(1, 15), draw.randint(1, 15)
    things = draw.choice(["balls", "beads", "cards"])
    steps = f"{red}+{blue}={red + blue}."
    return (
        f"A bag has {red} red and {blue} blue {things}. Find the probability of drawing red.",
        steps,
        fraction(Fraction(red, red + blue)),
    )


def choices(draw: random.Random) -> Made:
    number, things = draw.randint(3, 20), draw.choice(["books", "cards", "people", "flags", "coins", "cups", "hats"])
    steps = f"{number}*{number - 1}={number * (number - 1)}. {number * (number - 1)}/2={comb(number, 2)}."
    return f"In how many ways can 2 of {number} {things} be chosen?", steps, str(comb(number, 2))


def triangle(draw: random.Random) -> Made:
    base, height = draw.randint(2, 19), draw.randint(2, 19)
    steps = f"{base}*{height}={base * height}."
    return (
        f"Find the area of a triangle with base {base} and height {height}.",
        steps,
        fraction(Fraction(base * height, 2)),
    )


def hypotenuse(draw: random.Random) -> Made:
    a, b = draw.randint(1, 12), draw.randint(1, 12)
    square = a * a + b * b
    root = isqrt(square)
    steps = f"{a * a}+{b * b}={square}."
    answer = str(root) if root * root == square else f"\\sqrt{{{square}}}"
    return f"Find the hypotenuse of a right triangle with legs {a} and {b}.", steps, answer


def roots(draw: random.Random) -> Made:
    a, b = sorted(draw.sample(range(1, 16), 2))
    steps = f"{a}+{b}={a + b}. {a}*{b}={a * b}."
    return f"Find all roots of x^2-{a + b}x+{a * b}.", steps, f"{a},{b}"


def radians(draw: random.Random) -> Made:
    degrees = draw.randint(1, 71) * 5
    part = Fraction(degrees, 180)
    top = "\\pi" if part.numerator == 1 else f"{part.numerator}\\pi"
    answer = top if part.denominator == 1 else f"\\frac{{{top}}}{{{part.denominator}}}"
    return f"Convert {degrees} degrees to radians.", f"{degrees}/180={part}.", answer


@dataclass(frozen=True)
class Kind:
    """One kind of problem, with its place in MATH's breakdown."""

    subject: str
    level: int
    make: Callable[[random.Random], Made]


KINDS = (
    Kind("Prealgebra", 2, sum_of_fractions),
    Kind("Prealgebra", 1, percentage),
    Kind("Algebra", 1, linear_equation),
    Kind("Algebra", 2, product_of_binomials),
    Kind("Algebra", 2, value_of_function),
    Kind("Number Theory", 1, remainder),
    Kind("Number Theory", 2, least_common_multiple),
    Kind("Counting & Probability", 1, probability),
    Kind("Counting & Probability", 2, choices),
    Kind("Geometry", 1, triangle),
    Kind("Geometry", 3, hypotenuse),
    Kind("Intermediate Algebra", 3, roots),
    Kind("Precalculus", 2, radians),
)
