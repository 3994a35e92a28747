"""Parquet: one list column `logits`, or a column for each class; labels in a column `label`."""

import json
import re
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any, BinaryIO, NamedTuple

import numpy as np
from numpy.typing import NDArray

from thermoset.data import Logits
from thermoset.data.arrays import column_classes
from thermoset.errors import FileFormatError, InputError
from thermoset.io.files import LABELS, PROBABILITIES, Request, RowSource, build, check_size, first_of, need
from thermoset.io.tensors import names_from_json
from thermoset.io.text import is_whole, label_column

__all__ = ["open_parquet", "read_parquet", "write_parquet"]

BATCH_ROWS = 1024
BUFFER_BYTES = 1 << 16  # of the file, for each column; without it a column of a row group is read at once
VALUE_BYTES = 8
METADATA_KEY = b"thermoset.classes"
PANDAS_INDEX = re.compile(r"__index_level_\d+__")


class Layout(NamedTuple):
    """Where a file keeps what."""

    key: str | None  # the list column, or
    names: list[str]  # the columns that are classes
    label: str | None
    classes: Sequence[str] | None

    @property
    def scores(self) -> list[str]:
        """The columns that hold numbers."""
        return self.names if self.key is None else [self.key]


def read_parquet(path: Path, request: Request) -> Logits:
    """Read one list column, or all columns but the label as classes."""
    arrow, parquet = _libraries()
    with _arrow_errors(arrow), parquet.ParquetFile(path) as file:
        layout = _layout(arrow, file.schema_arrow, request.probabilities)
        columns = layout.scores if layout.label is None else [*layout.scores, layout.label]
        table = _read(arrow, file, columns, request.max_bytes)
        return build(request, _scores(arrow, table, layout), _labels(arrow, table, layout), layout.classes)


def open_parquet(path: Path, request: Request, stack: ExitStack) -> RowSource:
    """Look at the schema, and at the first row for the length of the lists; rows are read in blocks."""
    arrow, parquet = _libraries()
    with _arrow_errors(arrow):
        options = {"buffer_size": BUFFER_BYTES, "pre_buffer": False}
        file = stack.enter_context(parquet.ParquetFile(path, **options))
        layout = _layout(arrow, file.schema_arrow, request.probabilities)
        blocks = partial(_blocks, arrow, file, layout, request.max_bytes)
        n_columns = len(layout.names)
        if layout.key is not None:
            first = next(blocks(1), None)
            n_columns = 2 if first is None else first.shape[1]
        return RowSource((_n_rows(file.metadata), n_columns), layout.classes, blocks)


def write_parquet(stream: BinaryIO, logits: Logits) -> None:
    """Write a list column `logits`, a column `label` of column numbers, and class names in the metadata."""
    arrow, parquet = need("pyarrow", "io", "writing .parquet"), need("pyarrow.parquet", "io", "writing .parquet")
    flat = arrow.array(logits.logits.reshape(-1))
    columns = {"logits": arrow.FixedSizeListArray.from_arrays(flat, logits.n_classes)}
    if logits.labels is not None:
        columns["label"] = arrow.array(logits.labels)
    table = arrow.table(columns)
    if logits.classes is not None:
        table = table.replace_schema_metadata({METADATA_KEY: json.dumps(logits.classes).encode()})
    # A dictionary of nearly unique floats only costs time.
    parquet.write_table(table, stream, use_dictionary=False)


def _libraries() -> tuple[ModuleType, ModuleType]:
    return need("pyarrow", "io", "reading .parquet"), need("pyarrow.parquet", "io", "reading .parquet")


@contextmanager
def _arrow_errors(arrow: ModuleType) -> Iterator[None]:
    try:
        yield
    except InputError:
        raise
    except (arrow.ArrowException, OSError, ValueError, KeyError) as error:  # a damaged name may not be UTF-8, say
        reason = " ".join(str(error).split())[:160]
        raise FileFormatError(f"not a readable parquet file, or a truncated one ({reason}).") from None


def _layout(arrow: ModuleType, schema: Any, probabilities: bool) -> Layout:
    label = label_column(name for name in schema.names if name.lower() in LABELS)
    key = _list_column(arrow, schema, probabilities)
    if key is None:
        names = _class_columns(arrow, schema, label)
        return Layout(None, names, label, column_classes(names))
    value_type = schema.field(key).type.value_type
    if not (arrow.types.is_floating(value_type) or arrow.types.is_integer(value_type)):
        raise FileFormatError(f"column {key!r} holds lists of {value_type}; wanted lists of numbers.")
    classes = (schema.metadata or {}).get(METADATA_KEY)
    return Layout(key, [], label, None if classes is None else names_from_json(classes))


def _list_column(arrow: ModuleType, schema: Any, probabilities: bool) -> str | None:
    types = arrow.types
    lists = [
        field.name
        for field in schema
        if types.is_list(field.type) or types.is_large_list(field.type) or types.is_fixed_size_list(field.type)
    ]
    return first_of(PROBABILITIES if probabilities else ("logits",), lists)


def _class_columns(arrow: ModuleType, schema: Any, label: str | None) -> list[str]:
    names = [name for name in schema.names if name != label and not PANDAS_INDEX.fullmatch(name)]
    if len(set(schema.names)) != len(schema.names):
        raise FileFormatError("two columns have the same name.")
    kinds = {name: schema.field(name).type for name in names}
    for name, kind in kinds.items():
        if not (arrow.types.is_floating(kind) or arrow.types.is_integer(kind)):
            raise FileFormatError(
                f"column {name!r} is of type {kind}; without a list column 'logits' every column but the label must "
                f"hold the logits of a class. Drop it."
            )
    floats = [name for name, kind in kinds.items() if arrow.types.is_floating(kind)]
    if floats and len(floats) != len(names):
        odd = next(name for name in names if name not in floats)  # an id or a row number is no class
        raise FileFormatError(f"column {odd!r} holds whole numbers and others hold floats. Drop it, or make it float.")
    return names


def _scores(
    arrow: ModuleType, table: Any, layout: Layout, first_row: int = 0, width: int | None = None
) -> NDArray[Any]:
    """Make an (n, C) array of rows that begin at `first_row` of the file; `width` is what rows before it have."""
    if layout.key is None:
        return _stack(table, layout.names, first_row)
    return _matrix(arrow, table.column(layout.key), layout.key, first_row, width)


def _matrix(arrow: ModuleType, column: Any, key: str, first_row: int, width: int | None) -> NDArray[Any]:
    """Turn a list column into an (n, C) array."""
    compute = need("pyarrow.compute", "io", "reading .parquet")
    if column.null_count:
        raise FileFormatError(f"row {first_row + _first_true(column.is_null())} of column {key!r} is missing.")
    lengths = compute.list_value_length(column).to_numpy()
    if len(lengths) == 0:
        return np.empty((0, 2))
    width = int(lengths[0]) if width is None else width
    if (lengths != width).any():
        row = int(np.flatnonzero(lengths != width)[0])
        raise FileFormatError(
            f"row {first_row + row} of column {key!r} has {lengths[row]} values where row 0 has {width}."
        )
    flat = arrow.concat_arrays([chunk.flatten() for chunk in column.chunks])
    if flat.null_count:
        row, place = divmod(_first_true(flat.is_null()), width)
        raise FileFormatError(f"row {first_row + row} of column {key!r} has a missing value at place {place}.")
    return np.asarray(flat.to_numpy(zero_copy_only=False)).reshape(len(lengths), width)


def _stack(table: Any, names: list[str], first_row: int) -> NDArray[Any]:
    columns = []
    for name in names:
        column = table.column(name)
        if column.null_count:
            raise FileFormatError(f"row {first_row + _first_true(column.is_null())} of column {name!r} is missing.")
        columns.append(column.to_numpy())
    return np.stack(columns, axis=1) if columns else np.empty((table.num_rows, 0))


def _labels(arrow: ModuleType, table: Any, layout: Layout) -> Any:
    if layout.label is None:
        return None
    column = table.column(layout.label)
    if column.null_count:
        raise FileFormatError(f"row {_first_true(column.is_null())} of column {layout.label!r} is missing. Drop it.")
    if not (arrow.types.is_integer(column.type) or arrow.types.is_floating(column.type)):
        return column.to_pylist()
    numbers = column.to_numpy()
    if any(map(is_whole, layout.names)):  # columns called 1, 2, 3: then 1 is a name (see text.py)
        return [str(number) for number in numbers.tolist()]
    return numbers


def _read(arrow: ModuleType, file: Any, names: list[str], max_bytes: int) -> Any:
    """Read columns within the limit: run lengths can hide billions of values in a few bytes.

    Rows and fixed widths are declared and compared before anything is read. Lists of any length are read in batches
    and counted as they come. (The number of values a column chunk declares would tell before, but asking a damaged
    file for it ends the process in pyarrow 26.)
    """
    encoded = sum(group.total_byte_size for group in _row_groups(file.metadata))
    check_size(max(_n_rows(file.metadata) * _row_bytes(file, names), encoded), max_bytes, "the parquet file")
    batches, so_far = [], 0
    for batch in file.iter_batches(batch_size=BATCH_ROWS, columns=names):
        so_far += batch.nbytes
        check_size(so_far, max_bytes, "the parquet file")
        batches.append(batch)
    return arrow.Table.from_batches(batches) if batches else file.read(columns=names)


def _blocks(arrow: ModuleType, file: Any, layout: Layout, max_bytes: int, rows: int) -> Iterator[NDArray[Any]]:
    """Read blocks of rows, each within the limit."""
    done, width = 0, None
    with _arrow_errors(arrow):
        for table in _tables(arrow, file, layout.scores, max_bytes, rows):
            block = _scores(arrow, table, layout, done, width)
            done, width = done + len(block), block.shape[1]
            yield block


def _tables(arrow: ModuleType, file: Any, names: list[str], max_bytes: int, rows: int) -> Iterator[Any]:
    """Read tables of at most so many rows; lists of any length in batches, counted as they come, as in `_read`."""
    check_size(_row_bytes(file, names), max_bytes, "a row")
    fixed = all(hasattr(kind, "list_size") or not arrow.types.is_nested(kind) for kind in _kinds(file, names))
    step = rows if fixed else min(rows, BATCH_ROWS)
    batches: list[Any] = []
    n_rows = n_bytes = 0
    for batch in file.iter_batches(batch_size=step, columns=names):
        if batches and n_rows + batch.num_rows > rows:
            yield arrow.Table.from_batches(batches)
            batches, n_rows, n_bytes = [], 0, 0
        batches.append(batch)
        n_rows, n_bytes = n_rows + batch.num_rows, n_bytes + batch.nbytes
        # Twice: the numbers of a block are within the limit, the lengths of its lists come on top.
        check_size(n_bytes, 2 * max_bytes, "a block of rows")
    if n_rows:
        yield arrow.Table.from_batches(batches)


def _row_groups(metadata: Any) -> list[Any]:
    return [metadata.row_group(i) for i in range(metadata.num_row_groups)]


def _n_rows(metadata: Any) -> int:
    """How many rows the file says it has, in two places."""
    in_groups = [int(group.num_rows) for group in _row_groups(metadata)]
    if sum(in_groups) != metadata.num_rows or min(in_groups, default=0) < 0:
        raise FileFormatError(f"declares {metadata.num_rows:,} rows in row groups of {in_groups[:5]}: damaged.")
    return sum(in_groups)


def _row_bytes(file: Any, names: list[str]) -> int:
    """How many bytes the schema declares for a row; lists of any length declare none."""
    return VALUE_BYTES * sum(getattr(kind, "list_size", 1) for kind in _kinds(file, names))


def _kinds(file: Any, names: list[str]) -> list[Any]:
    return [file.schema_arrow.field(name).type for name in names]


def _first_true(mask: Any) -> int:
    return int(np.flatnonzero(mask.to_numpy(zero_copy_only=False) if hasattr(mask, "buffers") else mask.to_numpy())[0])
