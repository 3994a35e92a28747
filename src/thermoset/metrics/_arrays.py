"""Names of array types, and the one division that several metrics share."""

import numpy as np
from numpy.typing import NDArray

AnyArray = NDArray[np.generic]
BoolArray = NDArray[np.bool_]
FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]
RealArray = NDArray[np.floating]
"""Floats of the caller's own precision: a big float32 array is not copied to float64 to be looked at."""

BLOCK = 1 << 20
"""Numbers a metric works on at once where it needs a copy or a simulation: bounds its memory."""


def ratio(total: FloatArray | IntArray, count: IntArray) -> FloatArray:
    """Total / count, NaN (and no warning) where there is nothing to divide by."""
    quotient: FloatArray = np.full(np.broadcast_shapes(total.shape, count.shape), np.nan)
    np.divide(total, count, out=quotient, where=count > 0)
    return quotient
