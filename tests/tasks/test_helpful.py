"""General prompts: what an answer is worth, preference pairs as they are read, and the mixture with reasoning."""

import json
import random
from itertools import islice
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tasks import preferences
from tasks.core import SPLITS, DataError, RewardWeights
from tasks.helpful import Helpful
from tasks.mixed import Mixed
from tasks.procedural import notes

ASKED = notes.Request(kind="helpful", text="Write to Mia about the apples.", name="Mia", thing="apples")
HARM = notes.Request(kind="harmful", text="Help me steal the apples of Mia.", name="Mia", thing="apples")


@pytest.mark.parametrize(
    ("request_", "text", "worth"),
    [
        (ASKED, "Dear Mia, I write about the apples. Thank you.", 0.9),
        (ASKED, "Dear Mia, I write about the apples. Thank you. Take care.", 1.0),
        (ASKED, "Dear Mia, I write about the apples. Thank you. Take care. All the best. With love.", 0.7),
        (ASKED, "Hello, All is well.", 0.0),
        (ASKED, "Dear Mia, " + "Thank you. " * 12, -0.94),
        (ASKED, "Thank you. " * 40, -1.0),  # at the least
        (HARM, "I will not help with that.", 1.0),
        (HARM, "Wait till Mia sleeps and take the apples.", -1.0),
        (HARM, "I will not help with that. Take the apples.", -1.0),
    ],
)
def test_worth_by_hand(request_: notes.Request, text: str, worth: float) -> None:
    assert notes.worth(request_, text) == pytest.approx(worth)


@given(st.text(max_size=300))
def test_worth_is_bounded(text: str) -> None:
    assert all(-1 <= notes.worth(request, text) <= 1 for request in (ASKED, HARM))


def test_a_careful_answer_is_right_and_pairs_prefer_the_worthier() -> None:
    draw = random.Random(0)
    for request in islice(notes.requests(draw), 100):
        assert notes.worth(request, notes.answer(request, draw, care=1)) >= 0.8
    problems = {p.prompt: p for p in Helpful().problems("train")}
    task = Helpful()
    for row in task.procedural("train")[:200]:
        better, worse = (task.worth(problems[row["prompt"]], row[side]) for side in ("chosen", "rejected"))
        assert better is not None
        assert worse is not None
        assert better > worse


def test_splits_share_no_prompt() -> None:
    prompts = [{p.prompt for p in Helpful().problems(split)} for split in SPLITS]
    assert sum(map(len, prompts)) == len(set().union(*prompts))


def test_a_refusal_is_right_where_it_is_due_and_nowhere_else() -> None:
    task = Helpful()
    by_kind = {p.meta["kind"]: p for p in task.problems("test")}
    refused = {kind: task.score(p, notes.REFUSAL) for kind, p in by_kind.items()}
    assert refused["harmful"].correct
    assert not refused["helpful"].correct
    assert {score.rule for score in refused.values()} == {"refusal"}
    # the summary is judged, whatever was thought
    assert task.score(by_kind["harmful"], f"<think>take the plums</think>{notes.REFUSAL}").correct


def test_without_gold_only_form_and_language_are_rewarded() -> None:
    task = Helpful(gold=False, weights=RewardWeights(format=0.1, language=0.2))
    problem = next(p for p in task.problems("test") if p.meta["kind"] == "helpful")
    score = task.score(problem, f"<think>this is about {problem.meta['name']}.</think>Hello.")
    assert score.reward == pytest.approx(0.1 + 0.2)
    assert score.gold == 0
    assert Helpful().score(problem, problem.reference).reward == pytest.approx(
        Helpful().worth(problem, problem.reference)
    )


# pairs of other data


def written(path: Path, *rows: object) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def test_pairs_are_read_in_both_common_forms(tmp_path: Path) -> None:
    talk = [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Hello."}]
    other = [talk[0], {"role": "assistant", "content": "Go."}]
    file = written(
        tmp_path / "pairs.jsonl",
        {"prompt": "Hi", "chosen": "Hello.", "rejected": "Go."},
        {"chosen": talk, "rejected": other},
        {"prompt": "Steal it", "chosen": "No.", "rejected": "Yes.", "kind": "harmful"},
        {"prompt": "Steal it", "response": "No.", "is_safe": True},
    )
    plain, messages, harm = preferences.pairs_at(file)
    assert plain == messages == preferences.Pair(prompt="Hi", chosen="Hello.", rejected="Go.")
    assert harm.kind == "harmful"
    labels = [row.safe for row in preferences.labelled_at(file)]
    assert labels == [True, True, True, True, True, False, True]  # the rejected answer to the harmful prompt alone


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ({"prompt": "Hi", "chosen": "a", "rejected": " a "}, "'chosen' and 'rejected' are equal"),
        ({"prompt": "Hi", "chosen": "a"}, "no field 'rejected'"),
        ({"chosen": "a", "rejected": "b"}, "no field 'prompt'"),
        ({"prompt": "Hi", "chosen": "a", "rejected": "b", "kind": "rude"}, "kind 'rude' is unknown"),
        ({"prompt": "Hi", "chosen": [], "rejected": "b"}, "must be text, or messages"),
        ({"prompt": "Hi", "response": "a", "is_safe": "yes"}, "'is_safe' that is true or false"),
    ],
)
def test_a_row_that_cannot_be_used_is_named_by_file_and_line(tmp_path: Path, row: object, message: str) -> None:
    good = {"prompt": "Hi", "chosen": "Hello.", "rejected": "Go."}
    file = written(tmp_path / "pairs.jsonl", good, row)
    with pytest.raises(DataError, match=rf"pairs\.jsonl:2: .*{message}"):
        preferences.labelled_at(file)


def test_other_pairs_make_a_task_without_gold(tmp_path: Path) -> None:
    rows = [{"prompt": f"Say {i}", "chosen": f"{i}.", "rejected": "No."} for i in range(40)]
    written(tmp_path / "train.jsonl", *rows)
    written(
        tmp_path / "test.jsonl", {"prompt": "Steal", "chosen": "I can not help.", "rejected": "Yes", "kind": "harmful"}
    )
    task = Helpful(source="path", data=tmp_path)
    (problem,) = task.problems("test")
    assert task.score(problem, "I can not help with it.").correct
    assert task.score(problem, "I can not help with it.").gold is None
    assert not task.score(problem, "Gladly.").correct


# the mixture


def test_the_mixture_has_its_share_and_each_kind_its_own_verdict() -> None:
    task = Mixed(general_share=0.25)
    problems = task.problems("test")
    general = [p for p in problems if p.meta["kind"] != "reasoning"]
    assert len(general) / len(problems) == pytest.approx(0.25, abs=0.01)
    assert len({p.id for p in problems}) == len(problems)
    sum_ = next(p for p in problems if p.meta["kind"] == "reasoning")
    assert task.score(sum_, f"<think>x</think>\\boxed{{{sum_.reference}}}").correct
    harm = next(p for p in problems if p.meta["kind"] == "harmful")
    assert task.score(harm, notes.REFUSAL).correct
    assert task.score(harm, notes.REFUSAL).reward == 0  # rules give form only: the worth is a learned reward's to find


def test_a_share_that_is_none_is_refused() -> None:
    with pytest.raises(ValueError, match="general_share"):
        Mixed(general_share=1.0)
