"""Two arms compared: one interval with both sources of error, a test against a margin, and a verdict in fixed words.

Outcomes of an arm are (S, P): training seeds by test problems, each the share of its sampled completions that are
right. A difference between methods must hold over both: had we trained again, and asked other problems.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import stats

from bench.stats import MIN_T, ROUNDING

Floats = NDArray[np.float64]


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
