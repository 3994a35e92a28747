"""Thresholds and p-values of pools of scores, against their definitions in fractions and by counting."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from law import generated
from on_arrays import score_matrix
from thermoset.arrays import pairs
from thermoset.conformal import ConformalClassifier
from thermoset.conformal.calibration_scores import Pools, Weights
from thermoset.levels import conformal_rank, exact_level
from thermoset.scores import SCORES
from thermoset.uniforms import Randomness

LEVELS = st.sampled_from(["0.1", "0.05", "0.18", "0.3", "0.5", "0.999", "0.000001", "1e-9"])


def drawn_scores(rng, n):
    """Scores of which many tie, in value or as pairs."""
    return pairs(rng.integers(0, max(n // 3, 2), n) / 7, rng.integers(0, 3, n))


def thresholds(scores, weights, own, alpha):
    """Those of points with these weights, from one pool."""
    found = Weights.of(weights)
    pool = Pools.of(scores, np.zeros(len(scores), dtype=np.int64), 1, found.steps)
    return pool.thresholds(0, found.round_weights(np.asarray(own)), alpha)


def listed(scores):
    return list(zip(scores.real.tolist(), scores.imag.tolist(), strict=True))


def by_definition(scores, weights, own, alpha):
    """The smallest score whose weights, with all at most as large, are enough; in fractions."""
    every = listed(scores)
    exact = [Fraction(float(w)) for w in weights]
    wanted = (1 - exact_level(alpha)) * (sum(exact) + Fraction(float(own)))
    fits = [q for q in every if sum(w for s, w in zip(every, exact, strict=True) if s <= q) >= wanted]
    return min(fits, default=(np.inf, np.inf))


@given(st.integers(0, 10**6), st.integers(1, 25), LEVELS)
def test_the_definition_in_fractions(seed, n, alpha):
    rng = np.random.default_rng(seed)
    scores, weights = drawn_scores(rng, n), rng.integers(0, 9, n) / 8.0  # eighths are on the grid
    weights[rng.integers(n)] = 1.0
    own = np.array([0.0, 0.125, 0.5, 1.0, 3.0, 100.0])
    expected = [by_definition(scores, weights, w, alpha) for w in own]
    assert listed(thresholds(scores, weights, own, alpha)) == expected


@given(st.integers(0, 10**6), st.integers(1, 400), LEVELS, st.floats(1e-300, 1e300))
def test_equal_weights_give_the_order_statistic(seed, n, alpha, constant):
    scores = drawn_scores(np.random.default_rng(seed), n)
    (found,) = thresholds(scores, np.full(n, constant), [constant], alpha)
    k = conformal_rank(n, alpha)
    assert found == (np.sort(scores)[k - 1] if k <= n else complex(np.inf, np.inf))


def test_the_rank_that_floats_miss():
    scores = pairs(np.arange(149.0), 0.0)  # (149 + 1) * (1 - 0.18) is 123.00000000000001 in floats
    assert thresholds(scores, np.full(149, 0.1), [0.1], 0.18).real.tolist() == [122.0]


@given(st.integers(0, 10**6), st.integers(2, 60))
def test_neither_order_nor_unit_matters(seed, n):
    rng = np.random.default_rng(seed)
    scores, weights, own = drawn_scores(rng, n), rng.random(n) + 0.01, rng.random(8)
    shuffled = rng.permutation(n)
    plain = thresholds(scores, weights, own, 0.2)
    assert thresholds(scores[shuffled], weights[shuffled], own, 0.2).tobytes() == plain.tobytes()
    assert thresholds(scores, 4 * weights, 4 * own, 0.2).tobytes() == plain.tobytes()


def test_a_heavier_point_never_has_a_lower_threshold():
    rng = np.random.default_rng(1)
    found = thresholds(drawn_scores(rng, 200), rng.exponential(size=200) ** 3, np.linspace(0, 20, 500), 0.1)
    assert np.all(found[:-1] <= found[1:])
    assert found[0].real < np.inf


def test_extreme_weights():
    scores = pairs([1.0, 2.0, 3.0], 0.0)
    tiny = np.array([5e-324, 0.0, 5e-324])  # the smallest float is a unit like any other
    assert thresholds(scores, tiny, [0.0, 5e-324, 1e308], 0.5).real.tolist() == [1.0, 3.0, np.inf]
    # floats would add up to infinity
    assert thresholds(scores, np.full(3, 1e308), [0.0, 1e308], 0.5).real.tolist() == [2.0, 2.0]
    # weights that small count for nothing
    assert thresholds(scores, np.array([1.0, 1e-30, 1e-30]), [0.0], 1e-9).real.tolist() == [1.0]


def test_one_row_has_a_threshold_only_for_points_light_enough():
    assert thresholds(pairs([0.25], 0.0), np.array([2.0]), [2.0, 2.0000001], 0.5).real.tolist() == [0.25, np.inf]


@pytest.mark.parametrize(
    ("weights", "effective"), [([3.0] * 8, 8.0), ([1.0, 0.0, 0.0], 1.0), ([1.0, 1.0, 2.0], 16 / 6)]
)
def test_effective_rows(weights, effective):
    assert Weights.of(np.array(weights)).effective_rows == pytest.approx(effective, rel=1e-12)


@pytest.mark.parametrize("n_rows", [1, 2**13 - 1, 2**13, 2**20])
def test_sums_of_the_largest_weights_fit(n_rows):
    assert int(Weights.of(np.ones(n_rows)).steps.sum()) < 2**53


# ---- p-values

pair = st.tuples(st.sampled_from([-np.inf, -1.0, 0.0, 0.5, np.inf]), st.sampled_from([-np.inf, 0.0, 1.0, np.inf]))


@given(st.lists(st.tuples(pair, st.integers(0, 3)), max_size=12), pair, st.integers(1, 3), st.sampled_from([1.0, 0.25]))
def test_p_values_are_what_counting_gives(pool, wanted, own, v):
    """A row of weight 3 counts as three; ties of any kind, in one number or in both."""
    every, steps = [one for one, _ in pool], np.array([w for _, w in pool], dtype=np.int64)
    scores = pairs([one[0] for one in every], [one[1] for one in every])
    made = Pools.of(scores, np.zeros(len(every), dtype=np.int64), 1, steps)
    above = sum(w for one, w in pool if one > wanted)
    tied = sum(w for one, w in pool if one == wanted)
    found = made.p_values(0, pairs([wanted[0]], wanted[1]), own, v)
    assert found[0] == (above + v * (own + tied)) / (int(steps.sum()) + own)


@pytest.mark.parametrize("name", SCORES)
@pytest.mark.parametrize("temperature", [0.01, 1.0])
@pytest.mark.parametrize("allow_empty", [True, False])
@pytest.mark.filterwarnings("ignore::thermoset.errors.CoverageWarning")
def test_p_values_are_ranks_in_the_pool_of_the_class(name, temperature, allow_empty):
    logits, labels = generated(90, 5, signal=0.5)
    fresh = np.vstack([logits[:20], generated(40, 5, seed=1)[0]])  # some tie with rows of the pools
    fresh[25, 2] = -np.inf
    for grouping in (None, "class"):
        model = ConformalClassifier(name, 0.2, temperature, grouping=grouping, allow_empty=allow_empty)
        model.fit(logits, labels)
        kept, own = model.calibration_, model.calibration_.scoring
        matrix = score_matrix(fresh, own.score, own.temperature, Randomness(own.seed))
        found = model.predict_p(fresh)
        for y in range(5):
            pool = kept.scores if grouping is None else kept.scores[kept.labels == y]
            expected = [(1 + np.count_nonzero(pool >= score)) / (len(pool) + 1) for score in matrix[:, y]]
            assert found[:, y].tolist() == expected
