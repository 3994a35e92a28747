"""The bound b(T) of theorem 4.4, its minimum, and the temperatures at which a margin is above it.

Both branches of the paper's eq. 6 are one formula: with h = ln 4 + |ln T|,

    b(T) = T max( h / |T - 1|, (h + 2 ln(C - 1)) / (T + 1) ).

It rises from 0 to infinity on (0, 1), falls from infinity to its minimum at the critical temperature, and rises again.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, overload

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import lambertw

from thermoset.errors import InputError
from thermoset.paper.theory.gaps import margins
from thermoset.paper.theory.sorted_rows import Bools, Floats, Ints, finite_logits
from thermoset.quoting import Brief, quoted

__all__ = [
    "BoundIntervals",
    "bound",
    "bound_share",
    "checked_classes",
    "checked_temperatures",
    "critical_temperature",
    "last_where",
    "plain",
    "share_above",
    "temperature_intervals",
]

_MOST_CLASSES = 2**62  # what fits 64 bits, with room


@overload
def bound(temperature: float, n_classes: int) -> float: ...
@overload
def bound(temperature: ArrayLike, n_classes: ArrayLike) -> Floats: ...
def bound(temperature: ArrayLike, n_classes: ArrayLike) -> Floats | float:
    """Bound b(T) for C classes: what a margin must exceed for the sign of the derivative of g to be certain (eq. 6).

    Numbers or arrays; infinite at T = 1, where there is nothing to bound.

    >>> import math
    >>> bound(2.0, 2) == 2 * math.log(8)  # C = 2: the first term, T / (T - 1) ln(4 T)
    True
    >>> bound([0.5, 1.0, 1.5], 100).round(3)
    array([3.757,   inf, 6.589])
    """
    t, c = checked_temperatures(temperature), checked_classes(n_classes)
    h = np.log(4.0) + np.abs(np.log(t))
    with np.errstate(divide="ignore", over="ignore"):
        largest = np.maximum(h * (t / np.abs(t - 1)), (h + 2 * np.log(c - 1.0)) * (t / (t + 1)))
    return plain(largest)


@overload
def critical_temperature(n_classes: int) -> float: ...
@overload
def critical_temperature(n_classes: ArrayLike) -> Floats: ...
def critical_temperature(n_classes: ArrayLike) -> Floats | float:
    """Temperature above 1 at which b(T) is smallest, in closed form.

    The terms of the bound meet where ln(4 T) = (T - 1) a, a = ln(C - 1), so T = -W(-a exp(-a) / 4) / a with the lower
    branch of Lambert's W. The first term alone is smallest where ln(4 T) = T - 1, the same with a = 1; for C = 2 and 3
    that comes before the meeting.

    >>> critical_temperature([2, 3, 4, 10, 100, 1000]).round(4)
    array([3.6926, 3.6926, 3.3669, 1.9302, 1.3702, 1.2308])
    """
    a = np.maximum(np.log(checked_classes(n_classes) - 1.0), 1.0)
    return plain(-lambertw(-a * np.exp(-a) / 4, k=-1).real / a)


@dataclass(frozen=True, eq=False, repr=False)
class BoundIntervals(Brief):
    """Where margins are above the bound: T <= cool_to, and hot_from <= T <= hot_to. NaN where there is no such T."""

    cool_to: Floats
    hot_from: Floats
    hot_to: Floats


def temperature_intervals(margin: ArrayLike, n_classes: int) -> BoundIntervals:
    """Temperatures at which a margin (or each of several) is above b(T): one interval below 1 and one above.

    The ends are the outermost floating-point numbers at which it is. hot_to is infinite where no number is too hot.

    >>> found = temperature_intervals(8.0, 100)
    >>> [float(end.round(4)) for end in (found.cool_to, found.hot_from, found.hot_to)]
    [0.8364, 1.2522, 2.3358]
    >>> temperature_intervals([0.0, 6.0], 100).hot_from  # b is above 6.25 for T > 1
    array([nan, nan])
    """
    try:
        given = np.asarray(margin, dtype=np.float64)
    except (TypeError, ValueError, OverflowError):
        given = np.asarray(np.nan)
    if not np.all(given >= 0):
        raise InputError(f"margin, the largest logit minus the second, must be at least 0; got {quoted(margin)}.")
    coldest, hottest = float(np.finfo(float).tiny), float(np.finfo(float).max)
    best = critical_temperature(n_classes)
    cold, warm = given > bound(coldest, n_classes), given > bound(best, n_classes)
    always = given > bound(hottest, n_classes)

    def edge(inside: float, outside: float) -> Floats:
        ends = (np.full(given.shape, end) for end in (inside, outside))
        return last_where(lambda t: given > bound(t, n_classes), *ends)

    return BoundIntervals(
        cool_to=np.where(cold, edge(coldest, 1.0), np.nan),
        hot_from=np.where(warm, edge(best, 1.0), np.nan),
        hot_to=np.where(warm, np.where(always, np.inf, edge(best, hottest)), np.nan),
    )


def bound_share(logits: Any, temperatures: ArrayLike) -> Floats:
    """Share of rows whose margin is above b(T), at each temperature.

    >>> bound_share([[9.0, 0.0, 0.0], [1.0, 0.0, 0.0]], [0.5, 1.0, 1.5])
    array([0.5, 0. , 0.5])
    """
    data = finite_logits(logits)
    return share_above(margins(data), bound(checked_temperatures(temperatures), data.n_classes))


def share_above(margin: Floats, limits: Floats) -> Floats:
    """Share of margins above each limit."""
    return np.asarray(1 - np.searchsorted(np.sort(margin), limits, side="right") / len(margin))


def last_where(holds: Callable[[Floats], Bools], inside: Floats, outside: Floats) -> Floats:
    """Last numbers from `inside` towards `outside`, both positive, at which `holds`; it turns once between the two.

    Bisection of the numbers' bit patterns, which are ordered as positive floats are: 64 steps reach neighbours.
    """
    near: Ints = np.array(inside, dtype=np.float64).view(np.int64)
    far: Ints = np.array(outside, dtype=np.float64).view(np.int64)
    for _ in range(64):
        middle = near + (far - near) // 2
        good = holds(np.asarray(middle).view(np.float64))
        near, far = np.where(good, middle, near), np.where(good, far, middle)
    return np.asarray(near).view(np.float64)


def plain(values: Any) -> Floats | float:
    """A number for numbers, an array for arrays."""
    return float(values) if np.ndim(values) == 0 else np.asarray(values)


def checked_temperatures(temperature: ArrayLike) -> Floats:
    """Read temperatures, of any number."""
    try:
        found = np.asarray(temperature, dtype=np.float64)
    except (TypeError, ValueError, OverflowError):
        raise InputError(f"temperature must be numbers > 0; got {quoted(temperature)}.") from None
    if not np.all((found > 0) & np.isfinite(found)):
        raise InputError(f"temperature must be finite and > 0; got {quoted(temperature)}.")
    return found


def checked_classes(n_classes: ArrayLike) -> Ints:
    """Read numbers of classes."""
    found = np.asarray(n_classes)
    if found.dtype.kind not in "iu" or not np.all((found >= 2) & (found <= _MOST_CLASSES)):
        raise InputError(f"n_classes must be a whole number >= 2, up to 2**62; got {quoted(n_classes)}.")
    return found.astype(np.int64)
