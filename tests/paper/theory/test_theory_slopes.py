"""Derivatives of expected sizes in T: against finite differences of sizes computed in the plainest way."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import brentq

from conftest import REAL
from law import generated
from thermoset import theory
from thermoset.conformal import scores
from thermoset.datasets import load_glyphs
from tiers import examples

METHODS = ["aps", "raps"]


def intervals(z, temperature, method):
    """Scores of all labels at u = 0 and u = 1, from the library's scores: (n, C) each."""
    return (scores(method, z, temperature=temperature, u=np.full(len(z), u)) for u in (0.0, 1.0))


def plain(z, y, temperature, method="aps", alpha=0.1):
    """Threshold, inside (n, C): the share of u for which each label is in the set. No derivative, no sorting."""
    start, end = intervals(z, temperature, method)
    rows = np.arange(len(z))

    def inside(q):
        return np.clip((q - start) / (end - start), 0, 1)

    q = brentq(lambda q: inside(q)[rows, y].mean() - (1 - alpha), start.min(), end.max(), xtol=1e-15, rtol=1e-15)
    return q, inside(q)


@pytest.mark.parametrize("method", METHODS)
@given(st.floats(0.7, 6.0), st.integers(0, 50), st.sampled_from([2, 5, 12]), st.sampled_from([0.05, 0.1, 0.3]))
@settings(max_examples=examples(40))
def test_the_derivative_is_the_limit_of_finite_differences(method, t, seed, c, alpha):
    z, y = generated(61, c, signal=-0.5, seed=seed)  # 61 (1 - alpha) is no whole number: the threshold is unique
    z = z / 4
    step = 1e-6
    (q0, low), (q1, high) = (plain(z, y, s, method, alpha) for s in (t - step, t + step))
    if np.any((low == 0) != (high == 0)) or np.any((low == 1) != (high == 1)):
        return  # a kink lies between
    found = theory.size_slopes(z, y, [t], method=method, alpha=alpha)
    middle, _ = plain(z, y, t, method, alpha)
    assert found.threshold[0] == pytest.approx(middle, abs=1e-12)
    assert -found.fall_of_threshold[0] == pytest.approx((q1 - q0) / (2 * step), abs=1e-6)
    assert found.size[0] == pytest.approx(plain(z, y, t, method, alpha)[1].sum(axis=1).mean(), abs=1e-10)
    change = (high.sum(axis=1) - low.sum(axis=1)).mean() / (2 * step)
    assert found.slope[0] == pytest.approx(change, abs=2e-5 * (1 + found.density[0]))


def test_the_two_terms_are_what_each_does_alone():
    z, y = generated(300, 8, signal=-0.5)
    z, t, step = z / 4, 1.4, 1e-6
    found = theory.size_slopes(z, y, [t])
    q = found.threshold[0]

    def size(at, threshold):
        start, end = intervals(z, at, "aps")
        return np.clip((threshold - start) / (end - start), 0, 1).sum(axis=1).mean()

    assert found.direct[0] == pytest.approx((size(t + step, q) - size(t - step, q)) / (2 * step), rel=1e-5)
    assert found.density[0] == pytest.approx((size(t, q + step) - size(t, q - step)) / (2 * step), rel=1e-5)
    assert found.through_threshold[0] == -found.density[0] * found.fall_of_threshold[0]
    assert found.slope[0] == pytest.approx(found.direct[0] + found.through_threshold[0], rel=1e-12)


def test_one_row_by_hand():
    # p = (0.64, 0.36) at T = 1, label on top, all of it below q = 0.576 is inside: f = 0.9. A fall of
    # p_1 (z_1 - mean z) = p_1 p_2 (z_1 - z_2) in p_1 lowers the score f p_1, and the threshold follows its only label.
    z = np.log([[0.64, 0.36]])
    found = theory.size_slopes(z, [0], [1.0])
    speed = 0.9 * 0.64 * 0.36 * np.log(0.64 / 0.36)
    assert found.threshold[0] == pytest.approx(0.9 * 0.64)
    assert found.size[0] == pytest.approx(0.9)
    assert found.density[0] == pytest.approx(1 / 0.64)
    assert found.fall_of_scores[0] == pytest.approx(speed)
    assert found.fall_of_threshold[0] == pytest.approx(speed)
    assert found.slope[0] == pytest.approx(0, abs=1e-15)


@given(st.floats(0.05, 50), st.integers(0, 10**6), st.sampled_from(METHODS))
@settings(max_examples=examples(60))
def test_signs_of_the_terms(t, seed, method):
    # theorem 4.1 and corollary 4.2: heads fall with T, thresholds as well
    z, y = generated(80, 6, signal=-0.5, seed=seed)
    found = theory.size_slopes(z, y, [t], method=method)
    assert found.fall_of_scores[0] >= 0
    assert found.fall_of_threshold[0] >= 0
    assert found.direct[0] >= 0 >= found.through_threshold[0]


@pytest.mark.parametrize("c", [0.5, 4.0])
def test_scaled_logits_have_scaled_slopes(c):
    z, y = generated(200, 7, signal=-0.5)
    one, other = theory.size_slopes(z, y, [1.5, 3.0]), theory.size_slopes(c * z, y, [1.5 * c, 3.0 * c])
    assert other.size == pytest.approx(one.size, rel=1e-12)
    assert other.slope * c == pytest.approx(one.slope, rel=1e-9)


def test_low_temperatures_have_slopes_too():
    # thresholds of 1 - 1e-10 and less; at fixed threshold nothing of this is visible in 1 - q as a float
    glyphs = load_glyphs().logits.take(range(500))
    for t in (0.05, 0.1):
        a, b = theory.size_slopes(glyphs, temperatures=[t * (1 - 1e-7), t * (1 + 1e-7)]).size
        assert theory.size_slopes(glyphs, temperatures=[t]).slope[0] == pytest.approx((b - a) / (2e-7 * t), rel=1e-4)


@pytest.mark.slow
def test_on_a_fine_grid_every_turn_is_at_the_flat_top():
    found = theory.size_slopes(load_glyphs().logits, temperatures=np.arange(1.6, 1.8, 0.02))
    assert len(found.peaks)
    at_turns = theory.size_slopes(load_glyphs().logits, temperatures=found.peaks).size
    assert np.all(at_turns > 0.999 * found.size.max())


def slope_by_simpson(found):
    """Integral of the slope over an even grid."""
    h = np.diff(found.temperature)[0]
    weights = np.ones(len(found.slope))
    weights[1:-1:2], weights[2:-1:2] = 4, 2
    return h / 3 * (weights * found.slope).sum()


@pytest.mark.slow
def test_slopes_add_up_to_sizes_and_cross_where_sizes_peak():
    rows = np.random.default_rng(0).permutation(16_720)[:5000]
    found = theory.size_slopes(load_glyphs().logits.take(rows), temperatures=np.linspace(0.5, 5, 46))
    assert slope_by_simpson(found) == pytest.approx(found.size[-1] - found.size[0], abs=0.1)
    (peak,) = found.peaks
    assert abs(peak - found.temperature[found.size.argmax()]) <= 0.1
    assert np.all(found.direct[found.temperature < peak] > -found.through_threshold[found.temperature < peak])
    assert np.all(found.direct[found.temperature > peak] < -found.through_threshold[found.temperature > peak])


@pytest.mark.parametrize("name", REAL)
def test_on_published_logits_the_terms_cross_at_the_measured_peak(real, name):
    z, y = real(name)
    few = np.random.default_rng(0).permutation(len(z))[:1500]
    grid = np.arange(1.0, 6.01, 0.2)
    found = theory.size_slopes(z[few], y[few], grid)
    top = grid[found.size.argmax()]
    assert np.any(np.abs(found.peaks - top) <= 0.2)
    a, slope, b = (
        getattr(theory.size_slopes(z[few], y[few], [t]), kind)[0]
        for t, kind in ((top + 0.5 - 1e-6, "size"), (top + 0.5, "slope"), (top + 0.5 + 1e-6, "size"))
    )
    assert slope == pytest.approx((b - a) / 2e-6, rel=1e-3)
    assert slope < 0
