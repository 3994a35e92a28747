"""Entropy against temperature: strictly rising unless logits are equal."""

import numpy as np
import pytest
from hypothesis import given, settings
from mpmath import mp

from oracle import rounding_bound
from paper.theory import exact
from thermoset import theory
from tiers import examples

EXACT = settings(max_examples=examples(200))


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
