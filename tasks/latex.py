r"""Comparing answers in LaTeX: what can be decided by reading is decided here, the rest by sympy in a worker.

The rules, in order; each is symmetric. The table with the reasons: docs/verifier.md.

    same-text   equal once spacing and ways of writing are taken out
    number      both are plain numbers: equal in value, exactly
    base        digits with a base as subscript
    choice      a letter from A to J, as in \text{(C)}
    words       both are text
    symbolic    the same object by math-verify, in a worker with a hard limit
"""

import re
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

from tasks import numerals, workers

MAX_LENGTH = 2000
MAX_DEPTH = 30

_WAYS = (  # of writing the same thing, in order
    (re.compile(r"\\(?:left|right|big|Big|bigg|Bigg)(?![A-Za-z])\.?|\\displaystyle(?![A-Za-z])|(?<!\\)\\[!$]|\$"), ""),
    (re.compile(r"(?<!\\)\\[()\[\],;: ]|~|\\q?quad(?![A-Za-z])|[\s\u00a0\u2009\u202f]+"), " "),
    (re.compile(r"\\[dtc]frac(?![A-Za-z])"), r"\\frac"),
    (re.compile(r"\\(?:textbf|textrm|textit|textsf|textnormal|mathrm|mathbf|mathit|mbox|hbox)\s*\{"), r"\\text{"),
    (re.compile(r"\\phantom\s*(?:\{[^{}]*\}|.)"), ""),
    (re.compile(r"\\(le|ge)(?![A-Za-z])"), r"\\\1q"),
    (re.compile(r"\\lt(?![A-Za-z])"), "<"),
    (re.compile(r"\\gt(?![A-Za-z])"), ">"),
    (re.compile(r"\{,\}"), ","),
    (re.compile(r"\\frac\s*(\d|[a-zA-Z]|\\pi)\s*(\d|[a-zA-Z]|\\pi)(?![A-Za-z])"), r"\\frac{\1}{\2}"),
)
_UNIT = re.compile(r"(?<=\S)\s*\\text\{[^{}0-9]*\}\s*(?:\^\s?\{?\s?[0-9]\s?\}?)?$")
_UNIT_WORD = re.compile(
    r"(?<=[0-9})])\s*(?:square |cubic )?(?:degrees?|units?|cm|mm|km|kg|inch(?:es)?|f(?:oo|ee)t|miles?|meters?|hours?"
    r"|minutes?|seconds?|days?|years?|dollars?|cents?)\s*(?:\^\s?\{?\s?[0-9]\s?\}?)?$"
)
_JOIN = re.compile(r"\\text\{\s*(?:and|or|,|base)\s*\}?")
_REPEATING = re.compile(r"([0-9]{0,18})\.([0-9]{0,18})\\overline\s?\{\s?([0-9]{1,18})\s?\}")
_THOUSANDS = re.compile(r"\{[0-9]{1,3}(?:,[0-9]{3})+\}")  # as a numerator, denominator, radicand
_TEXT = re.compile(r"\\text\{([^{}]*)\}")
_BASE = re.compile(r"(?=[^_]*[0-9])([0-9A-F]+)_\{?\s?([0-9]{1,2})\s?\}?")
_CHOICE = re.compile(r"\(?([A-J])\)?(?:[.:].*|\s+[^=\s].*)?")
_EQUALS = re.compile(r"(?<![\\<>!:])=")
_NAME = re.compile(r"\s*(?:[A-Za-z]|\\[a-z]+)(?:_\{?\w+\}?)?(?:\([A-Za-z, ]*\))?\s*")
_TOWER = re.compile(r"\^\{?[^{}^]{0,9}\^\{?[^{}^]{0,9}\^|[0-9]{4,}!|!\)?!")
_COMMAND = re.compile(r"\\[A-Za-z]+(?:\s*\{[A-Za-z ]+\})?")


@dataclass(frozen=True)
class Comparison:
    """Whether two answers are equal, by which rule, and why no rule could tell."""

    equal: bool
    rule: str
    error: str | None = None


def compare(gold: str, answer: str) -> Comparison:
    """Whether an answer is the gold. Symmetric; an empty text equals nothing. Safe from any thread."""
    gold, answer = tidy(gold), tidy(answer)
    if bool(_EQUALS.search(gold)) != bool(_EQUALS.search(answer)):
        gold, answer = _right_side(gold), _right_side(answer)
    for name, rule in _RULES.items():
        equal = rule(gold, answer)
        if equal is not None:
            return Comparison(equal, name)
    return _symbolic(gold, answer)


@lru_cache(maxsize=16384)  # the splits of a file share its golds
def unusable(gold: str) -> str | None:
    """Why nothing can be judged by this gold; None where something can."""
    gold = tidy(gold)
    if not gold:
        return "empty gold"
    if any(read(gold) is not None for read in (_value, _based, _letter, _plain_text)):
        return None
    verdict = workers.call("tasks.equivalence:parses", _right_side(gold))
    return None if verdict.value else f"gold {gold!r} cannot be parsed ({verdict.error or 'unparseable'})"


def tidy(text: str) -> str:
    """One way of writing for what LaTeX can write in several; units and redundant brackets removed."""
    text = _without_double_brackets(text)
    if len(text) > MAX_LENGTH:
        return text
    for pattern, way in _WAYS:
        text = pattern.sub(way, text)
    text = text.strip().removeprefix("\\approx").partition("\\approx")[0]
    text = _THOUSANDS.sub(lambda m: m[0].replace(",", ""), text.strip().rstrip(".,;: "))
    text = _REPEATING.sub(_repeating, text)
    for unit in (_UNIT, _UNIT_WORD):
        shorter = unit.sub("", text)
        if shorter and not _JOIN.search(text[len(shorter) :]):
            text = shorter
    return text.strip()


def without_text(text: str) -> str:
    r"""A `\text{...}` around a whole answer taken off."""
    found = _TEXT.fullmatch(text.strip())
    return found[1].strip() if found else text


def _same_text(gold: str, answer: str) -> bool | None:
    if not gold or not answer:
        return False
    return True if gold.replace(" ", "") == answer.replace(" ", "") else None


def _number(gold: str, answer: str) -> bool | None:
    right, said = _value(gold), _value(answer)
    if right is None or said is None:
        return None
    if right != said and ("%" in gold) != ("%" in answer):
        return right == said / 100 if "%" in answer else right / 100 == said
    return right == said


def _base(gold: str, answer: str) -> bool | None:
    right, said = _based(gold), _based(answer)
    if right and said:
        return right == said
    if (right and answer.isalnum()) or (said and gold.isalnum()):
        return (right or (gold, ""))[0] == (said or (answer, ""))[0]
    return None


def _choice(gold: str, answer: str) -> bool | None:
    right, said = _letter(gold), _letter(answer)
    return right == said if right and said and (gold, answer) != (right, said) else None


def _words(gold: str, answer: str) -> bool | None:
    right, said = _plain_text(gold), _plain_text(answer)
    return right == said if right and said and "\\text" in gold + answer else None


_RULES = {"same-text": _same_text, "number": _number, "base": _base, "choice": _choice, "words": _words}


def _symbolic(gold: str, answer: str) -> Comparison:
    """Ask a worker, except about what would only cost its limit."""
    if _too_large(gold) or _too_large(answer):
        return Comparison(False, "symbolic", "too-large")
    verdict = workers.call("tasks.equivalence:judge", gold, answer)
    if verdict.value is None:
        return Comparison(False, "symbolic", verdict.error)
    equal, parsed = verdict.value
    return Comparison(equal and _same_case(gold, answer), "symbolic", None if parsed else "unparseable")


def _value(text: str) -> Fraction | None:
    return None if "(" in text or "[" in text or "\\{" in text else numerals.plain_number(text)


def _based(text: str) -> tuple[str, str] | None:
    found = _BASE.fullmatch(_TEXT.sub(r"\1", text))
    return (found[1], found[2]) if found else None


def _letter(text: str) -> str | None:
    found = _CHOICE.fullmatch(_TEXT.sub(r"\1", text).strip())
    return found[1] if found else None


def _plain_text(text: str) -> str | None:
    """Letters of a text answer; None where there is mathematics in it."""
    words = _TEXT.sub(r"\1", text).casefold()
    found = re.fullmatch(r"[a-z0-9 ,.:'-]*[a-z]{2}[a-z0-9 ,.:'-]*", words)
    return " ".join(re.findall(r"[a-z0-9]+", words)) if found else None


def _right_side(text: str) -> str:
    """What follows the last `=` of `x = ...`, `f(x) = ...` or of numbers; an equation in unknowns stays whole."""
    *left, right = _EQUALS.split(text)
    named = left[1:] if left and _NAME.fullmatch(left[0]) else [*left, right]
    return text if any(re.search(r"[A-Za-z]", _COMMAND.sub("", side)) for side in named) else right.strip()


def _same_case(gold: str, answer: str) -> bool:
    """Whether no symbol is written as a capital in one and small in the other: sympy's reader does not tell."""
    a, b = (set(re.findall(r"[A-Za-z]", _COMMAND.sub("", text))) for text in (gold, answer))
    return not any(letter.swapcase() in b and letter not in b for letter in a)


def _repeating(match: re.Match[str]) -> str:
    whole, fixed, period = match[1] or "0", match[2], match[3]
    top = int(whole + fixed + period) - int(whole + fixed)
    return f"\\frac{{{top}}}{{{'9' * len(period)}{'0' * len(fixed)}}}"


def _without_double_brackets(text: str) -> str:
    opened: list[int] = []
    closing: dict[int, int] = {}
    for index, char in enumerate(text):
        if char == "(":
            opened.append(index)
        elif char == ")" and opened:
            closing[opened.pop()] = index
    double = {i for i, end in closing.items() if closing.get(i + 1) == end - 1}
    dropped = double | {closing[i] for i in double}
    return "".join(char for index, char in enumerate(text) if index not in dropped)


def _too_large(text: str) -> bool:
    return len(text) > MAX_LENGTH or bool(_TOWER.search(text.replace(" ", ""))) or _depth(text) > MAX_DEPTH


def _depth(text: str) -> int:
    depth = deepest = 0
    for char in text:
        depth += (char in "([{") - (char in ")]}")
        deepest = max(deepest, depth)
    return deepest
