"""Evidence from counts: of each part, of many parts, of the mean coverage; and where it changed."""

import math
from itertools import combinations

import mpmath
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import betabinom, binom

from thermoset.errors import InputError
from thermoset.monitor.evidence import (
    SIZES,
    Change,
    change_point,
    closed_testing,
    confidence_sequence,
    coverage_since,
    fixed_evidence,
    mean_evidence,
    part_evidence,
)


@given(st.integers(1, 60), st.data())
def test_evidence_of_counts_has_mean_one_and_falls_with_hits(n, data):
    rank, rows = data.draw(st.integers(1, n)), data.draw(st.integers(1, 80))
    hits = np.arange(rows + 1)
    log_e = part_evidence(hits, rows, rank, n)
    assert (np.diff(log_e) < 1e-12).all()
    mean = (betabinom(rows, rank, n + 1 - rank).pmf(hits) * np.exp(log_e)).sum()
    assert mean == pytest.approx(1.0, rel=1e-9)


@given(st.floats(0.5, 0.99), st.integers(1, 80))
def test_fixed_evidence_has_mean_one_and_falls_with_hits(level, rows):
    hits = np.arange(rows + 1)
    log_e = fixed_evidence(hits, rows, level)
    assert (np.diff(log_e) < 0).all()
    assert (binom(rows, level).pmf(hits) * np.exp(log_e)).sum() == pytest.approx(1.0, rel=1e-9)


def test_evidence_against_a_ratio_of_binomial_likelihoods():
    """Level 1/2: odds of exp(-2 size) to one."""
    c = 1 / (1 + np.exp(2 * SIZES))
    expected = math.log(np.mean(c**3 * (1 - c) ** 7 / 0.5**10))
    assert fixed_evidence(3, 10, 0.5) == pytest.approx(expected, rel=1e-12)


def test_many_conformal_rows_are_a_fixed_probability():
    found = part_evidence([80, 8], [100, 10], 9 * 10**9, 10**10 - 1)
    assert found == pytest.approx(fixed_evidence([80, 8], [100, 10], 0.9), abs=1e-4)


def test_counts_of_ten_millions():
    """Against fifty digits."""
    a, b, hits, rows = 9 * 10**6, 10**6 + 1, 8_995_000, 10**7
    with mpmath.workdps(50):
        mean = mpmath.mpf(a) / (a + b)
        each = []
        for size in SIZES.tolist():
            x = a * mpmath.exp(-mpmath.mpf(size) / mpmath.sqrt(mean * (1 - mean)))
            top = (
                mpmath.loggamma(x + hits) - mpmath.loggamma(x) - mpmath.loggamma(x + b + rows) + mpmath.loggamma(x + b)
            )
            low = (
                mpmath.loggamma(a + hits) - mpmath.loggamma(a) - mpmath.loggamma(a + b + rows) + mpmath.loggamma(a + b)
            )
            each.append(mpmath.exp(top - low))
        expected = float(mpmath.log(mpmath.fsum(each) / len(each)))
    assert part_evidence(hits, rows, a, 10**7) == pytest.approx(expected, abs=1e-5)


def test_parts_broadcast_and_parts_without_rows_are_neutral():
    found = part_evidence([0, 70, 100], [0, 100, 100], [90, 90, 10], [99, 99, 9])
    assert found.shape == (3,)
    assert found[0] == pytest.approx(0.0, abs=1e-12)
    assert found[1] > 3
    assert found[2] == 0.0  # k > n


VALUES = st.lists(st.floats(-5, 8), min_size=1, max_size=8)


@given(VALUES)
def test_closed_testing_against_all_subsets(log_e):
    values = np.exp(log_e)
    others = range(len(values))
    expected = [
        min(values[list(s)].mean() for size in range(1, len(values) + 1) for s in combinations(others, size) if i in s)
        for i in others
    ]
    assert closed_testing(log_e) == pytest.approx(np.log(expected), rel=1e-12, abs=1e-12)


def test_closed_testing_with_ties_nothing_and_giants():
    assert closed_testing([]).shape == (0,)
    assert closed_testing(np.zeros(4)).tolist() == [0.0] * 4
    found = closed_testing([0.0, 5000.0, -5000.0, 1e6])
    assert found[0] == pytest.approx(math.log(0.5))  # with the one that has no evidence at all
    assert (found[[1, 3]] > 500).all()
    assert found[2] <= -500
    many = closed_testing(np.random.default_rng(0).normal(size=100_000))
    assert (many <= 0.0001).all()


def test_confidence_sequences_end_where_evidence_reaches_the_bar():
    hits, rows = np.array([3, 90, 899, 9000, 9_000_000]), np.array([5, 100, 900, 10_000, 10_000_000])
    found = confidence_sequence(hits, rows, 0.05)
    bar = math.log(20)
    for end in found:
        inner = (end > 0) & (end < 1)
        assert mean_evidence(hits, rows, end)[inner] == pytest.approx(bar, abs=1e-4)
        assert (mean_evidence(hits, rows, end)[~inner] < bar).all()
    assert (found.low < hits / rows).all()
    assert (hits / rows < found.high).all()
    assert (np.diff((found.high - found.low)[[0, 1, 3, 4]]) < 0).all()


def test_confidence_sequences_at_the_edges():
    found = confidence_sequence([0, 0, 1000], [0, 1000, 1000], 0.01)
    assert (found.low[0], found.high[0]) == (0.0, 1.0)
    assert found.low[1] == 0.0
    assert found.high[2] == 1.0
    assert found.high[1] == pytest.approx(1 - found.low[2], abs=1e-9)  # the slopes are symmetric


def test_confidence_sequences_are_not_much_wider_than_one_look():
    """One look needs ±1.96 standard deviations; all looks together cost less than a factor of 2.5."""
    for rows in (500, 10_000, 10**6):
        low, high = confidence_sequence(9 * rows // 10, rows, 0.05)
        assert 1 < (high - low) / (2 * 1.96 * math.sqrt(0.09 / rows)) < 2.5


def test_a_change_by_hand():
    """Boundaries after batches 1, 2, 3 have likelihoods that can be compared: only the second has no mixed side."""
    assert change_point([10, 10, 10, 10], [10, 10, 5, 5]) == Change(2, 1.0, 0.5)
    assert change_point([10, 10, 10, 10], [5, 5, 10, 10]) is None
    assert change_point([10, 10, 10, 10], [5, 5, 10, 10], direction="higher") == Change(2, 0.5, 1.0)
    assert change_point([10], [5]) is None
    assert change_point(np.zeros(0, dtype=int), np.zeros(0, dtype=int)) is None
    assert change_point([0, 10, 0, 10, 0], [0, 9, 0, 3, 0]).after == 0.3


@given(st.lists(st.tuples(st.integers(0, 30), st.floats(0, 1)), min_size=2, max_size=12))
def test_a_change_is_the_best_of_all_boundaries(batches):
    rows = np.array([m for m, _ in batches])
    hits = np.array([round(m * share) for m, share in batches])

    def likelihood(h, m):
        return binom.logpmf(h, m, h / m) - binom.logpmf(h, m, 0.5) if m else 0.0

    best = -math.inf
    for b in range(1, len(rows)):
        (h0, m0), (h1, m1) = ((x.sum(), y.sum()) for x, y in ((hits[:b], rows[:b]), (hits[b:], rows[b:])))
        if m0 and m1 and h1 / m1 < h0 / m0:
            best = max(best, likelihood(h0, m0) + likelihood(h1, m1))
    found = change_point(rows, hits)
    if found is None:
        assert best == -math.inf
        return
    b = found.batch
    reached = likelihood(hits[:b].sum(), rows[:b].sum()) + likelihood(hits[b:].sum(), rows[b:].sum())
    assert reached == pytest.approx(best, abs=1e-8)
    assert found.after < found.before


def test_the_coverage_since_a_change_pays_for_the_choice():
    rows, hits = [100] * 5, [90, 91, 80, 79, 80]
    chosen = coverage_since(rows, hits, 2, 0.05)
    fixed = confidence_sequence(239, 300, 0.05 / 12)
    assert chosen == (float(fixed.low), float(fixed.high))
    assert sum(1 / ((b + 1) * (b + 2)) for b in range(10**5)) == pytest.approx(1, abs=1e-4)


def test_counts_that_cannot_be_are_refused():
    for work in (
        lambda: confidence_sequence(5, 3, 0.05),
        lambda: change_point([1, 2], [2, 2]),
        lambda: change_point([1, 2], [1]),
        lambda: part_evidence(5, 3, 9, 10),
        lambda: fixed_evidence(5, 3, 0.9),
        lambda: confidence_sequence(1, 3, 0),
        lambda: fixed_evidence(1, 3, 1.0),
        lambda: part_evidence(1, 3, 0, 10),
    ):
        with pytest.raises(InputError):
            work()
