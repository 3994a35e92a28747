"""Gaps, derivatives, differences, last index and entropy against mpmath; theorem 4.1, the lemmas, the propositions."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mpmath import mp

from oracle import rounding_bound
from paper.theory import exact
from thermoset import InputError, theory
from thermoset.paper.theory.gaps import finite_logits, log_gaps
from tiers import examples

EXACT = settings(max_examples=examples(200))
TINY = 5e-324


def some_places(n_classes):
    """Every M below C, or for many classes the ends and some between."""
    every = range(1, n_classes)
    return list(every) if n_classes <= 20 else sorted({1, 2, 5, n_classes // 3, n_classes - 2, n_classes - 1})


@EXACT
@given(exact.rows(), exact.two_temperatures)
def test_theorem_4_1_partial_sums_are_strictly_larger_when_cooler(row, pair):
    z, (cool, hot) = exact.ranked(row), pair
    places = list(range(1, len(z)))
    if z[0] == z[-1]:
        assert all(value == 0 for value, _ in exact.gaps(z, cool, hot, places))
    else:
        wrong_by = exact.roundings(z, cool, hot)
        assert set(exact.signs(lambda: exact.gaps(z, cool, hot, places), wrong_by)) == {1}
    for m in some_places(len(z)):
        check = theory.theorem_4_1([row], cool, hot, m)
        assert check.premise.tolist() == [z[0] > z[-1]]
        assert check.conclusion.tolist() == check.premise.tolist()
    assert theory.theorem_4_1([row], cool, hot, len(z)).premise.tolist() == [False]


@EXACT
@given(exact.rows(), exact.two_temperatures)
def test_the_auxiliary_lemma_is_strict_unless_logits_are_equal(row, pair):
    z, (cool, hot) = exact.ranked(row), pair
    check = theory.auxiliary_lemma([row], cool, hot)
    assert check.premise.tolist() == [z[0] > z[-1]]
    assert check.conclusion.all()
    with pytest.raises(InputError, match="cool must be"):
        theory.auxiliary_lemma([row], hot, cool)


@EXACT
@given(exact.rows(), exact.two_temperatures)
def test_gaps_are_right_to_their_last_digits_however_small(row, pair):
    z, (cool, hot) = exact.ranked(row), pair
    if z[0] == z[-1]:
        return
    places = some_places(len(z))
    want = exact.known(lambda: exact.gaps(z, cool, hot, places), exact.roundings(z, cool, hot), digits_of_value=16)
    data = finite_logits([row] * len(places))
    found = log_gaps(data, cool, hot, np.array(places))
    bound = rounding_bound(len(z), exact.widest(z, cool, hot))
    with mp.workdps(40):
        for m, a, b in zip(places, found.tolist(), map(mp.log, want), strict=True):
            assert abs(mp.mpf(a) - b) <= bound + abs(b) * 2.0**-50, (m, a, b)


@EXACT
@given(exact.rows(), exact.not_one)
def test_the_gap_function_its_derivative_and_the_differences(row, t):
    z = exact.ranked(row)
    if z[0] == z[-1]:
        assert not np.any(theory.gap([row], t, 1))
        assert not np.any(theory.difference([row], t))
        return
    places, wrong_by = some_places(len(z)), exact.roundings(z, 1, t)
    relative = rounding_bound(len(z), exact.widest(z, 1, t))
    many = [row] * len(places)
    sign = 1 if t > 1 else -1  # cool and hot change places
    want = exact.known(lambda: exact.gaps(z, min(t, 1), max(t, 1), places), wrong_by, digits_of_value=16)
    with mp.workdps(60):
        for found, value in zip((sign * theory.gap(many, t, places)).tolist(), want, strict=True):
            error = relative + abs(mp.log(value)) * 2.0**-50  # of the logarithm
            assert abs(found - value) <= value * 2 * error + 2 * TINY
        # a difference of two terms, each right to `relative`
        slopes, d = theory.gap_derivative(many, t, places), theory.difference([row], t)[0]
        want = exact.slopes(z, t, places) + exact.differences(z, t)
        for found, (value, scale) in zip([*slopes.tolist(), *d.tolist()], want, strict=True):
            assert abs(found - value) <= scale * 2 * relative + 2 * TINY


@EXACT
@given(exact.rows(), exact.not_one)
def test_lemma_1_signs_of_d_change_once_and_the_last_index_is_where(row, t):
    z = exact.ranked(row)
    found = int(theory.last_index([row], t)[0])
    if z[0] == z[-1]:
        assert found == 0, "equal logits have no s_T"
        assert theory.lemma_1([row], t).silent.tolist() == [0]
        return
    wrong_by = exact.roundings(z, 1, t)
    sign = 1 if t > 1 else -1
    signs = [sign * s for s in exact.signs(lambda: exact.differences(z, t), wrong_by)]
    assert signs[0] == 1
    assert signs[-1] == -1
    assert signs == sorted(signs, reverse=True), "one change of sign"
    assert len(dict(zip(z, signs, strict=True))) == len(set(zip(z, signs, strict=True))), "ties stay together"
    last = signs.count(1)
    if found != last:  # only where p and p_T agree to rounding
        with mp.workdps(60):
            d = exact.differences(z, t)
            apart = slice(min(found, last), max(found, last))
            assert all(abs(value) <= scale * rounding_bound(len(z), exact.widest(z, 1, t)) for value, scale in d[apart])
    assert not len(theory.lemma_1([row], t).violations)


@EXACT
@given(exact.rows(), exact.not_one, st.data())
def test_lemma_2_no_two_gaps_are_further_apart_than_the_one_at_the_last_index(row, t, data):
    z = exact.ranked(row)
    if z[0] == z[-1]:
        return
    cool, hot, c = min(t, 1), max(t, 1), len(z)
    last = exact.last_index(z, t)

    def below_the_peak():
        found = exact.gaps(z, cool, hot, range(1, c + 1))
        peak, room = found[last - 1]
        return [(peak - value, room + scale) for m, (value, scale) in enumerate(found, start=1) if m != last]

    # Gaps have one sign (theorem 4.1) and g(C) = 0, so "all |g(M) - g(L)| <= |g(s)|" is "no |g| is above |g(s)|".
    assert min(exact.signs(below_the_peak, exact.roundings(z, cool, hot))) >= 0
    m, other = (data.draw(st.integers(1, c)) for _ in range(2))
    assert not len(theory.lemma_2([row], t, m, other).violations)
    found = theory.last_index([row], t)
    assert not len(theory.lemma_2([row], t, found, c).violations)
    assert np.array_equal(
        np.abs(theory.gap([row], t, found) - theory.gap([row], t, c)), np.abs(theory.gap([row], t, found))
    )


@EXACT
@given(exact.rows(), exact.not_one, st.data())
def test_the_appendix_bound_holds_strictly_when_the_last_index_is_1(row, t, data):
    z = exact.ranked(row)
    c = len(z)
    m, other = (data.draw(st.integers(1, c)) for _ in range(2))
    assert not len(theory.gap_proposition([row], t, m, other).violations)
    if z[0] == z[-1] or exact.last_index(z, t) != 1:
        return
    assert not len(theory.gap_proposition([row], t, 1, c).violations)
    cool, hot = min(t, 1), max(t, 1)

    def room():
        # by lemma 2 the largest distance is |g(1)|
        w = (c - 1) * mp.exp((mp.mpf(z[1]) - mp.mpf(z[0])) / mp.mpf(hot))
        ((value, scale),) = exact.gaps(z, cool, hot, [1])
        return [(w / (w + 1) - value, w / (w + 1) + scale)]

    (sign,) = exact.signs(room, exact.roundings(z, cool, hot))
    assert sign >= 0
    if sign == 0:  # a flat tail, and a margin so large that no digits show what is left: add up what is not negative
        with mp.workdps(60):
            w = exact.weights(z, hot)
            assert all(x <= w[1] for x in w[2:]), "w / (w + 1) is at least the mass behind the top class, when hot"
            assert exact.tails(exact.weights(z, cool))[1] > 0, "and the gap is smaller by the mass behind it, when cool"


@given(st.floats(0.05, 0.95), st.sampled_from([0.4, 0.5, 2.0]))
@settings(max_examples=examples(50))
def test_a_difference_that_is_zero_ends_s_t(y, t):
    # At T = 2 the weights (1, x, y) at T and their squares at 1 have d_2 = 0 where x = (1 + y^2) / (1 + y). In floating
    # point the logits are near that point: whatever side they are on, both lemmas hold.
    x = (1 + y * y) / (1 + y)
    row = np.log([1, x, y]) * 2
    for near in (row + np.array([0, step, 0]) for step in (-1e-15, 0.0, 1e-15)):
        check = theory.lemma_1([near], t)
        assert check.premise.tolist() == [True]
        assert not len(check.violations)
        if t == 2:
            assert abs(theory.difference([near], t)[0, 1]) < 1e-14


def test_gaps_by_hand():
    # p = (1/2, 1/4, 1/4); at T = 1/2 squares: (4, 1, 1) / 6
    z = np.log([[0.5, 0.25, 0.25]])
    assert theory.gap(z, 0.5, [1])[0] == pytest.approx(1 / 2 - 2 / 3, rel=1e-15)
    assert theory.gap(z, 0.5, 2)[0] == pytest.approx(3 / 4 - 5 / 6, rel=1e-15)
    assert theory.difference(z, 0.5)[0] == pytest.approx([1 / 2 - 2 / 3, 1 / 12, 1 / 12], rel=1e-14)
    # derivative: p_1 tail - p_T,1 tail_T / T = 1/2 * 1/2 - 2 * 2/3 * 1/3 at M = 1
    assert theory.gap_derivative(z, 0.5, 1)[0] == pytest.approx(1 / 4 - 4 / 9, rel=1e-14)
    assert theory.last_index(z, 0.5).tolist() == [1]


def test_the_order_of_classes_and_a_constant_do_not_matter():
    rng = np.random.default_rng(0)
    z = rng.integers(-4000, 4000, size=(20, 30)) / 1024
    moved = rng.permuted(z, axis=1) + 2.0
    for function in (lambda x: theory.gap(x, 1.7, 4), lambda x: theory.difference(x, 0.4), theory.margins):
        assert np.array_equal(function(z), function(moved))


@pytest.mark.parametrize("t", [0.05, 0.5, 2.0, 20.0])
def test_logits_10000_apart_give_no_warnings_and_no_nan(t):
    rows = np.array([[1e4, 0.0, -1e4], [1e4, 1e4, -1e4], [3e4, 1e4, 1e4], [1e308, 0.0, -1e308], [1e-320, 0.0, 0.0]])
    for m in (1, 2, 3):
        for found in (theory.gap(rows, t, m), theory.gap_derivative(rows, t, m)):
            assert np.all(np.isfinite(found))
    assert np.all(np.isfinite(theory.difference(rows, t)))
    assert theory.last_index(rows, t).tolist() == [1, 2, 1, 1, 1]
    assert theory.theorem_4_1(rows, min(t, 1), max(t, 1), 2).explained.tolist() == [0, 1, 2, 3, 4]


def test_float32_and_float16_logits_are_the_numbers_they_are():
    z = np.random.default_rng(0).normal(size=(5, 8)).astype(np.float16)
    for dtype in (np.float32, np.float64):
        assert np.array_equal(theory.gap(z, 1.5, 3), theory.gap(z.astype(dtype), 1.5, 3))


def test_one_m_for_each_row():
    z = np.random.default_rng(0).normal(size=(4, 5))
    each = theory.gap(z, 1.5, [1, 2, 3, 4])
    assert each.tolist() == [theory.gap(z[i : i + 1], 1.5, i + 1)[0] for i in range(4)]
    assert theory.gap(z, 1.5, 0).tolist() == [0.0] * 4
    assert not np.any(theory.gap(z, 1.0, 2))


@EXACT
@given(exact.rows(), exact.two_temperatures)
def test_entropy_rises_strictly_unless_logits_are_equal(row, pair):
    z, (cool, hot) = exact.ranked(row), pair
    if z[0] == z[-1]:
        assert exact.entropy(z, cool) == exact.entropy(z, hot) == 0, "log C at every temperature"
        assert theory.entropy_proposition([row], hot).silent.tolist() == [0]
        return

    def growth():
        one, other = exact.entropy(z, cool), exact.entropy(z, hot)
        return [(other - one, other + one)]

    assert exact.signs(growth, exact.roundings(z, cool, hot)) == [1]
    for t in pair:
        assert theory.entropy_proposition([row], t).explained.tolist() == [0]


@EXACT
@given(exact.rows(), exact.temperatures)
def test_entropy_and_its_slope_against_mpmath(row, t):
    z = exact.ranked(row)
    bound = 4 * rounding_bound(len(z), exact.widest(z, t))
    with mp.workdps(400 if z[0] - z[-1] < 1e-9 else 60):
        k = z.count(z[0])
        want = mp.log(k) + exact.entropy(z, t)
        # a weight below the floating-point range is off by a unit of it, and multiplied by its fall
        below = 5e-324 * len(z) * (1 + exact.widest(z, t))
        assert abs(theory.entropy([row], t)[0] - want) <= want * bound + below
        # the slope by definition: variance of the logits under softmax(z / T), over T^3
        w = exact.weights(z, t)
        total, falls = mp.fsum(w), [mp.mpf(z[0]) - mp.mpf(x) for x in z]
        mean = mp.fsum(a * x for a, x in zip(w, falls, strict=True)) / total
        want = mp.fsum(a * (x - mean) ** 2 for a, x in zip(w, falls, strict=True)) / total / mp.mpf(t) ** 3
        relative = bound + (abs(mp.log(want)) * 2.0**-50 if want else 0)
        assert abs(theory.entropy_slope([row], t)[0] - want) <= want * relative + 1e-323


@pytest.mark.parametrize("t", [0.3, 1.0, 4.0])
def test_the_slope_is_the_derivative(t):
    z = [5.0, 3.0, 2.5, -1.0]
    with mp.workdps(60):
        want = mp.diff(lambda x: exact.entropy(z, x), mp.mpf(t))
    assert theory.entropy_slope([z], t)[0] == pytest.approx(float(want), rel=1e-13)


def test_entropy_by_hand():
    # p = (1/2, 1/4, 1/4): (1/2) ln 2 + (1/2) ln 4
    assert theory.entropy(np.log([[0.5, 0.25, 0.25]]), 1.0)[0] == pytest.approx(1.5 * np.log(2), rel=1e-15)
    assert theory.entropy([[1e4, 0.0, -1e4]], 0.05)[0] == 0.0
    assert theory.entropy_proposition([[1e4, 0.0, -1e4], [1e308, 0.0, -1e308]], 0.05).explained.tolist() == [0, 1]
