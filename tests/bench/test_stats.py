"""Hand-computed numbers, identities, and calibration by simulation.

Coverage must be 95 +- 2%, false positives 5 +- 2%, power 80 +- 2%.
"""

import math
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats as reference

from bench import progress, stats
from bench.report.efficiency import MOST_CENSORED

Sampler = Callable[[np.random.Generator, tuple[int, ...]], np.ndarray]
NORMAL: Sampler = lambda rng, shape: rng.normal(size=shape)
ACCURACY: Sampler = lambda rng, shape: rng.binomial(500, rng.normal(0.6, 0.03, shape)) / 500 - 0.6
finite = st.floats(-100, 100, allow_nan=False)


def covered(mean: np.ndarray, low: np.ndarray, high: np.ndarray, truth: float = 0.0) -> float:
    del mean
    return float(np.mean((low <= truth) & (truth <= high)))


def test_t_interval_by_hand() -> None:
    # mean 2, s = 1, t(0.975, 2) = 4.302653: half-width 4.302653 / sqrt(3)
    mean, low, high = stats.t_interval([1, 2, 3])
    assert (mean, low, high) == pytest.approx((2, 2 - 2.484138, 2 + 2.484138), abs=1e-6)


def test_paired_difference_by_hand() -> None:
    # differences 0.02, 0.04, 0.03: mean 0.03, s = 0.01, t = 0.03 / (0.01 / sqrt 3) = 5.196, p(df 2) = 0.0351
    d = stats.paired([0.52, 0.64, 0.43], [0.50, 0.60, 0.40])
    assert d.mean == pytest.approx(0.03)
    assert (d.low, d.high) == pytest.approx((0.03 - 0.02484138, 0.03 + 0.02484138), abs=1e-7)
    assert d.p == pytest.approx(0.0351, abs=1e-4)


def test_differences_agree_with_scipy() -> None:
    rng = np.random.default_rng(0)
    a, b = rng.normal(0.2, 1, 7), rng.normal(0, 2, 7)
    welch = reference.ttest_ind(a, b, equal_var=False)
    found = stats.unpaired(a.tolist(), b.tolist())
    assert (found.p, found.df) == pytest.approx((welch.pvalue, welch.df))
    assert (found.low, found.high) == pytest.approx(tuple(welch.confidence_interval()))
    assert stats.paired(a.tolist(), b.tolist()).p == pytest.approx(reference.ttest_rel(a, b).pvalue)


def test_too_few_runs_get_no_interval_and_no_verdict() -> None:
    assert stats.estimate([0.5, 0.6]) == stats.Estimate(mean=0.55, low=None, high=None, n=2)
    for d in (stats.paired([0.5, 0.7], [0.4, 0.5]), stats.unpaired([0.5, 0.7, 0.6], [0.4]), stats.paired([1], [0])):
        assert (d.low, d.high, d.p, d.detectable) == (None, None, None, None)
    for function in (stats.t_interval, lambda x: stats.bootstrap_t(x, seed=0)):
        with pytest.raises(ValueError, match="needs at least"):
            function([1.0, 2.0])
    assert stats.probability_of_improvement([1] * 9, [0] * 9).low is None


def test_identical_runs_differ_by_nothing() -> None:
    d = stats.paired([0.5, 0.6, 0.7], [0.5, 0.6, 0.7])
    assert (d.mean, d.low, d.high, d.p, d.detectable) == (0, 0, 0, 1, 0)


def test_runs_that_do_not_match_are_refused() -> None:
    with pytest.raises(ValueError, match="one to one"):
        stats.paired([1, 2, 3], [1, 2])


def test_pairing_by_problem_takes_the_problems_as_the_sample() -> None:
    a, b = np.array([[1, 1, 0, 1], [1, 0, 0, 1]]), np.array([[0, 1, 0, 1], [0, 0, 0, 1]])
    # mean over runs: (1, .5, 0, 1) - (0, .5, 0, 1) = (1, 0, 0, 0): mean 1/4, s = 1/2, error 1/4
    d = stats.by_problem(a, b)
    assert (d.mean, d.error, d.df) == (0.25, 0.25, 3)


@given(st.lists(st.tuples(finite, finite), min_size=3, max_size=12))
def test_a_difference_turned_round_changes_sign_only(pairs: list[tuple[float, float]]) -> None:
    a, b = map(list, zip(*pairs, strict=True))
    for compare in (stats.paired, stats.unpaired):
        there, back = compare(a, b), compare(b, a)
        assert there.mean == pytest.approx(-back.mean)
        assert (there.low is None) == (back.high is None)
        if there.low is not None and back.high is not None:
            assert there.low == pytest.approx(-back.high)
            assert there.p == pytest.approx(back.p)


def test_runs_that_all_differ_by_the_same_have_no_interval() -> None:
    d = stats.paired([0.53, 0.75, 0.21], [0.52, 0.74, 0.20])
    assert d.mean == pytest.approx(0.01)
    assert (d.low, d.high, d.p, d.detectable) == (None, None, None, None)


def test_holm_by_hand() -> None:
    # smallest 0.01 * 3, then 0.02 * 2 = 0.04, then 0.04 * 1, never below the one before
    assert stats.holm([0.04, 0.01, 0.02]) == pytest.approx([0.04, 0.03, 0.04])
    assert stats.holm([0.9, 0.8]) == [1, 1]


def test_trimmed_means_by_hand() -> None:
    ten = [0, 1, 2, 3, 4, 5, 6, 7, 8, 1000]
    assert stats.bootstrap_t(ten, seed=0, trim=0.25)[0] == 4.5  # two left out at each end
    assert stats.bootstrap_t(ten, seed=0)[0] == pytest.approx(103.6)
    low, high = stats.bootstrap_t(ten, seed=3, trim=0.25)[1:3]
    assert 0 < low < 4.5 < high < 9  # the outlier, trimmed, moves no end; untrimmed it carries the upper one past 100
    assert stats.bootstrap_t(ten, seed=3)[2] > 100


def test_probability_of_improvement_by_hand() -> None:
    # pairs: 1>1 tie, 1>0, 2>1, 2>0
    assert stats.probability_of_improvement([1, 2], [1, 0]).mean == pytest.approx(3.5 / 4)
    sure = stats.probability_of_improvement([1] * 10, [0] * 10)
    assert (sure.mean, sure.high) == (1, 1)
    assert sure.low is not None
    assert 0.7 < sure.low < 0.9
    none = stats.probability_of_improvement([0] * 10, [1] * 10)
    assert none.low == 0
    assert none.high == pytest.approx(1 - sure.low)


def test_targets_by_hand() -> None:
    x, y = [0, 100, 200], [0.2, 0.4, 0.3]
    assert progress.first_reached(x, y, 0.3) == pytest.approx(50)
    assert progress.first_reached(x, y, 0.1) == 0
    assert progress.first_reached(x, y, 0.5) is None
    assert progress.restricted_times([50.0, None, 500.0], 200) == [50, 200, 200]


def test_median_time_counts_the_runs_that_never_arrived() -> None:
    # Kaplan-Meier: survival 2/3 at 10, then 1/3 at 20; dropping the censored run would give 10
    found = progress.time_to_target([10, 20, None], [30, 30, 30])
    assert (found.num_reached, found.n, found.median) == (2, 3, 20)
    assert progress.time_to_target([10, None, None], [30, 30, 30]).median is None
    assert progress.time_to_target([None], [30]).median is None
    # a run that stopped at 5 says nothing about 10: of two still watched, one arrives
    assert progress.time_to_target([10, None, None], [30, 5, 30]).median == 10


def test_areas_by_hand() -> None:
    x, y = [0, 100, 200], [0.2, 0.4, 0.4]
    assert progress.value_at(x, y, 50) == pytest.approx(0.3)
    assert progress.value_at(x, y, 201) is None
    assert progress.mean_height(x, y, 200) == pytest.approx(0.35)
    assert progress.mean_height(x, y, 50) == pytest.approx(0.25)
    assert progress.mean_height(x, y, 201) is None
    assert progress.mean_height(x, y, 0) == 0.2


@pytest.mark.parametrize("n", [3, 5, 10])
@pytest.mark.parametrize("sampler", [NORMAL, ACCURACY], ids=["normal", "accuracy"])
def test_t_intervals_cover_what_they_claim(n: int, sampler: Sampler) -> None:
    x = sampler(np.random.default_rng(n), (20_000, n))
    assert covered(*stats.t_interval(x)) == pytest.approx(0.95, abs=0.02)


@pytest.mark.parametrize("trim", [0.0, 0.25], ids=["mean", "interquartile mean"])
@pytest.mark.parametrize("sampler", [NORMAL, ACCURACY], ids=["normal", "accuracy"])
def test_bootstrap_intervals_cover_what_they_claim(trim: float, sampler: Sampler) -> None:
    x = sampler(np.random.default_rng(0), (20, 150, 10))
    share = np.mean([covered(*stats.bootstrap_t(part, seed=1, trim=trim)) for part in x])
    assert share == pytest.approx(0.95, abs=0.02)


@pytest.mark.parametrize("n", [3, 5, 10])
def test_differences_of_time_cover_what_they_claim_where_they_are_offered(n: int) -> None:
    rng, horizon = np.random.default_rng(n), 1.5  # about one run in ten and one in four never arrive
    times = [rng.lognormal(shift, 0.3, (20_000, n)) for shift in (0.0, 0.2)]
    offered = np.max([(t >= horizon).mean(1) for t in times], axis=0) <= MOST_CENSORED
    slow, fast = (np.minimum(rng.lognormal(shift, 0.3, 1_000_000), horizon).mean() for shift in (0.2, 0.0))
    d = np.minimum(times[1], horizon) - np.minimum(times[0], horizon)
    assert covered(*stats.t_interval(d[offered]), slow - fast) == pytest.approx(0.95, abs=0.02)


@pytest.mark.parametrize("shift", [0.0, 1.2, 2.5])
def test_probability_of_improvement_covers_what_it_claims(shift: float) -> None:
    rng = np.random.default_rng(0)
    truth = float(reference.norm.cdf(shift / math.sqrt(2)))
    found = [stats.probability_of_improvement(rng.normal(shift, 1, 10), rng.normal(size=10)) for _ in range(1500)]
    low, high = np.array([(e.low, e.high) for e in found]).T
    assert covered(low, low, high, truth) == pytest.approx(0.95, abs=0.02)


@pytest.mark.parametrize("n", [3, 5, 10])
def test_false_positives_and_power_are_as_stated(n: int) -> None:
    rng, studies = np.random.default_rng(n), 3000
    noise = rng.normal(size=(studies, n))
    effect = stats.detectable_ratio(n - 1) / math.sqrt(n)  # in standard deviations of one difference
    zero = [0.0] * n
    false = np.mean([(stats.paired(x, zero).p or 0) < 0.05 for x in noise])
    found = np.mean([(stats.paired(x, zero).p or 0) < 0.05 for x in noise + effect])
    assert false == pytest.approx(0.05, abs=0.02)
    assert found == pytest.approx(stats.POWER, abs=0.02)


@pytest.mark.parametrize("n", [3, 5, 10])
@pytest.mark.parametrize("spread", [1.0, 2.0])
def test_unpaired_false_positives_are_as_stated(n: int, spread: float) -> None:
    rng = np.random.default_rng(n)
    pairs = [(rng.normal(size=n), rng.normal(0, spread, n)) for _ in range(3000)]
    false = np.mean([(stats.unpaired(a, b).p or 0) < 0.05 for a, b in pairs])
    assert false == pytest.approx(0.05, abs=0.02)


def test_power_of_welch_is_as_stated() -> None:
    rng, n = np.random.default_rng(0), 5
    effect = stats.detectable_ratio(2 * n - 2) * math.sqrt(2 / n)
    found = [(stats.unpaired(rng.normal(effect, 1, n), rng.normal(size=n)).p or 0) < 0.05 for _ in range(3000)]
    assert np.mean(found) == pytest.approx(stats.POWER, abs=0.03)


def test_holm_keeps_false_findings_of_a_whole_study_at_five_percent() -> None:
    # three arms against one base that they share: the three p-values hang together
    rng = np.random.default_rng(0)
    runs = rng.normal(size=(2000, 4, 5))
    any_found = [min(stats.holm([stats.paired(s[k], s[0]).p or 0 for k in (1, 2, 3)])) < 0.05 for s in runs]
    plain = [min(stats.paired(s[k], s[0]).p or 0 for k in (1, 2, 3)) < 0.05 for s in runs]
    assert np.mean(any_found) <= 0.05 + 0.01
    assert np.mean(plain) > 0.08


def test_hodges_lehmann_has_the_ends_of_wilcoxons_tables() -> None:
    """Ten values at 95%: the table's critical value is 8, so the ends are the 9th mean of pairs from either side."""
    values = [1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0, 256.0, 512.0]
    means = sorted((a + b) / 2 for i, a in enumerate(values) for b in values[i:])
    found = stats.hodges_lehmann(values, 0.95)
    assert (found.low, found.high) == (means[8], means[-9])
    assert found.mean == (means[27])
    assert stats.hodges_lehmann(values[:7], 0.99).low is None, "2 of 128 orders are the most extreme"
    assert (stats.hodges_lehmann(values[:8], 0.99).low, stats.hodges_lehmann(values[:8], 0.99).high) == (1.0, 128.0)


@pytest.mark.parametrize("n", [8, 12, 27])
def test_hodges_lehmann_covers_whatever_the_tails(n: int) -> None:
    draws = np.random.default_rng(n).standard_t(2, size=(2000, n))
    found = [stats.hodges_lehmann(row.tolist(), 0.95) for row in draws]
    covered = np.mean([e.low <= 0 <= e.high for e in found if e.low is not None and e.high is not None])
    assert 0.94 <= covered <= 0.98


@pytest.mark.parametrize("looks", sorted(stats.POCOCK))
def test_repeated_looks_err_together_as_often_as_one(looks: int) -> None:
    """Nominal levels are those of normal data at equal distances; here t intervals at growing n, as the gate uses."""
    draws = np.random.default_rng(looks).normal(size=(20_000, 8 * looks))
    outside = np.zeros(len(draws), dtype=bool)
    for look in range(1, looks + 1):
        _, low, high = stats.t_interval(draws[:, : 8 * look], 1 - stats.POCOCK[looks])
        outside |= (low > 0) | (high < 0)
    assert 0.045 <= outside.mean() <= 0.056


@given(st.lists(st.floats(0, 1), min_size=1, max_size=12))
def test_an_interval_of_shares_stays_within_its_range(values: list[float]) -> None:
    found = stats.estimate_share(values)
    assert found.mean == pytest.approx(np.mean(values))
    if found.low is not None and found.high is not None:
        assert 0 <= found.low <= found.mean <= found.high <= 1


@given(st.lists(st.floats(1e-6, 1e9), min_size=1, max_size=12))
def test_an_interval_of_amounts_stays_above_0(values: list[float]) -> None:
    found = stats.estimate_positive(values)
    if found.low is not None and found.high is not None:
        assert 0 < found.low <= found.mean <= found.high


def test_bounded_intervals_cover_what_they_claim() -> None:
    """Shares near the upper end, as accuracies of 5 seeds are."""
    draw, covered = np.random.default_rng(0), 0
    for _ in range(2000):
        found = stats.estimate_share(draw.beta(95, 5, size=5).tolist())
        assert found.low is not None
        assert found.high is not None
        covered += found.low <= 0.95 <= found.high
    assert covered / 2000 > 0.93
