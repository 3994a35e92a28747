"""Batches of Arrow: record batches and tables."""

from collections.abc import Sequence
from typing import Any

from numpy.typing import NDArray

from thermoset.errors import InputError
from thermoset.integrations.batches.outputs import Found, Outputs, pyarrow
from thermoset.io.arrow import METADATA_KEY, is_list, is_number, list_matrix, names_from_json, stacked
from thermoset.quoting import quoted, reason

__all__ = ["ArrowTables", "arrow_schema", "list_column"]


class ArrowTables:
    """How a record batch or table is read and answered."""

    def names(self, batch: Any) -> list[str]:
        """Names of the columns."""
        return list(batch.schema.names)

    def n_rows(self, batch: Any) -> int:
        """Number of rows."""
        return int(batch.num_rows)

    def classes(self, batch: Any) -> Sequence[str] | None:
        """The class names that `thermoset.io.save` leaves in a schema."""
        content = (batch.schema.metadata or {}).get(METADATA_KEY)
        return None if content is None else names_from_json(content)

    def lists(self, batch: Any, name: str, width: int) -> NDArray[Any]:
        """A list column as an array (n, width)."""
        return list_column(_table(batch).column(name), name, width)

    def stack(self, batch: Any, names: Sequence[str]) -> NDArray[Any]:
        """The columns of the classes as an array (n, C)."""
        table = _table(batch)
        for name in names:
            if not is_number(pyarrow(), kind := table.schema.field(name).type):
                raise InputError(f"column {quoted(name)} has type {reason(kind)}; it must hold numbers.")
        return stacked(table, list(names))

    def cells(self, batch: Any, name: str) -> list[Any]:
        """A column as Python objects."""
        return list(_table(batch).column(name).to_pylist())

    def answered(self, batch: Any, kept: list[int], outputs: Outputs, found: Found) -> Any:
        """The columns that are kept, and the predictions."""
        columns = [*(batch.column(place) for place in kept), *outputs.arrow(found).values()]
        return type(batch).from_arrays(columns, schema=arrow_schema(batch.schema, kept, outputs))


def arrow_schema(schema: Any, kept: list[int], outputs: Outputs) -> Any:
    """The fields that are kept, and those of the predictions."""
    arrow = pyarrow()
    made = [arrow.field(name, kind) for name, kind in outputs.arrow_types().items()]
    return arrow.schema([*(schema.field(place) for place in kept), *made], schema.metadata)


def list_column(column: Any, name: str, width: int) -> NDArray[Any]:
    """A column of lists, or of tensors as Ray keeps them, as an array (n, width)."""
    arrow = pyarrow()
    if isinstance(column.type, arrow.BaseExtensionType) and len(getattr(column.type, "shape", (width,))) == 1:
        column = arrow.chunked_array([chunk.storage for chunk in column.chunks])
    if not (is_list(arrow, column.type) and is_number(arrow, column.type.value_type)):
        raise InputError(f"column {quoted(name)} has type {reason(column.type)}; it must hold lists of numbers.")
    return list_matrix(column, quoted(name), width=width, declared="the predictor needs")


def _table(batch: Any) -> Any:
    arrow = pyarrow()
    return arrow.Table.from_batches([batch]) if isinstance(batch, arrow.RecordBatch) else batch
