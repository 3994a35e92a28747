"""Softmax and its relatives on unsorted rows: probabilities, confidences, the derivatives of the likelihood.

Plain loops over contiguous float64 rows. Every kernel releases the GIL, and a row's result depends on that row alone:
blocks and threads cannot change a bit of it.
"""

import math
from typing import NamedTuple

import numpy as np

from thermoset.core.compiling import kernel, leaf_kernel, part
from thermoset.core.exponentials import MOST_NEGATIVE, Floats, Ints, exp
from thermoset.core.masses import mass_below

__all__ = ["Moments", "confidences", "row_moments", "softmax"]


class Moments(NamedTuple):
    """Negative log-likelihood of each row, and its first and second derivative in 1/T."""

    loss: Floats
    slope: Floats
    curvature: Floats


@part
def _top(row: Floats) -> float:
    """The largest, in four lanes: one would wait for each comparison before it begins the next."""
    n = row.shape[0]
    a, b, c, d = row[0], row[0], row[0], row[0]
    for j in range(0, n // 4 * 4, 4):
        a = max(a, row[j])
        b = max(b, row[j + 1])
        c = max(c, row[j + 2])
        d = max(d, row[j + 3])
    for j in range(n // 4 * 4, n):
        a = max(a, row[j])
    return float(max(a, b, c, d))


@part
def _weights(row: Floats, top: float, inverse: float, weight: Floats) -> float:
    """Fill exp((z - max z) / T) for one unsorted row; return the sum."""
    for j in range(row.shape[0]):
        weight[j] = exp(max((row[j] - top) * inverse, MOST_NEGATIVE))
    return mass_below(weight, weight.shape[0])


@leaf_kernel
def softmax(rows: Floats, temperature: float, out: Floats) -> None:
    """Probabilities of unsorted rows at a temperature."""
    for i in range(rows.shape[0]):
        probs = out[i]
        total = _weights(rows[i], _top(rows[i]), 1.0 / temperature, probs)
        for j in range(rows.shape[1]):
            probs[j] /= total


@leaf_kernel
def _fill_confidences(rows: Floats, temperatures: Floats, weight: Floats, out: Floats) -> None:
    for i in range(rows.shape[0]):
        top = _top(rows[i])
        for t in range(temperatures.shape[0]):
            out[t, i] = 1.0 / _weights(rows[i], top, 1.0 / temperatures[t], weight)


def confidences(rows: Floats, temperatures: Floats) -> Floats:
    """Top probability of each unsorted row at each temperature, (n_temperatures, n_rows)."""
    out = np.empty((len(temperatures), len(rows)))
    _fill_confidences(rows, temperatures, np.empty(rows.shape[1]), out)
    return out


@kernel
def row_moments(rows: Floats, labels: Ints, inverse: float, out: Moments) -> None:
    """NLL of each unsorted row at 1/T = `inverse`, with its first and second derivative in 1/T.

    With d = z - max z and p the softmax of d / T: NLL = log sum e**(d/T) - d_y/T, slope = E_p[d] - d_y,
    curvature = Var_p[d].
    """
    n_classes = rows.shape[1]
    weight, first, second = np.empty(n_classes), np.empty(n_classes), np.empty(n_classes)
    for i in range(rows.shape[0]):
        row = rows[i]
        top = _top(row)
        for j in range(n_classes):
            d = max(row[j] - top, MOST_NEGATIVE)
            w = exp(max(d * inverse, MOST_NEGATIVE))
            weight[j] = w
            first[j] = w * d
            second[j] = w * d * d
        total = mass_below(weight, n_classes)
        own = row[labels[i]] - top
        mean = mass_below(first, n_classes) / total
        out.loss[i] = math.log(total) - own * inverse
        out.slope[i] = mean - own
        out.curvature[i] = mass_below(second, n_classes) / total - mean * mean
