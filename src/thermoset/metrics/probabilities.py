"""How good probabilities are, as functions of probs (n, C) and labels (n,), and selective prediction.

Confidence is the probability of the predicted label, the first of the largest. Bins are those of Guo et al. (2017):
equal width, open below and closed above, (b/B, (b+1)/B]; a confidence of 0 goes to the first.

Selective prediction is how wrong a model is on the rows it is most confident about: `score` is any number per row,
higher = more confident, and `right` says whether the row's answer was right. Rows with equal scores are answered
together, since nothing tells them apart: no result depends on the order of rows.
"""

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from thermoset import kernels
from thermoset.arrays import Floats, Ints, as_float64, as_int64
from thermoset.bounds import exact_number, whole_number
from thermoset.errors import InputError
from thermoset.metrics.counts import AnyArray, as_array, check_labels, check_row_values, check_shape, ratio
from thermoset.quoting import Brief, quoted
from thermoset.text_tables import AsTable, TextTable, number

RealArray = NDArray[np.floating]
"""Floats of the caller's own precision: a big float32 array is not copied to float64 to be looked at."""

N_BINS = 15
"""The default number of confidence bins: one number for tables, diagrams and the ECE."""

_MOST_BINS = 100_000
_PRIOR_ROWS = 2.0  # by which the accuracy of a bin is drawn to its confidence, for its sampling error
_BELOW, _ABOVE = 2.5, 2.0  # standard errors to the ends: readings are skewed, and the shape of gaps comes from the rows
_HALVINGS = 50
_ROW_SUM_TOLERANCE = 1e-3  # how far from one a row of probabilities may sum; float16 gets more, see `check_probs`
_BLOCK = 1 << 20  # numbers that are copied or binned at once


def check_scores(scores: ArrayLike, name: str) -> RealArray:
    """Real numbers (n, C), higher for the likelier class; infinities are ordered, NaN is not."""
    array = as_array(scores, name)
    if array.dtype.kind not in "fiub":
        raise InputError(f"{name} must be an array of real numbers; got dtype {array.dtype}. Pass floats.")
    check_shape(array, name)
    precision = array.dtype if np.issubdtype(array.dtype, np.floating) else np.dtype(np.float64)
    table: RealArray = array.astype(precision, copy=False)
    if np.isnan(table.min()):
        rows, columns = np.nonzero(np.isnan(table))
        raise InputError(
            f"{name}[{rows[0]}, {columns[0]}] is nan; {len(rows)} such values. Drop those rows or fix the model."
        )
    return table


def check_probs(probs: ArrayLike) -> RealArray:
    """Probabilities (n, C): in [0, 1], rows summing to one as closely as their precision allows."""
    table = check_scores(probs, "probs")
    remedy = "If these are logits, apply thermoset.TemperatureScaler or a softmax first."
    # sqrt(eps) is 0.03 for float16: a softmax of 1,000 classes in half precision is that far off.
    tolerance = max(_ROW_SUM_TOLERANCE, float(np.sqrt(np.finfo(table.dtype).eps)))
    if table.min() < 0 or table.max() > 1 + tolerance:
        rows, columns = np.nonzero((table < 0) | (table > 1 + tolerance))
        raise InputError(
            f"probs must lie in [0, 1]; probs[{rows[0]}, {columns[0]}] is {table[rows[0], columns[0]]}, "
            f"{len(rows)} such values. {remedy}"
        )
    totals = table.sum(axis=1, dtype=np.float64)
    bad = np.flatnonzero(np.abs(totals - 1) > tolerance)
    if len(bad):
        raise InputError(
            f"rows of probs must sum to one; row {bad[0]} sums to {totals[bad[0]]:.6g}, {len(bad)} such rows. {remedy}"
        )
    return table


def _check_probs_and_labels(probs: ArrayLike, labels: ArrayLike) -> tuple[RealArray, Ints]:
    table = check_probs(probs)
    return table, check_labels(labels, table.shape[1], len(table))


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

    def ece_estimate(self) -> "EceEstimate":
        """ECE of the population that these rows come from, with its 95% interval: see `EceEstimate`."""
        filled = self.count > 0
        rows, gap = self.count[filled], self.gap[filled]
        right, sure = self.accuracy[filled], self.confidence[filled]
        share, smooth = rows / rows.sum(), (right * rows + _PRIOR_ROWS * sure) / (rows + _PRIOR_ROWS)
        noise = np.sqrt(np.maximum(smooth * (1 - smooth) / rows, 1e-12))
        shape = gap / self.ece if self.ece > 0 else np.ones_like(gap)

        def matching(errors: float) -> float:
            """The ECE at which the reading of these rows is so many standard errors above its mean."""
            low, high = 0.0, 1.0
            for _ in range(_HALVINGS):
                scale = (low + high) / 2
                mean, error = _reading(scale * shape, noise, share, int(rows.sum()))
                low, high = (scale, high) if mean + errors * error < self.ece else (low, scale)
            return low

        return EceEstimate(matching(0.0), matching(_BELOW), matching(-_ABOVE))

    def to_table(self) -> TextTable:
        """The bins as a table of text."""
        columns = (self.edges[:-1], self.edges[1:], self.count, self.confidence, self.accuracy, self.gap)
        lines = [
            (f"{low:.4g} to {high:.4g}", f"{count:,}", number(sure), number(right), number(gap))
            for low, high, count, sure, right, gap in zip(*(column.tolist() for column in columns), strict=True)
        ]
        head = ("confidence", "rows", "mean confidence", "accuracy", "gap")
        return TextTable("reliability", f"Reliability, ECE {self.ece:.4f}", head, tuple(lines))


class EceEstimate(NamedTuple):
    """ECE of a population, from finitely many rows, and its 95% interval.

    The ECE of the rows themselves is too high: the gap of a bin has a sampling error, and its absolute value does not
    average out. Here the gaps are scaled to the ECE at which rows like these would show, on average, what these show;
    the ends are where that would be too much or too little.
    """

    value: float
    low: float
    high: float


def _reading(gap: Floats, noise: Floats, share: Floats, n_rows: int) -> tuple[float, float]:
    """Mean and standard error of the ECE of rows, with these true gaps of bins: a sum of folded normal numbers."""
    from scipy.special import erf  # noqa: PLC0415 - servers do without

    size = np.abs(gap)
    folded = noise * np.sqrt(2 / np.pi) * np.exp(-((gap / noise) ** 2) / 2) + size * erf(size / noise / np.sqrt(2))
    within = share**2 @ (gap**2 + noise**2 - folded**2)
    between = share @ gap**2 - (share @ size) ** 2  # how many rows fall into which bin is drawn too
    return float(share @ folded), float(np.sqrt(max(within + between / n_rows, 0.0)))


def reliability_from_confidence(confidence: ArrayLike, correct: ArrayLike, n_bins: int = N_BINS) -> ReliabilityTable:
    """Reliability table from each row's confidence and whether its predicted label was correct.

    >>> table = reliability_from_confidence([0.5, 0.75, 1.0], [True, False, True], n_bins=2)
    >>> table.confidence.tolist(), table.accuracy.tolist(), table.count.tolist()
    ([0.5, 0.875], [1.0, 0.5], [1, 2])
    """
    level = check_row_values(confidence, "confidence", "fiu", "Pass probs.max(axis=1).").astype(np.float64)
    right = check_row_values(correct, "correct", "b", "Pass probs.argmax(axis=1) == labels.", len(level)).astype(bool)
    if level.min() < 0 or level.max() > 1 + _ROW_SUM_TOLERANCE:
        raise InputError(
            f"confidence must lie in [0, 1]; got values from {level.min():.6g} to {level.max():.6g}. "
            "Pass probs.max(axis=1)."
        )
    bins = _check_bins(n_bins)
    edges = _bin_edges(bins)
    place = np.clip(np.searchsorted(edges, level, side="left") - 1, 0, bins - 1)
    count = np.bincount(place, minlength=bins)
    return ReliabilityTable(
        edges=edges,
        confidence=ratio(np.bincount(place, weights=level, minlength=bins), count),
        accuracy=ratio(np.bincount(place[right], minlength=bins), count),
        count=count,
    )


def _bin_edges(n_bins: int) -> Floats:
    return np.arange(n_bins + 1) / n_bins  # not linspace: 3 / 10 is the 0.3 a user types


def _check_bins(n_bins: int) -> int:
    return whole_number(n_bins, "n_bins", 1, _MOST_BINS, "Try n_bins=15.")


def reliability_table(probs: ArrayLike, labels: ArrayLike, n_bins: int = N_BINS) -> ReliabilityTable:
    """Mean confidence, accuracy and number of rows in equal-width bins of the confidence of the predicted label.

    >>> table = reliability_table([[0.75, 0.25], [0.5, 0.5], [0.0, 1.0]], labels=[0, 1, 1], n_bins=2)
    >>> table.edges.tolist(), table.count.tolist()
    ([0.0, 0.5, 1.0], [1, 2])
    >>> table.gap.tolist()
    [0.5, -0.125]
    """
    table, truth = _check_probs_and_labels(probs, labels)
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
    table, truth = _check_probs_and_labels(probs, labels)
    return mean_nll(table[np.arange(len(table)), truth].astype(np.float64))


def mean_nll(own: Floats) -> float:
    """Mean of -log of the probabilities of labels, of which one of 1 + 1e-7, legal by rounding, counts as 1."""
    with np.errstate(divide="ignore"):
        return float(np.mean(-np.log(np.minimum(own, 1.0))))


def brier_score(probs: ArrayLike, labels: ArrayLike) -> float:
    """Mean over rows of the squared distance to the one-hot label, summed over all classes: from 0 to 2.

    >>> brier_score([[0.5, 0.25, 0.25]], labels=[0])  # 1/4 + 1/16 + 1/16
    0.375
    """
    return float(brier_terms(*_check_probs_and_labels(probs, labels)).mean())


def brier_terms(table: RealArray, truth: Ints) -> Floats:
    """Squared distance of each row's probabilities to its one-hot label, (n,)."""
    n, n_classes = table.shape
    step = max(_BLOCK // n_classes, 1)
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
    n, n_classes = len(table), table.shape[1]
    truth = check_labels(labels, n_classes, n)
    allowed = whole_number(k, "k", 1, n_classes, "Try k=1.")
    own = table[np.arange(n), truth][:, None]
    ahead = (table > own) | ((table == own) & (np.arange(n_classes) < truth[:, None]))
    return int(np.count_nonzero(ahead.sum(axis=1) < allowed)) / n


# --- classwise calibration --------------------------------------------------------------------------------------------


MASS_UNIT = 2.0**-32
"""The unit of sums of probabilities: two billion rows fit, each to ten digits."""


class BinCounts(NamedTuple):
    """Of each class and bin (C, B): rows with their probability of the class there, its sum, and rows of the class.

    The sum is a multiple of `MASS_UNIT`, kept in whole numbers so that blocks may be added in any order.
    """

    rows: Ints
    mass: Ints
    hits: Ints


def no_bins(n_classes: int, n_bins: int) -> BinCounts:
    """Counts of no rows."""
    return BinCounts(*np.zeros((3, n_classes, n_bins), dtype=np.int64))


def add_bins(probs: RealArray, labels: Ints, counts: BinCounts) -> None:
    """Add the rows of a block."""
    kernels.add_bins(as_float64(probs), as_int64(labels), _bin_edges(counts.rows.shape[1]), MASS_UNIT, *counts)


@dataclass(frozen=True, eq=False, repr=False)
class ClasswiseCalibration(Brief):
    """Calibration of every class, in equal-width bins of its probability.

    Attributes
    ----------
    error : (C,)
        For each class: the mean over rows of the absolute difference, in the row's bin, between the mean probability of
        the class and the share of rows of the class.
    chance : (C,)
        What `error` would be on average if every probability were right: never 0, because the number of rows is finite.
        A close upper bound: all rows of a bin are treated as having its mean probability.
    rows : int
        Rows.
    """

    error: Floats
    chance: Floats
    rows: int

    @property
    def ece(self) -> float:
        """Classwise ECE: the mean of the errors of the classes."""
        return float(self.error.mean())

    @property
    def ece_chance(self) -> float:
        """Classwise ECE of perfectly calibrated probabilities, averaged over the labels of this many rows."""
        return float(self.chance.mean())


def classwise_calibration(probs: ArrayLike, labels: ArrayLike, n_bins: int = N_BINS) -> ClasswiseCalibration:
    """The calibration error of each class, and what chance alone shows; see `ClasswiseCalibration`.

    >>> table = classwise_calibration([[0.75, 0.25], [0.75, 0.25]], labels=[0, 1])
    >>> table.error.tolist()  # class 0: 3/4 versus 1/2; class 1: 1/4 versus 1/2
    [0.25, 0.25]
    >>> table.chance.round(12).tolist()  # 2, 1, 0 hits: (9/16 * 1/2 + 6/16 * 1/2 + 1/16 * 3/2) / 2 rows
    [0.28125, 0.28125]
    """
    table, truth = _check_probs_and_labels(probs, labels)
    counts = no_bins(table.shape[1], _check_bins(n_bins))
    step = max(_BLOCK // table.shape[1], 1)
    for start in range(0, len(table), step):
        add_bins(table[start : start + step], truth[start : start + step], counts)
    return calibration_of_bins(counts)


def classwise_calibration_error(probs: ArrayLike, labels: ArrayLike, n_bins: int = N_BINS) -> float:
    """Classwise ECE: mean over classes of the binned gap between the probability of the class and its frequency.

    >>> classwise_calibration_error([[0.75, 0.25], [0.75, 0.25]], labels=[0, 1])
    0.25
    """
    return classwise_calibration(probs, labels, n_bins).ece


def calibration_of_bins(counts: BinCounts) -> ClasswiseCalibration:
    """Errors of the classes from counts, and what chance shows."""
    rows, mass = int(counts.rows[0].sum()), counts.mass * MASS_UNIT
    gaps = np.abs(counts.hits - mass)
    mean = np.divide(mass, counts.rows, out=np.zeros_like(mass), where=counts.rows > 0)
    chance = _mean_deviation(counts.rows, np.clip(mean, 0.0, 1.0))
    return ClasswiseCalibration(gaps.sum(axis=1) / rows, chance.sum(axis=1) / rows, rows)


def _mean_deviation(n: Ints, p: Floats) -> Floats:
    """Mean of | X - n p | for X ~ Binomial(n, p): 2 v C(n, v) p^v (1 - p)^(n - v + 1), v = floor(n p) + 1 (de Moivre).

    Hits of rows with different probabilities deviate less than those of rows with their mean (Hoeffding 1956).
    """
    from scipy.special import betaln, xlog1py, xlogy  # noqa: PLC0415 - servers do without

    v = np.minimum(np.floor(n * p) + 1, np.maximum(n, 1))
    # v C(n, v) = 1 / B(n - v + 1, v)
    terms = np.exp(xlogy(v, p) + xlog1py(n - v + 1, -p) - betaln(np.maximum(n - v, 0) + 1, v))
    return np.where(n > 0, 2 * terms, 0.0)


# --- selective prediction ---------------------------------------------------------------------------------------------


class RiskCoverage(NamedTuple):
    """The risk-coverage curve: one entry for each distinct score, from the most confident on.

    Attributes
    ----------
    rows : (m,)
        Rows that are answered: those with this score or a higher one.
    share : (m,)
        They as a share of all rows. The last entry is 1.
    error : (m,)
        Share of wrong answers among them. The last entry is the error of all rows.
    score : (m,)
        The scores, descending.
    """

    rows: Ints
    share: Floats
    error: Floats
    score: AnyArray


def risk_coverage_curve(score: ArrayLike, right: ArrayLike) -> RiskCoverage:
    """Share of rows answered, from the most confident on, and the error among them; see `RiskCoverage`.

    >>> curve = risk_coverage_curve([0.9, 0.6, 0.8, 0.6], right=[True, False, True, True])
    >>> curve.share.tolist(), curve.error.tolist(), curve.score.tolist()  # the two rows at 0.6 are answered together
    ([0.25, 0.5, 1.0], [0.0, 0.0, 0.25], [0.9, 0.8, 0.6])
    """
    level = check_row_values(score, "score", "fiu", "Pass a confidence, higher where an answer is surer.")
    correct = check_row_values(right, "right", "b", "Pass whether each answer was right.", len(level)).astype(bool)
    distinct, place, rows = np.unique(level, return_inverse=True, return_counts=True)
    wrong = np.bincount(place[~correct], minlength=len(distinct))
    answered = np.cumsum(rows[::-1])
    return RiskCoverage(answered, answered / len(level), np.cumsum(wrong[::-1]) / answered, distinct[::-1])


def area_under_risk_coverage(score: ArrayLike, right: ArrayLike) -> float:
    """AURC (Geifman, Uziel and El-Yaniv 2019): the mean over rows of the selective risk. Lower is better.

    The selective risk of a row is the error among all rows with its score or a higher one. Without ties this is the
    usual mean over k = 1 .. n of the error among the k most confident rows. If all scores are equal, it is the error of
    all rows.

    >>> area_under_risk_coverage([0.9, 0.8, 0.7, 0.6], right=[True, True, False, True])  # (0 + 0 + 1/3 + 1/4) / 4
    0.14583333333333331
    """
    curve = risk_coverage_curve(score, right)
    return float(curve.error @ np.diff(curve.rows, prepend=0) / curve.rows[-1])


def error_at_coverage(score: ArrayLike, right: ArrayLike, share: float | str) -> float:
    """Error among the most confident rows that are at least this share of all rows; `share` is in (0, 1].

    These are the ceil(share n) most confident rows, `share` read as the decimal that was typed, and all rows that tie
    with the last of them.

    >>> error_at_coverage([0.9, 0.8, 0.7, 0.6], right=[True, True, False, True], share=0.75)
    0.3333333333333333
    """
    curve = risk_coverage_curve(score, right)
    wanted = exact_number(share)
    if wanted is None or not 0 < wanted <= 1:
        raise InputError(f"share must be a number above 0 and at most 1; got {quoted(share)}. Try share=0.9.")
    fewest = math.ceil(wanted * int(curve.rows[-1]))
    return float(curve.error[np.searchsorted(curve.rows, fewest)])
