"""Reads every number that comes from a user or a file, and checks its bounds before anything is computed with it.

What looks like a number may fill the memory when it is read (1e-99999999 has a denominator of a hundred million
digits), may be too long to print, or may be NaN, infinite, a boolean or an array.
"""

import math
import operator
import re
from contextlib import suppress
from decimal import Decimal
from fractions import Fraction
from functools import lru_cache
from numbers import Rational, Real

import numpy as np

from thermoset.errors import InputError
from thermoset.quoting import quoted

MOST_DIGITS = 100
"""Digits of a number as it is typed. The exact decimal expansion of a float near 1 has up to 55."""

MOST_ROWS = 10**12
"""The largest number of rows in a plan or a law: a trillion."""

MOST_HELD = 2**31 - 1
"""Rows that data can have: their numbers fit 32 bits."""

COLDEST, HOTTEST = 1e-300, 1e300
"""The range of temperatures: below 5.6e-309 the inverse is infinite, and probabilities are NaN."""

_LARGEST_EXPONENT = 400  # beyond every float: 1e308 and 5e-324 can be typed
_LEAST_MEMORY, _MOST_MEMORY = 2**20, 2**60  # a bare 4 was meant as gigabytes; more than an exbibyte is a slip
_AMOUNT = re.compile(r"\s*([0-9.]+)\s*([kmgtp]?)(i?)b?\s*", re.IGNORECASE | re.ASCII)


def exact_number(value: object) -> Fraction | None:
    """The number as it was typed; None for what is no finite number, or has too many digits or too large an exponent.

    A float is the decimal it prints as. Text may be a decimal, with or without an exponent, or a fraction.

    >>> exact_number(0.1), exact_number("1/3"), exact_number("1e-99999999"), exact_number(True)
    (Fraction(1, 10), Fraction(1, 3), None, None)
    """
    single = _single(value)
    if isinstance(single, bool) or not isinstance(single, str | Decimal | Real):
        return None
    if isinstance(single, Rational):
        number = Fraction(int(single.numerator), int(single.denominator))
        return number if max(abs(number.numerator), number.denominator) < 10**MOST_DIGITS else None
    text = str(single)
    if not text.isprintable() or max(map(len, text.split("/"))) > MOST_DIGITS:
        return None
    return _number_typed(text)


@lru_cache(maxsize=1024)  # a search asks for the same few levels thousands of times
def _number_typed(text: str) -> Fraction | None:
    exponent = text.lower().partition("e")[2]
    try:
        if exponent and abs(int(exponent)) > _LARGEST_EXPONENT:
            return None
        return Fraction(text)
    except (ValueError, ZeroDivisionError):
        return None


def _single(value: object) -> object:
    """What an array of no dimensions holds; everything else as it is."""
    return value[()] if isinstance(value, np.ndarray) and value.ndim == 0 else value


def real_number(value: object, name: str, low: float, high: float, wanted: str, advice: str) -> float:
    """Read a number, not text, from low to high; the message says that `name` must be what is `wanted`.

    >>> real_number(2, "penalty", 0, 10, "a number from 0 to 10", "Try 1.")
    2.0
    """
    single, number = _single(value), math.nan
    if not isinstance(single, bool) and isinstance(single, Decimal | Real):
        with suppress(OverflowError, ValueError):
            number = float(single)
    if not low <= number <= high:
        raise InputError(f"{name} must be {wanted}; got {quoted(value)}. {advice}")
    return number


def whole_number(value: object, name: str, low: int, high: int, advice: str) -> int:
    """Read a whole number from low to high.

    >>> whole_number(np.int64(3), "trials", 1, 10, "Try 5.")
    3
    >>> whole_number(3.0, "trials", 1, 10, "Try 5.")
    Traceback (most recent call last):
        ...
    thermoset.errors.InputError: trials must be a whole number from 1 to 10; got 3.0. Try 5.
    """
    try:
        number = None if isinstance(value, bool | np.bool_) else operator.index(value)  # type: ignore[arg-type]
    except TypeError:
        number = None
    if number is None or not low <= number <= high:
        most = f"{high:,}" if high < 10**15 else f"2**{high.bit_length()} - 1"
        raise InputError(f"{name} must be a whole number from {low:,} to {most}; got {quoted(value)}. {advice}")
    return number


def bytes_of(value: object, name: str = "memory") -> int:
    """Read an amount of memory: a number of bytes, or text with a unit.

    kB, MB, GB, TB and PB are powers of 1,000; KiB, MiB, GiB, TiB and PiB are powers of 1,024. A letter alone is the
    smaller of the two, so that a limit is kept whichever was meant.

    >>> bytes_of("1GiB"), bytes_of("1.5 MB"), bytes_of("2G"), bytes_of(10**9)
    (1073741824, 1500000, 2000000000, 1000000000)
    >>> bytes_of("4")
    Traceback (most recent call last):
        ...
    thermoset.errors.InputError: memory must be from 1MiB to 1024PiB, such as 1GiB or 512MB; got '4'. Try 1GiB.
    """
    amount = _AMOUNT.fullmatch(value) if isinstance(value, str) and len(value) <= MOST_DIGITS else None
    if amount is not None:
        power = "kmgtp".find(amount[2].lower()) + 1 if amount[2] else 0
        number, scale = exact_number(amount[1]), (1024 if amount[3] else 1000) ** power
    else:
        number, scale = (None if isinstance(value, str) else exact_number(value)), 1
    if number is None or not _LEAST_MEMORY <= (n_bytes := int(number * scale)) <= _MOST_MEMORY:
        wanted = "from 1MiB to 1024PiB, such as 1GiB or 512MB"
        raise InputError(f"{name} must be {wanted}; got {quoted(value)}. Try 1GiB.")
    return n_bytes


def checked_temperature(temperature: object, name: str = "temperature") -> float:
    """Read a temperature: a number above 0, within the bounds."""
    wanted = f"a finite number > 0, from {COLDEST:g} to {HOTTEST:g}"
    return real_number(temperature, name, COLDEST, HOTTEST, wanted, "1.0 leaves the logits unchanged.")


def checked_seed(random_state: object) -> int:
    """Read a seed: a whole number that fits 64 bits. None is refused: the same seed must give the same answer."""
    return whole_number(random_state, "random_state", 0, 2**64 - 1, "Try 0.")
