"""The laws: closed forms in fractions, simulation of the whole conformal procedure, scipy's own exact interval."""

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binom, binomtest

from thermoset import metrics
from thermoset.errors import InputError


def exact_mass(n, m, alpha):
    """Of the C(n + m, n) interleavings of n old and m new scores, the share with h new ones below the k-th old."""
    k = math.ceil((n + 1) * (1 - Fraction(alpha)))
    return [
        Fraction(math.comb(h + k - 1, h) * math.comb(m - h + n - k, m - h), math.comb(n + m, m)) for h in range(m + 1)
    ]


@pytest.mark.parametrize(("n", "m", "alpha"), [(9, 5, "0.1"), (149, 40, "0.18"), (20, 30, "0.5"), (99, 10, "0.01")])
def test_law_of_hits_is_the_count_of_interleavings(n, m, alpha):
    mass = exact_mass(n, m, alpha)
    assert sum(mass) == 1
    law = metrics.coverage_law(n, m, alpha)
    np.testing.assert_allclose(law.pmf(np.arange(m + 1)), [float(p) for p in mass], rtol=1e-10)
    for hits in range(m + 1):
        tail = float(sum(mass[: hits + 1]))
        assert metrics.coverage_p_value(hits, m, n, alpha) == pytest.approx(tail, rel=1e-10)


def test_law_is_what_conformal_prediction_does():
    # 4,000 times: 30 scores set the threshold (k = 28 of 31), 50 fresh scores are compared with it. The hits have
    # mean and variance of the law, to 5 standard errors; so has the true coverage, which for uniform scores is the
    # threshold itself.
    trials, n, m = 4000, 30, 50
    rng = np.random.default_rng(11)
    threshold = np.sort(rng.random((trials, n)), axis=1)[:, 28 - 1]
    hits = (rng.random((trials, m)) <= threshold[:, None]).sum(axis=1)
    for sample, law in [
        (hits, metrics.coverage_law(n, m, 0.1)),
        (threshold, metrics.conformal_coverage_distribution(n, 0.1)),
    ]:
        assert abs(sample.mean() - law.mean()) < 5 * law.std() / math.sqrt(trials)
        spread = (sample - law.mean()) ** 2
        assert abs(spread.mean() - law.var()) < 5 * spread.std() / math.sqrt(trials)


@pytest.mark.parametrize(("n", "alpha", "k"), [(149, 0.18, 123), (1000, 0.1, 901), (9, 0.1, 9)])
def test_true_coverage_is_beta(n, alpha, k):
    # Mean k / (n + 1), variance k (n + 1 - k) / ((n + 1)^2 (n + 2)).
    law = metrics.conformal_coverage_distribution(n, alpha)
    assert law.mean() == pytest.approx(k / (n + 1), rel=1e-12)
    assert law.var() == pytest.approx(k * (n + 1 - k) / ((n + 1) ** 2 * (n + 2)), rel=1e-12)


def test_too_few_rows_cover_everything():
    assert metrics.coverage_interval(8, 100, 0.1) == (1.0, 1.0)
    assert metrics.coverage_p_value(100, 100, 8, 0.1) == 1
    assert metrics.coverage_p_value(99, 100, 8, 0.1) == 0
    assert metrics.coverage_law(0, 10, 0.5).mean() == 10
    with pytest.raises(InputError, match="at least 9"):
        metrics.conformal_coverage_distribution(8, 0.1)


@pytest.mark.parametrize(("n", "m", "alpha"), [(9, 20, "0.1"), (50, 77, "0.2"), (200, 60, "0.05"), (30, 1, "0.5")])
@pytest.mark.parametrize("confidence", ["0.5", "0.9", "0.95", "0.999"])
def test_interval_is_the_narrowest_with_equal_tails(n, m, alpha, confidence):
    mass, tail = exact_mass(n, m, alpha), (1 - Fraction(confidence)) / 2
    low, high = (round(end * m) for end in metrics.coverage_interval(n, m, alpha, confidence))
    assert sum(mass[:low]) < tail <= sum(mass[: low + 1])
    assert sum(mass[high + 1 :]) < tail <= sum(mass[high:])


def test_p_value_of_all_hits_is_one():
    assert metrics.coverage_p_value(8000, 8000, 1000, 0.1) == pytest.approx(1, abs=1e-9)
    assert metrics.coverage_p_value(8000, 8000, 1000, 0.1) <= 1


# --- Clopper-Pearson ------------------------------------------------------------------------------------------------


@given(st.integers(1, 200), st.data(), st.sampled_from([0.5, 0.9, 0.95, 0.999]))
def test_clopper_pearson_is_scipys_exact_interval(n, data, confidence):
    hits = data.draw(st.integers(0, n))
    peer = binomtest(hits, n).proportion_ci(confidence, method="exact")
    low, high = metrics.clopper_pearson(hits, n, confidence)
    assert (float(low), float(high)) == pytest.approx((peer.low, peer.high), rel=1e-9, abs=1e-12)


def test_clopper_pearson_solves_its_equations_on_arrays():
    # At the low end P(X >= hits) = 2.5%, at the high end P(X <= hits) = 2.5%.
    hits, n = np.array([[1, 5], [40, 79]]), np.array([[10], [80]])
    low, high = metrics.clopper_pearson(hits, n)
    assert low.shape == high.shape == (2, 2)
    np.testing.assert_allclose(binom.sf(hits - 1, n, low), 0.025, rtol=1e-9)
    np.testing.assert_allclose(binom.cdf(hits, n, high), 0.025, rtol=1e-9)


def test_clopper_pearson_at_the_edges():
    low, high = metrics.clopper_pearson([0, 7, 0], [7, 7, 0])
    # 0 of 7: (1 - p)^7 = 0.025. 7 of 7: p^7 = 0.025. No rows: anything is possible.
    np.testing.assert_array_equal(low[[0, 2]], 0)
    np.testing.assert_array_equal(high[[1, 2]], 1)
    assert high[0] == pytest.approx(1 - 0.025 ** (1 / 7), rel=1e-12)
    assert low[1] == pytest.approx(0.025 ** (1 / 7), rel=1e-12)


# --- noise floor ----------------------------------------------------------------------------------------------------


def enumerated_floor(counts, n_classes, alpha):
    """Distribution of (TopCovGap, AvgCovGap) over every outcome of the hits, in fractions."""
    level = 1 - Fraction(alpha)
    outcomes = []
    for hits in itertools.product(*(range(n + 1) for n in counts)):
        chance = math.prod(
            math.comb(n, h) * level**h * (1 - level) ** (n - h) for h, n in zip(hits, counts, strict=True)
        )
        gaps = sorted((abs(Fraction(h, n) - level) for h, n in zip(hits, counts, strict=True)), reverse=True)
        worst = gaps[: max(n_classes // 20, 1)]
        outcomes.append((chance, sum(worst) / len(worst), sum(gaps) / len(gaps)))
    return outcomes


@pytest.mark.parametrize(("counts", "n_classes"), [((2, 3), 2), ((1, 4, 6), 5), ((3, 5, 2), 45)])
def test_noise_floor_agrees_with_every_outcome_counted(counts, n_classes):
    outcomes = enumerated_floor(counts, n_classes, "0.3")
    simulations = 20_000
    padded = [*counts, *[0] * (n_classes - len(counts))]
    floor = metrics.noise_floor_of_counts(padded, 0.3, n_simulations=simulations)
    for which, mean, point in [(1, floor.top_mean, floor.top_95), (2, floor.avg_mean, floor.avg_95)]:
        exact = sum(o[0] * o[which] for o in outcomes)
        variance = sum(o[0] * (o[which] - exact) ** 2 for o in outcomes)
        assert abs(mean - exact) < 5 * math.sqrt(variance / simulations)
        # The 95% point: at most 5% (and 5 standard errors of a share) above it, at least 5% from it on.
        noise = 5 * math.sqrt(0.05 * 0.95 / simulations)
        assert sum(o[0] for o in outcomes if o[which] > point + 1e-9) <= 0.05 + noise
        assert sum(o[0] for o in outcomes if o[which] >= point - 1e-9) >= 0.05 - noise


def exact_mean_top_gap(n_classes, rows, alpha):
    """E of the mean of the m largest of C independent gaps: the r-th largest exceeds g when at least r gaps do."""
    hits = np.arange(rows + 1)
    gap, mass = np.abs(hits / rows - (1 - alpha)), binom.pmf(hits, rows, 1 - alpha)
    values = np.unique(gap.round(12))
    exceed = np.array([mass[gap > v + 1e-9].sum() for v in values])
    m = max(n_classes // 20, 1)
    steps = np.diff(values, prepend=0.0)  # E[G] = integral of P(G > g), a step function
    below = np.concatenate([[1.0], exceed[:-1]])
    return sum(float(steps @ binom.sf(r - 1, n_classes, below)) for r in range(1, m + 1)) / m


@pytest.mark.slow
def test_noise_floor_of_cifar100():
    # 8,000 rows of CIFAR-100: docs/definitions.md gives mean .0765 and 95% point .090 for TopCovGap at alpha = 0.1.
    labels = np.repeat(np.arange(100), 80)
    floor = metrics.coverage_gap_noise_floor(labels, 100, 0.1)
    assert floor.top_mean == pytest.approx(exact_mean_top_gap(100, 80, 0.1), abs=5 * 0.01 / math.sqrt(2000))
    assert floor.top_mean == pytest.approx(0.0765, abs=0.001)
    # AvgCovGap: the mean of 100 equal terms has the mean of one, E|X/80 - .9| (de Moivre's formula for binomials:
    # E|X - np| = 2 v (1 - p) C(n, v) p^v (1 - p)^(n - v), v = floor(np) + 1).
    one = 2 * 73 * 0.1 * math.comb(80, 73) * 0.9**73 * 0.1**7 / 80
    assert floor.avg_mean == pytest.approx(one, abs=5 * one / math.sqrt(100 * 2000))
    # With 80 rows TopCovGap moves in steps of 1/80/5 = .0025, and P(TopCovGap <= .090) is close to .95: 2,000
    # simulations may land on the next step. Enough of them find the published one.
    assert floor.top_95 == pytest.approx(0.090, abs=0.0026)
    many = metrics.coverage_gap_noise_floor(labels, 100, 0.1, n_simulations=100_000)
    assert many.top_95 == pytest.approx(0.090, abs=1e-9)


def test_noise_floor_is_what_perfect_sets_show():
    # Sets that hold each label with probability 1 - alpha, independently: the floor's mean, to 5 standard errors.
    rng = np.random.default_rng(4)
    labels = rng.integers(0, 25, 600)
    measured = []
    for _ in range(200):
        sets = rng.random((600, 25)) < 0.8
        measured.append((metrics.top_coverage_gap(sets, labels, 0.2), metrics.avg_coverage_gap(sets, labels, 0.2)))
    top, avg = np.array(measured).T
    floor = metrics.coverage_gap_noise_floor(labels, 25, 0.2)
    error = math.sqrt(1 / 200 + 1 / 2000)
    assert abs(top.mean() - floor.top_mean) < 5 * top.std() * error
    assert abs(avg.mean() - floor.avg_mean) < 5 * avg.std() * error


def test_noise_floor_is_seeded_and_knows_no_class_names():
    labels = np.random.default_rng(0).integers(0, 30, 500)
    floor = metrics.coverage_gap_noise_floor(labels, 30, 0.1, n_simulations=50)
    assert floor == metrics.coverage_gap_noise_floor(labels, 30, 0.1, n_simulations=50)
    assert floor == metrics.coverage_gap_noise_floor(29 - labels, 30, 0.1, n_simulations=50)
    assert floor != metrics.coverage_gap_noise_floor(labels, 30, 0.1, n_simulations=50, random_state=1)


def test_noise_floor_in_blocks(monkeypatch):
    # Blocks draw other numbers, and every simulation is filled in: rows of 1 have gaps .5 whatever is drawn.
    monkeypatch.setattr("thermoset.metrics.laws._BLOCK", 7)
    floor = metrics.noise_floor_of_counts([1, 1, 1], 0.5, n_simulations=11)
    assert (floor.top_mean, floor.top_95, floor.avg_mean, floor.avg_95) == (0.5, 0.5, 0.5, 0.5)


@pytest.mark.parametrize(
    ("call", "word"),
    [
        (lambda: metrics.coverage_gap_noise_floor([0, 3], 3, 0.1), r"labels\[1\] is 3"),
        (lambda: metrics.coverage_gap_noise_floor([], 3, 0.1), r"labels.*\(0,\)"),
        (lambda: metrics.coverage_gap_noise_floor([0], 0, 0.1), "n_classes"),
        (lambda: metrics.coverage_gap_noise_floor([0], 10**12, 0.1), "n_classes"),
        (lambda: metrics.coverage_gap_noise_floor([0], 1, 1), "alpha"),
        (lambda: metrics.noise_floor_of_counts([0, 0], 0.1), "counts.*0 rows"),
        (lambda: metrics.noise_floor_of_counts([[1, 2]], 0.1), r"counts.*\(1, 2\)"),
        (lambda: metrics.noise_floor_of_counts([-1, 2], 0.1), "counts.*-1"),
        (lambda: metrics.noise_floor_of_counts([4], 0.1, n_simulations=0), "n_simulations"),
        (lambda: metrics.noise_floor_of_counts([4], 0.1, n_simulations=10**12), "n_simulations"),
        (lambda: metrics.noise_floor_of_counts([4], 0.1, random_state="x"), "random_state.*'x'"),
        (lambda: metrics.coverage_law(-1, 5, 0.1), "n_conformal.*-1"),
        (lambda: metrics.coverage_law(5, 0, 0.1), "n_evaluation.*0"),
        (lambda: metrics.coverage_p_value(6, 5, 9, 0.1), "hits.*6"),
        (lambda: metrics.coverage_p_value(6, 10**12, 9, 0.1), "n_evaluation"),
        (lambda: metrics.coverage_interval(9, 5, 0.1, 95), "confidence.*95"),
        (lambda: metrics.coverage_interval(9, 10**12, 0.1), "n_evaluation"),
        (lambda: metrics.clopper_pearson(6, 5), "hits.*6 of 5"),
        (lambda: metrics.clopper_pearson(0.9, 5), "hits.*float64"),
        (lambda: metrics.clopper_pearson(3, 5, 0), "confidence"),
    ],
)
def test_bad_input(call, word):
    with pytest.raises(InputError, match=word):
        call()
