"""Arrow files and streams (also called Feather): a list column `logits`, or a column for each class, as in parquet."""

import struct
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from itertools import accumulate
from pathlib import Path
from types import ModuleType
from typing import Any, BinaryIO, NamedTuple

import numpy as np
from numpy.typing import NDArray

from thermoset.data import Logits
from thermoset.errors import FileFormatError
from thermoset.io.arrow_rows import FlatColumns, flat_columns, flat_lists, places_of
from thermoset.io.files import Ids, Request, RowSource, check_shape, check_size, need
from thermoset.io.ipc_layout import Batch, IpcFile, read_ipc
from thermoset.io.schema import Layout, are_texts, check_values, is_number, read_layout, whole_ids
from thermoset.io.stored import BandedRows, Rows, StoredFile, WholeRows, as_source, as_whole
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


class OpenArrow(NamedTuple):
    """What an Arrow file declares."""

    path: Path
    arrow: ModuleType
    ipc: IpcFile
    schema: Any
    max_bytes: int

    @classmethod
    def of(cls, path: Path, max_bytes: int) -> "OpenArrow":
        """Read the metadata."""
        arrow = need("pyarrow", "io", READING)
        with path.open("rb") as stream:
            if stream.read(len(OLD_FEATHER)) == OLD_FEATHER:
                raise FileFormatError("a Feather file of version 1. Write it again with a newer pyarrow.")
        ipc = read_ipc(path, max_bytes)
        with arrow.OSFile(str(path)) as source:
            return cls(path, arrow, ipc, _reader(ipc, source, None).schema, max_bytes)

    @property
    def n_rows(self) -> int:
        """Rows of all batches."""
        return sum(batch.n_rows for batch in self.ipc.batches)

    def table(self, names: Sequence[str], first: int = 0, last: int | None = None) -> Any:
        """Decode columns of some batches (of all, if the file is a stream), within the limit."""
        indices = [self.schema.get_field_index(name) for name in names]
        batches = self.ipc.batches[first:last]
        declared = _declared(self.path, (*self.ipc.dictionaries, *batches), _wanted(self, names))
        check_size(declared, self.max_bytes, "what is read of the Arrow file")
        with self.arrow.OSFile(str(self.path)) as source:
            reader = _reader(self.ipc, source, indices)
            if self.ipc.stream:
                found = list(reader)
            else:
                found = [reader.get_batch(place) for place in range(first, first + len(batches))]
            table = self.arrow.Table.from_batches(found, reader.schema)
        table.validate(full=True)  # offsets and places in dictionaries may point anywhere
        return table

    def flat(self, names: Sequence[str]) -> FlatColumns | None:
        """Columns of numbers that can be read in place."""
        places = places_of(self.arrow, self.schema)
        kinds = [self.schema.field(name).type for name in names]
        if not all(name in places for name in names) or not all(is_number(self.arrow, kind) for kind in kinds):
            return None
        return flat_columns(self.path, self.ipc, [places[name] for name in names], kinds)


def _reader(ipc: IpcFile, source: Any, fields: list[int] | None) -> Any:
    library = need("pyarrow.ipc", "io", READING)
    options = library.IpcReadOptions(included_fields=fields, use_threads=False)
    return (library.open_stream if ipc.stream else library.open_file)(source, options=options)


def _wanted(file: OpenArrow, names: Sequence[str]) -> slice | None:
    """Which buffers of a batch are decoded for a column; None for all."""
    places = list(places_of(file.arrow, file.schema).items())
    if len(names) != 1 or len(places) != len(file.schema):
        return None
    at = next(place for place, (name, _) in enumerate(places) if name == names[0])
    return slice(places[at][1][1], None if at + 1 == len(places) else places[at + 1][1][1])


def _declared(path: Path, batches: Sequence[Batch], wanted: slice | None) -> int:
    """How many bytes the buffers of batches have once they are decoded."""
    total = 0
    with path.open("rb") as stream:
        for batch in batches:
            for buffer in batch.buffers[wanted or slice(None)]:
                length = buffer.n_bytes
                if batch.compressed and buffer.n_bytes >= 8:
                    stream.seek(buffer.start)
                    length = max(length, struct.unpack("<q", stream.read(8).ljust(8, b"\0"))[0])
                total += length
    return total


def stored_arrow(path: Path, request: Request) -> StoredFile:
    """Look at the metadata; numbers that are not compressed are read in place."""
    arrow = need("pyarrow", "io", READING)
    with arrow_errors(arrow, "Arrow"):
        file = OpenArrow.of(path, request.max_bytes)
        layout = read_layout(arrow, file.schema, request)
        check_size(layout.row_bytes, request.max_bytes, "a row")
        rows = _flat(file, layout) or _decoded(file, layout, request)
        labels = None
        if request.find_labels and layout.label is not None:
            labels = partial(_read_labels, path, request)
        groups = None if layout.groups is None else partial(read_arrow_column, path, layout.groups, request)
        return StoredFile(rows, layout.classes, labels, groups=groups, columns=tuple(layout.names))


def _flat(file: OpenArrow, layout: Layout) -> Rows | None:
    """Rows that are read in place, if they can be."""
    if layout.key is None:
        return file.flat(layout.names) if layout.names else None
    places = places_of(file.arrow, file.schema)
    if layout.order is not None or layout.key not in places:
        return None
    return flat_lists(file.path, file.ipc, places[layout.key], layout.kinds[0], repr(layout.key), file.max_bytes)


def _decoded(file: OpenArrow, layout: Layout, request: Request) -> Rows:
    """Rows that pyarrow decodes, a record batch at a time; all at once where the file is a stream."""
    shape, dtype = (file.n_rows, _width(file, layout)), stored_type(layout)
    check_shape(shape, "the Arrow file")
    largest = max((batch.n_rows for batch in file.ipc.batches), default=0)
    check_size(largest * shape[1] * dtype.itemsize, request.max_bytes, "a record batch")
    if file.ipc.stream:
        return WholeRows(file.path, shape, dtype, partial(_all_rows, file.path, request))
    ends = tuple(accumulate(batch.n_rows for batch in file.ipc.batches))
    return BandedRows(DecodedBatches(file.path, request, shape, dtype, ends))


def _width(file: OpenArrow, layout: Layout) -> int:
    """How many classes there are; where lists may have any length, the first row tells."""
    if not layout.free_lists:
        return len(layout.names) if layout.key is None else int(layout.kinds[0].list_size)
    last = None if file.ipc.stream else 1
    return int(scores_of(file.arrow, file.table(layout.read, 0, last), layout).shape[1])


@dataclass(frozen=True)
class DecodedBatches:
    """Record batches that are compressed."""

    path: Path
    request: Request
    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    ends: tuple[int, ...]

    def read_rows(self, start: int, stop: int) -> NDArray[Any]:
        """Decode the batches that begin and end at these rows, one after the other."""
        block = np.empty((stop - start, *self.shape[1:]), dtype=self.dtype)
        arrow = need("pyarrow", "io", READING)
        with arrow_errors(arrow, "Arrow"):
            file = OpenArrow.of(self.path, self.request.max_bytes)
            layout = read_layout(arrow, file.schema, self.request)
            first, last = np.searchsorted(self.ends, [start, stop], side="right")
            done = 0
            for place in range(int(first), int(last)):
                table = file.table(layout.read, place, place + 1)
                some = scores_of(arrow, table, layout, start + done, self.shape[1])
                if len(some) != file.ipc.batches[place].n_rows:
                    raise FileFormatError(f"record batch {place} has other rows than it declares: damaged or hostile.")
                block[done : done + len(some)] = some
                done += len(some)
        return block


def _all_rows(path: Path, request: Request) -> NDArray[Any]:
    arrow = need("pyarrow", "io", READING)
    with arrow_errors(arrow, "Arrow"):
        file = OpenArrow.of(path, request.max_bytes)
        layout = read_layout(arrow, file.schema, request)
        return scores_of(arrow, file.table(layout.read), layout)


def _read_labels(path: Path, request: Request) -> object:
    arrow = need("pyarrow", "io", READING)
    with arrow_errors(arrow, "Arrow"):
        file = OpenArrow.of(path, request.max_bytes)
        layout = read_layout(arrow, file.schema, request)
        return labels_of(arrow, _columns(file, [layout.label or ""]), layout, request.partial_labels)


def read_arrow_column(path: Path, name: str, request: Request) -> object:
    """Read a column of numbers or text."""
    arrow = need("pyarrow", "io", READING)
    with arrow_errors(arrow, "Arrow"):
        file = OpenArrow.of(path, request.max_bytes)
        check_values(arrow, file.schema, name)
        return values_of(arrow, _columns(file, [name]).column(name), name)


def _columns(file: OpenArrow, names: list[str]) -> Any:
    """Read columns; numbers in place, so that a stream is not read as a whole for them."""
    flat = file.flat(names)
    if flat is None:
        return file.table(names)
    check_size(flat.dtype.itemsize * file.n_rows, file.max_bytes, "the column")
    return file.arrow.table({names[0]: flat.read(0, file.n_rows)[:, 0]})


def read_arrow(path: Path, request: Request) -> Logits:
    """Read a file at once."""
    return as_whole(stored_arrow(path, request), request)


def open_arrow(path: Path, request: Request, _: ExitStack) -> RowSource:
    """Read blocks of rows, and ids."""
    source = as_source(stored_arrow(path, request))
    if request.id_column is None:
        return source
    name = request.id_column
    arrow = need("pyarrow", "io", READING)
    text = are_texts(arrow, OpenArrow.of(path, request.max_bytes).schema.field(name).type)
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
