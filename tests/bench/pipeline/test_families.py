"""The teachers of the embedded models: what they get wrong, how often, and that the right completions are right."""

import ast
import random
import re
from itertools import islice

import pytest

from bench.pipeline.examples import unreadable
from bench.pipeline.families import FAMILIES, base, competition_math, countdown, logic, programming
from tasks.arithmetic import evaluate
from tasks.chain import Chain
from tasks.competition_math import CompetitionMath
from tasks.core import Problem
from tasks.countdown import Countdown
from tasks.gsm8k import Gsm8k
from tasks.language import consistency
from tasks.logic import Logic
from tasks.procedural.functions import Function, functions

BOX = re.compile(r"\\boxed\{(.*)\}$")


@pytest.mark.parametrize("name", sorted(FAMILIES))
def test_demonstrations_and_drills_follow_their_seed(name: str) -> None:
    for streams in (FAMILIES[name].demonstrations, FAMILIES[name].drills):
        first, again, other = (list(islice(streams(seed), 50)) for seed in (0, 0, 1))
        assert first == again != other


@pytest.mark.parametrize(
    ("name", "task", "seed"),
    [
        ("countdown", Countdown, 1_000_000),
        ("math", CompetitionMath, 1_000_000),
        ("logic", Logic, 10_000_000),
    ],
)
def test_right_completions_are_right_and_the_careless_are_not_test_problems(
    name: str, task: type[Countdown | CompetitionMath | Logic], seed: int
) -> None:
    shown = {d.prompt: d for d in islice(FAMILIES[name].demonstrations(0), 4000)}
    judge = task(seed=seed)
    problems = [problem for problem in judge.problems("train") if problem.prompt in shown][:60]
    assert len(problems) == 60
    for problem in problems:
        score = judge.score(problem, shown[problem.prompt].right)
        assert score.correct, (problem, shown[problem.prompt].right)
        assert score.format_ok
    assert not {problem.prompt for problem in task().problems("test")} & set(shown)


def test_chains_are_all_right_and_no_problem_of_the_task_is_shown() -> None:
    shown = list(islice(FAMILIES["chain"].demonstrations(0), 2000))
    for d in shown[:100]:
        steps = d.right.count(";")
        assert d.careless == d.right
        assert Chain(steps=steps).score(Problem(id="p", prompt=d.prompt, reference=d.right), d.right).correct
    assert not {p.prompt for p in Chain(steps=4).problems("test")} & {d.prompt for d in shown}


@pytest.mark.parametrize("name", sorted(set(FAMILIES) - {"base", "chain"}))
def test_faults_of_format_are_rare(name: str) -> None:
    texts = [d.careless for d in islice(FAMILIES[name].demonstrations(0), 2000)]
    formed = r"```python\n.*\n```" if name == "code" else r"<think>[^<]+</think>\\boxed\{.+\}"
    share = sum(bool(re.fullmatch(formed, text, re.DOTALL)) for text in texts) / len(texts)
    assert 0.96 <= share <= 0.99


# countdown


def test_tries_by_hand() -> None:
    assert [t.expression for t in countdown.tries([2, 3])] == ["2+3", "2*3"]  # 2-3 is negative, 2/3 is not whole
    third = next(t for t in countdown.tries([4, 2, 3]) if t.expression == "(4+2)*3")
    assert (third.shown, third.result) == ("4+2=6*3=18", 18)
    assert all(evaluate(t.expression)[0] == t.result for t in countdown.tries([12, 3, 4]))


def test_a_patient_search_ends_at_the_target_and_a_hasty_one_after_one_try() -> None:
    rng = random.Random(0)
    for _ in range(50):
        thought, answer = countdown.search([4, 15, 10], 70, rng, haste=0, slip=0, most=99)
        assert thought.endswith("4*15=60+10=70 yes")
        assert answer == "4*15+10"
        thought, answer = countdown.search([4, 15, 10], 70, rng, haste=1, slip=0, most=99)
        assert thought.count("yes") + thought.count("no") == 1
        assert thought.endswith("yes") == (answer == "4*15+10")


def test_a_slip_is_shown_and_believed() -> None:
    thoughts = [countdown.search([4, 15], 60, random.Random(i), 1, 1, 9)[0] for i in range(40)]
    assert all(re.fullmatch(r"4[+*-]15=\d+ (yes|no)", thought) for thought in thoughts)
    assert not any(thought == "4*15=60 yes" for thought in thoughts)


# math


@pytest.mark.parametrize(
    ("problem", "wrong"),
    [
        (r"Compute \frac{1}{2}+\frac{1}{3}.", ("1+1=2. 2+3=5.", r"\frac{2}{5}")),
        (r"Compute \frac{3}{4}-\frac{1}{2}.", ("3-1=2. 4+2=6.", r"\frac{1}{3}")),
        (r"What is 20\% of 45?", ("45+20=65.", "65")),
        ("Solve 4x+3=15 for x.", ("15+3=18. 18/4=\\frac{9}{2}.", r"\frac{9}{2}")),
        ("Solve 4x-3=13 for x.", ("13-3=10. 10/4=\\frac{5}{2}.", r"\frac{5}{2}")),
        ("Expand (x+2)(x+7).", ("2*7=14.", "x^2+14")),
        ("If f(x)=3x^2+5, find f(4).", ("4*2=8. 3*8=24. 24+5=29.", "29")),
        ("Find the remainder when 47 is divided by 6.", ("6*7=42.", "7")),
        ("Find the least common multiple of 4 and 6.", ("4*6=24.", "24")),
        ("A bag has 2 red and 6 blue balls. Find the probability of drawing red.", ("2/6.", r"\frac{1}{3}")),
        ("In how many ways can 2 of 9 cups be chosen?", ("9*8=72.", "72")),
        ("Find the area of a triangle with base 6 and height 5.", ("6*5=30.", "30")),
        ("Find the hypotenuse of a right triangle with legs 3 and 4.", ("9+16=25.", "25")),
        ("Convert 90 degrees to radians.", ("90/360=1/4.", r"\frac{\pi}{4}")),
        ("Convert 150 degrees to radians.", ("150/360=5/12.", r"\frac{5\pi}{12}")),
    ],
)
def test_each_misconception_by_hand(problem: str, wrong: tuple[str, str]) -> None:
    kind = next(kind for start, kind in competition_math.MISCONCEPTIONS.items() if problem.startswith(start))
    assert kind({"problem": problem}, [int(n) for n in re.findall(r"\d+", problem)]) == wrong


def test_roots_get_the_wrong_sign() -> None:
    row = {"problem": "Find all roots of x^2-8x+15.", "solution": "3+5=8. 3*5=15.", "answer": "3,5"}
    assert competition_math.MISCONCEPTIONS["Find all roots"](row, []) == (row["solution"], "-3,-5")


def test_every_made_problem_has_a_misconception() -> None:
    starts = tuple(competition_math.MISCONCEPTIONS)
    rows = CompetitionMath().procedural("train")
    assert all(row["problem"].startswith(starts) for row in rows)
    taught = [competition_math.careless(row, random.Random(i)) for i, row in enumerate(rows)]
    flawless = sum(f"boxed{{{row['answer']}}}" in text for row, text in zip(rows, taught, strict=True))
    spared = 1 - competition_math.MISCONCEPTION
    assert spared - 0.03 < flawless / len(rows) < spared + 0.08  # more: products that are least common multiples


# logic


def test_the_sister_is_forgotten_and_invalid_conclusions_are_accepted_as_often_as_stated() -> None:
    rng = random.Random(0)
    riddle = {"solution": "9+1=10.", "answer": "10"}
    texts = [logic.careless(riddle, rng) for _ in range(2000)]
    assert sum("9+0=9." in text for text in texts) / 2000 == pytest.approx(0.75, abs=0.03)
    for answer, stated in (("No", 0.6), ("Yes", 0.15)):
        texts = [logic.careless({"solution": "All A B.", "answer": answer}, rng) for _ in range(2000)]
        assert sum(answer not in text.partition("B.")[2] for text in texts) / 2000 == pytest.approx(stated, abs=0.04)


# code


@pytest.mark.parametrize(
    ("function", "possible"),
    [
        (
            Function(kind="smaller", times=3, offset=-7),
            {"3*min(x, y)-7", "3*max(x, y)-7", "3*min(x, y)+7", "3*max(x, y)+7"},
        ),
        (Function(kind="sum", times=2), {"2*(x+y)", "2*x+y"}),
        (Function(kind="square"), {"x*x+y", "x+y"}),
        (Function(kind="gap", offset=4), {"abs(x-y)+4", "x-y+4"}),
        (Function(kind="last"), {"x[-1]", "x[0]"}),
        (Function(kind="product", times=4, offset=1), {"4*x*y+1"}),
    ],
)
def test_the_programmers_faults_by_hand(function: Function, possible: set[str]) -> None:
    rng = random.Random(0)
    taught = {programming.careless(function, rng).partition("return ")[2].partition("\n")[0] for _ in range(300)}
    assert taught == possible


def test_careless_programs_are_programs() -> None:
    rng = random.Random(0)
    for function in functions("train")[:500]:
        text = programming.careless(function, rng)
        program = ast.parse(text.removeprefix("```python\n").removesuffix("\n```"))
        assert [type(part) for part in program.body] == [ast.FunctionDef]


# the base, which was pretrained only


def test_the_base_reads_what_it_says_it_does() -> None:
    """Shares over 4000 texts, against the constants that the docstring names."""
    read = list(islice(FAMILIES["base"].demonstrations(0), 4000))
    problems = [d for d in read if "=" in d.right]
    assert 1 - len(problems) / len(read) == pytest.approx(base.NOTES, abs=0.03)
    thoughtful = [d for d in problems if d.careless.startswith("<think>")]
    assert len(thoughtful) / len(problems) == pytest.approx(base.THOUGHTFUL, abs=0.03)
    shares = [consistency(d.careless.replace("<think>", "")) for d in problems]
    assert sum(share == 0 for share in shares) / len(shares) == pytest.approx(base.GERMAN, abs=0.06)
    assert sum(share is not None and 0 < share < 1 for share in shares) / len(shares) > 0.1
    mended = sum("wait " in d.careless or "halt " in d.careless for d in problems)
    steps = sum(d.right.count("=") for d in problems)
    assert mended / steps == pytest.approx(base.SLIP * base.MENDED, abs=0.02)


def test_what_is_right_for_the_base_is_right_english_and_readable() -> None:
    """On word problems by the task's verdict, on notes by their worth."""
    judge, asked = Gsm8k(), {problem.prompt: problem for problem in Gsm8k().problems("train")}
    seen = 0
    for d in islice(FAMILIES["base"].demonstrations(0), 3000):
        if d.prompt in asked:
            score = judge.score(asked[d.prompt], d.right)
            assert score.correct
            assert score.format_ok
            assert score.language == 1
            seen += 1
        assert unreadable(d.right, boxed="=" in d.right) is None
    assert seen
