"""Rows that come one at a time, each with a list of numbers: how they become `Logits`, whole or in blocks."""

from array import array
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from thermoset.data import Logits
from thermoset.data.choices import option_names
from thermoset.errors import FileFormatError
from thermoset.io.files import Request, build, check_size
from thermoset.quoting import quoted

__all__ = [
    "FILES",
    "ORDER",
    "WHOLE_ROWS",
    "Row",
    "RowList",
    "class_number",
    "in_class_order",
    "naming",
    "numbers",
    "restored",
]

VALUE_BYTES = 8
FILES = "filename"  # a column that is no class
ORDER = "index"  # the column with the class of each value, where rows came sorted
WHOLE_ROWS = "Write whole rows: timm's inference.py has --topk 0 for it"


class Row(NamedTuple):
    """The numbers of a row, and its label and group, where it has them."""

    scores: list[float]
    label: int | None
    group: object = None


class RowList(NamedTuple):
    """The rows of a file, which can be gone through again and again."""

    rows: Callable[[], Iterator[Row]]
    ragged: bool  # whether rows may have fewer numbers than others: options of questions
    request: Request

    def gathered(self) -> Logits:
        """All rows at once."""
        values, widths, labels, width = array("d"), array("q"), array("q"), 0
        groups: list[object] = []
        for row, found in enumerate(self._checked()):
            if row and (found.label is None) == bool(labels):
                raise FileFormatError(f"row {row} {'has no' if labels else 'has a'} label, unlike those before it.")
            values.extend(found.scores)
            widths.append(len(found.scores))
            if found.label is not None:
                labels.append(found.label)
            groups.append(found.group)
            width = max(width, len(found.scores), self.request.n_options or 0 if self.ragged else 0)
            check_size(VALUE_BYTES * width * len(widths), self.request.max_bytes, "the data, as numbers,")
        table = _table(values, widths, width)
        known = None if all(group is None for group in groups) else groups
        return build(self.request, table, np.asarray(labels) if labels else None, self.names(width), known)

    def width(self) -> int:
        """How many columns the rows have; only reading all of them tells where they differ."""
        if not self.ragged:
            return len(next(self._checked()).scores)
        return self.request.n_options or max(len(row.scores) for row in self._checked())

    def names(self, width: int) -> tuple[str, ...] | None:
        """What columns are called: letters for options."""
        return option_names(width) if self.ragged else None

    def blocks(self, width: int, n_rows: int) -> Iterator[NDArray[np.float64]]:
        """So many rows at a time."""
        values, widths = array("d"), array("q")
        for row in self._checked():
            values.extend(row.scores)
            widths.append(len(row.scores))
            if len(widths) == n_rows:
                yield _table(values, widths, width)
                values, widths = array("d"), array("q")
        if widths:
            yield _table(values, widths, width)

    def _checked(self) -> Iterator[Row]:
        """The rows, all of them of one width, or none wider than was asked for."""
        first, most = None, self.request.n_options
        row = -1
        for row, found in enumerate(self.rows()):
            n = len(found.scores)
            first = n if first is None else first
            if not self.ragged and n != first:
                raise FileFormatError(f"row {row} has {n} values, but row 0 has {first}.")
            if self.ragged and most is not None and n > most:
                raise FileFormatError(f"row {row} has {n} options; expected at most {most}. Pass a larger n_options.")
            yield found
        if row < 0:
            raise FileFormatError("the file has no rows.")


def _table(values: "array[float]", widths: "array[int]", width: int) -> NDArray[np.float64]:
    """Put rows under each other, -inf where they end before the others."""
    flat, lengths = np.frombuffer(values) if values else np.empty(0), np.asarray(widths)
    if (lengths == width).all():
        return flat.reshape(len(widths), width)
    table = np.full((len(widths), width), -np.inf)
    table[np.arange(width) < lengths[:, None]] = flat
    return table


def numbers(value: Any, what: str) -> list[float]:
    """Check that a value is a list of numbers.

    >>> numbers([1.5, 2], "logits")
    [1.5, 2.0]
    """
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        raise FileFormatError(f"{what} is one number, {quoted(value)}; expected one for each class. {WHOLE_ROWS}.")
    if not isinstance(value, list) or not set(map(type, value)) <= {float, int}:
        bad = next((x for x in value if type(x) not in (float, int)), None) if isinstance(value, list) else value
        inside = " holds" if isinstance(value, list) else " is"
        raise FileFormatError(f"{what}{inside} {quoted(bad)}; expected a list of numbers, one for each class.")
    try:
        return list(map(float, value))
    except OverflowError:
        raise FileFormatError(f"{what} holds a number that is too large.") from None


def class_number(value: Any, what: str, classes: Sequence[str] | None = None) -> int:
    """Read a label that is the number of a column, or the name of a class where classes have names.

    >>> class_number(3.0, "label"), class_number("dog", "label", ["cat", "dog"])
    (3, 1)
    """
    if classes is not None and isinstance(value, str) and value in classes:
        return classes.index(value)
    if isinstance(value, list):
        raise FileFormatError(f"{what} is {quoted(value)}: names of the largest classes. {WHOLE_ROWS}.")
    whole = isinstance(value, (int, float)) and not isinstance(value, bool) and value == value // 1
    if not whole or not 0 <= value < 2**31:
        raise FileFormatError(f"{what} is {quoted(value)}; expected the number of a column, counted from 0.")
    return int(value)


def in_class_order(values: NDArray[Any], index: NDArray[Any]) -> NDArray[Any]:
    """Put each value where its class is; rows that came sorted need the class of every value.

    >>> in_class_order(np.array([[3.0, 2.0, 1.0]]), np.array([[2, 0, 1]]))
    array([[2., 1., 3.]])
    """
    n_classes = values.shape[1]
    whole = index.shape == values.shape and index.dtype.kind in "iu"
    if not whole or (np.sort(index, axis=1) != np.arange(n_classes)).any():
        raise FileFormatError(
            f"rows hold their {n_classes} largest values and 'index' names other classes than 0..{n_classes - 1}: "
            f"classes are missing. {WHOLE_ROWS}."
        )
    ordered = np.empty_like(values)
    np.put_along_axis(ordered, index.astype(np.int64), values, axis=1)
    return ordered


@contextmanager
def naming(what: str) -> Iterator[None]:
    """Begin what is said about a row with where it stands."""
    try:
        yield
    except FileFormatError as error:
        raise FileFormatError(f"{what}: {error}") from None


def restored(scores: list[float], index: list[Any]) -> list[float]:
    """One row in the order of its classes.

    >>> restored([3.0, 2.0, 1.0], [2, 0, 1])
    [2.0, 1.0, 3.0]
    """
    ordered: list[float] = in_class_order(np.array([scores]), np.array([[_place(i) for i in index]])).ravel().tolist()
    return ordered


def _place(value: Any) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) and abs(value) < 2**31 else -1
