"""What belongs to the numbers, one value for each row or column: labels, names of classes, weights of rows."""

import numbers
from collections.abc import Callable, Iterable, Sequence
from string import ascii_uppercase
from typing import Any

import numpy as np
from numpy.typing import NDArray

from thermoset.arrays import Bools, Floats, Ints
from thermoset.data.reading import Table, are_whole, first_repeated, is_missing, is_storable, one_column
from thermoset.errors import InputError
from thermoset.quoting import printable, quoted

_LONGEST = 20  # digits of a name that can be a label: of 64 bits, and a sign


# ---- names of classes ------------------------------------------------------------------------------------------------


def option_names(n_options: int) -> tuple[str, ...] | None:
    """Letters for up to 26 positions; more have no names."""
    return tuple(ascii_uppercase[:n_options]) if n_options <= len(ascii_uppercase) else None


def class_names(classes: object, n_classes: int) -> tuple[str, ...]:
    """Check that `classes` are `n_classes` different names; whole numbers become text."""
    if isinstance(classes, (str, bytes)) or not isinstance(classes, Iterable):
        raise InputError(
            f"classes must be a sequence of {n_classes} names, one per column of logits; got {quoted(classes)}."
        )
    listed = list(classes)
    names = [str(item) for item in listed] if are_whole(listed) else listed
    for i, item in enumerate(names):
        if not isinstance(item, str):
            raise InputError(
                f"classes[{i}] is {quoted(item)}; class names must be all strings, or all whole numbers. "
                "Use classes=[str(c) for c in ...]."
            )
    if len(names) != n_classes:
        raise InputError(f"classes must hold {n_classes} names, one per column of logits; got {len(names)}.")
    if (twice := first_repeated(names)) is not None:
        raise InputError(f"classes must be different from each other; {quoted(twice)} appears more than once.")
    for i, name in enumerate(names):
        if not name.strip() or not is_storable(name):
            raise InputError(f"classes[{i}] is {quoted(name)}; a class name must be text that is not blank.")
    return tuple(str(name) for name in names)


def names_and_labels(table: Table, labels: object, classes: object) -> tuple[tuple[str, ...] | None, Ints | None]:
    """The names of the classes, those given or those of a frame's columns, and labels as column numbers."""
    shape, columns = table.values.shape, table.columns
    listed = list(classes) if isinstance(classes, Iterable) and not isinstance(classes, (str, bytes)) else classes
    names = None if listed is None else class_names(listed, shape[1])
    numbered = columns is not None and are_whole(columns)
    if columns is not None:
        own = class_names(columns, shape[1])
        if names is None:
            names = None if numbered else own
        elif names != own and set(names) == set(own):
            # Same names in another order: one of the two would put every label on a wrong column.
            order = [columns[own.index(name)] for name in names]
            raise InputError(
                f"classes and the frame's columns are in different orders. Reorder: frame[{quoted(order)}]."
            )
    if labels is None:
        return names, None
    if listed is None and numbered:
        raise InputError(
            f"the frame's columns are the whole numbers {quoted(list(columns or ()))}: labels may be these names, or "
            "count columns from 0. Pass classes=list(frame.columns) for names, frame.to_numpy() for column numbers."
        )
    read = _named_indices if names is not None and isinstance(listed, list) and are_whole(listed) else label_indices
    return names, read(labels, shape, names)  # type: ignore[arg-type]


# ---- labels ----------------------------------------------------------------------------------------------------------


def label_indices(labels: object, shape: tuple[int, ...], classes: tuple[str, ...] | None) -> Ints:
    """Read labels as column numbers of logits of the given shape.

    Text is a name. A whole number is the number of a column, counted from 0. Where classes are called by whole numbers
    it may be a name as well: what can be read in one way is read so, what can be read in two is refused.
    """
    if isinstance(labels, (list, tuple)) and len(labels) and all(isinstance(label, str) for label in labels):
        _check_length((len(labels),), shape)
        return _from_names(labels, classes)  # not as an array, where each would take the memory of the longest
    values = _read(labels, shape)
    kind = values.dtype.kind
    if kind in "UT":
        return _from_names(values.tolist(), classes)
    if kind not in "iuf":
        remedy = "Decode bytes to str first." if kind == "S" else "Pass the column number of each row's class."
        remedy = "If True means class 1, pass labels.astype(int)." if kind == "b" else remedy
        raise InputError(f"labels must be whole numbers or class names; got dtype {values.dtype}. {remedy}")
    _check_whole(values)
    if classes is not None and (named := _by_number(values, shape[1], classes)) is not None:
        return named
    if len(values):
        _check_range(values, shape)
    return np.ascontiguousarray(values, dtype=np.int64)


def _named_indices(labels: object, shape: tuple[int, ...], classes: tuple[str, ...]) -> Ints:
    """The same where whole numbers are names of classes that are whole numbers."""
    values = _read(labels, shape)
    if values.dtype.kind not in "iuf":
        return label_indices(labels, shape, classes)
    _check_whole(values)
    texts = [f"{value:g}" if np.isinf(value) else str(int(value)) for value in values.tolist()]
    return _from_names(texts, classes, " Classes were given as whole numbers, so labels must be these names.")


def column_indices(labels: object, shape: tuple[int, ...], classes: tuple[str, ...] | None) -> Ints:
    """The same where whole numbers are column numbers, whatever classes are called: in files and in training loops."""
    as_text = isinstance(labels, (list, tuple)) and len(labels) > 0 and isinstance(labels[0], str)
    return label_indices(labels, shape, classes if as_text or _read(labels, shape).dtype.kind in "UT" else None)


def partial_indices(
    labels: object,
    shape: tuple[int, ...],
    classes: tuple[str, ...] | None,
    read: Callable[[object, tuple[int, ...], tuple[str, ...] | None], Ints] = label_indices,
) -> Ints:
    """The same where labels may be missing: -1, NaN, None, pandas' NA or a blank text; such rows get -1."""
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


def _missing_among(values: NDArray[Any], classes: tuple[str, ...] | None) -> Bools:
    if values.dtype.kind in "iuf":
        missing: Bools = (values == -1) | (np.isnan(values) if values.dtype.kind == "f" else False)
        return missing
    blank = {"", "-1"} - set(classes or ())
    gone = (is_missing(one) or (one.strip() in blank if isinstance(one, str) else one == -1) for one in values.tolist())
    return np.fromiter(gone, dtype=np.bool_, count=len(values))


def _read(labels: object, shape: tuple[int, ...]) -> NDArray[Any]:
    """Labels as an array of numbers or of text, one for each row."""
    values = one_column(labels, "labels")
    _check_length(values.shape, shape)
    if not len(values):
        return np.empty(0, dtype=np.int64)
    if values.dtype.kind != "O":
        return values
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


def _by_number(values: NDArray[Any], n_classes: int, classes: tuple[str, ...]) -> Ints | None:
    """The columns of whole numbers that are names; None if column numbers are meant; refused where both may be."""
    if not all(
        name.removeprefix("-").isdecimal() and name.isascii() and str(int(name[:_LONGEST])) == name for name in classes
    ):
        return None
    numbers, column = values.tolist(), {int(name): place for place, name in enumerate(classes)}
    if any(value not in column for value in numbers):
        return None
    indices = np.array([column[value] for value in numbers], dtype=np.int64)
    if all(0 <= value < n_classes for value in numbers) and (indices != values).any():
        row = int(np.flatnonzero(indices != values)[0])
        name = f"{values[row]:.0f}"
        raise _wrong(
            row,
            f"is {name}: the class called {quoted(name)}, or column {name}, which is called "
            f"{quoted(classes[int(name)])}? Pass names as text: [str(y) for y in labels] if labels are names, "
            "[classes[y] for y in labels] if they are column numbers.",
        )
    return indices


def _from_names(names: Sequence[str], classes: tuple[str, ...] | None, hint: str = "") -> Ints:
    if classes is None:
        raise InputError(
            f"labels are text (labels[0] is {quoted(names[0])}) but no class names are known. "
            f"Pass classes=[...], the names in the order of the columns."
        )
    index = {name: column for column, name in enumerate(classes)}
    indices = [index.get(name, -1) for name in names]
    if min(indices, default=0) < 0:
        row = indices.index(-1)
        if not names[row].strip():
            raise _wrong(row, f"is missing ({quoted(names[row])}). Drop rows without a label.")
        known = ", ".join(printable(name, 40) for name in classes[:5]) + (", ..." if len(classes) > 5 else "")
        raise _wrong(row, f"is {quoted(names[row])}, which is not one of the {len(classes)} classes ({known}).{hint}")
    return np.asarray(indices, dtype=np.int64)


def _check_length(got: tuple[int, ...], shape: tuple[int, ...]) -> None:
    if got != (shape[0],):
        hint = " One-hot rows: pass labels.argmax(axis=1)." if got == shape else ""
        if got == (shape[1],):
            hint = " As many labels as columns: are the logits transposed? Pass logits.T."
        raise InputError(
            f"labels must have shape ({shape[0]},) to match logits {shape}; got {got}. Pass one label per row.{hint}"
        )


def _check_whole(values: NDArray[Any]) -> None:
    if values.dtype.kind != "f" or not len(bad := np.flatnonzero(values != np.floor(values))):
        return
    row = bad[0]
    if np.isnan(values[row]):
        raise _wrong(row, f"is missing (NaN); {len(bad)} such value(s). Drop rows without a label.")
    raise _wrong(row, f"is {values[row]}; labels must be whole numbers that count classes from 0.")


def _check_range(values: NDArray[Any], shape: tuple[int, ...]) -> None:
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


# ---- weights ---------------------------------------------------------------------------------------------------------


def checked_weights(weights: Any, n_rows: int) -> Floats:
    """Read the importance weights of rows: finite and not negative; only the ratio of two weights matters."""
    values = one_column(weights, "weights")
    if values.shape != (n_rows,):
        raise InputError(f"weights must have shape ({n_rows},), one number for each row; got {values.shape}.")
    items = values.tolist()
    as_text = values.dtype.kind not in "iuf"  # of files
    numbers = np.array([_number(item) for item in items]) if as_text else values.astype(np.float64)
    bad = np.flatnonzero(~(np.isfinite(numbers) & (numbers >= 0)))
    if bad.size:
        said = (
            f"is {quoted(items[bad[0]])}; a weight must be a finite number of at least 0; {bad.size:,} such value(s)."
        )
        raise InputError(said, row=int(bad[0]), name="weights")
    return numbers


def conformal_weights(weights: Any, n_rows: int) -> Floats:
    """The same for rows that set a threshold: one of them must count."""
    checked = checked_weights(weights, n_rows)
    if not checked.any():
        raise InputError("weights are all 0, so no row would count. Give likely rows a weight above 0.")
    return checked


def _number(item: object) -> float:
    try:
        return float(item) if isinstance(item, (str, int, float, np.number)) and not isinstance(item, bool) else np.nan
    except (ValueError, OverflowError):
        return np.nan
