"""Chains of look-ups, taught without a fault and not to the end.

    Look up: Aa ko Ab mi        Aa ko F; Ab mi B;

No error is planted: every demonstration is right. The model is stopped before it knows all of the table, so that what
reinforcement learning can add is knowledge that the demonstrations held. Chains of every length that the task is run
at are taught, since a length that was not taught fails; the short ones begin at any label, so that all labels are seen
about as often.
"""

import random
from collections.abc import Iterator

from bench.pipeline.demonstrations import Demonstration, Family
from tasks.chain import KEYS, LABELS, PROMPT, step

LENGTHS = (4, 8, 16, 32, 64, 64)


def demonstration(rng: random.Random, length: int) -> Demonstration:
    """A chain whose labels begin anywhere in the order, each with a key of its own."""
    first = rng.randrange(len(LABELS) - length + 1)
    pairs = list(zip(LABELS[first:], rng.sample(KEYS, length), strict=False))
    answer = "".join(f"{step(label, key)};" for label, key in pairs)
    return Demonstration(" ".join([PROMPT, *(f"{label} {key}" for label, key in pairs)]), answer, answer)


def demonstrations(seed: int) -> Iterator[Demonstration]:
    rng = random.Random(f"chains/{seed}")
    while True:
        yield demonstration(rng, rng.choice(LENGTHS))


def drills(seed: int) -> Iterator[Demonstration]:
    """Short chains, in which labels and keys are found soonest."""
    rng = random.Random(f"drills chain/{seed}")
    while True:
        yield demonstration(rng, rng.randint(2, 6))


CHAIN = Family(
    name="chain",
    demonstrations=demonstrations,
    drills=drills,
    flaws="none: taught right solutions only, and stopped early",
    num_updates=700,
    vocab_size=1024,
    num_layers=2,
    half_precision=True,
)
