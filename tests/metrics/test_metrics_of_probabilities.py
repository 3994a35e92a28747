"""Probability metrics: hand arithmetic, plain-Python references, scikit-learn."""

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import brier_score_loss, log_loss, top_k_accuracy_score

from parts import since_sklearn
from thermoset import metrics
from thermoset.errors import InputError


@st.composite
def problems(draw, denominator=64):
    """Probabilities on a grid of 1/64 (exact in every float type, with ties and values on bin edges) and labels."""
    n, n_classes = draw(st.integers(1, 30)), draw(st.integers(2, 6))
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    cuts = np.sort(rng.integers(0, denominator + 1, (n, n_classes - 1)), axis=1)
    probs = np.diff(cuts, axis=1, prepend=0, append=denominator) / denominator
    return probs, rng.integers(0, n_classes, n)


def reference_bins(probs, labels, n_bins):
    """Rows of each bin (b/B, (b+1)/B] as (confidence, correct), in fractions."""
    bins = [[] for _ in range(n_bins)]
    for row, label in zip(probs, labels, strict=True):
        values = [Fraction(float(p)) for p in row]
        confidence = max(values)
        for b in range(n_bins):
            if (Fraction(b, n_bins) < confidence or b == 0) and confidence <= Fraction(b + 1, n_bins):
                bins[b].append((confidence, values.index(confidence) == label))
    return bins


@given(problems(), st.integers(1, 20))
def test_reliability_and_ece_agree_with_fractions(problem, n_bins):
    probs, labels = problem
    bins = reference_bins(probs, labels, n_bins)
    assert sum(map(len, bins)) == len(labels)
    table = metrics.reliability_table(probs, labels, n_bins)
    assert table.count.tolist() == [len(rows) for rows in bins]
    ece = Fraction(0)
    for b, rows in enumerate(bins):
        if not rows:
            assert math.isnan(table.confidence[b])
            assert math.isnan(table.accuracy[b])
            continue
        confidence = sum(c for c, _ in rows) / len(rows)
        accuracy = Fraction(sum(right for _, right in rows), len(rows))
        assert table.confidence[b] == pytest.approx(float(confidence), abs=1e-14)
        assert table.accuracy[b] == pytest.approx(float(accuracy), abs=1e-14)
        assert table.gap[b] == pytest.approx(float(confidence - accuracy), abs=1e-14)
        ece += abs(confidence - accuracy) * len(rows) / len(labels)
    assert table.ece == pytest.approx(float(ece), abs=1e-13)
    assert metrics.expected_calibration_error(probs, labels, n_bins) == table.ece


@pytest.mark.parametrize("n_bins", [10, 15, 20, 7])
def test_a_confidence_on_an_edge_belongs_to_the_bin_below(n_bins):
    # (lo, hi] as in Guo et al.: b/B is the closed end of bin b - 1, and the next float up opens bin b.
    for b in range(1, n_bins):
        edge = float(Fraction(b, n_bins))
        table = metrics.reliability_from_confidence([edge, np.nextafter(edge, 1)], [True, True], n_bins)
        assert np.flatnonzero(table.count).tolist() == [b - 1, b]
        assert table.edges[b] == edge


def test_the_outer_edges():
    table = metrics.reliability_from_confidence([0.0, 1.0], [False, True], n_bins=4)
    assert table.count.tolist() == [1, 0, 0, 1]
    assert table.ece == 0


def test_ece_by_hand():
    # 10 bins. Confidences .55 and .6 share (.5, .6]: mean .575, accuracy 1/2, gap .075, 2 rows.
    # .9 is alone in (.8, .9]: wrong, gap .9. ECE = (2 * .075 + .9) / 3 = .35.
    probs = [[0.55, 0.45], [0.4, 0.6], [0.9, 0.1]]
    assert metrics.expected_calibration_error(probs, [0, 0, 1], n_bins=10) == pytest.approx(0.35, abs=1e-15)


def test_ece_of_a_perfectly_calibrated_constant_is_zero():
    # Confidence 3/4 on every row, right on 3 of every 4.
    probs = np.tile([0.75, 0.25], (400, 1))
    assert metrics.expected_calibration_error(probs, np.tile([0, 0, 0, 1], 100)) == 0


def test_one_bin_is_the_difference_of_means():
    rng = np.random.default_rng(0)
    probs, labels = rng.dirichlet(np.ones(5), 200), rng.integers(0, 5, 200)
    expected = abs(probs.max(axis=1).mean() - metrics.top_k_accuracy(probs, labels))
    assert metrics.expected_calibration_error(probs, labels, n_bins=1) == pytest.approx(expected, abs=1e-14)


@given(problems())
def test_nll_and_brier_agree_with_loops(problem):
    probs, labels = problem
    rows = range(len(labels))
    own = [Fraction(float(probs[i, labels[i]])) for i in rows]
    nll = math.fsum(-math.log(p) if p else math.inf for p in own) / len(labels)
    assert metrics.negative_log_likelihood(probs, labels) == pytest.approx(nll, rel=1e-13, abs=1e-15)
    brier = sum((Fraction(float(p)) - (j == labels[i])) ** 2 for i in rows for j, p in enumerate(probs[i]))
    assert metrics.brier_score(probs, labels) == pytest.approx(float(brier / len(labels)), abs=1e-14)


@pytest.mark.parametrize("n_classes", [2, 7])
def test_agreement_with_scikit_learn(n_classes):
    rng = np.random.default_rng(3)
    probs, labels = rng.dirichlet(np.ones(n_classes), 500), rng.integers(0, n_classes, 500)
    names = np.arange(n_classes)
    assert metrics.negative_log_likelihood(probs, labels) == pytest.approx(
        log_loss(labels, probs, labels=names), rel=1e-12
    )
    if n_classes > 2:  # scikit-learn's top-k wants one column for two classes
        for k in (1, 3, n_classes - 1):
            peer = top_k_accuracy_score(labels, probs, k=k, labels=names)
            assert metrics.top_k_accuracy(probs, labels, k) == pytest.approx(peer, abs=1e-15)


@since_sklearn(1, 7)
@pytest.mark.parametrize("n_classes", [2, 7])
def test_brier_agrees_with_scikit_learn(n_classes):
    rng = np.random.default_rng(3)
    probs, labels = rng.dirichlet(np.ones(n_classes), 500), rng.integers(0, n_classes, 500)
    peer = brier_score_loss(labels, probs, labels=np.arange(n_classes), scale_by_half=False)
    assert metrics.brier_score(probs, labels) == pytest.approx(peer, rel=1e-12)


def test_brier_over_several_blocks_of_rows(monkeypatch):
    # Uniform over 4 classes: 3 * (1/4)^2 + (3/4)^2 = 3/4, for every row and so for the mean.
    monkeypatch.setattr("thermoset.metrics.of_probabilities.BLOCK", 12)
    assert metrics.brier_score(np.full((10, 4), 0.25), np.arange(10) % 4) == 0.75


def test_certainty():
    sure = np.eye(3)
    assert metrics.negative_log_likelihood(sure, [0, 1, 2]) == 0
    assert metrics.negative_log_likelihood([[1 + 1e-7, 0]], [0]) == 0
    assert math.copysign(1, metrics.negative_log_likelihood(sure, [0, 1, 2])) == 1  # 0.0, not -0.0
    assert metrics.negative_log_likelihood(sure, [0, 1, 1]) == math.inf
    assert metrics.brier_score(sure, [0, 1, 2]) == 0
    assert metrics.brier_score(sure, [1, 2, 0]) == 2


@pytest.mark.slow
@given(problems(), st.data())
def test_top_k_is_a_stable_sort(problem, data):
    probs, labels = problem
    k = data.draw(st.integers(1, probs.shape[1]))
    ranked = [sorted(range(len(row)), key=lambda j, row=row: (-row[j], j)) for row in probs]
    hits = sum(label in order[:k] for label, order in zip(labels, ranked, strict=True))
    assert metrics.top_k_accuracy(probs, labels, k) == hits / len(labels)


def test_top_k_takes_logits_with_masked_classes():
    logits = [[-math.inf, 2.0, -math.inf], [0.0, -math.inf, -1.0]]
    assert metrics.top_k_accuracy(logits, [2, 2], k=2) == 0.5  # ranks 3 (tie of -inf, by index) and 2
    assert metrics.top_k_accuracy(logits, [2, 2], k=3) == 1


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_a_softmax_of_any_precision_is_accepted(dtype):
    logits = np.random.default_rng(0).normal(size=(50, 1000)).astype(dtype)
    weights = np.exp(logits)
    probs = weights / weights.sum(axis=1, keepdims=True, dtype=dtype)
    labels = np.zeros(50, dtype=int)
    probs.flags.writeable = labels.flags.writeable = False
    wide = probs.astype(np.float64)
    wide /= wide.sum(axis=1, keepdims=True)
    tolerance = 4 * float(np.finfo(dtype).eps) ** 0.5
    for metric in (metrics.expected_calibration_error, metrics.negative_log_likelihood, metrics.brier_score):
        assert metric(probs, labels) == pytest.approx(metric(wide, labels), abs=tolerance)


def test_tables_and_the_error_have_one_number_of_bins():
    rng = np.random.default_rng(3)
    probs = rng.dirichlet(np.ones(5), size=500)
    labels = rng.integers(0, 5, 500)
    table = metrics.reliability_table(probs, labels)
    assert len(table.count) == 15
    assert table.ece == metrics.expected_calibration_error(probs, labels)
    correct = probs.argmax(axis=1) == labels
    assert metrics.reliability_from_confidence(probs.max(axis=1), correct).ece == table.ece


PROBABILITY_METRICS = [
    metrics.expected_calibration_error,
    metrics.reliability_table,
    metrics.negative_log_likelihood,
    metrics.brier_score,
]


@pytest.mark.parametrize("metric", PROBABILITY_METRICS)
@pytest.mark.parametrize(
    ("probs", "labels", "message"),
    [
        ([[2.0, -1.0]], [0], r"must lie in \[0, 1\]; probs\[0, 0\] is 2\.0, 2 such values.*logits.*TemperatureScaler"),
        ([[1.0005, -0.0005]], [0], r"must lie in \[0, 1\]; probs\[0, 1\] is -0\.0005, 1 such values"),
        ([[0.5, 0.5], [0.5, 0.25]], [0, 0], r"row 1 sums to 0\.75, 1 such rows.*softmax"),
        ([[0.5, 0.5], [math.nan, 0.5]], [0, 0], r"probs\[1, 0\] is nan; 1 such values"),
        ([0.5, 0.5], [0, 1], r"shape \(rows, classes\).*got \(2,\)"),
        (np.zeros((0, 2)), [], r"at least one row and one class; got \(0, 2\)"),
        ([["a", "b"]], [0], r"probs must be an array of real numbers"),
        ([[0.5, 0.5]], [0, 1], r"labels must have shape \(1,\) to match probs \(1, 2\); got \(2,\)"),
        ([[0.5, 0.5]], [2], r"labels\[0\] is 2; .*0\.\.1"),
    ],
)
def test_bad_probabilities(metric, probs, labels, message):
    with pytest.raises(InputError, match=message):
        metric(probs, labels)


@pytest.mark.parametrize("n_bins", [0, -3, 2.5, True, "ten", 10**12, 10**400])
def test_bad_number_of_bins(n_bins):
    with pytest.raises(InputError, match="n_bins must be a whole number from 1 to 100,000"):
        metrics.expected_calibration_error([[0.5, 0.5]], [0], n_bins=n_bins)


@pytest.mark.parametrize(
    ("confidence", "correct", "message"),
    [
        ([0.5], [True, False], r"the same shape.*got \(1,\) and \(2,\)"),
        ([], [], r"at least one row"),
        ([0.5], [1], r"correct booleans; got dtypes float64 and int64"),
        ([1.5, 0.5], [True, True], r"confidence must lie in \[0, 1\]; got values from 0\.5 to 1\.5"),
        ([math.nan, 0.5], [True, True], r"confidence must lie in \[0, 1\]"),
    ],
)
def test_bad_confidence(confidence, correct, message):
    with pytest.raises(InputError, match=message):
        metrics.reliability_from_confidence(confidence, correct)


def test_bad_k():
    with pytest.raises(InputError, match="k must be a whole number from 1 to 2; got 3"):
        metrics.top_k_accuracy([[0.5, 0.5]], [0], k=3)
