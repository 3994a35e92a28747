"""Multiple choice: rows of log-likelihoods, one for each option, padded with -inf to the largest number of options."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from thermoset.bounds import whole_number
from thermoset.data.labels import one_column
from thermoset.errors import InputError
from thermoset.quoting import quoted

__all__ = ["check_gold", "checked_options", "option_names", "padded", "per_length", "ragged"]

LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
MOST_OPTIONS = 10_000_000


def option_names(n_options: int) -> tuple[str, ...] | None:
    """Letters for up to 26 positions; more have no names.

    >>> option_names(3)
    ('A', 'B', 'C')
    """
    return tuple(LETTERS[:n_options]) if n_options <= len(LETTERS) else None


def ragged(rows: Any, name: str) -> list[NDArray[np.float64]]:
    """Read one list of numbers for each row; their lengths may differ.

    >>> ragged([[-1.0, -2.0], [-3.0]], "loglikelihoods")
    [array([-1., -2.]), array([-3.])]
    """
    try:
        items = list(rows)
    except TypeError:
        raise InputError(f"{name} must hold a list of numbers for each row; got {quoted(rows)}.") from None
    if not items:
        raise InputError(f"{name} is empty; expected a list of numbers for each row.")
    return [_numbers(item, f"{name}[{row}]") for row, item in enumerate(items)]


def _numbers(item: Any, name: str) -> NDArray[np.float64]:
    plain = isinstance(item, (str, bytes)) or not hasattr(item, "__len__")
    values = np.empty(()) if plain else one_column(item, name)
    if values.ndim != 1 or (values.dtype.kind not in "fiu" and values.size):
        raise InputError(f"{name} is {quoted(item)}; expected a list of numbers, one for each option.")
    if values.size == 0:
        raise InputError(f"{name} is empty; a row needs at least one option. Drop it.")
    return np.asarray(values, dtype=np.float64)


def checked_options(n_options: object) -> int | None:
    """Read how many columns options get, if that was said.

    >>> checked_options(5), checked_options(None)
    (5, None)
    """
    if n_options is None:
        return None
    return whole_number(n_options, "n_options", 2, MOST_OPTIONS, "Pass the largest number of options.")


def padded(rows: Sequence[NDArray[np.float64]], n_options: int | None = None) -> NDArray[np.float64]:
    """Stack rows of different lengths; options that a row does not have are -inf, masked classes.

    >>> padded([np.array([-1.0, -2.0]), np.array([-3.0])])
    array([[ -1.,  -2.],
           [ -3., -inf]])
    """
    longest = max(map(len, rows))
    width = checked_options(n_options) or longest
    if longest > width:
        row = next(row for row, values in enumerate(rows) if len(values) > width)
        raise InputError(f"row {row} has {len(rows[row])} options and n_options is {width}. Pass a larger n_options.")
    table = np.full((len(rows), width), -np.inf)
    for row, values in enumerate(rows):
        table[row, : len(values)] = values
    return table


def per_length(rows: Sequence[NDArray[np.float64]], lengths: Any) -> list[NDArray[np.float64]]:
    """Divide log-likelihoods by the lengths of their options."""
    sizes = ragged(lengths, "lengths")
    if [len(row) for row in rows] != [len(row) for row in sizes]:
        raise InputError("lengths must hold one number for each log-likelihood, row by row.")
    for row, values in enumerate(sizes):
        good = (values > 0) & np.isfinite(values)
        if not good.all():
            raise InputError(f"lengths[{row}] holds {values[~good][0]}; lengths must be positive numbers.")
    return [row / size for row, size in zip(rows, sizes, strict=True)]


def check_gold(rows: Sequence[NDArray[np.float64]], labels: NDArray[np.int64]) -> None:
    """Refuse a label on an option that its row does not have."""
    counts = np.fromiter(map(len, rows), dtype=np.int64, count=len(rows))
    bad = np.flatnonzero(labels >= counts)
    if len(bad):
        row = int(bad[0])
        raise InputError(
            f"is {labels[row]}, and its row has {counts[row]} option(s), counted from 0; "
            f"{len(bad)} such row(s). Check that labels and rows belong together.",
            row=row,
            name="labels",
        )
