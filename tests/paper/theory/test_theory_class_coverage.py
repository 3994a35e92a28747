"""Class coverage against T: finite differences, the exact limit for high temperatures, and the class gap."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from conftest import REAL
from law import generated
from paper.theory.test_theory_slopes import METHODS, plain
from thermoset import ConformalClassifier, Logits, theory
from thermoset.conformal import scores
from thermoset.datasets import load_glyphs
from tiers import examples


def uneven(n_rows, n_classes, seed=0):
    """Classes from hard to easy."""
    z, y = generated(n_rows, n_classes, signal=-0.5, seed=seed)
    z[np.arange(n_rows), y] += np.linspace(-3, 3, n_classes)[y]
    return z / 4, y


def by_class(values, y, c):
    return np.array([values[y == k].mean() for k in range(c)])


@pytest.mark.parametrize("method", METHODS)
@given(st.floats(0.7, 6.0), st.integers(0, 50), st.sampled_from([2, 4, 9]), st.sampled_from([0.05, 0.1, 0.3]))
@settings(max_examples=examples(40))
def test_slopes_are_limits_of_finite_differences_at_fixed_marginal_coverage(method, t, seed, c, alpha):
    z, y = uneven(121, c, seed)
    step, rows = 1e-6, np.arange(121)
    low, here, high = (plain(z, y, s, method, alpha)[1][rows, y] for s in (t - step, t, t + step))
    found = theory.class_coverage(z, y, [t], method=method, alpha=alpha)
    assert found.coverage[0] == pytest.approx(by_class(here, y, c), abs=1e-10)
    if np.any((low == 0) != (high == 0)) or np.any((low == 1) != (high == 1)):
        return  # a kink lies between
    assert found.slope[0] == pytest.approx(by_class((high - low) / (2 * step), y, c), abs=2e-6)


@given(st.floats(0.1, 100), st.integers(0, 10**6), st.sampled_from(METHODS))
@settings(max_examples=examples(60))
def test_what_a_class_gains_others_lose(t, seed, method):
    z, y = uneven(150, 5, seed)
    found = theory.class_coverage(z, y, [t], method=method)
    assert found.counts.tolist() == np.bincount(y, minlength=5).tolist()
    assert (found.counts * found.coverage[0]).sum() == pytest.approx(0.9 * 150, abs=1e-8)
    assert (found.counts * found.slope[0]).sum() == pytest.approx(
        0, abs=1e-9 * np.abs(found.slope[0]).sum() * 150 + 1e-12
    )


def test_a_class_whose_scores_fall_faster_gains():
    # both labels are on top with the same p_1; behind it is one class in the first row, and three in the second
    z = np.log([[0.64, 0.36, 1e-99, 1e-99], [0.12, 0.64, 0.12, 0.12]])
    found = theory.class_coverage(z, [0, 1], [1.0])
    speeds = [0.9 * 0.64 * 0.36 * gap for gap in (np.log(0.64 / 0.36), np.log(0.64 / 0.12))]  # f p_1 (z_1 - mean z)
    want = [(speed - np.mean(speeds)) / 0.64 for speed in speeds]
    assert found.coverage[0, :2].tolist() == pytest.approx([0.9, 0.9])
    assert found.slope[0, :2].tolist() == pytest.approx(want)
    assert want[0] < 0 < want[1]
    assert np.all(np.isnan(found.slope[0, 2:]))


def test_the_gap_and_its_slope():
    z, y = uneven(600, 6)
    t, step = 1.3, 1e-6
    found = theory.class_coverage(z, y, [t - step, t, t + step])
    above = found.coverage - 0.9
    assert found.gap == pytest.approx(np.sqrt((above**2).mean(axis=1)))
    assert found.gap_slope[1] == pytest.approx((found.gap[2] - found.gap[0]) / (2 * step), rel=1e-4)


def test_the_limit_by_hand():
    # ranks 1 1 1 2 | 1 2 3 3 3 3; 9 of 10 labels: ranks 1 and 2 are 6, and 3 of the 4 of rank 3
    z = np.tile([5.0, 4.0, 3.0, 2.0], (10, 1))
    order = {1: [0, 1, 2, 3], 2: [1, 0, 2, 3], 3: [1, 2, 0, 3]}
    y = np.array([0] * 4 + [1] * 6)
    for i, rank in enumerate([1, 1, 1, 2, 1, 2, 3, 3, 3, 3]):
        values = dict(zip(order[rank], [5.0, 4.0, 3.0, 2.0], strict=True))
        z[i] = [values[0], values[1], values[2], values[3]]
        if y[i]:
            z[i, [0, 1]] = z[i, [1, 0]]
    found = theory.rank_limit(z, y)
    assert found.size == pytest.approx(2.75)
    assert found.coverage[:2].tolist() == pytest.approx([1.0, (2 + 4 * 0.75) / 6])
    assert np.all(np.isnan(found.coverage[2:]))
    assert found.gap == pytest.approx(np.sqrt((0.1**2 + (5 / 6 - 0.9) ** 2) / 2))


@given(st.integers(0, 10**6), st.sampled_from([2, 5, 12]), st.sampled_from([0.02, 0.1, 0.5, 0.9]))
@settings(max_examples=examples(60))
def test_at_a_million_degrees_only_ranks_count(seed, c, alpha):
    z, y = uneven(200, c, seed)
    limit = theory.rank_limit(z, y, alpha=alpha)
    for method in ("aps", "raps"):
        near = theory.class_coverage(z, y, [1e6], method=method, alpha=alpha)
        assert near.coverage[0] == pytest.approx(limit.coverage, abs=1e-4, nan_ok=True)
        size = theory.size_slopes(z, y, [1e6], method=method, alpha=alpha).size[0]
        assert size == pytest.approx(limit.size, abs=1e-4)
    # the same as the score that is the rank and u, whose threshold is v + 1
    q, inside = _plain_topk(z, y, alpha)
    assert limit.size == pytest.approx(q, abs=1e-9)
    assert limit.coverage == pytest.approx(by_class(inside, y, c), abs=1e-9, nan_ok=True)


def _plain_topk(z, y, alpha):
    start = scores("topk", z, u=np.zeros(len(z)))[np.arange(len(z)), y] - 1
    knots = np.unique(np.concatenate([start, start + 1]))
    reached = [np.clip(v - start, 0, 1).mean() for v in knots]
    q = np.interp(1 - alpha, reached, knots)
    return q, np.clip(q - start, 0, 1)


def test_a_classifier_at_a_high_temperature_reaches_the_limit():
    # drawn u and an order statistic, at T = 1e6: within five standard errors of the limit, class by class
    z, y = uneven(20_000, 6)
    data, limit = Logits(z, y), theory.rank_limit(z, y)
    sets = ConformalClassifier("aps", temperature=1e6).fit(data).predict_set(data)
    hits = np.asarray(sets)[np.arange(len(y)), y]
    for k in range(6):
        error = np.sqrt(0.25 / np.count_nonzero(y == k))
        assert abs(hits[y == k].mean() - limit.coverage[k]) < 5 * error


def test_classes_of_one_rank_distribution_are_covered_alike_in_the_limit_whatever_their_probabilities():
    rng = np.random.default_rng(0)
    z, y = generated(400, 4, signal=0)
    doubled = np.concatenate([z, z * rng.uniform(0.1, 9, size=(400, 1))])  # the same ranks, other probabilities
    wide = np.full((800, 8), -1e3)
    wide[:400, :4], wide[400:, 4:] = doubled[:400], doubled[400:]
    found = theory.rank_limit(wide, np.concatenate([y, y + 4]))
    assert found.coverage[:4] == pytest.approx(found.coverage[4:])


@pytest.mark.slow
def test_on_glyphs_the_gap_is_least_where_its_slope_is_zero_and_ends_in_the_limit():
    glyphs = load_glyphs().logits
    grid = np.arange(0.6, 4.01, 0.2)
    found = theory.class_coverage(glyphs, temperatures=[*grid, 1e6], method="raps")
    best = found.gap[:-1].argmin()
    assert 0 < best < len(grid) - 1
    assert np.all(found.gap_slope[: best - 2] < 0)
    assert np.all(found.gap_slope[best + 2 : -1] > 0)
    assert found.gap[-1] == pytest.approx(theory.rank_limit(glyphs).gap, abs=1e-5)


@pytest.mark.parametrize("name", REAL)
def test_on_published_logits_the_gap_falls_from_1_rises_later_and_ends_in_the_limit(real, name):
    data = Logits(*real(name))
    found = theory.class_coverage(data, temperatures=[1.0, 1.2, 1.5, 2.0, 3.0, 10.0, 1e7])
    limit = theory.rank_limit(data)
    assert found.gap[-1] == pytest.approx(limit.gap, abs=1e-4)
    assert found.gap[1] < found.gap[0]
    assert found.gap[:5].min() < 0.97 * min(found.gap[0], limit.gap)
    assert np.nanmean(found.coverage[0] < 0.9) > 0.1, "some classes are covered too little at T = 1"
