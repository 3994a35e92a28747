"""Logits that stay where they are stored: read in blocks, pass after pass, and never all at once."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from thermoset.arrays import Block, Ints
from thermoset.data import Groups, Logits, checked_rows
from thermoset.data.arrays import Floats
from thermoset.data.shards import Shard
from thermoset.data.splits import row_index
from thermoset.errors import InputError
from thermoset.rows import physical_memory, room

if TYPE_CHECKING:
    from thermoset.rows import Engine

__all__ = ["Piece", "StoredLogits"]

PIECE_BYTES = 2**24
"""Read at once: a file is read in steps that are large enough for the disk, and small beside any budget."""

_SPARSE = 32  # rows this many times further apart than they are long are read one by one


class Segment(NamedTuple):
    """A shard, and those of its rows that are meant, ascending; None for all."""

    shard: Shard
    rows: Ints | None

    @property
    def n_rows(self) -> int:
        """How many rows are meant."""
        return self.shard.n_rows if self.rows is None else len(self.rows)

    def some(self, wanted: Ints) -> "Segment":
        """Some of the rows that are meant, by their places, ascending."""
        return Segment(self.shard, wanted if self.rows is None else self.rows[wanted])


@dataclass(frozen=True, eq=False)
class TransformedShard:
    """A shard whose rows are changed as they are read: f takes a block and gives float64 of the same shape."""

    shard: Shard
    f: Callable[[Block], Floats]

    dtype: ClassVar[np.dtype[Any]] = np.dtype(np.float64)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return getattr(self.shard, name)

    def read(self, start: int, stop: int) -> Floats:
        """Some rows."""
        return self.f(self.shard.read(start, stop))


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


class StoredLogits(Logits):
    """Logits in shards, larger than memory: taken wherever `Logits` are, and read in blocks of rows.

    `thermoset.open` makes them. Labels and class names are held in memory, the numbers are not; `logits` and `loaded`
    read them all, if there is room. Splits depend on the numbers of rows alone, not on how rows are sharded.

    Attributes
    ----------
    labels : int64 array (n,), read-only, or None
    classes : tuple of str, or None
    groups : Groups, or None
    input_kind : "logits" or "probabilities"
    """

    __slots__ = ("_engine", "_segments", "_starts")

    _segments: tuple[Segment, ...]
    _starts: Ints
    _engine: "Engine | None"

    def __init__(self) -> None:
        raise TypeError("StoredLogits are made by thermoset.open.")

    @classmethod
    def of(cls, shards: Sequence[Shard], labels: Ints | None = None, groups: Groups | None = None) -> "StoredLogits":
        """The rows of shards that fit together, one shard after the other."""
        return _stored(tuple(Segment(shard, None) for shard in shards), labels, groups, None)

    @property
    def logits(self) -> Floats:
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
        out.flags.writeable = False
        return out

    def loaded(self) -> Logits:
        """The same rows in memory."""
        return checked_rows(self.logits, self.labels, self.classes, self.groups, self.input_kind)

    def within_budget(self) -> Logits:
        """The same rows, read into memory where they take a quarter of the memory budget at most.

        What goes over rows many times, as fitting does, is then as fast as for rows that were loaded.
        """
        small = self.n_rows * self.n_classes * self.dtype.itemsize <= room(4)
        return self.loaded() if small and self.engine is None else self

    def head(self, n_rows: int) -> Floats:
        """The first rows, at most so many, (n, C)."""
        first = next(self.pieces(n_rows * self.n_classes * self.dtype.itemsize))
        return first.read()[:n_rows]

    @property
    def shards(self) -> tuple[Shard, ...]:
        """Where the rows are."""
        return tuple(segment.shard for segment in self._segments)

    @property
    def dtype(self) -> np.dtype[Any]:
        """The type of the numbers."""
        return self._segments[0].shard.dtype

    @property
    def engine(self) -> "Engine | None":
        """Who works on blocks of these rows: None for threads of this process."""
        return self._engine

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return int(self._starts[-1])

    @property
    def n_classes(self) -> int:
        """Number of classes."""
        return self._segments[0].shard.n_classes

    def on(self, engine: "Engine | None") -> "StoredLogits":
        """The same rows, worked on by another engine."""
        return _stored(self._segments, self.labels, self.groups, engine)

    def pieces(self, n_bytes: int = PIECE_BYTES) -> Iterator[Piece]:
        """The rows in the order of their places, in pieces of one shard that take about so many bytes."""
        for segment, start in zip(self._segments, self._starts.tolist(), strict=False):
            step = max(1, n_bytes // (segment.shard.n_classes * segment.shard.dtype.itemsize))
            if segment.rows is None:
                for first in range(0, segment.n_rows, step):
                    stop = min(first + step, segment.n_rows)
                    yield Piece(segment.shard, slice(first, stop), slice(start + first, start + stop))
                continue
            first = 0
            while first < len(segment.rows):  # a piece ends where its rows, with those in between, would be too many
                reach = int(np.searchsorted(segment.rows, segment.rows[first] + step))
                stop = min(max(reach, first + max(1, step // _SPARSE)), len(segment.rows), first + step)
                yield Piece(segment.shard, segment.rows[first:stop], slice(start + first, start + stop))
                first = stop

    def blocks(self, step: int) -> Iterator[tuple[slice, Block]]:
        """Consecutive rows, at most `step` at a time, each with its place."""
        for piece in self.pieces():
            rows, start = piece.read(), piece.place.start
            for first in range(0, len(rows), step):
                some = rows[first : first + step]
                yield slice(start + first, start + first + len(some)), some

    def take(self, rows: object) -> Logits:
        """Select rows by number, boolean mask or slice, in the order given.

        Rows in rising order stay where they are stored; in another order they are read into memory.
        """
        index: Ints = np.arange(self.n_rows)[row_index(rows, self.n_rows)]
        if len(index) > 1 and not np.all(index[1:] > index[:-1]):
            unique, place = np.unique(index, return_inverse=True)
            return self._selected(unique).loaded().take(place)
        return self._selected(index)

    def _selected(self, index: Ints) -> "StoredLogits":
        """Rows in rising order."""
        cuts = np.searchsorted(index, self._starts)
        segments = tuple(
            segment.some(index[cuts[i] : cuts[i + 1]] - self._starts[i])
            for i, segment in enumerate(self._segments)
            if cuts[i] < cuts[i + 1]
        )
        labels = None if self.labels is None else self.labels[index]
        groups = None if self.groups is None else self.groups.take(index)
        return _stored(segments, labels, groups, self._engine)

    def joined(self, other: Logits) -> Logits:
        """These labelled rows and then the others; both must have the same classes."""
        self._check_joined(other)
        if not isinstance(other, StoredLogits) or self.labels is None or other.labels is None:
            return self.loaded().joined(other)
        labels = np.concatenate([self.labels, other.labels])
        return _stored(self._segments + other._segments, labels, self._joined_groups(other), self._engine)

    def apply(self, f: Callable[[Block], Floats]) -> Logits:
        """The same rows with other numbers, made when they are read; f must be picklable for a cluster."""
        segments = tuple(Segment(TransformedShard(one.shard, f), one.rows) for one in self._segments)
        return _stored(segments, self.labels, self.groups, self._engine)

    def labelled(self, labels: NDArray[np.int64]) -> Logits:
        """The same rows with labels, which have been checked."""
        return _stored(self._segments, labels, self.groups, self._engine)

    def grouped(self, groups: Groups) -> Logits:
        """The same rows with groups, which have been checked."""
        return _stored(self._segments, self.labels, groups, self._engine)

    def __reduce__(self) -> tuple[Callable[..., "StoredLogits"], tuple[Any, ...]]:
        return _stored, (self._segments, self.labels, self.groups, None)


def _stored(
    segments: tuple[Segment, ...], labels: Ints | None, groups: Groups | None, engine: "Engine | None"
) -> StoredLogits:
    made: StoredLogits = object.__new__(StoredLogits)
    starts = np.cumsum([0, *(segment.n_rows for segment in segments)])
    if labels is not None:
        labels = labels.view()
        labels.flags.writeable = False
    fields = {
        "_segments": segments,
        "_starts": starts,
        "_engine": engine,
        "labels": labels,
        "classes": segments[0].shard.classes,
        "groups": groups,
        "input_kind": segments[0].shard.input_kind,
    }
    for name, value in fields.items():
        object.__setattr__(made, name, value)
    return made
