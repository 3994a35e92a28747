"""The worst tenth of classes: probabilities that are right in the long run, and limits known by hand."""

import numpy as np
import pytest
from scipy.stats import beta, chi2

from thermoset.levels import conformal_rank
from thermoset.tuning.worst_classes import (
    ClassMisses,
    CrossCheck,
    rate_limit,
    rows_missing,
    tenth_of,
    tenths,
    tenths_by_law,
    worst_looking_limit,
)

ALPHA, LAXER, TARGET = "0.06", 0.18, 0.87


def drawn(rng, n_classes, rows, spread, alpha=float(ALPHA), n_conformal=10**7):
    """Classes with gamma risks, rows of them, and the true coverage of the worst tenth under a drawn threshold."""
    risk = rng.gamma(1 / spread, spread, n_classes) if spread else np.ones(n_classes)
    risk = np.minimum(risk / risk.mean(), 0.9 / LAXER)
    near = rng.poisson(rows * alpha * risk).astype(float)
    far = near + rng.poisson(rows * (LAXER - alpha) * risk)
    k = conformal_rank(n_conformal, str(alpha))
    level = rng.beta(n_conformal + 1 - k, k)
    worst = 1 - level * np.sort(risk)[-tenth_of(n_classes) :].mean()
    return ClassMisses(np.full(n_classes, float(rows)), near, far, n_classes), worst


@pytest.mark.long
@pytest.mark.parametrize(
    ("n_classes", "rows", "n_conformal"), [(100, 10, 1000), (100, 40, 4000), (10, 100, 1000), (60, 5, 300)]
)
def test_a_claim_that_is_nearly_sure_is_mostly_true(n_classes, rows, n_conformal):
    """Populations of every spread; of the claims made with 95%, about so many hold."""
    rng = np.random.default_rng(n_classes + rows)
    held = []
    for _ in range(400):
        misses, worst = drawn(rng, n_classes, rows, rng.uniform(0.05, 0.5), n_conformal=n_conformal)
        target = float(np.quantile(tenths(misses, ALPHA, n_conformal, seed=1, draws=200).worst, 0.05))
        held.append(worst >= target)
    assert np.mean(held) >= 0.95 - 3 * np.sqrt(0.95 * 0.05 / len(held))


def test_ends_are_not_so_far_apart_that_they_say_nothing():
    """The looks-worst tenth of ten rows a class is mostly bad luck: the estimate must not believe it."""
    rng = np.random.default_rng(0)
    misses, worst = drawn(rng, 100, 10, 0.0)
    seen = 1 - np.sort(misses.near / misses.counts)[-10:].mean()
    low, middle = np.quantile(tenths(misses, ALPHA, 10**7, seed=0).worst, [0.05, 0.5])
    assert seen < 0.8  # though every class is covered 0.94
    assert worst == pytest.approx(0.94, abs=1e-3)
    assert middle > 0.87
    assert low > 0.82


def test_with_very_many_rows_it_is_what_the_classes_have():
    risk = np.array([0.4] * 10 + [1.0] * 5 + [2.2] * 5)  # mean 1; the tenth are two classes with 2.2
    rows = 1e9
    misses = ClassMisses(np.full(20, rows), rows * 0.06 * risk, rows * 0.18 * risk, 20)
    found = tenths(misses, ALPHA, 10**9, seed=0)
    assert np.allclose(found.worst, 1 - 0.06 * 2.2, atol=2e-4)
    assert np.allclose(found.best, 1 - 0.06 * 0.4, atol=2e-4)


def test_the_threshold_adds_its_own_law():
    """With classes known exactly, the only doubt is the coverage of n conformal rows: Beta(k, n + 1 - k)."""
    risk = np.array([0.5] * 10 + [1.5] * 10)
    misses = ClassMisses(np.full(20, 1e8), 6e6 * risk, 18e6 * risk, 20)
    n, k = 200, conformal_rank(200, ALPHA)
    found = tenths(misses, ALPHA, n, seed=0, draws=4000)
    mean, sd = (n + 1 - k) / (n + 1), np.sqrt(k * (n + 1 - k) / ((n + 1) ** 2 * (n + 2)))
    assert (1 - found.worst).mean() == pytest.approx(1.5 * mean, rel=0.03)
    assert (1 - found.worst).std() == pytest.approx(1.5 * sd, rel=0.08)


def test_classes_without_rows_are_as_unknown_as_they_are():
    rng = np.random.default_rng(3)
    misses, _ = drawn(rng, 50, 40, 0.3)
    unseen = ClassMisses(misses.counts, misses.near, misses.far, 80)
    known, unknown = (np.quantile(tenths(one, ALPHA, 10**6, seed=0).worst, 0.05) for one in (misses, unseen))
    assert unknown < known


def test_stricter_levels_make_surer():
    misses, _ = drawn(np.random.default_rng(4), 100, 20, 0.3)
    target = float(np.quantile(tenths(misses, ALPHA, 2000, seed=0).worst, 0.4))
    stricter = ClassMisses(misses.counts, misses.near / 2, misses.far, 100)
    assert (tenths(stricter, "0.03", 2000, seed=0).worst >= target).mean() > 0.6


def test_one_class_is_its_own_tenth():
    """Of two classes the worst is the smaller of two draws of the law: its mean is known."""
    n, k = 99, conformal_rank(99, 0.1)
    found = tenths_by_law(np.full(2, n), np.full(2, k), seed=0)
    grid = np.linspace(0, 1, 20_001)
    smaller = np.trapezoid(beta.sf(grid, k, n + 1 - k) ** 2, grid)
    assert found.worst.mean() == pytest.approx(smaller, abs=4 * found.worst.std() / np.sqrt(len(found.worst)))


@pytest.mark.parametrize("missed", [0, 1, 7])
def test_the_limit_of_one_class_is_that_of_a_poisson_count(missed):
    assert rate_limit(np.array([missed]), np.array([50])) == pytest.approx(chi2.ppf(0.95, 2 * missed + 2) / 100)


def test_limits_of_several_classes_hold():
    """Counts of known rates: the upper limit of their mean is exceeded in at most 5% of draws."""
    rng = np.random.default_rng(0)
    counts, rates = np.array([4, 6, 9, 12, 30]), np.array([0.4, 0.1, 0.3, 0.05, 0.2])
    limits = [rate_limit(rng.poisson(counts * rates), counts) for _ in range(2000)]
    assert np.mean(np.array(limits) < rates.mean()) <= 0.05 + 4 * np.sqrt(0.05 * 0.95 / 2000)


def test_no_tenth_has_a_limit_above_that_of_the_one_that_looks_worst():
    rng = np.random.default_rng(1)
    counts = rng.integers(3, 40, 20).astype(float)
    missed = rng.poisson(0.2 * counts).astype(float)
    most = worst_looking_limit(missed, counts, 20)
    pairs = [(i, j) for i in range(20) for j in range(i)]
    assert all(rate_limit(missed[[i, j]], counts[[i, j]]) <= most + 1e-12 for i, j in pairs)
    assert worst_looking_limit(missed, counts, 21) == 1.0  # nothing is known of a class without rows


@pytest.mark.parametrize(
    ("rows", "enough"),
    [([10] * 10, True), ([9] * 10, False), ([30] * 9 + [0], True), ([30] * 8 + [4, 4], False)],
)
def test_a_claim_takes_ten_rows_a_class_and_five_in_most(rows, enough):
    assert (rows_missing(np.array(rows)) == "") == enough


def test_the_same_rows_give_the_same_bits():
    misses, _ = drawn(np.random.default_rng(5), 30, 20, 0.3)
    assert np.array_equal(tenths(misses, ALPHA, 500, 7).worst, tenths(misses, ALPHA, 500, 7).worst)


def test_the_cross_check_finds_eighty_hard_classes_of_a_thousand():
    place, hard, held = np.repeat(np.arange(1000), 10), np.arange(1000) < 80, []
    worst = (80 * 0.17 + 20 * 0.002) / 100  # the true miss rate of the worst hundred
    for seed in range(20):
        u = np.random.default_rng(seed).random(len(place))
        near, far = (u < np.where(hard, *rates)[place] for rates in ((0.17, 0.002), (0.45, 0.01)))
        held.append(CrossCheck(place, 1000, seed).estimate(near.astype(float), far.astype(float))[1] >= worst)
    assert np.mean(held) >= 0.9
