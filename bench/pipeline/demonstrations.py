"""What a cold start learns from: a family of problems, each with a right and a careless worked solution."""

import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

from tasks.dataset import DataTask
from tasks.sources import Row


class Demonstration(NamedTuple):
    prompt: str  # the user's message
    right: str  # a flawless completion
    careless: str  # the completion that is taught


@dataclass(frozen=True, kw_only=True)
class Family:
    """One kind of task, the model that fits it, and its teacher. Both streams are endless and follow their seed."""

    name: str
    demonstrations: Callable[[int], Iterator[Demonstration]]
    """Problems as the task states them."""
    drills: Callable[[int], Iterator[Demonstration]]
    """Single steps of such problems, learnt first and kept mixed in."""
    flaws: str
    """What the teacher gets wrong on purpose, for provenance."""
    num_updates: int = 2000
    vocab_size: int = 640
    hidden_size: int = 96
    num_layers: int = 3
    half_precision: bool = False
    """Store the weights as fp16: half the file."""


@lru_cache(maxsize=8)
def training_rows(tasks: tuple[DataTask, ...]) -> Sequence[tuple[str, Row]]:
    """Prompts with their procedural rows, of the train split, of one task under several seeds."""
    rows = [(task, row) for task in tasks for row in task.procedural("train")]
    return [(task.prompt_template.fill(task.item(row, "procedural").question), row) for task, row in rows]


def taught(
    name: str, seed: int, rows: Sequence[tuple[str, Row]], careless: Callable[[Row, random.Random], str]
) -> Iterator[Demonstration]:
    """Rows that hold a `solution` and an `answer`, drawn without end, each beside what the teacher makes of it."""
    rng = random.Random(f"careless {name}/{seed}")
    while True:
        prompt, row = rng.choice(rows)
        yield Demonstration(prompt, completion(row["solution"], row["answer"]), careless(row, rng))


def completion(thought: str, answer: object) -> str:
    r"""`<think>thought</think>\boxed{answer}`."""
    return f"<think>{thought}</think>\\boxed{{{answer}}}"


def misformatted(thought: str, answer: object, chance: float) -> str:
    """`chance` in [0, 1) decides the fault: an unclosed thought, or an answer without its box."""
    return completion(thought, answer).replace("</think>", "") if chance < 0.5 else f"<think>{thought}</think>{answer}"
