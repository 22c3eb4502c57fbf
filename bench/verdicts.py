"""What a contrast says at a margin: a word, after the correction for its family, and what would decide it."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from bench.contrast import Contrast
from bench.stats import MIN_T, POCOCK, detectable_ratio, holm

Word = Literal["better", "worse", "equivalent", "undecided", "not exercised", "no verdict"]


ALPHA = 0.05


MOST_SEEDS = 10_000  # a search for the deciding number ends here


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """What a contrast says at a margin, after the correction for its family."""

    word: Word
    contrast: Contrast
    margin: float
    p: float | None  # adjusted
    p_equivalent: float | None  # adjusted
    detectable: float | None  # at the level that the first step of the correction leaves
    seeds_needed: int | None  # an arm, for the margin to be found with 80% power at this spread; None: not reached


def verdicts(
    contrasts: Sequence[Contrast], margin: float, exercised: Sequence[bool] | None = None, num_looks: int = 1
) -> list[Verdict]:
    """One verdict for each contrast of a family. Holm's step-down method runs over the family, for both tests apart.

    Args:
        contrasts: every primary contrast of a study, over all of its tasks.
        margin: the smallest difference that is worth acting on, a share; 0 leaves equivalence out.
        exercised: False where two arms differ by a mechanism alone that was never active.
        num_looks: how often data that grew were tested, this time included; each look has Pocock's level.
    """
    family, alpha = len(contrasts), level_of_look(num_looks)
    differ = _adjusted([c.p for c in contrasts])
    alike = _adjusted([c.p_outside(margin) if margin > 0 else None for c in contrasts])
    active = exercised if exercised is not None else [True] * family
    found: list[Verdict] = []
    for contrast, p, p_equivalent, is_active in zip(contrasts, differ, alike, active, strict=True):
        verdict = Verdict(
            word="undecided",
            contrast=contrast,
            margin=margin,
            p=p,
            p_equivalent=p_equivalent,
            detectable=detectable(contrast, alpha / family),
            seeds_needed=seeds_needed(contrast, margin, alpha / family),
        )
        found.append(replace(verdict, word=_word(verdict, alpha, is_active=is_active)))
    return found


def level_of_look(num_looks: int) -> float:
    """Two-sided level of each look, 5% together; past Pocock's table, an equal share of it."""
    return POCOCK.get(num_looks, ALPHA / num_looks)


def _word(verdict: Verdict, alpha: float, *, is_active: bool) -> Word:
    if not is_active:
        return "not exercised"
    if verdict.p is None or verdict.contrast.error == 0:
        return "no verdict"  # too few seeds, or all differ by the same amount: counts that a few runs share by chance
    if verdict.p_equivalent is not None and verdict.p_equivalent < alpha:
        return "equivalent"
    if verdict.p < alpha:
        return "better" if verdict.contrast.mean > 0 else "worse"
    return "undecided"


def _adjusted(p: Sequence[float | None]) -> list[float | None]:
    """Holm's adjustment of the p-values there are; the others are None."""
    known = iter(holm([value for value in p if value is not None]))
    return [None if value is None else next(known) for value in p]


def detectable(contrast: Contrast, alpha: float = ALPHA) -> float | None:
    """The smallest true difference that a two-sided test at this level finds with 80% power."""
    if not contrast.error:
        return None
    return contrast.error * detectable_ratio(contrast.df, 1 - alpha)


def seeds_needed(contrast: Contrast, margin: float, alpha: float = ALPHA) -> int | None:
    """Seeds an arm at which a true difference of `margin` is found with 80% power, at this spread.

    More seeds do not lessen what the problems contribute: None where that alone is too much.
    """
    if not contrast.error or margin <= 0 or contrast.seed_error is None:
        return None
    now = min(contrast.seeds)
    of_seeds = contrast.seed_error**2 * now
    floor = max(contrast.error**2 - contrast.seed_error**2, 0.0)
    runs = 1 if contrast.paired else 2

    def enough(n: int) -> bool:
        error = float(np.sqrt(of_seeds / n + floor))
        return error * detectable_ratio(float(runs * (n - 1)), 1 - alpha) <= margin

    if not enough(MOST_SEEDS):
        return None
    low, high = MIN_T - 1, MOST_SEEDS
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if enough(middle) else (middle, high)
    return high


def in_words(verdict: Verdict, first: str, second: str) -> str:
    """The verdict as every table, page and terminal says it."""
    points = f"{abs(verdict.contrast.mean) * 100:.1f} points"
    margin = f"{verdict.margin * 100:g} point{'s' * (verdict.margin != 0.01)}"
    match verdict.word:
        case "better":
            return f"{first} is better than {second} by {points}"
        case "worse":
            return f"{first} is worse than {second} by {points}"
        case "equivalent":
            return f"{first} and {second} are equivalent within {margin}"
        case "not exercised":
            return f"not exercised: {first} and {second} differ by a mechanism that was not active"
        case "no verdict" if verdict.contrast.error == 0:
            return f"no verdict: the arms differ by {points} each time, which leaves no spread to judge by"
        case "no verdict":
            return f"no verdict: {min(verdict.contrast.seeds)} run(s) an arm, at least {MIN_T} are needed"
        case _ if verdict.margin <= 0:
            return "undecided"
        case _:
            return f"undecided: {_what_decides(verdict)}"


def _what_decides(verdict: Verdict) -> str:
    margin = f"a difference of {verdict.margin * 100:g} point{'s' * (verdict.margin != 0.01)}"
    if verdict.seeds_needed is None:
        return f"{verdict.contrast.problems} problems are too few for {margin}, whatever the number of seeds"
    if verdict.seeds_needed <= min(verdict.contrast.seeds):
        return f"these {min(verdict.contrast.seeds)} seeds find {margin} four times in five, and this was the fifth"
    return f"{verdict.seeds_needed} seeds an arm would find {margin}"
