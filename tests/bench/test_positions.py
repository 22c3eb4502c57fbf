"""From characters to tokens: where a part of a reward is paid, and what is refused."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, cast

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from bench.batch import scored
from bench.config import ASSETS, RewardModelConfig
from bench.ground.errors import UserError
from bench.models.load import load_tokenizer
from bench.positions import place_rewards, token_ends
from bench.reward import RewardedTask, Route, rewarded
from bench.rollout import Completion, Rollout
from tasks.chain import Chain
from tests.bench.support import rollout

TOKENIZER = cast("Any", load_tokenizer(str(ASSETS / "gsm8k")))


class Reads:
    """Decoding alone, by the embedded model's tokenizer."""

    def decode(self, token_ids: Sequence[int]) -> str:
        return str(TOKENIZER.decode(list(token_ids)))


class Letters:
    """Two characters a token; alone, a token shows three, as some tokenizers' do."""

    def decode(self, token_ids: Sequence[int]) -> str:
        return "xyz" if len(token_ids) == 1 else "xy" * len(token_ids)


ENGINE, LETTERS = cast("Any", Reads()), cast("Any", Letters())


def answered(text: str, *, ended: bool = True) -> Completion:
    ids = TOKENIZER(text, add_special_tokens=False)["input_ids"] + ([TOKENIZER.eos_token_id] if ended else [])
    return Completion(
        token_ids=ids,
        logprobs=[-1.0] * len(ids),
        sampling_logprobs=[-1.0] * len(ids),
        text=text,
        finish_reason="stop" if ended else "length",
    )


def paid(text: str, earned: tuple[tuple[int, float], ...]) -> Rollout:
    base = rollout()
    total = sum(amount for _, amount in earned)
    return replace(base, completion=answered(text), score=replace(base.score, reward=total, earned=earned))


@given(st.text(max_size=12))
def test_the_ends_of_tokens_grow_to_the_whole_text(text: str) -> None:
    """Whatever is written, half of a letter's bytes in a token among it."""
    done = replace(answered(""), text=(whole := ENGINE.decode(answered(text, ended=False).token_ids)))
    done = replace(done, token_ids=answered(text).token_ids)
    ends = token_ends(done, ENGINE)
    assert len(ends) == len(done.token_ids)
    assert ends == sorted(ends)
    assert ends[-1] == len(whole)


def test_tokens_that_read_otherwise_alone_are_read_together() -> None:
    done = Completion(token_ids=[4, 4, 4, 1], logprobs=[], sampling_logprobs=[], text="xyxyxy", finish_reason="stop")
    assert token_ends(done, LETTERS) == [3, 4, 6, 6]


def test_a_step_is_paid_at_the_token_that_holds_its_last_character() -> None:
    text = "2 + 2 = 4; then 8;"
    (placed,) = place_rewards([paid(text, ((10, 0.5), (18, 0.0)))], ENGINE)
    assert ENGINE.decode(placed.completion.token_ids[: placed.paid_at[0] + 1]) == text[:10]
    assert ENGINE.decode(placed.completion.token_ids[: placed.paid_at[1] + 1]) == text


def test_columns_by_hand() -> None:
    """Two steps of two and three tokens, then an end mark; a sibling paid at its end; one wrong step."""
    first = replace(paid("", ()), completion=replace(answered(""), token_ids=[2, 3, 4, 5, 6, 1]))
    first = replace(first, paid_at=(1, 4), score=replace(first.score, reward=0.5, earned=((1, 0.5), (2, 0.0))))
    second = rollout(tokens=(3, 4, 1), reward=0.25)
    found = scored([first, second], 8)
    assert found.token_rewards is not None
    assert found.token_rewards.tolist() == [[0, 0.5, 0, 0, 0, 0], [0, 0, 0.25, 0, 0, 0]]
    assert found.steps is not None
    assert found.steps[0].tolist() == [0, 0, 1, 1, 1, 2]
    assert found.rewards.tolist() == [0.5, 0.25]


def test_without_payments_on_the_way_there_are_no_columns() -> None:
    found = scored([rollout(reward=1.0), rollout()], 8)
    assert found.token_rewards is None
    assert found.steps is None


@pytest.mark.parametrize(
    ("earned", "reward", "said"),
    [
        (((4, 1.0),), 1.0, "p: the task pays at character 4 of a completion of 3; mend its score"),
        (((0, 1.0),), 1.0, "p: the task pays at character 0 of a completion of 3; mend its score"),
        (((3, 0.5), (1, 0.5)), 1.0, "not in the order"),
        (((1, 0.5), (3, 0.5)), 0.75, "pays 1 along the completion and says 0.75"),
    ],
)
def test_payments_that_cannot_be_are_refused(earned: tuple[tuple[int, float], ...], reward: float, said: str) -> None:
    wrong = paid("abc", earned)
    with pytest.raises(UserError, match=said):
        place_rewards([replace(wrong, score=replace(wrong.score, reward=reward))], ENGINE)


def test_a_reward_of_the_users_own_is_paid_at_the_end() -> None:
    task = Chain(steps=2)
    problem = task.problems("train")[0]
    verdict = RewardedTask(task, lambda _, __: 7.0).score(problem, problem.reference)
    assert (verdict.reward, verdict.earned, verdict.correct) == (7.0, (), True)


def test_a_learned_reward_is_added_at_the_end() -> None:
    class Fixed:
        def score(self, conversations: object) -> torch.Tensor:
            return torch.tensor([3.0])

    config = RewardModelConfig(path="x", weight=2.0, rules_weight=0.5, mean=1.0)
    (mixed,) = rewarded([paid("abcd", ((2, 1.0), (4, 0.0)))], Route(cast("Any", Fixed()), config))
    assert mixed.score.reward == pytest.approx(4.5)
    assert mixed.score.earned == ((2, 0.5), (4, 0.0), (4, 4.0))
