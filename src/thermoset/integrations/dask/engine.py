"""Stages on the workers of a dask cluster: what rows show comes back, and sums are added up where they are.

A task reads some rows of one shard and runs the stage on them in a single thread; dask decides where, and does it again
elsewhere when a worker is lost. Only what belongs to rows, or adds up, moves.
"""

import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import islice, pairwise
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from thermoset.arrays import Block
from thermoset.core.stages import Keep, RowStage, SumStage, Told, added
from thermoset.data.shards import Shard
from thermoset.data.stored import Piece, StoredLogits
from thermoset.errors import InputError
from thermoset.integrations.dask.shards import ArrayShard, RemoteShard
from thermoset.rows import Source, block_rows

__all__ = ["DaskEngine", "threads_of"]

Sums = TypeVar("Sums", bound=tuple[Any, ...])

_PIECE_BYTES = 2**25  # of rows that a task works on
_AHEAD = 4  # tasks for each thread of a worker that are sent before one comes back
_SUMS = 4  # tasks for each thread that a sum is cut into: a sum of many classes and trials is large
_MOST_PIECES = 16  # in one such task: what it needs of its rows is sent with it


class DaskEngine:
    """Runs stages on the workers of a client's cluster."""

    def __init__(self, client: Any) -> None:
        self.client = client

    def each(self, source: Source, stage: RowStage, keep: Keep, told: Told) -> None:
        """Hand the results of all rows to `keep`, in any order, with their places."""
        places: dict[str, slice] = {}

        def send(piece: Piece) -> Any:
            with _large_arguments():
                future = self._submit(_each, piece.shard, piece.rows, stage.rows(piece.place))
            places[future.key] = piece.place
            return future

        for future in self.finished(map(send, _stored(source).pieces(_PIECE_BYTES))):
            place = places.pop(future.key)
            keep(future.result(), place)
            _tell(told, place)

    def total(self, source: Source, stage: SumStage[Sums], told: Told) -> Sums:
        """The sum over all rows."""
        pieces = list(_stored(source).pieces(_PIECE_BYTES))
        n_tasks = min(len(pieces), max(_SUMS * threads_of(self.client), -(-len(pieces) // _MOST_PIECES)))
        parts: list[Any] = []
        rows: dict[str, list[Piece]] = {}

        def send(some: Sequence[Piece]) -> Any:
            of_rows = [stage.rows(piece.place) for piece in some]
            with _large_arguments():
                future = self._submit_all(_total, [piece.shard for piece in some], [p.rows for p in some], of_rows)
            rows[future.key] = list(some)
            return future

        ends = [len(pieces) * i // n_tasks for i in range(n_tasks + 1)]
        shares = (pieces[first:stop] for first, stop in pairwise(ends))
        for future in self.finished(map(send, shares)):
            if future.status == "error":
                future.result()
            for piece in rows.pop(future.key):
                _tell(told, piece.place)
            parts.append(future)
            if len(parts) > 1:  # two at a time, on the workers
                parts.append(self.client.submit(_added, parts.pop(), parts.pop(), pure=False))
        found: Sums = parts[0].result()
        return found

    def _submit(self, work: Any, shard: Shard, *arguments: Any) -> Any:
        return self.client.submit(work, _sent(shard), *arguments, pure=False)

    def _submit_all(self, work: Any, shards: Sequence[Shard], *arguments: Any) -> Any:
        return self.client.submit(work, [_sent(shard) for shard in shards], *arguments, pure=False)

    def finished(self, futures: Iterator[Any]) -> Iterator[Any]:
        """Futures as they finish, in any order; more are sent as others come back."""
        from distributed import as_completed  # noqa: PLC0415 - an extra

        first = list(islice(futures, _AHEAD * threads_of(self.client)))
        running = as_completed(first)
        try:
            for future in running:
                more = next(futures, None)
                if more is not None:
                    running.add(more)
                yield future
        finally:
            # after an error, or Ctrl-C: what has not begun need not
            self.client.cancel([future for future in running.futures if not future.done()])


def threads_of(client: Any) -> int:
    """Threads of all workers; an error where there is no worker."""
    total = sum(client.nthreads().values())
    if not total:
        client.wait_for_workers(1, timeout=30)
        total = sum(client.nthreads().values())
    return int(total)


def _stored(source: Source) -> StoredLogits:
    if not isinstance(source, StoredLogits):
        raise InputError(f"a cluster needs stored rows; got {type(source).__name__}. Use thermoset.open.")
    return source


def _sent(shard: Shard) -> Any:
    """What a task takes in place of a shard: dask puts the rows of a future there."""
    return shard.future if isinstance(shard, RemoteShard) else shard


def _tell(told: Told, place: slice) -> None:
    if told.progress is not None:
        told.progress(place.stop - place.start)


@contextmanager
def _large_arguments() -> Iterator[None]:
    """Do not warn of large arguments: they are what the rows of a task need, and each goes to one worker."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Sending large graph")
        yield


def _blocks(given: Any, rows: slice | NDArray[np.int64]) -> Iterator[tuple[slice, Block]]:
    """The rows of a task, block by block, with their places among them."""
    shard = ArrayShard(given) if isinstance(given, np.ndarray) else given
    block = Piece(shard, rows, slice(0, 0)).read()
    step = block_rows(block.shape[1])
    for first in range(0, len(block), step):
        some = block[first : first + step]
        yield slice(first, first + len(some)), some


def _each(given: Any, rows: slice | NDArray[np.int64], stage: RowStage) -> tuple[NDArray[Any], ...]:
    """A task: what rows show."""
    found = [stage.rows(place)(block) for place, block in _blocks(given, rows)]
    return tuple(np.concatenate(arrays, axis=-1) for arrays in zip(*found, strict=True))


def _total(given: Sequence[Any], rows: Sequence[Any], stages: Sequence[SumStage[Any]]) -> Any:
    """A task: the sum over rows of several shards."""
    sums = stages[0].zero()
    for shard, some, stage in zip(given, rows, stages, strict=True):
        for place, block in _blocks(shard, some):
            stage.rows(place).add(block, sums)
    return sums


def _added(one: Any, other: Any) -> Any:
    """A task: the sum of two sums, which stay as they are: dask may use them again."""
    return added([type(one)(*map(np.copy, one)) if hasattr(one, "_fields") else tuple(map(np.copy, one)), other])
