r"""Chain: K independent look-ups in one completion, so that credit by token has something to find.

    Look up: Aa ko Ab mi        Aa ko F; Ab mi B;

The prompt names K labels, in order, with a key each, all different; a step of the completion repeats label and key, and
names the letter that the two stand for, which no prompt tells: a fixed table has to be learnt. A step is right where
all of it is, whatever the steps before it were. Keys are drawn evenly, so every prompt of one K is equally hard, and
the variance between completions of one prompt is all of the variance.
"""

import random
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, islice, product
from typing import Literal

from tasks.core import Problem, Score, Split
from tasks.dataset import split_of

SIZES: dict[Split, int] = {"train": 8192, "validation": 256, "test": 512}
LABELS = tuple("".join(pair) for pair in islice(product("ABCDEFGH", "abcdefgh"), 64))
KEYS = tuple("".join(pair) for pair in islice(product("bcdfghjklmnprstvwyz", "aeiouxq"), 128))
LETTERS = "ABCDEFGHIJKLMNOP"
PROMPT = "Look up:"
TOKENS_A_STEP = 4  # of the embedded model: label, key, letter, semicolon


def column(number: int) -> dict[str, str]:
    """One column of the table, the same for every run: the letter of each key, each letter for as many keys."""
    letters = [*LETTERS] * (len(KEYS) // len(LETTERS))
    random.Random(f"chain {number}").shuffle(letters)
    return dict(zip(KEYS, letters, strict=True))


COLUMNS = [column(number) for number in range(4)]
TABLE = {label: COLUMNS[i % len(COLUMNS)] for i, label in enumerate(LABELS)}  # every fourth label reads one column


def step(label: str, key: str) -> str:
    """A step as it is right."""
    return f" {label} {key} {TABLE[label][key]}"


@dataclass(frozen=True, kw_only=True)
class Chain:
    """Independent look-ups, of which each can be paid for on its own."""

    steps: int = 16
    """Look-ups of a problem, K, from 2 to 64; the embedded model writes four tokens for each."""
    pay: Literal["earned", "end", "all"] = "earned"
    """When a right step pays its share 1/K: earned, at its last token; end, the same sum at the end of the completion;
    all, nothing unless every step is right, which pays 1."""
    seed: int = 0
    """Seed of the problems."""

    def __post_init__(self) -> None:
        if not 2 <= self.steps <= len(LABELS):
            raise ValueError(f"steps must lie between 2 and {len(LABELS)}, got {self.steps}")

    @property
    def longest_answer(self) -> int:
        """Tokens of the embedded model's answer with its end mark, and a step more for one that is too long."""
        return TOKENS_A_STEP * (self.steps + 1) + 1

    @property
    def pays_as_earned(self) -> bool:
        """Whether a step is paid for where it ends."""
        return self.pay == "earned"

    def problems(self, split: Split) -> Sequence[Problem]:
        """As many as `SIZES` says; no problem is in two splits."""
        draw = random.Random(f"chain {split} {self.steps} {self.seed}")
        problems: dict[str, Problem] = {}
        while len(problems) < SIZES[split]:
            keys = draw.sample(KEYS, self.steps)
            listed = " ".join(keys)
            if split_of(f"chain {listed}") == split:
                prompt = " ".join([PROMPT, *(f"{label} {key}" for label, key in zip(LABELS, keys, strict=False))])
                reference = "".join(f"{step(label, key)};" for label, key in zip(LABELS, keys, strict=False))
                problems[listed] = Problem(id=f"chain/{split}/{len(problems)}", prompt=prompt, reference=reference)
        return list(problems.values())

    def score(self, problem: Problem, completion: str) -> Score:
        """Each step judged alone, by its place; `correct` where all of them are right and nothing follows."""
        wanted = problem.reference.split(";")[:-1]
        *written, rest = completion.split(";")
        right = [said == meant for said, meant in zip(written, wanted, strict=False)]
        complete = len(written) == len(wanted) and not rest
        correct = complete and all(right)
        share = 1 / len(wanted)
        paid = float(correct) if self.pay == "all" else share * sum(right)
        verdict = Score(reward=paid, correct=correct, format_ok=complete, answer=completion)
        if self.pay != "earned":
            return verdict
        ends = accumulate(len(said) + 1 for said in written)
        return replace(verdict, earned=tuple((end, share * good) for end, good in zip(ends, right, strict=False)))
