"""Statistics along a curve of accuracy over cost: where it gets to, when, and how high it lies on the way."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy import stats


def first_reached(x: ArrayLike, y: ArrayLike, target: float) -> float | None:
    """Where the curve y over x first reaches the target, linear between evaluations; None when it never does."""
    xs, ys = np.asarray(x, dtype=float), np.asarray(y, dtype=float)
    above = np.flatnonzero(ys >= target)
    if not above.size:
        return None
    if (i := int(above[0])) == 0:
        return float(xs[0])
    return float(xs[i - 1] + (target - ys[i - 1]) / (ys[i] - ys[i - 1]) * (xs[i] - xs[i - 1]))


@dataclass(frozen=True, kw_only=True)
class TimeToTarget:
    """Times of one arm's runs to a target, in the unit of the axis. Runs that never got there are censored."""

    num_reached: int
    n: int
    median: float | None  # Kaplan and Meier (1958); None while at least half never got there


def time_to_target(times: Sequence[float | None], horizons: Sequence[float]) -> TimeToTarget:
    """Summary of the runs' `first_reached`; `horizons` says how far each run was watched."""
    reached = [t for t in times if t is not None]
    watched = [h for t, h in zip(times, horizons, strict=True) if t is None]
    if not reached:
        return TimeToTarget(num_reached=0, n=len(times), median=None)
    survival = stats.ecdf(stats.CensoredData(uncensored=reached, right=watched)).sf
    below = np.flatnonzero(survival.probabilities <= 0.5)
    median = float(survival.quantiles[below[0]]) if below.size else None
    return TimeToTarget(num_reached=len(reached), n=len(times), median=median)


def restricted_times(times: Sequence[float | None], horizon: float) -> list[float]:
    """Time to the target or to the common horizon, whichever is first.

    Censoring at one horizon leaves it fully observed, so that arms can be compared (restricted mean, Royston and
    Parmar 2011, doi:10.1002/sim.4274).
    """
    return [horizon if t is None else min(t, horizon) for t in times]


def value_at(x: ArrayLike, y: ArrayLike, at: float) -> float | None:
    """The curve's height at `at`, linear between evaluations; None outside what was measured."""
    xs = np.asarray(x, dtype=float)
    inside = xs.size > 0 and xs[0] <= at <= xs[-1]
    return float(np.interp([at], xs, np.asarray(y, dtype=float))[0]) if inside else None


def mean_height(x: ArrayLike, y: ArrayLike, upto: float) -> float | None:
    """Area under the curve from its start to `upto`, over the width. None past the curve's end."""
    xs, ys = np.asarray(x, dtype=float), np.asarray(y, dtype=float)
    end = value_at(xs, ys, upto)
    if end is None or upto == xs[0]:
        return end
    inside = xs < upto
    area = np.trapezoid(np.append(ys[inside], end), np.append(xs[inside], upto))
    return float(area / (upto - xs[0]))
