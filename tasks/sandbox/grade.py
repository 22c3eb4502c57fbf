"""Tests of four styles, and the verdict on a program."""

import ast
import builtins
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tasks.core import DataError
from tasks.sandbox.cell.plain import Opaque
from tasks.sandbox.run import Ran, Sandbox


@dataclass(frozen=True, kw_only=True)
class Asserts:
    """Assertions on functions, MBPP's style. `setup` runs after the program, in its namespace."""

    asserts: Sequence[str]
    setup: str = ""


@dataclass(frozen=True, kw_only=True)
class Check:
    """HumanEval's style: `test` defines check(candidate), one test. Its helpers come from the trusted `prelude`."""

    test: str
    entry_point: str
    prelude: str = ""


@dataclass(frozen=True, kw_only=True)
class UnitTests:
    """Modules that define `unittest.TestCase`s; each of their methods is a test."""

    modules: Sequence[str]


@dataclass(frozen=True, kw_only=True)
class Script:
    """A whole program, judged by what it prints: (standard input, standard output) pairs.

    Equal line by line, less white space at the ends of lines and of the text.
    """

    cases: Sequence[tuple[str, str]]


Tests = Asserts | Check | UnitTests | Script


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """How many tests ran to a pass, of how many."""

    passed: int
    total: int
    error: str | None = None  # what kept tests from a verdict: see `Ran.error`; None where all were judged
    failures: Sequence[str] = ()  # what was wrong with each that was judged and failed

    @property
    def all_passed(self) -> bool:
        """Every test passed, and there was one."""
        return self.error is None and self.passed == self.total > 0


def grade(sandbox: Sandbox, program: str, tests: Tests) -> Verdict:
    """Runs `program` against `tests`.

    Raises:
        DataError: there is no test, or the tests never call the program.
    """
    if isinstance(tests, Asserts):
        return _asserts(sandbox, program, tests)
    if isinstance(tests, Script):
        return _script(sandbox, program, tests)
    if isinstance(tests, Check):
        unit = f"{tests.test}\ncheck({tests.entry_point})"
        ran = sandbox.examine(program, prelude=tests.prelude, candidate=[tests.entry_point], units=[unit], cases=False)
        return _verdict(_examined(ran, 1), 1, ran.error)
    ran = sandbox.examine(program, prelude="", candidate=(), units=tests.modules, cases=True)
    total = _num_methods(tests.modules)
    return _verdict(_examined(ran, total), total, ran.error)


def claim(assertion: str) -> tuple[str, Any] | None:
    """(call, expected) of `assert f(...) == literal`, else None.

    Such a test needs no trusted process: the program evaluates the call, and the value is compared here. The
    arguments may be any expression of the program's own names, as in `f(Node(1))`.
    """
    [statement] = _statements(assertion)
    if not isinstance(statement, ast.Assert) or not isinstance(statement.test, ast.Compare):
        return None
    left, operators, right = statement.test.left, statement.test.ops, statement.test.comparators
    if not isinstance(left, ast.Call) or not isinstance(left.func, ast.Name) or len(operators) != 1:
        return None
    if not isinstance(operators[0], ast.Eq) or not _of_the_program(left, left.func.id):
        return None
    try:
        return ast.unparse(left), ast.literal_eval(right[0])
    except (ValueError, TypeError):
        return None


def _of_the_program(call: ast.Call, name: str) -> bool:
    """Whether the outermost function is the program's: not `len` in `len(f(2))`, but `sum` in `sum(10, 15)`."""
    inner = [n.func for n in ast.walk(call) if isinstance(n, ast.Call) and n is not call]
    return not hasattr(builtins, name) or not any(
        isinstance(f, ast.Name) and not hasattr(builtins, f.id) for f in inner
    )


def _asserts(sandbox: Sandbox, program: str, tests: Asserts) -> Verdict:
    claims = [claim(test) for test in tests.asserts]
    known = [c for c in claims if c is not None]
    others = [test for test, c in zip(tests.asserts, claims, strict=True) if c is None]
    if not claims:
        raise DataError("a problem without tests")
    program = f"{program}\n{tests.setup}" if tests.setup else program
    found: list[str | None] = []
    error = None
    if known:
        ran = sandbox.call(program, [call for call, _ in known])
        found = [_failure(value, expected) for value, (_, expected) in zip(ran.values, known, strict=False)]
        error = ran.error
    if others and error is None:
        ran = sandbox.examine(program, prelude="", candidate=(), units=others, cases=False)
        found, error = [*found, *_examined(ran, len(others))], ran.error
    return _verdict(found, len(claims), error)


def _script(sandbox: Sandbox, program: str, tests: Script) -> Verdict:
    if not tests.cases:
        raise DataError("a problem without tests")
    passed = 0
    for stdin, stdout in tests.cases:
        ran = sandbox.script(program, stdin)
        if ran.error is not None:
            return Verdict(passed=passed, total=len(tests.cases), error=ran.error)
        passed += _lines(ran.output) == _lines(stdout)
    return Verdict(passed=passed, total=len(tests.cases))


def _examined(ran: Ran, total: int) -> Sequence[str | None]:
    if total == 0:
        raise DataError("a problem without tests")
    if ran.error is None and ran.calls == 0 and None in ran.failures:
        raise DataError("tests that never call the program")
    return ran.failures


def _verdict(found: Sequence[str | None], total: int, error: str | None) -> Verdict:
    failures = [failure for failure in found if failure is not None]
    return Verdict(passed=len(found) - len(failures), total=total, error=error, failures=failures)


def _failure(value: Any, expected: Any) -> str | None:
    if isinstance(value, Opaque):
        return value.kind
    try:
        return None if value == expected else "AssertionError: wrong answer"
    except RecursionError:
        return "nested deeper than can be compared"


def _lines(text: str) -> list[str]:
    return [line.rstrip() for line in text.rstrip().splitlines()]


def _num_methods(modules: Sequence[str]) -> int:
    trees = [node for module in modules for node in _statements(module) if isinstance(node, ast.ClassDef)]
    return sum(isinstance(n, ast.FunctionDef) and n.name.startswith("test") for tree in trees for n in tree.body)


def _statements(source: str) -> list[ast.stmt]:
    try:
        return ast.parse(source).body
    except SyntaxError as error:
        raise DataError(f"a test that is not Python: {error.msg}: {source[:60]!r}") from error
