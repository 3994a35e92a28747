"""Weights of rows: how much likelier a row is where a predictor is used than where its rows came from."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from thermoset.data.labels import one_column
from thermoset.errors import InputError
from thermoset.quoting import quoted

__all__ = ["checked_weights", "conformal_weights"]

Floats = NDArray[np.float64]


def checked_weights(weights: Any, n_rows: int) -> Floats:
    """Read one number for each row, finite and not negative; only the ratio of two weights matters.

    >>> checked_weights([2, 0.5], 2)
    array([2. , 0.5])
    >>> checked_weights([1.0, -2.0], 2)
    Traceback (most recent call last):
        ...
    thermoset.errors.InputError: weights[1] is -2.0; a weight must be a finite number of at least 0.
    """
    values = one_column(weights, "weights")
    if values.shape != (n_rows,):
        raise InputError(f"weights must have shape ({n_rows},), one number for each row; got {values.shape}.")
    if values.dtype.kind not in "iuf":
        values = _numbers(values)
    found = values.astype(np.float64)
    bad = np.flatnonzero(~(np.isfinite(found) & (found >= 0)))
    if bad.size:
        raise InputError(
            f"is {found[bad[0]]}; a weight must be a finite number of at least 0."
            + (f" The same goes for {bad.size - 1:,} more rows." if bad.size > 1 else ""),
            row=int(bad[0]),
            name="weights",
        )
    return found


def conformal_weights(weights: Any, n_rows: int) -> Floats:
    """The same for rows that set a threshold: one of them must count.

    >>> conformal_weights([0.0, 0.0], 2)
    Traceback (most recent call last):
        ...
    thermoset.errors.InputError: weights are all 0, so no row would count. Give likely rows a weight above 0.
    """
    found = checked_weights(weights, n_rows)
    if not found.any():
        raise InputError("weights are all 0, so no row would count. Give likely rows a weight above 0.")
    return found


def _numbers(values: NDArray[Any]) -> NDArray[Any]:
    """Text of files as numbers; everything else is none."""
    for row, item in enumerate(values.tolist()):
        if isinstance(item, bool) or not isinstance(item, (str, int, float, np.number)) or not _is_number(item):
            said = f"is {quoted(item)}; a weight must be a finite number of at least 0."
            raise InputError(said, row=row, name="weights")
    return values.astype(np.float64)


def _is_number(item: Any) -> bool:
    try:
        float(item)
    except (ValueError, OverflowError):
        return False
    return True
