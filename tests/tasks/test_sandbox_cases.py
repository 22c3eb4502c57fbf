"""The shared cases: programs that cheat, hang or attack. Each with its verdict and what must hold besides."""

import json
import os
import socket
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import Any

import pytest

from tasks.sandbox import Asserts, Check, Isolation, Limits, Script, Tests, UnitTests, Verdict, grade, open_sandbox
from tests.shared import SHARED, needs_shared
from tests.tasks.sandboxing import (
    ADD,
    command_lines,
    descendants,
    namespaces,
    needs_sandbox,
    resident_mib,
)

FILES = [SHARED / "cases" / "sandbox_cases.jsonl", SHARED / "cases" / "turn2" / "sandbox_cases.jsonl"]
ROWS: dict[str, dict[str, Any]] = {}
for file in filter(Path.exists, FILES):
    ROWS |= {row["id"]: row for row in map(json.loads, file.read_text().splitlines())}
LIMITS = Limits(wall_s=2)
ISOLATIONS: tuple[Isolation, ...] = ("fork", "process")
pytestmark = [needs_shared, needs_sandbox]


def style_of(row: dict[str, Any]) -> Tests:
    style, tests = row["test_style"], row["tests"]
    if style == "unittest":
        return UnitTests(modules=tests)
    if style == "stdio":
        return Script(cases=[(case["stdin"], case["stdout"]) for case in tests])
    if style.startswith("humaneval"):
        return Check(test=tests[0], entry_point="add")
    return Asserts(asserts=tests)


def judge(row: dict[str, Any], isolation: Isolation = "fork") -> Verdict:
    return grade(open_sandbox(LIMITS, isolation=isolation), row["completion"], style_of(row))


# What must hold after a verdict, beyond the verdict itself.


def all_failed(reason: str) -> Callable[[Verdict], None]:
    def holds(verdict: Verdict) -> None:
        assert verdict.passed == 0
        assert all(reason in str(failure) for failure in verdict.failures), verdict

    return holds


def not_compiled(verdict: Verdict) -> None:
    assert (verdict.error or "").startswith("compile: SyntaxError"), verdict


def stopped(verdict: Verdict) -> None:
    assert verdict.error == "timeout", verdict


def no_process(mark: str) -> Callable[[Verdict], None]:
    def holds(_: Verdict) -> None:
        assert mark not in command_lines()

    return holds


def no_file(path: str) -> Callable[[Verdict], None]:
    def holds(_: Verdict) -> None:
        assert not Path(path).exists()

    return holds


def out_of_memory(verdict: Verdict) -> None:
    assert verdict.failures[0] == "raised MemoryError", verdict


def one_visible_of_three(verdict: Verdict) -> None:
    assert verdict.passed == 1


def pool_goes_on(_: Verdict) -> None:
    assert grade(open_sandbox(LIMITS), ADD, Asserts(asserts=["assert add(1, 2) == 3"])).all_passed


def always_the_same(row_id: str) -> Callable[[Verdict], None]:
    def holds(verdict: Verdict) -> None:
        assert [judge(ROWS[row_id]).all_passed for _ in range(2)] == [verdict.all_passed] * 2

    return holds


HOLDS: dict[str, Callable[[Verdict], None]] = {
    "sb-02": all_failed("AssertionError"),
    "sb-05": all_failed("SystemExit"),
    "sb-21": not_compiled,
    "sb-22": all_failed("NameError"),
    "sb-23": not_compiled,
    "sb-24": not_compiled,
    "sb-25": one_visible_of_three,
    "sb-26": stopped,
    "sb-27": stopped,
    "sb-28": stopped,
    "sb-29": stopped,
    "sb-31": pool_goes_on,
    "sb-32": no_process("time.sleep(987)"),
    "sb-33": no_process("time.sleep(986)"),
    "sb-34": always_the_same("sb-34"),
    "sb-35": always_the_same("sb-35"),
    "sb-36": out_of_memory,
    "sb-37": no_file("fill.bin"),
    "sb-42": no_file("/tmp/sandbox_escape_marker2"),
    "sb-43": no_file("/tmp/sandbox_escape_marker3"),
    "sb-46": pool_goes_on,
    "sb-47": pool_goes_on,
    "sb-50": all_failed("EOFError"),
    "sb-51": all_failed("ModuleNotFoundError"),
    "sb-53": no_file("/tmp/sandbox_escape_marker4"),
    "sb-54": no_file("reward.txt"),
    "sb-55": pool_goes_on,
}


@contextmanager
def canary() -> Iterator[None]:
    folder = Path("/tmp/sandbox_canary_dir")
    folder.mkdir(exist_ok=True)
    (folder / "file").write_text("alive")
    yield
    assert (folder / "file").read_text() == "alive"
    (folder / "file").unlink()
    folder.rmdir()


@contextmanager
def listener() -> Iterator[None]:
    with socket.create_server(("127.0.0.1", 48731)) as server:
        server.setblocking(False)
        yield
        with pytest.raises(BlockingIOError):
            server.accept()


AROUND: dict[str, Callable[[], AbstractContextManager[None]]] = {"sb-41": canary, "sb-44": listener}


@pytest.mark.parametrize("isolation", ISOLATIONS)
@pytest.mark.parametrize("row_id", sorted(ROWS) or ["absent"])
def test_each_case_holds(row_id: str, isolation: Isolation) -> None:
    row = ROWS[row_id]
    judge(row | {"completion": ADD}, isolation)  # the servers are there before we look
    for marker in Path("/tmp").glob("sandbox_escape_marker*"):
        marker.unlink()  # an earlier run of something else
    before = descendants(), namespaces(), sorted(os.listdir()), resident_mib()
    with AROUND.get(row_id, nullcontext)():
        start = time.monotonic()
        verdict = judge(row, isolation)
        seconds = time.monotonic() - start
    if row["verdict_policy"] == "fixed":
        assert verdict.all_passed is row["expected_passed"], verdict
    assert seconds < LIMITS.wall_s * len(row["tests"]) + 5, "the verdict arrives within the limit and 5 s"
    HOLDS.get(row_id, lambda _: None)(verdict)
    assert descendants() == before[0], "no process is left"
    assert namespaces() == before[1], "nor a namespace, and with it any shared memory"
    assert sorted(os.listdir()) == before[2], "no file is left"
    assert resident_mib() - before[3] < 20, "the harness's memory does not grow"


@pytest.mark.parametrize("isolation", ISOLATIONS)
def test_all_cases_at_once_three_times(isolation: Isolation) -> None:
    grade(open_sandbox(LIMITS, isolation=isolation), ADD, Asserts(asserts=["assert add(1, 2) == 3"]))
    rows = [row for row in ROWS.values() if row["id"] not in AROUND]
    rounds: list[list[bool]] = []
    for _ in range(3):
        with ThreadPoolExecutor(len(rows)) as pool:
            verdicts = list(pool.map(judge, rows, [isolation] * len(rows)))
        wrong = [
            (row["id"], verdict)
            for row, verdict in zip(rows, verdicts, strict=True)
            if row["verdict_policy"] == "fixed" and verdict.all_passed is not row["expected_passed"]
        ]
        assert not wrong
        # where either verdict would do, a program may also race the clock, which so many at once decide
        rounds.append([v.all_passed for row, v in zip(rows, verdicts, strict=True) if row["verdict_policy"] == "fixed"])
    assert rounds[0] == rounds[1] == rounds[2]
    servers = descendants(), namespaces()
    grade(open_sandbox(LIMITS, isolation=isolation), ADD, Asserts(asserts=["assert add(1, 2) == 3"]))
    assert (descendants(), namespaces()) == servers, "what is left are the idle servers, which is what there was"


def test_planted_files_do_not_reach_a_later_run() -> None:
    for _ in range(2):
        assert not judge(ROWS["sb-55"]).all_passed
    for isolation in ISOLATIONS:
        assert judge(ROWS["sb-02"] | {"completion": ADD}, isolation).all_passed
