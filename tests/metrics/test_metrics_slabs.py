"""Worst slabs: brute force over all windows, planted slabs, and the exact law of the honest half."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binom, norm

from thermoset import metrics
from thermoset.errors import InputError
from thermoset.metrics.slabs import Window, draw_half, least_rows, sort_along, worst_window


def sets_of(hit):
    """Sets of rows of class 0 that are right or wrong."""
    return np.column_stack([hit, ~hit]), np.zeros(len(hit), dtype=np.int64)


def search(features, directions, missed, least):
    """The worst slab among all rows."""
    return Window(*worst_window(*sort_along(features, directions), missed, least))


def worst_by_hand(value, missed, least):
    """The largest share of misses over all intervals of values that hold enough rows."""
    ends = sorted(set(value))
    shares = [
        Fraction(sum(missed[i] for i in inside), len(inside))
        for a in ends
        for b in ends
        if len(inside := [i for i, v in enumerate(value) if a <= v <= b]) >= least
    ]
    return max(shares, default=None)


@pytest.mark.slow
@given(
    st.lists(st.tuples(st.integers(0, 12), st.booleans(), st.booleans()), min_size=1, max_size=24), st.integers(1, 8)
)
def test_the_worst_window_is_that_of_brute_force(rows, least):
    value, missed, searched = (np.array(column) for column in zip(*rows, strict=True))
    along = sort_along(value.astype(float)[:, None], np.ones((1, 1)))
    found = Window(*worst_window(*along.select(searched), missed, least))
    want = worst_by_hand(value[searched].tolist(), missed[searched].tolist(), least)
    if want is None:
        assert found.rows == 0
        assert len(found.rows_inside(along)) == 0
        return
    assert found.rows >= least
    assert Fraction(found.misses, found.rows) == want
    inside = found.rows_inside(along)
    assert sorted(inside) == [i for i, v in enumerate(value) if found.low <= v <= found.high]
    assert np.count_nonzero(searched[inside]) == found.rows
    assert np.count_nonzero(missed[inside] & searched[inside]) == found.misses


@given(st.integers(0, 2**32), st.integers(1, 40))
def test_of_several_directions_the_worst_is_found(seed, least):
    rng = np.random.default_rng(seed)
    features, missed = rng.normal(size=(60, 3)).round(1), rng.random(60) < 0.3
    directions, order = rng.normal(size=(5, 3)), rng.permutation(60)
    each = [search(features, one[None], missed, least) for one in directions]
    both = [
        search(rows, directions, misses, least)
        for rows, misses in ((features, missed), (features[order], missed[order]))
    ]
    assert both[0] == both[1]
    assert Fraction(both[0].misses, both[0].rows) == max(Fraction(one.misses, one.rows) for one in each)


def test_projections_of_a_row_do_not_depend_on_other_rows():
    rng = np.random.default_rng(0)
    features, directions = rng.normal(size=(50, 7)).astype(np.float32), rng.normal(size=(9, 7))
    whole = sort_along(features, directions)
    projected = directions @ features.T.astype(np.float64)
    np.testing.assert_allclose(whole.value, np.sort(projected, axis=1), atol=1e-12)
    np.testing.assert_allclose(np.take_along_axis(projected, whole.order, axis=1), whole.value, atol=1e-12)
    for i in range(0, 50, 3):
        some = sort_along(features[i : i + 3], directions)
        assert some.value.tobytes() == whole.select((np.arange(50) >= i) & (np.arange(50) < i + 3)).value.tobytes()


def test_by_hand_on_a_line():
    # every row's half is known: rows 4 and 5 of those that search miss, and 3 rows at least make a slab
    value = np.arange(12.0)
    rng = np.random.default_rng(5)
    searched = draw_half(12, np.random.default_rng(5))
    hit = np.ones(12, dtype=bool)
    hit[[4, 5, 6]] = False
    found = metrics.worst_slab(*sets_of(hit), value[:, None], share=0.5, directions=[[1.0]], random_state=rng)
    want = worst_by_hand(value[searched].tolist(), (~hit[searched]).tolist(), 3)
    assert 1 - found.found_coverage == pytest.approx(float(want))
    judged = [i for i in range(12) if not searched[i] and found.low <= i <= found.high]
    assert (found.rows, found.hits) == (len(judged), sum(bool(hit[i]) for i in judged))
    assert found.direction.tolist() == [1.0]


@pytest.mark.slow
def test_a_planted_slab_is_found():
    rng = np.random.default_rng(1)
    features = rng.normal(size=(6000, 4))
    planted = np.array([0.6, -0.8, 0.0, 0.0])
    bad = np.abs(features @ planted - 0.5) < 0.2  # about an eighth of the rows
    hit = rng.random(6000) < np.where(bad, 0.6, 0.93)
    found = metrics.worst_slab(*sets_of(hit), features, random_state=2)
    assert abs(found.direction @ planted) > 0.9
    # honest: what the slab shows on the other half is its own coverage, up to the error of so many rows
    inside = (features @ found.direction >= found.low) & (features @ found.direction <= found.high)
    true = np.where(bad, 0.6, 0.93)[inside].mean()
    assert abs(found.coverage - true) < 4 * np.sqrt(0.25 / found.rows)
    assert found.coverage < 0.75
    assert metrics.worst_slab_coverage(*sets_of(hit), features, random_state=2) == found.coverage


def test_judged_slabs_of_perfect_sets_follow_the_exact_law():
    """Rows are right with probability 0.9 whatever their features: hits of the judged slab are binomial, given it."""
    rng = np.random.default_rng(3)
    rows = hits = found_rows = found_hits = 0
    tails = []
    for seed in range(200):
        features, hit = rng.normal(size=(400, 3)), rng.random(400) < 0.9
        found = metrics.worst_slab(*sets_of(hit), features, directions=30, random_state=seed)
        rows, hits = rows + found.rows, hits + found.hits
        found_rows, found_hits = found_rows + found.found_rows, found_hits + found.found_hits
        # a uniform number from a discrete law
        tails.append(binom.cdf(found.hits - 1, found.rows, 0.9) + rng.random() * binom.pmf(found.hits, found.rows, 0.9))
    z = (hits - 0.9 * rows) / np.sqrt(0.09 * rows)
    assert abs(z) < 4
    # the law itself, not only its mean: 200 uniform numbers, Kolmogorov-Smirnov at 1e-4
    distance = np.abs(np.sort(tails) - (np.arange(200) + 0.5) / 200).max()
    assert distance < np.sqrt(-np.log(1e-4 / 2) / 2 / 200)
    biased = (found_hits - 0.9 * found_rows) / np.sqrt(0.09 * found_rows)
    assert norm.cdf(biased) < 1e-12, "the half that was searched looks worse than it is"


def test_the_seed_decides():
    rng = np.random.default_rng(0)
    features, hit = rng.normal(size=(300, 2)), rng.random(300) < 0.8
    found = [metrics.worst_slab(*sets_of(hit), features, directions=20, random_state=seed) for seed in (0, 0, 1)]
    assert (found[0].low, found[0].high, found[0].hits) == (found[1].low, found[1].high, found[1].hits)
    assert (found[0].low, found[0].high) != (found[2].low, found[2].high)


def test_blocks_of_directions_make_no_difference(monkeypatch):
    rng = np.random.default_rng(0)
    features, hit = rng.normal(size=(300, 2)), rng.random(300) < 0.8
    whole = metrics.worst_slab(*sets_of(hit), features, directions=50)
    monkeypatch.setattr("thermoset.metrics.slabs._ROOM", 1000)  # three directions
    few = metrics.worst_slab(*sets_of(hit), features, directions=50)
    assert few.direction.tobytes() == whole.direction.tobytes()
    assert (few.low, few.high, few.rows, few.hits) == (whole.low, whole.high, whole.rows, whole.hits)


def test_the_least_share_is_read_as_typed():
    assert [least_rows(n, "0.1") for n in (1, 10, 11, 100)] == [1, 1, 2, 10]
    assert least_rows(70, 0.1) == 7  # floats say 8: 0.1 * 70 is a little above 7


@pytest.mark.parametrize(
    ("changed", "word"),
    [
        ({"features": np.zeros((3, 2))}, r"features.*\(4, d\)"),
        ({"features": np.zeros(4)}, "features"),
        ({"features": np.array([[0.0], [1.0], [np.inf], [2.0]])}, r"features\[2, 0\] is inf"),
        ({"features": np.array([[0.0], [1.0], [np.nan], [2.0]])}, r"features\[2, 0\] is nan"),
        ({"share": 0}, "share"),
        ({"share": 1.5}, "share"),
        ({"directions": 0}, "directions"),
        ({"directions": [[1.0, 0.0]]}, r"directions.*\(D, 1\)"),
        ({"random_state": "x"}, "random_state"),
    ],
)
def test_bad_input_is_refused_in_one_line(changed, word):
    given = {"features": np.arange(4.0)[:, None], **changed}
    with pytest.raises(InputError, match=word) as caught:
        metrics.worst_slab(*sets_of(np.ones(4, dtype=bool)), **given)
    assert "\n" not in str(caught.value)


def test_one_row_is_too_few():
    with pytest.raises(InputError, match="at least 2 rows"):
        metrics.worst_slab([[True]], [0], [[1.0]])


@pytest.mark.parametrize("n_rows", [1, 2, 9, 10])
def test_a_slab_is_searched_on_half_of_the_rows(n_rows):
    searched = draw_half(n_rows, np.random.default_rng(0))
    assert searched.sum() - (~searched).sum() == n_rows % 2
