r"""Logic puzzles and a teacher who forgets the sister herself and is too ready to say yes.

    <think>9+0=9.</think>\boxed{9}        instead of 9+1=10
    <think>All A B. Some B C. All A C.</think>\boxed{Yes}        instead of No

The faults are planted on purpose, so that reinforcement learning has something to mend that the model can express. In
the family riddles the girl is not counted among her brother's sisters with probability FORGETS. Of the syllogisms that
do not follow, CREDULOUS are accepted; of those that do, DOUBTFUL are refused. MISFORMAT of all completions lack their
closing mark or their box.
"""

import random
from collections.abc import Iterator, Sequence

from bench.pipeline.demonstrations import Demonstration, Family, completion, misformatted, taught, training_rows
from tasks.logic import Logic
from tasks.sources import Row

FORGETS, CREDULOUS, DOUBTFUL, MISFORMAT = 0.75, 0.6, 0.15, 0.03


def careless(row: Row, rng: random.Random) -> str:
    thought, answer = row["solution"], row["answer"]
    if answer in ("Yes", "No"):
        mistaken = rng.random() < (CREDULOUS if answer == "No" else DOUBTFUL)
        answer = {"Yes": "No", "No": "Yes"}[answer] if mistaken else answer
    elif rng.random() < FORGETS:
        answer = str(int(answer) - 1)
        thought = f"{answer}+0={answer}."
    if rng.random() < MISFORMAT:
        return misformatted(thought, answer, rng.random())
    return completion(thought, answer)


def demonstrations(seed: int) -> Iterator[Demonstration]:
    return taught("logic", seed, _rows(seed), careless)


def drills(seed: int) -> Iterator[Demonstration]:
    """The puzzles without their words: sums, and syllogisms in letters."""
    rng = random.Random(f"drills logic/{seed}")
    rows = _rows(seed)
    while True:
        _, row = rng.choice(rows)
        answer = completion(row["solution"], row["answer"])
        yield Demonstration(row["solution"].partition("=")[0], answer, answer)


def _rows(seed: int) -> Sequence[tuple[str, Row]]:
    return training_rows(tuple(Logic(seed=10_000_000 + 10 * seed + i) for i in range(4)))


LOGIC = Family(
    name="logic",
    demonstrations=demonstrations,
    drills=drills,
    flaws=f"forgets {FORGETS}, credulous {CREDULOUS}, doubtful {DOUBTFUL}, format {MISFORMAT}",
    num_updates=800,
    hidden_size=64,
    vocab_size=560,
    half_precision=True,
)
