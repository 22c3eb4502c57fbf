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

from tasks import equations, numerals, words, workers
from tasks.decoration import undressed

MAX_LENGTH = 2000
MAX_DEPTH = 30

_WAYS = (  # of writing the same thing, in order
    (re.compile(r"\\\\\s?\[\s?-?[0-9.]{1,9}\s?[a-z]{2}\s?\]"), r"\\\\ "),  # space between rows
    (re.compile(r"\\(?:left|right|big|Big|bigg|Bigg)(?![A-Za-z])\.?|\\displaystyle(?![A-Za-z])|(?<!\\)\\[!$]|\$"), ""),
    (re.compile(r"(?<!\\)\\[()\[\],;: ]|~|\\q?quad(?![A-Za-z])|[\s\u00a0\u2009\u202f]+"), " "),
    (re.compile(r"\\[dtc]frac(?![A-Za-z])"), r"\\frac"),
    (re.compile(r"\\(?:textbf|textrm|textit|textsf|textnormal|mathrm|mathbf|mathit|mbox|hbox)\s*\{"), r"\\text{"),
    (
        re.compile(r"(?<=[0-9])\s?\^\s?(?:\{\s?\\text\{\s?(?:st|nd|rd|th)\s?\}\s?\}|\\text\{\s?(?:st|nd|rd|th)\s?\})"),
        "",
    ),
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
_SPACED = re.compile(r"(?<![_^0-9.,])(?<![0-9.,] )[0-9]{1,3}(?: [0-9]{3})+(?! ?[0-9])")  # digit groups, as 64 000
_THOUSANDS = re.compile(r"\{[0-9]{1,3}(?:,[0-9]{3})+\}")  # as a numerator, denominator, radicand
_BASE = re.compile(r"(?=[^_]*[0-9])([0-9A-F]+)_\{?\s?([0-9]{1,2})\s?\}?")
_PAIR, _LIST = re.compile(r"\([^()]*,[^()]*\)"), re.compile(r"[^()\[\]{}]*,[^()\[\]{}]*")
_TOWER = re.compile(r"\^\{?[^{}^]{0,9}\^\{?[^{}^]{0,9}\^|[0-9]{4,}!|!\)?!")


@dataclass(frozen=True)
class Comparison:
    """Whether two answers are equal, by which rule, and why no rule could tell."""

    equal: bool
    rule: str
    error: str | None = None


def compare_latex(gold: str, answer: str) -> Comparison:
    """Whether an answer is the gold. Symmetric; an empty text equals nothing. Safe from any thread."""
    gold, answer = tidy_latex(gold), tidy_latex(answer)
    one, other = equations.sides_of_equation(gold), equations.sides_of_equation(answer)
    same_name = len(one) == len(other) == 2 and one[0].strip() == other[0].strip() and len(one[0].strip()) == 1
    if (len(one) > 1) != (len(other) > 1) or same_name:
        gold, answer = equations.right_side(gold), equations.right_side(answer)
    for name, rule in _RULES.items():
        equal = rule(gold, answer)
        if equal is not None:
            return Comparison(equal, name)
    return _symbolic(gold, answer)


@lru_cache(maxsize=16384)  # the splits of a file share its golds
def why_unusable(gold: str) -> str | None:
    """Why nothing can be judged by this gold; None where something can."""
    gold = tidy_latex(gold)
    if not gold:
        return "empty gold"
    if words.bare_letter(gold) or any(read(gold) is not None for read in (_value, _based, words.plain_text)):
        return None
    verdict = workers.call_worker("tasks.equivalence:parses_as_maths", equations.right_side(gold))
    return None if verdict.value else f"gold {gold!r} cannot be parsed ({verdict.error or 'unparseable'})"


def tidy_latex(text: str) -> str:
    """One way of writing for what LaTeX can write in several; units and redundant brackets removed."""
    text = numerals.without_group_spaces(_without_double_brackets(undressed(text)))
    if len(text) > MAX_LENGTH:
        return text
    for pattern, way in _WAYS:
        text = pattern.sub(way, text)
    text = _SPACED.sub(lambda m: m[0].replace(" ", ""), text)
    text = text.strip().removeprefix("\\approx").partition("\\approx")[0]
    text = _THOUSANDS.sub(lambda m: m[0].replace(",", ""), text.strip().rstrip(".,;: "))
    text = _REPEATING.sub(_repeating, text)
    for ending in (_UNIT, _UNIT_WORD):
        shorter = ending.sub("", text)
        unit = text[len(shorter) :]
        if shorter and not _JOIN.search(unit) and not numerals.is_unsure(unit):
            text = shorter
    return text.strip()


def _same_text(gold: str, answer: str) -> bool | None:
    if not gold or not answer:
        return False
    if (_value(gold) is None) != (_value(answer) is None):
        return None  # `1, 234` is a list, `1,234` a number
    return True if _closed_up(gold) == _closed_up(answer) else None


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


_RULES = {
    "same-text": _same_text,
    "number": _number,
    "base": _base,
    "choice": words.same_choice,
    "words": words.same_words,
}


def _symbolic(gold: str, answer: str) -> Comparison:
    """Ask a worker, except about what would only cost its limit."""
    if _too_large(gold) or _too_large(answer):
        return Comparison(False, "symbolic", "too-large")
    if _PAIR.fullmatch(gold) and _LIST.fullmatch(answer):
        answer = f"({answer})"  # the order of a pair counts, with or without its brackets
    elif _PAIR.fullmatch(answer) and _LIST.fullmatch(gold):
        gold = f"({gold})"
    if _side_by_side(gold) or _side_by_side(answer):
        return Comparison(False, "symbolic", "unparseable")
    if {_kind(gold), _kind(answer)} == {"pair", "set"}:
        return Comparison(False, "symbolic")
    verdict = workers.call_worker("tasks.equivalence:judge_equivalence", gold, answer)
    if verdict.value is None:
        return Comparison(False, "symbolic", verdict.error)
    equal, parsed = verdict.value
    return Comparison(equal and _same_case(gold, answer), "symbolic", None if parsed else "unparseable")


def _closed_up(text: str) -> str:
    """Spaces out, except between the digits of two numbers."""
    return re.sub(r" (?![0-9.])|(?<![0-9.]) ", "", text)


def _side_by_side(text: str) -> bool:
    """Whether two numbers stand beside each other with nothing between: that is neither a sum nor a product."""
    shorter = re.sub(r"(?<![A-Za-z\]}^_])\{\s?(-?[0-9.]+)\s?\}", r" \1 ", text)
    return re.search(r"(?<![_^0-9.])[0-9][0-9.]* +\.?[0-9]", shorter) is not None


def _kind(text: str) -> str:
    r"""Whether one pair of brackets holds all of a list: "pair" for `(1,2)`, "set" for `\{1,2\}`, else nothing."""
    if "," not in text:
        return ""
    if re.fullmatch(r"\\\{[^{}]*(?:\{[^{}]*\}[^{}]*)*\\\}", text) and text.count("\\{") == 1:
        return "set"
    inner = text[1:-1]
    return "pair" if text[0] + text[-1] == "()" and "(" not in inner and ")" not in inner else ""


def _value(text: str) -> Fraction | None:
    return None if "(" in text or "[" in text or "\\{" in text else numerals.plain_number(text)


def _based(text: str) -> tuple[str, str] | None:
    found = _BASE.fullmatch(words.TEXT.sub(r"\1", text))
    return (found[1], found[2]) if found else None


def _same_case(gold: str, answer: str) -> bool:
    """Whether no symbol is written as a capital in one and small in the other: sympy's reader does not tell."""
    a, b = (set(re.findall(r"[A-Za-z]", equations.COMMAND.sub("", text))) for text in (gold, answer))
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
