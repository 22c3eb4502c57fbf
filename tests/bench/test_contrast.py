"""Contrasts: hand-computed variances, and verdicts whose error rates are those stated."""

import numpy as np
import pytest

from bench.contrast import Contrast, crossed, independent
from bench.stats import paired, unpaired
from bench.verdicts import in_words, seeds_needed, verdicts

Floats = np.ndarray


def test_a_crossed_contrast_by_hand() -> None:
    # differences: rows (seeds) [1, 3], [2, 4], [3, 5] / 100; seed means 2, 3, 4; problem means 2, 4; grand mean 3
    first = np.array([[1, 3], [2, 4], [3, 5]]) / 100
    found = crossed(first, np.zeros((3, 2)))
    # MS_seed = 2 * (1 + 0 + 1) / 2 = 2; MS_problem = 3 * (1 + 1) / 1 = 6; rest 0; variance (2 + 6) / 6
    assert found.mean == pytest.approx(0.03)
    assert found.error == pytest.approx(np.sqrt(8 / 6) / 100)
    assert found.df == pytest.approx((2 + 6) ** 2 / (2**2 / 2 + 6**2 / 1))
    assert found.seed_error == pytest.approx(np.sqrt(2 / 6) / 100)


def test_with_one_problem_it_is_the_t_test_over_seeds() -> None:
    draw = np.random.default_rng(0)
    first, second = draw.normal(size=(2, 7, 1))
    by_seed = paired(first[:, 0].tolist(), second[:, 0].tolist())
    assert crossed(first, second).error == pytest.approx(by_seed.error)
    assert crossed(first, second).p == pytest.approx(by_seed.p)
    welch = unpaired(first[:, 0].tolist(), second[:, 0].tolist())
    assert independent(first, second).error == pytest.approx(welch.error)
    assert independent(first, second).df == pytest.approx(welch.df)


def test_fewer_than_three_seeds_give_no_verdict() -> None:
    (found,) = verdicts([crossed([[0.1, 0.2], [0.3, 0.1]], np.zeros((2, 2)))], 0.01)
    assert found.word == "no verdict"
    assert "at least 3" in in_words(found, "a", "b")


def test_equal_differences_give_no_certainty() -> None:
    (found,) = verdicts([crossed(np.full((3, 4), 0.01), np.zeros((3, 4)))], 0.02)
    assert found.word == "no verdict"


def exact(mean: float, error: float, df: float = 1e6) -> Contrast:
    return Contrast(mean=mean, error=error, df=df, seeds=(9, 9), problems=500, paired=True, seed_error=error)


@pytest.mark.parametrize(
    ("mean", "error", "word"),
    [
        (0.05, 0.01, "better"),
        (-0.05, 0.01, "worse"),
        (0.002, 0.002, "equivalent"),  # (0.01 - 0.002) / 0.002 = 4 standard errors inside the margin
        (0.006, 0.002, "equivalent"),  # different from 0 as well, by less than is worth acting on
        (0.002, 0.01, "undecided"),
    ],
)
def test_the_words(mean: float, error: float, word: str) -> None:
    assert [v.word for v in verdicts([exact(mean, error)], 0.01)] == [word]
    assert [v.word for v in verdicts([exact(mean, error)], 0.01, [False])] == ["not exercised"]


def test_the_correction_runs_over_the_whole_family() -> None:
    single = exact(0.0205, 0.01)  # p = 0.040
    assert [v.word for v in verdicts([single], 0.001)] == ["better"]
    assert [v.word for v in verdicts([single, exact(0, 0.01)], 0.001)] == ["undecided", "undecided"]
    alone, together = (verdicts([single] * n, 0.01)[0].detectable for n in (1, 4))
    assert alone is not None
    assert together is not None
    assert alone == pytest.approx(0.01 * (1.95996 + 0.84162), rel=1e-3)
    assert together == pytest.approx(0.01 * (2.49771 + 0.84162), rel=1e-3)  # z at 1 - 0.05 / 8


def test_seeds_that_would_decide() -> None:
    """At spread s of a paired difference, n with s / sqrt(n) * (t + t_power) <= margin."""
    wide = Contrast(mean=0, error=0.02, df=4, seeds=(5, 5), problems=500, paired=True, seed_error=0.02)
    n = seeds_needed(wide, 0.02)
    assert n is not None
    assert 40 <= n <= 43  # s = 0.0447: (2.8 * 0.0447 / 0.02)^2 = 39.2, and a little for t
    few = Contrast(mean=0, error=0.02, df=4, seeds=(5, 5), problems=9, paired=True, seed_error=0.001)
    assert seeds_needed(few, 0.02) is None
    assert "problems are too few" in in_words(verdicts([few], 0.02)[0], "a", "b")


def studies(draw: np.random.Generator, effect: float, num_seeds: int, *, shared: float) -> tuple[Floats, Floats]:
    """Two arms of (num_seeds, 200): seeds spread by 1 point, problems by 1.5 in how much the methods differ on them."""
    common = draw.normal(0, 0.01 * np.sqrt(shared), (num_seeds, 1))
    own = 0.01 * np.sqrt(1 - shared)
    of_problem = draw.normal(0, 0.15 / np.sqrt(2), (2, 1, 200)) * 0.1
    cells = draw.normal(0, 0.1, (2, num_seeds, 200))
    arms = [common + draw.normal(0, own, (num_seeds, 1)) + of_problem[i] + cells[i] for i in range(2)]
    return arms[0] + effect, arms[1]


@pytest.mark.parametrize("shared", [0.0, 0.7])
def test_error_rates_are_those_stated(shared: float) -> None:
    """Over 600 studies each: intervals cover; no difference is called one, and the margin none, in about 5%."""
    draw = np.random.default_rng(1)
    contrast = crossed if shared else independent
    for effect, wrong in ((0.0, ("better", "worse")), (0.02, ("equivalent",))):
        found = [contrast(*studies(draw, effect, 5, shared=shared)) for _ in range(600)]
        covered = np.mean([low <= effect <= high for low, high in filter(None, (c.interval() for c in found))])
        assert covered > 0.93
        words = [verdicts([c], 0.02)[0].word for c in found]
        assert np.mean([word in wrong for word in words]) < 0.07
