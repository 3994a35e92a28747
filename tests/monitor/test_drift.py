"""The test of set sizes: Fisher's exact test by its definition, false alarms by simulation, what it must see."""

import math
from fractions import Fraction
from functools import cache

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from scipy.stats import binom, chi2_contingency, fisher_exact

from law import generated
from on_arrays import score_matrix
from thermoset import ConformalClassifier
from thermoset.errors import InputError
from thermoset.levels import conformal_rank
from thermoset.monitor.drift import LEVELS, size_drift
from thermoset.scores import resolve
from thermoset.uniforms import Randomness

MOST_CUTS = 2 * len(LEVELS)
counts = st.lists(st.integers(0, 30), min_size=1, max_size=40).filter(any)


def hypergeometric_tails(x, total, marked, drawn):
    """P(X <= x) and P(X >= x) for the marked among the drawn, by counting."""
    ways = {
        i: math.comb(marked, i) * math.comb(total - marked, drawn - i)
        for i in range(max(0, drawn - total + marked), min(marked, drawn) + 1)
    }
    every = math.comb(total, drawn)
    return Fraction(sum(w for i, w in ways.items() if i <= x), every), Fraction(
        sum(w for i, w in ways.items() if i >= x), every
    )


# --- arithmetic -----------------------------------------------------------------------------------------------------


def test_one_cut_is_fishers_test_by_counting():
    # 3 of 8 conformal rows and 6 of 7 rows of the batch have two labels, not one: one cut, a table of two by two.
    drift = size_drift([0, 5, 3], [0, 1, 6])
    low, high = hypergeometric_tails(3, total=15, marked=9, drawn=8)
    assert (drift.cuts, drift.size) == (1, 1)
    assert drift.p_value == pytest.approx(float(2 * min(low, high)), rel=1e-12)
    assert (drift.share_before, drift.share_after) == (3 / 8, 6 / 7)
    assert (drift.mean_before, drift.mean_after) == ((5 + 6) / 8, (1 + 12) / 7)
    assert (drift.rows_before, drift.rows_after) == (8, 7)


def test_one_cut_of_equal_samples_is_scipys_test():
    # With equal numbers of rows the law is symmetric, and twice the smaller tail is the two-sided p-value of scipy.
    for before, after in [([7, 13], [15, 5]), ([30, 2], [20, 12]), ([1, 9], [9, 1])]:
        assert size_drift(before, after).p_value == pytest.approx(fisher_exact([before, after]).pvalue, rel=1e-9)


@given(counts, counts)
def test_the_p_value_is_bonferroni_over_the_cuts(before, after):
    drift = size_drift(before, after)
    length = max(len(before), len(after))
    before, after = (np.pad(c, (0, length - len(c))) for c in (before, after))
    occurring = np.flatnonzero(before + after)
    assert 1 <= drift.cuts <= max(1, min(MOST_CUTS, len(occurring) - 1))
    tails = [
        min(hypergeometric_tails(int(before[s + 1 :].sum()), int((before + after).sum()), int(above), before.sum()))
        for s, above in ((s, (before + after)[s + 1 :].sum()) for s in occurring)
    ]
    expected = float(2 * tails[list(occurring).index(drift.size)] * drift.cuts)
    assert drift.p_value == pytest.approx(min(expected, 1), rel=1e-9)
    assert drift.p_value >= 0.999999 * min(float(2 * min(tails)), 1)
    if len(occurring) <= 3:  # few sizes: every cut is looked at
        assert drift.cuts == max(len(occurring) - 1, 1)
        assert drift.p_value == pytest.approx(min(float(2 * min(tails)) * drift.cuts, 1), rel=1e-9)


@given(counts, counts)
@example([0, 2], [3, 2, 3])  # two cuts with one p-value, which rounding tells apart in one order and not in the other
def test_the_samples_may_change_places(before, after):
    one, other = size_drift(before, after), size_drift(after, before)
    assert one.p_value == pytest.approx(other.p_value, rel=1e-9)
    assert (one.cuts, one.mean_before, one.share_after) == (other.cuts, other.mean_after, other.share_before)


@given(counts, counts, st.integers(1, 5))
def test_sizes_that_no_set_has_do_not_matter(before, after, zeros):
    assert size_drift([*before, *[0] * zeros], after) == size_drift(before, after)
    shifted = size_drift([*[0] * zeros, *before], [*[0] * zeros, *after])
    assert shifted.p_value == size_drift(before, after).p_value


def test_cuts_are_on_both_sides_of_a_size_that_holds_most_rows():
    # 98% of all sets have one label, and no share of LEVELS is inside the empty ones: they are looked at all the same.
    drift = size_drift([5, 990, 5], [60, 939, 1])
    assert (drift.cuts, drift.size, drift.drifted) == (2, 0, True)


# --- the level ------------------------------------------------------------------------------------------------------

POPULATIONS = {
    "mostly one label": [0.02, 0.9, 0.07, 0.01],
    "geometric": 0.35 * 0.65 ** np.arange(40),
    "wide, sparse": np.ones(1000),
    "rare": [0.999, 0.001],
}


def assert_level_is_kept(p_values):
    for level in (0.01, 0.05, 0.2):
        # at the level, more alarms than this have a probability of one in ten thousand
        assert np.count_nonzero(p_values <= level) <= binom.isf(1e-4, len(p_values), level)


@pytest.mark.long
@pytest.mark.parametrize(("n_before", "n_after"), [(10, 10), (50, 50), (1000, 10), (200, 200_000)])
@pytest.mark.parametrize("population", POPULATIONS)
def test_no_more_false_alarms_than_the_level(population, n_before, n_after):
    trials, rng = 2000, np.random.default_rng([n_before, n_after])
    shares = np.asarray(POPULATIONS[population]) / np.sum(POPULATIONS[population])
    before, after = (rng.multinomial(n, shares, size=trials) for n in (n_before, n_after))
    p_values = np.array([size_drift(b, a).p_value for b, a in zip(before, after, strict=True)])
    assert_level_is_kept(p_values)


POOL, POOL_LABELS = generated(20_000, 20, signal=0.5, seed=8)


@cache
def places_of_scores(method):
    """Whole numbers in the order of the scores of all labels of all rows, (n, C)."""
    pairs = score_matrix(POOL, resolve(method), 4.0, Randomness(0))
    return np.unique(pairs, return_inverse=True)[1].reshape(POOL.shape)


@pytest.mark.long
@pytest.mark.parametrize("method", ["lac", "raps"])
@pytest.mark.parametrize(("n_conformal", "n_fresh"), [(30, 500), (100, 100), (300, 1000)])
def test_conformal_rows_as_reference_keep_the_level(method, n_conformal, n_fresh):
    """The whole procedure: the threshold is found on the rows whose sizes are the reference.

    Sizes are counted from scores that were computed once; in every twentieth trial they must be the classifier's.
    """
    trials, rng = 1000, np.random.default_rng(2)
    place, p_values = places_of_scores(method), []
    for trial in range(trials):
        rows = rng.permutation(len(POOL))[: n_conformal + n_fresh]
        conformal = rows[:n_conformal]
        own = np.sort(place[conformal, POOL_LABELS[conformal]])
        sizes = np.count_nonzero(place[rows] <= own[conformal_rank(n_conformal, 0.1) - 1], axis=1)
        if trial % 20 == 0:
            model = ConformalClassifier(method, 0.1, temperature=4.0).fit(POOL[conformal], POOL_LABELS[conformal])
            np.testing.assert_array_equal(sizes, model.set_sizes(POOL[rows]))
        p_values.append(size_drift(np.bincount(sizes[:n_conformal]), np.bincount(sizes[n_conformal:])).p_value)
    assert_level_is_kept(np.array(p_values))


# --- the power ------------------------------------------------------------------------------------------------------


def geometric(rng, mean, rows):
    return np.bincount(rng.geometric(1 / mean, rows))


@pytest.mark.parametrize(("mean", "rows", "found"), [(6.0, 100, 0.95), (9.0, 30, 0.8), (3.9, 1000, 0.95)])
def test_larger_sets_are_found(mean, rows, found):
    rng = np.random.default_rng(4)
    drifts = [size_drift(geometric(rng, 3.0, 1000), geometric(rng, mean, rows)) for _ in range(200)]
    assert np.mean([d.drifted for d in drifts]) >= found
    assert all(d.mean_after > d.mean_before for d in drifts if d.drifted)


def test_ten_rows_can_be_enough():
    # 100 of 1,000 conformal rows have sets of three labels, and 8 of 10 fresh ones: by counting, p < 1e-6. Expected
    # counts of the batch are 9 and 1, and no merging makes them five each.
    drift = size_drift([0, 0, 900, 100], [0, 0, 2, 8])
    low, _ = hypergeometric_tails(100, total=1010, marked=108, drawn=1000)
    assert drift.p_value == pytest.approx(float(2 * low), rel=1e-9)
    assert drift.drifted
    assert chi2_contingency([[900, 100], [2, 8]]).expected_freq.min() < 5


def test_wider_spread_is_found_at_the_same_mean():
    drift = size_drift([20, 80, 800, 80, 20], [100, 200, 400, 200, 100])
    assert drift.mean_before == drift.mean_after == 2
    assert drift.drifted


# --- edges ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [0, 1, 10_000])
def test_one_size_only_is_no_drift(size):
    drift = size_drift(np.bincount([size] * 50), np.bincount([size]))
    assert (drift.p_value, drift.drifted) == (1.0, False)
    assert drift.mean_before == drift.mean_after == size


def test_ten_million_rows_and_ten_thousand_classes():
    rng = np.random.default_rng(0)
    shares = np.exp(-np.arange(10_001) / 800)
    before, after = (rng.multinomial(10_000_000, shares / shares.sum()) for _ in range(2))
    same = size_drift(before, after)
    assert (same.cuts, same.drifted) == (MOST_CUTS, False)
    assert size_drift(before, np.roll(after, 3)).drifted


def test_the_message():
    drift = size_drift([0, 900, 100], [0, 20, 80])
    assert drift.message.startswith(
        "set sizes differ from those of the 1,000 conformal rows: mean 1.8 compared with 1.1"
    )
    assert (
        "80.0% of the sets have more than 1 label, compared with 10.0% (Fisher's exact test at 1 cut" in drift.message
    )
    assert "set sizes look like those of the 50 conformal rows" in size_drift([0, 50], [0, 20]).message


@pytest.mark.parametrize(
    "bad", [[], [0, 0], [1, -1], [[1, 2]], [0.5, 1.0], ["1"], [[1], [1, 2]], 3, None, [2**31, 5], [2**62, 2**62]]
)
@pytest.mark.parametrize("name", ["reference_counts", "batch_counts"])
def test_bad_counts_are_refused(bad, name):
    given_counts = {"reference_counts": [1, 2], "batch_counts": [1, 2], name: bad}
    with pytest.raises(InputError, match=rf"^{name} .*bincount"):
        size_drift(**given_counts)
