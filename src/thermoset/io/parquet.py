"""Parquet: one list column `logits`, or a column for each class; labels in a column `label`."""

from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any, BinaryIO, NamedTuple

from numpy.typing import NDArray

from thermoset.data import Logits
from thermoset.errors import FileFormatError
from thermoset.io.arrow_columns import first_true
from thermoset.io.files import Ids, Request, RowSource, build, check_size, need
from thermoset.io.names import check_columns
from thermoset.io.schema import VALUE_BYTES, Layout, are_texts, check_values, read_layout, whole_ids
from thermoset.io.tables import (
    BATCH_BYTES,
    arrow_errors,
    as_table,
    groups_of,
    labels_of,
    rows_in,
    scores_of,
    values_of,
)
from thermoset.quoting import quoted

__all__ = [
    "OpenFile",
    "check_metadata",
    "open_file",
    "open_parquet",
    "read_column",
    "read_labels",
    "read_parquet",
    "tables",
    "width_of",
    "write_parquet",
]

BATCH_ROWS = 1024
BUFFER_BYTES = 1 << 16  # of the file, for each column; without it a column of a row group is read at once


class OpenFile(NamedTuple):
    """A file, and where it keeps what."""

    file: Any
    layout: Layout
    max_bytes: int
    threads: bool = True  # whether pyarrow may use several, which helps where there are many columns

    @property
    def group_rows(self) -> list[int]:
        """Rows of each row group."""
        metadata = self.file.metadata
        return [metadata.row_group(place).num_rows for place in range(metadata.num_row_groups)]

    @property
    def n_bytes(self) -> int:
        """Uncompressed bytes of all columns. pyarrow ends the process where those of one column are damaged."""
        metadata = self.file.metadata
        return sum(metadata.row_group(place).total_byte_size for place in range(metadata.num_row_groups))

    @property
    def n_rows(self) -> int:
        """Rows in all row groups."""
        return int(self.file.metadata.num_rows)


def read_parquet(path: Path, request: Request) -> Logits:
    """Read one list column, or all columns but those of labels and groups as classes."""
    arrow, _ = _libraries()
    with arrow_errors(arrow, "parquet"), ExitStack() as stack:
        source = _open_with_text(path, request, stack)
        layout = source.layout
        beside = [name for name in (layout.label, layout.groups) if name is not None]
        table = _read(source, [*layout.read, *beside], layout.row_bytes)
        labels = labels_of(arrow, table, layout) if request.find_labels else None
        groups = groups_of(arrow, table, layout)
        scores = scores_of(arrow, table, layout)
        check_columns(layout.names, scores, request)
        return build(request, scores, labels, layout.classes, groups)


def read_labels(path: Path, request: Request) -> object:
    """Read the labels alone."""
    arrow, _ = _libraries()
    with arrow_errors(arrow, "parquet"), ExitStack() as stack:
        source = _open_with_text(path, request, stack)
        names = [] if source.layout.label is None else [source.layout.label]
        return labels_of(arrow, _read(source, names, VALUE_BYTES), source.layout, request.partial_labels)


def read_column(path: Path, name: str, request: Request) -> object:
    """Read a column of numbers or text."""
    arrow, _ = _libraries()
    with arrow_errors(arrow, "parquet"), ExitStack() as stack:
        source = _open_with_text(path, request._replace(ignored=(*request.ignored, name)), stack, (name,))
        return values_of(arrow, _read(source, [name], VALUE_BYTES).column(name), name)


def open_parquet(path: Path, request: Request, stack: ExitStack) -> RowSource:
    """Look at what the file declares, and at the first row if the length of lists is not; rows are read in blocks."""
    arrow, _ = _libraries()
    with arrow_errors(arrow, "parquet"):
        source = open_file(path, request, stack)
        shape = source.n_rows, width_of(arrow, source)
        ids = None
        if request.id_column is not None:
            kind = source.file.schema_arrow.field(request.id_column).type
            ids = Ids(partial(_ids, arrow, source, request.id_column), text=are_texts(arrow, kind))
        name = source.layout.groups
        groups = None if name is None else partial(_values, arrow, source, name)
        layout, blocks = source.layout, partial(_blocks, arrow, source, shape[1])
        return RowSource(shape, layout.classes, blocks, ids, groups, columns=tuple(layout.names))


def open_file(path: Path, request: Request, stack: ExitStack) -> OpenFile:
    """Open a file and look at what it declares."""
    arrow, parquet = _libraries()
    file = stack.enter_context(parquet.ParquetFile(path, buffer_size=BUFFER_BYTES, pre_buffer=False))
    check_metadata(file.metadata)
    layout = read_layout(arrow, file.schema_arrow, request)
    check_size(layout.row_bytes, request.max_bytes, "a row")
    return OpenFile(file, layout, request.max_bytes)


def check_metadata(metadata: Any) -> None:
    """Refuse a file whose row groups have other rows than it says."""
    groups = [metadata.row_group(place) for place in range(metadata.num_row_groups)]
    if sum(group.num_rows for group in groups) != metadata.num_rows or any(group.num_rows < 0 for group in groups):
        raise FileFormatError("has other rows than it declares: damaged. Save it again.")


def width_of(arrow: ModuleType, source: OpenFile) -> int:
    """How many classes there are; where lists may have any length, the first row tells."""
    if source.layout.key is None:
        return len(source.layout.names)
    first = next(_blocks(arrow, source, None, 1), None)
    return 2 if first is None else first.shape[1]


def _open_with_text(path: Path, request: Request, stack: ExitStack, more: Sequence[str] = ()) -> OpenFile:
    """Open a file so that a text that is repeated (labels, groups, `more`) stands once in memory, as in the file."""
    arrow, parquet = _libraries()
    with parquet.ParquetFile(path) as file:
        check_metadata(file.metadata)
        layout = read_layout(arrow, file.schema_arrow, request)
        for name in more:
            check_values(arrow, file.schema_arrow, name)
        metadata = file.metadata
    text = [name for name in (layout.label, layout.groups, *more) if name is not None]
    file = stack.enter_context(parquet.ParquetFile(path, metadata=metadata, read_dictionary=text))
    return OpenFile(file, layout, request.max_bytes)


def write_parquet(stream: BinaryIO, logits: Logits) -> None:
    """Write a list column `logits`, columns `label` (column numbers) and `groups`, and class names in the metadata."""
    table = as_table(logits, "writing .parquet")
    parquet = need("pyarrow.parquet", "io", "writing .parquet")
    # A dictionary of nearly unique floats only costs time.
    repeated = [] if logits.groups is None else ["groups"]
    parquet.write_table(table, stream, use_dictionary=repeated, row_group_size=rows_in(BATCH_BYTES, logits))


def _libraries() -> tuple[ModuleType, ModuleType]:
    return need("pyarrow", "io", "reading .parquet"), need("pyarrow.parquet", "io", "reading .parquet")


def _read(source: OpenFile, names: list[str], row_bytes: int) -> Any:
    """Read columns, if what the metadata say of them is within the limit."""
    check_size(max(source.n_bytes, source.n_rows * row_bytes), source.max_bytes, "the parquet file")
    return source.file.read(columns=names)


def _blocks(arrow: ModuleType, source: OpenFile, width: int | None, rows: int) -> Iterator[NDArray[Any]]:
    """Read blocks of rows, each within the limit."""
    done = 0
    with arrow_errors(arrow, "parquet"):
        for table in tables(arrow, source, rows):
            block = scores_of(arrow, table, source.layout, done, width)
            done, width = done + len(block), block.shape[1]
            yield block


def tables(arrow: ModuleType, source: OpenFile, rows: int, first_group: int = 0) -> Iterator[Any]:
    """Read tables of at most so many rows."""
    for batch in _batches(source, rows, source.layout.read, first_group):
        yield arrow.Table.from_batches([batch])


def _values(arrow: ModuleType, source: OpenFile, name: str) -> Iterator[object]:
    """Read a column of numbers or text, from the first row on; missing ones come as None."""
    with arrow_errors(arrow, "parquet"):
        for batch in _batches(source, BATCH_ROWS, [name]):
            yield from batch.column(0).to_pylist()


def _ids(arrow: ModuleType, source: OpenFile, name: str) -> Iterator[object]:
    """Read a column of ids, from the first row on."""
    done = 0
    with arrow_errors(arrow, "parquet"):
        for batch in _batches(source, BATCH_ROWS, [name]):
            column = batch.column(0)
            if column.null_count:
                row = done + first_true(column.is_null())
                raise FileFormatError(f"row {row} of column {quoted(name)} is missing; expected an id.")
            yield from whole_ids(column.to_pylist(), name, done)
            done += len(column)


def _batches(source: OpenFile, step: int, names: list[str], first_group: int = 0) -> Iterator[Any]:
    """Read columns, so many rows at a time."""
    groups = list(range(first_group, source.file.metadata.num_row_groups))
    options = {"batch_size": step, "columns": names, "use_threads": source.threads}
    yield from source.file.iter_batches(row_groups=groups, **options)
