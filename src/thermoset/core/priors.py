"""Shares of the classes, as scores that weigh classes by how common they are take them."""

from typing import Any

import numpy as np

from thermoset.core.exponentials import Floats, Ints
from thermoset.errors import InputError
from thermoset.quoting import quoted

__all__ = ["checked_prior", "log_prior", "smoothed_counts"]

_SMOOTHING = 0.5  # of a row, added to every class: one that was not seen is rare, not impossible


def checked_prior(prior: Any) -> tuple[float, ...]:
    """Positive finite numbers, one for each class, as they were given: shares or counts.

    >>> checked_prior([3, 1])
    (3.0, 1.0)
    >>> checked_prior([3, 0])  # doctest: +ELLIPSIS
    Traceback (most recent call last):
        ...
    thermoset.errors.InputError: prior must be positive for every class; class 1 has 0. A class with prior 0 would ...
    """
    try:
        given = np.array(prior, dtype=np.float64)
    except (TypeError, ValueError, OverflowError):
        given = np.empty(0)
    if given.ndim != 1 or len(given) < 2:
        raise InputError(f"prior must be one positive number per class, or None; got {quoted(prior)}.")
    bad = np.flatnonzero(~(np.isfinite(given) & (given >= 0)))
    if bad.size:
        raise InputError(f"prior must be finite and positive for every class; class {bad[0]} has {given[bad[0]]:g}.")
    zero = np.flatnonzero(given == 0)
    if zero.size:
        raise InputError(
            f"prior must be positive for every class; class {zero[0]} has 0. A class with prior 0 would be in every "
            "set: give it a small share, or half a row if the others are counts."
        )
    return tuple(given.tolist())


def log_prior(prior: tuple[float, ...]) -> Floats:
    """Logs of the shares, which add up to 1, without overflow.

    >>> np.exp(log_prior((3.0, 1.0))).round(12).tolist()
    [0.75, 0.25]
    """
    logs = np.log(np.array(prior))
    logs -= logs.max()
    return np.asarray(logs - np.log(np.exp(logs).sum()))


def smoothed_counts(labels: Ints, n_classes: int) -> tuple[float, ...]:
    """Rows of each class and half a row more, so that no class has none.

    >>> smoothed_counts(np.array([0, 0, 2]), 3)
    (2.5, 0.5, 1.5)
    """
    return tuple((np.bincount(labels, minlength=n_classes) + _SMOOTHING).tolist())
