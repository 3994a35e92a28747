"""Arrays that lie in a file as NumPy holds them: rows are read from any place, without a map of the file.

A map would count as memory wherever it was touched, and kill the process if another program shortens the file.
"""

import struct
import zipfile
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from thermoset.errors import FileFormatError
from thermoset.io import held
from thermoset.io.files import (
    NAMES,
    Request,
    RowSource,
    check_size,
    first_of,
    no_column,
    scores_name,
)
from thermoset.io.names import group_name, label_name
from thermoset.io.numpy_files import (
    ArrayHeader,
    archive_errors,
    check_member,
    decoded,
    file_header,
    group_sibling,
    label_sibling,
    member_header,
    members_of,
    npz_ids,
    read_bytes,
    read_member,
    read_npy_array,
    siblings,
    texts,
)
from thermoset.io.stored import StoredFile, WholeRows, as_source

__all__ = [
    "FlatRows",
    "flat_npy",
    "open_npy",
    "open_npz",
    "read_npy_values",
    "read_npz_values",
    "stored_npy",
    "stored_npz",
    "widened",
]

LOCAL_HEADER = struct.Struct("<4s22xHH")
SKIPPED = 1 << 20


@dataclass(frozen=True)
class FlatRows:
    """An array whose numbers follow each other in a file."""

    path: Path
    start: int
    header: ArrayHeader
    what: str
    bfloat16: bool = False  # stored as the upper halves of float32, which NumPy reads as whole numbers

    @property
    def shape(self) -> tuple[int, ...]:
        """What the file declares."""
        return self.header.shape

    @property
    def dtype(self) -> np.dtype[Any]:
        """Type of the numbers that are read."""
        return np.dtype(np.float32) if self.bfloat16 else self.header.dtype

    def read(self, start: int, stop: int) -> NDArray[Any]:
        """Rows start to stop - 1."""
        with self.path.open("rb", buffering=0) as stream:
            if self.header.fortran and len(self.shape) == 2:
                return self._strewn(stream, start, stop)
            block = self._bytes(stream, start * self._stride, stop * self._stride)
        block = block.view(self.header.dtype).reshape(stop - start, *self.shape[1:])
        return widened(block) if self.bfloat16 else block

    @property
    def _stride(self) -> int:
        return self.header.dtype.itemsize * int(np.prod(self.shape[1:], dtype=np.int64))

    def _bytes(self, stream: IO[bytes], begin: int, end: int) -> NDArray[np.uint8]:
        stream.seek(self.start + begin)
        return read_bytes(stream, self.header, self.what, begin, end)

    def _strewn(self, stream: IO[bytes], start: int, stop: int) -> NDArray[Any]:
        """Rows of an array in Fortran order: a piece of each column."""
        n_rows, n_columns = self.shape
        size = self.header.dtype.itemsize
        block = np.empty((stop - start, n_columns), dtype=self.header.dtype)
        for column in range(n_columns):
            begin = (column * n_rows + start) * size
            part = self._bytes(stream, begin, begin + (stop - start) * size)
            block[:, column] = part.view(self.header.dtype)
        return block


def widened(halves: NDArray[Any]) -> NDArray[np.float32]:
    """Make float32 of bfloat16, its upper half.

    >>> widened(np.array([0x3F80], dtype=np.uint16))
    array([1.], dtype=float32)
    """
    return (halves.astype(np.uint32) << 16).view(np.float32)


@dataclass(frozen=True)
class PackedRows:
    """An array in a compressed member of an archive, which can only be unpacked from its beginning on."""

    path: Path
    member: str
    header: ArrayHeader

    @property
    def shape(self) -> tuple[int, ...]:
        """What the file declares."""
        return self.header.shape

    @property
    def dtype(self) -> np.dtype[Any]:
        """Type of the numbers."""
        return self.header.dtype

    def read(self, start: int, stop: int) -> NDArray[Any]:
        """Rows start to stop - 1; going on where the last read ended costs nothing, going back starts again."""
        stride = self.dtype.itemsize * self.shape[1]
        with archive_errors():
            found = held.take(self.path, self.member)
            if found is not None and found[1] > start:
                found[2].close()
                found = None
            stream, row, handles = self._opened() if found is None else found
            with ExitStack() as stack:
                stack.callback(handles.close)
                _skip(stream, (start - row) * stride)
                block = read_bytes(stream, self.header, self.member, start * stride, stop * stride)
                if stop < self.shape[0]:
                    stack.pop_all()
                    held.give(self.path, self.member, held.Held((stream, stop, handles), 0, handles.close))
        return block.view(self.dtype).reshape(-1, self.shape[1])

    def _opened(self) -> tuple[IO[bytes], int, ExitStack]:
        with ExitStack() as stack:
            archive = stack.enter_context(zipfile.ZipFile(self.path))
            stream = stack.enter_context(archive.open(self.member))
            member_header(stream, archive.getinfo(self.member))
            return stream, 0, stack.pop_all()


def _skip(stream: IO[bytes], n_bytes: int) -> None:
    while n_bytes > 0 and (got := len(stream.read(min(n_bytes, SKIPPED)))):
        n_bytes -= got


def flat_npy(path: Path) -> FlatRows:
    """Look at the header of an npy file."""
    with path.open("rb") as stream:
        header = file_header(stream, path)
        return FlatRows(path, stream.tell(), header, path.name)


def stored_npy(path: Path, request: Request) -> StoredFile:
    """Look at the header of a file of logits, and at what lies beside it."""
    rows = flat_npy(path)
    names, labels, groups = siblings(path)[1], label_sibling(path, request), group_sibling(path, request)
    classes = texts(read_npy_array(names, request.max_bytes)) if names.exists() else None
    return StoredFile(
        rows,
        classes,
        None if labels is None else partial(read_npy_array, labels, request.max_bytes),
        groups=None if groups is None else partial(read_npy_values, groups, request.max_bytes),
    )


def read_npy_values(path: Path, max_bytes: int) -> NDArray[Any] | None:
    """Read one value for each row from an npy file."""
    return decoded(read_npy_array(path, max_bytes))


def open_npy(path: Path, request: Request, _: ExitStack) -> RowSource:
    """Look at the header of a file of logits, and read the class names beside it if they exist."""
    return as_source(stored_npy(path, request))


def stored_npz(path: Path, request: Request) -> StoredFile:
    """Find the array of logits in an archive; it is read in place unless it is compressed."""
    with archive_errors(), zipfile.ZipFile(path) as archive:
        members = members_of(archive)
        name = scores_name(members, request.probabilities)
        scores, names, labels = members[name], first_of(NAMES, members), label_name(members, request)
        groups = group_name(members, request)
        check_member(scores)
        with archive.open(scores) as stream:
            header = member_header(stream, scores)
            begin = stream.tell()
        packed = scores.compress_type != zipfile.ZIP_STORED
        if packed and header.fortran:  # its rows are strewn over what can only be unpacked in order
            check_size(header.n_bytes, request.max_bytes, f"{scores.filename}, which is in Fortran order,")
        classes = None
        if names is not None:
            check_member(members[names])
            check_size(members[names].file_size, request.max_bytes, members[names].filename)
            classes = texts(read_member(archive, members[names]))
        if not packed:
            place = _data_start(path, scores) + begin
            rows: Any = FlatRows(path, place, header, scores.filename)
        elif header.fortran:
            rows = WholeRows(path, header.shape, header.dtype, partial(read_npz_array, path, name, request))
        else:
            rows = PackedRows(path, scores.filename, header)
    found = labels if request.find_labels else None
    return StoredFile(
        rows,
        classes,
        None if found is None else partial(read_npz_array, path, found, request),
        name,
        groups=None if groups is None else partial(read_npz_values, path, groups, request),
    )


def open_npz(path: Path, request: Request, _: ExitStack) -> RowSource:
    """Find the array of logits in an archive, to be read in blocks, and the ids."""
    stored = stored_npz(path, request)
    if isinstance(stored.rows, FlatRows) and not stored.rows.header.fortran:
        # Read in order, through zipfile, which then compares checksums.
        stored = stored._replace(rows=PackedRows(path, stored.rows.what, stored.rows.header))
    source = as_source(stored)
    if request.id_column is None:
        return source
    with archive_errors(), zipfile.ZipFile(path) as archive:
        return source._replace(ids=npz_ids(archive, members_of(archive), request, stored.rows.shape))


def read_npz_array(path: Path, name: str, request: Request) -> NDArray[Any]:
    """Read one array of an archive, within the limit."""
    with archive_errors(), zipfile.ZipFile(path) as archive:
        members = members_of(archive)
        if name not in members:
            raise no_column(name, members)
        check_member(members[name])
        check_size(members[name].file_size, request.max_bytes, members[name].filename)
        return read_member(archive, members[name])


def read_npz_values(path: Path, name: str, request: Request) -> NDArray[Any] | None:
    """Read an array of an archive that has one value for each row."""
    return decoded(read_npz_array(path, name, request))


def _data_start(path: Path, info: zipfile.ZipInfo) -> int:
    """Where a member's bytes begin: after a header of its own, which may be longer than the directory says."""
    with path.open("rb") as stream:
        stream.seek(info.header_offset)
        head = stream.read(LOCAL_HEADER.size)
    if len(head) < LOCAL_HEADER.size or not head.startswith(b"PK\x03\x04"):
        raise FileFormatError(f"{info.filename} is not where the archive says: damaged. Save it again.")
    _, name, extra = LOCAL_HEADER.unpack(head)
    return info.header_offset + LOCAL_HEADER.size + int(name) + int(extra)
