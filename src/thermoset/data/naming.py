"""What comes with the numbers of `Logits`: class names, labels and groups, read and checked against them."""

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from thermoset.data.arrays import Floats, ReadTable, are_whole, class_names
from thermoset.data.class_columns import check_class_columns
from thermoset.data.groups import Groups, read_groups
from thermoset.data.labels import label_indices, named_indices
from thermoset.errors import InputError
from thermoset.quoting import quoted

__all__ = ["check_frame", "named_parts"]


def named_parts(
    table: ReadTable, labels: object, classes: object, groups: object
) -> tuple[Floats, NDArray[np.int64] | None, tuple[str, ...] | None, Groups | None]:
    """Check what comes with the numbers: labels, class names and groups."""
    n_rows = len(table.values)
    given = list(classes) if isinstance(classes, Iterable) and not isinstance(classes, (str, bytes)) else classes
    names = _checked_names(table, given)
    indices = None if labels is None else _read_labels(labels, table, given, names)
    return table.values, indices, names, None if groups is None else read_groups(groups, n_rows)


def _checked_names(table: ReadTable, given: object) -> tuple[str, ...] | None:
    """The names of the classes: those given, or those of a frame's columns."""
    n_classes = table.values.shape[1]
    names = None if given is None else class_names(given, n_classes)
    if table.columns is None:
        return names
    columns = class_names(table.columns, n_classes)
    if names is None:
        return None if are_whole(table.columns) else columns
    if names != columns and set(names) == set(columns):
        # Same names in another order: one of the two would put every label on a wrong column.
        order = [table.columns[columns.index(name)] for name in names]
        raise InputError(f"classes and the frame's columns are in different orders. Reorder: frame[{quoted(order)}].")
    return names


def _read_labels(labels: object, table: ReadTable, given: object, names: tuple[str, ...] | None) -> NDArray[np.int64]:
    """Labels as column numbers; whole numbers are names where names were given as whole numbers."""
    n_rows, n_classes = table.values.shape
    if given is None and table.columns is not None and are_whole(table.columns):
        raise InputError(
            f"the frame's columns are the whole numbers {quoted(list(table.columns))}: labels may be these names, or "
            "count columns from 0. Pass classes=list(frame.columns) for names, frame.to_numpy() for column numbers."
        )
    if names is not None and isinstance(given, list) and are_whole(given):
        return named_indices(labels, (n_rows, n_classes), names)
    return label_indices(labels, (n_rows, n_classes), names)


def check_frame(table: ReadTable, classes: object) -> None:
    """Refuse a frame with a column that does not look like a class, unless the user has named the classes."""
    if classes is None and table.columns is not None and not are_whole(table.columns):
        check_class_columns(class_names(table.columns, len(table.columns)), table.values)
