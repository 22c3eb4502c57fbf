"""Noise and direction: closed forms on drawn gradients, and numbers by hand."""

import math

import pytest
import torch

from bench.gradient.figures import (
    cosine,
    expected_cosine,
    jackknifed,
    noise_to_signal,
    products,
    signal,
)


def drawn(batches: int, mean: torch.Tensor, spread: float, seed: int) -> torch.Tensor:
    noise = torch.randn(batches, len(mean), generator=torch.Generator().manual_seed(seed))
    return mean + spread * noise


def test_by_hand() -> None:
    """Batches (2, 0) and (4, 0): signal 8, noise 10 - 8 = 2; the reference points along (1, 1)."""
    p = products(torch.tensor([[2.0, 0], [4, 0]]), torch.tensor([[1.0, 1], [1, 1]]))
    assert signal(p.own) == 8
    assert noise_to_signal(p) == pytest.approx(2 / 8)
    assert cosine(p) == pytest.approx(3 / math.sqrt(8 * 2))
    assert expected_cosine(p, 4) == pytest.approx(0.75 / math.sqrt(1 + 0.25 / 4))


def test_gradients_that_cancel_carry_no_signal() -> None:
    p = products(torch.tensor([[1.0, 0], [-1, 0]]), torch.tensor([[1.0, 1], [1, 1]]))
    assert noise_to_signal(p) is None
    assert cosine(p) is None
    assert jackknifed(cosine, p).value is None


@pytest.mark.parametrize("degrees", [0, 60, 90])
def test_the_closed_form_lies_in_the_interval(degrees: float) -> None:
    """Noise of known size about known directions: variance P s^2, and the angle between the means."""
    own = torch.zeros(50)
    own[0] = 2.0
    other = torch.zeros(50)
    other[:2] = torch.tensor([math.cos(math.radians(degrees)), math.sin(math.radians(degrees))])
    p = products(drawn(60, own, 0.5, 1), drawn(60, other, 0.2, 2))
    noise = jackknifed(noise_to_signal, p, positive=True)
    assert noise.low is not None
    assert noise.high is not None
    assert noise.low < 50 * 0.25 / 4 < noise.high
    found = jackknifed(cosine, p)
    assert found.low is not None
    assert found.high is not None
    assert found.low < math.cos(math.radians(degrees)) < found.high
    assert found.high - found.low < 0.3


def test_the_expected_cosine_is_that_of_drawn_updates() -> None:
    mean = torch.zeros(200)
    mean[0] = 1.0
    p = products(drawn(100, mean, 0.1, 3), drawn(100, mean, 0.1, 4))
    updates = drawn(400, mean, 0.1, 5).view(100, 4, 200).mean(1)
    by_drawing = float((updates[:, 0] / updates.norm(dim=1)).mean())
    assert expected_cosine(p, 4) == pytest.approx(by_drawing, abs=0.02)
