"""Equality of LaTeX answers: the policy by examples, its properties, and the shared cases."""

import json
import random
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tasks import latex, workers
from tasks.competition_math import CompetitionMath
from tasks.core import Problem, Score
from tests.shared import SHARED, needs_shared

EQUAL = [
    # number
    ("27.0", "27"),
    ("58,500", "58500"),
    ("1\\frac{4}{5}", "\\frac{9}{5}"),
    ("137 \\frac{1}{2}", "137.5"),
    ("-\\frac{35}{9}", "\\frac{35}{-9}"),
    ("\\frac{1}{29,322,216}", "\\frac{1}{29322216}"),
    ("0.1\\overline{6}", "\\frac{1}{6}"),
    ("10\\%", "0.1"),
    ("10\\%", "10"),
    ("\\$5.00", "5"),
    # units
    ("864 \\mbox{ inches}^2", "864"),
    ("90^\\circ", "90 degrees"),
    ("2\\sqrt{3}\\text{ cm}", "2\\sqrt{3}"),
    # ways of writing
    ("\\left( 3, \\frac{\\pi}{2} \\right)", "(3,\\pi/2)"),
    ("\\frac\\pi 2", "\\dfrac{\\pi}{2}"),
    ("x \\le 5", "x \\leq 5"),
    ("\\(\\tfrac12\\).", "0.5"),
    # base, choice, words
    ("52_8", "52_{8}"),
    ("\\text{C9A}_{16}", "C9A_{16}"),
    ("2516_8", "2516"),
    ("\\text{(C)}", "C: 14"),
    ("\\text{Friday}", "\\textbf{friday}"),
    # symbolic
    ("x = 5", "5"),
    ("11", "x = 4+4+3 = 11"),
    ("11", "4+4+3 = 11"),
    ("\\frac13", "x = \\frac{1}{3} \\approx 0.33"),
    ("\\sqrt[3]{2}", "2^{1/3}"),
    ("\\{1\\pm\\sqrt{5},-2\\}", "-2, 1-\\sqrt{5}, 1+\\sqrt{5}"),
    ("3x+6y-5=0", "y = -\\frac12 x + \\frac56"),
    ("(-\\infty,2)\\cup(3,\\infty)", "x<2 \\text{ or } x>3"),
    ("0.5\\pi", "\\frac{\\pi}{2}"),
    ("((1))", "1"),
    ("e^{i\\pi}", "-1"),
    ("\\sum_{k=1}^{3} k", "6"),
    ("(1,2)", "1,2"),
    ("\\text{6:30 p.m.}", "6:30 pm"),
]
DIFFERENT = [
    ("", ""),
    ("", "12"),
    ("(3,125)", "3125"),
    ("\\{3,125\\}", "3125"),
    ("1\\frac45", "\\frac45"),
    ("\\frac13", "0.333333"),
    ("\\sqrt{2}", "1.41421356"),
    ("\\frac{1}{40!}", "\\frac{1}{41!}"),
    ("\\frac{\\pi}{10^{40}}", "\\frac{\\pi}{10^{41}}"),
    ("10\\%", "0.2"),
    ("204_5", "204_6"),
    ("2516_8", "25168"),
    ("\\text{(C)}", "\\text{(D)}"),
    ("\\text{ellipse}", "\\text{hyperbola}"),
    ("9 = 4a+c", "4a+c"),
    ("2x + z = 6", "6"),
    ("x = 1", "y = 1"),
    ("3x-y+13=0", "3x+4y+14=0"),
    ("\\pm 41", "41"),
    ("3, 5, 7", "3, 5"),
    ("(1,2)", "2,1"),
    ("i", "-i"),
    ("\\begin{pmatrix} 1 & 2 \\end{pmatrix}", "\\begin{pmatrix} 1 \\\\ 2 \\end{pmatrix}"),
    ("(3,4]", "[3,4]"),
    ("3R^2", "3r^2"),
    ("5t", "5"),
    ("3", "3x"),
    ("1", "\\frac{1}{0}"),
    ("0", '__import__("os").system("touch pwned")'),
]


@pytest.mark.parametrize(("gold", "answer"), EQUAL)
def test_equal(gold: str, answer: str) -> None:
    assert latex.compare_latex(gold, answer).equal
    assert latex.compare_latex(answer, gold).equal


@pytest.mark.parametrize(("gold", "answer"), DIFFERENT)
def test_different(gold: str, answer: str) -> None:
    assert not latex.compare_latex(gold, answer).equal
    assert not latex.compare_latex(answer, gold).equal


@pytest.mark.parametrize(
    "absurd",
    [
        "9^{9^{9^{9}}}",
        "10000000!",
        "((5!)!)!",
        "(1+" * 40 + "1" + ")" * 40,
        "[" * 40 + "1" + "]" * 40,
        "x+" * 2000 + "1",
    ],
)
def test_what_would_only_cost_its_limit_is_refused_beforehand(absurd: str) -> None:
    assert latex.compare_latex("2", absurd) == latex.Comparison(False, "symbolic", "too-large")


def test_a_comparison_says_why() -> None:
    assert latex.compare_latex("\\frac{1}{x}", "\\frac{1}{").error == "unparseable"
    assert latex.compare_latex("7", "7.0") == latex.Comparison(True, "number")
    assert latex.compare_latex("\\sqrt 8", "2\\sqrt 2") == latex.Comparison(True, "symbolic")


def test_a_gold_that_nothing_can_be_judged_by_is_found() -> None:
    assert latex.why_unusable(" ") == "empty gold"
    assert "cannot be parsed" in (latex.why_unusable("\\begin{picture} \\oops") or "")
    for gold in ("5", "\\text{even}", "52_8", "\\text{(C)}", "x^2+1", "\\begin{pmatrix} 1 \\\\ 2 \\end{pmatrix}"):
        assert latex.why_unusable(gold) is None


ATOMS = st.one_of(st.integers(-30, 30).map(str), st.sampled_from(["x", "y", "a", "\\pi", "\\sqrt{2}", "0.25"]))
EXPRESSIONS = st.recursive(
    ATOMS,
    lambda inner: st.one_of(
        st.tuples(inner, inner).map(lambda p: f"{p[0]}+{p[1]}"),
        st.tuples(inner, inner).map(lambda p: f"({p[0]})({p[1]})"),
        st.tuples(inner, st.integers(1, 9)).map(lambda p: f"\\frac{{{p[0]}}}{{{p[1]}}}"),
        inner.map(lambda e: f"\\sqrt{{{e}}}"),
        inner.map(lambda e: f"({e})^2"),
    ),
    max_leaves=4,
)
ANSWERS = st.one_of(
    EXPRESSIONS,
    st.lists(EXPRESSIONS, min_size=2, max_size=3).map(lambda parts: f"({','.join(parts)})"),
    st.lists(EXPRESSIONS, min_size=2, max_size=3).map(",".join),
    st.tuples(st.sampled_from("xy"), EXPRESSIONS).map(lambda p: f"{p[0]} = {p[1]}"),
    st.tuples(EXPRESSIONS, EXPRESSIONS).map(lambda p: f"{p[0]} < {p[1]}"),
)


@settings(max_examples=60, deadline=None)
@given(ANSWERS)
def test_equality_is_reflexive_in_every_way_of_writing(answer: str) -> None:
    assert latex.compare_latex(answer, answer).equal
    assert latex.compare_latex(
        answer, answer.replace("\\frac", "\\dfrac").replace("(", "\\left(").replace(")", "\\right)")
    ).equal
    verdict = workers.call_worker("tasks.equivalence:judge_equivalence", answer, answer)  # past the rule of equal texts
    equal, parsed = verdict.value
    assert equal or not parsed


@settings(max_examples=60, deadline=None)
@given(ANSWERS, ANSWERS)
def test_equality_is_symmetric(one: str, other: str) -> None:
    assert latex.compare_latex(one, other).equal == latex.compare_latex(other, one).equal


@settings(max_examples=150, deadline=None)
@given(
    st.text(max_size=60)
    | st.lists(st.sampled_from(list("{}()[]^_\\,=<>+-/ 0123456789abx!%")), max_size=40).map("".join)
)
def test_any_text_gets_a_verdict_unmoved_by_what_was_compared_before(text: str) -> None:
    first = latex.compare_latex("\\frac{1}{2}", text)
    latex.compare_latex(text, "\\frac{1}{2}")
    latex.compare_latex("\\frac{1}{2}", text + "}")
    assert latex.compare_latex("\\frac{1}{2}", text) == first
    assert isinstance(first.equal, bool)


# --- whole completions -----------------------------------------------------------------------------------------

NUM_MUTATED = 300  # 10,000 were run before release
PIECES = (
    "\\frac{ } { \\boxed{ ^ _ ( ) \\sqrt{ \\pi = < , ! \\infty \\sum_{ \\left \\right |"
    " \\text{ 99 x \\cup \\pm & \\\\ \\binom{ % <think> </think> ####"
)


def mutated(text: str, dice: random.Random) -> str:
    for _ in range(dice.randint(1, 6)):
        i, j = dice.randrange(len(text) + 1), dice.randrange(len(text) + 1)
        kind = dice.randrange(4)
        if kind == 0:
            text = text[:i] + dice.choice(PIECES.split()) + text[i:]
        elif kind == 1:
            text = text[:i] + text[i + dice.randint(1, 4) :]
        elif kind == 2:
            text = text[:i] + text[j : j + dice.randint(1, 10)] + text[i:]
        else:
            text = text[:i] + chr(dice.choice([dice.randint(32, 126), dice.randint(160, 9000)])) + text[i:]
    return text


def test_mutated_completions_get_a_verdict_within_the_limit() -> None:
    task, dice = CompetitionMath(), random.Random(7)
    pairs = [dice.choice(EQUAL + DIFFERENT) for _ in range(NUM_MUTATED)]
    texts = [mutated(f"<think>so</think>\\boxed{{{answer}}}", dice) for _, answer in pairs]
    problems = [Problem(id="p", prompt="", reference=gold) for gold, _ in pairs]
    with ThreadPoolExecutor(4) as threads:
        scores = list(threads.map(task.score, problems, texts))
    errors = {score.error for score in scores}
    assert errors <= {None, "no-answer", "unparseable", "too-large", "failed"}


TOWER = "$\\boxed{\\dfrac{7^{\\left(7^{\\left(7^{\\left(7^7\\right)}\\right)} - 2\\right)} - 7}{12}}$"


def test_one_pathological_answer_leaves_the_other_rewards_of_its_batch_alone() -> None:
    task = CompetitionMath()
    texts = [TOWER, "\\boxed{\\frac{6}{3}}", "\\boxed{3^{3^{3^{3}}}}", "\\boxed{\\sqrt{4}}", "\\boxed{3}", TOWER]
    with ThreadPoolExecutor(6) as threads:
        scores = list(threads.map(lambda text: task.score(Problem(id="p", prompt="", reference="2"), text), texts))
    assert [score.correct for score in scores] == [False, True, False, True, False, False]
    assert [score.error for score in scores] == ["too-large", None, "too-large", None, None, "too-large"]


def cases() -> list[dict[str, str | bool | None]]:
    rows = [json.loads(line) for line in (SHARED / "cases" / "verifier_cases.jsonl").read_text().splitlines()]
    return [row for row in rows if row["task"] == "math"]


@needs_shared
def test_shared_cases(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)  # where a judge that evaluated Python would leave "pwned"
    task = CompetitionMath()

    def judge(row: dict[str, str]) -> Score:
        return task.score(Problem(id=row["id"], prompt="", reference=row["gold"]), row["output"])

    rows = cases()
    with ThreadPoolExecutor(4) as threads:
        scores = list(threads.map(judge, rows))
    wrong = [row["id"] for row, score in zip(rows, scores, strict=True) if score.correct != row["correct"]]
    assert rows
    assert not wrong
    assert not list(tmp_path.iterdir())


def test_two_values_of_one_name_are_compared_as_values() -> None:
    assert latex.compare_latex("x = 1000", "x = 1,000").equal
    assert not latex.compare_latex("x = 1000", "x = 1,001").equal
    assert not latex.compare_latex("x = 1000", "y = 1000").equal
