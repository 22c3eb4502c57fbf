"""Did a run hold together: indices from its rows alone."""

from collections.abc import Mapping, Sequence
from typing import Any

COLLAPSED = 0.1  # of the first step's entropy
Row = Mapping[str, Any]


def indices(rows: Sequence[Row], *, diverged_at: int | None = None) -> dict[str, float]:
    """Extremes, collapse, drift and drawdown; what cannot be told is absent.

    Args:
        rows: the steps, in order.
        diverged_at: the step whose loss or gradient was not finite, if one was.

    Returns:
        nonfinite_steps: 0 or 1, since a run ends at its first.
        divergence_step: that step.
        kl_max, grad_norm_max: the largest of any single update.
        entropy_kept, length_drift: the last step's over the first's.
        entropy_collapse_step: the first step whose entropy is below a tenth of the first step's.
        reward_drawdown: the deepest fall of the mean reward from its best so far.
    """
    found: dict[str, float | None] = {
        "nonfinite_steps": float(diverged_at is not None),
        "divergence_step": diverged_at,
        "kl_max": max(series(rows, "actor/kl_max"), default=None),
        "grad_norm_max": max(series(rows, "actor/grad_norm_max"), default=None),
        "entropy_kept": kept(rows, "actor/entropy"),
        "entropy_collapse_step": collapse_step(rows),
        "length_drift": kept(rows, "completion/length_mean"),
        "reward_drawdown": drawdown(series(rows, "reward/mean")),
    }
    return {name: value for name, value in found.items() if value is not None}


def series(rows: Sequence[Row], name: str) -> list[float]:
    """A metric over the steps that have it."""
    return [row[name] for row in rows if name in row]


def kept(rows: Sequence[Row], name: str) -> float | None:
    """Last over first."""
    values = series(rows, name)
    return values[-1] / values[0] if values and values[0] else None


def collapse_step(rows: Sequence[Row]) -> float | None:
    """The first step below a tenth of the first entropy."""
    entropies = [(row["step"], row["actor/entropy"]) for row in rows if "actor/entropy" in row]
    return next((step for step, value in entropies if value < COLLAPSED * entropies[0][1]), None)


def drawdown(values: Sequence[float]) -> float | None:
    """The deepest fall from the best so far; 0 for a series that only rises."""
    best, deepest = float("-inf"), 0.0
    for value in values:
        best = max(best, value)
        deepest = max(deepest, best - value)
    return deepest if values else None
