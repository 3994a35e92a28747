"""Random splits and other selections of rows. Splits are never stratified: that would break exchangeability."""

import operator
from collections.abc import Hashable, Iterator, Sequence
from contextlib import contextmanager
from fractions import Fraction
from itertools import accumulate
from typing import Any

import numpy as np

from thermoset.arrays import Ints
from thermoset.bounds import MOST_HELD, whole_number
from thermoset.data.reading import is_missing, one_column
from thermoset.errors import InputError
from thermoset.levels import Alpha, exact_level
from thermoset.quoting import quoted

Part = int | Alpha
"""A whole number of rows, or a fraction in (0, 1) of all rows, read as the decimal it prints as."""

Seed = int | Sequence[int] | np.random.SeedSequence | np.random.Generator | None


def split_indices(n_rows: int, *parts: Part, random_state: Seed = 0, split_by: object = None) -> tuple[Ints, ...]:
    """Cut rows 0..n_rows-1 at random into len(parts) + 1 pieces; the last is the rest.

    Parameters
    ----------
    n_rows : int
        How many rows there are.
    *parts : int or float
        The size of each piece but the last: a whole number of rows, or a fraction of `n_rows`, which is read as
        typed and rounded down (0.1 of 10,009 rows is 1,000).
    random_state : int, sequence of int, SeedSequence, Generator or None
        What `numpy.random.default_rng` takes. The same seed gives the same pieces.
    split_by : sequence of hashable, optional
        One value a row. Rows with the same value stay together: values are put in random order and fill the pieces
        one after the other; each piece ends at the boundary nearest to its size (the earlier of two).

    Returns
    -------
    tuple of int64 arrays
        Row numbers of each piece, ascending. Every piece has at least one row.

    >>> [len(piece) for piece in split_indices(10_009, 0.1, 500)]
    [1000, 500, 8509]
    >>> split_indices(6, 2, split_by=["a", "a", "b", "b", "c", "c"])
    (array([2, 3]), array([0, 1, 4, 5]))
    """
    n_rows = whole_number(n_rows, "n_rows", 1, MOST_HELD, "Pass the number of rows.")
    sizes = _sizes(parts, n_rows)
    try:
        rng = np.random.default_rng(random_state)
    except (TypeError, ValueError):
        raise InputError(
            "random_state must be a whole number >= 0, a sequence of them or a numpy Generator; got "
            f"{quoted(random_state)}."
        ) from None
    if split_by is None:
        order, cuts = rng.permutation(n_rows), list(accumulate(sizes))
    else:
        order, cuts = _grouped_order(split_codes(split_by, n_rows), sizes, rng)
    # Ascending row numbers: which rows a piece has is random, their order need not be, and memory is read forwards.
    return tuple(np.sort(piece).astype(np.int64, copy=False) for piece in np.split(order, cuts))


def _sizes(parts: Sequence[Part], n_rows: int) -> list[int]:
    if not parts:
        raise InputError("split needs at least one part: a fraction in (0, 1) or a whole number of rows.")
    sizes = [_size(part, n_rows) for part in parts]
    if sum(sizes) >= n_rows:
        raise InputError(
            f"split{quoted(tuple(parts))} asks for {quoted(sum(sizes))} of {n_rows} rows and leaves none for the last "
            f"piece, which is the rest. Give smaller parts, or one part fewer."
        )
    return sizes


def _size(part: Any, n_rows: int) -> int:
    try:
        size = -1 if isinstance(part, (bool, np.bool_)) else operator.index(part)
    except TypeError:
        fraction: Fraction = exact_level(part, "a part that is not a whole number of rows")
        size = int(fraction * n_rows)
        if size == 0:
            raise InputError(f"a part of {quoted(part)} of {n_rows} rows has no row. Give a larger part.") from None
    if size < 1:
        raise InputError(f"a part must be a fraction in (0, 1) or a whole number of rows >= 1; got {quoted(part)}.")
    return size


def split_codes(split_by: object, n_rows: int) -> Ints:
    """Give values of rows numbers by first appearance, so that they do not matter to a split, but for being equal."""
    # A list may hold tuples, which are good values, but NumPy would make a second axis of them.
    plain = isinstance(split_by, (list, tuple))
    column = None if plain else one_column(split_by, "split_by")
    if column is not None and column.shape == (n_rows,) and column.dtype.kind in "iubU":
        _, first, place = np.unique(column, return_index=True, return_inverse=True)
        number = np.empty(len(first), dtype=np.int64)
        number[np.argsort(first)] = np.arange(len(first))
        return number[place]
    items = list(split_by) if plain else column.tolist()  # type: ignore[call-overload, union-attr]
    if not isinstance(items, list) or len(items) != n_rows:
        got = len(items) if isinstance(items, list) else "a single value"
        raise InputError(f"split_by must have one value for each of {n_rows} rows; got {got}.")
    seen: dict[Hashable, int] = {}
    codes = np.empty(n_rows, dtype=np.int64)
    for row, item in enumerate(items):
        if is_missing(item):
            raise InputError(f"is missing ({quoted(item)}). Give every row a value.", row=row, name="split_by")
        try:
            codes[row] = seen.setdefault(item, len(seen))
        except TypeError:
            said = f"is {quoted(item)}; expected one hashable value per row."
            raise InputError(said, row=row, name="split_by") from None
    return codes


def _grouped_order(codes: Ints, sizes: list[int], rng: np.random.Generator) -> tuple[Ints, list[int]]:
    """Rows in the random order of their groups, and the row counts at which the pieces end."""
    counts = np.bincount(codes)
    n_groups, n_pieces = len(counts), len(sizes) + 1
    if n_groups < n_pieces:
        raise InputError(f"{n_pieces} pieces need at least {n_pieces} different values of split_by; got {n_groups}.")
    place = rng.permutation(n_groups)
    order = np.argsort(place[codes], kind="stable")
    ends = np.concatenate([[0], np.cumsum(counts[np.argsort(place)])])
    cuts, first = [], 0
    for i, size in enumerate(sizes):
        last = n_groups - (n_pieces - 1 - i)  # leave a group for each piece that follows
        away = np.abs(ends[first + 1 : last + 1] - ends[first] - size)
        first += 1 + int(np.argmin(away))
        cuts.append(int(ends[first]))
    return order, cuts


def row_index(rows: object, n_rows: int) -> Any:
    """Read what selects rows: a slice, or row numbers or a boolean mask as an array; at least one row."""
    index = rows if isinstance(rows, slice) else np.asarray(rows)
    if isinstance(index, np.ndarray):
        if index.ndim != 1 or (index.size and index.dtype.kind not in "iub"):
            raise InputError(f"rows must be row numbers, a boolean mask or a slice; got {rows!r}.")
        index = index.astype(np.intp) if index.size == 0 else index
    try:
        n_selected = len(range(n_rows)[index]) if isinstance(index, slice) else len(np.arange(n_rows)[index])
    except IndexError as error:
        raise InputError(f"rows do not fit {n_rows} rows: {error}.") from None
    if n_selected == 0:
        raise InputError("rows select nothing. Select at least one row.")
    return index


@contextmanager
def rows_of_user(numbers: Ints | None) -> Iterator[None]:
    """Count rows in messages as the user counts them, while working on the rows of these numbers; None for all."""
    try:
        yield
    except InputError as error:
        if numbers is None or error.row is None:
            raise
        raise error.at(int(numbers[error.row])) from None
