"""Arrow tables, which parquet and Arrow files are read as: their scores and labels as arrays."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from thermoset.data import Logits
from thermoset.errors import FileFormatError, InputError
from thermoset.io.arrow_columns import first_true, list_matrix, stacked
from thermoset.io.csv_text import is_whole
from thermoset.io.files import need
from thermoset.io.rows import in_class_order
from thermoset.io.schema import METADATA_KEY, Layout, is_number
from thermoset.quoting import quoted, reason

__all__ = [
    "BATCH_BYTES",
    "arrow_errors",
    "as_table",
    "groups_of",
    "labels_of",
    "rows_in",
    "scores_of",
    "stored_type",
    "values_of",
]

BATCH_BYTES = 1 << 24
"""Of the rows that are written in one row group or record batch: that is where reading can begin."""


def as_table(logits: Logits, purpose: str) -> Any:
    """A list column `logits`, a column `label` of column numbers, one of groups, and class names in the metadata."""
    arrow = need("pyarrow", "io", purpose)
    flat = arrow.array(logits.logits.reshape(-1))
    columns = {"logits": arrow.FixedSizeListArray.from_arrays(flat, logits.n_classes)}
    if logits.labels is not None:
        columns["label"] = arrow.array(logits.labels)
    if (groups := logits.groups) is not None:
        columns["groups"] = arrow.DictionaryArray.from_arrays(groups.codes.astype(np.int32), list(groups.names))
    table = arrow.table(columns)
    if logits.classes is None:
        return table
    return table.replace_schema_metadata({METADATA_KEY: json.dumps(logits.classes).encode()})


def rows_in(n_bytes: int, logits: Logits) -> int:
    """How many rows fit, at least one.

    >>> rows_in(100, Logits([[0.0, 1.0]]))
    6
    """
    return max(1, n_bytes // logits.logits[:1].nbytes)


@contextmanager
def arrow_errors(arrow: ModuleType, kind: str) -> Iterator[None]:
    """Say in the project's own errors that pyarrow cannot read a file of some kind."""
    try:
        yield
    except InputError:
        raise
    except (arrow.ArrowException, OSError, ValueError, KeyError) as error:  # a damaged name may not be UTF-8, say
        raise FileFormatError(f"not a readable {kind} file, or a truncated one ({reason(error)}).") from None


def scores_of(
    arrow: ModuleType, table: Any, layout: Layout, first_row: int = 0, width: int | None = None
) -> NDArray[Any]:
    """Make an (n, C) array of rows that begin at `first_row` of the file; `width` is what rows before it have."""
    if layout.key is None:
        return stacked(table, layout.names, first_row)
    scores = list_matrix(arrow, table.column(layout.key), quoted(layout.key), first_row, width)
    if layout.order is None:
        return scores
    return in_class_order(
        scores, list_matrix(arrow, table.column(layout.order), quoted(layout.order), first_row, width)
    )


def groups_of(arrow: ModuleType, table: Any, layout: Layout) -> Any:
    """The groups of a table; None if it has none."""
    return None if layout.groups is None else values_of(arrow, table.column(layout.groups), layout.groups)


def labels_of(arrow: ModuleType, table: Any, layout: Layout, partial: bool = False) -> Any:
    """The labels of a table as numbers or names, None where they are missing if they may be; None if it has none."""
    if layout.label is None:
        return None
    column = table.column(layout.label)
    values = column.to_pylist() if partial and column.null_count else values_of(arrow, column, layout.label)
    if not isinstance(next((one for one in values if one is not None), ""), str) and any(map(is_whole, layout.names)):
        return [None if one is None else str(one) for one in list(values)]  # columns called 1, 2, 3: then 1 is a name
    return values


def values_of(arrow: ModuleType, column: Any, name: str) -> NDArray[Any] | list[str]:
    """Numbers, or names of which each is in memory once; none may be missing."""
    if column.null_count:
        raise FileFormatError(f"row {first_true(column.is_null())} of column {quoted(name)} is missing. Drop it.")
    if not arrow.types.is_dictionary(column.type):
        return np.asarray(column.to_numpy()) if is_number(arrow, column.type) else list(column.to_pylist())
    parts = column.unify_dictionaries().chunks
    dictionary = arrow.array([], column.type.value_type) if not parts else parts[0].dictionary
    places = np.concatenate([[], *(part.indices.to_numpy(zero_copy_only=False) for part in parts)]).astype(np.int64)
    if is_number(arrow, dictionary.type):
        return np.asarray(dictionary.to_numpy(zero_copy_only=False)[places])
    names = dictionary.to_pylist()
    return [names[place] for place in places.tolist()]


def stored_type(layout: Layout) -> np.dtype[Any]:
    """The type of the array that the columns of scores become."""
    kinds = [kind if layout.key is None else kind.value_type for kind in layout.kinds]
    return np.result_type(*(np.dtype(kind.to_pandas_dtype()) for kind in kinds)) if kinds else np.dtype(np.float64)
