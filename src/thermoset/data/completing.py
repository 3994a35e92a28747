"""Whole rows from the K largest logits: a best guess at the others, for what only chooses or describes.

All classes that are not kept get one logit, so that together they weigh what is stated at the temperature nearest 1.
Where nothing is stated, the tail is taken to go on as it began: logits fall by as much for each doubling of the rank as
they do over the last doubling that is kept.
"""

import numpy as np
from numpy.typing import NDArray

from thermoset.data.arrays import Floats
from thermoset.data.tail_mass import stated_ends
from thermoset.data.top_rows import TopRows

__all__ = ["completed"]


def completed(rows: TopRows) -> Floats:
    """Rows (n, C) of the type of the kept logits."""
    whole = np.empty((rows.n_rows, rows.n_classes), dtype=rows.logits.dtype)
    if rows.n_rest:
        whole[:] = _filling(rows)[:, None]
    np.put_along_axis(whole, rows.indices.astype(np.int64), rows.logits, axis=1)
    return whole


def _filling(rows: TopRows) -> Floats:
    """The logit of the classes that are not kept: below all that are."""
    last = rows.logits[:, -1]
    fall = _continued(rows) if not rows.stated.temperatures.size else _stated(rows)
    with np.errstate(over="ignore"):
        guess = (last.astype(np.float64) - fall).astype(last.dtype)
    filled: Floats = np.where(np.isneginf(last), last, np.minimum(guess, np.nextafter(last, last.dtype.type(-np.inf))))
    return filled


def _stated(rows: TopRows) -> NDArray[np.float64]:
    """How far below the last kept logit all others have the weight that is stated."""
    ends = stated_ends(rows.logits, rows.stated, rows.n_classes)
    s = int(np.abs(np.log(ends.inverse)).argmin())
    # Where the bounds reach down to nothing, the upper one alone says something.
    middle = np.where(np.isneginf(ends.low[:, s]), ends.high[:, s], (ends.low[:, s] + ends.high[:, s]) / 2)
    fall: NDArray[np.float64] = np.maximum(np.log(rows.n_rest) - middle, 0.0) / ends.inverse[s]
    return fall


def _continued(rows: TopRows) -> NDArray[np.float64]:
    """The same where the logit falls with the log of the rank as it does over the last half of the kept ones.

    With a fall of s for each unit of log rank, the mean weight beyond rank K is the mean of (rank / K)**-s.
    """
    n_kept = rows.logits.shape[1]
    half = n_kept // 2
    kept = rows.logits.astype(np.float64)
    with np.errstate(invalid="ignore"):
        slope = np.nan_to_num((kept[:, half - 1] - kept[:, -1]) / np.log(n_kept / half), nan=0.0, posinf=1e6)
    ratio = rows.n_classes / n_kept
    power = 1.0 - np.where(np.abs(slope - 1.0) < 1e-6, 1.0 + 1e-6, slope)
    mean = np.maximum(np.expm1(power * np.log(ratio)) / (power * (ratio - 1.0)), np.finfo(np.float64).tiny)
    fall: NDArray[np.float64] = np.maximum(-np.log(mean), 0.0)
    return fall
