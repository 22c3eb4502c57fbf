"""Rows to problems: official formats, splits, bad input, provenance."""

import hashlib
import json
import random
from pathlib import Path

import pytest

from tasks import TASKS, latex, sources
from tasks.competition_math import CompetitionMath
from tasks.core import SPLITS, DataError, Task
from tasks.dataset import PLAIN, demonstration
from tasks.gsm8k import Gsm8k
from tasks.procedural import competition as competition_rows
from tests.shared import SHARED, needs_shared

Rows = list[dict[str, object]]
TRAIN: Rows = [
    {"question": f"What is {i} and {i}?", "answer": f"{i}+{i}=<<{i}+{i}={2 * i}>>{2 * i}\n#### {2 * i}"}
    for i in range(64)
]
TEST: Rows = [
    {"question": "What is 1,000 and 1?", "answer": "#### 1,001"},
    {"question": "What is 2 less 9?", "answer": "#### -7"},
]


def folder(path: Path, **splits: Rows | str) -> Path:
    for split, rows in splits.items():
        text = rows if isinstance(rows, str) else "".join(json.dumps(row) + "\n" for row in rows)
        (path / f"{split}.jsonl").write_text(text)
    return path


def test_official_rows_from_a_folder(tmp_path: Path) -> None:
    task = Gsm8k(data=folder(tmp_path, train=TRAIN, test=TEST))
    test = task.problems("test")
    assert [(p.id, p.reference) for p in test] == [("gsm8k/test/0", "1,001"), ("gsm8k/test/1", "-7")]
    assert test[0].prompt == Gsm8k.BOXED.fill("What is 1,000 and 1?")
    assert task.score(test[0], "#### 1001").correct
    train, validation = task.problems("train"), task.problems("validation")
    assert len(train) + len(validation) == len(TRAIN)
    assert 0 < len(validation) < 16
    assert not {p.prompt for p in train} & {p.prompt for p in validation}


def test_validation_is_carved_by_content_so_order_does_not_matter(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    forwards = Gsm8k(data=folder(tmp_path / "a", train=TRAIN, test=TEST)).problems("validation")
    backwards = Gsm8k(data=folder(tmp_path / "b", train=TRAIN[::-1], test=TEST)).problems("validation")
    assert {p.prompt for p in forwards} == {p.prompt for p in backwards}


def test_provenance_names_what_was_read(tmp_path: Path) -> None:
    data = folder(tmp_path, train=TRAIN, test=[*TEST, {"question": "Why?", "answer": "#### because"}])
    found = Gsm8k(data=data, template="plain").provenance("test")
    assert found == {
        "task": "gsm8k",
        "split": "test",
        "source": "path",
        "origin": str(data / "test.jsonl"),
        "num_rows": 2,
        "sha256": hashlib.sha256((data / "test.jsonl").read_bytes()).hexdigest(),
        "num_excluded": 1,
        "excluded": [f"{data / 'test.jsonl'}:3: gold 'because' is no number; write it alone behind '####'"],
        "template": "plain",
        "template_version": PLAIN.version,
        "template_sha256": hashlib.sha256(b"{question}").hexdigest(),
    }


def test_bench_data_is_where_rows_are_looked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "gsm8k").mkdir()
    folder(tmp_path / "gsm8k", test=TEST)
    monkeypatch.setenv("BENCH_DATA", str(tmp_path))
    assert len(Gsm8k(source="path").problems("test")) == 2
    monkeypatch.delenv("BENCH_DATA")
    with pytest.raises(DataError, match="no data; give --data PATH, set BENCH_DATA, or use --source hub"):
        Gsm8k(source="path").problems("test")


GOOD = '{"question": "q", "answer": "#### 1"}\n'


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (GOOD + "{not json\n", "test.jsonl:2: not a JSON row"),
        (GOOD + "\n[1]\n", "test.jsonl:3: a row must be a JSON object, not list"),
        (GOOD + '{"question": "q"}\n', "test.jsonl:2: no field 'answer'; found \\['question'\\]"),
        (GOOD + '{"question": 3, "answer": "#### 1"}\n', "test.jsonl:2: field 'question' must be text, not int"),
        (GOOD + '{"question": "q", "answer": "1"}\n', "test.jsonl:2: the answer has no line '#### N'"),
        ("\n", "test.jsonl: no rows"),
        ('{"question": "q", "answer": "#### ?"}\n', "test.jsonl: no usable test problem in 1 rows"),
    ],
)
def test_bad_rows_are_one_line_that_says_where(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(DataError, match=message) as caught:
        Gsm8k(data=folder(tmp_path, test=text)).problems("test")
    assert "\n" not in str(caught.value)


def test_latex_spoilt_by_json_escapes_is_caught_at_load(tmp_path: Path) -> None:
    good = json.dumps({"problem": "p", "answer": "\\frac{1}{2}"})
    spoilt = good.replace("\\\\", "\\").replace('"p"', '"q"')
    with pytest.raises(DataError, match=r"test.jsonl:2: control character U\+000C in the gold"):
        CompetitionMath(data=folder(tmp_path, test=f"{good}\n{spoilt}\n")).problems("test")


def test_the_gold_of_a_math_row_is_its_answer_else_the_last_box_of_its_solution(tmp_path: Path) -> None:
    rows: Rows = [
        {"problem": "a", "answer": "1", "solution": "\\boxed{2}", "level": 3, "subject": "Algebra"},
        {"problem": "b", "final_answer": "3"},
        {
            "problem": "c",
            "solution": "first \\boxed{4} then $\\boxed{\\frac{1}{5}}$.",
            "level": "Level 2",
            "type": "Geometry",
        },
    ]
    problems = CompetitionMath(data=folder(tmp_path, test=rows)).problems("test")
    assert [p.reference for p in problems] == ["1", "3", "\\frac{1}{5}"]
    assert [dict(p.meta) for p in problems] == [
        {"level": "3", "subject": "Algebra"},
        {},
        {"level": "2", "subject": "Geometry"},
    ]
    (tmp_path / "b").mkdir()
    with pytest.raises(DataError, match=r"test.jsonl:1: the solution has no \\boxed\{\}"):
        CompetitionMath(data=folder(tmp_path / "b", test=[{"problem": "d", "solution": "none"}])).problems("test")


@pytest.mark.parametrize("split", SPLITS)
def test_a_test_problem_in_train_is_refused(tmp_path: Path, split: str) -> None:
    shared = {**TEST[0], "question": "What is  1,000 and 1? "}  # spacing does not hide it
    task = Gsm8k(data=folder(tmp_path, train=[*TRAIN, shared], test=TEST))
    with pytest.raises(DataError, match="1 problems are both in train and in test"):
        task.problems(split)  # type: ignore[arg-type]


def test_one_file_is_a_test_set(tmp_path: Path) -> None:
    task = Gsm8k(data=folder(tmp_path, test=TEST) / "test.jsonl")
    assert len(task.problems("test")) == 2
    with pytest.raises(DataError, match="one file cannot be both train and test"):
        task.problems("train")


def test_data_and_hub_exclude_each_other(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="exclude each other"):
        Gsm8k(data=tmp_path, source="hub").problems("test")


def test_what_is_missing_is_named(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"no such file, nor a folder with test\.jsonl"):
        Gsm8k(data=tmp_path / "nowhere").problems("test")
    with pytest.raises(DataError, match=r"no train\.jsonl"):
        Gsm8k(data=folder(tmp_path, test=TEST)).problems("train")


def test_an_unreachable_hub_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    import datasets

    def refuse(*_: object, **__: object) -> None:
        raise ConnectionError("Couldn't reach 'openai/gsm8k' on the Hub\nlong story")

    monkeypatch.setattr(datasets, "load_dataset", refuse)
    with pytest.raises(DataError, match=r"openai/gsm8k cannot be loaded from the hub .*; give --data PATH") as caught:
        Gsm8k(source="hub").problems("test")
    assert "\n" not in str(caught.value)


def test_rows_of_the_hub_are_the_same_problems(monkeypatch: pytest.MonkeyPatch) -> None:
    import datasets

    asked: list[tuple[object, ...]] = []

    def fake(name: str, configuration: str, *, split: str) -> datasets.Dataset:
        asked.append((name, configuration, split))
        return datasets.Dataset.from_list(TEST if split == "test" else TRAIN)

    sources._from_hub.cache_clear()
    monkeypatch.setattr(datasets, "load_dataset", fake)
    task = Gsm8k(source="hub", seed=1)
    assert [p.reference for p in task.problems("test")] == ["1,001", "-7"]
    assert task.problems("train")
    assert set(asked) == {("openai/gsm8k", "main", "test"), ("openai/gsm8k", "main", "train")}
    assert task.provenance("test")["sha256"] == sources.canonical_sha256(TEST)
    sources._from_hub.cache_clear()


@pytest.mark.parametrize("name", ["math", "countdown", "logic"])
def test_procedural_rows(name: str) -> None:
    task = TASKS[name]()
    assert isinstance(task, Task)
    rows = {split: task.procedural(split) for split in SPLITS}  # type: ignore[attr-defined]
    problems = {split: task.problems(split) for split in SPLITS}
    identities = [{task.item(row, "").identity for row in rows[split]} for split in SPLITS]  # type: ignore[attr-defined]
    assert [len(identity) for identity in identities] == [len(problems[split]) for split in SPLITS]
    assert len(set[str]().union(*identities)) == sum(map(len, identities))
    assert len(problems["test"]) >= 500
    for row, problem in list(zip(rows["test"], problems["test"], strict=True))[::8]:
        score = task.score(problem, demonstration(row))
        assert score.correct
        assert score.format_ok
        assert not task.score(problem, "<think></think>\\boxed{123456}").correct
    assert list(task.procedural("validation")) == list(rows["validation"])  # type: ignore[attr-defined]
    other = TASKS[name](seed=1)  # type: ignore[call-arg]
    assert list(other.procedural("validation")) != list(rows["validation"])  # type: ignore[attr-defined]


def test_every_kind_of_made_math_problem_has_a_gold_that_can_be_judged() -> None:
    draw = random.Random(0)
    for kind in competition_rows.KINDS:
        _, _, gold = kind.make(draw)
        assert latex.why_unusable(gold) is None


def test_every_registered_task_is_made_without_arguments() -> None:
    for name, task in TASKS.items():
        assert isinstance(task(), Task)
        first, *middle, _ = task().problems("test")[0].id.split("/")
        assert (first, middle[-1]) == (
            {"mixed": "gsm8k"}.get(name, name),
            "test",
        )  # a mixture keeps the tasks' own names


@needs_shared
def test_official_gsm8k() -> None:
    task = Gsm8k(data=SHARED / "data" / "gsm8k")
    sizes = {split: len(task.problems(split)) for split in SPLITS}
    assert (sizes["test"], sizes["train"] + sizes["validation"]) == (1319, 7473)
    for split in SPLITS:
        assert task.provenance(split)["num_excluded"] == 0
        for problem in task.problems(split):
            assert task.score(problem, f"\\boxed{{{problem.reference}}}").correct


@needs_shared
def test_official_math(tmp_path: Path) -> None:
    (tmp_path / "train.json").symlink_to(SHARED / "data" / "math_train" / "extracted_problems_and_answers.json")
    (tmp_path / "test.jsonl").symlink_to(SHARED / "data" / "math500" / "test.jsonl")
    task = CompetitionMath(data=tmp_path)
    problems = [problem for split in SPLITS for problem in task.problems(split)]
    excluded = task.provenance("train")["excluded"] + task.provenance("validation")["excluded"]
    assert len(task.problems("test")) == 500
    assert len(problems) + len(excluded) == 8000
    assert [why.rpartition(": ")[2] for why in excluded] == ["empty gold", "empty gold"]
    assert {p.meta["level"] for p in task.problems("test")} == set("12345")
    for problem in problems:
        assert task.score(problem, f"\\boxed{{{problem.reference}}}").correct
