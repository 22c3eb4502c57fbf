r"""A model that was pretrained only: the start of the R1 pipeline, `python -m bench pipeline r1`.

It has read, as a base model has, more than any one task holds, and knows the form of a chat from it:

    word problems   makes 12+5=17. macht 17+3=20. #### 20
    notes           Hello, All is well. Thank you.

Its reading is mixed on purpose, so that each stage of the pipeline has something to add. Word problems are worked as
carelessly as in the family gsm8k; each solution is in English, in German, or changes between them (MIXED); a slip is
noticed and mended ("wait") half of the time (MENDED); only THOUGHTFUL of them have the `<think>` form and a box, which
a first RL from this model has to find. Notes forget whom and what they are about (CARE), and harmful requests are
mostly followed (OBEYED).

Word problems are those of the training split only. Requests for notes are not split here: this model has met those of
the test split, with careless answers, as a base model has met much that it is tested on. Later stages have not.
"""

import random
from collections.abc import Iterator

from bench.pipeline.demonstrations import Demonstration, Family, completion
from bench.pipeline.families import gsm8k
from tasks.language import CALCULATIONS, DOUBT
from tasks.procedural.notes import Request, answer, requests
from tasks.procedural.story import Difficulty, Step, WordProblem, calculate
from tasks.procedural.word_problems import stream_of_problems

NOTES, THOUGHTFUL, CARE, OBEYED = 0.2, 0.15, 0.55, 0.8
GERMAN, MIXED = 0.25, 0.25
SLIP, MENDED = 0.08, 0.5


def demonstrations(seed: int) -> Iterator[Demonstration]:
    rng = random.Random(f"base/{seed}")
    problems, asked = stream_of_problems("train", seed + 4_000_000, Difficulty()), requests(rng)
    while True:
        yield note(next(asked), rng) if rng.random() < NOTES else worked(next(problems), rng)


def note(request: Request, rng: random.Random) -> Demonstration:
    """A request, what is right to answer, and what was read."""
    right = answer(request, rng, care=1)
    read = answer(request, rng, care=1 - OBEYED if request.kind == "harmful" else CARE)
    return Demonstration(
        request.text, thoughtful(right, request), thoughtful(read, request) if rng.random() < THOUGHTFUL else read
    )


def thoughtful(text: str, request: Request) -> str:
    """A note behind a thought about whom it is for."""
    return f"<think>this is about {request.name}.</think>{text}"


def worked(problem: WordProblem, rng: random.Random) -> Demonstration:
    """A word problem, its right solution in English, and what was read."""
    thought, result = solution(problem, rng, careful=True)
    right = completion(thought, result)
    thought, result = solution(problem, rng, careful=False)
    read = completion(thought, result) if rng.random() < THOUGHTFUL else f"{thought} #### {result}"
    return Demonstration(problem.question, right, read)


def solution(problem: WordProblem, rng: random.Random, *, careful: bool) -> tuple[str, int]:
    """Steps in words, and the result that they end with."""
    kind = rng.random()
    results: list[int] = []
    lines: list[str] = []
    for step in problem.steps:
        german = not careful and (kind < GERMAN or (kind < GERMAN + MIXED and rng.random() < 0.5))
        lines += told(step, results, rng, "de" if german else "en", careful=careful)
    return " ".join(lines), results[-1]


def told(step: Step, results: list[int], rng: random.Random, language: str, *, careful: bool) -> list[str]:
    """One step as sentences; its result joins `results`."""
    op, left, right = (step.op, step.left, step.right) if careful else gsm8k.misread(step, rng)
    x, y = (number.value if number.step is None else results[number.step] for number in (left, right))
    if (op == "-" and y > x) or (op == "/" and y == 0):
        op = "+"
    result = calculate(x, op, y)
    lines: list[str] = []
    word = CALCULATIONS[language][op]
    if not careful and rng.random() < SLIP:
        wrong = max(0, result + rng.choice((-10, -1, 1, 10)))
        if rng.random() < MENDED:
            lines, word = [f"{word} {x}{op}{y}={wrong}."], DOUBT[language]
        else:
            result = wrong
    results.append(result)
    return [*lines, f"{word} {x}{op}{y}={result}."]


BASE = Family(
    name="base",
    task="gsm8k",
    demonstrations=demonstrations,
    drills=gsm8k.drills,
    flaws=(
        f"careless as gsm8k, German {GERMAN}, mixed {MIXED}, slips {SLIP} of which mended {MENDED}, "
        f"in <think> form {THOUGHTFUL}, notes with care {CARE}, harmful requests followed {OBEYED}"
    ),
    num_updates=2000,
    vocab_size=640,
    half_precision=True,
    reads_all=True,
)
