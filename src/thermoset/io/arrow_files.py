"""Arrow files (also called Feather): a list column `logits`, or a column for each class, as in parquet.

A file is mapped while it is read: what is not compressed is copied from where it lies, what is compressed is decoded a
record batch at a time.
"""

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import accumulate
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from thermoset.data import Logits
from thermoset.errors import FileFormatError
from thermoset.io import held
from thermoset.io.files import Ids, Request, RowSource, check_shape, check_size, need
from thermoset.io.schema import Layout, are_texts, check_values, read_layout, whole_ids
from thermoset.io.stored import StoredFile, as_source, as_whole
from thermoset.io.tables import (
    BATCH_BYTES,
    arrow_errors,
    as_table,
    labels_of,
    rows_in,
    scores_of,
    stored_type,
    values_of,
)

__all__ = ["open_arrow", "read_arrow", "read_arrow_column", "stored_arrow", "write_arrow"]

READING = "reading Arrow files"
OLD_FEATHER = b"FEA1"


def _mapped(path: Path) -> Any:
    arrow = need("pyarrow", "io", READING)
    with path.open("rb") as stream:
        if stream.read(len(OLD_FEATHER)) == OLD_FEATHER:
            raise FileFormatError("a Feather file of version 1. Write it again with a newer pyarrow.")
    return arrow.memory_map(str(path))


def _reader(source: Any, names: Sequence[str] | None = None) -> Any:
    """Open a mapped file: all of it, of which nothing is read that is not compressed; or only some columns, decoded."""
    library = need("pyarrow.ipc", "io", READING)
    reader = library.open_file(source)
    if names is None:
        return reader
    fields = [reader.schema.get_field_index(name) for name in names]
    return library.open_file(source, options=library.IpcReadOptions(included_fields=fields, use_threads=False))


def _is_compressed(reader: Any, source: Any) -> bool:
    """Whether record batches are decoded, and do not lie in the mapped file as they are."""
    if reader.num_record_batches == 0:
        return False
    source.seek(0)
    whole = source.read_buffer()
    inside = range(whole.address, whole.address + whole.size)
    buffers = [buffer for column in reader.get_batch(0).columns for buffer in column.buffers() if buffer is not None]
    return not all(buffer.address in inside for buffer in buffers if buffer.size)


def _checked_table(batch: Any) -> Any:
    arrow = need("pyarrow", "io", READING)
    table = arrow.Table.from_batches([batch])
    table.validate(full=True)  # offsets and places in dictionaries of a damaged file may point anywhere
    return table


@contextmanager
def _errors() -> Iterator[None]:
    with arrow_errors(need("pyarrow", "io", READING), "Arrow"):
        yield


def stored_arrow(path: Path, request: Request) -> StoredFile:
    """Look at the schema, and at how many rows each record batch has."""
    arrow = need("pyarrow", "io", READING)
    with _errors():
        source = _mapped(path)
        reader = _reader(source)
        layout = read_layout(arrow, reader.schema, request)
        check_size(layout.row_bytes, request.max_bytes, "a row")
        compressed = _is_compressed(reader, source)
        if compressed:
            reader = _reader(source, layout.read)
        n_rows = [reader.get_batch(place).num_rows for place in range(reader.num_record_batches)]
        ends = tuple(accumulate(n_rows))
        shape = (ends[-1] if ends else 0), _width(reader, layout)
        check_shape((min(n_rows, default=0),), "a record batch")
        check_shape(shape, "the Arrow file")
        if compressed:
            most = max(n_rows, default=0) * shape[1] * stored_type(layout).itemsize
            check_size(most, request.max_bytes, "a record batch")
        rows = ArrowRows(path, request, shape, stored_type(layout), ends, compressed)
        labels = None
        if request.find_labels and layout.label is not None:
            labels = partial(_read_labels, path, request)
        groups = None if layout.groups is None else partial(read_arrow_column, path, layout.groups, request)
        return StoredFile(rows, layout.classes, labels, groups=groups, columns=tuple(layout.names))


def _width(reader: Any, layout: Layout) -> int:
    """How many classes there are; where lists may have any length, the first row tells."""
    if not layout.free_lists:
        return len(layout.names) if layout.key is None else int(layout.kinds[0].list_size)
    batches = map(reader.get_batch, range(reader.num_record_batches))
    first = next((batch for batch in batches if batch.num_rows), None)
    if first is None:
        return 2
    arrow = need("pyarrow", "io", READING)
    return int(scores_of(arrow, _checked_table(first.slice(0, 1).select(layout.read)), layout).shape[1])


@dataclass(frozen=True)
class ArrowRows:
    """The columns of scores."""

    path: Path
    request: Request
    shape: tuple[int, int]
    dtype: np.dtype[Any]
    ends: tuple[int, ...]  # of record batches
    compressed: bool

    def read(self, start: int, stop: int) -> NDArray[Any]:
        """Rows start to stop - 1."""
        arrow = need("pyarrow", "io", READING)
        block = np.empty((stop - start, self.shape[1]), dtype=self.dtype)
        with _errors():
            what = ("arrow", self.request)
            found: tuple[int, Any] = held.take(self.path, what) or (-1, None)
            place, batch = found
            source = _mapped(self.path)
            layout = read_layout(arrow, _reader(source).schema, self.request)
            reader, row = _reader(source, layout.read if self.compressed else None), start
            while row < stop:
                wanted = int(np.searchsorted(self.ends, row, side="right"))
                if wanted != place:
                    place, batch = wanted, reader.get_batch(wanted)
                first = self.ends[place - 1] if place else 0
                some = batch.slice(row - first, min(stop, self.ends[place]) - row)
                scores = scores_of(arrow, _checked_table(some.select(layout.read)), layout, row, self.shape[1])
                if len(scores) == 0:
                    raise FileFormatError(f"ends after {row:,} of {self.shape[0]:,} rows: damaged. Save it again.")
                block[row - start : row - start + len(scores)] = scores
                row += len(scores)
            if self.compressed:
                held.give(self.path, what, held.Held((place, batch), batch.get_total_buffer_size()))
        return block


def _read_labels(path: Path, request: Request) -> object:
    arrow = need("pyarrow", "io", READING)
    with _errors():
        layout = read_layout(arrow, _reader(_mapped(path)).schema, request)
        return labels_of(arrow, _column(path, layout.label or "", request), layout, request.partial_labels)


def read_arrow_column(path: Path, name: str, request: Request) -> object:
    """Read a column of numbers or text."""
    arrow = need("pyarrow", "io", READING)
    with _errors():
        check_values(arrow, _reader(_mapped(path)).schema, name)
        return values_of(arrow, _column(path, name, request).column(name), name)


def _column(path: Path, name: str, request: Request) -> Any:
    """Read a column as a table."""
    table = _reader(_mapped(path), [name]).read_all()
    table.validate(full=True)
    check_size(table.nbytes, request.max_bytes, "the column")
    return table


def read_arrow(path: Path, request: Request) -> Logits:
    """Read a file at once."""
    return as_whole(stored_arrow(path, request), request)


def open_arrow(path: Path, request: Request, _: ExitStack) -> RowSource:
    """Read blocks of rows, and ids."""
    source = as_source(stored_arrow(path, request))
    if request.id_column is None:
        return source
    name = request.id_column
    text = are_texts(need("pyarrow", "io", READING), _reader(_mapped(path)).schema.field(name).type)
    return source._replace(ids=Ids(partial(_ids, path, name, request), text))


def _ids(path: Path, name: str, request: Request) -> Any:
    values = read_arrow_column(path, name, request)
    found = values.tolist() if isinstance(values, np.ndarray) else list(values)  # type: ignore[call-overload]
    return whole_ids(found, name)


def write_arrow(stream: BinaryIO, logits: Logits) -> None:
    """Write an Arrow file: a list column `logits`, columns `label` and `groups`, class names in the metadata."""
    table = as_table(logits, "writing Arrow files")
    library = need("pyarrow.ipc", "io", "writing Arrow files")
    with library.new_file(stream, table.schema) as writer:
        writer.write_table(table, max_chunksize=rows_in(BATCH_BYTES, logits))
