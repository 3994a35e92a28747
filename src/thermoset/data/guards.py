"""Mistakes that rows and labels show by themselves: classes in another order, labels from 1, training rows."""

import warnings

import numpy as np

from thermoset.arrays import Ints
from thermoset.data import Logits
from thermoset.errors import SuspiciousRowsWarning
from thermoset.rows import top_labels

_FEWEST = 100  # rows that tell something
_FEWEST_RIGHT = 500  # rows of which none is wrong, where an error of 1% would show with probability 0.993
_MOST_CLASSES = 2000
_FAR = 0.3  # how much more another order of the classes must explain


def warn_of_labels(data: Logits, labels: Ints) -> None:
    """Say so where labels fit the rows far better in another order, or where no row at all is wrong.

    >>> rows = Logits(np.eye(3)[np.arange(120) % 3] * 4 + np.random.default_rng(0).normal(size=(120, 3)))
    >>> with warnings.catch_warnings(record=True) as said:
    ...     warnings.simplefilter("always")
    ...     warn_of_labels(rows, (np.arange(120) + 1) % 3)
    >>> said[0].category.__name__
    'SuspiciousRowsWarning'
    """
    n_rows, n_classes = len(labels), data.n_classes
    if n_rows < _FEWEST:
        return
    top = top_labels(data)
    agree = float(np.mean(top == labels))
    if agree == 1.0 and n_rows >= _FEWEST_RIGHT:
        _warn(
            f"all {n_rows:,} labels are those of the largest logit: are these training rows? Coverage is promised for "
            "rows like these, and held-out rows are rarely so easy. Use rows that the model has not seen."
        )
    if agree > 1.0 - _FAR:
        return
    shifted = float(np.mean(top == labels - 1))
    if labels.min() >= 1 and shifted > agree + _FAR:
        _warn(
            f"labels agree with the largest logit in {agree:.0%} of rows, and in {shifted:.0%} if 1 is subtracted: do "
            "labels start at 1?"
        )
    elif n_classes <= _MOST_CLASSES and (other := _best_order(top, labels, n_classes)) > agree + _FAR:
        _warn(
            f"labels agree with the largest logit in {agree:.0%} of rows; under another order of the classes in "
            f"{other:.0%}. Are the class names in the order of the columns?"
        )


def _best_order(top: Ints, labels: Ints, n_classes: int) -> float:
    """How often labels agree under the order that fits best: found on every other row, and counted on the others."""
    from scipy.optimize import linear_sum_assignment  # noqa: PLC0415 - rarely needed

    found, counted = slice(0, None, 2), slice(1, None, 2)
    pairs = np.bincount(labels[found] * n_classes + top[found], minlength=n_classes * n_classes)
    _, order = linear_sum_assignment(pairs.reshape(n_classes, n_classes), maximize=True)
    return float(np.mean(order[labels[counted]] == top[counted]))


def _warn(message: str) -> None:
    warnings.warn(message, SuspiciousRowsWarning, stacklevel=4)
