"""Counts by class and bin of probability: what classwise calibration is read from.

Sums of probabilities are kept in 64-bit integers, so that blocks may be added in any order.
"""

from typing import NamedTuple

import numpy as np

from thermoset.core.compiling import leaf_kernel
from thermoset.core.exponentials import Floats, Ints
from thermoset.core.sources import Block, numbered, widened

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


@leaf_kernel
def _add(probs: Floats, labels: Ints, edges: Floats, counts: BinCounts) -> None:
    """Bin b is open below and closed above: edges[b] < p <= edges[b + 1]; a probability of 0 goes to the first."""
    last = edges.shape[0] - 2
    for i in range(probs.shape[0]):
        for c in range(probs.shape[1]):
            p = min(probs[i, c], 1.0)
            b = 0
            if p > edges[1]:
                b = min(int(p * (last + 1)), last)  # right but for rounding
                while p <= edges[b]:
                    b -= 1
                while p > edges[b + 1]:
                    b += 1
            counts.rows[c, b] += 1
            counts.mass[c, b] += np.int64(p / MASS_UNIT + 0.5)
            counts.hits[c, b] += labels[i] == c


def add_bins(probs: Block, labels: Ints, counts: BinCounts) -> None:
    """Add the rows of a block.

    >>> counts = no_bins(2, 2)
    >>> add_bins(np.array([[0.75, 0.25], [0.5, 0.5]]), np.array([0, 1]), counts)
    >>> counts.rows.tolist(), (counts.mass * MASS_UNIT).tolist(), counts.hits.tolist()
    ([[1, 1], [2, 0]], [[0.5, 0.75], [0.75, 0.0]], [[0, 1], [1, 0]])
    """
    _add(widened(probs), numbered(labels), bin_edges(counts.rows.shape[1]), counts)
