"""Curves that rise and fall: told apart from those that do not, and from chance."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from thermoset.paper.study.claims import rise_and_fall, significant_changes


def noisy(curve, trials=30, noise=0.02, seed=0):
    """Trials of a curve: each is shifted as a whole, which paired differences do not see, and has noise of its own."""
    rng = np.random.default_rng(seed)
    curve = np.asarray(curve, dtype=float)[:, None]
    return curve + rng.normal(size=trials) + noise * rng.normal(size=(len(curve), trials))


HILL = [0.0, 0.5, 1.0, 1.5, 1.2, 0.8, 0.4]


@pytest.mark.parametrize(
    ("curve", "holds", "against"),
    [
        (HILL, True, None),
        ([0.0, 0.5, 1.0, 1.0, 1.0, 0.5, 0.0], True, None),  # a plateau is a peak
        ([0.0, 0.5, 1.0, 1.5, 2.0, 2.5, 3.0], False, None),  # it only rises
        ([3.0, 2.5, 2.0, 1.5, 1.0, 0.5, 0.0], False, None),  # it only falls
        ([0.6, 0.3, 1.0, 1.5, 1.2, 0.8, 0.4], False, (0, 1)),  # falls, rises, falls
        ([0.0, 1.0, 2.0, 1.0, 1.5, 1.2, 0.8], False, (3, 4)),  # two peaks
        ([1.0] * 7, None, None),
    ],
)
def test_shapes(curve, holds, against):
    found = rise_and_fall(noisy(curve))
    assert found.holds is holds
    if holds is not None:
        assert found.peak in np.flatnonzero(np.array(curve) == max(curve))
    assert found.against == against


def test_an_inner_maximum_that_chance_explains_is_no_peak():
    # the old rule: the maximum is inside. Here it is, by a hundredth of the noise.
    values = noisy([1.0, 1.0, 1.0, 1.0 + 1e-3, 1.0, 1.0, 1.0], noise=0.1)
    values[3] += 0.2  # inside for certain
    values[3] -= 0.2 * np.sign(np.arange(30) - 14.5) * 5  # but half of the trials say the opposite
    assert rise_and_fall(values).holds is None


def test_differences_are_paired():
    # trials differ by 1, temperatures by 0.1: unpaired errors (0.18) would hide what every trial shows
    signs = significant_changes(noisy([0.0, 0.1, 0.2], noise=0.001))
    assert signs.tolist() == [[0, 1, 1], [-1, 0, 1], [-1, -1, 0]]


def test_a_flat_curve_shows_a_change_in_at_most_five_of_a_hundred():
    changed = sum(significant_changes(noisy(np.zeros(20), trials=20, seed=seed)).any() for seed in range(300))
    assert changed <= 15 + 3 * np.sqrt(300 * 0.05 * 0.95)  # 5%, and 3 standard deviations of the count


@given(st.lists(st.floats(-5, 5), min_size=3, max_size=8), st.floats(0.1, 10))
def test_upside_down_and_rescaled_curves_have_the_signs_that_follow(curve, scale):
    values = noisy(curve)
    signs = significant_changes(values)
    np.testing.assert_array_equal(signs, -signs.T)
    np.testing.assert_array_equal(significant_changes(-scale * values), -signs)
