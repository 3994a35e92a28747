"""Batches as dicts of arrays, as Ray gives them and as NumPy's users keep them."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from thermoset.errors import InputError
from thermoset.integrations.batches.outputs import Found, Outputs
from thermoset.quoting import quoted

__all__ = ["Mappings", "as_list", "matrix_of_cells"]


class Mappings:
    """How a dict of arrays, lists or tensors is read and answered."""

    def names(self, batch: Mapping[str, Any]) -> list[str]:
        """Names of the columns."""
        return list(batch)

    def n_rows(self, batch: Mapping[str, Any]) -> int:
        """Number of rows: all columns must have equally many."""
        lengths = {name: len(column) if hasattr(column, "__len__") else None for name, column in batch.items()}
        if not lengths:
            return 0
        first, wanted = next(iter(lengths.items()))
        for name, length in lengths.items():
            if length is None or length != wanted:
                found = "is not an array" if length is None else f"has {length} rows where {quoted(first)} has {wanted}"
                raise InputError(f"column {quoted(name)} {found}; the columns of a batch must be equally long arrays.")
        return wanted or 0

    def classes(self, batch: Mapping[str, Any]) -> None:
        """No names of classes come along."""

    def lists(self, batch: Mapping[str, Any], name: str, width: int) -> Any:
        """A column as an array (n, width): two-dimensional already, or made of a list for each row."""
        column = batch[name]
        return column if getattr(column, "ndim", 1) != 1 else matrix_of_cells(list(column), name, width)

    def stack(self, batch: Mapping[str, Any], names: Sequence[str]) -> NDArray[Any]:
        """The columns of the classes as an array (n, C)."""
        columns = [np.asarray(batch[name]) for name in names]
        for name, column in zip(names, columns, strict=True):
            if column.ndim != 1:
                raise InputError(f"column {quoted(name)} has shape {column.shape}; it must have one number per row.")
        return np.stack(columns, axis=1)

    def cells(self, batch: Mapping[str, Any], name: str) -> list[Any]:
        """A column as Python objects."""
        return as_list(batch[name])

    def answered(self, batch: Mapping[str, Any], kept: list[int], outputs: Outputs, found: Found) -> dict[str, Any]:
        """The columns that are kept, and the predictions."""
        names = list(batch)
        return {names[place]: batch[names[place]] for place in kept} | outputs.arrays(found)


def as_list(column: Any) -> list[Any]:
    """The cells of a column as Python objects.

    >>> as_list(np.array([1, 2]))
    [1, 2]
    """
    return list(column.tolist() if hasattr(column, "tolist") else column)


def matrix_of_cells(cells: list[Any], name: str, width: int) -> NDArray[Any]:
    """An array (n, width) of one list or array for each row.

    >>> matrix_of_cells([[1.0, 2.0], np.array([3.0, 4.0])], "logits", 2)
    array([[1., 2.],
           [3., 4.]])
    """
    for row, cell in enumerate(cells):
        if cell is None or (isinstance(cell, float) and cell != cell):  # noqa: PLR0124 - NaN, which pandas writes for it
            raise InputError(f"row {row} of column {quoted(name)} is missing.")
        if not hasattr(cell, "__len__") or isinstance(cell, str | bytes):
            raise InputError(
                f"row {row} of column {quoted(name)} is {quoted(cell)}; it must be a list of {width} numbers."
            )
        if len(cell) != width:
            who = "row 0 has" if row else "the predictor needs"
            raise InputError(f"row {row} of column {quoted(name)} has {len(cell)} values, but {who} {width}.")
    rows = [np.asarray(cell) for cell in cells]
    for row, values in enumerate(rows):
        if values.dtype == object and (gaps := [place for place, one in enumerate(values) if one is None]):
            raise InputError(f"row {row} of column {quoted(name)} has a missing value at position {gaps[0]}.")
    return np.stack(rows)
