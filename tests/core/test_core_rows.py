"""Row arithmetic against mpmath."""

import math

import numpy as np
import pytest
from mpmath import mp
from scipy.stats import kstest
from thermoset.core.exponentials import MOST_NEGATIVE, exp, log_add
from thermoset.core.masses import WeightedRow, log_mass_below, log_weight, rank_gaps, weigh
from thermoset.core.softmax import Moments, confidences, row_moments, softmax
from thermoset.core.sources import ranked, widened
from thermoset.core.uniforms import Randomness, id_keys

UNIT = 2.0**-53


def _points():
    rng = np.random.default_rng(0)
    halves = (np.arange(1, 2000) * 0.5) * math.log(2)  # where the reduced argument changes sign or jumps
    edges = np.concatenate([halves, np.nextafter(halves, 0), np.nextafter(halves, 1e9)])
    tiny = 10.0 ** rng.uniform(-320, 0, 2000)
    x = -np.concatenate(
        [rng.uniform(0, 708, 12_000), rng.uniform(0, 2, 4_000), edges[edges <= 708], tiny, [0.0, 708.0]]
    )
    return np.unique(x)


@pytest.mark.slow
def test_exp_is_within_one_unit_in_the_last_place():
    with mp.workdps(40):
        for x in _points():
            true = mp.exp(mp.mpf(float(x)))
            assert abs(mp.mpf(exp(x)) - true) <= math.ulp(float(true)), x


def test_exp_is_one_at_zero_and_nothing_far_below():
    assert exp(0.0) == 1.0
    assert exp(-0.0) == 1.0
    for x in (np.nextafter(-708.0, -1e9), -709.0, -745.2, -1e4, MOST_NEGATIVE, -np.inf):
        assert exp(x) == 0.0
    assert exp(-708.0) > 0.0


def test_exp_never_falls():
    x = _points()
    values = np.array([exp(one) for one in x])
    assert np.all(np.diff(values) >= 0)
    for start in (
        -1e-3,
        -0.1,
        -0.5 * math.log(2),
        -math.log(2),
        -1.5 * math.log(2),
        -20.25 * math.log(2),
        -300.0,
        -700.0,
    ):
        near = start + np.arange(-200, 201) * math.ulp(start)  # neighbouring floats
        assert np.all(np.diff([exp(one) for one in near]) >= 0)


@pytest.mark.parametrize(("a", "b"), [(0.0, 0.0), (-3.0, 2.0), (1.0, -800.0), (-5000.0, -5001.5), (700.0, 709.0)])
def test_log_add(a, b):
    with mp.workdps(800):
        true = mp.log(mp.exp(mp.mpf(a)) + mp.exp(mp.mpf(b)))
        for one, two in ((a, b), (b, a)):
            assert abs(log_add(one, two) - true) <= 2 * math.ulp(max(1.0, abs(float(true))))


def test_log_add_of_nothing():
    assert log_add(-np.inf, -3.0) == -3.0
    assert log_add(-3.0, -np.inf) == -3.0
    assert log_add(-np.inf, -np.inf) == -np.inf


def _ranked(rng, n_classes, spread, n_masked=0):
    row = np.sort(rng.uniform(-spread, 0, n_classes))
    row[:n_masked] = -np.inf
    return row


def _weights(row, temperature):
    gaps, weight = np.empty(len(row)), np.empty(len(row))
    masked = rank_gaps(row, gaps)
    weigh(gaps, temperature, weight)
    return WeightedRow(gaps, masked, 1.0 / temperature, weight)


@pytest.mark.parametrize("spread", [1.0, 60.0])
@pytest.mark.parametrize("temperature", [0.01, 0.1, 1.0, 100.0])
def test_log_mass_below_is_exact_in_the_deepest_tail(spread, temperature):
    rng = np.random.default_rng(1)
    for n_classes, n_masked in ((2, 0), (7, 0), (40, 0), (40, 11)):
        row = _ranked(rng, n_classes, spread, n_masked)
        weighed = _weights(row, temperature)
        assert weighed.masked == n_masked
        with mp.workdps(40):  # mpmath's exponents have no bottom
            below = mp.mpf(0)
            linear = 0.0
            for position in range(n_classes):
                found = log_mass_below(weighed, position, linear)
                if position <= n_masked:
                    assert found == -np.inf
                else:
                    # C roundings of the sum, |w| 2^-52 in each term, and the logarithm's own
                    w = abs(float(row[position - 1] - row[-1])) / temperature
                    assert abs(mp.mpf(found) - mp.log(below)) <= (n_classes + 4 + 4 * w) * UNIT * 2
                linear += weighed.weight[position]
                if position >= n_masked:
                    below += mp.exp((mp.mpf(row[position]) - mp.mpf(row[-1])) / mp.mpf(temperature))


def test_an_unlikely_class_is_not_a_masked_one():
    row = _weights(np.array([-np.inf, -1e308, 1e308]), 0.01)
    assert row.masked == 1
    assert log_weight(row, 0) == -np.inf
    assert np.isfinite(log_weight(row, 1))
    assert list(row.weight) == [0.0, 0.0, 1.0]


def _exact_softmax(row, temperature):
    top = mp.mpf(max(row))
    e = [mp.mpf(0) if z == -math.inf else mp.exp((mp.mpf(z) - top) / mp.mpf(temperature)) for z in row]
    total = mp.fsum(e)
    return [one / total for one in e]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("temperature", [0.05, 1.0, 30.0])
def test_softmax(temperature, dtype):
    rng = np.random.default_rng(2)
    rows = rng.normal(scale=6, size=(30, 9)).astype(dtype)
    rows[3, 2] = -np.inf
    before = rows.copy()
    probs = np.empty(rows.shape)
    softmax(widened(rows), temperature, probs)
    np.testing.assert_array_equal(rows, before)
    with mp.workdps(50):
        for row, found in zip(rows.astype(float), probs, strict=True):
            for z, p, true in zip(row, found, _exact_softmax([float(z) for z in row], temperature), strict=True):
                # three roundings of the exponent (difference, 1/T, product), one unit of exp, C of the sum, one of the
                # division; 0 below e^-708
                w = (max(row) - z) / temperature
                allowed = (3 * min(w, 708) + 9 + 4) * UNIT
                assert abs(mp.mpf(float(p)) - true) <= allowed * true + mp.exp(-707)
            assert abs(math.fsum(found) - 1) <= 9 * UNIT * 2
    tops = confidences(widened(rows), np.array([7.0, temperature]))
    np.testing.assert_array_equal(tops[1], probs.max(axis=1))


@pytest.mark.parametrize("temperature", [0.05, 1.0, 30.0])
def test_row_moments_are_the_loss_and_its_derivatives(temperature):
    rng = np.random.default_rng(3)
    rows = rng.normal(scale=6, size=(30, 9))
    rows[5, 0] = -np.inf
    labels = rng.integers(1, 9, size=30)
    loss, slope, curvature = np.empty((3, 30))
    inverse = 1 / temperature
    row_moments(rows, labels, inverse, Moments(loss, slope, curvature))
    with mp.workdps(60):
        for i, row in enumerate(rows):
            finite = [mp.mpf(float(z)) for z in row if z != -math.inf]
            top, own = max(finite), mp.mpf(float(row[labels[i]]))

            def nll(b, finite=finite, top=top, own=own):
                return mp.log(mp.fsum(mp.exp((z - top) * b) for z in finite)) - (own - top) * b

            widest = float(top - min(finite))
            unit = (9 + widest * inverse) * 2.0**-50  # the bound of a log-odds: see oracle.rounding_bound
            b = mp.mpf(inverse)
            assert abs(loss[i] - nll(b)) <= unit
            assert abs(slope[i] - mp.diff(nll, b, 1, h=mp.mpf(10) ** -15)) <= widest * unit
            assert abs(curvature[i] - mp.diff(nll, b, 2, h=mp.mpf(10) ** -15)) <= widest**2 * unit


def test_row_moments_of_equal_logits():
    rows = np.full((1, 8), 3.25)
    loss, slope, curvature = np.empty((3, 1))
    row_moments(rows, np.array([4]), 1.7, Moments(loss, slope, curvature))
    # eight equal classes: log 8, and temperature changes nothing
    assert loss[0] == math.log(8)
    assert slope[0] == 0.0
    assert curvature[0] == 0.0


def test_row_moments_of_a_label_on_a_masked_class():
    rows = np.array([[1.0, -np.inf]])
    loss, slope, curvature = np.empty((3, 1))
    row_moments(rows, np.array([1]), 1.0, Moments(loss, slope, curvature))
    assert loss[0] == np.inf


def _uniforms(rows, seed=0):
    return Randomness(seed=seed).block(ranked(rows))


def test_u_is_uniform():
    rng = np.random.default_rng(4)
    for rows in (
        rng.normal(size=(30_000, 5)),
        np.arange(30_000.0)[:, None] * [0.0, 1.0],
        rng.normal(size=(20_000, 2)).astype("f4"),
    ):
        for seed in (0, 1, 2**63):
            u = _uniforms(rows, seed)
            assert u.min() > 0
            assert u.max() < 1
            assert kstest(np.unique(u), "uniform").pvalue > 1e-6  # rows with the same key have the same u


def test_u_of_two_seeds_are_strangers():
    rows = np.random.default_rng(5).normal(size=(20_000, 4))
    one, two = _uniforms(rows, 0), _uniforms(rows, 1)
    assert np.all(one != two)
    # correlation of 20,000 independent pairs: standard deviation 1 / sqrt(20,000) = 0.0071; five of those
    assert abs(np.corrcoef(one, two)[0, 1]) < 0.0354
    assert kstest((one - two) % 1.0, "uniform").pvalue > 1e-6


def test_u_of_neighbouring_rows_are_strangers():
    steps = np.arange(20_000)[:, None] / 157 * [0.0, 1.0, 0.0] + [0.0, 0.0, -1.0]  # one step of the key each
    u = _uniforms(steps)
    assert len(np.unique(u)) == len(u)
    assert abs(np.corrcoef(u[1:], u[:-1])[0, 1]) < 0.0354


MASK = 2**64 - 1


def _splitmix(x):
    x = ((x ^ (x >> 30)) * 0xBF58476D1CE4E5B9) & MASK
    x = ((x ^ (x >> 27)) * 0x94D049BB133111EB) & MASK
    return x ^ (x >> 31)


def _u_by_hand(row, seed):
    """U in whole numbers: a chain over the seed and the keys of the three largest gaps."""
    falling = sorted(row, reverse=True)
    keys = [seed]
    for j in (1, 2, 3):
        there = j < len(falling) and falling[j] != -math.inf
        keys.append(math.floor(157 * min(falling[0] - falling[j], 2**30) + 0.309) + 1 if there else 0)
    state = 0
    for key in keys:
        state = _splitmix(((state ^ key) + 0x9E3779B97F4A7C15) & MASK)
    return ((state >> 12) + 0.5) / 2**52


def test_u_is_the_definition():
    rng = np.random.default_rng(8)
    rows = [*rng.normal(scale=9, size=(200, 6)), *rng.normal(size=(50, 2)), [0.0, -np.inf, 3.0], [1e300, -1e300, 0.0]]
    for row in rows:
        for seed in (0, 7, 2**64 - 1):
            assert _uniforms(np.array([row]), seed)[0] == _u_by_hand([float(z) for z in row], seed)


def test_u_survives_the_last_bits_of_the_logits():
    """Noise of 4e-6, as between batch sizes, moves a key only across an edge: 3 keys, 157 steps, two logits each.

    The expected share of rows with another u is 3 * 157 * E|difference of two noises| = 471 * 4e-6 * 2 / sqrt(pi).
    """
    rng = np.random.default_rng(9)
    rows = rng.normal(scale=4, size=(40_000, 50))
    noisy = rows + rng.normal(scale=4e-6, size=rows.shape)
    changed = np.mean(_uniforms(rows) != _uniforms(noisy))
    expected = 471 * 4e-6 * 2 / math.sqrt(math.pi)
    assert changed < expected + 5 * math.sqrt(expected / 40_000)


def test_u_of_an_id_depends_on_nothing_else():
    rows = np.random.default_rng(10).normal(size=(500, 5))
    keys = id_keys(range(500))
    u = Randomness(seed=3, keys=keys).block(ranked(rows))
    other = Randomness(seed=3, keys=keys).block(ranked(rows + 1e-3 * rows**2))
    np.testing.assert_array_equal(u, other)
    some = Randomness(seed=3, keys=keys).rows(slice(100, 500))
    np.testing.assert_array_equal(some.block(ranked(rows[100:])), u[100:])
    assert kstest(u, "uniform").pvalue > 1e-6
    assert np.all(u != Randomness(seed=4, keys=keys).block(ranked(rows)))


def test_u_ignores_class_order_exact_shifts_and_the_sign_of_zero():
    rng = np.random.default_rng(6)
    rows = rng.integers(-20_000, 20_000, size=(300, 6)) * 2.0**-10
    u = _uniforms(rows)
    np.testing.assert_array_equal(_uniforms(rows[:, rng.permutation(6)]), u)
    np.testing.assert_array_equal(_uniforms(rows + rng.integers(-9999, 9999, size=(300, 1)) * 2.0**-10), u)
    np.testing.assert_array_equal(_uniforms(rows.astype(np.float32)), u)
    zeros = np.where(rows > 0, 0.0, rows)
    np.testing.assert_array_equal(_uniforms(np.where(zeros == 0, -0.0, zeros)), _uniforms(zeros))


def test_u_of_zeros_of_both_signs():
    # -0.0 - 0.0 is -0.0 and 0.0 - -0.0 is 0.0: every mixture of signs is the same row
    rows = np.array([[a, b, -1.0, c] for a in (0.0, -0.0) for b in (0.0, -0.0) for c in (0.0, -0.0)])
    assert len(set(_uniforms(rows))) == 1


def test_u_of_a_masked_row():
    rows = np.array([[-np.inf, 0.0, 1.0], [-np.inf, 5.0, 6.0], [-np.inf, -np.inf, 1.0]])
    u = _uniforms(rows)
    assert u[0] == u[1]
    assert u[0] != u[2]
