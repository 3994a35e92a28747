"""Labels: whole numbers 0..C-1, or names of classes, one for each row."""

import numbers
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from thermoset.data.arrays import foreign_array, is_instance
from thermoset.errors import InputError
from thermoset.quoting import printable, quoted

__all__ = ["column_indices", "is_missing", "label_indices", "named_indices", "one_column", "partial_indices"]


def label_indices(labels: object, shape: tuple[int, int], classes: tuple[str, ...] | None) -> NDArray[np.int64]:
    """Read labels as column numbers of logits of the given shape.

    Text is a name. A whole number is the number of a column, counted from 0. Where classes are called by whole numbers
    it may be a name as well: what can be read in one way is read so, what can be read in two is refused.

    >>> label_indices(["dog", "cat"], (2, 2), ("cat", "dog"))
    array([1, 0])
    >>> label_indices([1.0, 0.0], (2, 2), None)
    array([1, 0])
    >>> label_indices([20, 10], (2, 2), ("10", "20"))
    array([1, 0])
    """
    if isinstance(labels, (list, tuple)) and len(labels) and all(isinstance(label, str) for label in labels):
        _check_length((len(labels),), shape)
        return _from_names(labels, classes)  # not as an array, where each would take the room of the longest
    values = _read(labels, shape)
    kind = values.dtype.kind
    if kind in "UT":
        return _from_names(values.tolist(), classes)
    if kind not in "iuf":
        raise InputError(f"labels must be whole numbers or class names; got dtype {values.dtype}. {_remedy(kind)}")
    if kind == "f":
        _check_whole(values)
    if classes is not None and (named := _by_number(values, shape[1], classes)) is not None:
        return named
    if len(values):
        _check_range(values, shape)
    return np.ascontiguousarray(values, dtype=np.int64)


def named_indices(labels: object, shape: tuple[int, int], classes: tuple[str, ...]) -> NDArray[np.int64]:
    """The same where whole numbers are names of classes that are whole numbers.

    >>> named_indices([1, 2, 1], (3, 3), ("1", "2", "3"))
    array([0, 1, 0])
    """
    values = _read(labels, shape)
    if values.dtype.kind == "f":
        _check_whole(values)
    if values.dtype.kind not in "iuf":
        return label_indices(labels, shape, classes)
    texts = [f"{value:g}" if np.isinf(value) else str(int(value)) for value in values.tolist()]
    return _from_names(texts, classes, " Classes were given as whole numbers, so labels must be these names.")


def column_indices(labels: object, shape: tuple[int, int], classes: tuple[str, ...] | None) -> NDArray[np.int64]:
    """The same where whole numbers are column numbers, whatever classes are called: in files and in training loops.

    >>> column_indices([1, 2, 1], (3, 3), ("1", "2", "3"))
    array([1, 2, 1])
    """
    as_text = isinstance(labels, (list, tuple)) and len(labels) > 0 and isinstance(labels[0], str)
    return label_indices(labels, shape, classes if as_text or _read(labels, shape).dtype.kind in "UT" else None)


def _read(labels: object, shape: tuple[int, int]) -> NDArray[Any]:
    """Labels as an array of numbers or of text, one for each row."""
    values = one_column(labels, "labels")
    _check_length(values.shape, shape)
    if not len(values):
        return np.empty(0, dtype=np.int64)
    return _plain(values) if values.dtype.kind == "O" else values


def _by_number(values: NDArray[Any], n_classes: int, classes: tuple[str, ...]) -> NDArray[np.int64] | None:
    """The columns of whole numbers that are names; None if column numbers are meant; refused where both may be."""
    if not all(map(_is_whole_text, classes)):
        return None
    given, column = values.tolist(), {int(name): place for place, name in enumerate(classes)}
    if any(value not in column for value in given):
        return None
    found = np.array([column[value] for value in given], dtype=np.int64)
    if all(0 <= value < n_classes for value in given) and (found != values).any():
        row = int(np.flatnonzero(found != values)[0])
        name = f"{values[row]:.0f}"
        raise _wrong(
            row,
            f"is {name}: the class called {quoted(name)}, or column {name}, which is called "
            f"{quoted(classes[int(name)])}? Pass names as text: [str(y) for y in labels] if labels are names, "
            "[classes[y] for y in labels] if they are column numbers.",
        )
    return found


def _is_whole_text(name: str) -> bool:
    """Whether a name is a whole number as Python writes it."""
    return name.removeprefix("-").isdecimal() and name.isascii() and str(int(name[:_LONGEST])) == name


_LONGEST = 20  # digits of a name that can be a label: of 64 bits, and a sign


def partial_indices(
    labels: object,
    shape: tuple[int, int],
    classes: tuple[str, ...] | None,
    read: Callable[[object, tuple[int, int], tuple[str, ...] | None], NDArray[np.int64]] = label_indices,
) -> NDArray[np.int64]:
    """The same where labels may be missing: -1, NaN, None, pandas' NA or a blank text; such rows get -1.

    >>> partial_indices(["dog", ""], (2, 2), ("cat", "dog"))
    array([ 1, -1])
    >>> partial_indices([1.0, np.nan, -1], (3, 2), None)
    array([ 1, -1, -1])
    """
    values = one_column(labels, "labels")
    _check_length(values.shape, shape)
    missing = _missing_among(values, classes)
    if missing.all():
        return np.full(len(values), -1, dtype=np.int64)
    known, first = values.copy(), values[~missing][0]
    # Any label that is right: it keeps the numbers of rows in messages right.
    if isinstance(first, str):
        known[missing] = first if classes is None else classes[0]
    else:  # a number may be a name
        known[missing] = first if f"{first:.0f}" in (classes or ()) else 0
    indices = read(known.tolist() if known.dtype.kind == "O" else known, shape, classes)
    indices[missing] = -1
    return indices


def _missing_among(values: NDArray[Any], classes: tuple[str, ...] | None) -> NDArray[np.bool_]:
    """Which labels are missing."""
    if values.dtype.kind in "iuf":
        found: NDArray[np.bool_] = (values == -1) | (np.isnan(values) if values.dtype.kind == "f" else False)
        return found
    blank = {"", "-1"} - set(classes or ())
    gone = (is_missing(one) or (one.strip() in blank if isinstance(one, str) else one == -1) for one in values.tolist())
    return np.fromiter(gone, dtype=np.bool_, count=len(values))


def _check_length(got: tuple[int, ...], shape: tuple[int, int]) -> None:
    if got != (shape[0],):
        hint = " One-hot rows: pass labels.argmax(axis=1)." if got == shape else ""
        if got == (shape[1],):
            hint = " As many labels as columns: are the logits transposed? Pass logits.T."
        raise InputError(
            f"labels must have shape ({shape[0]},) to match logits {shape}; got {got}. Pass one label per row.{hint}"
        )


def one_column(value: Any, name: str) -> NDArray[Any]:
    """Read one value a row from a list, array, tensor or series; mixed and missing values come as objects.

    >>> one_column(["a", None], "groups")
    array(['a', None], dtype=object)
    """
    if is_instance(value, "pandas", "Series", "Index", "Categorical"):
        plain = isinstance(value.dtype, np.dtype)
        return np.asarray(value) if plain else np.asarray(value, dtype=object)
    if is_instance(value, "polars", "Series"):
        plain = not value.null_count() and (value.dtype.is_numeric() or str(value.dtype) == "Boolean")
        return np.asarray(value.to_numpy()) if plain else _objects(value.to_list())
    if isinstance(value, (list, tuple)):
        try:
            return np.asarray(value)
        except (TypeError, ValueError, RuntimeError):
            return _objects(value)  # ragged, or values NumPy does not know: judged one by one later
    return foreign_array(value, name)


def _objects(items: list[Any] | tuple[Any, ...]) -> NDArray[Any]:
    array = np.empty(len(items), dtype=object)
    array[:] = items
    return array


def is_missing(item: object) -> bool:
    """None, NaN, and pandas' NA and NaT (known by name: pandas is not imported, and NA has no truth value).

    >>> is_missing(float("nan")), is_missing(0)
    (True, False)
    """
    if item is None or type(item).__name__ in {"NAType", "NaTType"}:
        return True
    return isinstance(item, (float, np.floating)) and bool(np.isnan(item))


def _plain(values: NDArray[Any]) -> NDArray[Any]:
    """Labels that came as Python objects, as an array of numbers or of strings."""
    items = values.tolist()
    for row, item in enumerate(items):
        if is_missing(item):
            raise _wrong(row, f"is missing ({quoted(item)}). Drop rows without a label.")
        if isinstance(item, (bool, np.bool_)) or not isinstance(item, (str, numbers.Real)):
            raise _wrong(row, f"is {quoted(item)}; labels must be whole numbers or class names.")
        if isinstance(item, str) != isinstance(items[0], str):
            raise _wrong(row, f"is {quoted(item)}, and the first label is {quoted(items[0])}: numbers and names mixed.")
    if isinstance(items[0], str):
        return np.asarray(items)
    try:
        return np.asarray(items, dtype=np.int64 if all(isinstance(i, numbers.Integral) for i in items) else np.float64)
    except OverflowError:
        raise InputError("labels hold a number that is too large; labels count classes from 0.") from None


def _from_names(names: Sequence[str], classes: tuple[str, ...] | None, hint: str = "") -> NDArray[np.int64]:
    if classes is None:
        raise InputError(
            f"labels are text (labels[0] is {quoted(names[0])}) but no class names are known. "
            f"Pass classes=[...], the names in the order of the columns."
        )
    index = {name: column for column, name in enumerate(classes)}
    found = [index.get(name, -1) for name in names]
    if min(found, default=0) < 0:
        row = found.index(-1)
        if not names[row].strip():
            raise _wrong(row, f"is missing ({quoted(names[row])}). Drop rows without a label.")
        known = ", ".join(printable(name, 40) for name in classes[:5]) + (", ..." if len(classes) > 5 else "")
        raise _wrong(row, f"is {quoted(names[row])}, which is not one of the {len(classes)} classes ({known}).{hint}")
    return np.asarray(found, dtype=np.int64)


def _remedy(kind: str) -> str:
    if kind == "b":
        return "If True means class 1, pass labels.astype(int)."
    return "Decode bytes to str first." if kind == "S" else "Pass the column number of each row's class."


def _check_whole(values: NDArray[Any]) -> None:
    bad = np.flatnonzero(values != np.floor(values))  # NaN differs from itself; infinities go on to the range check
    if len(bad) == 0:
        return
    row = bad[0]
    if np.isnan(values[row]):
        raise _wrong(row, f"is missing (NaN); {len(bad)} such value(s). Drop rows without a label.")
    raise _wrong(row, f"is {values[row]}; labels must be whole numbers that count classes from 0.")


def _check_range(values: NDArray[Any], shape: tuple[int, int]) -> None:
    low, high, n_classes = values.min(), values.max(), shape[1]
    if low >= 0 and high < n_classes:
        return
    bad = np.flatnonzero((values < 0) | (values >= n_classes))
    row = bad[0]
    if low < 0:
        hint = "A negative label often stands for a missing one: drop those rows."
    elif low >= 1 and high == n_classes:
        hint = "If labels start at 1, subtract 1."
    else:
        hint = "Check that labels and logits belong to the same model, or pass classes=[...] if labels are class names."
    raise _wrong(
        row,
        f"is {values[row]}; must be in 0..{n_classes - 1} to match logits {shape}; {len(bad)} such value(s). {hint}",
    )


def _wrong(row: Any, message: str) -> InputError:
    return InputError(message, row=int(row), name="labels")
