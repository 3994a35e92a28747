"""What a parquet file says of its columns, read before pyarrow allocates what it says.

The footer and the headers of pages are structures of Thrift's compact protocol. A few of their numbers are wanted; the
rest is stepped over. As in Thrift's own readers the last of two fields wins and a field of another type is none.
"""

from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

from thermoset.errors import FileFormatError
from thermoset.io.files import check_size
from thermoset.quoting import quoted

__all__ = ["Group", "Leaf", "check_pages", "read_footer"]

TRUE, FALSE, BYTE, I16, I32, I64, DOUBLE, BINARY, LIST, SET, MAP, STRUCT = range(1, 13)
Wanted = Mapping[tuple[int, int], Any]  # (number, type) of a field: what is wanted of it, None for all
CHUNK: Wanted = {
    (1, BINARY): None,  # the path of another file
    (3, STRUCT): {
        (4, I32): None,  # codec
        (5, I64): None,  # values
        (7, I64): None,  # bytes in the file
        (9, I64): None,  # where data pages begin
        (11, I64): None,  # where the page of the dictionary begins
    },
}
FOOTER: Wanted = {
    (2, LIST): {(4, BINARY): None},  # the schema: names
    (3, I64): None,  # rows
    (4, LIST): {(1, LIST): CHUNK, (3, I64): None},  # row groups: columns and rows
}
FOOTER_BYTES = 16  # of memory for each byte of the footer
PAGE: Wanted = {
    (1, I32): None,  # kind
    (2, I32): None,  # bytes of content
    (3, I32): None,  # bytes in the file
    (5, STRUCT): {(1, I32): None},  # values of a page of data,
    (7, STRUCT): {(1, I32): None},  # of a dictionary,
    (8, STRUCT): {(1, I32): None},  # of a page of data, version 2
}
MOST_NESTED = 32
HEADER_BYTES = (1 << 12, 1 << 24)  # of a page's header: read at first, and at most
NUMBERS = {"INT32", "INT64", "FLOAT", "DOUBLE", "FIXED_LEN_BYTE_ARRAY"}  # the last for float16, all else is refused
UNCOMPRESSED, SNAPPY, GZIP, LZ4 = 0, 1, 2, 7
EXPANSION = {UNCOMPRESSED: 1, SNAPPY: 64, GZIP: 1032, LZ4: 256}
"""No stream of these codecs expands more than so many times; of others there is no telling."""


class Chunk(NamedTuple):
    """A column in a row group."""

    codec: int
    values: int
    start: int
    end: int


class Group(NamedTuple):
    """A row group."""

    rows: int
    chunks: list[Chunk]


class Leaf(NamedTuple):
    """A column that holds values: its place among them, its name, and its physical type."""

    place: int
    path: str
    kind: str


def read_footer(path: Path, max_bytes: int) -> list[Group]:
    """Read the row groups that the end of a file declares."""
    size = path.stat().st_size
    with path.open("rb") as stream:
        stream.seek(max(0, size - 8))
        length, mark = int.from_bytes(stream.read(4), "little"), stream.read(4)
        if mark != b"PAR1" or length > size - 12:
            raise FileFormatError("not a readable parquet file, or a truncated one (its end is missing).")
        check_size(length * FOOTER_BYTES, max_bytes, "the footer, once read,")
        stream.seek(size - 8 - length)
        footer = stream.read(length)
    try:
        read = _Compact(footer).struct(FOOTER)
        if not all(4 in element for element in read[2]):
            raise KeyError(4)
        groups = [Group(group[3], [_chunk(column, size) for column in group[1]]) for group in read[4]]
        _check_rows(read[3], groups)
    except (IndexError, KeyError):
        raise FileFormatError("not a readable parquet file, or a truncated one (its footer is damaged).") from None
    return groups


def check_pages(path: Path, groups: Collection[Group], leaves: Collection[Leaf], max_bytes: int) -> int:
    """Walk over pages: none may declare more than its bytes, its values or the limit allow. Give the sum of all."""
    with path.open("rb") as stream:
        return sum(
            _check_chunk(stream, group.chunks[leaf.place], leaf, max_bytes) for group in groups for leaf in leaves
        )


def _chunk(read: dict[int, Any], size: int) -> Chunk:
    column = read[3]
    if 1 in read:
        raise FileFormatError("its columns are stored in other files. Write it as one file.")
    start = min(column[9], column[11]) if column.get(11, 0) > 0 else column[9]
    if column[5] < 0 or (column[5] > 0 and not 4 <= start <= start + column[7] <= size):
        raise FileFormatError("not a readable parquet file (a column lies outside of it): truncated or hostile.")
    return Chunk(column[4], column[5], start, start + column[7])


def _check_rows(n_rows: int, groups: list[Group]) -> None:
    in_groups = [group.rows for group in groups]
    if sum(in_groups) != n_rows or min(in_groups, default=0) < 0:
        raise FileFormatError(f"declares {n_rows:,} rows in row groups of {in_groups[:5]}: damaged.")


def _check_chunk(stream: BinaryIO, chunk: Chunk, leaf: Leaf, max_bytes: int) -> int:
    seen, total, place = 0, 0, chunk.start
    name = f"column {quoted(leaf.path)}"
    while seen < chunk.values and place < chunk.end:
        page, length = _page(stream, place)
        content, stored = page[2], page[3]
        values = next((page[part][1] for part in (5, 8, 7) if part in page), 0)
        place += length + stored
        if min(content, stored, values) < 0 or place > chunk.end:
            raise FileFormatError(f"a page of {name} is damaged: truncated or hostile.")
        # A number takes at most eight bytes, and four to say where lists begin and what is missing.
        room = 16 * values + 1024 if leaf.kind in NUMBERS else content
        if content > min(room, stored * EXPANSION.get(chunk.codec, content)):
            raise FileFormatError(
                f"a page of {name} declares {content:,} bytes for {values:,} values in {stored:,} bytes: hostile."
            )
        check_size(content, max_bytes, f"a page of {name}")
        seen, total = seen + (0 if 7 in page else values), total + content
    if seen != chunk.values:
        raise FileFormatError(f"{name} declares {chunk.values:,} values and its pages {seen:,}: damaged or hostile.")
    return total


def _page(stream: BinaryIO, place: int) -> tuple[dict[int, Any], int]:
    """Read the header of a page, and how long it is."""
    for most in HEADER_BYTES:
        stream.seek(place)
        reader = _Compact(stream.read(most))
        try:
            page = reader.struct(PAGE)
            if all(field in page for field in (1, 2, 3)):
                return page, reader.place
        except (IndexError, KeyError):
            continue  # perhaps it is longer
    raise FileFormatError("the header of a page is damaged: truncated or hostile.")


class _Compact:
    """Reads Thrift's compact protocol; whatever goes beyond the end is an IndexError."""

    def __init__(self, data: bytes) -> None:
        self.data, self.place, self.depth = data, 0, 0

    def struct(self, wanted: Wanted) -> dict[int, Any]:
        """Read the wanted fields of a structure, by their numbers."""
        self.depth += 1
        if self.depth > MOST_NESTED:
            raise FileFormatError("not a readable parquet file (its footer is nested too deep).")
        found: dict[int, Any] = {}
        number = 0
        while head := self._byte():
            kind, step = head & 15, head >> 4
            number = number + step if step else self._integer()
            if (number, kind) in wanted:
                found[number] = self._value(kind, wanted[number, kind])
            else:
                self._skip(kind)
        self.depth -= 1
        return found

    def _value(self, kind: int, wanted: Any) -> Any:
        if kind == STRUCT:
            return self.struct(wanted)
        if kind == LIST:
            size, inner = self._list_head()
            if inner != (BINARY if wanted is None else STRUCT):
                raise KeyError(inner)
            return [self._value(inner, wanted) for _ in range(size)]
        return self._binary() if kind == BINARY else self._integer(32 if kind == I32 else 64)

    def _skip(self, kind: int, in_list: bool = False) -> None:
        if kind in {TRUE, FALSE}:
            self.place += in_list
        elif kind in {BYTE, DOUBLE}:
            self.place += 1 if kind == BYTE else 8
        elif kind in {I16, I32, I64}:
            self._varint()
        elif kind == BINARY:
            self._binary()
        elif kind in {LIST, SET}:
            size, inner = self._list_head()
            for _ in range(size):
                self._skip(inner, in_list=True)
        elif kind == MAP:
            self._skip_map()
        elif kind == STRUCT:
            self.struct({})
        else:
            raise KeyError(kind)

    def _skip_map(self) -> None:
        size = self._varint()
        kinds = self._byte() if size else 0
        for _ in range(self._sized(size)):
            self._skip(kinds >> 4, in_list=True)
            self._skip(kinds & 15, in_list=True)

    def _list_head(self) -> tuple[int, int]:
        head = self._byte()
        size = head >> 4
        return self._sized(self._varint() if size == 15 else size), head & 15

    def _sized(self, size: int) -> int:
        """Every member takes a byte at least: a list that declares more than there are bytes is none."""
        if size > len(self.data) - self.place:
            raise IndexError(size)
        return size

    def _binary(self) -> bytes:
        size = self._sized(self._varint())
        self.place += size
        return self.data[self.place - size : self.place]

    def _integer(self, bits: int = 64) -> int:
        """A zigzag number, cut to so many bits as C++ does."""
        raw = self._varint()
        value = ((raw >> 1) ^ -(raw & 1)) & ((1 << bits) - 1)
        return value - (1 << bits) if value >> (bits - 1) else value

    def _varint(self) -> int:
        value = shift = 0
        while True:
            byte = self._byte()
            value |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return value & ((1 << 64) - 1)
            if shift > 63:
                raise IndexError(shift)

    def _byte(self) -> int:
        byte = self.data[self.place]
        self.place += 1
        return byte
