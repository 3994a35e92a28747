"""A file is a table: named columns, each (n,) or (n, C), read by rows. A format is a function from a path to a `Table`.

A column holds a path and facts, no open handle, so that it can be pickled and read in any process. Formats that can
only be read forwards go on where the last read ended: what they have open is kept between two reads, within bounds.
"""

import atexit
import math
import os
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from thermoset.errors import FileFormatError

PIECE_BYTES = 1 << 22
"""Decoded at a time."""

BATCH_BYTES = 1 << 24
"""Of the rows that are written in one row group, record batch or chunk: that is where reading can begin."""

TEXT = np.dtype(object)
"""The type of columns of text: objects, of which a missing one is None."""


class Column(Protocol):
    """Rows of numbers or text in a file; picklable."""

    @property
    def shape(self) -> tuple[int, ...]:
        """What the file declares."""

    @property
    def dtype(self) -> np.dtype[Any]:
        """Type of what `read` gives."""

    def read(self, start: int, stop: int) -> NDArray[Any]:
        """Rows start to stop - 1."""


class Table(NamedTuple):
    """The columns of a file by name, and what it says besides: class names, how many classes there are."""

    columns: Mapping[str, Column]
    metadata: Mapping[str, Any] = {}
    cells: bool = False  # whether rows have cells, of which one may hold a list: csv, parquet, Arrow, json
    stack: Callable[[Sequence[str]], Column] | None = None  # columns of numbers side by side, where each may be a class
    line: Callable[[int], int] | None = None  # the line of a row, in files of text

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Everything, in memory."""
        return {name: read_all(column) for name, column in self.columns.items()}


class Columns(Mapping[str, Column]):
    """Columns by name, of which each is opened when it is wanted: the others may be anything."""

    def __init__(self, names: Iterable[str], open_column: Callable[[str], Column]) -> None:
        self._names, self._open_column = dict.fromkeys(names), open_column
        self._columns: dict[str, Column] = {}

    def __getitem__(self, name: str) -> Column:
        if name not in self._names:
            raise KeyError(name)
        if name not in self._columns:
            self._columns[name] = self._open_column(name)
        return self._columns[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)


def read_all(column: Column) -> NDArray[Any]:
    """All rows of a column."""
    if not column.shape:
        raise FileFormatError("holds a single value where there should be one for each row. Save it again.")
    return column.read(0, column.shape[0])


def row_bytes(column: Column) -> int:
    """How many bytes a row takes in memory."""
    return column.dtype.itemsize * math.prod(column.shape[1:])


def rows_in(n_bytes: int, column: Column) -> int:
    """How many rows fit, at least one."""
    return max(1, n_bytes // max(1, row_bytes(column)))


@dataclass(frozen=True, eq=False)
class Held:
    """An array in memory."""

    array: NDArray[Any]
    shape = property(lambda self: self.array.shape)
    dtype = property(lambda self: self.array.dtype)

    def read(self, start: int, stop: int) -> NDArray[Any]:
        """Rows start to stop - 1."""
        return self.array[start:stop]


@dataclass(frozen=True)
class Flat:
    """Numbers that lie in a file as NumPy holds them: read from any place, and not mapped.

    A map would count as memory wherever it was touched, and kill the process if another program shortens the file.
    """

    path: Path
    offset: int
    shape: tuple[int, ...]
    stored: np.dtype[Any]
    fortran: bool = False
    bfloat16: bool = False  # stored as the upper halves of float32, which NumPy reads as whole numbers

    @property
    def dtype(self) -> np.dtype[Any]:
        """Type of the numbers that are read."""
        return np.dtype(np.float32) if self.bfloat16 else self.stored

    def read(self, start: int, stop: int) -> NDArray[Any]:
        """Rows start to stop - 1."""
        width = math.prod(self.shape[1:])
        with self.path.open("rb", buffering=0) as stream:
            if self.fortran and len(self.shape) == 2:
                block = np.empty((stop - start, width), self.stored)
                for column in range(width):
                    block[:, column] = self._numbers(stream, column * self.shape[0] + start, stop - start)
                return block
            block = self._numbers(stream, start * width, (stop - start) * width)
        block = block.reshape(stop - start, *self.shape[1:])
        return (block.astype(np.uint32) << 16).view(np.float32) if self.bfloat16 else block

    def _numbers(self, stream: Any, first: int, count: int) -> NDArray[Any]:
        stream.seek(self.offset + first * self.stored.itemsize)
        numbers = np.fromfile(stream, self.stored, count)
        if len(numbers) < count:
            raise FileFormatError("ends before its numbers do: truncated. Save it again.")
        return numbers


@dataclass(frozen=True)
class Forward(ABC):
    """Rows that are decoded in order, from certain places on: text, packed archives, row groups, chunks."""

    path: Path
    shape: tuple[int, ...]
    dtype: np.dtype[Any]

    @abstractmethod
    def blocks(self, first: int) -> Iterator[NDArray[Any]]:
        """Blocks of rows from `first` on, a row that `place` gave; a generator, which is closed at the end."""

    def place(self, row: int) -> int:  # noqa: ARG002  # files without places are read from their beginning
        """The last row, at or before this one, where decoding can begin."""
        return 0

    def read(self, start: int, stop: int) -> NDArray[Any]:
        """Rows start to stop - 1; going on where the last read ended costs nothing."""
        status = self.path.stat()  # a file that was replaced is another one; so is that of a parent process
        key = os.getpid(), self, status.st_ino, status.st_size, status.st_mtime_ns
        with _lock:  # taken out, so that no two threads use it
            cursor, first = _open.pop(key, None), self.place(start)
        if cursor is None or not first <= cursor.row <= start:
            cursor = _Cursor(self.blocks(first), first)
        block = cursor.fill(np.empty((stop - start, *self.shape[1:]), self.dtype), start)
        if stop < self.shape[0]:
            with _lock:
                _open[key] = cursor
                old = [_open.pop(next(iter(_open))) for _ in range(len(_open) - _MOST_OPEN)]
            del old  # which closes them, outside of the lock
        return block


class _Cursor:
    """How far a file was read: the blocks that follow, and what is left of the last one."""

    def __init__(self, blocks: Iterator[NDArray[Any]], row: int) -> None:
        self.blocks, self.row = blocks, row
        self.left: NDArray[Any] | None = None

    def fill(self, out: NDArray[Any], start: int) -> NDArray[Any]:
        """Go on to `start` and copy rows from there; objects where something is missing among numbers."""
        done = 0
        while done < len(out):
            if self.left is None or not len(self.left):
                self.left = next(self.blocks, None)
                if self.left is None:
                    raise FileFormatError(f"ends after {self.row:,} rows: damaged. Save it again.")
            passed = min(max(start - self.row, 0), len(self.left))
            some = self.left[passed : passed + len(out) - done]
            if some.shape[1:] != out.shape[1:]:
                raise FileFormatError(f"row {self.row} has shape {some.shape[1:]}; expected {out.shape[1:]}: damaged.")
            out = out.astype(TEXT) if some.dtype == TEXT != out.dtype else out
            out[done : done + len(some)] = some
            self.left = self.left[passed + len(some) :]
            self.row, done = self.row + passed + len(some), done + len(some)
        return out


_MOST_OPEN = 16
_open: dict[Hashable, _Cursor] = {}  # the oldest first
_lock = threading.Lock()
atexit.register(_open.clear)  # while what closes files is still there
