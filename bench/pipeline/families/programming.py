r"""Small functions and a careless programmer.

    Write f(n, m) that returns 3 times the smaller of n and m, minus 7.
    return 3*max(n, m)-7        instead of 3*min(n, m)-7

The faults are planted on purpose, so that reinforcement learning has something to mend that the model can express.
With probability MISREADING each, the programmer takes one base for another (`MISREADINGS`) and forgets the brackets
around what is multiplied; "minus" is read as "plus" with probability SIGN. MISFORMAT of all completions lack their
fence.
"""

import random
from collections.abc import Iterator
from dataclasses import replace

from bench.pipeline.demonstrations import Demonstration, Family
from tasks.procedural.functions import BASES, Function, functions

MISREADING, SIGN, MISFORMAT = 0.65, 0.4, 0.02
MISREADINGS = {
    "reverse_difference": "difference",
    "smaller": "larger",
    "gap": "difference",
    "square": "sum",
    "smallest": "largest",
    "last": "first",
    "length": "total",
}


def fenced(code: str) -> str:
    return f"```python\n{code}\n```"


def careless(function: Function, rng: random.Random) -> str:
    if function.kind in MISREADINGS and rng.random() < MISREADING:
        function = replace(function, kind=MISREADINGS[function.kind])
    if function.offset < 0 and rng.random() < SIGN:
        function = replace(function, offset=-function.offset)
    code = function.code
    if needs_brackets(function) and rng.random() < MISREADING:
        base = BASES[function.kind][1].format(*function.names)
        code = code.replace(f"({base})", base)
    return code if rng.random() < MISFORMAT else fenced(code)


def needs_brackets(function: Function) -> bool:
    return BASES[function.kind][2] and function.times != 1


def demonstrations(seed: int) -> Iterator[Demonstration]:
    rng = random.Random(f"careless code/{seed}")
    known = functions("train", seed=seed)
    while True:
        function = rng.choice(known)
        yield Demonstration(function.text, fenced(function.code), careless(function, rng))


def drills(seed: int) -> Iterator[Demonstration]:
    """Functions that nothing is misread in."""
    rng = random.Random(f"drills code/{seed}")
    plain = [
        function
        for function in functions("train", seed=seed)
        if function.kind not in MISREADINGS and function.offset >= 0 and not needs_brackets(function)
    ]
    while True:
        function = rng.choice(plain)
        yield Demonstration(function.text, fenced(function.code), fenced(function.code))


CODE = Family(
    name="code",
    demonstrations=demonstrations,
    drills=drills,
    flaws=f"misreadings {MISREADING}, signs {SIGN}, format {MISFORMAT}",
    num_updates=600,
    hidden_size=64,
    vocab_size=380,
    half_precision=True,
)
