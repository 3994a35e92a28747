"""Weighted thresholds against their definition in fractions, and against the plain order statistic."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from thermoset.core.levels import conformal_rank, exact_level
from thermoset.core.thresholds import ScorePairs
from thermoset.core.weighted import WeightedScores, WeightGrid

LEVELS = st.sampled_from(["0.1", "0.05", "0.18", "0.3", "0.5", "0.999", "0.000001", "1e-9"])


def drawn_scores(rng, n):
    """Scores of which many tie, in value or as pairs."""
    return ScorePairs(rng.integers(0, max(n // 3, 2), n) / 7, rng.integers(0, 3, n).astype(float))


def by_definition(scores, weights, own, alpha):
    """The smallest score whose weights, with all at most as large, are enough; in fractions."""
    pairs = list(zip(scores.value.tolist(), scores.refine.tolist(), strict=True))
    exact = [Fraction(float(w)) for w in weights]
    wanted = (1 - exact_level(alpha)) * (sum(exact) + Fraction(float(own)))
    fits = [q for q in pairs if sum(w for s, w in zip(pairs, exact, strict=True) if s <= q) >= wanted]
    return min(fits, default=(np.inf, np.inf))


@given(st.integers(0, 10**6), st.integers(1, 25), LEVELS)
def test_the_definition_in_fractions(seed, n, alpha):
    rng = np.random.default_rng(seed)
    scores, weights = drawn_scores(rng, n), rng.integers(0, 9, n) / 8.0  # eighths are on the grid
    weights[rng.integers(n)] = 1.0
    own = np.array([0.0, 0.125, 0.5, 1.0, 3.0, 100.0])
    found = WeightedScores.of(scores, weights).thresholds(own, alpha)
    expected = [by_definition(scores, weights, w, alpha) for w in own]
    assert list(zip(found.value.tolist(), found.refine.tolist(), strict=True)) == expected


@given(st.integers(0, 10**6), st.integers(1, 400), LEVELS, st.floats(1e-300, 1e300))
def test_equal_weights_give_the_order_statistic(seed, n, alpha, constant):
    scores = drawn_scores(np.random.default_rng(seed), n)
    found = WeightedScores.of(scores, np.full(n, constant)).thresholds(np.array([constant]), alpha)
    assert (found.value[0], found.refine[0]) == scores.smallest(conformal_rank(n, alpha))


def test_the_rank_that_floats_miss():
    scores = ScorePairs(np.arange(149.0), np.zeros(149))  # (149 + 1) * (1 - 0.18) is 123.00000000000001 in floats
    found = WeightedScores.of(scores, np.full(149, 0.1)).thresholds(np.array([0.1]), 0.18)
    assert found.value.tolist() == [122.0]


@given(st.integers(0, 10**6), st.integers(2, 60))
def test_neither_order_nor_unit_matters(seed, n):
    rng = np.random.default_rng(seed)
    scores, weights, own = drawn_scores(rng, n), rng.random(n) + 0.01, rng.random(8)
    shuffled = rng.permutation(n)
    plain = WeightedScores.of(scores, weights)
    for other, unit in (
        (WeightedScores.of(scores[shuffled], weights[shuffled]), 1),
        (WeightedScores.of(scores, 4 * weights), 4),
    ):
        for part in ("value", "refine"):
            ours, theirs = (
                getattr(one, part) for one in (plain.thresholds(own, 0.2), other.thresholds(unit * own, 0.2))
            )
            assert np.array_equal(ours, theirs)


def test_a_heavier_point_never_has_a_lower_threshold():
    rng = np.random.default_rng(1)
    found = WeightedScores.of(drawn_scores(rng, 200), rng.exponential(size=200) ** 3)
    places = found.places(np.linspace(0, 20, 500), 0.1)
    assert (np.diff(places) >= 0).all()
    assert places[0] < 200


def test_extreme_weights():
    scores = ScorePairs(np.array([1.0, 2.0, 3.0]), np.zeros(3))
    found = WeightedScores.of(scores, np.array([5e-324, 0.0, 5e-324]))  # the smallest float is a unit like any other
    assert found.thresholds(np.array([0.0, 5e-324, 1e308]), 0.5).value.tolist() == [1.0, 3.0, np.inf]
    found = WeightedScores.of(scores, np.array([1e308, 1e308, 1e308]))  # floats would add up to infinity
    assert found.thresholds(np.array([0.0, 1e308]), 0.5).value.tolist() == [2.0, 2.0]
    found = WeightedScores.of(scores, np.array([1.0, 1e-30, 1e-30]))  # weights that small count for nothing
    assert found.thresholds(np.array([0.0]), 1e-9).value.tolist() == [1.0]


def test_one_row_has_a_threshold_only_for_points_light_enough():
    found = WeightedScores.of(ScorePairs(np.array([0.25]), np.zeros(1)), np.array([2.0]))
    assert found.thresholds(np.array([2.0, 2.0000001]), 0.5).value.tolist() == [0.25, np.inf]


@pytest.mark.parametrize(
    ("weights", "effective"), [([3.0] * 8, 8.0), ([1.0, 0.0, 0.0], 1.0), ([1.0, 1.0, 2.0], 16 / 6)]
)
def test_effective_rows(weights, effective):
    scores = ScorePairs(np.arange(len(weights), dtype=float), np.zeros(len(weights)))
    assert WeightedScores.of(scores, np.array(weights)).effective_rows == pytest.approx(effective, rel=1e-12)


@pytest.mark.parametrize("n_rows", [1, 2**13 - 1, 2**13, 2**30])
def test_sums_of_the_largest_weights_fit(n_rows):
    assert n_rows * 2 ** WeightGrid(1.0, n_rows).bits < 2**53
