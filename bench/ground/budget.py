"""What a run may use, and how much of it is used up."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, get_args

from bench.ground.errors import UserError

BudgetKind = Literal["steps", "samples", "tokens", "updates", "flops", "seconds"]
KINDS: dict[str, BudgetKind] = {kind: kind for kind in get_args(BudgetKind)}
COUNTER: dict[BudgetKind, str] = {
    "samples": "data/samples_generated",
    "tokens": "data/tokens_generated",
    "updates": "data/updates",
    "flops": "cost/flops",
    "seconds": "cost/device_s",
}
"""What counts each unit; steps count themselves."""


@dataclass(frozen=True, kw_only=True)
class Budget:
    """A parsed `--budget`."""

    kind: BudgetKind
    amount: float

    @staticmethod
    def parse(text: str) -> "Budget":
        """Read `kind=N`.

        Raises:
            UserError: unknown kind, or no number above 0 (steps may be 0: evaluate only).
        """
        word, _, number = text.partition("=")
        kind, amount = KINDS.get(word), _number(number)
        if kind is None or amount is None or (amount == 0 and kind != "steps"):
            *first, last = (f"{name}=N" for name in KINDS)
            raise UserError(f"--budget {text}: expected {', '.join(first)} or {last}")
        return Budget(kind=kind, amount=amount)

    def fraction(self, step: int, counters: Mapping[str, float]) -> float:
        """Share of the budget that is used up after `step` steps, 1 or more when the run must end.

        Raises:
            UserError: the unit is not counted in this run.
        """
        if self.kind != "steps" and COUNTER[self.kind] not in counters:
            raise UserError(f"--budget {self.kind}=N: this model's work is not counted; take samples=N or tokens=N")
        used = step if self.kind == "steps" else counters[COUNTER[self.kind]]
        return used / self.amount if self.amount else 1.0


def _number(text: str) -> float | None:
    try:
        number = float(text)
    except ValueError:
        return None
    return number if math.isfinite(number) and number >= 0 and text[:1].isdigit() else None
