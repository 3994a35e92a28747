"""Parquet files of rows that hold only their largest logits: list columns, and metadata."""

import json
from collections.abc import Iterator
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from thermoset.data.groups import joined_groups
from thermoset.data.top import TopLogits
from thermoset.data.top_rows import TopRows
from thermoset.errors import FileFormatError
from thermoset.io.files import Request, RowSource, check_size, need
from thermoset.io.parquet import check_metadata
from thermoset.io.safe import names_from_json
from thermoset.io.schema import METADATA_KEY, is_number
from thermoset.io.tables import arrow_errors
from thermoset.io.top_parts import ROLES, Parts, made, parts_of, roles_of
from thermoset.quoting import quoted, reason

__all__ = ["open_parquet_top", "read_parquet_top", "write_parquet_top"]

TOP_KEY = b"thermoset.top"  # metadata: n_classes and rest_temperatures, as JSON
MOST_COLUMNS = 100  # that a file of largest logits may have; whole rows have one for each class
ROW_GROUP_BYTES = 1 << 24


class _File:
    """An open file of largest logits."""

    def __init__(self, file: Any, roles: dict[str, str], request: Request) -> None:
        self._file, self._roles = file, roles
        self.request, self.fixed = request, _fixed(file.schema_arrow.metadata or {})

    @property
    def n_rows(self) -> int:
        """How many rows there are."""
        return int(self._file.metadata.num_rows)

    @property
    def n_bytes(self) -> int:
        """What the metadata say that all columns have once they are decoded."""
        metadata = self._file.metadata
        return sum(metadata.row_group(place).total_byte_size for place in range(metadata.num_row_groups))

    def blocks(self, arrow: ModuleType, step: int) -> Iterator[TopLogits]:
        """The rows, at most so many at a time."""
        done = 0
        with arrow_errors(arrow, "parquet"):
            for batch in self._file.iter_batches(batch_size=step, columns=list(self._roles.values())):
                parts = {role: _array(arrow, batch.column(name), name, done) for role, name in self._roles.items()}
                yield made(parts | self.fixed, self.request)
                done += batch.num_rows


def _open(path: Path, request: Request, stack: ExitStack) -> tuple[ModuleType, _File | None]:
    arrow, parquet = need("pyarrow", "io", "reading .parquet"), need("pyarrow.parquet", "io", "reading .parquet")
    with arrow_errors(arrow, "parquet"):
        file = stack.enter_context(parquet.ParquetFile(path, pre_buffer=False))
        check_metadata(file.metadata)
        # Not by the schema of Arrow, which takes long to build for the wide files of whole rows.
        n_columns = file.metadata.num_columns
        paths = [file.schema.column(place).path for place in range(n_columns)] if n_columns <= MOST_COLUMNS else []
        lists = {name for name, dot, _ in (path.partition(".") for path in paths) if dot}
        roles = roles_of({path.partition(".")[0] for path in paths}, request)
        scored = [roles[role] for role in ("indices", "logits", "logprobs") if role in roles]
        if not roles or not lists.issuperset(scored):
            return arrow, None
        roles = {
            role: name for role, name in roles.items() if role not in ("classes", "rest_temperatures", "n_classes")
        }
        return arrow, _File(file, roles, request)


def read_parquet_top(path: Path, request: Request) -> TopLogits | None:
    """Read a file of largest logits; None if it is of another kind."""
    with ExitStack() as stack:
        arrow, file = _open(path, request, stack)
        if file is None:
            return None
        check_size(max(path.stat().st_size, file.n_bytes), request.max_bytes, "the parquet file")
        blocks = file.blocks(arrow, max(1, file.n_rows))
        first = next(blocks, None)
        if first is None:
            raise FileFormatError("the file has no rows.")
        return _joined([first, *blocks])


def open_parquet_top(path: Path, request: Request, stack: ExitStack) -> RowSource | None:
    """Look at what the file declares, and at its first row; rows are read in blocks."""
    arrow, file = _open(path, request, stack)
    if file is None:
        return None
    first = next(file.blocks(arrow, 1), None)
    if first is None:
        raise FileFormatError("the file has no rows.")
    blocks = partial(file.blocks, arrow)
    return RowSource((file.n_rows, first.n_classes), first.classes, blocks, grouped=first.groups is not None)


def _joined(blocks: list[TopLogits]) -> TopLogits:
    """Row groups one after the other."""
    widths = {(block.top, block.dtype) for block in blocks}
    if len(widths) > 1:
        raise FileFormatError("rows keep different numbers of logits. Keep the same number for every row.")
    labels = [block.labels for block in blocks if block.labels is not None]
    rows = TopRows.stacked([block.stored for block in blocks])
    groups = [block.groups for block in blocks if block.groups is not None]
    joined = joined_groups(groups) if groups else None
    return TopLogits.of(rows, np.concatenate(labels) if labels else None, blocks[0].classes, joined)


def _fixed(metadata: dict[bytes, bytes]) -> Parts:
    """What the metadata say of all rows."""
    fixed: Parts = {}
    if METADATA_KEY in metadata:
        fixed["classes"] = names_from_json(metadata[METADATA_KEY])
    if TOP_KEY in metadata:
        try:
            said = json.loads(metadata[TOP_KEY])
            fixed["n_classes"] = int(said["n_classes"])
            if said.get("rest_temperatures") is not None:
                fixed["rest_temperatures"] = [float(one) for one in said["rest_temperatures"]]
        except (ValueError, TypeError, KeyError, RecursionError) as error:
            raise FileFormatError(f"metadata {TOP_KEY.decode()} cannot be read ({reason(error)}).") from None
    return fixed


def _array(arrow: ModuleType, column: Any, name: str, first_row: int) -> NDArray[Any] | list[str]:
    """A column as an array (n,), or (n, K) if its cells are lists."""
    if column.null_count:
        row = first_row + int(np.flatnonzero(column.is_null().to_numpy(zero_copy_only=False))[0])
        raise FileFormatError(f"row {row} of column {quoted(name)} is missing.")
    if not _is_list(arrow, column.type):
        numbers = is_number(arrow, column.type)
        plain: NDArray[Any] | list[str] = column.to_numpy(zero_copy_only=False) if numbers else column.to_pylist()
        return plain
    compute = need("pyarrow.compute", "io", "reading .parquet")
    lengths = compute.list_value_length(column).to_numpy(zero_copy_only=False)
    other = np.flatnonzero(lengths != lengths[:1])
    flat = column.flatten()
    if len(other) or flat.null_count:
        row = first_row + (int(other[0]) if len(other) else 0)
        raise FileFormatError(
            f"column {quoted(name)}, row {row}: lists must have the same length, without missing values."
        )
    return np.asarray(flat.to_numpy(zero_copy_only=False)).reshape(len(column), -1)


def _is_list(arrow: ModuleType, kind: Any) -> bool:
    types = arrow.types
    return bool(types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind))


def write_parquet_top(stream: BinaryIO, rows: TopLogits) -> None:
    """Write rows in row groups of about 16 MB."""
    arrow, parquet = need("pyarrow", "io", "writing .parquet"), need("pyarrow.parquet", "io", "writing .parquet")
    table = _table(arrow, rows)
    parquet.write_table(
        table,
        stream,
        row_group_size=max(1, ROW_GROUP_BYTES * rows.n_rows // table.nbytes),
        # Dictionaries and statistics of nearly unique numbers only cost time and room.
        use_dictionary=[] if rows.groups is None else ["groups"],
        write_statistics=False,
        compression="zstd",
    )


def _table(arrow: ModuleType, rows: TopLogits) -> Any:
    columns = {}
    for role, array in parts_of(rows).items():
        flat = arrow.array(np.ascontiguousarray(array).reshape(-1))
        name = "label" if role == "labels" else ROLES[role][0]
        columns[name] = flat if array.ndim == 1 else arrow.FixedSizeListArray.from_arrays(flat, array.shape[1])
    if rows.groups is not None:
        columns["groups"] = arrow.array(list(rows.groups), arrow.string())
    said: Parts = {"n_classes": rows.n_classes}
    if rows.log_rest is not None:
        said["rest_temperatures"] = list(rows.rest_temperatures)
    metadata = {TOP_KEY: json.dumps(said).encode()}
    if rows.classes is not None:
        metadata[METADATA_KEY] = json.dumps(rows.classes).encode()
    return arrow.table(columns).replace_schema_metadata(metadata)
