"""Classwise calibration (Kull et al. 2019): whether the probability of every class is right, not only the largest one.

ECE looks at the predicted label alone. Classwise ECE asks of every class c: among rows with a probability of c in one
bin, is the share of rows of class c the mean of those probabilities? The mean over classes is one number; the errors of
single classes say where it comes from.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import betaln, xlog1py, xlogy

from thermoset.arrays import Floats, Ints
from thermoset.bounds import whole_number
from thermoset.core.binning import MASS_UNIT, BinCounts, add_bins, no_bins
from thermoset.metrics._arrays import BLOCK
from thermoset.metrics._checks import check_labels, check_probs
from thermoset.metrics.of_probabilities import MOST_BINS, N_BINS
from thermoset.quoting import Brief

__all__ = ["ClasswiseCalibration", "classwise_calibration", "classwise_calibration_error"]


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

    >>> found = classwise_calibration([[0.75, 0.25], [0.75, 0.25]], labels=[0, 1])
    >>> found.error.tolist()  # class 0: 3/4 versus 1/2; class 1: 1/4 versus 1/2
    [0.25, 0.25]
    >>> found.chance.round(12).tolist()  # 2, 1, 0 hits: (9/16 * 1/2 + 6/16 * 1/2 + 1/16 * 3/2) / 2 rows
    [0.28125, 0.28125]
    """
    table = check_probs(probs)
    truth = check_labels(labels, table, "probs")
    counts = no_bins(table.shape[1], whole_number(n_bins, "n_bins", 1, MOST_BINS, "Try n_bins=15."))
    step = max(BLOCK // table.shape[1], 1)
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
    """Mean of | X - n p | for X ~ Binomial(n, p), by de Moivre's formula.

    It is 2 v C(n, v) p^v (1 - p)^(n - v + 1) with v = floor(n p) + 1. Hits of rows with different probabilities deviate
    less than those of as many rows with the mean of them (Hoeffding 1956), so that this is at least what a calibrated
    model shows.
    """
    v = np.minimum(np.floor(n * p) + 1, np.maximum(n, 1))
    # v C(n, v) = 1 / B(n - v + 1, v)
    terms = np.exp(xlogy(v, p) + xlog1py(n - v + 1, -p) - betaln(np.maximum(n - v, 0) + 1, v))
    return np.where(n > 0, 2 * terms, 0.0)
