"""Rows in messages counted as users count them, where an error is about some of their rows."""

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import numpy as np
from numpy.typing import NDArray

from thermoset.errors import InputError

__all__ = ["names_row", "renumbered", "rows_of_user"]

_ROW = re.compile(r"\b(logits|probs|labels|groups|y)\[(\d+)")


def names_row(text: str) -> bool:
    """Whether a message begins with a row.

    >>> names_row("probs[3] sums to 2."), names_row("logits have no rows.")
    (True, False)
    """
    return _ROW.match(text) is not None


def renumbered(text: str, number: Callable[[int], int]) -> str:
    """A message with other row numbers.

    >>> renumbered("logits[2, 0] is NaN; 1 such value(s).", lambda row: row + 100)
    'logits[102, 0] is NaN; 1 such value(s).'
    """
    return _ROW.sub(lambda found: f"{found[1]}[{number(int(found[2]))}", text)


@contextmanager
def rows_of_user(numbers: NDArray[np.int64] | None) -> Iterator[None]:
    """Work on some of a user's rows, by their numbers; None if they are all rows.

    >>> import numpy as np
    >>> with rows_of_user(np.array([3, 5, 8])):
    ...     raise InputError("logits[2] is wrong.")
    Traceback (most recent call last):
        ...
    thermoset.errors.InputError: logits[8] is wrong.
    """
    try:
        yield
    except InputError as error:
        if numbers is None:
            raise
        raise type(error)(renumbered(str(error), lambda row: int(numbers[row]))) from None
