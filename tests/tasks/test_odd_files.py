"""Data as editors and scrapers leave them: told by file and line with what to do, or read as they are meant."""

import json
from pathlib import Path

import pytest

from bench.config import RunConfig
from bench.settings.plugins import find_task
from bench.settings.resolve import with_source
from tasks import TASKS
from tasks.core import DataError
from tasks.gsm8k import Gsm8k

ROWS = [{"question": f"Tom has {n} pens?", "answer": f"so #### {n}"} for n in range(40)]


def folder(path: Path, rows: list[dict[str, str]], mark: str = "") -> Path:
    for split, part in (("train", rows), ("test", [{"question": "Why?", "answer": "#### 1"}])):
        (path / f"{split}.jsonl").write_text(mark + "\n".join(map(json.dumps, part)), encoding="utf-8")
    return path


@pytest.mark.parametrize(
    ("row", "words"),
    [
        ({"question": "half \ud83d", "answer": "#### 1"}, "U+D83D, half of a character .* write both halves or remove"),
        ({"question": "half", "answer": "#### 1\udc00"}, "U+DC00, half of a character"),
        ({"question": "two", "answer": "#### 1\r2"}, "carriage return"),
    ],
)
def test_what_cannot_be_read_is_told_by_file_and_line(row: dict[str, str], words: str, tmp_path: Path) -> None:
    task = Gsm8k(data=folder(tmp_path, [*ROWS[:2], row, *ROWS[2:]]))
    with pytest.raises(DataError, match=rf"train\.jsonl:3: .*{words.replace('+', '.')}"):
        task.problems("train")


def test_text_behind_every_answer_says_what_is_expected(tmp_path: Path) -> None:
    rows = [{**row, "answer": f"{row['answer']} pens. So Tom has 4 left."} for row in ROWS]
    with pytest.raises(
        DataError,
        match=r"no usable train .*train\.jsonl:\d+: gold '\d+ pens. So Tom has 4 left.' .* alone behind '####'",
    ):
        Gsm8k(data=folder(tmp_path, rows)).problems("train")


def test_a_byte_order_mark_is_no_text(tmp_path: Path) -> None:
    (tmp_path / "plain").mkdir()
    (tmp_path / "marked").mkdir()
    plain = Gsm8k(data=folder(tmp_path / "plain", ROWS)).problems("train")
    assert Gsm8k(data=folder(tmp_path / "marked", ROWS, "\ufeff")).problems("train") == plain


@pytest.mark.parametrize("name", ["rg:aiw", "rg:chain_sum"])
def test_a_puzzle_of_reasoning_gym_never_falls_to_the_hub(name: str) -> None:
    task = find_task(name)()
    chosen = with_source(RunConfig(algo=None, task=task), ours=False)  # pyright: ignore[reportArgumentType]
    assert chosen.source == "procedural"  # pyright: ignore[reportAttributeAccessIssue]
    hub = with_source(RunConfig(algo=None, task=task, source="hub"), ours=False)  # pyright: ignore[reportArgumentType]
    with pytest.raises(DataError, match=f"{name}: no set of the hub is its own"):
        hub.problems("train")


@pytest.mark.parametrize("name", ["gsm8k", "math", "logic"])
def test_other_tasks_take_the_hub_for_a_model_of_ones_own(name: str) -> None:
    chosen = with_source(RunConfig(algo=None, task=TASKS[name]()), ours=False)  # pyright: ignore[reportArgumentType]
    assert chosen.source == "hub"  # pyright: ignore[reportAttributeAccessIssue]
