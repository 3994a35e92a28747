"""Where rows come from: a source of blocks, in file order. An array is one; files and shards can be."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from thermoset.core.exponentials import Floats, Ints

__all__ = ["ArrayRows", "Block", "RankedRows", "Source", "ascending", "block_rows", "numbered", "ranked", "widened"]

Block = NDArray[np.floating[Any]]

_BLOCK_BYTES = 2**19  # float64 entries of a block: half a mebibyte, so that its buffers share the second-level cache
_KEPT_BYTES = (
    2**28
)  # sorted rows are kept for a second pass up to this; beyond, sorting twice is cheaper than the memory


class Source(Protocol):
    """Rows of logits that can be gone through from the first to the last, any number of times."""

    @property
    def n_rows(self) -> int:
        """How many rows there are."""

    @property
    def n_classes(self) -> int:
        """How many logits a row has."""

    @property
    def dtype(self) -> np.dtype[Any]:
        """The type of the logits."""

    @property
    def labels(self) -> Ints | None:
        """The label of every row, if they have some."""

    def blocks(self, step: int) -> Iterator[tuple[slice, Block]]:
        """Consecutive rows, at most `step` at a time, each with its place."""


@dataclass(frozen=True, eq=False)
class ArrayRows:
    """An array as a source."""

    logits: Block
    labels: Ints | None = None

    @property
    def n_rows(self) -> int:
        """How many rows there are."""
        return len(self.logits)

    @property
    def n_classes(self) -> int:
        """How many logits a row has."""
        return int(self.logits.shape[1])

    @property
    def dtype(self) -> np.dtype[Any]:
        """The type of the logits."""
        return self.logits.dtype

    def blocks(self, step: int) -> Iterator[tuple[slice, Block]]:
        """Consecutive rows, at most `step` at a time, each with its place."""
        n_rows = self.n_rows
        for start in range(0, n_rows, step):
            rows = slice(start, min(start + step, n_rows))
            yield rows, self.logits[rows]


def block_rows(n_classes: int) -> int:
    """Rows of a block whose buffers stay in cache."""
    return max(1, _BLOCK_BYTES // (8 * n_classes))


def widened(block: Block) -> Floats:
    """The rows as contiguous float64 that may be written to: the one type that kernels are compiled for.

    Narrower floats widen exactly.
    """
    wide = block.astype(np.float64, order="C", copy=False)
    return wide if wide.flags.writeable else wide.copy()


def numbered(labels: Ints) -> Ints:
    """Labels as the one type that kernels are compiled for."""
    return np.require(labels, np.int64, ("C", "W"))


def ranked(block: Block) -> Floats:
    """The rows sorted ascending, in their own type (which is faster), then as float64."""
    return widened(np.sort(block, axis=1))


def ascending(block: Block) -> tuple[Floats, Ints]:
    """Rows in ascending order, and the label at each place: position p is rank C - p, and ties rank by label index."""
    order = np.argsort(block, axis=1)
    rising = np.take_along_axis(block, order, axis=1)
    # The quick sort leaves ties in any order. Rows that have some are sorted again: mirrored, stably, much slower.
    tied = np.flatnonzero((rising[:, 1:] == rising[:, :-1]).any(axis=1))
    order[tied] = block.shape[1] - 1 - np.argsort(block[tied, ::-1], axis=1, kind="stable")
    rising[tied] = np.take_along_axis(block[tied], order[tied], axis=1)
    return widened(rising), order


class RankedRows:
    """The rows of a source, ranked; sorted once where they fit a budget of bytes, once a pass where they do not."""

    def __init__(self, source: Source, kept_bytes: int = _KEPT_BYTES) -> None:
        self.source = source
        size = source.n_rows * source.n_classes * source.dtype.itemsize
        self._kept: dict[int, Block] | None = {} if size <= kept_bytes else None

    def rank(self, rows: slice, block: Block) -> Floats:
        """The rows of a block, ranked."""
        if self._kept is None:
            return ranked(block)
        found = self._kept.get(rows.start)
        if found is None:
            found = self._kept[rows.start] = np.sort(block, axis=1)
        return widened(found)
