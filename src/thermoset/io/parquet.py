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
from thermoset.io.pages import Group, Leaf, check_pages, read_footer
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
    "leaves_of",
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
PAGE_BYTES = 1 << 24  # a page is read whole, also where blocks are to be smaller; writers make pages of 1 MB


class OpenFile(NamedTuple):
    """A file, what its end declares, and where it keeps what."""

    path: Path
    file: Any
    groups: list[Group]
    layout: Layout
    max_bytes: int
    threads: bool = True  # whether pyarrow may use several, which helps where there are many columns

    @property
    def n_rows(self) -> int:
        """Rows in all row groups."""
        return sum(group.rows for group in self.groups)

    def leaves(self, names: list[str]) -> list[Leaf]:
        """The columns pyarrow reads for these names."""
        return leaves_of(self.file.schema, names)


def read_parquet(path: Path, request: Request) -> Logits:
    """Read one list column, or all columns but those of labels and groups as classes."""
    arrow, _ = _libraries()
    with arrow_errors(arrow, "parquet"), ExitStack() as stack:
        source = _open_with_text(path, request, stack)
        layout = source.layout
        beside = [name for name in (layout.label, layout.groups) if name is not None]
        table = _read(arrow, source, [*layout.read, *beside], layout.row_bytes)
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
        return labels_of(arrow, _read(arrow, source, names, VALUE_BYTES), source.layout, request.partial_labels)


def read_column(path: Path, name: str, request: Request) -> object:
    """Read a column of numbers or text."""
    arrow, _ = _libraries()
    with arrow_errors(arrow, "parquet"), ExitStack() as stack:
        source = _open_with_text(path, request._replace(ignored=(*request.ignored, name)), stack, (name,))
        return values_of(arrow, _read(arrow, source, [name], VALUE_BYTES).column(name), name)


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
    groups = read_footer(path, request.max_bytes)
    file = stack.enter_context(parquet.ParquetFile(path, buffer_size=BUFFER_BYTES, pre_buffer=False))
    layout = read_layout(arrow, file.schema_arrow, request)
    check_size(layout.row_bytes, request.max_bytes, "a row")
    return OpenFile(path, file, groups, layout, request.max_bytes)


def width_of(arrow: ModuleType, source: OpenFile) -> int:
    """How many classes there are; where lists may have any length, the first row tells."""
    layout = source.layout
    width = len(layout.names) if layout.key is None else _declared_width(source)
    if width is None:
        first = next(_blocks(arrow, source, None, 1), None)
        width = 2 if first is None else first.shape[1]
    return width


def _open_with_text(path: Path, request: Request, stack: ExitStack, more: Sequence[str] = ()) -> OpenFile:
    """Open a file so that a text that is repeated (labels, groups, `more`) stands once in memory, as in the file."""
    arrow, parquet = _libraries()
    groups = read_footer(path, request.max_bytes)
    with parquet.ParquetFile(path) as file:
        layout = read_layout(arrow, file.schema_arrow, request)
        for name in more:
            check_values(arrow, file.schema_arrow, name)
        metadata = file.metadata
    text = [name for name in (layout.label, layout.groups, *more) if name is not None]
    file = stack.enter_context(parquet.ParquetFile(path, metadata=metadata, read_dictionary=text))
    return OpenFile(path, file, groups, layout, request.max_bytes)


def write_parquet(stream: BinaryIO, logits: Logits) -> None:
    """Write a list column `logits`, columns `label` (column numbers) and `groups`, and class names in the metadata."""
    table = as_table(logits, "writing .parquet")
    parquet = need("pyarrow.parquet", "io", "writing .parquet")
    # A dictionary of nearly unique floats only costs time.
    repeated = [] if logits.groups is None else ["groups"]
    parquet.write_table(table, stream, use_dictionary=repeated, row_group_size=rows_in(BATCH_BYTES, logits))


def leaves_of(schema: Any, names: list[str]) -> list[Leaf]:
    """The columns pyarrow reads for these names: those called so, and all inside one called so."""
    wanted, found = set(names), []
    for place in range(len(schema.names)):
        column = schema.column(place)
        path = column.path
        if path in wanted or any(path[:i] in wanted for i, char in enumerate(path) if char == "."):
            found.append(Leaf(place, path, column.physical_type))
    return found


def _libraries() -> tuple[ModuleType, ModuleType]:
    return need("pyarrow", "io", "reading .parquet"), need("pyarrow.parquet", "io", "reading .parquet")


def _read(arrow: ModuleType, source: OpenFile, names: list[str], row_bytes: int) -> Any:
    """Read columns within the limit: run lengths can hide billions of values in a few bytes."""
    limit, leaves = source.max_bytes, source.leaves(names)
    n_values = sum(group.chunks[leaf.place].values for group in source.groups for leaf in leaves)
    check_size(max(n_values * VALUE_BYTES, source.n_rows * row_bytes), limit, "the parquet file")
    check_size(check_pages(source.path, source.groups, leaves, limit), limit, "the parquet file")
    batches, so_far = [], 0
    for batch in source.file.iter_batches(batch_size=BATCH_ROWS, columns=names):
        so_far += batch.nbytes
        check_size(so_far, 2 * limit, "the parquet file")  # twice: the lengths of lists come on top
        batches.append(batch)
    return arrow.Table.from_batches(batches) if batches else source.file.read(columns=names)


def _declared_width(source: OpenFile) -> int | None:
    """How long the lists are, if the values of every row group are as many as rows of one length have.

    If they are not, some row is of another length or missing. It is looked for, if the values of that row group fit.
    """
    (leaf,) = source.leaves(source.layout.scores)
    groups = [(group.rows, group.chunks[leaf.place].values) for group in source.groups if group.rows]
    widths = {values / rows for rows, values in groups}
    check_size(int(max(widths, default=0)) * VALUE_BYTES, source.max_bytes, "a block of rows")
    if len(widths) == 1 and (width := widths.pop()).is_integer() and width > 1:
        return int(width)
    check_size(max((values for _, values in groups), default=0) * VALUE_BYTES, 2 * source.max_bytes, "a block of rows")
    return None


def _blocks(arrow: ModuleType, source: OpenFile, width: int | None, rows: int) -> Iterator[NDArray[Any]]:
    """Read blocks of rows, each within the limit."""
    done = 0
    with arrow_errors(arrow, "parquet"):
        for table in tables(arrow, source, rows):
            block = scores_of(arrow, table, source.layout, done, width)
            done, width = done + len(block), block.shape[1]
            yield block


def tables(arrow: ModuleType, source: OpenFile, rows: int, first_group: int = 0) -> Iterator[Any]:
    """Read tables of at most so many rows; lists of any length in small batches, counted as they come."""
    step = min(rows, BATCH_ROWS) if source.layout.free_lists else rows
    batches: list[Any] = []
    n_rows = n_bytes = 0
    for batch in _batches(source, step, source.layout.read, first_group):
        if batches and n_rows + batch.num_rows > rows:
            yield arrow.Table.from_batches(batches)
            batches, n_rows, n_bytes = [], 0, 0
        batches.append(batch)
        n_rows, n_bytes = n_rows + batch.num_rows, n_bytes + batch.nbytes
        # Twice: the numbers of a block are within the limit, the lengths of its lists come on top.
        check_size(n_bytes, 2 * source.max_bytes, "a block of rows")
    if n_rows:
        yield arrow.Table.from_batches(batches)


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
    """Read columns row group by row group, each when its pages have been looked at."""
    leaves = source.leaves(names)
    for place, group in enumerate(source.groups[first_group:], first_group):
        check_pages(source.path, [group], leaves, max(source.max_bytes, PAGE_BYTES))
        options = {"batch_size": step, "columns": names, "use_threads": source.threads}
        yield from source.file.iter_batches(row_groups=[place], **options)
