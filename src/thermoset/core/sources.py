"""Where rows come from: a source of blocks, in file order. An array is one; files and shards can be."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import NDArray

from thermoset.core.exponentials import Floats, Ints
from thermoset.core.memory import room

if TYPE_CHECKING:
    from thermoset.core.stages import Engine

__all__ = [
    "ArrayRows",
    "Block",
    "RankedRows",
    "Ranking",
    "Source",
    "ascending",
    "block_rows",
    "numbered",
    "ranked",
    "widened",
]

Block = NDArray[np.floating[Any]]

_BLOCK_BYTES = 2**19  # float64 entries of a block: half a mebibyte, so that its buffers share the second-level cache
_KEPT_BYTES = 2**28  # sorted rows are kept for a second pass up to this; beyond, sorting twice is cheaper


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

    @property
    def engine(self) -> "Engine | None":
        """Who works on the blocks; threads of this process if None."""

    def blocks(self, step: int) -> Iterator[tuple[slice, Block]]:
        """Consecutive rows, at most `step` at a time, each with its place."""


@dataclass(frozen=True, eq=False)
class ArrayRows:
    """An array as a source."""

    logits: Block
    labels: Ints | None = None

    @property
    def engine(self) -> None:
        """Threads of this process."""
        return None

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


class Ranking:
    """Ranks blocks of rows; blocks that it keeps are sorted once, the others whenever they come by.

    A copy in another process keeps nothing.
    """

    def __init__(self, keep: bool = False) -> None:
        self._kept: dict[int, Block] | None = {} if keep else None

    def __reduce__(self) -> tuple[type, tuple[()]]:
        return Ranking, ()

    def of(self, first: int, block: Block) -> Floats:
        """The rows of the block that begins at row `first`, ranked."""
        if self._kept is None:
            return ranked(block)
        found = self._kept.get(first)
        if found is None:
            found = self._kept[first] = np.sort(block, axis=1)
        return widened(found)


class RankedRows:
    """The rows of a source, ranked; sorted once where they fit a budget of bytes, once a pass where they do not."""

    def __init__(self, source: Source, kept_bytes: int = _KEPT_BYTES) -> None:
        self.source = source
        size = source.n_rows * source.n_classes * source.dtype.itemsize
        self.ranking = Ranking(keep=source.engine is None and size <= min(kept_bytes, room(4)))
