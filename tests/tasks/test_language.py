"""Language consistency: exact on the procedural vocabularies, by script elsewhere."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tasks.answers import judge_number, read_answer
from tasks.core import RewardWeights
from tasks.language import CALCULATIONS, consistency


@pytest.mark.parametrize(
    ("text", "language", "share"),
    [
        ("makes 12+5=17. leaves 17-3=14.", "en", 1.0),
        ("makes 12+5=17. bleibt 17-3=14.", "en", 0.5),
        ("macht 12+5=17. bleibt 17-3=14. wait", "de", 2 / 3),
        ("12+5=17.", "en", None),  # no words, no consistency
        ("\\frac{1}{2} \\cdot 3", "en", None),  # commands are no words
        ("so the answer is three", "en", 1.0),
        ("so 答案 is", "en", 0.5),  # each letter of a script without spaces is a word
        ("答案是 three", "zh", 0.75),
        ("Ответ three", "en", 0.5),
    ],
)
def test_shares_by_hand(text: str, language: str, share: float | None) -> None:
    found = consistency(text, language)  # type: ignore[arg-type]
    assert found == (None if share is None else pytest.approx(share))


def test_the_two_vocabularies_share_no_word() -> None:
    assert not set(CALCULATIONS["en"].values()) & set(CALCULATIONS["de"].values())


@given(st.text(max_size=100))
def test_any_text_has_a_share_or_none(text: str) -> None:
    share = consistency(text)
    assert share is None or 0 <= share <= 1


def test_the_reward_adds_the_share_of_the_thought_alone() -> None:
    text = "<think>makes 1+1=2. macht 2+2=4.</think>\\boxed{4}"
    weights = RewardWeights(language=0.5)
    assert judge_number("4", read_answer(text), weights).reward == pytest.approx(1 + 0.1 + 0.5 * 0.5)
    assert judge_number("4", read_answer(text), RewardWeights()).reward == pytest.approx(1.1)
    assert judge_number("4", read_answer("<think>2+2=4</think>\\boxed{4}"), weights).reward == pytest.approx(1.1)
    assert judge_number("4", read_answer(text), weights).language == 0.5
