"""Stages: work on blocks of rows whose results belong to rows or add up, wherever the blocks are.

A stage is a record of what it needs. `rows(place)` is the same stage for some of the rows: only that travels to where
the block is. So a stage can run on threads here, or on the workers of a cluster, and gives the same bits: results of
rows are put where the rows stand, and sums are sums of integers.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Protocol, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from thermoset.core.memory import Spills
from thermoset.core.pool import PerThread, for_blocks
from thermoset.core.sources import Block, Source

__all__ = ["UNTOLD", "Engine", "RowStage", "SumStage", "Threads", "Told", "added", "each_block", "fill_rows", "total"]

Arrays = tuple[NDArray[Any], ...]
Keep = Callable[[Arrays, slice], None]
Sums = TypeVar("Sums", bound=tuple[Any, ...])


class RowStage(Protocol):
    """Gives arrays that belong to rows: the last axis of each is that of the rows."""

    def rows(self, place: slice) -> Self:
        """The stage for some of its rows."""

    def __call__(self, block: Block) -> Arrays:
        """What the rows of a block show; the stage must be that of these rows."""


class SumStage(Protocol[Sums]):
    """Gives arrays of whole numbers, which add up over rows."""

    def rows(self, place: slice) -> Self:
        """The stage for some of its rows."""

    def zero(self) -> Sums:
        """A sum over no rows."""

    def add(self, block: Block, sums: Sums) -> None:
        """Add what the rows of a block show; the stage must be that of these rows."""


class Told(NamedTuple):
    """How stages are run and watched: threads (all cores if left out), and who is told how many more rows are done."""

    n_jobs: int | None = None
    progress: Callable[[int], None] | None = None


UNTOLD = Told()
"""All cores, and nobody is told."""


class Engine(Protocol):
    """Who runs stages: threads of this process, or the workers of a cluster."""

    def each(self, source: Source, stage: RowStage, keep: Keep, told: Told) -> None:
        """Hand the results of all rows to `keep`, in any order, with their places."""

    def total(self, source: Source, stage: SumStage[Sums], told: Told) -> Sums:
        """The sum over all rows."""


class Threads:
    """Threads of this process."""

    def each(self, source: Source, stage: RowStage, keep: Keep, told: Told) -> None:
        """Hand the results of all rows to `keep`, in any order, with their places."""
        for_blocks(source, lambda block, place: keep(stage.rows(place)(block), place), **told._asdict())

    def total(self, source: Source, stage: SumStage[Sums], told: Told) -> Sums:
        """The sum over all rows: one for each thread, and then of these."""
        sums = PerThread(stage.zero)
        for_blocks(source, lambda block, place: stage.rows(place).add(block, sums.mine()), **told._asdict())
        return added(sums.all())


_THREADS = Threads()


def each_block(source: Source, stage: RowStage, keep: Keep, told: Told = UNTOLD) -> None:
    """Hand the results of all rows to `keep`, in any order, with their places."""
    _engine(source).each(source, stage, keep, told)


def fill_rows(source: Source, stage: RowStage, out: Sequence[NDArray[Any]], told: Told = UNTOLD) -> None:
    """Put the results of all rows into arrays whose last axis is that of the rows."""
    spills = Spills(out)

    def keep(found: Arrays, place: slice) -> None:
        for whole, some in zip(out, found, strict=True):
            whole[..., place] = some
        spills.wrote(sum(some.nbytes for some in found))

    each_block(source, stage, keep, told)


def total(source: Source, stage: SumStage[Sums], told: Told = UNTOLD) -> Sums:
    """The sum over all rows."""
    return _engine(source).total(source, stage, told)


def added(parts: Sequence[Sums]) -> Sums:
    """The sum of sums, in the arrays of the first: integers, so that their order does not matter."""
    first, *others = parts
    for other in others:
        for whole, some in zip(first, other, strict=True):
            np.add(whole, some, out=whole)
    return first


def _engine(source: Source) -> Engine:
    return _THREADS if source.engine is None else source.engine
