r"""Reading plain numbers out of prose and LaTeX, as exact fractions: no eval, no rounding, linear in the text's length.

Read as numbers: 3,250  64 000  1{,}450{,}000  -14  .5  1/2  \frac{1}{2}  1\frac{4}{5}  1.2\times 10^3  1.5e3  2 million
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction

from tasks.decoration import undressed

MAX_DIGITS = 1000  # a longer run is no answer, and converting it takes quadratic time
MAX_EXPONENT = 400

MINUS = str.maketrans(dict.fromkeys("\u2212\u2013\ufe63\uff0d", "-"))
_FRACTION = re.compile(
    r"\\[dtc]?frac\s?(?:\{\s?(-?[0-9.,]{1,300})\s?\}|([0-9]))\s?(?:\{\s?(-?[0-9]{1,300})\s?\}|([0-9]))"
)
_WRAPPER = re.compile(
    r"\\(?:text|textbf|textit|textrm|mathrm|mathbf|mathit|mbox|bf|rm|left|right|displaystyle)(?![A-Za-z])"
)
_SYMBOL = re.compile(
    r"\\[$%!]|\\(?:pounds|euro|yen|textdollar)(?![A-Za-z])|\^\s?\{?\s?\\circ(?![A-Za-z])\s?\}?|\\(?:degree|circ)(?![A-Za-z])|[$%\u00a2\u00a3\u00a5\u00b0\u20a0-\u20bf]"
)
_SPACE = re.compile(r"\\[,;: ]|\\q?quad(?![A-Za-z])|[~\u00a0\u2009\u202f]")
_POWER = re.compile(r"\^\s?\{\s?(-?[0-9]{1,6})\s?\}")
_UNIT_POWER = re.compile(r"(?<=[A-Za-z])\s{0,3}\^\s?-?[0-9](?![0-9])")

# Runs of digits are taken whole (possessive) and judged afterwards, so nothing here backtracks over them.
_NUMBER = re.compile(
    r"(?<![A-Za-z0-9_.,\\])(?P<run>[0-9]{1,3}(?: [0-9]{3}(?![0-9]))++(?:\.[0-9]++)?|\.?[0-9][0-9,.]*+)"
    r"(?:[eE](?P<e>[+-]?[0-9]{1,6})(?![A-Za-z0-9]))?"
    r"(?:\s?(?:\\times|\\cdot|\u00d7|\*|x)\s?10\s?\^\s?(?P<p>-?[0-9]{1,6}+))?"
    r"(?:\s(?P<top>[0-9]{1,9})/(?P<bottom>[0-9]{1,9}+)(?!/|[.,]?[0-9]))?"
    r"(?:\s?/\s?(?P<den>-?[0-9]{1,300}+)(?!/|[.,]?[0-9]))?"
    r"(?:\s(?P<scale>thousand|million|billion|trillion)(?![A-Za-z]))?"
)
_GROUPED = re.compile(r"[0-9]{1,3}(?:,[0-9]{3})+(?:\.[0-9]+)?")
_PLAIN = re.compile(r"[0-9]+(?:\.[0-9]+)?|\.[0-9]+")
_SCALE = {"thousand": 10**3, "million": 10**6, "billion": 10**9, "trillion": 10**12}
_ORDINAL = re.compile(r"(?:st|nd|rd|th)(?![A-Za-z])|[A-Z_^!]")
_WORDS = re.compile(r"[A-Za-z\s.,:;'\"*_/()\[\]-]*")
_UNSURE = re.compile(
    r"(?<![A-Za-z])(?:not|never|neither|nor|but|except|or|maybe|perhaps|possibly|wrong|incorrect|false)(?![A-Za-z])|n't",
    re.IGNORECASE,
)
_GROUP_SPACE = re.compile(r"(?<=[0-9])(?:,\\!|\{,\}(?:\\!)?)\s{0,3}(?=[0-9]{3}(?![0-9]))")
_VARIABLE = re.compile(r"[\s(*]*[xyzn][\s).]*")


@dataclass(frozen=True)
class Found:
    """A number in a cleaned text: its value, None where the digits make no one number, and where it stands."""

    value: Fraction | None
    start: int
    end: int


def number_in(text: str) -> Fraction | None:
    """The value of an answer that is one number, whatever unit, currency or `x =` goes with it; None otherwise."""
    text = clean_digits(text)
    text = re.sub(r"^\s*(?:\\approx|\u2248)", "", text)
    text = re.split(r"\\approx|\u2248", text, maxsplit=1)[0].rpartition("=")[2]
    text = _UNIT_POWER.sub("", text)
    found = list(_numbers(text, alone=True))
    if len(found) != 1:
        return None
    before, after = text[: found[0].start], text[found[0].end :]
    if is_unsure(before) or is_unsure(after):
        return None
    if not (_WORDS.fullmatch(before) and _WORDS.fullmatch(after)) or _VARIABLE.fullmatch(after):
        return None
    if before.rstrip().endswith(("-", "/", "*")) or re.search(r"[A-Za-z]\s?\($", before):
        return None  # an operator or a function of the number, not the number
    return found[0].value


def is_unsure(words: str) -> bool:
    """Whether words deny what they stand beside, or offer something else: `not 5`, `5 (or maybe six)`."""
    return _UNSURE.search(words) is not None


def plain_number(text: str) -> Fraction | None:
    """The value of a text that is a number and nothing else; currency and percent signs apart."""
    text = clean_digits(text)
    found = list(_numbers(text, alone=True))
    alone = len(found) == 1 and not (text[: found[0].start] + text[found[0].end :]).strip()
    return found[0].value if alone else None


def first_number(text: str) -> Fraction | None:
    """The number that a line begins with (after signs, currency, markup)."""
    text = clean_digits(text)
    found = next(_numbers(text, alone=True), None)
    return found.value if found and not re.search(r"[A-Za-z0-9]", text[: found.start]) else None


def last_number(text: str) -> Fraction | None:
    """The last number in prose; digits inside words and ordinals do not count."""
    value: Fraction | None = None
    for found in _numbers(clean_digits(text), alone=False):
        value = found.value if found.value is not None else value
    return value


def clean_digits(text: str) -> str:
    """Decoration, LaTeX spacing, currency and percent signs removed; minus signs and fractions in ASCII."""
    text = without_group_spaces(undressed(text))
    text = _FRACTION.sub(lambda m: f" {m[1] or m[2]}/{m[3] or m[4]} ", text.translate(MINUS))
    text = text.replace("{,}", ",").replace("\\{", " ").replace("\\}", " ")
    text = _SYMBOL.sub("", _SPACE.sub(" ", _WRAPPER.sub(" ", text)))
    return re.sub(r" {2,}", " ", _POWER.sub(r"^\1 ", text).replace("{", " ").replace("}", " "))


def without_group_spaces(text: str) -> str:
    r"""Digit groups as MATH sets them, `11,\! 111,\! 100` or `1{,}450`, joined."""
    return _GROUP_SPACE.sub("", text)


def _numbers(text: str, *, alone: bool) -> Iterator[Found]:
    for match in _NUMBER.finditer(text):
        if not alone and _ORDINAL.match(text, match.end()):
            continue
        start, sign = _sign(text, match.start(), alone=alone)
        value = _value(match, alone=alone)
        yield Found(value=None if value is None else sign * value, start=start, end=match.end())


def _sign(text: str, start: int, *, alone: bool) -> tuple[int, int]:
    """Where the number begins with its sign, and the sign: a minus is one unless it subtracts, joins or lists."""
    head = text[max(0, start - 8) : start]
    before = head.rstrip(" ")
    if before.endswith("+") and before[:-1].rstrip(" ")[-1:] in {"", "=", "(", "\n"}:
        return start - (len(head) - len(before)) - 1, 1
    if not before.endswith("-"):
        return start, 1
    gap = len(head) - len(before)
    left = before[:-1].rstrip(" ")
    previous, touching = left[-1:], left == before[:-1]
    if previous.isdigit() or previous in {")", "]", "%", "-"}:
        return start, 1
    if previous.isalpha() and (touching or gap):
        return start, 1
    if not alone and gap and previous in {"", "\n"}:
        return start, 1
    return start - gap - 1, -1


def _value(match: re.Match[str], *, alone: bool) -> Fraction | None:
    run = match["run"].rstrip(".,")
    if len(run) > MAX_DIGITS:
        return None
    digits = run.replace(" ", "")
    if _GROUPED.fullmatch(digits):
        digits = digits.replace(",", "")
    elif not alone:
        digits = digits.rpartition(",")[2]
    if not _PLAIN.fullmatch(digits):
        return None
    value = Fraction(digits)
    for power in (match["e"], match["p"]):
        if power is not None:
            if abs(int(power)) > MAX_EXPONENT:
                return None
            value *= Fraction(10) ** int(power)
    for top, bottom in ((match["top"], match["bottom"]), (None, match["den"])):
        if bottom is None:
            continue
        if int(bottom) == 0:
            return None
        value = value + Fraction(int(top), int(bottom)) if top is not None else value / int(bottom)
    return value * _SCALE.get(match["scale"] or "", 1)
