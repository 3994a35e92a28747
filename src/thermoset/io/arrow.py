"""Parquet and Arrow files (also called Feather): a list column `logits`, or a column for each class.

Rows are decoded from a row group or record batch on. Class names and other facts stand in the metadata of the schema.
"""

import json
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path
from types import ModuleType
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from thermoset.data.reading import first_repeated
from thermoset.errors import FileFormatError
from thermoset.io.files import check_size, need, unreadable
from thermoset.io.roles import Request
from thermoset.io.table import BATCH_BYTES, PIECE_BYTES, TEXT, Column, Columns, Forward, Table, row_bytes, rows_in
from thermoset.quoting import quoted

METADATA_KEY = b"thermoset.classes"
TOP_KEY = b"thermoset.top"  # how many classes there are, and temperatures, as JSON, for rows of largest logits
_BUFFER_BYTES = 1 << 16  # of a parquet file, for each column; without it a column of a row group is read at once


def _arrow() -> ModuleType:
    return need("pyarrow", "io", "reading parquet and Arrow files")


def _errors(kind: str) -> AbstractContextManager[None]:
    bad = (_arrow().ArrowException, OSError, ValueError, KeyError)  # a damaged name may not be UTF-8, say
    return unreadable(f"not a readable {kind} file, or a truncated one", bad)


# -- columns -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _ArrowColumn(Forward):
    """One column of a parquet or Arrow file, or several side by side."""

    names: tuple[str, ...] = ()
    ends: tuple[int, ...] = ()  # of row groups or record batches
    kind: str = "parquet"

    def place(self, row: int) -> int:
        """The first row of the row group or record batch."""
        part = self._part(row)
        return self.ends[part - 1] if part else 0

    def _part(self, row: int) -> int:
        return int(np.searchsorted(self.ends, row, side="right"))

    def blocks(self, first: int) -> Iterator[NDArray[Any]]:
        """Rows of a row group or record batch and of those after it."""
        row, names = first, list(self.names)
        for batch in self.batches(first, rows_in(PIECE_BYTES, self)):
            table = _arrow().Table.from_batches([batch])
            if len(self.shape) == 1:
                yield values_of(table.column(names[0]))
            elif len(names) == 1 and is_list(_arrow(), table.schema.field(names[0]).type):
                yield list_matrix(table.column(names[0]), quoted(names[0]), row, self.shape[1])
            else:
                yield stack_columns(table, names, row)
            row += batch.num_rows

    def batches(self, first: int, step: int) -> Iterator[Any]:
        """The same in batches of so many rows, decoded in one thread: readers of many shards are many processes."""
        parts = range(self._part(first), len(self.ends))
        with _errors(self.kind):
            if self.kind == "parquet":
                library = need("pyarrow.parquet", "io", "reading .parquet")
                with library.ParquetFile(self.path, buffer_size=_BUFFER_BYTES, pre_buffer=False) as file:
                    options = {"batch_size": step, "columns": list(self.names), "use_threads": False}
                    yield from file.iter_batches(row_groups=list(parts), **options)
                return
            for part in parts:  # mapped anew, so that what was touched leaves the memory
                batch = _ipc_reader(self.path, self.names).get_batch(part).select(list(self.names))
                for start in range(0, batch.num_rows, step):
                    some = batch.slice(start, step)
                    some.validate(full=True)  # offsets and places in dictionaries of a damaged file may point anywhere
                    yield some


def _ipc_reader(path: Path, names: Sequence[str] = ()) -> Any:
    """Map and open an Arrow file; of what is packed, only these columns are decoded."""
    library, source = need("pyarrow.ipc", "io", "reading Arrow files"), _arrow().memory_map(str(path))
    reader = library.open_file(source)
    fields = [reader.schema.get_field_index(name) for name in names]
    return library.open_file(source, options=library.IpcReadOptions(included_fields=fields, use_threads=False))


# -- tables ------------------------------------------------------------------------------------------------------------


def read_parquet(path: Path, request: Request) -> Table:
    """Look at what the file declares, and at the first row where the length of lists is not."""
    parquet = need("pyarrow.parquet", "io", "reading .parquet")
    with _errors("parquet"), parquet.ParquetFile(path) as file:
        n_rows = [file.metadata.row_group(place).num_rows for place in range(file.metadata.num_row_groups)]
        if sum(n_rows) != file.metadata.num_rows or min(n_rows, default=0) < 0:
            raise FileFormatError("has other rows than it declares: damaged. Save it again.")
        return _table(path, "parquet", n_rows, file.schema_arrow, request)


def read_arrow(path: Path, request: Request) -> Table:
    """Look at the schema, and at how many rows each record batch has."""
    with _errors("Arrow"):
        schema = _ipc_reader(path).schema
        small = sorted(schema.names, key=lambda name: is_list(_arrow(), schema.field(name).type))[:1]
        reader = _ipc_reader(path, small)
        n_rows = [reader.get_batch(place).num_rows for place in range(reader.num_record_batches)]
        return _table(path, "Arrow", n_rows, schema, request)


def _table(path: Path, kind: str, n_rows: list[int], schema: Any, request: Request) -> Table:
    arrow, ends = _arrow(), tuple(accumulate(n_rows))
    if (twice := first_repeated(schema.names)) is not None:
        raise FileFormatError(f"two columns have the same name, {quoted(twice)}.")

    def column(names: tuple[str, ...], dtype: np.dtype[Any], *width: int) -> _ArrowColumn:
        cells = _ArrowColumn(path, (sum(n_rows), *width), dtype, names, ends, kind)
        check_size(row_bytes(cells), request.max_bytes, "a row")
        return cells

    def open_column(name: str) -> Column:
        arrow_type = schema.field(name).type
        if not is_list(arrow, arrow_type):
            return column((name,), _dtype(arrow_type))
        if not is_number(arrow, arrow_type.value_type):
            return column((name,), TEXT, 0)
        dtype = _dtype(arrow_type.value_type)
        width = getattr(arrow_type, "list_size", None)
        if width is None:  # the first row tells
            batch = next(column((name,), dtype, 0).batches(0, 1), None) if n_rows else None
            width = len(batch.column(0)[0]) if batch is not None and batch.column(0)[0].is_valid else 2
        return column((name,), dtype, int(width))

    def stack(names: Sequence[str]) -> Column:
        kinds = [_dtype(schema.field(name).type) for name in names]
        return column(tuple(names), np.result_type(*kinds) if kinds else np.dtype(np.float64), len(names))

    return Table(Columns(schema.names, open_column), _metadata(schema.metadata or {}), cells=True, stack=stack)


def _dtype(kind: Any) -> np.dtype[Any]:
    """The type of an array with the values of a column; objects where it has no numbers."""
    arrow = _arrow()
    plain = kind.value_type if arrow.types.is_dictionary(kind) else kind
    if arrow.types.is_boolean(plain):
        return np.dtype(np.bool_)
    if is_number(arrow, plain):
        number: np.dtype[Any] = np.dtype(plain.to_pandas_dtype())
        return number
    return TEXT


def _metadata(stored: dict[bytes, bytes]) -> dict[str, Any]:
    metadata: dict[str, Any] = {}
    if METADATA_KEY in stored:
        metadata["classes"] = names_from_json(stored[METADATA_KEY])
    if TOP_KEY in stored:
        with unreadable(f"metadata {TOP_KEY.decode()} cannot be read", (ValueError, AttributeError, RecursionError)):
            metadata |= {str(name): value for name, value in json.loads(stored[TOP_KEY]).items()}
    return metadata


# -- arrays of columns -------------------------------------------------------------------------------------------------


def is_number(arrow: ModuleType, kind: Any) -> bool:
    """Whether a type is one of numbers."""
    return bool(arrow.types.is_floating(kind) or arrow.types.is_integer(kind))


def is_list(arrow: ModuleType, kind: Any) -> bool:
    """Whether a type is one of lists."""
    types = arrow.types
    return bool(types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind))


def list_matrix(
    column: Any, key: str, first_row: int = 0, width: int | None = None, declared: str = "the file declares"
) -> NDArray[Any]:
    """Turn a list column into an (n, C) array; it begins at `first_row`, and `declared` says where `width` is from."""
    arrow, compute = _arrow(), need("pyarrow.compute", "io", "reading Arrow columns")
    if column.null_count:
        raise FileFormatError(f"row {first_row + _first_true(column.is_null())} of column {key} is missing.")
    lengths = compute.list_value_length(column).to_numpy()
    if len(lengths) == 0:
        return np.empty((0, 2 if width is None else width))
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
        row, place = divmod(_first_true(flat.is_null()), max(width, 1))
        raise FileFormatError(f"row {first_row + row} of column {key} has a missing value at position {place}.")
    return np.asarray(flat.to_numpy(zero_copy_only=False)).reshape(len(lengths), width)


def stack_columns(table: Any, names: list[str], first_row: int = 0) -> NDArray[Any]:
    """Make an (n, C) array of the columns called `names`, in this order."""
    by_name = dict(zip(table.column_names, table.columns, strict=True))
    columns = []
    for name in names:
        column = by_name[name]
        if column.null_count:
            row = first_row + _first_true(column.is_null())
            raise FileFormatError(f"row {row} of column {quoted(name)} is missing.")
        columns.append(column.to_numpy())
    return np.stack(columns, axis=1) if columns else np.empty((table.num_rows, 0))


def values_of(column: Any) -> NDArray[Any]:
    """One value for each row; text, and what is missing, as objects, of which equal ones are in memory once."""
    arrow = _arrow()
    if not column.null_count and _dtype(column.type) != TEXT and not arrow.types.is_dictionary(column.type):
        return np.asarray(column.to_numpy())
    encoded = column if arrow.types.is_dictionary(column.type) else column.dictionary_encode()
    parts = encoded.unify_dictionaries().chunks
    names = np.array([*(parts[0].dictionary.to_pylist() if parts else []), None], dtype=object)
    places = [part.indices.fill_null(len(names) - 1).to_numpy(zero_copy_only=False) for part in parts]
    values = names[np.concatenate([[], *places]).astype(np.int64)]
    dtype = _dtype(column.type)
    return values if column.null_count or dtype == TEXT else values.astype(dtype)


def _first_true(mask: Any) -> int:
    """The place of the first true value of a mask of Arrow."""
    return int(np.flatnonzero(mask.to_numpy(zero_copy_only=False) if hasattr(mask, "buffers") else mask.to_numpy())[0])


def names_from_json(text: str | bytes) -> list[str]:
    """Read class names from the metadata of a file."""
    try:
        names = json.loads(text)
    except (ValueError, RecursionError):
        names = None
    if not isinstance(names, list):
        raise FileFormatError("the class names in the file's metadata are not a JSON list of strings.")
    return names


# -- writing -----------------------------------------------------------------------------------------------------------


def _as_arrow(table: Table) -> tuple[Any, int]:
    """An Arrow table, and how many of its rows are written at a time."""
    arrow = _arrow()
    columns = {}
    for name, array in table.arrays().items():
        flat = arrow.array(np.ascontiguousarray(array).reshape(-1))
        flat = flat.dictionary_encode() if array.dtype.kind == "O" else flat
        cells = flat if array.ndim == 1 else arrow.FixedSizeListArray.from_arrays(flat, array.shape[1])
        columns["label" if name == "labels" else name] = cells
    facts = {name: value for name, value in table.metadata.items() if name != "classes"}
    stored = {METADATA_KEY: table.metadata.get("classes"), TOP_KEY: facts}
    metadata = {key: json.dumps(value).encode() for key, value in stored.items() if value}
    written = arrow.table(columns, metadata=metadata or None)
    return written, max(1, BATCH_BYTES * int(written.num_rows) // max(1, int(written.nbytes)))


def write_parquet(stream: BinaryIO, table: Table) -> None:
    """Write list columns, a column `label` of column numbers, one of groups, and class names in the metadata."""
    parquet, (written, step) = need("pyarrow.parquet", "io", "writing .parquet"), _as_arrow(table)
    # A dictionary of nearly unique floats, and their statistics, only cost time and space.
    repeated = [name for name in written.column_names if name == "groups"]
    small = {} if "logits" in table.columns else {"compression": "zstd", "write_statistics": False}
    parquet.write_table(written, stream, use_dictionary=repeated, row_group_size=step, **small)


def write_arrow(stream: BinaryIO, table: Table) -> None:
    """Write an Arrow file with the same columns."""
    library, (written, step) = need("pyarrow.ipc", "io", "writing Arrow files"), _as_arrow(table)
    with library.new_file(stream, written.schema) as writer:
        writer.write_table(written, max_chunksize=step)
