"""Verdicts of the four styles, errors by name, fresh state, life and death of the servers: on programs of our own."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tasks import program_rows
from tasks.core import DataError, Problem
from tasks.programming import Programming
from tasks.programs import reference
from tasks.sandbox import Asserts, Check, Isolation, Limits, Sandbox, Script, Tests, UnitTests, grade, open_sandbox
from tasks.sandbox.cell.plain import MALFORMED, Opaque, decode, encode
from tasks.sandbox.grade import claim
from tests.tasks.sandboxing import ADD, descendants, fresh, needs_sandbox

ASSERTS = Asserts(asserts=["assert add(1, 2) == 3", "assert add(-4, 9) == 5"])
CHECK = Check(
    test="def check(candidate):\n    assert candidate(1, 2) == 3\n    assert add(-4, 9) == 5", entry_point="add"
)
UNITS = UnitTests(
    modules=[
        "import unittest\nclass T(unittest.TestCase):\n"
        "    def test_a(self):\n        self.assertEqual(add(1, 2), 3)\n"
        "    def test_b(self):\n        with self.assertRaises(TypeError):\n            add(1, None)\n"
    ]
)
SUM = "import sys\nprint(sum(int(n) for line in sys.stdin for n in line.split()))"
SCRIPT = Script(cases=[("1 2 3\n", "6"), ("-4\n9\n", "5\n")])
ISOLATIONS: tuple[Isolation, ...] = ("fork", "process")


@needs_sandbox
@pytest.mark.parametrize("isolation", ISOLATIONS)
@pytest.mark.parametrize(
    ("right", "wrong", "tests"),
    [
        (ADD, "def add(a, b):\n    return a - b", ASSERTS),
        (ADD, "def add(a, b):\n    return a - b", CHECK),
        (ADD, "def add(a, b):\n    return a - (b or 0)", UNITS),
        (SUM, SUM.replace("sum", "max"), SCRIPT),
    ],
    ids=["asserts", "check", "unittest", "script"],
)
def test_right_passes_and_wrong_fails(isolation: Isolation, right: str, wrong: str, tests: Tests) -> None:
    sandbox = open_sandbox(Limits(), isolation=isolation)
    verdict = grade(sandbox, right, tests)
    assert verdict.all_passed, verdict
    assert verdict.error is None
    verdict = grade(sandbox, wrong, tests)
    assert verdict.passed == 0, verdict
    assert verdict.error is None, "wrong is not the same as not judged"


@needs_sandbox
def test_failures_are_in_the_order_of_the_tests() -> None:
    """The second goes to the examiner, the others are compared here."""
    tests = Asserts(asserts=["assert add(1, 1) == 3", "assert abs(add(1, 2)) == 3", "assert add(2, 2) == 4"])
    assert grade(fresh(), ADD, tests).failures == ["AssertionError: wrong answer", None, None]
    tests = Asserts(asserts=["assert add(1, 1) == 2", "assert add(1, 2) > 7", "assert add(2, 2) == 5"])
    verdict = grade(fresh(), ADD, tests)
    assert [failure is None for failure in verdict.failures] == [True, False, False]
    assert verdict.passed == 1


@needs_sandbox
@pytest.mark.parametrize(
    ("program", "error"),
    [
        ("def add(a, b)\n    return a + b", "compile: SyntaxError"),
        ("import nothing_of_this_name\n" + ADD, "run: ModuleNotFoundError"),
        ("raise KeyError('x')", "run: KeyError"),
        ("import os\nos._exit(0)", "died"),
        ("def add(a, b):\n    while True: pass", "timeout"),
        ("def add(a, b):\n    return 'x' * 10**6", "output"),
    ],
)
def test_what_keeps_a_program_from_a_verdict_has_a_name(program: str, error: str) -> None:
    verdict = grade(fresh(wall_s=2), program, ASSERTS)
    assert verdict.error is not None
    assert verdict.error.startswith(error)
    assert not verdict.all_passed


@needs_sandbox
def test_no_test_is_an_error_never_a_pass() -> None:
    sandbox = fresh()
    never = Check(test="def check(candidate):\n    assert True", entry_point="add")
    skipped = UnitTests(modules=[UNITS.modules[0].replace("    def", "    @unittest.skip('x')\n    def")])
    for tests in (Asserts(asserts=[]), never, UnitTests(modules=["x = 1"]), Script(cases=[])):
        with pytest.raises(DataError, match="test"):
            grade(sandbox, ADD, tests)
    assert not grade(sandbox, ADD, skipped).all_passed
    with pytest.raises(DataError, match="not Python"):
        grade(sandbox, ADD, Asserts(asserts=["assert add(1, 2) ="]))


@needs_sandbox
def test_an_entry_of_several_statements_is_one_test() -> None:
    tests = Asserts(asserts=["assert add(1, 2) == 3", "import math\nassert math.isclose(add(1, 2), 3)"])
    assert grade(fresh(), ADD, tests).all_passed
    tests = Asserts(asserts=["assert add(1, 2) == 3; assert add(1, 2) == 4", "assert add(1, 2) == 3"])
    assert [failure is None for failure in grade(fresh(), ADD, tests).failures] == [False, True]


@pytest.mark.parametrize(
    ("entry", "fits"),
    [
        ("assert f() == 1; assert f()", True),
        ("", False),
        ("# x", False),
        ("import math", False),
        ("assert f( ==", False),
    ],
)
def test_an_entry_must_assert_something(entry: str, fits: bool) -> None:
    row = {
        "text": "Write f.",
        "code": "def f(): return 1",
        "test_setup_code": "",
        "test_list": ["assert f() == 1", entry],
    }
    if fits:
        program_rows.mbpp(row, "own.jsonl:7")
    else:
        with pytest.raises(DataError, match=r"own\.jsonl:7: a test that "):
            program_rows.mbpp(row, "own.jsonl:7")


@needs_sandbox
def test_where_every_test_is_shown_the_fraction_is_of_all() -> None:
    tests = Asserts(asserts=["assert add(1, 2) == 3", "assert add(1, 2) == 4"], shown=2)
    problem = Problem(id="own", prompt="", reference=reference(tests, ADD), meta={})
    assert Programming(reward="fraction").score(problem, f"```python\n{ADD}```").reward == 0.5


@pytest.mark.parametrize(
    ("assertion", "expected"),
    [
        ("assert f(1, [2]) == (3, {'a': -4})", ("f(1, [2])", (3, {"a": -4}))),
        ("assert (f(g(1))) == 'x', 'message'", ("f(g(1))", "x")),
        ("assert sum(1, 2) == 3", ("sum(1, 2)", 3)),  # the program's own `sum`
        ("assert len(f(1)) == 3", None),
        ("assert any(map(f, [1])) == False", None),
        ("assert sum([i for i in range(3)]) == 3", ("sum([i for i in range(3)])", 3)),
        ("assert f(1) == 2; assert f(2) == 3", None),
        ("import math\nassert f(1) == 2", None),
        ("", None),
        ("assert f(1) == g(2)", None),
        ("assert f(1) != 3", None),
        ("assert f(1)", None),
        ("assert m.f(1) == 3", None),
        ("assert 1 < f(1) == 3", None),
    ],
)
def test_which_assertions_are_compared_here(assertion: str, expected: object) -> None:
    assert claim(assertion) == expected


PLAIN = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False)
    | st.text()
    | st.binary()
    | st.complex_numbers(allow_nan=False),
    lambda inner: (
        st.lists(inner)
        | st.lists(inner).map(tuple)
        | st.dictionaries(st.integers() | st.text(), inner)
        | st.sets(st.integers() | st.text())
    ),
    max_leaves=8,
)


@given(PLAIN)
def test_plain_values_cross_unchanged(value: object) -> None:
    there = decode(json.loads(json.dumps(encode(value))))
    assert there == value
    assert type(there) is type(value)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: (
        st.lists(inner)
        | st.dictionaries(
            st.sampled_from(["dict", "tuple", "set", "int", "complex", "bytes", "opaque", "x"]), inner, max_size=2
        )
    ),
)


@given(JSON)
def test_whatever_is_sent_decodes_to_plain_values_or_is_malformed(sent: object) -> None:
    try:
        value = decode(sent)
    except MALFORMED:
        return
    plain = (bool, int, float, str, list, tuple, dict, set, complex, bytes, Opaque, type(None))
    assert type(value) in plain


def test_a_subclass_arrives_as_its_plain_base() -> None:
    class Always(int):
        def __eq__(self, other: object) -> bool:
            return True

        __hash__ = int.__hash__

    assert decode(encode(Always(0))) != 3
    assert decode(encode(Always(0))) == 0
    assert encode(object())["opaque"] == "object"
    assert Opaque("x") != Opaque("x")


@needs_sandbox
@pytest.mark.parametrize("isolation", ISOLATIONS)
def test_a_program_leaves_no_trace_for_the_next(isolation: Isolation) -> None:
    sandbox = Sandbox(Limits(), isolation, workers=1)
    spoil = (
        "import json, math, os, sys, builtins\nmath.pi = 3\njson.dumps = None\nbuiltins.len = None\n"
        "os.environ['X'] = '1'\nopen('/tmp/note', 'w').write('x')\nsys.path.insert(0, '/tmp')\ndef f():\n    return 1\n"
    )
    look = (
        "import json, math, os, sys\ndef f():\n"
        "    return math.pi > 3, json.dumps(1), len('x'), os.environ.get('X'), os.listdir('/tmp'), '/tmp' in sys.path\n"
    )
    clean = (True, "1", 1, None, [], False)
    assert list(sandbox.call(look, ["f()"]).values) == [clean]
    sandbox.call(spoil, ["f()"])
    assert list(sandbox.call(look, ["f()"]).values) == [clean]
    sandbox.close()


@needs_sandbox
def test_programs_repeat_themselves() -> None:
    """The order of a set of strings is that of their hashes, which are fixed."""
    program = "def f():\n    return list({'a', 'b', 'c', 'd', 'e', 'f'})"
    runs = [tuple(Sandbox(Limits(), "process", workers=1).call(program, ["f()"]).values[0]) for _ in range(3)]
    assert len(set(runs)) == 1


@needs_sandbox
def test_many_threads_share_a_pool_and_each_gets_its_own_answer() -> None:
    sandbox = fresh()
    with ThreadPoolExecutor(12) as pool:
        rans = list(pool.map(lambda n: sandbox.call(f"def f():\n    return {n}", ["f()"]), range(60)))
    assert [list(ran.values) for ran in rans] == [[n] for n in range(60)]


@needs_sandbox
def test_servers_outlive_the_thread_that_asked_first() -> None:
    """A sandbox dies with the thread that started it, so none is started by a thread that asks."""
    sandbox = Sandbox(Limits(), "fork", workers=1)
    before = descendants()
    asking = threading.Thread(target=sandbox.call, args=(ADD, ["add(1, 2)"]))
    asking.start()
    asking.join()
    servers = descendants() - before
    time.sleep(0.2)
    assert list(sandbox.call(ADD, ["add(1, 2)"]).values) == [3]
    assert servers
    assert descendants() - before == servers, "the second call found the first one's servers alive"
    sandbox.close()
    assert not descendants() & servers


@needs_sandbox
def test_a_killed_server_is_replaced() -> None:
    sandbox = Sandbox(Limits(), "fork", workers=1)
    before = descendants()
    sandbox.call(ADD, ["add(1, 2)"])
    for pid in descendants() - before:
        with contextlib.suppress(ProcessLookupError):  # the first takes the others along
            os.kill(pid, signal.SIGKILL)
    assert list(sandbox.call(ADD, ["add(1, 2)"]).values) == [3]
    sandbox.close()


@needs_sandbox
def test_a_forked_child_has_a_pool_of_its_own() -> None:
    fresh().call(ADD, ["add(1, 2)"])
    child = os.fork()
    if child == 0:
        os._exit(0 if list(fresh().call(ADD, ["add(20, 22)"]).values) == [42] else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert list(fresh().call(ADD, ["add(1, 2)"]).values) == [3]


@needs_sandbox
@pytest.mark.parametrize("isolation", ISOLATIONS)
def test_nothing_outlives_a_killed_harness(isolation: Isolation) -> None:
    harness = textwrap.dedent(f"""
        import threading, time
        from tasks.sandbox import Limits, open_sandbox
        box = open_sandbox(Limits(wall_s=60), isolation="{isolation}")
        threading.Thread(target=box.call, args=("import time\\ntime.sleep(60)", [])).start()
        time.sleep(2)
        print("started", flush=True)
        time.sleep(60)
    """)
    with subprocess.Popen([sys.executable, "-c", harness], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "started\n"
        below = descendants(process.pid)
        assert len(below) >= 3
        process.kill()
    for _ in range(100):
        if not any(os.path.exists(f"/proc/{pid}") for pid in below):
            return
        time.sleep(0.1)
    pytest.fail(f"still there: {[pid for pid in below if os.path.exists(f'/proc/{pid}')]}")
