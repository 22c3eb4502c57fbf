"""Statistics over training seeds: intervals, differences, power, censored times, areas.

Axes:
    n  runs, one per seed; always the last axis, so that a simulation can stack thousands of studies before it
    P  test problems

Every interval is offered only where its coverage was checked by simulation (`tests/bench/test_stats.py`):
t intervals from three runs; bootstrap-t (mean and interquartile mean) and probability of improvement from ten.
The percentile bootstrap covers far less than it claims below ten runs, so it is not here at all.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import optimize, stats

Floats = NDArray[np.float64]
MIN_T, MIN_BOOTSTRAP = 3, 10
POWER = 0.8
ROUNDING = 1e-9  # a spread below this share of the mean is none
# two-sided level of each of K looks at growing data, 5% together: Pocock (1977, doi:10.1093/biomet/64.2.191)
POCOCK = {1: 0.05, 2: 0.0294, 3: 0.0221, 4: 0.0182, 5: 0.0158}


@dataclass(frozen=True, kw_only=True)
class Estimate:
    """A mean over runs, with its interval where there are enough of them."""

    mean: float
    low: float | None
    high: float | None
    n: int


@dataclass(frozen=True, kw_only=True)
class Difference:
    """First minus second. Without an interval `low`, `high`, `p` and `detectable` are None.

    There is none with too few runs, nor where all differ by the same amount: accuracies are counts, which a few runs
    share by chance, and a spread of 0 would make that certainty.
    """

    mean: float
    low: float | None
    high: float | None
    p: float | None  # two-sided, of no difference
    error: float  # standard error of `mean`
    df: float  # its degrees of freedom
    n: tuple[int, int]
    paired: bool

    @property
    def detectable(self) -> float | None:
        """The smallest true difference that a test at 5% finds with 80% power, at this n and this spread."""
        return None if self.low is None else self.error * detectable_ratio(self.df)


def t_interval(x: ArrayLike, level: float = 0.95) -> tuple[Floats, Floats, Floats]:
    """Mean, low and high (...,) of samples (..., n): Student's t with n - 1 degrees of freedom."""
    values = np.asarray(x, dtype=float)
    n = _at_least(values, MIN_T)
    mean = values.mean(-1)
    half = stats.t.ppf((1 + level) / 2, n - 1) * values.std(-1, ddof=1) / np.sqrt(n)
    return mean, mean - half, mean + half


def estimate(values: Sequence[float], level: float = 0.95) -> Estimate:
    """Mean of at least one run; from three runs on with a t interval."""
    if len(values) < MIN_T:
        return Estimate(mean=float(np.mean(values)), low=None, high=None, n=len(values))
    mean, low, high = t_interval(values, level)
    return Estimate(mean=float(mean), low=float(low), high=float(high), n=len(values))


def estimate_share(values: Sequence[float], level: float = 0.95) -> Estimate:
    """Mean of shares; its interval is formed on the arcsine scale, so that it never leaves [0, 1]."""
    angles = np.arcsin(np.sqrt(np.clip(values, 0, 1)))
    found = estimate(angles.tolist(), level)
    return _bounded(values, found, lambda angle: float(np.sin(np.clip(angle, 0, np.pi / 2)) ** 2))


def estimate_positive(values: Sequence[float], level: float = 0.95) -> Estimate:
    """Mean of amounts; where all are above 0 its interval is formed on the log scale, and stays there."""
    if min(values) <= 0:
        return estimate(values, level)
    return _bounded(values, estimate(np.log(values).tolist(), level), lambda log: float(np.exp(log)))


def _bounded(values: Sequence[float], found: Estimate, back: Callable[[float], float]) -> Estimate:
    mean = float(np.mean(values))
    if found.low is None or found.high is None:
        return Estimate(mean=mean, low=None, high=None, n=len(values))
    return Estimate(mean=mean, low=min(mean, back(found.low)), high=max(mean, back(found.high)), n=len(values))


def paired(a: Sequence[float], b: Sequence[float], level: float = 0.95) -> Difference:
    """Mean of a_i - b_i, run i of both arms sharing its seed."""
    if len(a) != len(b):
        raise ValueError(f"paired runs must match one to one: got {len(a)} and {len(b)}")
    d = np.subtract(a, b, dtype=float)
    error = float(d.std(ddof=1) / np.sqrt(len(d))) if len(d) > 1 else 0.0
    return _difference(float(d.mean()), error, len(d) - 1, (len(d), len(d)), level, paired=True)


def unpaired(a: Sequence[float], b: Sequence[float], level: float = 0.95) -> Difference:
    """Difference of means of independent runs (Welch 1947, doi:10.1093/biomet/34.1-2.28)."""
    spread = [float(np.var(x, ddof=1)) / len(x) if len(x) > 1 else 0.0 for x in (a, b)]
    weights = [s**2 / (len(x) - 1) for s, x in zip(spread, (a, b), strict=True) if len(x) > 1]
    df = sum(spread) ** 2 / sum(weights) if sum(weights) > 0 else float(min(len(a), len(b)) - 1)
    mean, error = float(np.mean(a) - np.mean(b)), float(np.sqrt(sum(spread)))
    return _difference(mean, error, df, (len(a), len(b)), level, paired=False)


def by_problem(a: ArrayLike, b: ArrayLike, level: float = 0.95) -> Difference:
    """Difference of accuracies (n, P), paired by problem: the runs are taken as given, problems as a sample.

    It answers whether *these* checkpoints differ; `paired` answers whether the *methods* do, when trained again.
    """
    d = np.asarray(a, dtype=float).mean(0) - np.asarray(b, dtype=float).mean(0)
    error = float(d.std(ddof=1) / np.sqrt(len(d))) if len(d) > 1 else 0.0
    return _difference(float(d.mean()), error, len(d) - 1, (len(d), len(d)), level, paired=True)


def _difference(mean: float, error: float, df: float, n: tuple[int, int], level: float, *, paired: bool) -> Difference:
    same = error <= ROUNDING * abs(mean) and mean != 0
    if min(n) < MIN_T or same:
        return Difference(mean=mean, low=None, high=None, p=None, error=error, df=df, n=n, paired=paired)
    half = float(stats.t.ppf((1 + level) / 2, df)) * error
    p = float(2 * stats.t.sf(abs(mean) / error, df)) if error > 0 else 1.0
    return Difference(mean=mean, low=mean - half, high=mean + half, p=p, error=error, df=df, n=n, paired=paired)


def hodges_lehmann(x: Sequence[float], level: float) -> Estimate:
    """Centre of a symmetric distribution, whatever its tails: median of the means of every two values.

    The interval inverts Wilcoxon's signed-rank test, by its exact distribution (Hodges and Lehmann 1963,
    doi:10.1214/aoms/1177704172). Below the n at which the level can be reached it has no ends.
    """
    values = np.asarray(x, dtype=float)
    n = len(values)
    first, second = np.triu_indices(n)
    means = np.sort((values[first] + values[second]) / 2)
    ranks = np.ones(1)
    for i in range(1, n + 1):
        ranks = np.convolve(ranks, np.bincount([0, i]) / 2)
    outside = int(np.searchsorted(np.cumsum(ranks), (1 - level) / 2, side="right"))
    centre = float(np.median(means))
    if not outside:
        return Estimate(mean=centre, low=None, high=None, n=n)
    return Estimate(mean=centre, low=float(means[outside - 1]), high=float(means[-outside]), n=n)


@lru_cache(maxsize=1024)
def detectable_ratio(df: float, level: float = 0.95, power: float = POWER) -> float:
    """How many standard errors a true difference must measure for a t test to find it with the given power."""
    critical = float(stats.t.ppf((1 + level) / 2, df))

    def shortfall(ratio: float) -> float:
        # the other tail is left out: at this power it holds less than one in ten thousand
        return float(stats.nct.sf(critical, df, ratio)) - power

    return _root(shortfall, 1e-9, 10 * critical)


def holm(p: Sequence[float]) -> list[float]:
    """p-values adjusted for the number of comparisons (Holm 1979): any false finding among them at most alpha."""
    order = np.argsort(p)
    steps = np.asarray(p, dtype=float)[order] * np.arange(len(p), 0, -1)
    adjusted = np.empty(len(p))
    adjusted[order] = np.minimum(np.maximum.accumulate(steps), 1)
    return adjusted.tolist()


def bootstrap_t(
    x: ArrayLike, *, seed: int, trim: float = 0.0, level: float = 0.95, num_resamples: int = 2000
) -> tuple[Floats, Floats, Floats]:
    """Trimmed mean, low and high (...,) of samples (..., n), n >= 10, by the symmetric studentised bootstrap.

    `trim` is the share left out at each end: 0 gives the mean, 1/4 the interquartile mean (arXiv:2108.13264). Efron and
    Tibshirani, An Introduction to the Bootstrap (1993), 12.5; the spread of a trimmed mean: Tukey, McLaughlin (1963).
    """
    values = np.asarray(x, dtype=float)
    n = _at_least(values, MIN_BOOTSTRAP)
    index = np.random.default_rng(seed).integers(n, size=(num_resamples, n))
    centre, error = _trimmed(values, int(trim * n))
    centres, errors = _trimmed(values[..., index], int(trim * n))  # (..., num_resamples)
    shift = np.abs(centres - centre[..., None])
    ratio = np.divide(shift, errors, out=np.zeros_like(shift), where=errors > 0)
    half = np.quantile(ratio, level, axis=-1) * error
    return centre, centre - half, centre + half


def _trimmed(x: Floats, cut: int) -> tuple[Floats, Floats]:
    """Trimmed mean of the last axis and its winsorised spread: its standard error but for a factor that cancels."""
    ordered = np.sort(x, -1)
    n = ordered.shape[-1]
    winsorised = np.clip(ordered, ordered[..., cut, None], ordered[..., n - cut - 1, None])
    return ordered[..., cut : n - cut].mean(-1), winsorised.std(-1, ddof=1)


def probability_of_improvement(a: Sequence[float], b: Sequence[float], level: float = 0.95) -> Estimate:
    """P(a run of the first arm beats one of the second), ties counting half; from ten runs an arm with an interval.

    The interval is method 5 of Newcombe (2006, doi:10.1002/sim.2324): inside [0, 1], and of some width at both ends.
    """
    x, y = np.asarray(a, dtype=float)[:, None], np.asarray(b, dtype=float)[None]
    share = float(((x > y) + 0.5 * (x == y)).mean())
    n = min(x.size, y.size)
    if n < MIN_BOOTSTRAP:
        return Estimate(mean=share, low=None, high=None, n=n)
    z, others = float(stats.norm.ppf((1 + level) / 2)), (x.size + y.size) / 2 - 1

    def excess(t: float) -> float:
        variance = t * (1 - t) * (1 + others * ((1 - t) / (2 - t) + t / (1 + t))) / (x.size * y.size)
        return (t - share) ** 2 - z**2 * variance

    low = 0.0 if share == 0 else _root(excess, 0, min(share, 1 - 1e-9))
    high = 1.0 if share == 1 else _root(excess, max(share, 1e-9), 1)
    return Estimate(mean=share, low=low, high=high, n=n)


def _at_least(values: Floats, least: int) -> int:
    n = values.shape[-1]
    if n < least:
        raise ValueError(f"this interval needs at least {least} runs: got {n}")
    return n


def _root(function: Callable[[float], float], low: float, high: float) -> float:
    return float(optimize.brentq(function, low, high))  # pyright: ignore[reportArgumentType]
