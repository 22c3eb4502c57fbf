"""Runs trusted tests in a process of their own, where the candidate's functions are proxies for calls to it."""

import ast
import builtins
import importlib
import json
import socket
import sys
import unittest
from collections.abc import Callable, Iterator
from typing import Any

from .plain import MALFORMED, Opaque, Value, decode, encode

ENDS_LOOPS = (StopIteration, StopAsyncIteration)
CATCHERS = ("assertRaises", "assertRaisesRegex", "raises", "suppress")


class CandidateError(Exception):
    """The candidate raised something that is no builtin exception."""


class CandidateFault(BaseException):
    """The candidate left, raised what ends a loop, or returned what cannot be carried: no test may catch that."""


class Remote:
    """The candidate's functions, called over a socket; counts the calls and remembers what they raised."""

    def __init__(self, channel: socket.socket) -> None:
        self._channel = channel
        self._lines = channel.makefile("r", encoding="utf-8", newline="\n")
        self.calls = 0
        self.raised: list[str] = []  # since the test began, as the next
        self.faults: list[str] = []

    def function(self, name: str) -> Callable[..., Value]:
        """A function that has the candidate's `name` evaluate its arguments."""

        def proxy(*args: Value, **kwargs: Value) -> Value:
            self.calls += 1
            request = {"name": name, "args": encode(list(args)), "kwargs": {k: encode(v) for k, v in kwargs.items()}}
            self._channel.sendall(json.dumps(request).encode() + b"\n")
            return self._value(json.loads(self._lines.readline() or '{"raised": "SystemExit", "message": ""}'))

        proxy.__name__ = name
        return proxy

    def _value(self, reply: Value) -> Value:
        if "raised" in reply:
            kind = getattr(builtins, str(reply["raised"]), None)
            if not isinstance(kind, type) or not issubclass(kind, BaseException):
                kind = CandidateError
            if issubclass(kind, ENDS_LOOPS) or not issubclass(kind, Exception):
                raise self._fault(f"raised {kind.__name__}")  # SystemExit too: leaving does not end the examination
            self.raised.append(kind.__name__)
            raise kind(str(reply["message"]))
        value = decode(reply["value"])
        if isinstance(value, Opaque):
            raise self._fault(f"a value of type {value.kind} cannot be examined")
        return value

    def swallowed(self, catches: bool) -> str | None:
        """What was raised in a test that passed all the same, and that no `except` of the tests can have wanted."""
        lost = [*self.faults, *([] if catches else (f"raised {name}" for name in self.raised))]
        return f"{lost[0]}, which a loop swallowed"[:200] if lost else None

    def began(self) -> None:
        """Forgets what earlier tests raised."""
        self.raised.clear()
        self.faults.clear()

    def _fault(self, why: str) -> CandidateFault:
        self.faults.append(why)
        return CandidateFault(why)


def compare(channel: socket.socket) -> None:
    """Compares answers that are too large to be compared where nothing bounds the time.

    Line in: {"pairs": [[value, expected], ...]}, encoded. Line out for each pair: {"equal": bool}.
    """
    for value, expected in json.loads(channel.makefile("r", encoding="utf-8", newline="\n").readline())["pairs"]:
        try:
            equal = decode(value) == decode(expected)
        except MALFORMED:
            equal = False
        _send(channel, {"equal": equal})


def examine(verdicts: socket.socket, candidate: socket.socket) -> None:
    """Runs an examination and reports each of its tests.

    Line in: an `Exam` of `tasks/sandbox/run.py`. Lines out: {"failure": str, or null where it passed} for each
    test, then {"done": tests, "calls": calls to the candidate}.
    """
    request = json.loads(verdicts.makefile("r", encoding="utf-8", newline="\n").readline())
    remote = Remote(candidate)
    space: dict[str, Any] = {"__name__": "examination"}
    exec(compile(request["prelude"], "<prelude>", "exec", dont_inherit=True), space)
    wanted = [*request["candidate"], *(n for n in _free_names(request["units"]) if n not in space)]
    modules = _attribute_bases(request["units"]) & sys.stdlib_module_names
    for name in wanted:
        space[name] = importlib.import_module(name) if name in modules else remote.function(name)
    catches, done = _catches([request["prelude"], *request["units"]]), 0
    for why in (_cases if request["cases"] else _units)(request["units"], space):
        done += 1
        _send(verdicts, {"failure": why or remote.swallowed(catches)})
        remote.began()
    _send(verdicts, {"done": done, "calls": remote.calls})


def _units(units: list[str], space: dict[str, Any]) -> Iterator[str | None]:
    """Runs each unit; yields None for one that passed, else what went wrong."""
    for unit in units:
        try:
            exec(compile(unit, "<test>", "exec", dont_inherit=True), space)
        except BaseException as error:
            yield f"{type(error).__name__}: {error}"[:200]
        else:
            yield None


def _cases(units: list[str], space: dict[str, Any]) -> Iterator[str | None]:
    """Runs every method of every TestCase that the units define; yields as `_units`."""
    for unit in units:
        exec(compile(unit, "<test>", "exec", dont_inherit=True), space)
    loader = unittest.TestLoader()
    found = [c for c in space.values() if isinstance(c, type) and issubclass(c, unittest.TestCase)]
    for case in (case for c in found if c.__module__ == "examination" for case in loader.loadTestsFromTestCase(c)):
        result = unittest.TestResult()
        unittest.TestSuite([case]).run(result)
        wrong = [text.strip().splitlines()[-1] for _, text in [*result.failures, *result.errors]]
        wrong += ["passed against expectation" for _ in result.unexpectedSuccesses]
        if wrong or not result.skipped:  # a skipped test is not a test that ran
            yield wrong[0][:200] if wrong else None


def _free_names(units: list[str]) -> list[str]:
    """Names that the tests use and neither define nor find among the builtins: the candidate's, or a module's."""
    nodes = [node for unit in units for node in ast.walk(ast.parse(unit))]
    used, bound = list[str](), set[str]()
    for node in nodes:
        if isinstance(node, ast.Name):
            (used.append if isinstance(node.ctx, ast.Load) else bound.add)(node.id)
        elif isinstance(node, ast.arg):
            bound.add(node.arg)
        elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.ExceptHandler)):
            bound.add(node.name or "")
        elif isinstance(node, (ast.Import, ast.ImportFrom)):
            bound |= {(name.asname or name.name).split(".")[0] for name in node.names}
    return list(dict.fromkeys(n for n in used if n not in bound and not hasattr(builtins, n)))


def _catches(sources: list[str]) -> bool:
    """Whether the tests themselves deal with exceptions, so that one which ended no test may be what they want."""
    nodes = [node for source in sources for node in ast.walk(ast.parse(source))]
    names = {
        n.attr if isinstance(n, ast.Attribute) else n.id for n in nodes if isinstance(n, (ast.Attribute, ast.Name))
    }
    return any(isinstance(n, (ast.Try, ast.TryStar)) for n in nodes) or not names.isdisjoint(CATCHERS)


def _attribute_bases(units: list[str]) -> set[str]:
    nodes = (n for unit in units for n in ast.walk(ast.parse(unit)) if isinstance(n, ast.Attribute))
    return {n.value.id for n in nodes if isinstance(n.value, ast.Name)}


def _send(channel: socket.socket, line: dict[str, Any]) -> None:
    channel.sendall(json.dumps(line).encode() + b"\n")
