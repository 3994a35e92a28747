"""Names for array types, and pairs (value, tie-break) as complex numbers.

NumPy orders complex numbers by real part, then by imaginary part: `np.sort`, `np.partition`, `np.searchsorted` and `<=`
on pairs are order statistics, pools and membership.
"""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Counts = NDArray[np.int32]
Bools = NDArray[np.bool_]
Keys = NDArray[np.uint64]
Pairs = NDArray[np.complex128]
Block = NDArray[np.floating[Any]]
"""Rows of logits, of any type of floats."""


def pairs(value: ArrayLike, tie_break: ArrayLike) -> Pairs:
    """Scores or thresholds as pairs.

    >>> q = pairs([0.5, 0.5], [1.0, 2.0])
    >>> (q <= q[0]).tolist()
    [True, False]
    """
    first, second = np.broadcast_arrays(value, tie_break)
    result = np.empty(first.shape, dtype=np.complex128)
    result.real, result.imag = first, second  # not value + 1j * tie_break: 1j * inf has a NaN
    return result


def as_floats(scores: Pairs) -> Floats:
    """Pairs as compiled loops take them: values and tie-breaks, (2, ...)."""
    return np.stack([scores.real, scores.imag])


def as_float64(block: Block) -> Floats:
    """The rows as contiguous float64 that may be written to, which compiled loops take; narrow floats widen exactly."""
    wide = block.astype(np.float64, order="C", copy=False)
    return wide if wide.flags.writeable else wide.copy()


def as_int64(labels: NDArray[Any]) -> Ints:
    """Labels as contiguous int64 that may be written to, the type compiled loops take."""
    return np.require(labels, np.int64, ("C", "W"))


def read_only(array: NDArray[Any]) -> NDArray[Any]:
    """A view that cannot be written to; the caller's own array stays as writeable as it was."""
    view = array.view()
    view.flags.writeable = False
    return view
