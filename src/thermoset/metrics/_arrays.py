"""Names of array types, and the one division that several metrics share."""

import numpy as np
from numpy.typing import NDArray

from thermoset.arrays import Floats, Ints

AnyArray = NDArray[np.generic]
RealArray = NDArray[np.floating]
"""Floats of the caller's own precision: a big float32 array is not copied to float64 to be looked at."""

BLOCK = 1 << 20
"""Numbers a metric works on at once where it needs a copy or a simulation: bounds its memory."""


def ratio(total: Floats | Ints, count: Ints) -> Floats:
    """Total / count, NaN (and no warning) where there is nothing to divide by."""
    quotient: Floats = np.full(np.broadcast_shapes(total.shape, count.shape), np.nan)
    np.divide(total, count, out=quotient, where=count > 0)
    return quotient
