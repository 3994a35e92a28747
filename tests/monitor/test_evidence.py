"""Tests that bet: martingales by exact arithmetic, batches, limits of floats, states."""

import math
from fractions import Fraction

import mpmath
import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from monitored import dropped, kept, law_of
from thermoset import kernels
from thermoset.errors import InputError
from thermoset.kernels import NO_WEALTH
from thermoset.monitor.evidence import SHARE_MIXTURE, SIZES, CoverageTest, HitLaw, RankTest, lower_odds, part_evidence


@st.composite
def laws(draw):
    n = draw(st.integers(1, 40))
    return HitLaw(draw(st.integers(1, n)), n, draw(st.booleans()))


HITS = st.lists(st.booleans(), max_size=30)


def started(law, run_length=1000):
    return CoverageTest.start(law, delta=0.01, run_length=run_length)


def held(test):
    """The wealth of a detector."""
    return float(np.exp(test.detector).sum())


def sides(test):
    return [one for one in (test.under, test.over) if one is not None]


@pytest.mark.slow
@given(laws(), HITS)
def test_the_expectation_of_the_next_value_is_the_value(law, hits):
    test = started(law).after(np.array(hits, dtype=bool))
    p = Fraction(law.rank + sum(hits), law.pool + 1 + len(hits))
    outcomes = [(float(share), test.after([hit])) for share, hit in ((p, True), (1 - p, False))]
    for now, after in zip(sides(test), zip(*[sides(later) for _, later in outcomes], strict=True), strict=True):
        mean = sum(share * math.exp(one.log_e) for (share, _), one in zip(outcomes, after, strict=True))
        assert mean == pytest.approx(math.exp(now.log_e), rel=1e-12)


@given(laws(), HITS)
def test_the_expectation_of_the_detector_grows_by_one_in_a_row(law, hits):
    law = HitLaw(law.rank, law.pool)
    test = CoverageTest.start(law, delta=0.01, run_length=10**12).after(np.array(hits, dtype=bool))
    p = (law.rank + sum(hits)) / (law.pool + 1 + len(hits))
    lower = p * held(test.after([True]).under) + (1 - p) * held(test.after([False]).under)
    assert lower == pytest.approx(held(test.under) + 1, rel=1e-12)


def by_definition(law, hits):
    """The value of the test of too few hits: a sum over all bets and all starts, with fifty digits."""
    with mpmath.workdps(50):
        mean = mpmath.mpf(law.rank) / (law.pool + 1)
        odds = [mpmath.exp(-mpmath.mpf(size) / mpmath.sqrt(mean * (1 - mean))) for size in SIZES.tolist()]
        promised = [mpmath.mpf(law.rank + sum(hits[:t])) / (law.pool + 1 + t) for t in range(len(hits))]

        def won(expected, start=0):
            factors = [(q / p if y else (1 - q) / (1 - p)) for q, p, y in zip(expected, promised, hits, strict=True)]
            return mpmath.fprod(factors[start:])

        def once(r):
            above = [law.rank * r + sum(hits[:t]) for t in range(len(hits))]
            below = [law.pool + 1 - law.rank + t - sum(hits[:t]) for t in range(len(hits))]
            return won([a / (a + b) for a, b in zip(above, below, strict=True)])

        def left(rows):
            return 1 / mpmath.sqrt(1 + mpmath.mpf(rows) / 1000)

        count = mpmath.fsum(once(r) for r in odds) / len(odds)
        if not law.exact:
            return count
        mixture = left(len(hits))
        for r in odds[:4]:
            expected = [r * p / (1 - p + r * p) for p in promised]
            mixture += mpmath.fsum((left(j) - left(j + 1)) * won(expected, j) for j in range(len(hits))) / 4
        return (1 - SHARE_MIXTURE) * count + SHARE_MIXTURE * mixture


@given(laws(), HITS)
def test_values_are_those_of_the_definition(law, hits):
    found = started(law).after(np.array(hits, dtype=bool)).under.log_e
    assert found == pytest.approx(float(mpmath.log(by_definition(law, hits))), rel=1e-10, abs=1e-10)


def test_hand_arithmetic():
    """One conformal row, k = 1 of n + 1 = 2: coverage is uniform, and the first row a hit with probability 1/2.

    With odds r in place of one, a miss has probability 1 / (1 + r) and wins a factor of 2 / (1 + r). The same factor
    goes to Beta(r, 1), whose mean is r / (1 + r).
    """
    r = np.exp(-2 * SIZES)
    after = started(HitLaw(1, 1)).after([False]).under
    start = 1 - 1 / math.sqrt(1.001)
    value = 0.25 * (2 / (1 + r)).mean() + 0.75 * (start * (2 / (1 + r[:4])).mean() + 1 - start)
    assert math.exp(after.log_e) == pytest.approx(value, rel=1e-13)
    assert held(after) == pytest.approx((2 / (1 + r[:4])).mean(), rel=1e-13)


@pytest.mark.parametrize("exact", [True, False])
def test_batches_do_not_matter(exact):
    law = law_of(60, exact=exact)
    hits = dropped(law, 1, 1000, drop=0.4, at=300, seed=1)[0]
    whole = started(law, run_length=50).after(hits)
    assert bool(whole.under.changes) == exact
    by_one = by_some = started(law, run_length=50)
    for hit in hits:
        by_one = by_one.after([hit])
    for some in np.split(hits, [0, 7, 7, 500, 993]):
        by_some = by_some.after(some)
    assert by_one == whole
    assert by_some == whole


def test_batches_of_ranks_do_not_matter():
    rng = np.random.default_rng(2)
    bins, v = rng.integers(0, 5, 1000), rng.random(1000)
    bins[400:] = np.minimum(bins[400:] + 1, 4)
    whole = by_one = RankTest.start([10] * 5, share_of_delta=0.01, run_length=100)
    whole = whole.after(bins, v)
    for t in range(1000):
        by_one = by_one.after(bins[t : t + 1], v[t : t + 1])
    assert by_one == whole
    assert whole.process.changes
    assert whole.seen == tuple(np.bincount(bins, minlength=5).tolist())


def test_a_state_survives_json():
    test = started(law_of(500)).after(kept(law_of(500), 1, 700)[0])
    assert msgspec.json.decode(msgspec.json.encode(test), type=CoverageTest) == test


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("under.once", [0.1]),
        ("under.mixture", [0.1] * 5),
        ("under.detector", []),
        ("under.once", [1e305] * 5),
        ("under.rows", -1),
        ("law.rank", 0),
        ("hits", 10**6),
        ("over", None),
        ("rows", 10**30),
    ],
)
def test_states_that_cannot_be_are_refused(path, value):
    content = msgspec.to_builtins(started(law_of(500)).after([True]))
    *above, last = path.split(".")
    place = content
    for name in above:
        place = place[name]
    place[last] = value
    with pytest.raises(msgspec.ValidationError):
        msgspec.json.decode(msgspec.json.encode(content), type=CoverageTest)


def test_counts_and_rows_agree():
    """Where only counts are bet on, the value after many rows is that of the formula with Gamma functions."""
    law = law_of(200, exact=False)
    hits = dropped(law, 1, 5000, drop=0.1, at=2500, seed=3)[0]
    test = started(law).after(hits)
    assert test.under.log_e == pytest.approx(float(part_evidence(hits.sum(), 5000, law.rank, law.pool)), abs=1e-8)


def test_too_few_rows_for_a_threshold():
    """k > n: the threshold is infinite, every row is a hit, and there is nothing to bet on."""
    for exact in (True, False):
        test = started(HitLaw(9, 8, exact)).after(np.ones(100, dtype=bool))
        assert (test.rows, test.hits, test.under.rows) == (100, 100, 100)
        assert all((one.log_e, one.alarm, one.changes) == (0.0, False, ()) for one in sides(test))
    assert part_evidence(100, 100, 9, 8) == 0.0


@pytest.mark.parametrize("n", [*range(1, 10), 10**7])
@pytest.mark.parametrize("exact", [True, False])
def test_extremes_stay_finite(n, exact):
    """All misses, then all hits, with very few and very many conformal rows, at ranks 1 and n."""
    for rank in {1, n}:
        test = CoverageTest.start(HitLaw(rank, n, exact), delta=0.01, run_length=None)
        for hit in (False, True, False):
            test = test.after(np.full(20_000, hit))
            for one in sides(test):
                assert NO_WEALTH < one.log_e < 1e7
                assert np.isfinite([*one.once, *one.mixture, *one.detector]).all()


@pytest.mark.slow
def test_ten_million_rows_and_then_a_drop():
    """A bet that has lost more than a float can hold still wins it back; here with ten million conformal rows."""
    law, rows = law_of(10**7, exact=False), 10**7
    good = np.ones(rows, dtype=bool)
    good[::10] = False
    test = started(law).after(good)
    counted = float(part_evidence(test.hits, rows, law.rank, law.pool))
    assert test.under.log_e == pytest.approx(counted, abs=1e-4)
    assert min(test.under.once) < -1000
    bad = np.ones(rows // 10, dtype=bool)
    bad[::2] = False
    tried = np.arange(100, len(bad), 100)
    by_formula = part_evidence(test.hits + np.cumsum(bad)[tried - 1], rows + tried, law.rank, law.pool)
    first = int(np.argmax(by_formula > 100))
    assert test.after(bad[: tried[first]]).under.log_e == pytest.approx(by_formula[first], rel=1e-6)
    counted = float(part_evidence(test.hits + bad.sum(), rows + len(bad), law.rank, law.pool))
    assert test.after(bad).under.log_e == pytest.approx(counted, rel=1e-9)
    assert counted > 1000  # wealth that no float holds
    exact = started(law_of(10**7)).after(good)
    assert not exact.under.alarm
    assert exact.after(bad[:5000]).under.alarm


def test_a_change_after_a_long_good_time_is_seen_and_seen_again():
    law = law_of(5000)
    hits = dropped(law, 1, 12_000, drop=0.2, at=8000, seed=4)[0]
    test = started(law, run_length=100_000).after(hits)
    assert 8000 < test.under.crossed < 8300
    assert all(row > 8000 for row in test.under.changes)
    assert len(test.under.changes) > 1
    assert not test.over.alarm


def test_more_hits_than_promised_are_found():
    law = law_of(2000)
    test = started(law).after(dropped(law, 1, 6000, drop=-0.05, at=2000, seed=5)[0])
    assert test.over.alarm
    assert not test.under.alarm


def test_stakes_of_all_rows_sum_to_one():
    assert kernels.left_to_start.py_func(0) == 1.0
    assert kernels.left_to_start.py_func(3000) == 0.5
    assert 0 < kernels.left_to_start.py_func(10**12) < 1e-4


@given(st.lists(st.integers(0, 6), min_size=1, max_size=6).filter(any))
def test_p_values_of_ranks_are_uniform_whatever_ties(pooled):
    """Any of the pooled rows is the last one with the same chance; the intervals of their p-values tile [0, 1]."""
    total = sum(pooled)
    ends = Fraction(0)
    for place in reversed(range(len(pooled))):
        if not pooled[place]:
            continue
        others = np.array([pooled, [0] * len(pooled)])
        others[0, place] -= 1
        low, high = (kernels.smoothed_rank.py_func(others, total - 1, place, v) for v in (0.0, 1.0))
        assert low == pytest.approx(float(ends), abs=1e-15)
        ends += Fraction(pooled[place], total)
        assert high == pytest.approx(float(ends), abs=1e-15)
    assert ends == 1


def test_factors_of_ranks_have_mean_one():
    """All bets are polynomials of degree two in p: three Gauss nodes give their means exactly."""
    nodes, weights = np.polynomial.legendre.leggauss(3)
    begun = RankTest.start([0], share_of_delta=0.01, run_length=10**6)  # no reference: p is v
    after = [begun.after([0], [(1 + x) / 2]).process for x in nodes]
    means = weights / 2 @ np.exp([one.mixture for one in after])
    assert np.allclose(means, (1 - kernels.left_to_start.py_func(1)) / len(means), rtol=1e-13)


def test_lower_odds_are_lower_and_cover_one_to_twenty_points():
    for alpha in (0.01, 0.05, 0.1, 0.3):
        odds = (1 - alpha) / alpha * lower_odds(np.array(1 - alpha))
        lost = 1 - alpha - odds / (1 + odds)
        assert lost[0] < 0.015
        assert lost[-1] > 0.2
        assert (np.diff(lost) > 0).all()
    assert (lower_odds(np.array(1 - 1e-9)) > 0).all()


@pytest.mark.parametrize(
    ("work", "message"),
    [
        (lambda: started(law_of(50)).after([0.5, 1.0]), "hit must be true or false"),
        (lambda: started(law_of(50)).after(np.ones((2, 2), dtype=bool)), "hit must be true or false"),
        (lambda: RankTest.start([0.5], share_of_delta=0.01, run_length=None), "reference must be"),
        (lambda: RankTest.start([5, 5], share_of_delta=0.01, run_length=None).after([2], [0.5]), "from 0 to 1"),
        (lambda: RankTest.start([5, 5], share_of_delta=0.01, run_length=None).after([1], [1.5]), "v must be"),
        (lambda: RankTest.start([5, 5], share_of_delta=0.01, run_length=None).after([1, 1], [0.5]), "v must be"),
    ],
)
def test_bad_input_is_refused(work, message):
    with pytest.raises(InputError, match=message):
        work()
