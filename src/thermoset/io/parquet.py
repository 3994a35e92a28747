"""Parquet: one list column `logits`, or a column for each class; labels in a column `label`."""

import json
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any, BinaryIO, NamedTuple

import numpy as np
from numpy.typing import NDArray

from thermoset.data import Logits
from thermoset.errors import FileFormatError, InputError
from thermoset.io.csv_text import is_whole
from thermoset.io.files import Ids, Request, RowSource, build, check_size, need
from thermoset.io.pages import Group, Leaf, check_pages, read_footer
from thermoset.io.rows import in_class_order
from thermoset.io.schema import METADATA_KEY, VALUE_BYTES, Layout, fits_int64, is_number, read_layout
from thermoset.quoting import quoted, reason

__all__ = ["open_parquet", "read_parquet", "write_parquet"]

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

    def leaves(self, names: list[str]) -> list[Leaf]:
        """The columns pyarrow reads for these names: those called so, and all inside one called so."""
        schema, wanted = self.file.schema, set(names)
        found = []
        for place in range(len(schema.names)):
            column = schema.column(place)
            path = column.path
            if path in wanted or any(path[:i] in wanted for i, char in enumerate(path) if char == "."):
                found.append(Leaf(place, path, column.physical_type))
        return found


def read_parquet(path: Path, request: Request) -> Logits:
    """Read one list column, or all columns but the label as classes."""
    arrow, parquet = _libraries()
    groups = read_footer(path, request.max_bytes)
    with _arrow_errors(arrow):
        with parquet.ParquetFile(path) as file:
            layout = read_layout(arrow, file.schema_arrow, request.probabilities)
            metadata = file.metadata
        # A label that is repeated stands once in the file, and so it should in memory.
        text = {} if layout.label is None else {"read_dictionary": [layout.label]}
        with parquet.ParquetFile(path, metadata=metadata, **text) as file:
            columns = layout.read if layout.label is None else [*layout.read, layout.label]
            table = _read(arrow, OpenFile(path, file, groups, layout, request.max_bytes), columns)
        return build(request, _scores(arrow, table, layout), _labels(arrow, table, layout), layout.classes)


def open_parquet(path: Path, request: Request, stack: ExitStack) -> RowSource:
    """Look at what the file declares, and at the first row if the length of lists is not; rows are read in blocks."""
    arrow, parquet = _libraries()
    groups = read_footer(path, request.max_bytes)
    with _arrow_errors(arrow):
        options = {"buffer_size": BUFFER_BYTES, "pre_buffer": False}
        file = stack.enter_context(parquet.ParquetFile(path, **options))
        layout = read_layout(arrow, file.schema_arrow, request.probabilities, request.id_column)
        check_size(layout.row_bytes, request.max_bytes, "a row")
        source = OpenFile(path, file, groups, layout, request.max_bytes)
        width = len(layout.names) if layout.key is None else _declared_width(source)
        if width is None:
            first = next(_blocks(arrow, source, None, 1), None)
            width = 2 if first is None else first.shape[1]
        shape = sum(group.rows for group in groups), width
        ids = None
        if request.id_column is not None:
            kind = file.schema_arrow.field(request.id_column).type
            ids = Ids(partial(_ids, arrow, source, request.id_column), text=not fits_int64(arrow, kind))
        return RowSource(shape, layout.classes, partial(_blocks, arrow, source, width), ids)


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
        raise FileFormatError(f"not a readable parquet file, or a truncated one ({reason(error)}).") from None


def _scores(
    arrow: ModuleType, table: Any, layout: Layout, first_row: int = 0, width: int | None = None
) -> NDArray[Any]:
    """Make an (n, C) array of rows that begin at `first_row` of the file; `width` is what rows before it have."""
    if layout.key is None:
        return _stack(table, layout.names, first_row)
    scores = _matrix(arrow, table.column(layout.key), quoted(layout.key), first_row, width)
    if layout.order is None:
        return scores
    return in_class_order(scores, _matrix(arrow, table.column(layout.order), quoted(layout.order), first_row, width))


def _matrix(arrow: ModuleType, column: Any, key: str, first_row: int, width: int | None) -> NDArray[Any]:
    """Turn a list column into an (n, C) array."""
    compute = need("pyarrow.compute", "io", "reading .parquet")
    if column.null_count:
        raise FileFormatError(f"row {first_row + _first_true(column.is_null())} of column {key} is missing.")
    lengths = compute.list_value_length(column).to_numpy()
    if len(lengths) == 0:
        return np.empty((0, 2))
    width = int(lengths[0]) if width is None else width
    if (lengths != width).any():
        row = int(np.flatnonzero(lengths != width)[0])
        raise FileFormatError(
            f"row {first_row + row} of column {key} has {lengths[row]} values where "
            f"{'row 0 has' if first_row + row else 'the file declares'} {width}."
        )
    flat = arrow.concat_arrays([chunk.flatten() for chunk in column.chunks])
    if flat.null_count:
        row, place = divmod(_first_true(flat.is_null()), width)
        raise FileFormatError(f"row {first_row + row} of column {key} has a missing value at place {place}.")
    return np.asarray(flat.to_numpy(zero_copy_only=False)).reshape(len(lengths), width)


def _stack(table: Any, names: list[str], first_row: int) -> NDArray[Any]:
    by_name = dict(zip(table.column_names, table.columns, strict=True))
    columns = []
    for name in names:
        column = by_name[name]
        if column.null_count:
            row = first_row + _first_true(column.is_null())
            raise FileFormatError(f"row {row} of column {quoted(name)} is missing.")
        columns.append(column.to_numpy())
    return np.stack(columns, axis=1) if columns else np.empty((table.num_rows, 0))


def _labels(arrow: ModuleType, table: Any, layout: Layout) -> Any:
    if layout.label is None:
        return None
    column = table.column(layout.label)
    if column.null_count:
        row = _first_true(column.is_null())
        raise FileFormatError(f"row {row} of column {quoted(layout.label)} is missing. Drop it.")
    values = _label_values(arrow, column)
    if isinstance(values, np.ndarray) and any(map(is_whole, layout.names)):
        return [str(number) for number in values.tolist()]  # columns called 1, 2, 3: then 1 is a name (see text.py)
    return values


def _label_values(arrow: ModuleType, column: Any) -> NDArray[Any] | list[str]:
    """Numbers, or names of which each is in memory once."""
    if not arrow.types.is_dictionary(column.type):
        return np.asarray(column.to_numpy()) if is_number(arrow, column.type) else list(column.to_pylist())
    parts = column.unify_dictionaries().chunks
    dictionary = arrow.array([], column.type.value_type) if not parts else parts[0].dictionary
    places = np.concatenate([[], *(part.indices.to_numpy(zero_copy_only=False) for part in parts)]).astype(np.int64)
    if is_number(arrow, dictionary.type):
        return np.asarray(dictionary.to_numpy(zero_copy_only=False)[places])
    names = dictionary.to_pylist()
    return [names[place] for place in places.tolist()]


def _read(arrow: ModuleType, source: OpenFile, names: list[str]) -> Any:
    """Read columns within the limit: run lengths can hide billions of values in a few bytes."""
    limit, leaves = source.max_bytes, source.leaves(names)
    n_values = sum(group.chunks[leaf.place].values for group in source.groups for leaf in leaves)
    n_rows = sum(group.rows for group in source.groups)
    check_size(max(n_values * VALUE_BYTES, n_rows * source.layout.row_bytes), limit, "the parquet file")
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
    with _arrow_errors(arrow):
        for table in _tables(arrow, source, rows):
            block = _scores(arrow, table, source.layout, done, width)
            done, width = done + len(block), block.shape[1]
            yield block


def _tables(arrow: ModuleType, source: OpenFile, rows: int) -> Iterator[Any]:
    """Read tables of at most so many rows; lists of any length in small batches, counted as they come."""
    step = min(rows, BATCH_ROWS) if source.layout.free_lists else rows
    batches: list[Any] = []
    n_rows = n_bytes = 0
    for batch in _batches(source, step, source.layout.read):
        if batches and n_rows + batch.num_rows > rows:
            yield arrow.Table.from_batches(batches)
            batches, n_rows, n_bytes = [], 0, 0
        batches.append(batch)
        n_rows, n_bytes = n_rows + batch.num_rows, n_bytes + batch.nbytes
        # Twice: the numbers of a block are within the limit, the lengths of its lists come on top.
        check_size(n_bytes, 2 * source.max_bytes, "a block of rows")
    if n_rows:
        yield arrow.Table.from_batches(batches)


def _ids(arrow: ModuleType, source: OpenFile, name: str) -> Iterator[object]:
    """Read a column of ids, from the first row on."""
    done = 0
    with _arrow_errors(arrow):
        for batch in _batches(source, BATCH_ROWS, [name]):
            column = batch.column(0)
            if column.null_count:
                row = done + _first_true(column.is_null())
                raise FileFormatError(f"row {row} of column {quoted(name)} is missing; wanted an id.")
            yield from column.to_pylist()
            done += len(column)


def _batches(source: OpenFile, step: int, names: list[str]) -> Iterator[Any]:
    """Read columns row group by row group, each when its pages have been looked at."""
    leaves = source.leaves(names)
    for place, group in enumerate(source.groups):
        check_pages(source.path, [group], leaves, max(source.max_bytes, PAGE_BYTES))
        yield from source.file.iter_batches(batch_size=step, row_groups=[place], columns=names)


def _first_true(mask: Any) -> int:
    return int(np.flatnonzero(mask.to_numpy(zero_copy_only=False) if hasattr(mask, "buffers") else mask.to_numpy())[0])
