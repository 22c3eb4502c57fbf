"""Task code: what a row becomes, what is read from a completion, what a verdict pays, and the official references."""

import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from tasks import TASKS, program_rows, programs
from tasks.core import DataError, Task
from tasks.dataset import Item
from tasks.programming import Programming, broken_references
from tasks.sandbox import Asserts, Limits, bubblewrap, run
from tests.shared import SHARED, needs_shared
from tests.tasks.sandboxing import needs_sandbox

MBPP_ROW: dict[str, Any] = {
    "task_id": 601,
    "text": "Write a function to double the sum of two numbers.",
    "code": "def double_sum(a, b):\r\n  return 2 * (a + b)",
    "test_list": ["assert double_sum(1, 2) == 6", "assert double_sum(0, 5) == 10", "assert double_sum(-1, 1) == 0"],
    "test_setup_code": "",
    "challenge_test_list": [],
}
NODE_ROW = MBPP_ROW | {
    "task_id": 511,
    "text": "Write a function to measure a list of nodes.",
    "code": "class Node:\n    def __init__(self, next=None):\n        self.next = next\ndef length(node):\n"
    "    return 0 if node is None else 1 + length(node.next)",
    "test_list": ["assert length(root) == 2", "assert (length(root.next)) == 1"],
    "test_setup_code": "root = Node(Node())",
}
HUMANEVAL_ROW = {
    "task_id": "HumanEval/0",
    "prompt": "from typing import List\n\n\ndef poly(xs: List[int], x: int) -> int:\n"
    "    return sum(c * x**i for i, c in enumerate(xs))\n\n\n"
    'def root(xs: List[int]) -> float:\n    """The x with poly(xs, x) == 0, of xs = [a, b]."""\n',
    "entry_point": "root",
    "canonical_solution": "    return -xs[0] / xs[1]\n",
    "test": "METADATA = {}\n\n\ndef check(candidate):\n    for a in range(1, 9):\n"
    "        assert abs(poly([a, 2], candidate([a, 2]))) < 1e-9\n",
}


def write(folder: Path, name: str, *rows: dict[str, Any]) -> Path:
    (folder / name).write_text("".join(json.dumps(row) + "\n" for row in rows))
    return folder


@pytest.fixture
def mbpp(tmp_path: Path) -> Programming:
    test_row = MBPP_ROW | {"task_id": 11}
    return Programming(dataset="mbpp", data=write(tmp_path, "mbpp.jsonl", MBPP_ROW, NODE_ROW, test_row))


@pytest.fixture
def humaneval(tmp_path: Path) -> Programming:
    return Programming(dataset="humaneval", data=write(tmp_path, "HumanEval.jsonl", HUMANEVAL_ROW))


def fenced(code: str) -> str:
    return f"Here it is:\n```python\n{code}\n```\nDone."


def test_it_is_registered_and_is_a_task() -> None:
    assert TASKS["code"] is Programming
    assert isinstance(Programming(), Task)


@pytest.mark.parametrize(
    ("completion", "code", "rule"),
    [
        ("```python\nx = 1\n```", "x = 1\n", "fence"),
        ("```\nx = 1\n```\nor\n```py\nx = 2\n```\nbye", "x = 2\n", "fence"),
        ("```python\nx = 1", "x = 1", "fence"),
        ("x = 1", "x = 1", "text"),
        ("    return 1", "    return 1", "text"),
        ("<think>```python\nx = 1\n```</think>```python\nx = 2\n```", "x = 2\n", "fence"),
        ("<think>```python\nx = 1\n```", "", "text"),
        ("```python\ns = '```'\n```", "s = '```'\n", "fence"),
        ("Use `f`:\n  ```python\nx = 1\n  ```", "x = 1\n", "fence"),
        ("", "", "text"),
    ],
)
def test_the_code_of_a_completion(completion: str, code: str, rule: str) -> None:
    assert programs.code_in(completion) == (code, rule)


@needs_sandbox
def test_the_small_functions_need_no_data() -> None:
    task = Programming()
    problem = task.problems("test")[0]
    assert problem.id == "code/functions/test/0"
    assert problem.prompt.startswith("Write f(")
    assert "assert" not in problem.prompt
    right = task.score(problem, f"```python\n{programs.solution_of(problem.reference)}\n```")
    assert (right.reward, right.correct, right.format_ok, right.error) == (1.0, True, True, None)
    wrong = task.score(problem, "```python\ndef f(x, y):\n    return 12345\n```")
    assert (wrong.reward, wrong.correct, wrong.error) == (0.0, False, None)
    assert task.score(problem, "I do not know.").error is not None
    assert broken_references([*task.problems("test")[:20], *task.problems("train")[:20]]) == []


@needs_sandbox
def test_mbpp_rows_split_by_task_id_and_run_the_code_before_the_set_up(mbpp: Programming) -> None:
    [train], [validation], [test] = (mbpp.problems(split) for split in ("train", "validation", "test"))
    assert (train.id, validation.id) == ("code/mbpp/train/601", "code/mbpp/validation/511")
    assert test.id == "code/mbpp/test/11"
    assert broken_references([train, validation, test], mbpp) == []
    assert mbpp.score(validation, fenced(NODE_ROW["code"].replace("1 +", "2 +"))).correct is False


@needs_sandbox
def test_the_assertion_that_the_prompt_shows_is_not_what_grades(mbpp: Programming) -> None:
    """A constant fitted to it scores 0, also as a fraction; a right program scores 1."""
    [problem] = mbpp.problems("train")
    assert "assert double_sum(1, 2) == 6" in problem.prompt
    assert "10" not in problem.prompt
    for reward in ("all", "fraction"):
        task = Programming(dataset="mbpp", data=mbpp.data, reward=reward)
        fitted = task.score(problem, fenced("def double_sum(a, b):\n    return 6"))
        assert (fitted.reward, fitted.correct) == (0.0, False)
        assert task.score(problem, fenced(MBPP_ROW["code"])).reward == 1.0
    half = fenced("def double_sum(a, b):\n    return 2 * abs(a + b) if a >= 0 else 7")
    assert Programming(data=mbpp.data, reward="fraction").score(problem, half).reward == 0.5
    assert mbpp.score(problem, half).reward == 0.0


@needs_sandbox
def test_humaneval_takes_the_whole_function_or_the_rest_of_it(humaneval: Programming) -> None:
    [problem] = humaneval.problems("test")
    assert broken_references([problem], humaneval) == []
    whole = "def root(xs: List[int]) -> float:\n    return -xs[0] / xs[1]"
    for right in (fenced(whole), whole, "    return -xs[0] / xs[1]\n", fenced("    return -xs[0] / xs[1]")):
        assert humaneval.score(problem, right).correct, right
    for wrong in ("    return xs[0] / xs[1]\n", fenced("def poly(xs, x):\n    return 0\n" + whole.replace("-", ""))):
        assert not humaneval.score(problem, wrong).correct, wrong


@needs_sandbox
def test_a_wrong_reference_is_listed_with_its_id(tmp_path: Path) -> None:
    broken = MBPP_ROW | {"task_id": 602, "code": "def double_sum(a, b):\n    return a + b"}
    task = Programming(dataset="mbpp", data=write(tmp_path, "mbpp.jsonl", MBPP_ROW, broken))
    assert broken_references(task.problems("train"), task) == [("code/mbpp/train/602", "AssertionError: wrong answer")]


@needs_sandbox
@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"test_list": []}, "no tests"),
        ({"test_list": "assert 1"}, "no tests"),
        ({"test_list": ["assert True"]}, "calls no function"),
        ({"task_id": 5000}, "no train problem"),
    ],
)
def test_a_row_that_cannot_be_judged_is_refused(tmp_path: Path, change: dict[str, Any], message: str) -> None:
    task = Programming(dataset="mbpp", data=write(tmp_path, "mbpp.jsonl", MBPP_ROW | change))
    with pytest.raises(DataError, match=message) as raised:
        task.problems("train")
    assert "\n" not in str(raised.value)


@needs_sandbox
def test_tests_that_never_call_the_program_are_an_error_not_a_pass(tmp_path: Path) -> None:
    row = HUMANEVAL_ROW | {"test": "def check(candidate):\n    assert True\n"}
    task = Programming(dataset="humaneval", data=write(tmp_path, "HumanEval.jsonl", row))
    score = task.score(task.problems("test")[0], "    return 1")
    assert (score.reward, score.correct) == (0.0, False)
    assert score.error == "tests that never call the program"
    write(tmp_path, "none.jsonl", HUMANEVAL_ROW | {"test": "x = 1"})
    with pytest.raises(DataError, match="no check"):
        Programming(dataset="humaneval", data=tmp_path / "none.jsonl").problems("test")


def test_humaneval_does_not_train(humaneval: Programming) -> None:
    with pytest.raises(DataError, match="test split only"):
        humaneval.problems("train")
    with pytest.raises(DataError, match="exclude each other"):
        Programming(data=Path("x"), source="hub").problems("test")


@pytest.fixture
def no_bubblewrap(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(bubblewrap, "find", lambda: None)
    run.best_isolation.cache_clear()
    yield
    run.best_isolation.cache_clear()


@pytest.mark.usefixtures("no_bubblewrap")
def test_without_a_sandbox_it_refuses_in_one_line_unless_allowed() -> None:
    with pytest.raises(DataError, match="install bubblewrap") as raised:
        Programming().problems("test")
    assert "\n" not in str(raised.value)
    task = Programming(allow_unsandboxed=True)
    problem = task.problems("test")[0]
    assert task.score(problem, fenced(programs.solution_of(problem.reference))).correct
    assert task.provenance("test")["sandboxed"] is False


@needs_sandbox
def test_provenance_says_what_ran_and_how(mbpp: Programming) -> None:
    said = mbpp.provenance("train")
    assert (said["collection"], said["source"], said["num_rows"]) == ("mbpp", "path", 1)
    assert said["sandboxed"] is True
    assert said["limits"]["memory_mib"] == Limits().memory_mib
    assert said["template_sha256"] != Programming().provenance("train")["template_sha256"]


# The official sets, where they lie beside the repository

SPLITS = {"mbpp": {"train": 374, "validation": 90, "test": 500}, "humaneval": {"test": 164}}
BREAK = """

def _changed(value):
    if isinstance(value, bool) or value is None:
        return not value
    return value + 1 if isinstance(value, (int, float)) else value + "x" if isinstance(value, str) else None

def _broken(function):
    return lambda *args, **kwargs: _changed(function(*args, **kwargs))

{name} = _broken({name})
"""


def official(dataset: str) -> list[Item]:
    """Every row as the task reads it, MBPP's few-shot examples too."""
    task = Programming(dataset=dataset, data=SHARED / "data" / dataset)  # type: ignore[arg-type]
    assert {split: len(task.problems(split)) for split in SPLITS[dataset]} == SPLITS[dataset]  # type: ignore[arg-type]
    rows, _ = program_rows.load_programs(task.dataset, "test", task.data, 0, None)
    read = program_rows.READERS[task.dataset]
    return [read(row, place) for row, place in zip(rows.rows, rows.places, strict=True)]


def name_of(item: Item) -> str:
    tests = programs.tests_of(item.gold)
    if isinstance(tests, programs.Check):
        return tests.entry_point
    return item.question.split("Call the function ")[1].split(".")[0]


@needs_shared
@needs_sandbox
@pytest.mark.slow
@pytest.mark.parametrize("dataset", SPLITS)
def test_every_official_reference_passes_and_fails_with_its_value_changed(dataset: str) -> None:
    items = official(dataset)
    assert len(items) == {"mbpp": 974, "humaneval": 164}[dataset]
    task = Programming(limits=Limits(wall_s=60))  # MBPP's number 123 takes seconds

    def both(item: Item) -> tuple[bool, bool]:
        solution, tests = programs.solution_of(item.gold), programs.tests_of(item.gold)
        broken = solution + BREAK.format(name=name_of(item))
        return task.judge(solution, tests).all_passed, task.judge(broken, tests).all_passed

    with ThreadPoolExecutor(4) as pool:
        verdicts = list(pool.map(both, items))
    assert [i for i, (right, _) in enumerate(verdicts) if not right] == []
    assert [i for i, (_, broken) in enumerate(verdicts) if broken] == []


SOLUTION = "def f(a):\n    return a + 1\n"


@pytest.mark.parametrize(
    "completion",
    [
        f"```python\n{SOLUTION}```<|im_end|>",
        f"```python\n{SOLUTION}```</s>\n",
        f"```python\n{SOLUTION}<|eot_id|>\n```",
        f"```python\n{SOLUTION}<|eot_id|>",
        f"```python\n{SOLUTION}``` <end_of_turn>",
        f"~~~python\n{SOLUTION}~~~",
        f"````python\n{SOLUTION}````",
        f"\ufeff```python\n\ufeff{SOLUTION}```",
        f"```python\n{SOLUTION}```\n".replace("\n", "\r\n"),
        "1. So:\n   ```python\n   def f(a):\n       return a + 1\n   ```\n",
        f"```python\n{SOLUTION}```\nIt prints\n```\n>>> f(1)\n2\n```\n",
        f"```python\n{SOLUTION}```\nRun it:\n```bash\npython f.py\n```\n",
        f"```python\ndef f(a):\n    return a\n```\nor rather\n```python\n{SOLUTION}```\n```python\nprint(f(1))\n```",
    ],
)
def test_a_solution_is_found_in_whatever_block_it_is_written(completion: str) -> None:
    assert programs.code_in(completion, ["f"]) == (SOLUTION, "fence")


def test_four_backticks_hold_three_and_html_is_left_alone() -> None:
    code = 'def f(a):\n    """\n    ```\n    f(1)\n    ```\n    """\n    return "<s>a</s>"\n'
    assert programs.code_in(f"````python\n{code}````", ["f"]) == (code, "fence")


def test_what_the_tests_call_is_known() -> None:
    tests = run_asserts("assert set(both([1], [2])) == set([1])", "assert math.isclose(area(2), 4.0)")
    assert programs.called_by(tests) == ["both", "area"]
    assert programs.called_by(run_asserts("assert sum(10, 15) == 6")) == ["sum"]  # MBPP 126


def run_asserts(*asserts: str) -> Asserts:
    return Asserts(asserts=list(asserts))


@needs_sandbox
def test_a_continuation_may_import_from_the_future_and_may_have_lost_its_first_space(humaneval: Programming) -> None:
    [problem] = humaneval.problems("test")
    whole = "def root(xs: List[int]) -> float:\n    return -xs[0] / xs[1]\n"
    future = "from __future__ import annotations\n"
    for right in (
        fenced(future + whole),
        fenced(f"{future}import math\n\n\n{whole}"),
        "   return -xs[0] / xs[1]\n",
        "   a = -xs[0]\n    return a / xs[1]\n",
    ):
        score = humaneval.score(problem, right)
        assert score.correct, (right, score.error)
    assert not humaneval.score(problem, "  return -xs[0] / xs[1]\n  return 3\n    return 4").correct


@needs_sandbox
def test_sanitized_mbpp(tmp_path: Path) -> None:
    row = {
        "source_file": "x.ipynb",
        "task_id": 602,
        "prompt": "Write a function to find the area of a square.",
        "code": "def area(a):\n  return a * a",
        "test_imports": ["import math"],
        "test_list": ["assert math.isclose(area(2), 4.0)", "assert set([area(1)]) == {1}"],
    }
    task = Programming(dataset="mbpp", data=write(tmp_path, "mbpp.jsonl", row))
    [problem] = task.problems("train")
    assert "Call the function area." in problem.prompt
    assert broken_references([problem], task) == []
    with pytest.raises(DataError, match="'test_imports' must be a list"):
        program_rows.mbpp(row | {"test_imports": "import math"}, "p:1")
