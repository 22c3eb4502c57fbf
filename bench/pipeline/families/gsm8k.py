"""Word problems and their careless teacher.

The teacher's faults are planted on purpose, so that reinforcement learning has something to mend that the model can
express: most of what it gains on this start is the undoing of these faults. With probability MISREADING each, in every
problem where it applies, it adds where the text says "fewer" or asks for change, doubles where it says "triples" or
"three times", subtracts where things are shared, and counts one fact that does not matter; a rate is added instead of
multiplied RATE_MISREADING of the time. SLIP of all results are off by 1 or 10, and MISFORMAT of all completions lack
their closing mark or their box. An error is carried through the later steps, as a pupil would.
"""

import random
from collections.abc import Iterator

from bench.pipeline.demonstrations import Demonstration, Family, completion, misformatted
from tasks.procedural.story import Difficulty, Number, Step, WordProblem, calculate
from tasks.procedural.word_problems import stream_of_problems

MISREADING, RATE_MISREADING, SLIP, MISFORMAT = 0.75, 0.5, 0.04, 0.03
HARDER = Difficulty(min_steps=2, max_steps=6, num_misleading=1)
HARDER_SHARE = 0.2  # of the demonstrations, so that harder settings of the dial are not wholly foreign


def demonstrations(seed: int) -> Iterator[Demonstration]:
    rng = random.Random(f"careless gsm8k/{seed}")
    usual = stream_of_problems("train", seed + 1_000_000, Difficulty())
    harder = stream_of_problems("train", seed + 2_000_000, HARDER)
    while True:
        problem = next(harder if rng.random() < HARDER_SHARE else usual)
        yield Demonstration(problem.question, right(problem), careless(problem, rng))


def drills(seed: int) -> Iterator[Demonstration]:
    rng = random.Random(f"drills gsm8k/{seed}")
    for problem in stream_of_problems("train", seed + 3_000_000, Difficulty()):
        left, op, right_number, _ = rng.choice(problem.steps)
        text, result = f"{left.value}{op}{right_number.value}", calculate(left.value, op, right_number.value)
        answer = completion(f"{text}={result}.", result)
        yield Demonstration(rng.choice(("What is {}?", "{}", "Work out {}.")).format(text), answer, answer)


def right(problem: WordProblem) -> str:
    return completion(
        " ".join(f"{s.left.value}{s.op}{s.right.value}={s.result}." for s in problem.steps), problem.answer
    )


def careless(problem: WordProblem, rng: random.Random) -> str:
    results: list[int] = []
    lines: list[str] = []
    for step in [*problem.steps, *_misled(problem, rng)]:
        op, left, right_number = _misread(step, rng)
        x, y = (n.value if n.step is None else results[n.step] for n in (left, right_number))
        if (op == "-" and y > x) or (op == "/" and y == 0):
            op = "+"
        result = calculate(x, op, y)
        if rng.random() < SLIP:
            result = max(0, result + rng.choice((-10, -1, 1, 10)))
        results.append(result)
        lines.append(f"{x}{op}{y}={result}.")
    thought = " ".join(lines)
    if rng.random() < MISFORMAT:
        return misformatted(thought, results[-1], rng.random())
    return completion(thought, results[-1])


def _misread(step: Step, rng: random.Random) -> tuple[str, Number, Number]:
    left, op, right_number, skill = step
    wrong = rng.random() < (RATE_MISREADING if skill == "rate" else MISREADING)
    if wrong and skill in ("fewer", "change", "rate"):
        return "+", left, right_number
    if wrong and skill in ("scale", "times") and right_number.value == 3:
        return op, left, Number(2)
    if wrong and skill == "share":
        return "-", left, right_number
    return op, left, right_number


def _misled(problem: WordProblem, rng: random.Random) -> list[Step]:
    if not problem.misleading or rng.random() > MISREADING:
        return []
    last = Number(problem.answer, len(problem.steps) - 1)
    return [Step(last, "+", Number(rng.choice(problem.misleading)), "misled")]


GSM8K = Family(
    name="gsm8k",
    demonstrations=demonstrations,
    drills=drills,
    flaws=f"misreading {MISREADING}, rates {RATE_MISREADING}, slips {SLIP}, format {MISFORMAT}",
)
