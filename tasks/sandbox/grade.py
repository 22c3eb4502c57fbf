"""Tests of four styles, and the verdict on a program."""

import ast
import builtins
from collections.abc import Sequence
from dataclasses import dataclass

from tasks.core import DataError
from tasks.sandbox.cell.plain import Opaque, Value
from tasks.sandbox.run import Exam, Large, Ran, Sandbox


@dataclass(frozen=True, kw_only=True)
class Asserts:
    """Assertions on functions, MBPP's style. `setup` runs after the program, in its namespace."""

    asserts: Sequence[str]
    setup: str = ""
    shown: int = 0  # how many, from the first, the prompt shows


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
    """What became of each test."""

    failures: Sequence[str | None]  # for each test, in order: None where it passed, else what was wrong
    error: str | None = None  # what ended the program early (`Ran.error`), so that tests were not judged

    @property
    def passed(self) -> int:
        """How many tests passed."""
        return sum(failure is None for failure in self.failures)

    @property
    def all_passed(self) -> bool:
        """Every test passed, and there was one."""
        return self.passed == len(self.failures) > 0


def grade(sandbox: Sandbox, program: str, tests: Tests) -> Verdict:
    """Runs `program` against `tests`.

    Raises:
        DataError: there is no test, or tests passed that never called the program.
    """
    if isinstance(tests, Asserts):
        return _asserts(sandbox, program, tests)
    if isinstance(tests, Script):
        return _script(sandbox, program, tests)
    if isinstance(tests, Check):
        exam = Exam(
            prelude=tests.prelude, candidate=(tests.entry_point,), units=(f"{tests.test}\ncheck({tests.entry_point})",)
        )
        return _examined(sandbox.examine(program, exam), 1)
    return _examined(sandbox.examine(program, Exam(units=tests.modules, cases=True)), _num_methods(tests.modules))


def claim(assertion: str) -> tuple[str, Value] | None:
    """(call, expected) of `assert f(...) == literal`, else None.

    Such a test needs no trusted process: the program evaluates the call, and the value is compared here. The
    arguments may be any expression of the program's own names, as in `f(Node(1))`.
    """
    statement, *more = _statements(assertion) or [None]
    if more or not isinstance(statement, ast.Assert) or not isinstance(statement.test, ast.Compare):
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


def unfit(assertion: str) -> str | None:
    """Why a test of `Asserts` cannot judge: it is not Python, or asserts nothing; None for one that can."""
    try:
        statements = _statements(assertion)
    except DataError as error:
        return str(error)
    asserts = any(isinstance(node, ast.Assert) for statement in statements for node in ast.walk(statement))
    return None if asserts else f"a test that asserts nothing: {assertion[:60]!r}"


def _of_the_program(call: ast.Call, name: str) -> bool:
    """Whether the outermost function is the program's: `sum` in `sum(10, 15)`, not in `sum(map(f, x))`."""
    names = [node for node in ast.walk(call) if isinstance(node, ast.Name) and node is not call.func]
    bound = {node.id for node in names if isinstance(node.ctx, ast.Store)}
    bound |= {node.arg for node in ast.walk(call) if isinstance(node, ast.arg)}
    return not hasattr(builtins, name) or all(n.id in bound or hasattr(builtins, n.id) for n in names)


def _asserts(sandbox: Sandbox, program: str, tests: Asserts) -> Verdict:
    claims = {i: found for i, test in enumerate(tests.asserts) if (found := claim(test)) is not None}
    others = [i for i in range(len(tests.asserts)) if i not in claims]
    program = f"{program}\n{tests.setup}" if tests.setup else program
    failures: dict[int, str | None] = {}
    error = None
    if claims:
        ran = sandbox.call(program, [call for call, _ in claims.values()])
        error = ran.error
        wanted = {i: expected for i, (_, expected) in claims.items()}
        failures |= _compared(sandbox, dict(zip(wanted, ran.values, strict=False)), wanted)
    if others and error is None:
        rest = _examined(sandbox.examine(program, Exam(units=[tests.asserts[i] for i in others])), len(others))
        error = rest.error
        failures |= dict(zip(others, rest.failures, strict=True))
    return _verdict([failures.get(i, error) for i in range(len(tests.asserts))], error)


def _script(sandbox: Sandbox, program: str, tests: Script) -> Verdict:
    failures: list[str | None] = []
    for stdin, stdout in tests.cases:
        ran = sandbox.script(program, stdin)
        wrong = None if _lines(ran.output) == _lines(stdout) else "wrong output"
        failures.append(ran.error or wrong)
    return _verdict(failures, next((f for f in failures if f is not None and f != "wrong output"), None))


def _examined(ran: Ran, total: int) -> Verdict:
    if ran.error is None and ran.calls == 0 and None in ran.failures:
        raise DataError("tests that never call the program")
    unjudged = [ran.error or "not run"] * (total - len(ran.failures))
    return _verdict([*ran.failures, *unjudged], ran.error)


def _verdict(failures: Sequence[str | None], error: str | None) -> Verdict:
    if not failures:
        raise DataError("a problem without tests")
    return Verdict(failures=failures, error=error)


def _compared(sandbox: Sandbox, values: dict[int, Value], wanted: dict[int, Value]) -> dict[int, str | None]:
    """What is wrong with each value, None where it is the one wanted."""
    large = {i: value for i, value in values.items() if isinstance(value, Large)}
    equal = sandbox.equal([(value, wanted[i]) for i, value in large.items()]) if large else ()
    judged = dict(zip(large, equal, strict=True))
    return {i: _failure(value, wanted[i], judged.get(i)) for i, value in values.items()}


def _failure(value: Value, expected: Value, equal: bool | None) -> str | None:
    """`equal` is the sandbox's word on a `Large` value; None where it could not tell."""
    if isinstance(value, Opaque):
        return value.kind
    if isinstance(value, Large) and equal is None:
        return "an answer too costly to compare"
    try:
        right = equal if isinstance(value, Large) else value == expected
        return None if right else "AssertionError: wrong answer"
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
