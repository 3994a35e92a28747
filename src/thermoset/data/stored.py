"""Logits that stay where they are stored: read in blocks, pass after pass, and never all at once."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from thermoset.arrays import Block, Ints, read_only
from thermoset.data.groups import Groups
from thermoset.data.logits import Logits
from thermoset.errors import InputError
from thermoset.rows import budget_share, physical_memory

if TYPE_CHECKING:
    from thermoset.rows import Engine

PIECE_BYTES = 2**23
"""Read at once: a file is read in steps that are large enough for the disk, and small compared with any budget."""

_SPARSE = 32  # rows this many times further apart than they are long are read one by one


@dataclass(frozen=True, eq=False)
class Shard(ABC):
    """Rows of logits in one file: picklable (paths and facts, no open handles), opened when they are read."""

    name: str  # for messages: the path, and the array in a file that holds several
    n_rows: int
    n_classes: int
    dtype: np.dtype[Any]  # of the rows that `read` gives: float16, float32 or float64
    classes: tuple[str, ...] | None
    input_kind: str  # what the file holds, logits or probabilities; `read` gives logits either way

    @abstractmethod
    def read(self, start: int, stop: int) -> Block:
        """Rows start to stop - 1, C-contiguous and checked, the same bits that loading the file gives."""


@dataclass(frozen=True, eq=False)
class TransformedShard(Shard):
    """A shard with other rows: f takes a block and gives one of the same shape."""

    shard: Shard
    f: Callable[[Block], Block]

    def read(self, start: int, stop: int) -> Block:
        """Some rows."""
        return self.f(self.shard.read(start, stop))


def _columns_of(block: Block, order: Ints) -> Block:
    return np.ascontiguousarray(block[:, order])


class Segment(NamedTuple):
    """A shard, and those of its rows that are meant, ascending; None for all."""

    shard: Shard
    rows: Ints | None

    @property
    def n_rows(self) -> int:
        """How many rows are meant."""
        return self.shard.n_rows if self.rows is None else len(self.rows)


class Piece(NamedTuple):
    """Rows of one shard that are read at once, and their place among all rows."""

    shard: Shard
    rows: slice | Ints
    place: slice

    def read(self) -> Block:
        """The rows."""
        if isinstance(self.rows, slice):
            return self.shard.read(self.rows.start, self.rows.stop)
        first, last = int(self.rows[0]), int(self.rows[-1])
        if last - first > _SPARSE * len(self.rows):
            return np.concatenate([self.shard.read(row, row + 1) for row in self.rows.tolist()])
        return np.ascontiguousarray(self.shard.read(first, last + 1)[self.rows - first])


class StoredRows(NamedTuple):
    """What `StoredLogits` have in place of an array: segments, and who works on their blocks."""

    segments: tuple[Segment, ...]
    engine: "Engine | None" = None

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and classes."""
        return sum(segment.n_rows for segment in self.segments), self.segments[0].shard.n_classes

    @property
    def dtype(self) -> np.dtype[Any]:
        """The type of the numbers."""
        return self.segments[0].shard.dtype


class StoredLogits(Logits):
    """Logits in shards, larger than memory: taken wherever `Logits` are, and read in blocks of rows.

    `thermoset.open` makes them. Labels and class names are held in memory, the numbers are not; `logits` and `loaded`
    read them all, if there is budget_share. Splits depend on the numbers of rows alone, not on how rows are sharded.

    Attributes
    ----------
    labels : int64 array (n,), read-only, or None
    classes : tuple of str, or None
    groups : Groups, or None
    input_kind : "logits" or "probabilities"
    """

    __slots__ = ()

    _rows: StoredRows

    def __init__(self) -> None:
        raise TypeError("StoredLogits are made by thermoset.open.")

    @classmethod
    def of(cls, shards: Sequence[Shard], labels: Ints | None = None, groups: Groups | None = None) -> "StoredLogits":
        """The rows of shards that fit together, one shard after the other."""
        rows = StoredRows(tuple(Segment(shard, None) for shard in shards))
        return cls.from_checked(rows, labels, shards[0].classes, groups, shards[0].input_kind)

    @property
    def logits(self) -> Block:
        """All numbers, (n, C), read into memory; an error where they would take more than half of it."""
        needed = self.n_rows * self.n_classes * self.dtype.itemsize
        if needed > physical_memory() // 2:
            raise InputError(
                f"this needs all {self.n_rows:,} x {self.n_classes:,} logits in memory, {needed / 2**30:,.1f} GiB, and "
                f"half of the memory is {physical_memory() / 2**31:,.1f}. Take fewer rows: .take(...)."
            )
        out = np.empty((self.n_rows, self.n_classes), self.dtype)
        for piece in self.pieces():
            out[piece.place] = piece.read()
        return read_only(out)

    def load(self) -> Logits:
        """The same rows in memory."""
        return Logits.from_checked(self.logits, self.labels, self.classes, self.groups, self.input_kind)

    def within_budget(self) -> Logits:
        """The same rows, read into memory where they take a quarter of the memory budget at most.

        What goes over rows many times, as fitting does, is then as fast as for rows that were loaded.
        """
        small = self.n_rows * self.n_classes * self.dtype.itemsize <= budget_share(4)
        return self.load() if small and self.engine is None else self

    def head(self, n_rows: int) -> Block:
        """The first rows, at most so many, (n, C)."""
        return next(self.pieces(n_rows * self.n_classes * self.dtype.itemsize)).read()[:n_rows]

    @property
    def shards(self) -> tuple[Shard, ...]:
        """Where the rows are."""
        return tuple(segment.shard for segment in self._rows.segments)

    @property
    def engine(self) -> "Engine | None":
        """Who works on blocks of these rows: None for threads of this process."""
        return self._rows.engine

    def on(self, engine: "Engine | None") -> "StoredLogits":
        """The same rows, worked on by another engine."""
        return self._with(rows=self._rows._replace(engine=engine))

    def pieces(self, n_bytes: int = PIECE_BYTES) -> Iterator[Piece]:
        """The rows in the order of their places, in pieces of one shard that take about so many bytes."""
        start = 0
        for segment in self._rows.segments:
            (shard, rows), n_rows = segment, segment.n_rows
            step, first = max(1, n_bytes // (shard.n_classes * shard.dtype.itemsize)), 0
            while first < n_rows:
                stop = min(first + step, n_rows)
                if rows is not None:  # a piece ends where its rows, with those in between, would be too many
                    reach = int(np.searchsorted(rows, rows[first] + step))
                    stop = min(max(reach, first + max(1, step // _SPARSE)), stop)
                some = slice(first, stop) if rows is None else rows[first:stop]
                yield Piece(shard, some, slice(start + first, start + stop))
                first = stop
            start += n_rows

    def blocks(self, step: int) -> Iterator[tuple[slice, Block]]:
        """Consecutive rows, at most `step` at a time, each with its place."""
        for piece in self.pieces():
            rows, start = piece.read(), piece.place.start
            for first in range(0, len(rows), step):
                some = rows[first : first + step]
                yield slice(start + first, start + first + len(some)), some

    def _select(self, index: Any) -> Logits:
        """Rows in ascending order stay where they are stored; in another order they are read into memory."""
        numbers: Ints = np.arange(self.n_rows)[index]
        if len(numbers) > 1 and not np.all(numbers[1:] > numbers[:-1]):
            unique, place = np.unique(numbers, return_inverse=True)
            stored = super()._select(unique)
            return stored.load().take(place) if isinstance(stored, StoredLogits) else stored
        return super()._select(numbers)

    def _reordered_rows(self, order: Ints) -> StoredRows:
        names = None if self.classes is None else tuple(self.classes[column] for column in order)
        return self._transformed(partial(_columns_of, order=order), self.dtype, names)

    def _transformed(
        self, f: Callable[[Block], Block], dtype: np.dtype[Any], classes: tuple[str, ...] | None
    ) -> StoredRows:
        segments = tuple(
            Segment(TransformedShard(one.name, one.n_rows, one.n_classes, dtype, classes, one.input_kind, one, f), rows)
            for one, rows in self._rows.segments
        )
        return self._rows._replace(segments=segments)

    def _take_rows(self, index: Ints) -> StoredRows:
        segments, start = [], 0
        for segment in self._rows.segments:
            first, stop = np.searchsorted(index, (start, start + segment.n_rows))
            if first < stop:
                wanted = index[first:stop] - start
                segments.append(segment._replace(rows=wanted if segment.rows is None else segment.rows[wanted]))
            start += segment.n_rows
        return self._rows._replace(segments=tuple(segments))

    def _joined_rows(self, other: Logits, labels: Ints, groups: Groups | None) -> Logits:
        if not isinstance(other, StoredLogits):
            return super()._joined_rows(other, labels, groups)
        rows = self._rows._replace(segments=self._rows.segments + other._rows.segments)
        return self._with(rows=rows, labels=labels, groups=groups)

    def apply(self, f: Callable[[Block], Block]) -> Logits:
        """The same rows with other numbers, computed when they are read; f must be picklable for a cluster."""
        return self._with(rows=self._transformed(f, np.dtype(np.float64), self.classes))

    def __reduce__(self) -> tuple[Any, ...]:
        return Logits.__reduce__(self.on(None))
