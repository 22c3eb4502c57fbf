r"""Small functions to write, with hidden tests: rows in MBPP's format from a seeded generator, no download.

Row::

    {"text": "Write f(x, y) that returns twice the sum of x and y, plus 3.",
     "code": "def f(x, y):\n    return 2*(x+y)+3", "test_setup_code": "",
     "test_list": ["assert f(4, -7) == -3", ...], "kind": "sum", "steps": "3"}

The language is small enough for a model of under a million parameters: a base, perhaps multiplied, perhaps with
a number added or taken away. The three splits share no function, under whatever argument names.
"""

import hashlib
import random
from dataclasses import dataclass
from itertools import product

from tasks.core import Split

NUM_TESTS = 6
NAMES = ("x", "y"), ("a", "b"), ("n", "m"), ("p", "q")
TIMES = (1, *range(2, 10))
OFFSETS = tuple(range(-9, 10))

PAIR_BASES = {  # kind: (phrase, expression, whether a factor needs brackets around it)
    "sum": ("the sum of {0} and {1}", "{0}+{1}", True),
    "difference": ("the difference of {0} and {1}", "{0}-{1}", True),
    "reverse_difference": ("the difference of {1} and {0}", "{1}-{0}", True),
    "product": ("the product of {0} and {1}", "{0}*{1}", False),
    "larger": ("the larger of {0} and {1}", "max({0}, {1})", False),
    "smaller": ("the smaller of {0} and {1}", "min({0}, {1})", False),
    "gap": ("the gap between {0} and {1}", "abs({0}-{1})", False),
    "square": ("the sum of {0} squared and {1}", "{0}*{0}+{1}", True),
}
LIST_BASES = {
    "total": ("the total of {0}", "sum({0})", False),
    "length": ("the length of {0}", "len({0})", False),
    "largest": ("the largest of {0}", "max({0})", False),
    "smallest": ("the smallest of {0}", "min({0})", False),
    "first": ("the first of {0}", "{0}[0]", False),
    "last": ("the last of {0}", "{0}[-1]", False),
}
BASES = PAIR_BASES | LIST_BASES


@dataclass(frozen=True, kw_only=True)
class Function:
    """One function of the language: `times * base + offset` of its arguments."""

    kind: str  # a key of BASES
    times: int = 1  # 1: not multiplied
    offset: int = 0  # 0: nothing added
    names: tuple[str, str] = ("x", "y")  # a function of a list uses the first only

    @property
    def arguments(self) -> str:
        """As written in the head: "x, y", or "x" for a list."""
        return ", ".join(self.names) if self.kind in PAIR_BASES else self.names[0]

    @property
    def phrase(self) -> str:
        """What it returns, in words."""
        base = BASES[self.kind][0].format(*self.names)
        factor = {1: "", 2: "twice "}.get(self.times, f"{self.times} times ")
        offset = f", {'plus' if self.offset > 0 else 'minus'} {abs(self.offset)}" if self.offset else ""
        return f"{factor}{base}{offset}"

    @property
    def expression(self) -> str:
        """What it returns, in Python."""
        _, base, brackets = BASES[self.kind]
        base = base.format(*self.names)
        if self.times != 1:
            base = f"{self.times}*({base})" if brackets else f"{self.times}*{base}"
        return f"{base}{self.offset:+d}" if self.offset else base

    @property
    def text(self) -> str:
        """The problem."""
        return f"Write f({self.arguments}) that returns {self.phrase}."

    @property
    def code(self) -> str:
        """The reference solution."""
        return f"def f({self.arguments}):\n    return {self.expression}"

    @property
    def steps(self) -> int:
        """How many operations the phrase asks for: 1 to 3."""
        return 1 + (self.times != 1) + (self.offset != 0)


def functions(split: Split, *, seed: int = 0) -> list[Function]:
    """Every function of a split, under all argument names, in an order drawn from `seed`."""
    found = [
        Function(kind=kind, times=times, offset=offset, names=names)
        for kind, times, offset in product(BASES, TIMES, OFFSETS)
        if _split_of(f"{kind}/{times}/{offset}") == split
        for names in NAMES
    ]
    random.Random(f"functions/{split}/{seed}").shuffle(found)
    return found


def function_rows(split: Split, *, seed: int = 0) -> list[dict[str, object]]:
    """Rows in MBPP's format, each with `NUM_TESTS` tests of its own."""
    return [
        {
            "task_id": i,
            "text": function.text,
            "code": function.code,
            "test_list": _tests(function, random.Random(f"tests/{split}/{seed}/{i}")),
            "test_setup_code": "",
            "challenge_test_list": [],
            "kind": function.kind,
            "steps": str(function.steps),
        }
        for i, function in enumerate(functions(split, seed=seed))
    ]


def _split_of(key: str) -> Split:
    part = hashlib.sha256(f"functions/{key}".encode()).digest()[0] % 16
    return "test" if part < 2 else "validation" if part == 2 else "train"


def _tests(function: Function, rng: random.Random) -> list[str]:
    """Assertions on drawn arguments; pairs come in both orders of size, lists of one item are left out."""
    if function.kind in PAIR_BASES:
        pairs = [sorted(rng.sample(range(-9, 10), 2)) for _ in range(NUM_TESTS)]
        calls = [tuple(pair if i % 2 else pair[::-1]) for i, pair in enumerate(pairs)]
    else:
        calls = [(rng.sample(range(-9, 10), rng.randint(2, 5)),) for _ in range(NUM_TESTS)]
    solution = eval(f"lambda {function.arguments}: {function.expression}")  # our own text, never a model's
    return [f"assert f({', '.join(map(repr, call))}) == {solution(*call)!r}" for call in calls]
