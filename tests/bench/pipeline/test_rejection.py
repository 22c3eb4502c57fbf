"""What is kept of samples and what is not, and the data set that it becomes."""

import json
from pathlib import Path

import pytest

from bench.config import ASSETS, Sampling
from bench.ground.errors import UserError
from bench.pipeline.examples import Example, loops, read, split, unreadable, write_data
from bench.pipeline.measure import sampler
from bench.pipeline.rejection import Ask, Rejection, in_words, kept, sampled
from tasks import TASKS
from tasks.core import DataError

GOOD = "<think>makes 1+1=2.</think>\\boxed{2}"


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (GOOD, None),
        ("makes 1+1=2. \\boxed{2}", "form"),
        ("<think>makes 1+1=2.\\boxed{2}", "form"),
        ("<think>makes 1+1=2.</think>2", "form"),
        ("<think>makes 1+1=2. macht 2+1=3.</think>\\boxed{3}", "mixed languages"),
        ("<think>makes 答案 1+1=2.</think>\\boxed{2}", "mixed languages"),
        ("<think>makes 1+1=2. makes 1+1=2.</think>\\boxed{2}", None),  # two of a kind may be bought
        ("<think>" + "makes 1+1=2. " * 3 + "</think>\\boxed{2}", "repetition"),
        ("<think>" + "we add one and one and then we stop " * 4 + "</think>\\boxed{2}", "repetition"),
        ("<think>see ```x``` here</think>\\boxed{2}", "code block"),
        (f"<think>{' '.join(f'word{i}' for i in range(301))}</think>\\boxed{{2}}", "long paragraph"),
    ],
)
def test_why_a_completion_is_not_learnt_from(text: str, reason: str | None) -> None:
    assert unreadable(text) == reason


def test_a_note_needs_no_box_and_a_step_made_twice_apart_is_no_loop() -> None:
    assert unreadable("<think>this is about Mia.</think>Dear Mia.", boxed=False) is None
    assert not loops("totals 2*2=4. makes 4+1=5. totals 2*2=4. makes 5+4=9.")


def row(problem: str, *samples: tuple[str, bool], ended: bool = True) -> dict[str, object]:
    made = [{"completion": text, "correct": right, "ended": ended, "tokens": 10} for text, right in samples]
    return {"problem": problem, "prompt": f"? {problem}", "samples": made}


def test_what_survives_by_hand() -> None:
    """Three problems: one with a copy and a wrong one, one never solved, one cut off."""
    other = GOOD.replace("1+1", "3-1")
    rows = [
        row("a", (GOOD, True), (GOOD, True), (other, True), ("wrong", False)),
        row("b", ("wrong", False), ("wrong", False), ("wrong", False), ("wrong", False)),
        row("c", (GOOD, True), (GOOD, True), (GOOD, True), (GOOD, True), ended=False),
    ]
    found = kept(rows, Rejection(num_samples=4, keep_per_problem=2))
    assert [(e.problem, e.completion) for e in found.kept] == [("a", GOOD), ("a", other)]
    assert found.facts["pass_rate"] == pytest.approx((0.75 + 0 + 1) / 3)
    assert (found.facts["problems_never_solved"], found.facts["problems_always_solved"]) == (1, 1)
    assert found.facts["yield"] == pytest.approx(2 / 12)
    assert found.facts["samples_by_reason"] == {"kept before balancing": 3, "wrong": 5, "cut off": 4}
    assert "pass rate 58.3%, never solved 1; kept 2 (16.7%)" in in_words(found.facts)
    assert len(kept(rows, Rejection(num_samples=4, keep_per_problem=1)).kept) == 1


def ask(file: Path) -> Ask:
    task = TASKS["countdown"]()
    problems = task.problems("train")[:70]
    engine = sampler(str(ASSETS / "countdown"), problems, 12)
    return Ask(engine=engine, task=task, problems=problems, sampling=Sampling(max_new_tokens=12), seed=0, file=file)


def test_sampling_stopped_and_gone_on_with_gives_the_same_samples(tmp_path: Path) -> None:
    settings = Rejection(num_problems=70, num_samples=2)
    assert sampled(ask(tmp_path / "whole.jsonl"), settings)
    assert not sampled(ask(tmp_path / "parts.jsonl"), settings, lambda: True)
    with (tmp_path / "parts.jsonl").open("a") as file:
        file.write('{"problem": "torn')
    assert sampled(ask(tmp_path / "parts.jsonl"), settings)
    assert (tmp_path / "parts.jsonl").read_text() == (tmp_path / "whole.jsonl").read_text()
    assert len((tmp_path / "whole.jsonl").read_text().splitlines()) == 70


def test_the_data_set_has_a_card_and_its_checksum(tmp_path: Path) -> None:
    examples = [Example(prompt=f"? {i}", completion=GOOD, source="sampled", problem=str(i)) for i in range(40)]
    digest = write_data(examples, tmp_path, {"pass_rate": 0.5})
    made = json.loads((tmp_path / "provenance.json").read_text())
    assert made["sha256"] == digest
    assert made["rows_by_source"] == {"sampled": 40}
    assert "| pass_rate | 0.5 |" in (tmp_path / "README.md").read_text()
    assert [e.texts for e in read(tmp_path / "data.jsonl")] == [e.texts for e in examples]
    train, held = split(examples)
    assert len(train) + len(held) == 40
    assert not {e.prompt for e in train} & {e.prompt for e in held}
    with pytest.raises(UserError, match="too few"):
        split(examples[:1])


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ({"prompt": "?"}, "no field 'completion'"),
        ({"prompt": "?", "completion": " "}, "an empty completion"),
        ({"messages": [{"role": "user", "content": "?"}]}, "'messages' must be"),
        ({"messages": "?"}, "'messages' must be"),
    ],
)
def test_an_example_that_cannot_be_used_is_named_by_file_and_line(tmp_path: Path, row: object, message: str) -> None:
    file = tmp_path / "cold.jsonl"
    file.write_text(json.dumps({"prompt": "?", "completion": GOOD}) + "\n" + json.dumps(row) + "\n")
    with pytest.raises(DataError, match=rf"cold\.jsonl:2: {message}"):
        read(file)
