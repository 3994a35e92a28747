"""The bound, its minimum, its intervals; theorem 4.4 for every M < C, in mpmath and as the library checks it."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mpmath import mp

from paper.theory import exact
from thermoset import InputError, theory
from tiers import examples

EXACT = settings(max_examples=examples(200))
MANY_CLASSES = [2, 3, 4, 5, 10, 100, 1000]


@given(exact.not_one, st.sampled_from(MANY_CLASSES))
@EXACT
def test_the_bound_is_equation_6(t, c):
    with mp.workdps(50):
        want = exact.bound(t, c)
        # a logarithm, a sum, a quotient and a product, each rounded to half a unit
        assert abs(theory.bound(t, c) - want) <= want * 8 * 2.0**-53


def test_the_bound_takes_arrays_and_is_infinite_at_1():
    grid = np.array([0.5, 1.0, 2.0])
    found = theory.bound(grid, np.array([[10], [100]]))
    assert found.shape == (2, 3)
    assert np.all(np.isposinf(found[:, 1]))
    assert found[1, 2] == theory.bound(2.0, 100)


@pytest.mark.parametrize("c", [*MANY_CLASSES, 10**6, 2**62])
def test_the_critical_temperature_is_where_the_terms_meet_or_the_first_is_smallest(c):
    with mp.workdps(60):
        a = mp.log(c - 1)
        least = mp.findroot(lambda t: mp.log(4 * t) - (t - 1), 3.7)  # derivative of the first term is zero
        want = min(mp.findroot(lambda t: mp.log(4 * t) - (t - 1) * a, 1 + 1.5 / a), least) if c > 3 else least
        found = mp.mpf(theory.critical_temperature(c))
        assert abs(found - want) <= want * 4 * 2.0**-53
        # and that is the minimum over T > 1: b falls before it and rises after it
        steps = [1 + (want - 1) * mp.mpf(k) / 50 for k in range(1, 51)]
        before = [exact.bound(t, c) for t in steps]
        after = [exact.bound(want * (1 + mp.mpf(k) / 10), c) for k in range(60)]
        assert before == sorted(before, reverse=True)
        assert after == sorted(after)


@pytest.mark.parametrize("c", MANY_CLASSES)
def test_the_bound_rises_from_0_on_the_cool_side(c):
    with mp.workdps(40):
        values = [exact.bound(mp.mpf(k) / 200, c) for k in range(1, 200)]
    assert values == sorted(values)
    assert theory.bound(1e-12, c) < 1e-9


@given(st.floats(1e-6, 1e4), st.sampled_from(MANY_CLASSES))
@settings(max_examples=examples(100))
def test_intervals_end_where_the_bound_meets_the_margin(margin, c):
    found = theory.temperature_intervals(margin, c)
    best = theory.critical_temperature(c)
    with mp.workdps(60):
        near = mp.mpf(margin) * mp.mpf(10) ** -14  # b of neighbouring numbers, computed, is this close to b
        ends = [(found.cool_to, 1.0)]
        if margin > theory.bound(best, c):
            ends += [(found.hot_from, 1.0), (found.hot_to, np.inf)]
        else:
            assert np.isnan(found.hot_from)
            assert np.isnan(found.hot_to)
            assert exact.bound(best, c) >= margin * (1 - 1e-14)
        for end, towards in ends:
            inside = float(end)
            assert not np.isnan(inside)
            if np.isinf(inside):
                assert exact.bound(1e308, c) < margin
                continue
            outside = float(np.nextafter(inside, towards))
            assert theory.bound(inside, c) < margin <= theory.bound(outside, c)
            assert exact.bound(inside, c) < margin + near
            assert outside == 1 or exact.bound(outside, c) > margin - near


def test_margins_of_zero_have_no_temperature():
    found = theory.temperature_intervals([0.0, 1e4], 10)
    assert np.isnan(found.cool_to[0])
    assert found.hot_to[1] == np.inf
    assert 0.999 < found.cool_to[1] < 1 < found.hot_from[1] < 1.001


def test_shares_count_margins_above_the_bound():
    rng = np.random.default_rng(0)
    z = 4 * rng.normal(size=(200, 10))
    grid = [0.3, 0.9, 1.0, 1.5, 3.0]
    want = [np.mean(theory.margins(z) > theory.bound(t, 10)) for t in grid]
    assert theory.bound_share(z, grid) == pytest.approx(want, abs=1e-15)
    assert theory.bound_share(z, grid)[2] == 0


@st.composite
def margins_at_the_bound(draw):
    """A temperature and a row whose margin lies at b(T), next to it or above it, with the worst of tails or any."""
    t, c = draw(exact.not_one), draw(st.sampled_from(exact.CLASSES))
    limit = theory.bound(t, c)
    margin = draw(st.sampled_from([limit, np.nextafter(limit, np.inf), limit * (1 + 1e-12), limit + 0.5, 3 * limit]))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    tail = draw(st.sampled_from(["flat", "two", "falling", "steep"]))
    fall = {
        "flat": np.zeros(c - 1),
        "two": 50.0 * (np.arange(c - 1) > c // 2),
        "falling": np.sort(rng.exponential(2, size=c - 1)),
        "steep": 1e3 * np.arange(c - 1),
    }[tail]
    return t, np.concatenate([[margin], -(fall - fall[0])])


@EXACT
@given(margins_at_the_bound())
def test_theorem_4_4_for_every_m_with_margins_at_and_above_the_bound(case):
    t, z = case
    places = range(1, len(z))
    with mp.workdps(60):
        premise = mp.mpf(z[0]) - mp.mpf(z[1]) > exact.bound(t, len(z))
    signs = exact.signs(lambda: exact.slopes(z.tolist(), t, places), exact.roundings(z.tolist(), 1, t))
    right = -1 if t > 1 else 1
    if premise:
        assert set(signs) == {right}
    check = theory.theorem_4_4([z], t)
    assert not len(check.violations), "the bound is not tight: a margin that rounding puts above it is safe as well"
    if z[0] > theory.bound(t, len(z)) * (1 + 1e-14):
        assert check.premise.all()
    for m in {1, 2, len(z) // 2, len(z) - 1} & set(places):
        assert theory.theorem_4_4([z], t, m).conclusion.tolist() == [signs[m - 1] == right]


@EXACT
@given(exact.rows(), exact.not_one)
def test_the_sign_at_m_1_is_the_last_to_turn(row, t):
    z = exact.ranked(row)
    if z[0] == z[-1]:
        return
    signs = exact.signs(lambda: exact.slopes(z, t, range(1, len(z))), exact.roundings(z, 1, t))
    right = -1 if t > 1 else 1
    if signs[0] == right:
        assert set(signs) == {right}
    with mp.workdps(60):
        if mp.mpf(z[0]) - mp.mpf(z[1]) > exact.bound(t, len(z)):
            assert set(signs) == {right}


@pytest.mark.parametrize(("t", "c"), [(1.5, 100), (0.5, 100), (3.0, 10), (1.37, 1000)])
def test_below_the_bound_the_sign_can_be_the_other_one(t, c):
    # so the tests above can fail: a third of the bound is not enough
    z = np.zeros(c)
    z[0] = theory.bound(t, c) / 3
    check = theory.theorem_4_4([z], t)
    assert check.premise.tolist() == [False]
    assert check.conclusion.tolist() == [False]


def test_at_m_equal_to_c_there_is_no_slope():
    z = [[50.0, 0.0, -1.0]]
    assert theory.gap_derivative(z, 1.5, 3).tolist() == [0.0]
    with pytest.raises(InputError, match="the gap of all classes is always 0"):
        theory.theorem_4_4(z, 1.5, 3)
