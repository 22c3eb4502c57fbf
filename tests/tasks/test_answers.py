"""How answers are read: every line of the policy by an example, and the shared cases."""

import json
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tasks import answers, numerals
from tasks.core import RewardWeights
from tests.shared import SHARED, needs_shared


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("3,250", 3250),
        ("64 000", 64000),
        ("1{,}450{,}000", 1450000),
        ("1\\,450\\,000", 1450000),
        ("1,\\!450", 1450),
        ("\\$27.00", 27),
        ("-\\$27", -27),
        ("$-27$", -27),
        ("27€", 27),
        ("35\\%", 35),
        ("- 6", -6),
        ("\u221214", -14),
        (".5", "1/2"),
        ("1/2", "1/2"),
        ("\\frac{1}{2}", "1/2"),
        ("\\dfrac12", "1/2"),
        ("-\\frac{1}{2}", "-1/2"),
        ("\\frac{35}{-9}", "-35/9"),
        ("1\\frac{4}{5}", "9/5"),
        ("2 1/2", "5/2"),
        ("1.2\\times 10^3", 1200),
        ("1.2 \\cdot 10^{-1}", "3/25"),
        ("1.5e3", 1500),
        ("2 million", 2000000),
        ("x = 5", 5),
        ("4*3 = 12", 12),
        ("\\frac{1}{3} \\approx 0.33", "1/3"),
        ("\\approx 36", 36),
        ("36 \\text{ apples}", 36),
        ("\\text{36 km}", 36),
        ("36km", 36),
        ("60 km/h", 60),
        ("864\\mbox{ inches}^2", 864),
        ("12 m^2", 12),
        ("90^\\circ", 90),
        ("\\textbf{73}", 73),
        ("(36)", 36),
        ("\\left(36\\right)", 36),
        ("25.", 25),
        ("025", 25),
        ("The answer is 36", 36),
    ],
)
def test_one_number_whatever_goes_with_it(text: str, value: int | str) -> None:
    assert numerals.number_in(text) == Fraction(value)


NOT_A_NUMBER = (
    "nan inf five 3-5 5-7 12+24 3\\cdot4 6^2 5! 2\\pi \\sqrt{16} sqrt(16) 36x x-14 (3,125,7)".split()  # noqa: SIM905
)


@pytest.mark.parametrize("text", [*NOT_A_NUMBER, "5, 7", "36 or 40"])
def test_what_is_not_one_number_is_not_guessed_at(text: str) -> None:
    assert numerals.number_in(text) is None


@pytest.mark.parametrize("text", ["", "1/0", "1.2.3", "2,5", "1e999999", "2\\times10^{999999}", "9" * 2000])
def test_what_would_be_no_number_or_a_monstrous_one(text: str) -> None:
    assert numerals.number_in(text) is None


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("Adding the two parts, the answer is 46.", 46),
        ("he holds 58 marbles, altogether.", 58),
        ("Room AZ2B is the one.", None),
        ("Unit 7B", None),
        ("He came 3rd.", None),
        ("It is -14 degrees", -14),
        ("20 - 8", 8),
        ("20-8", 8),
        ("20 -8", 8),
        ("a sub-14 time", 14),
        ("Total - 14", 14),
        ("= -2", -2),
        ("one:\n- 14 apples", 14),
        ("**-5**", -5),
        ("so $\\frac{1}{2}$ is left", "1/2"),
        ("lists 3,4", 4),
        ("about 1.2 \\times 10^3 people", 1200),
        ("version 1.2.3", None),
        ("no digits at all", None),
    ],
)
def test_last_number_of_prose(text: str, value: int | str | None) -> None:
    assert numerals.last_number(text) == (None if value is None else Fraction(value))


@pytest.mark.parametrize(
    ("text", "answer", "rule"),
    [
        ("\\boxed{5} then \\boxed{7}", "7", "box"),
        ("\\boxed{\\boxed{7}}", "7", "box"),
        ("\\boxed{\\frac{14}{3}}.", "\\frac{14}{3}", "box"),
        ("\\boxed{\\{5,2\\}}", "\\{5,2\\}", "box"),
        ("\\fbox{36}", "36", "box"),
        ("\\boxed 36.", "36", "box"),
        ("24 but \\boxed{}", None, None),
        ("24 but \\boxed{36", None, None),
        ("#### 24\n and 7 more", "24", "marker"),
        ("#### Step 1\n3*8\n#### 24", "24", "marker"),
        ("#### **24** apples and 3 pears", "24", "marker"),
        ("17\nA: 3,000", "3000", "marker"),
        ("#### Step 1\nso 24", "24", "last-number"),
        ("<think>\\boxed{1}</think>", None, None),
        ("<think>\\boxed{1}", None, None),
        ("</think>a<think>\\boxed{1}", None, None),
        ("<think>a</think>b</think>c 9", "9", "last-number"),
        ("18<|im_end|>", "18", "last-number"),
    ],
)
def test_where_the_answer_is(text: str, answer: str | None, rule: str | None) -> None:
    reading = answers.read_answer(text)
    assert reading.text == answer
    assert reading.rule == rule or answer is None


@pytest.mark.parametrize(
    ("text", "think_ok", "box_ok"),
    [
        ("<think>a</think>\\boxed{5}", True, True),
        ("\n<think></think> \\boxed{5}", True, True),
        ("Sure!<think>a</think>\\boxed{5}", False, True),
        ("<think>a</think><think>b</think>\\boxed{5}", False, True),
        ("<think>a<think>b</think></think>\\boxed{5}", False, True),
        ("< think >a</ think >\\boxed{5}", False, True),
        ("a</think>\\boxed{5}", False, True),
        ("</think>a<think>\\boxed{5}", False, False),
        ("<think>\\boxed{5}</think>5", True, False),
        ("<think>a</think>\\boxed{ }", True, False),
        ("<think>a</think>\\boxed{5", True, False),
        ("<think>a", False, False),
        ("", False, False),
    ],
)
def test_format(text: str, think_ok: bool, box_ok: bool) -> None:
    reading = answers.read_answer(text)
    assert (reading.think_ok, reading.box_ok) == (think_ok, box_ok)


def test_a_template_that_opens_the_think_block_is_known_to_the_checker() -> None:
    assert answers.read_answer("a</think>\\boxed{5}", think_opened=True).think_ok
    assert answers.read_answer("<think>a</think>\\boxed{5}", think_opened=True).think_ok
    assert not answers.read_answer("a</think>b</think>\\boxed{5}", think_opened=True).think_ok


def test_reward_mixes_accuracy_and_format_and_correct_stays_apart() -> None:
    weights = RewardWeights(right=1.0, wrong=-1.0, accuracy=2.0, format=0.5)
    score = answers.judge_number("5", answers.read_answer("<think>a</think>\\boxed{6}"), weights)
    assert (score.reward, score.correct, score.format_ok) == (-1.5, False, True)
    score = answers.judge_number("5", answers.read_answer("\\boxed{5}"), weights)
    assert (score.reward, score.correct, score.format_ok) == (2.25, True, False)


def test_a_score_says_why() -> None:
    weights = RewardWeights()
    assert answers.judge_number("5", answers.read_answer(""), weights).error == "no-answer"
    score = answers.judge_number("5", answers.read_answer("\\boxed{five}"), weights)
    assert (score.error, score.answer, score.rule, score.correct) == ("unparseable", "five", "box", False)
    score = answers.judge_number("0", answers.read_answer("\\boxed{0.0}"), weights)
    assert (score.error, score.answer, score.correct) == (None, "0", True)


def test_an_empty_gold_never_matches() -> None:
    for text in ("", "\\boxed{}", "\\boxed{12}", "nothing"):
        assert not answers.judge_number("", answers.read_answer(text), RewardWeights()).correct


PIECES = "<think> </think> \\boxed{ \\boxed { } \\frac #### A: - \u2212 1 22 , . / ^ \\times10^ e9 % \\$ <|im_end|> x ="
ALPHABET = st.sampled_from([*PIECES.split(), "\n", " "])


@given(st.lists(ALPHABET, max_size=40).map("".join) | st.text(max_size=200))
def test_reading_is_total_and_unmoved_by_what_was_read_before(text: str) -> None:
    first = answers.judge_number("3", answers.read_answer(text), RewardWeights())
    number = numerals.number_in(text)
    answers.judge_number("3", answers.read_answer("\\boxed{3} <think> " + text[::-1]), RewardWeights())
    assert answers.judge_number("3", answers.read_answer(text), RewardWeights()) == first
    assert numerals.number_in(text) == number


@given(st.fractions())
def test_a_number_written_in_a_box_is_read_back(value: Fraction) -> None:
    for text in (f"\\boxed{{{value}}}", f"\\boxed{{\\frac{{{value.numerator}}}{{{value.denominator}}}}}"):
        assert answers.judge_number(str(value), answers.read_answer(text), RewardWeights()).correct


CASES = SHARED / "cases" / "verifier_cases.jsonl"


@needs_shared
@pytest.mark.parametrize("task", ["gsm8k", "format"])
def test_shared_cases(task: str) -> None:
    rows = [json.loads(line) for line in CASES.read_text().splitlines()]
    rows = [row for row in rows if row["task"] == task]
    assert rows
    wrong: list[str] = []
    for row in rows:
        score = answers.judge_number(row["gold"], answers.read_answer(row["output"]), RewardWeights())
        if score.correct != row["correct"] or row["format_ok"] not in (None, score.format_ok):
            wrong.append(row["id"])
    assert not wrong


@needs_shared
def test_published_verdicts_are_reproduced() -> None:
    models = ("6b_finetuning", "6b_verification", "175b_finetuning", "175b_verification")
    right = dict.fromkeys(models, 0)
    for line in (SHARED / "data" / "gsm8k" / "example_model_solutions.jsonl").read_text().splitlines():
        row = json.loads(line)
        gold = row["ground_truth"].rpartition("A:")[2]
        for model in models:
            score = answers.judge_number(gold, answers.read_answer(row[model]["solution"]), RewardWeights())
            assert score.correct == row[model]["is_correct"]
            right[model] += score.correct
    assert list(right.values()) == [286, 515, 458, 742]  # of 1319 each, as published


@pytest.mark.parametrize(
    "piece",
    [
        "1,",
        "1 000 ",
        "9",
        "1/",
        "1 1/1 ",
        "#### 1\n",
        "\\boxed{",
        "{",
        "\\frac{",
        "\\text{",
        "<think>",
        "<|",
        "- ",
        "^{",
    ],
)
def test_long_texts_are_read_in_linear_time(piece: str) -> None:
    """Quadratic reading of 200,000 characters would take minutes, and stall the suite rather than fail an assertion."""
    text = piece * (200_000 // len(piece))
    for completion in (text, f"\\boxed{{{text}}}", f"<think>{text}</think>\\boxed{{5}}"):
        assert answers.judge_number("5", answers.read_answer(completion), RewardWeights()).correct in (0.0, 1.0)
