"""Counts by class and bin of probability: what classwise calibration is read from.

Sums of probabilities are kept in 64-bit integers, so that blocks may be added in any order.
"""

from typing import NamedTuple

import numpy as np

from thermoset import kernels
from thermoset.arrays import Block, Floats, Ints, as_float64, as_int64

__all__ = ["MASS_UNIT", "BinCounts", "add_bins", "bin_edges", "no_bins"]

MASS_UNIT = 2.0**-32
"""What sums of probabilities are counted in: two billion rows fit, each to ten digits."""


class BinCounts(NamedTuple):
    """Of each class and bin (C, B): rows with their probability of the class there, its sum, and rows of the class.

    The sum is a multiple of `MASS_UNIT`.
    """

    rows: Ints
    mass: Ints
    hits: Ints


def bin_edges(n_bins: int) -> Floats:
    """Ends of equal-width bins of [0, 1].

    Quotients rather than linspace: 3 / 10 is the 0.3 a user types, linspace(0, 1, 11)[3] is one bit above.
    """
    return np.arange(n_bins + 1) / n_bins


def no_bins(n_classes: int, n_bins: int) -> BinCounts:
    """Counts of no rows."""
    return BinCounts(*np.zeros((3, n_classes, n_bins), dtype=np.int64))


def add_bins(probs: Block, labels: Ints, counts: BinCounts) -> None:
    """Add the rows of a block.

    >>> counts = no_bins(2, 2)
    >>> add_bins(np.array([[0.75, 0.25], [0.5, 0.5]]), np.array([0, 1]), counts)
    >>> counts.rows.tolist(), (counts.mass * MASS_UNIT).tolist(), counts.hits.tolist()
    ([[1, 1], [2, 0]], [[0.5, 0.75], [0.75, 0.0]], [[0, 1], [1, 0]])
    """
    kernels.add_bins(as_float64(probs), as_int64(labels), bin_edges(counts.rows.shape[1]), MASS_UNIT, *counts)
