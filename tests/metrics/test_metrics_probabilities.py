"""Probability metrics: hand arithmetic, references in loops and fractions, scikit-learn, labels that are simulated."""

import math
from fractions import Fraction
from math import comb

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import brier_score_loss, log_loss, top_k_accuracy_score

from parts import since_sklearn
from thermoset import metrics
from thermoset.errors import InputError
from thermoset.metrics.probabilities import (
    _mean_deviation,
    add_bins,
    calibration_of_bins,
    no_bins,
    reliability_from_confidence,
)


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
    monkeypatch.setattr("thermoset.metrics.probabilities._BLOCK", 12)
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


def test_half_precision_may_round_a_whole_probability_above_one():
    table = metrics.reliability_table(np.array([[1.01, 0.0]], dtype=np.float16), [0])
    assert (table.count[-1], table.confidence[-1], table.ece) == (1, 1.0, 0.0)


def test_tables_and_the_error_have_one_number_of_bins():
    rng = np.random.default_rng(3)
    probs = rng.dirichlet(np.ones(5), size=500)
    labels = rng.integers(0, 5, 500)
    table = metrics.reliability_table(probs, labels)
    assert len(table.count) == 15
    assert table.ece == metrics.expected_calibration_error(probs, labels)
    correct = probs.argmax(axis=1) == labels
    assert metrics.reliability_from_confidence(probs.max(axis=1), correct).ece == table.ece


# --- classwise calibration ------------------------------------------------------------------------------------------


def classwise_by_loops(probs, labels, n_bins):
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


def test_classwise_by_hand():
    probs = [[0.5, 0.25, 0.25], [0.5, 0.25, 0.25], [0.0, 0.0, 1.0], [0.0, 0.5, 0.5]]
    # two bins, (0, 1/2] and (1/2, 1]. Class 0: mass 1, and 1 row is of it: gap 0. Class 1: mass 1, 2 rows: 1.
    # Class 2: first bin mass 1, no row: 1; second bin mass 1, 1 row: 0.
    found = metrics.classwise_calibration(probs, [0, 1, 2, 1], n_bins=2)
    assert found.error.tolist() == [0.0, 1 / 4, 1 / 4]
    assert found.ece == pytest.approx(1 / 6)
    assert metrics.classwise_calibration_error(probs, [0, 1, 2, 1], n_bins=2) == found.ece


@given(st.integers(0, 2**32), st.integers(1, 50), st.integers(1, 6), st.sampled_from([1, 2, 10, 15]))
def test_classwise_is_a_loop_over_classes_and_bins(seed, n, n_classes, n_bins):
    probs, labels = drawn(seed, n, n_classes)
    found = metrics.classwise_calibration(probs, labels, n_bins)
    assert found.error == pytest.approx(classwise_by_loops(probs, labels, n_bins), abs=1e-9)  # sums have ten digits


@given(st.integers(1, 100_000), st.integers(0, 2**32))
def test_classwise_edges_of_bins_belong_to_the_bin_below(n_bins, seed):
    rng = np.random.default_rng(seed)
    k = int(rng.integers(0, n_bins + 1))
    p = k / n_bins
    counts = no_bins(2, n_bins)
    add_bins(np.array([[p, 1 - p]]), np.array([0]), counts)
    assert counts.rows[0].nonzero()[0].tolist() == [max(k - 1, 0)]
    table = metrics.reliability_from_confidence([p], [True], n_bins)
    assert np.array_equal(table.count, counts.rows[0])


@given(st.integers(0, 2**32), st.randoms(use_true_random=False))
def test_classwise_does_not_depend_on_the_order(seed, random):
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


def test_chance_is_what_labels_drawn_from_probabilities_show():
    probs, _ = drawn(3, 500, 8)
    rng, edges = np.random.default_rng(4), probs.cumsum(axis=1)
    errors = []
    for _ in range(400):
        labels = np.minimum((edges < rng.random((500, 1))).sum(axis=1), 7)
        errors.append(metrics.classwise_calibration(probs, labels).ece)
    mean, error = np.mean(errors), np.std(errors, ddof=1) / 20
    chance = metrics.classwise_calibration(probs, labels).ece_chance
    assert mean - 4 * error < chance < 1.02 * mean + 4 * error  # an upper bound, within two percent


# --- bad input ------------------------------------------------------------------------------------------------------

OF_PROBABILITIES = [
    metrics.reliability_table,
    metrics.expected_calibration_error,
    metrics.classwise_calibration_error,
    metrics.negative_log_likelihood,
    metrics.brier_score,
]


@pytest.mark.parametrize("metric", OF_PROBABILITIES)
@pytest.mark.parametrize(
    ("probs", "labels", "word"),
    [
        ([[2.0, -1.0]], [0], r"probs\[0, 0\] is 2\.0, 2 such.*TemperatureScaler"),
        ([[1.0005, -0.0005]], [0], r"probs\[0, 1\] is -0\.0005, 1 such"),
        ([[0.5, 0.5], [0.5, 0.25]], [0, 0], "row 1 sums to 0.75"),
        ([[0.5, 0.5], [math.nan, 0.5]], [0, 0], r"probs\[1, 0\] is nan"),
        ([0.5, 0.5], [0, 1], r"probs.*\(2,\)"),
        (np.zeros((0, 2)), [], r"probs.*\(0, 2\)"),
        ([["a", "b"]], [0], "probs.*real"),
        ([[0.5, 0.5]], [0, 1], r"labels.*\(1,\).*\(2,\)"),
        ([[0.5, 0.5]], [2], r"labels\[0\] is 2"),
    ],
)
def test_bad_probabilities(metric, probs, labels, word):
    with pytest.raises(InputError, match=word):
        metric(probs, labels)


@pytest.mark.parametrize("metric", OF_PROBABILITIES[:3])
@pytest.mark.parametrize("n_bins", [0, -3, 2.5, True, "ten", 10**12, 10**400])
def test_bad_number_of_bins(metric, n_bins):
    with pytest.raises(InputError, match="n_bins"):
        metric([[0.5, 0.5]], [0], n_bins=n_bins)


@pytest.mark.parametrize(
    ("confidence", "correct", "word"),
    [
        ([0.5], [True, False], r"correct.*\(1,\).*\(2,\)"),
        ([], [], "confidence"),
        ([0.5], [1], "correct.*booleans"),
        ([1.5, 0.5], [True, True], "confidence.*0.5 to 1.5"),
        ([-0.5, 0.5], [True, True], "confidence.*-0.5 to 0.5"),
        ([math.nan, 0.5], [True, True], r"confidence\[0\] is nan"),
    ],
)
def test_bad_confidence(confidence, correct, word):
    with pytest.raises(InputError, match=word):
        metrics.reliability_from_confidence(confidence, correct)


@pytest.mark.parametrize("k", [0, 3])
def test_bad_k(k):
    with pytest.raises(InputError, match="k must be"):
        metrics.top_k_accuracy([[0.5, 0.5]], [0], k=k)


SHAPES = {
    "right": lambda c: c,
    "a little off": lambda c: c - 0.03 * np.sin(6 * c),
    "overconfident": lambda c: 1 / (1 + ((1 - c) / c) ** 0.6),
    "wrong in the middle": lambda c: c - 0.15 * np.exp(-(((c - 0.75) / 0.1) ** 2)),
}


@pytest.mark.parametrize("n_rows", [300, 3000])
@pytest.mark.parametrize("accuracy", SHAPES.values(), ids=SHAPES)
def test_intervals_hold_the_ece_of_the_population(accuracy, n_rows):
    """200 draws from a population whose ECE is known: 95% intervals hold it in 92 to 98% or more of them."""
    rng, draws = np.random.default_rng(0), 200
    population = 0.1 + 0.9 * rng.beta(6, 1, size=100_000)
    right = np.clip(accuracy(population), 0, 1)
    bins = np.ceil(population * 15).astype(int)
    ece = np.abs(np.bincount(bins, population - right)).sum() / len(population)
    found, readings = [], []
    for _ in range(draws):
        rows = rng.integers(len(population), size=n_rows)
        table = reliability_from_confidence(population[rows], rng.random(n_rows) < right[rows])
        found.append(table.ece_estimate())
        readings.append(table.ece)
    value, low, high = np.array(found).T
    held = np.mean((low <= ece) & (ece <= high))
    assert held > 0.95 - 3 * np.sqrt(0.95 * 0.05 / draws)
    assert abs(np.mean(value) - ece) < abs(np.mean(readings) - ece)
    assert np.mean(readings) > ece, "what is put right"


def test_an_ece_that_many_rows_leave_no_doubt_about():
    confidence, right = np.full(1_000_000, 0.75), np.arange(1_000_000) % 2 == 0
    found = reliability_from_confidence(confidence, right).ece_estimate()
    assert found.value == pytest.approx(0.25, abs=1e-5)
    assert found.high - 0.25 == pytest.approx(2 * 0.5 / 1000, rel=0.05)  # two standard errors of a share of one half
    assert 0.25 - found.low == pytest.approx(2.5 * 0.5 / 1000, rel=0.05)


def test_one_row_and_no_gap():
    for right in (True, False):
        found = reliability_from_confidence([1.0], [right]).ece_estimate()
        assert 0 <= found.low <= found.value <= found.high <= 1
    half = reliability_from_confidence([0.5, 0.5], [True, False]).ece_estimate()  # the reading is 0
    assert (half.value, half.low) == (0, 0)
    assert 0 < half.high < 1
