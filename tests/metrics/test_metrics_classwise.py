"""Classwise calibration: hand arithmetic, a naive loop, and what chance shows against simulated labels."""

from fractions import Fraction
from math import comb

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from thermoset.metrics.classwise import _mean_deviation, calibration_of_bins

from thermoset import metrics
from thermoset.core.binning import add_bins, no_bins
from thermoset.errors import InputError


def naive(probs, labels, n_bins):
    """Kull et al. 2019, equation 2: one class, one bin and one row at a time."""
    n, n_classes = probs.shape
    errors = []
    for c in range(n_classes):
        error = 0.0
        for b in range(n_bins):
            rows = [
                i for i in range(n) if b / n_bins < probs[i, c] <= (b + 1) / n_bins or (b == 0 and probs[i, c] == 0)
            ]
            if rows:
                frequency = sum(labels[i] == c for i in rows) / len(rows)
                error += len(rows) / n * abs(frequency - sum(probs[i, c] for i in rows) / len(rows))
        errors.append(error)
    return errors


def drawn(seed, n, n_classes):
    rng = np.random.default_rng(seed)
    logits = 2 * rng.normal(size=(n, n_classes))
    probs = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    return probs, rng.integers(0, n_classes, n)


def test_by_hand():
    probs = [[0.5, 0.25, 0.25], [0.5, 0.25, 0.25], [0.0, 0.0, 1.0], [0.0, 0.5, 0.5]]
    # two bins, (0, 1/2] and (1/2, 1]. Class 0: mass 1, and 1 row is of it: gap 0. Class 1: mass 1, 2 rows: 1.
    # Class 2: first bin mass 1, no row: 1; second bin mass 1, 1 row: 0.
    found = metrics.classwise_calibration(probs, [0, 1, 2, 1], n_bins=2)
    assert found.error.tolist() == [0.0, 1 / 4, 1 / 4]
    assert found.ece == pytest.approx(1 / 6)
    assert metrics.classwise_calibration_error(probs, [0, 1, 2, 1], n_bins=2) == found.ece


@given(st.integers(0, 2**32), st.integers(1, 50), st.integers(1, 6), st.sampled_from([1, 2, 10, 15]))
def test_against_a_naive_loop(seed, n, n_classes, n_bins):
    probs, labels = drawn(seed, n, n_classes)
    found = metrics.classwise_calibration(probs, labels, n_bins)
    assert found.error == pytest.approx(naive(probs, labels, n_bins), abs=1e-9)  # sums have ten digits


@given(st.integers(1, 100_000), st.integers(0, 2**32))
def test_edges_of_bins_belong_to_the_bin_below(n_bins, seed):
    rng = np.random.default_rng(seed)
    k = int(rng.integers(0, n_bins + 1))
    p = k / n_bins
    counts = no_bins(2, n_bins)
    add_bins(np.array([[p, 1 - p]]), np.array([0]), counts)
    assert counts.rows[0].nonzero()[0].tolist() == [max(k - 1, 0)]
    table = metrics.reliability_from_confidence([p], [True], n_bins)
    assert np.array_equal(table.count, counts.rows[0])


@given(st.integers(0, 2**32), st.randoms(use_true_random=False))
def test_the_order_of_rows_and_of_classes_does_not_matter(seed, random):
    probs, labels = drawn(seed, 40, 5)
    rows, classes = list(range(40)), list(range(5))
    random.shuffle(rows)
    random.shuffle(classes)
    found = metrics.classwise_calibration(probs, labels)
    mixed = metrics.classwise_calibration(probs[rows][:, classes], np.argsort(classes)[labels[rows]])
    assert np.array_equal(mixed.error, found.error[classes])
    assert np.array_equal(mixed.chance, found.chance[classes])


def test_blocks_add_up_to_the_bit():
    probs, labels = drawn(0, 1000, 7)
    whole, parts = no_bins(7, 15), no_bins(7, 15)
    add_bins(probs, labels, whole)
    for start in reversed(range(0, 1000, 33)):
        add_bins(probs[start : start + 33], labels[start : start + 33], parts)
    for one, other in zip(whole, parts, strict=True):
        assert np.array_equal(one, other)
    assert calibration_of_bins(whole).error.tobytes() == metrics.classwise_calibration(probs, labels).error.tobytes()


@given(st.integers(1, 60), st.integers(0, 20))
def test_the_mean_deviation_of_a_binomial_is_its_sum(n, k):
    p = Fraction(k, 20)
    want = sum(abs(x - n * p) * comb(n, x) * p**x * (1 - p) ** (n - x) for x in range(n + 1))
    got = _mean_deviation(np.array([[n]]), np.array([[float(p)]]))
    assert got[0, 0] == pytest.approx(float(want), rel=1e-10, abs=1e-12)


def test_what_chance_shows_is_what_labels_drawn_from_the_probabilities_show():
    probs, _ = drawn(3, 500, 8)
    rng, edges = np.random.default_rng(4), probs.cumsum(axis=1)
    errors = []
    for _ in range(400):
        labels = np.minimum((edges < rng.random((500, 1))).sum(axis=1), 7)
        errors.append(metrics.classwise_calibration(probs, labels).ece)
    mean, error = np.mean(errors), np.std(errors, ddof=1) / 20
    chance = metrics.classwise_calibration(probs, labels).ece_chance
    assert mean - 4 * error < chance < 1.02 * mean + 4 * error  # an upper bound, within two percent


def test_ece_of_one_class_alone_is_that_of_its_confidence():
    """With two classes and one bin, the error of both is | mean probability - frequency |."""
    probs, labels = drawn(1, 80, 2)
    want = abs(probs[:, 0].mean() - (labels == 0).mean())
    assert metrics.classwise_calibration(probs, labels, 1).error == pytest.approx([want, want], abs=1e-9)


def test_bad_input_is_refused():
    with pytest.raises(InputError, match="n_bins must be a whole number"):
        metrics.classwise_calibration_error([[1.0]], [0], 0)
    with pytest.raises(InputError, match="rows of probs must sum to one"):
        metrics.classwise_calibration_error([[0.5, 0.2]], [0])
