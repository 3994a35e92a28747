"""Whether a curve rises and then falls, decided by differences between temperatures, trial by trial.

All temperatures of a trial share its split and its u, so their differences are far less noisy than the curve. A curve
of 50 temperatures has 1,225 differences, some of which look real by chance: the bar is set so high (Bonferroni) that in
95 of 100 curves without any change none of them does.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.stats import t as student

from thermoset.arrays import Floats
from thermoset.sweeping import standard_error

__all__ = ["Shape", "rise_and_fall", "significant_changes"]

_LEVEL = 0.05  # of all the differences of a curve together


def significant_changes(values: Floats) -> NDArray[np.int8]:
    """Signs of the changes from each temperature to each other that chance does not explain, (n, n); 0 for the rest.

    `values` is (n_temperatures, trials).

    >>> values = np.array([[1.0, 1.1, 0.9, 1.0], [2.0, 2.1, 1.9, 2.01], [2.0, 2.1, 1.91, 2.0]])
    >>> significant_changes(values)[0].tolist(), significant_changes(values)[1].tolist()
    ([0, 1, 1], [-1, 0, 0])
    """
    n, trials = values.shape
    pairs = max(n * (n - 1) // 2, 1)
    bar = float(student.ppf(1 - _LEVEL / (2 * pairs), max(trials - 1, 1)))
    signs = np.zeros((n, n), dtype=np.int8)
    for i, start in enumerate(values):
        changes = values - start
        mean = changes.mean(axis=-1)
        far = np.abs(mean) > bar * standard_error(changes)  # one that is the same in every trial has no error
        signs[i, far] = np.sign(mean[far])
    return signs


@dataclass(frozen=True)
class Shape:
    """What a curve does.

    Attributes
    ----------
    peak : int
        Index of its largest mean.
    holds : bool or None
        True: it rises to some inner temperature and falls after it, both beyond chance, and no change on the way
        contradicts this. False: whichever inner temperature were the peak, some change contradicts it. None: open.
    against : tuple of int or None
        The largest change that contradicts `peak`: from one index to another.
    """

    peak: int
    holds: bool | None
    against: tuple[int, int] | None


def rise_and_fall(values: Floats) -> Shape:
    """Decide whether a curve (n_temperatures, trials) rises and then falls.

    >>> hill = np.array([0.0, 1.0, 2.0, 1.5, 0.5])
    >>> rise_and_fall(hill[:, None] + 0.01 * np.random.default_rng(0).normal(size=(5, 20)))
    Shape(peak=2, holds=True, against=None)
    """
    mean, signs = values.mean(axis=-1), significant_changes(values)
    last, peak = len(mean) - 1, int(mean.argmax())
    later = np.triu(np.ones(signs.shape, dtype=bool), 1)
    falls, rises = later & (signs < 0), later & (signs > 0)
    possible = [k for k in range(1, last) if not falls[: k + 1, : k + 1].any() and not rises[k:, k:].any()]
    shown = [k for k in possible if signs[0, k] > 0 and signs[k, last] < 0]
    return Shape(peak, True if shown else (None if possible else False), _against(mean, falls, rises, peak))


def _against(mean: Floats, falls: NDArray[np.bool_], rises: NDArray[np.bool_], peak: int) -> tuple[int, int] | None:
    """The largest fall before the peak or rise after it that chance does not explain."""
    wrong = np.zeros(falls.shape, dtype=bool)
    wrong[: peak + 1, : peak + 1] = falls[: peak + 1, : peak + 1]
    wrong[peak:, peak:] |= rises[peak:, peak:]
    if not wrong.any():
        return None
    size = np.where(wrong, np.abs(mean[None] - mean[:, None]), -1.0)
    i, j = np.unravel_index(int(size.argmax()), size.shape)
    return int(i), int(j)
