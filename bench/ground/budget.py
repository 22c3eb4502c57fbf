"""What a run may use, and how much of it is used up."""

from dataclasses import dataclass
from typing import Literal, get_args

from bench.ground.errors import UserError

BudgetKind = Literal["steps", "samples", "tokens", "seconds"]
KINDS: dict[str, BudgetKind] = {kind: kind for kind in get_args(BudgetKind)}


@dataclass(frozen=True, kw_only=True)
class Budget:
    """A parsed `--budget`."""

    kind: BudgetKind
    amount: float

    @staticmethod
    def parse(text: str) -> "Budget":
        """Read `kind=N`.

        Raises:
            UserError: unknown kind, or an amount that is not positive (steps may be 0: evaluate only).
        """
        word, _, amount = text.partition("=")
        kind = KINDS.get(word)
        if kind is None or not amount.replace(".", "", 1).isdigit():
            raise UserError(f"--budget {text}: expected steps=N, samples=N, tokens=N or seconds=N")
        return Budget(kind=kind, amount=float(amount))

    def fraction(self, *, steps: float, samples: float, tokens: float, seconds: float) -> float:
        """Share of the budget that is used up, 1 or more when the run must end."""
        used = {"steps": steps, "samples": samples, "tokens": tokens, "seconds": seconds}[self.kind]
        return used / self.amount if self.amount else 1.0
