"""u of rows, ids and trials: uniform, independent of each other, and the definition to the last bit."""

import math

import numpy as np
from scipy.stats import kstest

from law import generated
from thermoset.rows import gaps_of, sort_ascending
from thermoset.uniforms import Randomness, id_keys


def gaps(rows):
    return gaps_of(sort_ascending(rows))


def _uniforms(rows, seed=0):
    return Randomness(seed=seed).block(gaps(rows))


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


def test_u_of_two_seeds_are_independent():
    rows = np.random.default_rng(5).normal(size=(20_000, 4))
    one, two = _uniforms(rows, 0), _uniforms(rows, 1)
    assert np.all(one != two)
    # correlation of 20,000 independent pairs: standard deviation 1 / sqrt(20,000) = 0.0071; five of those
    assert abs(np.corrcoef(one, two)[0, 1]) < 0.0354
    assert kstest((one - two) % 1.0, "uniform").pvalue > 1e-6


def test_u_of_neighbouring_rows_are_independent():
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
    u = Randomness(seed=3, keys=keys).block(gaps(rows))
    other = Randomness(seed=3, keys=keys).block(gaps(rows + 1e-3 * rows**2))
    np.testing.assert_array_equal(u, other)
    some = Randomness(seed=3, keys=keys)[slice(100, 500)]
    np.testing.assert_array_equal(some.block(gaps(rows[100:])), u[100:])
    assert kstest(u, "uniform").pvalue > 1e-6
    assert np.all(u != Randomness(seed=4, keys=keys).block(gaps(rows)))


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


def test_the_second_number_of_a_row_is_another_one():
    """v must not depend on u: their ranks do not correlate, and each row keeps its v in any order and batch."""
    rows = gaps(generated(4000, 5)[0])
    u, v = Randomness(3).block(rows), Randomness(3, second=True).block(rows)
    assert abs(np.corrcoef(u, v)[0, 1]) < 5 / np.sqrt(4000)
    np.testing.assert_array_equal(Randomness(3, second=True).block(rows[::-1].copy())[::-1], v)
    keys = np.arange(4000, dtype=np.uint64)
    by_id = [Randomness(3, keys=keys, second=second).block(rows) for second in (False, True)]
    assert abs(np.corrcoef(*by_id)[0, 1]) < 5 / np.sqrt(4000)
