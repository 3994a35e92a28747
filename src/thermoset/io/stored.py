"""Rows of a file that can be read from any row on: what formats offer, and what `load` and `open_blocks` make of it."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from thermoset.data import Logits
from thermoset.data.groups import read_groups
from thermoset.errors import FileFormatError
from thermoset.io import held
from thermoset.io.checked import checked_shape
from thermoset.io.files import Request, RowSource, build, check_size
from thermoset.io.names import check_columns

__all__ = ["BandedRows", "Rows", "StoredFile", "WholeRows", "as_source", "as_whole", "row_bytes"]


class Rows(Protocol):
    """The scores of a file as they are stored: picklable, and opened for each read."""

    @property
    def shape(self) -> tuple[int, ...]:
        """What the file declares."""

    @property
    def dtype(self) -> np.dtype[Any]:
        """Type of the numbers that `read` gives."""

    def read(self, start: int, stop: int) -> NDArray[Any]:
        """Rows start to stop - 1."""


class StoredFile(NamedTuple):
    """What a file says of itself before its rows are read."""

    rows: Rows
    classes: object  # names as the file gives them, or None
    labels: Callable[[], object] | None  # reads them; picklable
    array: str = ""  # which array of the file holds the scores, where it has several
    final: bool = False  # whether rows come as logits also where the file holds probabilities
    groups: Callable[[], object] | None = None  # reads them, one value for each row; picklable
    columns: tuple[str, ...] = ()  # of the classes, where each has a column


def as_whole(stored: StoredFile, request: Request) -> Logits:
    """Read everything at once, within the limit."""
    rows = stored.rows
    checked_shape(rows.shape, request)
    check_size(row_bytes(rows) * rows.shape[0], request.max_bytes, "the data")
    labels = None if stored.labels is None else stored.labels()
    groups = None if stored.groups is None else stored.groups()
    scores = rows.read(0, rows.shape[0])
    check_columns(stored.columns, scores, request)
    return build(request, scores, labels, stored.classes, groups)


def as_source(stored: StoredFile) -> RowSource:
    """Read blocks of rows."""
    rows = stored.rows

    def blocks(step: int) -> Iterator[NDArray[Any]]:
        for start in range(0, rows.shape[0], step):
            yield rows.read(start, min(start + step, rows.shape[0]))

    def groups() -> Iterator[object]:
        return iter(read_groups(stored.groups() if stored.groups is not None else (), rows.shape[0]))

    known = None if stored.groups is None else groups
    return RowSource(rows.shape, stored.classes, blocks, groups=known, columns=stored.columns)


def row_bytes(rows: Rows) -> int:
    """How many bytes a row takes as it is stored."""
    return rows.dtype.itemsize * int(np.prod(rows.shape[1:], dtype=object))


@dataclass(frozen=True)
class WholeRows:
    """Rows of a file that is read whole: text, or numbers that do not stand row by row."""

    path: Path
    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    load: Callable[[], NDArray[Any]]  # picklable

    def read(self, start: int, stop: int) -> NDArray[Any]:
        """Load the file, unless it was the one that was read last."""
        what = ("whole", repr(self.load))
        found = held.take(self.path, what)
        array = self.load() if found is None else found
        if array.shape != self.shape:
            raise FileFormatError(f"holds an array of shape {array.shape} and declares {self.shape}: damaged.")
        held.give(self.path, what, held.Held(array, array.nbytes))
        return np.array(array[start:stop], order="C")


class Bands(Protocol):
    """Rows that are stored in bands of equal height, of which a part cannot be had without the whole."""

    @property
    def path(self) -> Path:
        """The file."""

    @property
    def shape(self) -> tuple[int, ...]:
        """What the file declares."""

    @property
    def dtype(self) -> np.dtype[Any]:
        """Type of the numbers."""

    @property
    def ends(self) -> tuple[int, ...] | int:
        """Where bands end, or the height of each."""

    def read_rows(self, start: int, stop: int) -> NDArray[Any]:
        """Rows of bands that are whole."""


@dataclass(frozen=True)
class BandedRows:
    """Rows in bands: whole ones are read as they are, and the last one that was cut is kept for the next read."""

    bands: Bands

    @property
    def shape(self) -> tuple[int, ...]:
        """What the file declares."""
        return self.bands.shape

    @property
    def dtype(self) -> np.dtype[Any]:
        """Type of the numbers."""
        return self.bands.dtype

    def read(self, start: int, stop: int) -> NDArray[Any]:
        """Rows start to stop - 1."""
        first, end = self._band(start)
        last_first, last_end = self._band(stop - 1)
        low = start if first == start else end  # where whole bands begin, and where they end
        high = stop if last_end == stop else last_first
        if (low, high) == (start, stop):
            return self.bands.read_rows(start, stop)
        block = np.empty((stop - start, *self.shape[1:]), dtype=self.dtype)
        if low > high:
            block[:] = self._cut(first, end)[start - first : stop - first]
            return block
        if start < low:
            block[: low - start] = self._cut(first, end)[start - first :]
        if low < high:
            block[low - start : high - start] = self.bands.read_rows(low, high)
        if high < stop:
            block[high - start :] = self._cut(last_first, last_end)[: stop - high]
        return block

    def _band(self, row: int) -> tuple[int, int]:
        ends, n_rows = self.bands.ends, self.shape[0]
        if isinstance(ends, int):
            first = row // ends * ends
            return first, min(first + ends, n_rows)
        place = int(np.searchsorted(ends, row, side="right"))
        return (ends[place - 1] if place else 0), ends[place]

    def _cut(self, first: int, last: int) -> NDArray[Any]:
        found = held.take(self.bands.path, "band")
        if found is None or found[0] != (first, last, self.bands):
            found = (first, last, self.bands), self.bands.read_rows(first, last)
        held.give(self.bands.path, "band", held.Held(found, found[1].nbytes))
        band: NDArray[Any] = found[1]
        return band
