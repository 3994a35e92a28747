"""What a predictor returns: label, confidence and set of each row, as arrays or as one record per row."""

from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

__all__ = ["Answers", "Prediction", "as_records"]


class Prediction(NamedTuple):
    """The answer for one row: the likeliest label, its calibrated confidence and the set, by class name where known."""

    label: str | int
    confidence: float
    set: tuple[str | int, ...]


class Answers(NamedTuple):
    """The answers for some rows as arrays: labels (n,) as column numbers, their confidence (n,), and sets (n, C)."""

    labels: NDArray[np.int64]
    confidence: NDArray[np.float64]
    sets: NDArray[np.bool_]


def as_records(found: Answers, names: Sequence[str | int]) -> list[Prediction]:
    """The same with one record per row, with class names.

    >>> found = Answers(np.array([1]), np.array([0.75]), np.array([[False, True, True]]))
    >>> as_records(found, ["ant", "bee", "cow"])
    [Prediction(label='bee', confidence=0.75, set=('bee', 'cow'))]
    """
    # An object for each label of a set, none for those left out; in two dimensions NumPy takes three times as long.
    rows, columns = np.divmod(np.flatnonzero(found.sets), found.sets.shape[1])
    members = [names[column] for column in columns.tolist()]
    ends = np.searchsorted(rows, np.arange(len(found.sets) + 1)).tolist()
    return [
        Prediction(names[label], sure, tuple(members[start:end]))
        for label, sure, (start, end) in zip(
            found.labels.tolist(), found.confidence.tolist(), pairwise(ends), strict=True
        )
    ]
