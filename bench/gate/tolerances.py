"""How much worse is still good: `throughput: -10%`, `memory/policy: +2%`, `accuracy: -5` (points)."""

import re
from collections.abc import Iterable, Mapping

from bench.ground.errors import UserError

Tolerances = Mapping[str, float]
# peaks hold what the allocator keeps beside the tensors: two processes of one code were seen to differ by 7%
DEFAULTS: Tolerances = {"throughput": -0.10, "memory": 0.02, "memory/peak": 0.15, "accuracy": -0.05}
EXPRESSION = re.compile(r"\s*([\w/]+)\s*:\s*([+-]?\d+(?:\.\d+)?)\s*(%|points)?\s*")


def parse_tolerances(expressions: Iterable[str]) -> Tolerances:
    """The defaults with these over them. A name covers what lies below it: `memory` every role, `memory/policy` one.

    Raises:
        UserError: an expression that cannot be read, or that would demand an improvement.
    """
    found = dict(DEFAULTS)
    for text in expressions:
        match = EXPRESSION.fullmatch(text)
        kind = match[1].partition("/")[0] if match else ""
        if not match or kind not in DEFAULTS or (match[3] == "%") == (kind == "accuracy"):
            raise UserError(f"--tolerance '{text}': write 'throughput: -10%', 'memory/policy: +2%' or 'accuracy: -5'")
        value = float(match[2]) / 100
        if value * DEFAULTS[kind] < 0:
            raise UserError(f"--tolerance '{text}': {kind} is worse when it {'grows' if kind == 'memory' else 'falls'}")
        found[match[1]] = value
    return found


def tolerance_of(quantity: str, tolerances: Tolerances) -> float:
    """The value of the longest name that covers the quantity."""
    covering = [name for name in tolerances if quantity == name or quantity.startswith(name + "/")]
    return tolerances[max(covering, key=len)]
