"""Compiled loops: arithmetic against mpmath, and what is promised about bits."""

import math
from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from mpmath import mp
from numba import njit

from on_arrays import label_scores, predict_sets, predict_sizes, score_matrix
from thermoset import kernels
from thermoset.arrays import as_float64
from thermoset.rows import gaps_of, sort_ascending
from thermoset.scores import SCORES, NeverEmpty
from thermoset.uniforms import Randomness

kernels.start()  # inner functions can be called from compiled ones only then

UNIT = 2.0**-53
TEMPERATURES = (0.01, 0.05, 0.3, 1.0, 2.7, 100.0)
EVERY = [*SCORES.values(), *map(NeverEmpty, SCORES.values())]
ALL = pytest.mark.parametrize("score", EVERY, ids=repr)


@njit
def _exp(x, out):
    for i in range(len(x)):
        out[i] = kernels.exp(x[i])


def exp(x):
    out = np.empty(len(x))
    _exp(x, out)
    return out


@njit
def log_add(a, b):
    return kernels.log_add(a, b)


@njit
def fixed_sum(weights):
    return kernels.fixed_sum(weights)


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
        x = _points()
        for one, found in zip(x.tolist(), exp(x).tolist(), strict=True):
            true = mp.exp(mp.mpf(one))
            assert abs(mp.mpf(found) - true) <= math.ulp(float(true)), one


def test_exp_is_one_at_zero_and_nothing_far_below():
    assert exp(np.array([0.0, -0.0])).tolist() == [1.0, 1.0]
    assert not exp(np.array([np.nextafter(-708.0, -1e9), -709.0, -745.2, -1e4, kernels.FURTHEST, -np.inf])).any()
    assert exp(np.array([-708.0]))[0] > 0.0


def test_exp_never_falls():
    x = _points()
    assert np.all(np.diff(exp(x)) >= 0)
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
        assert np.all(np.diff(exp(near)) >= 0)


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


@given(st.lists(st.floats(0, 1), max_size=40), st.randoms())
def test_a_sum_of_weights_is_the_same_in_any_order(weights, random):
    total = fixed_sum(np.array(weights, dtype=np.float64))
    assert abs(Fraction(total) - sum(map(Fraction, weights))) <= len(weights) * Fraction(2) ** -63 + math.ulp(total)
    for _ in range(3):
        weights.insert(random.randrange(len(weights) + 1), 0.0)  # a class that is masked, or too light to count
        random.shuffle(weights)
        assert fixed_sum(np.array(weights)) == total


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
    kernels.softmax(as_float64(rows), temperature, probs)
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
    tops = np.empty((2, 30))
    kernels.confidences(as_float64(rows), np.array([7.0, temperature]), np.empty(9), tops)
    np.testing.assert_array_equal(tops[1], probs.max(axis=1))


@pytest.mark.parametrize("temperature", [0.05, 1.0, 30.0])
def test_likelihoods_are_the_loss_and_its_derivatives(temperature):
    rng = np.random.default_rng(3)
    rows = rng.normal(scale=6, size=(30, 9))
    rows[5, 0] = -np.inf
    labels = rng.integers(1, 9, size=30)
    inverse = 1 / temperature
    loss, slope, curvature = moments(rows, labels, inverse)
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


def test_likelihoods_of_equal_logits():
    rows = np.full((1, 8), 3.25)
    loss, slope, curvature = moments(rows, np.array([4]), 1.7)
    # eight equal classes: log 8, and temperature changes nothing
    assert loss[0] == math.log(8)
    assert slope[0] == 0.0
    assert curvature[0] == 0.0


def test_likelihoods_of_a_label_on_a_masked_class():
    rows = np.array([[1.0, -np.inf]])
    loss, _, _ = moments(rows, np.array([1]), 1.0)
    assert loss[0] == np.inf


def moments(rows, labels, inverse):
    """NLL and its first two derivatives in 1/T, each (n,)."""
    out = np.empty((3, len(rows)))
    kernels.likelihoods(rows, labels, inverse, out)
    return out


# ---- what is promised about bits


def rows(n, n_classes, seed=0, dtype=np.float64):
    """Rows without ties."""
    rng = np.random.default_rng(seed)
    return np.array([rng.choice(2000, size=n_classes, replace=False) for _ in range(n)]).astype(dtype) / 32


def values(score, gaps, temperature, u):
    """The value of every rank, (n, C)."""
    out = np.empty(gaps.shape)
    kernels.value_matrix(score.terms, temperature, gaps, np.full(len(gaps), u), out)
    return out


@pytest.mark.parametrize("temperature", TEMPERATURES)
@pytest.mark.parametrize("name", ["aps", "raps", "saps", "topk", "lac"])
def test_a_rank_at_1_is_the_next_at_0_and_values_never_fall(name, temperature):
    for seed, scale, n_classes, dtype in ((0, 1, 8, "f8"), (1, 30, 50, "f4"), (2, 3, 1000, "f2"), (3, 0, 7, "f8")):
        logits = (np.random.default_rng(seed).normal(size=(30, n_classes)) * scale).astype(dtype)
        gaps = gaps_of(sort_ascending(logits))
        at = [values(SCORES[name], gaps, temperature, u) for u in (0.0, 2.0**-53, 0.3, 1 - 2.0**-53, 1.0)]
        for lower, higher in pairwise(at):
            assert np.all(lower <= higher)
        assert np.all(at[-1][:, :-1] <= at[0][:, 1:])
        if name in ("aps", "topk"):  # the others add something from one rank to the next
            assert at[-1][:, :-1].tobytes() == at[0][:, 1:].tobytes()


def everything(score, logits, labels, temperature, randomness=None):
    """Scores of all labels and of one, and sets and sizes at three thresholds."""
    randomness = Randomness(seed=3) if randomness is None else randomness
    own = label_scores(logits, labels, score, temperature, randomness)
    q = np.sort(own)[[len(own) // 4, len(own) // 2, -3]][:, None, None]
    sets, sizes = (f(logits, score, temperature, randomness, q) for f in (predict_sets, predict_sizes))
    np.testing.assert_array_equal(sets.sum(axis=2), sizes)
    return score_matrix(logits, score, temperature, randomness), own, sets


@ALL
@pytest.mark.parametrize("temperature", TEMPERATURES)
@pytest.mark.parametrize("dtype", [np.float16, np.float64])
def test_permuting_the_classes_changes_no_bit(score, temperature, dtype):
    logits, labels = rows(60, 33, dtype=dtype), np.arange(60) % 33
    order = np.random.default_rng(1).permutation(33)
    matrix, own, sets = everything(score, logits, labels, temperature)
    other = everything(score, logits[:, order], np.argsort(order)[labels], temperature)
    assert other[0].tobytes() == matrix[:, order].tobytes()
    assert other[1].tobytes() == own.tobytes()
    np.testing.assert_array_equal(other[2], sets[:, :, order])


@ALL
@pytest.mark.parametrize("temperature", TEMPERATURES)
def test_masked_classes_change_no_bit_of_the_others(score, temperature):
    logits, labels = rows(60, 33), np.arange(60) % 33
    places = np.sort(np.random.default_rng(2).integers(0, 34, 11))
    wider = np.insert(logits, places, -np.inf, axis=1)
    kept = np.flatnonzero(np.isfinite(wider[0]))
    matrix, own, sets = everything(score, logits, labels, temperature)
    other = everything(score, wider, kept[labels], temperature)
    assert other[0][:, kept].tobytes() == matrix.tobytes()
    assert other[1].tobytes() == own.tobytes()
    np.testing.assert_array_equal(other[2][:, :, kept], sets)
    assert not np.delete(other[2], kept, axis=2).any()


@ALL
@pytest.mark.parametrize("temperature", TEMPERATURES)
def test_the_same_row_has_the_same_scores_wherever_it_stands(score, temperature):
    logits = np.round(rows(40, 9) / 8)  # whole numbers, with ties
    labels = np.arange(40) % 9
    order = np.random.default_rng(3).permutation(np.tile(np.arange(40), 3))
    for dtype in (np.float16, np.float64):
        matrix, own, _ = everything(score, logits, labels, temperature)
        again = everything(score, logits[order].astype(dtype), labels[order], temperature)
        assert again[0].tobytes() == matrix[order].tobytes()
        assert again[1].tobytes() == own[order].tobytes()


@ALL
@pytest.mark.parametrize("n_classes", [1, 2, 3])
def test_few_classes(score, n_classes):
    if score.name == "margin" and n_classes == 1:
        pytest.skip("there is no other class")
    logits, labels = rows(40, n_classes), np.arange(40) % n_classes
    for temperature in TEMPERATURES:
        matrix, own, sets = everything(score, logits, labels, temperature)
        assert matrix[np.arange(40), labels].tobytes() == own.tobytes()
        np.testing.assert_array_equal(sets, matrix <= np.sort(own)[[10, 20, -3]][:, None, None])


@ALL
def test_no_rows(score):
    empty, q = np.empty((0, 5)), np.zeros((2, 1, 1), dtype=np.complex128)
    assert label_scores(empty, np.empty(0, dtype=np.int64), score, 1.0, Randomness(seed=1)).shape == (0,)
    assert predict_sets(empty, score, 1.0, Randomness(seed=1), q).shape == (2, 0, 5)
    assert predict_sizes(empty, score, 1.0, Randomness(seed=1), q).shape == (2, 0)


@pytest.mark.parametrize("score", SCORES.values(), ids=SCORES)
def test_two_hundred_thousand_classes(score):
    logits = np.random.default_rng(4).normal(size=(12, 200_000)).astype(np.float32) * 3
    ranks = np.array([0, 1, 5, 50, 500, 5000, 0, 1, 2, 3, 100_000, 199_999])
    labels = np.argsort(-logits, axis=1, kind="stable")[np.arange(12), ranks]
    for temperature in (0.05, 1.0):
        randomness = Randomness(seed=3)
        own = label_scores(logits, labels, score, temperature, randomness)
        q = np.sort(own)[[3, 6, 9]]
        sets = predict_sets(logits, score, temperature, randomness, q[:, None, None])
        np.testing.assert_array_equal(sets[:, np.arange(12), labels], own <= q[:, None])
        if score.name != "margin":  # whose top label may be above others
            np.testing.assert_array_equal(sets.sum(axis=2) > ranks, own <= q[:, None])


# ---- small loops


def test_responsibilities_by_hand():
    # shares move from (1/2, 1/2) to (1/4, 3/4): ratios 1/2 and 3/2; the last row is explained by no class
    probs = np.array([[0.5, 0.5], [0.8, 0.2], [0.1, 0.9], [0.0, 0.0]])
    rounder, found = 2.0**52 * 2.0**-36, np.zeros((2, 1))
    kernels.add_responsibilities(probs, np.array([[0.5], [1.5]]), np.ones((4, 1)), rounder, np.empty((2, 1)), found)
    first = 0.25 / 1.0 + 0.4 / 0.7 + 0.05 / 1.4
    assert found[:, 0] == pytest.approx([first, 3 - first], abs=1e-9)
    assert np.all(found * 2.0**36 == np.rint(found * 2.0**36))  # multiples of the unit: sums of blocks are exact


@pytest.mark.parametrize("seed", range(4))
def test_class_summaries_are_what_sorting_gives(seed):
    rng = np.random.default_rng(seed)
    n, n_classes = 20, int(rng.integers(1, 120))
    rows = rng.integers(0, 6, size=(n, n_classes))
    rows[0] = 0
    hits, top, worst = rng.binomial(rows, 0.8).astype(np.float64), *rng.integers(1, n_classes + 1, size=2)
    out, counts = np.empty((6, n)), np.empty(kernels.N_COUNTS, dtype=np.int64)
    kernels.class_summaries(hits, rows, 0.9, int(top), int(worst), np.empty((3, n_classes)), counts, out)
    assert np.isnan(out[:, 0]).all()
    order = rng.permutation(n_classes)
    again = np.empty((6, n))
    mixed = np.ascontiguousarray(hits[:, order]), np.ascontiguousarray(rows[:, order])
    kernels.class_summaries(*mixed, 0.9, int(top), int(worst), np.empty((3, n_classes)), counts, again)
    assert np.array_equal(out, again, equal_nan=True)  # to the last bit, whatever the order of the classes
    for i in range(1, n):
        present = rows[i] > 0
        if not present.any():
            continue
        coverage = np.sort(hits[i][present] / rows[i][present])
        gaps = np.sort(np.abs(coverage - 0.9))[::-1]
        want = [gaps[:top].mean(), gaps.mean(), (gaps**2).mean(), coverage[:worst].mean(), coverage.mean()]
        np.testing.assert_allclose(out[:, i], [*want, (coverage < 0.9).mean()], rtol=1e-14)


def test_logs_of_tails_are_those_of_the_sums():
    rng = np.random.default_rng(5)
    gaps = gaps_of(np.sort(rng.normal(scale=20, size=(5, 12)), axis=1))
    gaps[4, -2:] = -np.inf
    for temperature in (0.05, 1.0, 30.0):
        own, tail = np.empty(gaps.shape), np.empty(gaps.shape)
        kernels.tail_logs(gaps, temperature, np.empty(12), own, tail)
        with mp.workdps(60):
            for i, row in enumerate(gaps):
                weights = [mp.exp(mp.mpf(float(g)) / temperature) if g > -np.inf else mp.mpf(0) for g in row]
                total = mp.fsum(weights)
                for r in range(12):
                    beyond = mp.fsum(weights[r + 1 :]) / total
                    assert tail[i, r] == pytest.approx(float(mp.log(beyond)) if beyond else -math.inf, rel=1e-13)
                    assert own[i, r] == pytest.approx(
                        float(mp.log(weights[r] / total)) if weights[r] else -math.inf, rel=1e-13, abs=1e-13
                    )
