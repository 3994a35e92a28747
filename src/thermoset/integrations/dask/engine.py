"""Work on the workers of a dask cluster: what belongs to rows comes back, and sums are added up where they are.

A task of dask reads some rows of one shard and works on their blocks in a single thread; dask decides where, and does
it again elsewhere when a worker is lost. Only what belongs to rows, or adds up, moves.
"""

import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import islice, pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from thermoset.arrays import Block
from thermoset.data.shards import Shard
from thermoset.data.stored import Piece, StoredLogits, TransformedShard
from thermoset.errors import InputError
from thermoset.integrations.dask.shards import ArrayShard, RemoteShard
from thermoset.rows import Arrays, Progress, Source, Task, add_up, block_rows

__all__ = ["DaskEngine", "threads_of"]

_PIECE_BYTES = 2**25  # of rows that a task works on
_AHEAD = 4  # tasks for each thread of a worker that are sent before one comes back
_SUMS = 4  # tasks for each thread that a sum is cut into: a sum of many classes and trials is large
_MOST_PIECES = 16  # in one such task: what it needs of its rows is sent with it


class DaskEngine:
    """Runs tasks of `thermoset.rows` on the workers of a client's cluster."""

    def __init__(self, client: Any) -> None:
        self.client = client

    def map(
        self, source: Source, task: Task, keep: Callable[[Arrays, slice], None], n_jobs: int | None,  # noqa: ARG002
        progress: Progress | None,
    ) -> None:  # fmt: skip
        """Hand what the task returns for every block to `keep`, in any order, with the place of its rows."""
        places: dict[str, slice] = {}
        done = 0

        def send(piece: Piece) -> Any:
            with _large_arguments():
                future = self.client.submit(_map, _sent(piece.shard), piece.rows, task.at(piece.place), pure=False)
            places[future.key] = piece.place
            return future

        for future in self.finished(map(send, _stored(source).pieces(_PIECE_BYTES))):
            place = places.pop(future.key)
            for some, found in future.result():
                keep(found, slice(place.start + some.start, place.start + some.stop))
            done += place.stop - place.start
            if progress is not None:
                progress(done, source.n_rows)

    def sum(
        self, source: Source, task: Task, zero: Callable[[], Arrays], n_jobs: int | None,  # noqa: ARG002
        progress: Progress | None,
    ) -> Arrays:  # fmt: skip
        """The sums to which the task adds every block."""
        pieces = list(_stored(source).pieces(_PIECE_BYTES))
        if not pieces:
            return zero()
        n_tasks = min(len(pieces), max(_SUMS * threads_of(self.client), -(-len(pieces) // _MOST_PIECES)))
        parts: list[Any] = []
        n_rows: dict[str, int] = {}
        done = 0

        def send(some: Sequence[Piece]) -> Any:
            shards, rows = [_sent(piece.shard) for piece in some], [piece.rows for piece in some]
            tasks = [task.at(piece.place) for piece in some]
            with _large_arguments():
                future = self.client.submit(_sum, shards, rows, tasks, zero, pure=False)
            n_rows[future.key] = sum(piece.place.stop - piece.place.start for piece in some)
            return future

        ends = [len(pieces) * i // n_tasks for i in range(n_tasks + 1)]
        shares = (pieces[first:stop] for first, stop in pairwise(ends))
        for future in self.finished(map(send, shares)):
            if future.status == "error":
                future.result()
            done += n_rows.pop(future.key)
            if progress is not None:
                progress(done, source.n_rows)
            parts.append(future)
            if len(parts) > 1:  # two at a time, on the workers
                parts.append(self.client.submit(_add, parts.pop(), parts.pop(), pure=False))
        found: Arrays = parts[0].result()
        return found

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
    if isinstance(shard, TransformedShard):
        return _sent(shard.shard), shard.f
    return shard.future if isinstance(shard, RemoteShard) else shard


@contextmanager
def _large_arguments() -> Iterator[None]:
    """Do not warn of large arguments: they are what the rows of a task need, and each goes to one worker."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Sending large graph")
        yield


def _blocks(given: Any, rows: slice | NDArray[np.int64]) -> Iterator[tuple[slice, Block]]:
    """The rows of a task, block by block, with their places among them."""
    given, f = given if isinstance(given, tuple) else (given, None)
    shard = ArrayShard(given) if isinstance(given, np.ndarray) else given
    block = Piece(shard, rows, slice(0, 0)).read()
    block = block if f is None else f(block)
    step = block_rows(block.shape[1])
    for first in range(0, len(block), step):
        some = block[first : first + step]
        yield slice(first, first + len(some)), some


def _map(given: Any, rows: slice | NDArray[np.int64], task: Task) -> list[tuple[slice, Arrays]]:
    """A task of dask: what the blocks of some rows give, with their places among them."""
    return [(place, task.at(place)(block)) for place, block in _blocks(given, rows)]


def _sum(given: Sequence[Any], rows: Sequence[Any], tasks: Sequence[Task], zero: Callable[[], Arrays]) -> Arrays:
    """A task of dask: the sum over rows of several shards."""
    sums = zero()
    for shard, some, task in zip(given, rows, tasks, strict=True):
        for place, block in _blocks(shard, some):
            task.at(place)(block, sums)
    return sums


def _add(one: Arrays, other: Arrays) -> Arrays:
    """A task of dask: the sum of two sums, which stay as they are: dask may use them again."""
    return add_up([tuple(map(np.copy, one)), other])
