"""Temperature grids: inclusive, and built in decimal so that T = 1 is exactly 1.0."""

import math
from collections.abc import Iterable
from decimal import Decimal, InvalidOperation

import numpy as np
from numpy.typing import NDArray

from thermoset.errors import InputError

__all__ = ["PAPER_GRID", "checked_temperatures", "temperature_grid"]

PAPER_GRID = "0.5:5:0.1"
"""The temperatures of the paper's section 3.1."""

_MOST = 10_000


def temperature_grid(text: str) -> NDArray[np.float64]:
    """Read `start:stop:step`, both ends included, or numbers with commas.

    >>> temperature_grid("0.5:1.5:0.25")
    array([0.5 , 0.75, 1.  , 1.25, 1.5 ])
    >>> 1.0 in temperature_grid(PAPER_GRID)
    True
    >>> temperature_grid("1,2,4")
    array([1., 2., 4.])
    """
    try:
        numbers = [Decimal(part) for part in text.replace(",", ":").split(":")]
    except InvalidOperation:
        numbers = []
    if not numbers or not all(number.is_finite() for number in numbers):
        raise InputError(f"temperatures must be start:stop:step or numbers with commas; got {text!r}. Try 0.3:5:0.1.")
    if ":" not in text:
        return checked_temperatures(map(float, numbers))
    if len(numbers) != 3 or "," in text or numbers[2] <= 0 or numbers[1] < numbers[0]:
        raise InputError(f"temperatures must be start:stop:step with start <= stop, step > 0; got {text!r}.")
    start, stop, step = numbers
    count = int((stop - start) / step) + 1
    if count > _MOST:
        raise InputError(f"temperatures {text!r} are {count:,}; at most {_MOST:,}. Take a larger step.")
    return checked_temperatures(float(start + k * step) for k in range(count))


def checked_temperatures(temperatures: Iterable[float] | str) -> NDArray[np.float64]:
    """Read temperatures: at least one, finite, above 0, rising."""
    if isinstance(temperatures, str):  # an iterable of digits
        raise InputError(
            f"temperatures must be numbers; got {temperatures!r}. Pass temperature_grid({temperatures!r})."
        )
    try:
        found = np.array([float(t) for t in temperatures])
    except (TypeError, ValueError):
        raise InputError(f"temperatures must be numbers; got {temperatures!r}.") from None
    if not found.size:
        raise InputError("temperatures must name at least one; got none. Try [1.0].")
    bad = [t for t in found.tolist() if not (math.isfinite(t) and t > 0)]
    if bad:
        raise InputError(f"temperatures must be finite and > 0; got {bad[0]}.")
    wrong = np.flatnonzero(np.diff(found) <= 0)
    if wrong.size:
        i = int(wrong[0])
        kind = "twice" if found[i] == found[i + 1] else "out of order"
        raise InputError(
            f"temperatures must rise; {found[i + 1]:g} comes {kind} after {found[i]:g}. Pass sorted(set(temperatures))."
        )
    return found
