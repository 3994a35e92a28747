"""How good probabilities are: functions of probs (n, C) and labels (n,).

Confidence is the probability of the predicted label, the first of the largest. Bins are those of Guo et al. (2017):
equal width, open below and closed above, (b/B, (b+1)/B]; a confidence of 0 goes to the first.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from thermoset.arrays import Floats, Ints
from thermoset.bounds import whole_number
from thermoset.core.binning import bin_edges
from thermoset.metrics._arrays import BLOCK, RealArray, ratio
from thermoset.metrics._checks import (
    check_confidence_and_correct,
    check_labels,
    check_probs,
    check_scores,
)
from thermoset.quoting import Brief
from thermoset.text_tables import AsTable, TextTable, number

__all__ = [
    "MOST_BINS",
    "N_BINS",
    "ReliabilityTable",
    "brier_score",
    "expected_calibration_error",
    "negative_log_likelihood",
    "reliability_from_confidence",
    "reliability_table",
    "top_k_accuracy",
]


N_BINS = 15
"""The default number of confidence bins: one number for tables, diagrams and the ECE."""

MOST_BINS = 100_000
"""The largest number of bins."""


@dataclass(frozen=True, eq=False, repr=False)
class ReliabilityTable(Brief, AsTable):
    """Confidence and accuracy in equal-width bins; confidence and accuracy of an empty bin are NaN.

    Bin b holds the rows with edges[b] < confidence <= edges[b + 1].
    """

    edges: Floats
    confidence: Floats
    accuracy: Floats
    count: Ints

    @property
    def gap(self) -> Floats:
        """Mean confidence minus accuracy of each bin: positive means overconfident, NaN means empty."""
        return self.confidence - self.accuracy

    @property
    def ece(self) -> float:
        """Expected calibration error: mean over rows of the absolute gap of their bin."""
        filled = self.count > 0
        return float(np.abs(self.gap[filled]) @ self.count[filled] / self.count.sum())

    def to_table(self) -> TextTable:
        """The bins as a table of text.

        >>> print(reliability_from_confidence([0.5, 0.75, 1.0], [True, False, True], n_bins=2).to_table())
        Reliability, ECE 0.4167
        confidence  rows  mean confidence  accuracy     gap
        0 to 0.5       1            0.500     1.000  -0.500
        0.5 to 1       2            0.875     0.500   0.375
        """
        columns = (self.edges[:-1], self.edges[1:], self.count, self.confidence, self.accuracy, self.gap)
        lines = [
            (f"{low:.4g} to {high:.4g}", f"{count:,}", number(sure), number(right), number(gap))
            for low, high, count, sure, right, gap in zip(*(column.tolist() for column in columns), strict=True)
        ]
        head = ("confidence", "rows", "mean confidence", "accuracy", "gap")
        return TextTable("reliability", f"Reliability, ECE {self.ece:.4f}", head, tuple(lines))


def reliability_from_confidence(confidence: ArrayLike, correct: ArrayLike, n_bins: int = N_BINS) -> ReliabilityTable:
    """Reliability table from each row's confidence and whether its predicted label was correct.

    >>> table = reliability_from_confidence([0.5, 0.75, 1.0], [True, False, True], n_bins=2)
    >>> table.confidence.tolist(), table.accuracy.tolist(), table.count.tolist()
    ([0.5, 0.875], [1.0, 0.5], [1, 2])
    """
    level, right = check_confidence_and_correct(confidence, correct)
    bins = whole_number(n_bins, "n_bins", 1, MOST_BINS, "Try n_bins=15.")
    edges = bin_edges(bins)
    place = np.clip(np.searchsorted(edges, level, side="left") - 1, 0, bins - 1)
    count = np.bincount(place, minlength=bins)
    return ReliabilityTable(
        edges=edges,
        confidence=ratio(np.bincount(place, weights=level, minlength=bins), count),
        accuracy=ratio(np.bincount(place[right], minlength=bins), count),
        count=count,
    )


def reliability_table(probs: ArrayLike, labels: ArrayLike, n_bins: int = N_BINS) -> ReliabilityTable:
    """Mean confidence, accuracy and number of rows in equal-width bins of the confidence of the predicted label.

    >>> table = reliability_table([[0.75, 0.25], [0.5, 0.5], [0.0, 1.0]], labels=[0, 1, 1], n_bins=2)
    >>> table.edges.tolist(), table.count.tolist()
    ([0.0, 0.5, 1.0], [1, 2])
    >>> table.gap.tolist()
    [0.5, -0.125]
    """
    table = check_probs(probs)
    truth = check_labels(labels, table, "probs")
    confidence = np.minimum(table.max(axis=1), 1)  # half precision may round a whole probability above one
    return reliability_from_confidence(confidence, table.argmax(axis=1) == truth, n_bins)


def expected_calibration_error(probs: ArrayLike, labels: ArrayLike, n_bins: int = N_BINS) -> float:
    """ECE: mean over rows of | mean confidence - accuracy | in the row's bin.

    >>> expected_calibration_error([[0.75, 0.25], [0.75, 0.25]], labels=[0, 1])  # confidence 3/4, accuracy 1/2
    0.25
    """
    return reliability_table(probs, labels, n_bins).ece


def negative_log_likelihood(probs: ArrayLike, labels: ArrayLike) -> float:
    """Mean of -log of the label's probability; infinite, and not clipped, when a label has probability 0.

    >>> round(negative_log_likelihood([[0.5, 0.5], [0.25, 0.75]], labels=[0, 0]), 6)  # 1.5 log 2
    1.039721
    """
    table = check_probs(probs)
    truth = check_labels(labels, table, "probs")
    own = table[np.arange(len(table)), truth].astype(np.float64)
    with np.errstate(divide="ignore"):
        # A probability of 1 + 1e-7, legal by rounding, must not give a negative term.
        return float(np.mean(-np.log(np.minimum(own, 1.0))))


def brier_score(probs: ArrayLike, labels: ArrayLike) -> float:
    """Mean over rows of the squared distance to the one-hot label, summed over all classes: from 0 to 2.

    >>> brier_score([[0.5, 0.25, 0.25]], labels=[0])  # 1/4 + 1/16 + 1/16
    0.375
    """
    table = check_probs(probs)
    return float(brier_terms(table, check_labels(labels, table, "probs")).mean())


def brier_terms(table: RealArray, truth: Ints) -> Floats:
    """Squared distance of each row's probabilities to its one-hot label, (n,), for what has been checked.

    >>> brier_terms(np.array([[0.5, 0.5], [1.0, 0.0]]), np.array([0, 0]))
    array([0.5, 0. ])
    """
    n, n_classes = table.shape
    step = max(BLOCK // n_classes, 1)
    per_row = np.empty(n)
    for start in range(0, n, step):
        error = table[start : start + step].astype(np.float64)  # a copy: the caller's array stays as it is
        error[np.arange(len(error)), truth[start : start + step]] -= 1.0
        per_row[start : start + step] = np.einsum("ij,ij->i", error, error)
    return per_row


def top_k_accuracy(scores: ArrayLike, labels: ArrayLike, k: int = 1) -> float:
    """Share of rows whose label is among the k highest scores (logits or probabilities; higher means likelier).

    Equal scores rank by label index, so k = 1 gives the accuracy of argmax.

    >>> top_k_accuracy([[0.2, 0.5, 0.3], [0.4, 0.4, 0.2]], labels=[2, 1], k=1)
    0.0
    >>> top_k_accuracy([[0.2, 0.5, 0.3], [0.4, 0.4, 0.2]], labels=[2, 1], k=2)
    1.0
    """
    table = check_scores(scores, "scores")
    truth = check_labels(labels, table, "scores")
    n, n_classes = len(table), table.shape[1]
    allowed = whole_number(k, "k", 1, n_classes, "Try k=1.")
    own = table[np.arange(n), truth][:, None]
    ahead = (table > own) | ((table == own) & (np.arange(n_classes) < truth[:, None]))
    return int(np.count_nonzero(ahead.sum(axis=1) < allowed)) / n
