"""The program that a completion holds, and `Problem.reference`: JSON that no model sees, with tests and solution."""

import builtins
import dataclasses
import json
import re
from collections.abc import Collection
from typing import Any

from tasks.answers import answer_part
from tasks.sandbox import Asserts, Check

_TOKENS = r"(?:<\|[^|<>\s]{1,40}\|>|</?s>|<end_of_turn>)"
_END_TOKENS = re.compile(rf"(?:{_TOKENS}\s*)+\Z")
_OPENING = re.compile(r"([ \t]*)(`{3,}|~{3,})[^`\n]*")
_CLOSING = re.compile(rf"[ \t]*(`{{3,}}|~{{3,}})[ \t]*(?:{_TOKENS}[ \t]*)*")
_FUTURE = re.compile(r"^from[ \t]+__future__[ \t]+import[ \t]+(?:\([^()]*\)|[^\n(]+)[ \t]*(?:\n|\Z)", re.MULTILINE)
_CALLED = re.compile(r"(?<![\w.])([A-Za-z_]\w*)(?=\s*\()")
_NOT_FUNCTIONS = frozenset({*dir(builtins), "assert", "not", "and", "or", "in", "is", "if", "for", "lambda"})


def code_in(completion: str, called: Collection[str] = ()) -> tuple[str, str]:
    """(code, rule): a fenced block of the answer part ("fence"), else the whole of it ("text").

    The block is the last that defines what the tests call, else the last. A block that is never closed runs to the end.
    The answer part is what follows `</think>`.

    Args:
        completion: any text.
        called: names of functions and classes.
    """
    text = completion.replace("\r\n", "\n").replace("\ufeff", "")
    part = answer_part(_END_TOKENS.sub("", text))
    blocks = _blocks(part)
    if not blocks:
        return part, "text"
    names = "|".join(map(re.escape, called))
    defines = re.compile(rf"^(?:(?:async[ \t]+)?def|class)[ \t]+(?:{names})\b|^(?:{names})[ \t]*=(?!=)", re.MULTILINE)
    defining = [block for block in blocks if names and defines.search(block)]
    return (defining or blocks)[-1], "fence"


def called_by(tests: Asserts | Check) -> list[str]:
    """Names that the tests call, in order, without Python's own where there are others: what a program must define."""
    if isinstance(tests, Check):
        return [tests.entry_point]
    names = [name for test in tests.asserts for name in _CALLED.findall(test)]
    return list(dict.fromkeys([name for name in names if name not in _NOT_FUNCTIONS] or names))


def reference(tests: Asserts | Check, solution: str) -> str:
    """What `tests_of` and `solution_of` read."""
    return json.dumps({"tests": dataclasses.asdict(tests), "solution": solution})


def tests_of(reference: str) -> Asserts | Check:
    """The tests in `Problem.reference`."""
    fields: dict[str, Any] = json.loads(reference)["tests"]
    return Check(**fields) if "entry_point" in fields else Asserts(**fields)


def solution_of(reference: str) -> str:
    """The reference solution in `Problem.reference`, a whole program."""
    return json.loads(reference)["solution"]


def program_of(code: str, tests: Asserts | Check) -> str:
    """The program to run. Code that does not define HumanEval's function continues its prompt."""
    if isinstance(tests, Asserts):
        return code
    future = "".join(line.rstrip("\n") + "\n" for line in _FUTURE.findall(code))  # must come before all else
    code = _FUTURE.sub("", code) if future else code
    head = rf"^def\s+{re.escape(tests.entry_point)}\b"
    if re.search(head, code, re.MULTILINE) is None:
        return future + tests.prelude + _with_first_space(code, tests.prelude)
    return future + re.split(head, tests.prelude, flags=re.MULTILINE)[0] + code  # imports and helpers, then the code


def _with_first_space(code: str, prelude: str) -> str:
    """A continuation whose first line lacks one space of the body's indentation: SentencePiece's decoder drops it."""
    body = _indent((prelude.rstrip().splitlines() or [""])[-1])
    first = next((line for line in code.splitlines() if line.strip()), "")
    short = first and body and len(_indent(first)) == len(body) - 1 and code.startswith(first)
    return " " + code if short else code


def _blocks(text: str) -> list[str]:
    """Fenced blocks as CommonMark has them: closed by as many of the same mark; a fence's indentation is not code."""
    blocks, lines, indent, mark = list[str](), list[str](), "", ""
    for line in text.splitlines(keepends=True):
        if not mark:
            opening = _OPENING.fullmatch(line.rstrip("\n"))
            indent, mark = opening.groups() if opening else ("", "")
            lines = []
            continue
        closing = _CLOSING.fullmatch(line.rstrip("\n"))
        if closing and closing[1][0] == mark[0] and len(closing[1]) >= len(mark):
            blocks.append(_dedented(lines, indent))
            mark = ""
        else:
            lines.append(line)
    return [*blocks, _dedented(lines, indent)] if mark else blocks


def _dedented(lines: list[str], indent: str) -> str:
    kept = [line for line in lines if not re.fullmatch(rf"\s*{_TOKENS}\s*", line)]
    inside = bool(indent) and all(line.startswith(indent) for line in kept if line.strip())
    return "".join(line.removeprefix(indent) if inside else line for line in kept)


def _indent(line: str) -> str:
    return line[: len(line) - len(line.lstrip())]
