r"""What an equation says: `x = 5` names 5, `4 + 1 = 5` computes it, `x + y = 5` is a statement about unknowns."""

import re

from tasks import numerals

COMMAND = re.compile(r"\\[A-Za-z]+(?:\s*\{[A-Za-z ]+\})?")
_EQUALS = re.compile(r"(?<![\\<>!:])=|\\in(?![A-Za-z])")
_NAME = r"(?:[A-Za-z]|\\[a-z]+)(?:_\{?\w+\}?)?(?:\([A-Za-z, ]*\))?"
_NAMED = re.compile(rf"\s*(?:{_NAME}|\(\s*{_NAME}(?:\s*,\s*{_NAME})+\s*\))\s*")
_AND = re.compile(r",|\\text\s?\{\s?(?:or|and)\s?\}|(?<![A-Za-z\\])(?:or|and)(?![A-Za-z])")


def right_side(text: str) -> str:
    """What is named or computed, as in `x = ...`, `f(x) = ...`, `x = 1, x = 2`; an equation in unknowns stays whole.

    Values of different names keep their order: `x = 1, y = 2` is the pair `(1, 2)`.
    """
    several = [sides_of_equation(part) for part in _AND.split(text)]
    if len(several) > 1 and all(len(part) == 2 and _NAMED.fullmatch(part[0]) for part in several):
        same = len({part[0].strip() for part in several}) == 1
        values = ", ".join(part[1].strip() for part in several)
        return values if same else f"({values})"
    *left, right = sides_of_equation(text)
    if not _equal_numbers([*left, right]):
        return text
    named = left[1:] if left and _NAMED.fullmatch(left[0]) else [*left, right]
    return text if any(re.search(r"[A-Za-z]", COMMAND.sub("", side)) for side in named) else right.strip()


def _equal_numbers(parts: list[str]) -> bool:
    """False where a chain of numbers is false, as `6 = 5`."""
    values = {value for part in parts if (value := numerals.plain_number(part)) is not None}
    return len(values) < 2


def sides_of_equation(text: str) -> list[str]:
    r"""Text between the `=` that stand outside all braces, as in `\sum_{k=1}` they do not."""
    parts, start = list[str](), 0
    for equals in _EQUALS.finditer(text):
        if text.count("{", start, equals.start()) == text.count("}", start, equals.start()):
            parts.append(text[start : equals.start()])
            start = equals.end()
    return [*parts, text[start:]]
