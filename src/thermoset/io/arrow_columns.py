"""Columns of an Arrow table as an array: one list column, or a column for each class."""

from types import ModuleType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from thermoset.errors import FileFormatError
from thermoset.io.files import need
from thermoset.quoting import quoted

__all__ = ["first_true", "list_matrix", "stacked"]


def list_matrix(
    arrow: ModuleType,
    column: Any,
    key: str,
    first_row: int = 0,
    width: int | None = None,
    declared: str = "the file declares",
) -> NDArray[Any]:
    """Turn a list column into an (n, C) array; it begins at `first_row`, and `declared` says where `width` is from."""
    compute = need("pyarrow.compute", "io", "reading Arrow columns")
    if column.null_count:
        raise FileFormatError(f"row {first_row + first_true(column.is_null())} of column {key} is missing.")
    lengths = compute.list_value_length(column).to_numpy()
    if len(lengths) == 0:
        return np.empty((0, 2))
    width = int(lengths[0]) if width is None else width
    if (lengths != width).any():
        row = int(np.flatnonzero(lengths != width)[0])
        raise FileFormatError(
            f"row {first_row + row} of column {key} has {lengths[row]} values, but "
            f"{'row 0 has' if first_row + row else declared} {width}."
        )
    chunks = [chunk.flatten() for chunk in column.chunks]
    flat = chunks[0] if len(chunks) == 1 else arrow.concat_arrays(chunks)  # which copies, also a single one
    if flat.null_count:
        row, place = divmod(first_true(flat.is_null()), width)
        raise FileFormatError(f"row {first_row + row} of column {key} has a missing value at position {place}.")
    return np.asarray(flat.to_numpy(zero_copy_only=False)).reshape(len(lengths), width)


def stacked(table: Any, names: list[str], first_row: int = 0) -> NDArray[Any]:
    """Make an (n, C) array of the columns called `names`, in this order."""
    by_name = dict(zip(table.column_names, table.columns, strict=True))
    columns = []
    for name in names:
        column = by_name[name]
        if column.null_count:
            row = first_row + first_true(column.is_null())
            raise FileFormatError(f"row {row} of column {quoted(name)} is missing.")
        columns.append(column.to_numpy())
    return np.stack(columns, axis=1) if columns else np.empty((table.num_rows, 0))


def first_true(mask: Any) -> int:
    """The place of the first true value of a mask of Arrow."""
    return int(np.flatnonzero(mask.to_numpy(zero_copy_only=False) if hasattr(mask, "buffers") else mask.to_numpy())[0])
