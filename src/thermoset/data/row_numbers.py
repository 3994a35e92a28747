"""Rows in messages counted as users count them, where an error is about some of their rows."""

from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
from numpy.typing import NDArray

from thermoset.errors import InputError

__all__ = ["rows_of_user"]


@contextmanager
def rows_of_user(numbers: NDArray[np.int64] | None) -> Iterator[None]:
    """Work on some of a user's rows, by their numbers; None if they are all rows.

    >>> import numpy as np
    >>> with rows_of_user(np.array([3, 5, 8])):
    ...     raise InputError("is wrong.", row=2, name="logits")
    Traceback (most recent call last):
        ...
    thermoset.errors.InputError: logits[8] is wrong.
    """
    try:
        yield
    except InputError as error:
        if numbers is None or error.row is None:
            raise
        raise error.at(int(numbers[error.row])) from None
