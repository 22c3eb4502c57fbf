"""Arithmetic with whole numbers, + - * / and parentheses: parsed and computed in exact fractions."""

import re
from fractions import Fraction

from tasks.decoration import bare_text

MAX_LENGTH = 200  # of an expression; also bounds the depth of the recursion
MAX_SIDES = 4  # of an equation
MAX_NESTED = 20  # fractions within fractions
_LATEX = re.compile(r"\\[dtc]?frac\s*(?:\{([^{}]*)\}|([0-9]))\s*(?:\{([^{}]*)\}|([0-9]))")
_LIST_MARK = re.compile(r"(?:[0-9]{1,2}[.)]|[*\u2022])\s+")
_TOKEN = re.compile(r"\s*(?:([0-9]{1,12})|([-+*/()]))")
_SPELT = {
    "\\times": "*",
    "\\cdot": "*",
    "\\ast": "*",
    ":": "/",
    "\\div": "/",
    "\u00d7": "*",
    "\u00b7": "*",
    "\u00f7": "/",
    "\u2212": "-",
}
_DROPPED = {"\\left": "", "\\right": "", "\\,": " ", "$": " ", "[": "(", "]": ")"}


def evaluate(text: str) -> tuple[Fraction, list[int]]:
    """Value of an expression and the numbers it uses, in order. Of equal sides the first with an operator counts.

    Raises:
        ValueError: "unparseable", "division by zero", or "false equation".
    """
    text = _LIST_MARK.sub("", bare_text(text), count=1) if _LIST_MARK.match(bare_text(text)) else bare_text(text)
    for spelt, sign in (_SPELT | _DROPPED).items():
        text = text.replace(spelt, sign)
    for _ in range(MAX_NESTED if len(text) <= MAX_LENGTH * 4 else 0):
        text = _LATEX.sub(r"((\1\2)/(\3\4))", text)
    sides = [_Parser(side).whole() for side in text.split("=", MAX_SIDES)]
    if any(value != sides[0][0] for value, _ in sides):
        raise ValueError("false equation")
    return next((side for side in sides if len(side[1]) > 1), sides[0])


class _Parser:
    """Recursive descent: sum = product {+|- product}; product = atom {*|/ atom}; atom = number | "(" sum ")"."""

    def __init__(self, text: str) -> None:
        text = text.strip()
        if not text or len(text) > MAX_LENGTH:
            raise ValueError("unparseable")
        self.tokens: list[str] = []
        end = 0
        while end < len(text):
            match = _TOKEN.match(text, end)
            if match is None:
                raise ValueError("unparseable")
            self.tokens.append(match[1] or match[2])
            end = match.end()
        self.tokens.reverse()
        self.used: list[int] = []

    def whole(self) -> tuple[Fraction, list[int]]:
        value = self._sum()
        if self.tokens:
            raise ValueError("unparseable")
        return value, self.used

    def _sum(self) -> Fraction:
        value = self._product()
        while self._next() in ("+", "-"):
            sign = self.tokens.pop()
            term = self._product()
            value = value + term if sign == "+" else value - term
        return value

    def _product(self) -> Fraction:
        value = self._atom()
        while self._next() in ("*", "/"):
            sign = self.tokens.pop()
            factor = self._atom()
            if sign == "/" and factor == 0:
                raise ValueError("division by zero")
            value = value * factor if sign == "*" else value / factor
        return value

    def _atom(self) -> Fraction:
        token = self.tokens.pop() if self.tokens else ""
        if token == "(":
            value = self._sum()
            if not self.tokens or self.tokens.pop() != ")":
                raise ValueError("unparseable")
            return value
        if not token.isdigit():
            raise ValueError("unparseable")
        self.used.append(int(token))
        return Fraction(int(token))

    def _next(self) -> str:
        return self.tokens[-1] if self.tokens else ""
