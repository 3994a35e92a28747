"""The exact law of coverage, hits ~ Beta-Binomial(m; k, n + 1 - k) (docs/definitions.md, 2), for sums over splits."""

import math
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone

from thermoset.conformal import ConformalClassifier
from thermoset.data import Logits
from thermoset.levels import conformal_rank
from thermoset.scores import resolve
from tiers import scaled

SPLITS = scaled(40, 200, 2000)
"""Random splits of a law: few in `make test`; two hundred, which see a coverage of .908 where .900 was promised."""

Sets = NDArray[np.bool_]
Predict = Callable[[NDArray[np.floating], NDArray[np.int64], NDArray[np.floating]], Sets]


def law(n_conformal: int, n_evaluation: int, alpha: str) -> tuple[float, float]:
    """Mean and variance of the hits among `n_evaluation` rows.

    In closed form, because tests ask for it class by class and split by split, and making one of SciPy's distributions
    takes a millisecond; `tests/statistical/test_chosen_coverage.py` holds it against SciPy.
    """
    k = math.ceil((n_conformal + 1) * (1 - Fraction(alpha)))
    if k > n_conformal:
        return float(n_evaluation), 0.0
    n, m = n_conformal + 1, n_evaluation
    return m * k / n, m * k * (n - k) * (n + m) / (n * n * (n + 1))


def z_over_splits(
    predict: Predict,
    logits: NDArray[np.floating],
    labels: NDArray[np.int64],
    *,
    alpha: str,
    n_conformal: int,
    n_evaluation: int,
    splits: int = SPLITS,
    seed: int = 0,
) -> float:
    """How many standard deviations the hits of all splits together lie from the law's convolution."""

    def hits(conformal: NDArray[np.int64], evaluation: NDArray[np.int64]) -> NDArray[np.bool_]:
        sets = predict(logits[conformal], labels[conformal], logits[evaluation])
        return sets[np.arange(n_evaluation), labels[evaluation]]

    return _z_of_hits(hits, len(logits), alpha, (n_conformal, n_evaluation), splits, seed)


def _z_of_hits(
    hits: Callable[[NDArray[np.int64], NDArray[np.int64]], NDArray[np.bool_]],
    n_rows: int,
    alpha: str,
    sizes: tuple[int, int],
    splits: int,
    seed: int = 0,
) -> float:
    rng, total = np.random.default_rng(seed), 0
    for _ in range(splits):
        rows = rng.permutation(n_rows)[: sum(sizes)]
        total += int(hits(rows[: sizes[0]], rows[sizes[0] :]).sum())
    mean, variance = law(*sizes, alpha)
    return (total - splits * mean) / math.sqrt(splits * variance)


def z_by_scores(
    classifier: ConformalClassifier,
    logits: NDArray[np.floating],
    labels: NDArray[np.int64],
    *,
    alpha: str,
    n_conformal: int,
    n_evaluation: int,
    splits: int = SPLITS,
    formed: int = scaled(4, 20),
) -> float:
    """`z_over_splits` of a classifier, for a tenth of the time: the score of a label depends on its own row alone.

    So scores are computed once, and a split takes a rank among them. In `formed` of the splits the classifier is fitted
    and forms its sets, and every single hit must be the one that scores tell. That is stricter than a law: what 200
    splits see of a fault in forming sets, eight of a thousand hits, is 64 of the 8,000 hits that are compared.
    """
    place = places(classifier, logits, labels)
    k, passed = conformal_rank(n_conformal, alpha), 0

    def hits(conformal: NDArray[np.int64], evaluation: NDArray[np.int64]) -> NDArray[np.bool_]:
        nonlocal passed
        found = place[evaluation] <= (np.partition(place[conformal], k - 1)[k - 1] if k <= n_conformal else np.inf)
        if passed % (splits // formed) == 0:
            sets = clone(classifier).fit(logits[conformal], labels[conformal]).predict_set(logits[evaluation])
            np.testing.assert_array_equal(sets[np.arange(n_evaluation), labels[evaluation]], found)
        passed += 1
        return found

    return _z_of_hits(hits, len(logits), alpha, (n_conformal, n_evaluation), splits)


def places(
    classifier: ConformalClassifier, logits: NDArray[np.floating], labels: NDArray[np.int64]
) -> NDArray[np.int64]:
    """Numbers that order the rows as the scores of their labels do; equal where scores are."""
    pairs = clone(classifier).fit(logits, labels).calibration_.scores
    return np.unique(pairs, return_inverse=True)[1]


def generated(
    n_rows: int, n_classes: int, *, signal: float = 2.0, seed: int = 0
) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Logits of an overconfident classifier, tie-free, with a range of tens."""
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, n_classes, n_rows)
    evidence = rng.normal(size=(n_rows, n_classes))
    evidence[np.arange(n_rows), labels] += signal + math.sqrt(2 * math.log(n_classes))
    return 5.0 * evidence, labels


def as_accurate(logits: NDArray[np.float64], labels: NDArray[np.int64], accuracy: float) -> Logits:
    """The same rows with the columns of label and top class exchanged where needed for a share of right answers."""
    logits, rows = logits.copy(), np.arange(len(labels))
    top, wrong = logits.argmax(axis=1), rows >= round(accuracy * len(labels))
    other = np.where(wrong & (top == labels), (labels + 1) % logits.shape[1], np.where(wrong, top, labels))
    highest, there = logits[rows, top].copy(), logits[rows, other].copy()
    logits[rows, top], logits[rows, other] = there, highest
    return Logits(logits, labels)


def with_prior(method, n_classes):
    """The score of a name; one that learns a prior is given one, so that all rows set the threshold."""
    score = resolve(method)
    return replace(score, prior=tuple(range(1, n_classes + 1))) if score.learns else score
