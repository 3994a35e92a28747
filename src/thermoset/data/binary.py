"""Scores of binary models: one number for each row, which speaks for the second class."""

import numpy as np

from thermoset.data.arrays import Floats, read_table
from thermoset.data.labels import one_column
from thermoset.errors import InputError

__all__ = ["two_columns"]


def two_columns(scores: object) -> Floats:
    """The logits (0, z) of scores z, whose softmax is that of the sigmoid: (n,) or (n, 1) becomes (n, 2).

    >>> two_columns([1.5, -0.5])
    array([[ 0. ,  1.5],
           [ 0. , -0.5]])
    """
    values = one_column(scores, "scores")
    if values.ndim == 2 and values.shape[1] == 2:
        raise InputError("scores have two columns already, one for each class: use Logits(scores).")
    if values.ndim not in (1, 2) or values.size != len(values):
        raise InputError(f"scores must be one number for each row, shape (n,) or (n, 1); got {values.shape}.")
    column = values.reshape(-1, 1)
    return read_table(np.hstack([np.zeros_like(column), column]), "scores").values
