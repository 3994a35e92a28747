"""Numbers of an Arrow file that are not compressed: their bytes are read from where they lie."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path
from types import ModuleType
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from thermoset.errors import FileFormatError
from thermoset.io.files import check_shape, check_size
from thermoset.io.ipc_layout import Batch, IpcFile
from thermoset.io.numpy_files import read_into
from thermoset.io.schema import VALUE_BYTES

__all__ = ["FlatColumns", "FlatLists", "flat_columns", "flat_lists", "places_of"]

DAMAGED = "a record batch has fewer numbers than rows: damaged or hostile."


def places_of(arrow: ModuleType, schema: Any) -> dict[str, tuple[int, int]]:
    """The first array and the first buffer of each column in a record batch; not of those behind an unusual type."""
    found: dict[str, tuple[int, int]] = {}
    node = buffer = 0
    for field in schema:
        found[field.name] = node, buffer
        counted = _counted(arrow.types, field.type)
        if counted is None:
            break
        node, buffer = node + counted[0], buffer + counted[1]
    return found


def _counted(types: Any, kind: Any) -> tuple[int, int] | None:
    """How many arrays and buffers a type takes; None for those whose number depends on the data."""
    kind = getattr(kind, "storage_type", kind)  # of an extension
    if types.is_dictionary(kind) or types.is_primitive(kind) or types.is_decimal(kind):
        return 1, 2
    if types.is_fixed_size_binary(kind):
        return 1, 2
    if types.is_null(kind):
        return 1, 0
    if any(test(kind) for test in (types.is_string, types.is_large_string, types.is_binary, types.is_large_binary)):
        return 1, 3
    if types.is_struct(kind):
        own, inner = 1, [_counted(types, field.type) for field in kind]
    elif types.is_fixed_size_list(kind):
        own, inner = 1, [_counted(types, kind.value_type)]
    elif types.is_list(kind) or types.is_large_list(kind):
        own, inner = 2, [_counted(types, kind.value_type)]
    else:
        return None
    known = [counted for counted in inner if counted is not None]
    return (1 + sum(n for n, _ in known), own + sum(n for _, n in known)) if len(known) == len(inner) else None


def _ends(batches: Sequence[Batch]) -> tuple[int, ...]:
    return tuple(accumulate(batch.n_rows for batch in batches))


def _parts(ends: tuple[int, ...], start: int, stop: int) -> list[tuple[int, int, int]]:
    """The batches that rows start to stop - 1 lie in, and from where to where in each."""
    first = int(np.searchsorted(ends, start, side="right"))
    last = int(np.searchsorted(ends, stop, side="left"))
    begins = (0, *ends)
    return [
        (place, max(start - begins[place], 0), min(stop, ends[place]) - begins[place])
        for place in range(first, last + 1)
        if ends[place] > begins[place]
    ]


def _fill(stream: IO[bytes], at: int, into: NDArray[Any]) -> None:
    """Read a contiguous array's worth of bytes."""
    stream.seek(at)
    view = into.reshape(-1).view(np.uint8).data
    if read_into(stream, view) < len(view):
        raise FileFormatError("ends before its last row: truncated. Save it again.")


@dataclass(frozen=True)
class FlatColumns:
    """Columns of numbers, each a run of bytes in every record batch."""

    path: Path
    kinds: tuple[np.dtype[Any], ...]
    ends: tuple[int, ...]
    starts: tuple[tuple[int, ...], ...]  # by record batch and column

    @property
    def shape(self) -> tuple[int, ...]:
        """Rows and columns."""
        return self.ends[-1] if self.ends else 0, len(self.kinds)

    @property
    def dtype(self) -> np.dtype[Any]:
        """The type that holds all columns."""
        return np.result_type(*self.kinds)

    def read(self, start: int, stop: int) -> NDArray[Any]:
        """Rows start to stop - 1."""
        block = np.empty((stop - start, len(self.kinds)), dtype=self.dtype)
        done = 0
        with self.path.open("rb", buffering=0) as stream:
            for place, begin, end in _parts(self.ends, start, stop):
                for column, (kind, at) in enumerate(zip(self.kinds, self.starts[place], strict=True)):
                    part = np.empty(end - begin, dtype=kind)
                    _fill(stream, at + begin * kind.itemsize, part)
                    block[done : done + end - begin, column] = part
                done += end - begin
        return block


@dataclass(frozen=True)
class FlatLists:
    """A column of lists of one length."""

    path: Path
    shape: tuple[int, int]
    dtype: np.dtype[Any]
    ends: tuple[int, ...]
    values: tuple[tuple[int, int], ...]  # by record batch: where numbers begin, and how many bytes they have
    offsets: tuple[int, ...] | None  # where it stands where lists begin, if they are not of a fixed size
    offset_type: np.dtype[Any]
    column: str

    def read(self, start: int, stop: int) -> NDArray[Any]:
        """Rows start to stop - 1."""
        block = np.empty((stop - start, self.shape[1]), dtype=self.dtype)
        stride, done = self.shape[1] * self.dtype.itemsize, 0
        with self.path.open("rb", buffering=0) as stream:
            for place, begin, end in _parts(self.ends, start, stop):
                at, n_bytes = self.values[place]
                first = begin * stride if self.offsets is None else self._first(stream, place, begin, end, start + done)
                if first + (end - begin) * stride > n_bytes:
                    raise FileFormatError(DAMAGED)
                _fill(stream, at + first, block[done : done + end - begin])
                done += end - begin
        return block

    def _first(self, stream: IO[bytes], place: int, begin: int, end: int, row: int) -> int:
        """Where the first of some lists begins, if all of them are as long as the file's first one."""
        offsets = np.empty(end - begin + 1, dtype=self.offset_type)
        _fill(stream, (self.offsets or ())[place] + begin * offsets.itemsize, offsets)
        lengths = np.diff(offsets)
        if (lengths != self.shape[1]).any():
            bad = int(np.flatnonzero(lengths != self.shape[1])[0])
            raise FileFormatError(
                f"row {row + bad} of column {self.column} has {lengths[bad]} values, but row 0 has {self.shape[1]}."
            )
        if offsets[0] < 0:
            raise FileFormatError(DAMAGED)
        return int(offsets[0]) * self.dtype.itemsize


def _is_flat(batch: Batch, node: int, buffers: int, n_nodes: int) -> bool:
    """Whether numbers lie in the file as they are, and none is missing."""
    if node + n_nodes > len(batch.nodes) or buffers > len(batch.buffers):
        raise FileFormatError("a record batch has fewer arrays than columns: damaged or hostile.")
    return not batch.compressed and not any(missing for _, missing in batch.nodes[node : node + n_nodes])


def flat_columns(
    path: Path, ipc: IpcFile, places: Sequence[tuple[int, int]], kinds: Sequence[Any]
) -> FlatColumns | None:
    """Find where columns of numbers lie; None where pyarrow must decode them, or say what is missing."""
    types = tuple(np.dtype(kind.to_pandas_dtype()) for kind in kinds)
    if not all(_is_flat(batch, node, buffer + 2, 1) for batch in ipc.batches for node, buffer in places):
        return None
    for batch in ipc.batches:
        for (_, buffer), kind in zip(places, types, strict=True):
            if batch.buffers[buffer + 1].n_bytes < batch.n_rows * kind.itemsize:
                raise FileFormatError(DAMAGED)
    starts = tuple(tuple(batch.buffers[buffer + 1].start for _, buffer in places) for batch in ipc.batches)
    return FlatColumns(path, types, _ends(ipc.batches), starts)


def flat_lists(
    path: Path, ipc: IpcFile, place: tuple[int, int], kind: Any, column: str, max_bytes: int
) -> FlatLists | None:
    """Find where the numbers of a list column lie; None where pyarrow must decode them, or say what is missing."""
    node, buffer = place
    fixed = getattr(kind, "list_size", None)
    inner = buffer + (1 if fixed is not None else 2)  # the buffers of the numbers
    if not all(_is_flat(batch, node, inner + 2, 2) for batch in ipc.batches):
        return None
    n_rows = sum(batch.n_rows for batch in ipc.batches)
    values = tuple((batch.buffers[inner + 1].start, batch.buffers[inner + 1].n_bytes) for batch in ipc.batches)
    offsets = None if fixed is not None else tuple(batch.buffers[buffer + 1].start for batch in ipc.batches)
    offset_type = np.dtype("<i8" if str(kind).startswith("large") else "<i4")
    width = fixed if fixed is not None else _first_length(path, ipc, buffer + 1, offset_type)
    dtype = np.dtype(kind.value_type.to_pandas_dtype())
    check_size(width * VALUE_BYTES, max_bytes, "a row")
    check_shape((n_rows, width), f"column {column}")
    for batch in ipc.batches:
        needed, there = batch.n_rows * width * dtype.itemsize, batch.buffers[inner + 1].n_bytes
        if fixed is None:  # lists of another length are named when they are read
            needed, there = (batch.n_rows + 1) * offset_type.itemsize, batch.buffers[buffer + 1].n_bytes
        if batch.n_rows and needed > there:
            raise FileFormatError(DAMAGED)
    return FlatLists(path, (n_rows, width), dtype, _ends(ipc.batches), values, offsets, offset_type, column)


def _first_length(path: Path, ipc: IpcFile, buffer: int, offset_type: np.dtype[Any]) -> int:
    """How long the first list is; two if there are no rows."""
    batch = next((batch for batch in ipc.batches if batch.n_rows), None)
    if batch is None:
        return 2
    if batch.buffers[buffer].n_bytes < 2 * offset_type.itemsize:
        raise FileFormatError(DAMAGED)
    ends = np.empty(2, dtype=offset_type)
    with path.open("rb", buffering=0) as stream:
        _fill(stream, batch.buffers[buffer].start, ends)
    return int(max(0, ends[1] - ends[0]))
