"""The p-values of a row in short: a label, and two numbers. NumPy only, so writing files needs no compiler."""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from thermoset.errors import InputError

__all__ = ["PSummary", "p_summary"]


class PSummary(NamedTuple):
    """What p-values say about each row, as arrays (n,).

    label : the label with the largest p-value (of equal ones, the first column).
    credibility : that p-value. A low value means that no label fits: the row is unlike the conformal rows.
    confidence : 1 - the second largest p-value. A high value means that no other label fits.
    """

    label: NDArray[np.int64]
    credibility: NDArray[np.float64]
    confidence: NDArray[np.float64]


def p_summary(p: Any) -> PSummary:
    """Label, credibility and confidence of each row (Saunders, Gammerman and Vovk 1999) from its p-values, (n, C).

    The set at alpha is empty if alpha is at least the credibility, and has more than one label if alpha is below
    1 - confidence.

    >>> p_summary([[0.6, 0.05, 0.3], [0.02, 0.04, 0.01]])  # the second row fits no label
    PSummary(label=array([0, 1]), credibility=array([0.6 , 0.04]), confidence=array([0.7 , 0.98]))
    """
    try:
        table = np.asarray(p, dtype=np.float64)
    except (TypeError, ValueError):
        table = np.empty(0)
    if table.ndim != 2 or table.shape[1] < 2 or not np.all((table >= 0) & (table <= 1)):
        got = f"shape {table.shape}" if table.ndim != 2 or table.shape[1] < 2 else "others"
        raise InputError(
            f"p must be p-values in [0, 1] of shape (rows, classes), with at least two classes; got {got}."
        )
    label = table.argmax(axis=1)
    second, first = np.partition(table, -2, axis=1)[:, -2:].T
    return PSummary(label, first.copy(), 1.0 - second)
