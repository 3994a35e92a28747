"""Batches as frames of pandas and polars."""

import sys
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from thermoset.data.arrays import is_instance, read_table
from thermoset.integrations.batches.arrow import list_column
from thermoset.integrations.batches.mappings import as_list, matrix_of_cells
from thermoset.integrations.batches.outputs import Found, Outputs, pyarrow

__all__ = ["PandasFrames", "PolarsFrames"]


class PandasFrames:
    """How a frame of pandas is read and answered; its index stays."""

    def names(self, batch: Any) -> list[Any]:
        """Names of the columns."""
        return list(batch.columns)

    def n_rows(self, batch: Any) -> int:
        """Number of rows."""
        return len(batch)

    def classes(self, batch: Any) -> None:
        """No names of classes come along."""

    def lists(self, batch: Any, name: str, width: int) -> NDArray[Any]:
        """A column of lists or arrays as an array (n, width)."""
        column = batch[name]
        if is_instance(column.dtype, "pandas", "ArrowDtype"):
            arrow = pyarrow()
            found = arrow.array(column)
            return list_column(
                found if isinstance(found, arrow.ChunkedArray) else arrow.chunked_array([found]), name, width
            )
        return matrix_of_cells(column.tolist(), name, width)

    def stack(self, batch: Any, names: Sequence[str]) -> NDArray[Any]:
        """The columns of the classes as an array (n, C)."""
        return read_table(batch[list(names)], "logits").values

    def cells(self, batch: Any, name: str) -> list[Any]:
        """A column as Python objects."""
        return as_list(batch[name])

    def answered(self, batch: Any, kept: list[int], outputs: Outputs, found: Found) -> Any:
        """The columns that are kept, and the predictions."""
        pandas: Any = sys.modules["pandas"]
        columns = {name: _one_dimensional(column) for name, column in outputs.arrays(found).items()}
        return pandas.concat([batch.iloc[:, kept], pandas.DataFrame(columns, batch.index)], axis=1)


def _one_dimensional(column: NDArray[Any]) -> NDArray[Any]:
    """A column of arrays, of which each is a row, where there are several numbers for each row."""
    if column.ndim == 1:
        return column
    cells = np.empty(len(column), dtype=object)
    cells[:] = list(column)
    return cells


class PolarsFrames:
    """How a frame of polars is read and answered."""

    def names(self, batch: Any) -> list[str]:
        """Names of the columns."""
        return list(batch.columns)

    def n_rows(self, batch: Any) -> int:
        """Number of rows."""
        return int(batch.height)

    def classes(self, batch: Any) -> None:
        """No names of classes come along."""

    def lists(self, batch: Any, name: str, width: int) -> NDArray[Any]:
        """A column of lists or arrays as an array (n, width)."""
        return list_column(pyarrow().chunked_array([batch.get_column(name).to_arrow()]), name, width)

    def stack(self, batch: Any, names: Sequence[str]) -> NDArray[Any]:
        """The columns of the classes as an array (n, C)."""
        return read_table(batch.select(names), "logits").values

    def cells(self, batch: Any, name: str) -> list[Any]:
        """A column as Python objects."""
        return list(batch.get_column(name).to_list())

    def answered(self, batch: Any, kept: list[int], outputs: Outputs, found: Found) -> Any:
        """The columns that are kept, and the predictions."""
        polars: Any = sys.modules["polars"]
        made = polars.from_arrow(pyarrow().table(outputs.arrow(found)))
        return made if not kept else batch.select([batch.columns[place] for place in kept]).hstack(made)
