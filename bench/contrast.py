"""Two arms compared: one interval with both sources of error, a test against a margin, and a verdict in fixed words.

Outcomes of an arm are (S, P): training seeds by test problems, each the share of its sampled completions that are
right. A difference between methods must hold over both: had we trained again, and asked other problems.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import stats

from bench.stats import MIN_T, POCOCK, ROUNDING, detectable_ratio, holm

Floats = NDArray[np.float64]
Word = Literal["better", "worse", "equivalent", "undecided", "not exercised", "no verdict"]
ALPHA = 0.05
MOST_SEEDS = 10_000  # a search for the deciding number ends here


@dataclass(frozen=True, kw_only=True)
class Contrast:
    """First minus second, over seeds and problems. Accuracies are shares: 0.01 is a point."""

    mean: float
    error: float | None  # standard error of `mean`, both sources together; None from fewer than three seeds
    df: float
    seeds: tuple[int, int]
    problems: int
    paired: bool
    seed_error: float | None = None  # what training alone contributes to `error`
    problem_error: float | None = None  # what the choice of problems alone contributes

    def interval(self, level: float = 0.95) -> tuple[float, float] | None:
        """Student's t interval of the true difference."""
        if self.error is None:
            return None
        half = float(stats.t.ppf((1 + level) / 2, self.df)) * self.error
        return self.mean - half, self.mean + half

    @property
    def p(self) -> float | None:
        """Two-sided, of no difference."""
        if self.error is None:
            return None
        if self.error == 0:
            return 1.0 if self.mean == 0 else 0.0
        return float(2 * stats.t.sf(abs(self.mean) / self.error, self.df))

    def p_outside(self, margin: float) -> float | None:
        """Of a true difference of `margin` or more: the larger of two one-sided tests (Schuirmann 1987)."""
        if self.error is None:
            return None
        if self.error == 0:
            return float(abs(self.mean) >= margin)
        return float(stats.t.sf((margin - abs(self.mean)) / self.error, self.df))


def crossed(first: ArrayLike, second: ArrayLike) -> Contrast:
    """Arms that share prompts: seed i of both saw the same stream, so (S, P) differences are taken cell by cell.

    Variance of the mean of a two-way random layout, (MS_seed + MS_problem - MS_rest) / SP, with Satterthwaite's degrees
    of freedom (1946, doi:10.2307/3002019); never below the larger of its two parts.
    """
    d = np.asarray(first, dtype=float) - np.asarray(second, dtype=float)
    num_seeds, num_problems = d.shape
    if num_seeds < MIN_T:
        return _without_error(float(d.mean()), (num_seeds, num_seeds), num_problems, paired=True)
    by_seed, by_problem, rest = _mean_squares(d)
    variance, df = _combined([(by_seed, num_seeds - 1)], (by_problem, num_problems - 1), rest, d.size)
    mean = float(d.mean())
    return Contrast(
        mean=mean,
        error=_spread(variance, mean),
        df=df,
        seeds=(num_seeds, num_seeds),
        problems=num_problems,
        paired=True,
        seed_error=float(np.sqrt(by_seed / d.size)),
        problem_error=float(np.sqrt(by_problem / d.size)),
    )


def independent(first: ArrayLike, second: ArrayLike) -> Contrast:
    """Arms that share no prompts: seeds are independent, as Welch has them, and the problems are the same.

    (S1, P) and (S2, P); the variance over seeds of each arm, plus that over problems of the difference, less the part
    that both contain.
    """
    arms = [np.asarray(x, dtype=float) for x in (first, second)]
    num_problems = arms[0].shape[1]
    seeds = (len(arms[0]), len(arms[1]))
    mean = float(arms[0].mean() - arms[1].mean())
    if min(seeds) < MIN_T:
        return _without_error(mean, seeds, num_problems, paired=False)
    of_seeds = [float(x.mean(1).var(ddof=1)) / len(x) for x in arms]
    of_problems = float((arms[0].mean(0) - arms[1].mean(0)).var(ddof=1)) / num_problems if num_problems > 1 else 0.0
    rests = [_mean_squares(x)[2] / x.size for x in arms]
    parts = [(value, n - 1) for value, n in zip(of_seeds, seeds, strict=True)]
    variance, df = _combined(parts, (of_problems, num_problems - 1), sum(rests), 1)
    return Contrast(
        mean=mean,
        error=_spread(variance, mean),
        df=df,
        seeds=seeds,
        problems=num_problems,
        paired=False,
        seed_error=float(np.sqrt(sum(of_seeds))),
        problem_error=float(np.sqrt(of_problems)),
    )


def _spread(variance: float, mean: float) -> float:
    """A standard error; what rounding left of none is none."""
    error = float(np.sqrt(variance))
    return 0.0 if error <= ROUNDING * abs(mean) else error


def _without_error(mean: float, seeds: tuple[int, int], problems: int, *, paired: bool) -> Contrast:
    return Contrast(mean=mean, error=None, df=0.0, seeds=seeds, problems=problems, paired=paired)


def _mean_squares(x: Floats) -> tuple[float, float, float]:
    """Of rows, of columns and of what remains of (S, P) values without replication."""
    num_rows, num_columns = x.shape
    rows, columns, mean = x.mean(1), x.mean(0), x.mean()
    of_rows = num_columns * ((rows - mean) ** 2).sum() / max(num_rows - 1, 1)
    of_columns = num_rows * ((columns - mean) ** 2).sum() / max(num_columns - 1, 1)
    rest = x - rows[:, None] - columns[None] + mean
    of_rest = (rest**2).sum() / max((num_rows - 1) * (num_columns - 1), 1)
    return float(of_rows), float(of_columns), float(of_rest)


def _combined(
    seeds: Sequence[tuple[float, int]], problems: tuple[float, int], rest: float, size: int
) -> tuple[float, float]:
    """Variance of the mean and its degrees of freedom, from mean squares and their own."""
    parts = [part for part in (*seeds, problems) if part[1] > 0]
    of_seeds = sum(value for value, _ in seeds)
    total = max(sum(value for value, _ in parts) - rest, of_seeds, problems[0])
    weights = sum(value**2 / df for value, df in parts)
    df = sum(value for value, _ in parts) ** 2 / weights if weights > 0 else float(seeds[0][1])
    return total / size, df


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
