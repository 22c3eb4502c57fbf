"""Whether two LaTeX answers are the same object, by math-verify and sympy. Runs in a worker only: it can take for ever.

Exact: decimals are read as fractions, numbers compared to 25 digits relative to their size, so that 1/40! is not 1/41!.
Symmetric: math-verify follows the gold's form, so both orders are asked and both must agree.
"""

import logging
import re
from functools import lru_cache
from typing import Any

import sympy
from latex2sympy2_extended import NormalizationConfig
from math_verify import LatexExtractionConfig, parse, verify

logging.disable(logging.CRITICAL)  # math-verify warns that its own time limit is off: the worker's replaces it

_CONFIG = LatexExtractionConfig(
    boxed_match_priority=0,
    # units are removed by `latex.tidy_latex`; math-verify's list of them has "t", "c" and "d"
    normalization_config=NormalizationConfig(units=False, malformed_operators=True, nits=True, boxed="all"),
)
_OR = re.compile(r"\\text\s*\{\s*or\s*\}|\\lor(?![A-Za-z])|(?<![A-Za-z\\])or(?![A-Za-z])")
_RELATION = re.compile(r"[<>=]|\\(?:le|ge|lt|gt|neq|leq|geq)(?![A-Za-z])")
_DIGITS = 30
_TOLERANCE = sympy.Float(10, _DIGITS) ** (5 - _DIGITS)


@lru_cache(maxsize=65536)
def judge_equivalence(gold: str, answer: str) -> tuple[bool, bool]:
    """(equal, whether the answer could be parsed); both are tidied LaTeX."""
    right, said = _parsed(gold), _parsed(answer)
    if right is None or said is None:
        return False, said is not None
    if _is_number(right) and _is_number(said):
        return _same_number(right, said), True
    if bool(right.atoms(sympy.Eq)) != bool(said.atoms(sympy.Eq)):
        return False, True  # a statement about unknowns is not what stands on its right side
    return _agree(right, said) and _agree(said, right), True


def parses_as_maths(text: str) -> bool:
    return _parsed(text) is not None


def _agree(gold: Any, answer: Any) -> bool:  # noqa: ANN401 (sympy's classes have no common base)
    return bool(verify(gold, answer, timeout_seconds=None, allow_set_relation_comp=True))


@lru_cache(maxsize=4096)
def _parsed(text: str) -> Any:  # noqa: ANN401
    parts = _OR.split(text)
    if len(parts) > 1 and all(_RELATION.search(part) for part in parts):
        relations = [_one(part) for part in parts]
        if all(isinstance(relation, sympy.Rel | sympy.And) for relation in relations):
            return sympy.Union(*(relation.as_set() for relation in relations))
    return _one(text)


def _one(text: str) -> Any:  # noqa: ANN401
    found = parse(f"\\boxed{{{text}}}", [_CONFIG], fallback_mode="no_fallback", parsing_timeout=0)
    if not found or isinstance(found[0], str):
        return None
    exact: dict[Any, Any] = {decimal: sympy.Rational(str(decimal)) for decimal in found[0].atoms(sympy.Float)}
    exact |= {symbol: sympy.I for symbol in found[0].free_symbols if symbol.name == "i"}
    try:
        return found[0].xreplace(exact)
    except TypeError:  # an order between numbers that are not real
        return None


def _is_number(value: Any) -> bool:  # noqa: ANN401
    return isinstance(value, sympy.Expr) and bool(value.is_number)


def _same_number(a: Any, b: Any) -> bool:  # noqa: ANN401
    a, b = a.doit(), b.doit()  # the reader leaves 10^{-30} as a power
    if {a.is_rational, b.is_rational} == {True, False}:
        return False  # no decimal is the root of 3, however long
    if a.is_Rational and b.is_Rational:
        return bool(a == b)
    if not (a.is_finite and b.is_finite):
        return bool(a == b)
    x, y = sympy.N(a, _DIGITS), sympy.N(b, _DIGITS)
    return bool(abs(x - y) <= _TOLERANCE * max(abs(x), abs(y)))
