"""What an Arrow file says of its record batches, read before pyarrow allocates what it says.

Metadata of Arrow's messages are FlatBuffers: tables whose fields are found through a list of offsets. A few of them are
wanted here: how many rows a batch has, where its buffers lie in the file, and whether they are compressed.
"""

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, NamedTuple

from thermoset.errors import FileFormatError
from thermoset.io.files import check_size

__all__ = ["Batch", "Buffer", "IpcFile", "read_ipc"]

MAGIC = b"ARROW1"
CONTINUES = 0xFFFFFFFF
SCHEMA, DICTIONARY, BATCH = 1, 2, 3
METADATA_BYTES = 16  # of memory for each byte of metadata
DAMAGED = "not a readable Arrow file, or a truncated one"


class Buffer(NamedTuple):
    """Bytes of the file."""

    start: int
    n_bytes: int


class Batch(NamedTuple):
    """A record batch: its rows, the lengths and missing values of its arrays, and where its bytes lie."""

    n_rows: int
    nodes: tuple[tuple[int, int], ...]
    buffers: tuple[Buffer, ...]
    compressed: bool


@dataclass(frozen=True)
class IpcFile:
    """The batches of an Arrow file, or of an Arrow stream in a file."""

    stream: bool
    batches: tuple[Batch, ...]
    dictionaries: tuple[Batch, ...]


class _Block(NamedTuple):
    start: int
    metadata: int  # bytes, with what comes before them
    body: int


def read_ipc(path: Path, max_bytes: int) -> IpcFile:
    """Read the metadata of all batches; all that they declare lies within the file."""
    size = path.stat().st_size
    with path.open("rb") as file:
        is_stream = file.read(len(MAGIC)) != MAGIC
        try:
            blocks = list(_stream_blocks(file, size) if is_stream else _file_blocks(file, size, max_bytes))
            found = [_batch(file, block, size, max_bytes) for block in blocks]
        except (IndexError, struct.error, OverflowError):
            raise FileFormatError(f"{DAMAGED} (its metadata are damaged).") from None
    batches = tuple(batch for kind, batch in found if kind == BATCH)
    return IpcFile(is_stream, batches, tuple(batch for kind, batch in found if kind == DICTIONARY))


def _file_blocks(file: BinaryIO, size: int, max_bytes: int) -> Iterator[_Block]:
    """The messages that the footer lists."""
    tail = len(MAGIC) + 4
    if size < 2 * (len(MAGIC) + 2) + 4:
        raise FileFormatError(f"{DAMAGED} (its end is missing).")
    file.seek(size - tail)
    length, mark = struct.unpack("<i6s", file.read(tail))
    if mark != MAGIC or not 0 < length <= size - tail - len(MAGIC):
        raise FileFormatError(f"{DAMAGED} (its end is missing).")
    check_size(length * METADATA_BYTES, max_bytes, "the footer, once read,")
    file.seek(size - tail - length)
    footer = _Table.root(file.read(length))
    _check_order(footer.table(1))
    for place in (2, 3):  # dictionaries and batches
        for at in footer.structs(place, 24):
            yield _Block(*struct.unpack_from("<qi4xq", footer.data, at))


def _stream_blocks(file: BinaryIO, size: int) -> Iterator[_Block]:
    """The messages one after the other."""
    place = 0
    while place < size:
        file.seek(place)
        mark, length = struct.unpack("<Ii", file.read(8).ljust(8, b"\0"))
        before = 8
        if mark != CONTINUES:  # before Arrow 0.15
            before, length = 4, mark
        if length == 0:
            return
        if length < 0 or place + before + length > size:
            raise FileFormatError(f"{DAMAGED} (a message ends after the file).")
        message = _Table.root(file.read(length) if before == 8 else _at(file, place + 4, length))
        block = _Block(place, before + length, message.integer(3, "<q"))
        if message.integer(1, "<B") == SCHEMA:
            _check_order(message.table(2))
        elif place == 0:
            raise FileFormatError(f"{DAMAGED} (it does not begin with a schema).")
        else:
            yield block
        if block.body < 0:
            raise IndexError(block.body)
        place += block.metadata + block.body


def _at(file: BinaryIO, place: int, length: int) -> bytes:
    file.seek(place)
    return file.read(length)


def _batch(file: BinaryIO, block: _Block, size: int, max_bytes: int) -> tuple[int, Batch]:
    body = block.start + block.metadata
    if min(block) < 0 or body + block.body > size:
        raise FileFormatError(f"{DAMAGED} (a record batch lies outside of it).")
    check_size(block.metadata * METADATA_BYTES, max_bytes, "the metadata of a record batch, once read,")
    metadata = _at(file, block.start, block.metadata)
    before = 8 if metadata.startswith(b"\xff\xff\xff\xff") else 4
    message = _Table.root(metadata[before:])
    kind, header = message.integer(1, "<B"), message.table(2)
    if kind == DICTIONARY:
        header = header.table(1)
    elif kind != BATCH:
        raise IndexError(kind)
    nodes = tuple(struct.unpack_from("<qq", header.data, at) for at in header.structs(1, 16))
    n_rows = header.integer(0, "<q")
    buffers = []
    for at in header.structs(2, 16):
        start, length = struct.unpack_from("<qq", header.data, at)
        if min(start, length) < 0 or start + length > block.body:
            raise FileFormatError(f"{DAMAGED} (a buffer lies outside of its record batch).")
        buffers.append(Buffer(body + start, length))
    if n_rows < 0 or min((min(node) for node in nodes), default=0) < 0:
        raise IndexError(n_rows)
    return kind, Batch(n_rows, nodes, tuple(buffers), header.has(3))


def _check_order(schema: "_Table") -> None:
    if schema.integer(0, "<h") != 0:
        raise FileFormatError("an Arrow file of a big-endian machine. Write it again on another one.")


@dataclass(frozen=True)
class _Table:
    """A table of a FlatBuffer; whatever points outside of the data is an error."""

    data: bytes
    place: int

    @classmethod
    def root(cls, data: bytes) -> "_Table":
        return cls(data, _inside(struct.unpack_from("<I", data, 0)[0], data))

    def has(self, field: int) -> bool:
        return self._offset(field) != 0

    def integer(self, field: int, kind: str) -> int:
        """A number; those that are zero are left out."""
        offset = self._offset(field)
        return int(struct.unpack_from(kind, self.data, self.place + offset)[0]) if offset else 0

    def table(self, field: int) -> "_Table":
        if not self.has(field):
            raise IndexError(field)
        return _Table(self.data, self._target(field))

    def structs(self, field: int, size: int) -> range:
        """Where the members of a list of structures begin."""
        if not self.has(field):
            return range(0)
        place = self._target(field)
        first = place + 4
        end = first + size * int(struct.unpack_from("<I", self.data, place)[0])
        if end > len(self.data):
            raise IndexError(end)
        return range(first, end, size)

    def _target(self, field: int) -> int:
        at = self.place + self._offset(field)
        return _inside(at + int(struct.unpack_from("<I", self.data, at)[0]), self.data)

    def _offset(self, field: int) -> int:
        offsets = _inside(self.place - int(struct.unpack_from("<i", self.data, self.place)[0]), self.data)
        length = int(struct.unpack_from("<H", self.data, offsets)[0])
        at = 4 + 2 * field
        return int(struct.unpack_from("<H", self.data, offsets + at)[0]) if at + 2 <= length else 0


def _inside(place: int, data: bytes) -> int:
    if not 0 <= place < len(data):
        raise IndexError(place)
    return place
