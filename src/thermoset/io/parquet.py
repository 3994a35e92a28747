"""Parquet: one list column `logits`, or a column for each class; labels in a column `label`."""

import json
import re
from pathlib import Path
from types import ModuleType
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from thermoset.data import Logits
from thermoset.data.arrays import column_classes
from thermoset.errors import FileFormatError, InputError
from thermoset.io.files import LABELS, PROBABILITIES, Request, build, check_size, first_of, need
from thermoset.io.tensors import names_from_json
from thermoset.io.text import is_whole, label_column

__all__ = ["read_parquet", "write_parquet"]

BATCH_ROWS = 1024
VALUE_BYTES = 8
METADATA_KEY = b"thermoset.classes"
PANDAS_INDEX = re.compile(r"__index_level_\d+__")


def read_parquet(path: Path, request: Request) -> Logits:
    """Read one list column, or all columns but the label as classes."""
    arrow, parquet = need("pyarrow", "io", "reading .parquet"), need("pyarrow.parquet", "io", "reading .parquet")
    try:
        with parquet.ParquetFile(path) as file:
            key = _list_column(arrow, file.schema_arrow, request.probabilities)
            if key is None:
                return _read_columns(arrow, file, request)
            return _read_lists(arrow, file, key, request)
    except InputError:
        raise
    except (arrow.ArrowException, OSError, ValueError, KeyError) as error:  # a damaged name may not be UTF-8, say
        raise FileFormatError(f"not a readable parquet file, or a truncated one ({_line(error)}).") from None


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


def _list_column(arrow: ModuleType, schema: Any, probabilities: bool) -> str | None:
    types = arrow.types
    lists = [
        field.name
        for field in schema
        if types.is_list(field.type) or types.is_large_list(field.type) or types.is_fixed_size_list(field.type)
    ]
    return first_of(PROBABILITIES if probabilities else ("logits",), lists)


def _read_lists(arrow: ModuleType, file: Any, key: str, request: Request) -> Logits:
    schema = file.schema_arrow
    label = label_column(name for name in schema.names if name.lower() in LABELS)
    value_type = schema.field(key).type.value_type
    if not (arrow.types.is_floating(value_type) or arrow.types.is_integer(value_type)):
        raise FileFormatError(f"column {key!r} holds lists of {value_type}; wanted lists of numbers.")
    table = _read(arrow, file, [key] if label is None else [key, label], request.max_bytes)
    scores = _matrix(arrow, table.column(key), key)
    names = (schema.metadata or {}).get(METADATA_KEY)
    classes = None if names is None else names_from_json(names)
    return build(request, scores, _labels(arrow, table, label, None), classes)


def _matrix(arrow: ModuleType, column: Any, key: str) -> NDArray[Any]:
    """Turn a list column into an (n, C) array."""
    compute = need("pyarrow.compute", "io", "reading .parquet")
    if column.null_count:
        raise FileFormatError(f"row {_first_true(column.is_null())} of column {key!r} is missing.")
    lengths = compute.list_value_length(column).to_numpy()
    if len(lengths) == 0:
        return np.empty((0, 2))
    if (lengths != lengths[0]).any():
        row = int(np.flatnonzero(lengths != lengths[0])[0])
        raise FileFormatError(f"row {row} of column {key!r} has {lengths[row]} values where row 0 has {lengths[0]}.")
    flat = arrow.concat_arrays([chunk.flatten() for chunk in column.chunks])
    if flat.null_count:
        row, place = divmod(_first_true(flat.is_null()), int(lengths[0]))
        raise FileFormatError(f"row {row} of column {key!r} has a missing value at place {place}.")
    return np.asarray(flat.to_numpy(zero_copy_only=False)).reshape(len(lengths), int(lengths[0]))


def _read_columns(arrow: ModuleType, file: Any, request: Request) -> Logits:
    schema = file.schema_arrow
    label = label_column(name for name in schema.names if name.lower() in LABELS)
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
    table = _read(arrow, file, names if label is None else [*names, label], request.max_bytes)
    classes = column_classes(names)
    return build(request, _stack(table, names), _labels(arrow, table, label, classes), classes)


def _stack(table: Any, names: list[str]) -> NDArray[Any]:
    columns = []
    for name in names:
        column = table.column(name)
        if column.null_count:
            raise FileFormatError(f"row {_first_true(column.is_null())} of column {name!r} is missing.")
        columns.append(column.to_numpy())
    return np.stack(columns, axis=1) if columns else np.empty((table.num_rows, 0))


def _labels(arrow: ModuleType, table: Any, label: str | None, classes: tuple[str, ...] | None) -> Any:
    if label is None:
        return None
    column = table.column(label)
    if column.null_count:
        raise FileFormatError(f"row {_first_true(column.is_null())} of column {label!r} is missing. Drop it.")
    if not (arrow.types.is_integer(column.type) or arrow.types.is_floating(column.type)):
        return column.to_pylist()
    numbers = column.to_numpy()
    if classes is not None and any(map(is_whole, classes)):  # columns called 1, 2, 3: then 1 is a name (see text.py)
        return [str(number) for number in numbers.tolist()]
    return numbers


def _read(arrow: ModuleType, file: Any, names: list[str], max_bytes: int) -> Any:
    """Read columns within the limit: run lengths can hide billions of values in a few bytes.

    Rows and fixed widths are declared and compared before anything is read. Lists of any length are read in batches
    and counted as they come. (The number of values a column chunk declares would tell before, but asking a damaged
    file for it ends the process in pyarrow 26.)
    """
    schema, metadata = file.schema_arrow, file.metadata
    groups = [metadata.row_group(i) for i in range(metadata.num_row_groups)]
    n_rows = max(metadata.num_rows, sum(group.num_rows for group in groups))
    widths = [getattr(schema.field(name).type, "list_size", 1) for name in names]
    encoded = sum(group.total_byte_size for group in groups)
    check_size(max(n_rows * sum(widths) * VALUE_BYTES, encoded), max_bytes, "the parquet file")
    batches, so_far = [], 0
    for batch in file.iter_batches(batch_size=BATCH_ROWS, columns=names):
        so_far += batch.nbytes
        check_size(so_far, max_bytes, "the parquet file")
        batches.append(batch)
    return arrow.Table.from_batches(batches) if batches else file.read(columns=names)


def _first_true(mask: Any) -> int:
    return int(np.flatnonzero(mask.to_numpy(zero_copy_only=False) if hasattr(mask, "buffers") else mask.to_numpy())[0])


def _line(error: Exception) -> str:
    return " ".join(str(error).split())[:160]
