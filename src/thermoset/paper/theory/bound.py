"""The bound b(T) of theorem 4.4, its minimum, the temperatures at which margins exceed it, and the sharp bound b*(T).

Both branches of the paper's eq. 6 are one formula: with h = ln 4 + |ln T|,
b(T) = T max(h / |T - 1|, (h + 2 ln(C - 1)) / (T + 1)). The page "Theory" derives b*.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, overload

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import lambertw

from thermoset.arrays import Bools, Floats, Ints
from thermoset.errors import InputError
from thermoset.paper.theory.gaps import checked_numbers, finite_logits, margins
from thermoset.quoting import Brief, quoted

_MOST_CLASSES = 2**62  # what fits 64 bits, with room to spare


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
    t, c = checked_temperatures(temperature), _checked_classes(n_classes)
    h = np.log(4.0) + np.abs(np.log(t))
    with np.errstate(divide="ignore", over="ignore"):
        largest = np.maximum(h * (t / np.abs(t - 1)), (h + 2 * np.log(c - 1.0)) * (t / (t + 1)))
    return _plain(largest)


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
    a = np.maximum(np.log(_checked_classes(n_classes) - 1.0), 1.0)
    return _plain(-lambertw(-a * np.exp(-a) / 4, k=-1).real / a)


@dataclass(frozen=True, eq=False, repr=False)
class BoundIntervals(Brief):
    """Where margins are above the bound: T <= cool_to, and hot_from <= T <= hot_to. NaN where there is no such T."""

    cool_to: Floats
    hot_from: Floats
    hot_to: Floats


def temperature_intervals(margin: ArrayLike, n_classes: int) -> BoundIntervals:
    """Temperatures at which a margin (or each of several) is above b(T): one interval below 1 and one above.

    The ends are the outermost floating-point numbers at which it is. hot_to is infinite where no number is too hot.

    >>> intervals = temperature_intervals(8.0, 100)
    >>> [float(end.round(4)) for end in (intervals.cool_to, intervals.hot_from, intervals.hot_to)]
    [0.8364, 1.2522, 2.3358]
    >>> temperature_intervals([0.0, 6.0], 100).hot_from  # b is above 6.25 for T > 1
    array([nan, nan])
    """
    wanted = "margin, the largest logit minus the second, must be at least 0"
    numbers = checked_numbers(margin, wanted)
    if not np.all(numbers >= 0):
        raise InputError(f"{wanted}; got {quoted(margin)}.")
    coldest, hottest = float(np.finfo(float).tiny), float(np.finfo(float).max)
    best = critical_temperature(n_classes)
    cold, warm = numbers > bound(coldest, n_classes), numbers > bound(best, n_classes)
    always = numbers > bound(hottest, n_classes)

    def edge(inside: float, outside: float) -> Floats:
        ends = (np.full(numbers.shape, end) for end in (inside, outside))
        return last_where(lambda t: numbers > bound(t, n_classes), *ends)

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
    return _share_above(logits, temperatures, bound)


def _share_above(logits: Any, temperatures: ArrayLike, limit: Callable[[Floats, int], Floats]) -> Floats:
    data = finite_logits(logits)
    limits = limit(checked_temperatures(temperatures), data.n_classes)
    return np.asarray(1 - np.searchsorted(np.sort(margins(data)), limits, side="right") / len(data))


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


def _plain(values: Any) -> Floats | float:
    """Return a number for numbers, an array for arrays."""
    return float(values) if np.ndim(values) == 0 else np.asarray(values)


def checked_temperatures(temperature: ArrayLike) -> Floats:
    """Read temperatures, of any number."""
    values = checked_numbers(temperature, "temperature must be numbers > 0")
    if not np.all((values > 0) & np.isfinite(values)):
        raise InputError(f"temperature must be finite and > 0; got {quoted(temperature)}.")
    return values


def _checked_classes(n_classes: ArrayLike) -> Ints:
    counts = np.asarray(n_classes)
    if counts.dtype.kind not in "iu" or not np.all((counts >= 2) & (counts <= _MOST_CLASSES)):
        raise InputError(f"n_classes must be a whole number >= 2, up to 2**62; got {quoted(n_classes)}.")
    return counts.astype(np.int64)


_SMALL = 1.0  # of half the exponents' difference: below it, the quotient of the cosh is written as 1 + something


@overload
def sharp_bound(temperature: float, n_classes: int) -> float: ...
@overload
def sharp_bound(temperature: ArrayLike, n_classes: ArrayLike) -> Floats: ...
def sharp_bound(temperature: ArrayLike, n_classes: ArrayLike) -> Floats | float:
    """Sharp bound b*(T) for C classes: the smallest number that can stand for b(T) in theorem 4.4.

    Numbers or arrays. It rises with T, through T = 1 too, where it is the limit from both sides. For T > 1 it is the
    root D of cosh((D - a) / 2) = sqrt(T) cosh((D / T - a) / 2), a = ln(C - 1); below 1 it is T b*(1/T).

    >>> sharp_bound([0.5, 1.0, 1.5, 5.0], 100).round(3)
    array([3.401, 5.001, 6.044, 9.081])
    >>> from thermoset.paper.theory import bound
    >>> round(bound(1.1, 100), 1), round(sharp_bound(1.1, 100), 1)
    (16.3, 5.2)
    """
    t, c = np.broadcast_arrays(checked_temperatures(temperature), _checked_classes(n_classes))
    a = np.log(c - 1.0)
    at_one = last_where(lambda d: d * np.tanh((d - a) / 2) < 1, np.maximum(a, 0.5), a + 3.0)
    with np.errstate(over="ignore", divide="ignore"):
        cooler = np.where(t > 1, 1 / t, t)  # of the two inverse temperatures, 1 and 1/T, over the larger one
        away = np.where(t > 1, (t - 1) / t, 1 - t)
        # h(D) >= D and h(D / T) <= D / T + 2 ln C bound the root where D <= T b*(1) is not finite
        above = np.minimum(at_one / cooler, (np.abs(np.log(t)) + 2 * np.log(c)) / away)
    inside = np.where(away == 0, at_one, np.minimum(at_one, above))
    wanted = np.abs(np.log(t))
    root = last_where(lambda d: _log_cosh_ratio(d, a, away) < wanted, inside, np.where(away == 0, at_one, above))
    return _plain(np.where(t < 1, cooler * root, root))


def _log_cosh_ratio(d: Floats, a: Floats, away: Floats) -> Floats:
    """2 ln(cosh x / cosh y) for x = (d - a) / 2 and y = x - d away / 2, without cancellation where x is close to y."""
    x, step = (d - a) / 2, d * away / 2
    y = x - step
    near = np.minimum(step, _SMALL)
    # cosh x / cosh y = cosh(step) + tanh(y) sinh(step)
    close = np.log1p(2 * np.sinh(near / 2) ** 2 + np.tanh(y) * np.sinh(near))
    far = np.abs(x) - np.abs(y) + np.log1p(np.exp(-2 * np.abs(x))) - np.log1p(np.exp(-2 * np.abs(y)))
    return np.asarray(2 * np.where(step < _SMALL, close, far))


def sharp_share(logits: Any, temperatures: ArrayLike) -> Floats:
    """Share of rows whose margin is above b*(T), at each temperature; it cannot rise with T.

    >>> sharp_share([[9.0, 0.0, 0.0], [3.0, 0.0, 0.0], [1.0, 0.0, 0.0]], [0.5, 1.5, 20.0]).round(2)
    array([0.67, 0.67, 0.33])
    """
    return _share_above(logits, temperatures, sharp_bound)
