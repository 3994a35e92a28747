"""Temperature grids: inclusive, and built in fractions so that T = 1 is exactly 1.0."""

from collections.abc import Iterable
from fractions import Fraction
from itertools import islice

import numpy as np

from thermoset.arrays import Floats
from thermoset.bounds import checked_temperature, exact_number
from thermoset.errors import InputError
from thermoset.quoting import quoted

__all__ = ["DEFAULT_GRID", "PAPER_GRID", "checked_temperatures", "temperature_grid"]

DEFAULT_GRID = "0.3:5:0.1"
"""The default temperatures of a sweep: those of the paper's appendix and published code."""

PAPER_GRID = "0.5:5:0.1"
"""The temperatures of the paper's section 3.1."""

_MOST = 10_000


def temperature_grid(text: str) -> Floats:
    """Read `start:stop:step`, both ends included, or comma-separated numbers.

    >>> temperature_grid("0.5:1.5:0.25")
    array([0.5 , 0.75, 1.  , 1.25, 1.5 ])
    >>> 1.0 in temperature_grid(PAPER_GRID)
    True
    >>> temperature_grid("1,2,4")
    array([1., 2., 4.])
    """
    parts = text.replace(",", ":").split(":")
    numbers = [number for number in map(exact_number, parts) if number is not None]
    if len(numbers) < len(parts):
        raise InputError(
            f"temperatures must be start:stop:step or comma-separated numbers; got {quoted(text)}. Try {DEFAULT_GRID}."
        )
    if ":" not in text:
        return checked_temperatures(numbers)
    if len(numbers) != 3 or "," in text or numbers[2] <= 0 or numbers[1] < numbers[0]:
        raise InputError(f"temperatures must be start:stop:step with start <= stop, step > 0; got {quoted(text)}.")
    start, stop, step = numbers
    count = (stop - start) // step + 1
    if count > _MOST:
        raise InputError(f"temperatures {quoted(text)} are more than {_MOST:,} values. Use a larger step.")
    return checked_temperatures(start + k * step for k in range(count))


def checked_temperatures(temperatures: Iterable[float | Fraction] | str) -> Floats:
    """Read temperatures: at least one and at most 10,000, finite, above 0, increasing."""
    if isinstance(temperatures, str):  # an iterable of digits
        raise InputError(
            f"temperatures must be numbers; got {quoted(temperatures)}. Pass temperature_grid({quoted(temperatures)})."
        )
    try:
        given = list(islice(temperatures, _MOST + 1))
    except TypeError:
        raise InputError(f"temperatures must be numbers; got {quoted(temperatures)}.") from None
    if not given:
        raise InputError("temperatures must contain at least one; got none. Try [1.0].")
    if len(given) > _MOST:
        raise InputError(f"there must be at most {_MOST:,} temperatures; got more. Use a coarser grid.")
    found = np.array([checked_temperature(t, "each temperature") for t in given])
    wrong = np.flatnonzero(np.diff(found) <= 0)
    if wrong.size:
        i = int(wrong[0])
        kind = "twice" if found[i] == found[i + 1] else "out of order"
        raise InputError(
            f"temperatures must increase; {found[i + 1]:g} comes {kind} after {found[i]:g}. "
            "Pass sorted(set(temperatures))."
        )
    return found
