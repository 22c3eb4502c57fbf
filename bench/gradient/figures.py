"""Noise and direction of a method's gradient, from the gradients of independent batches.

Of m batches of n samples with gradients g_i, and M of the reference's on other samples, r_j:

    signal  |E g|^2   mean of g_i . g_j over i != j, which the noise does not raise
    noise   Var g     mean of |g_i|^2, less the signal
    cosine  of E g with E r: mean of g_i . r_j over the root of both signals

An update of N samples has noise n / N of that, so its expected cosine is about cosine / sqrt(1 + noise n / (signal N)).
Intervals are by the jackknife over batches of both, of the logarithm where a figure is positive by its nature.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

Z95 = 1.959964


@dataclass(frozen=True, kw_only=True)
class Estimate:
    """A figure with its 95% interval; None where the batches do not carry it."""

    value: float | None
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True, kw_only=True)
class Products:
    """Inner products, which are all that the figures need."""

    own: Tensor  # (m, m) of the method's batches
    cross: Tensor  # (m, M) with the reference's
    reference: Tensor  # (M, M) of the reference's batches

    def without(self, own: int | None = None, reference: int | None = None) -> "Products":
        """The products less one batch of the method's or of the reference's."""
        rows = torch.tensor([i for i in range(len(self.own)) if i != own])
        columns = torch.tensor([j for j in range(len(self.reference)) if j != reference])
        return Products(
            own=self.own[rows][:, rows],
            cross=self.cross[rows][:, columns],
            reference=self.reference[columns][:, columns],
        )


def products(gradients: Tensor, reference: Tensor) -> Products:
    """From (m, P) and (M, P), in float64."""
    own, other = gradients.double(), reference.double()
    return Products(own=own @ own.T, cross=own @ other.T, reference=other @ other.T)


def signal(gram: Tensor) -> float:
    """|E g|^2 without bias: (m, m) -> the mean of what is off the diagonal."""
    count = len(gram)
    return float((gram.sum() - gram.trace()) / (count * (count - 1)))


def noise_to_signal(p: Products) -> float | None:
    """Variance of a batch's gradient over its squared expectation; None where no signal shows."""
    found = signal(p.own)
    return (float(p.own.trace()) / len(p.own) - found) / found if found > 0 else None


def cosine(p: Products) -> float | None:
    """Of the expected gradients, noise taken off both; None where one shows no signal. It may pass 1 by chance."""
    both = signal(p.own) * signal(p.reference)
    alone = signal(p.own) > 0 and signal(p.reference) > 0
    return float(p.cross.mean()) / math.sqrt(both) if alone else None


def expected_cosine(p: Products, batches: float) -> float | None:
    """Of an update by as many samples as `batches` of these batches hold."""
    direction, noise = cosine(p), noise_to_signal(p)
    return None if direction is None or noise is None else direction / math.sqrt(1 + max(noise, 0.0) / batches)


def jackknifed(figure: Callable[[Products], float | None], p: Products, *, positive: bool = False) -> Estimate:
    """The figure with its interval: leaves out each batch of the method's in turn, then each of the reference's."""
    value = figure(p)
    if value is None or (positive and value <= 0):
        return Estimate(value=value)
    scale = math.log if positive else float
    variance = 0.0
    parts = (
        [p.without(own=i) for i in range(len(p.own))],
        [p.without(reference=j) for j in range(len(p.reference))],
    )
    for part in parts:
        left = [x for x in map(figure, part) if x is not None and (x > 0 or not positive)]
        if len(left) < len(part):
            return Estimate(value=value)
        mean = sum(map(scale, left)) / len(left)
        variance += (len(left) - 1) / len(left) * sum((scale(x) - mean) ** 2 for x in left)
    half, back = Z95 * math.sqrt(variance), math.exp if positive else float
    return Estimate(value=value, low=back(scale(value) - half), high=back(scale(value) + half))
