"""Rows on a dask cluster: fits, sweeps, checks and predictions give the same results as on one machine, bit for bit.

`on_cluster` makes rows that the library takes wherever it takes `Logits`; the work on them then happens on the workers.
A task reads some rows of one shard and works on their blocks in a single thread; dask decides where, and does it again
elsewhere when a worker is lost. Only what belongs to rows, or adds up, moves. The client holds the labels: eight bytes
per row.

>>> from distributed import Client, LocalCluster
>>> import numpy as np, thermoset as ts
>>> from thermoset.integrations.dask import on_cluster
>>> rng = np.random.default_rng(0)
>>> labels = rng.integers(0, 5, size=2000)
>>> logits = 3 * (rng.normal(size=(2000, 5)) + 2 * np.eye(5)[labels])
>>> with LocalCluster(n_workers=1, processes=False, dashboard_address=":0") as cluster, Client(cluster) as client:
...     remote = ts.TwoTemperaturePredictor().fit(on_cluster(logits, labels, client=client))
>>> local = ts.TwoTemperaturePredictor().fit(logits, labels)
>>> remote.threshold_ == local.threshold_, remote.temperature_sets_ == local.temperature_sets_
(True, True)
"""

import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice, pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from thermoset.arrays import Block
from thermoset.data import Logits, as_logits, checked_logits
from thermoset.data.groups import Groups, read_groups
from thermoset.data.guards import LOGITS, warn_of_probabilities
from thermoset.data.reading import is_instance
from thermoset.data.stored import Piece, Shard, StoredLogits, TransformedShard
from thermoset.errors import InputError
from thermoset.io.files import need
from thermoset.predictor import TwoTemperaturePredictor
from thermoset.predictor.many_files import RunShards, ShardDone, ShardJob, predict_shard
from thermoset.rows import Arrays, Progress, Source, Task, add_up, alone, block_rows

_PIECE_BYTES = 2**25  # of rows that a task works on
_SENT_BYTES = 2**26  # of rows in memory that go to the workers in one block
_AHEAD = 4  # tasks for each thread of a worker that are sent before one comes back
_SUMS = 4  # tasks for each thread that a sum is cut into: a sum of many classes and trials is large
_MOST_PIECES = 16  # in one such task: what it needs of its rows is sent with it


def on_cluster(
    logits: Any,
    labels: Any = None,
    *,
    groups: Any = None,
    classes: Sequence[str] | None = None,
    client: Any = None,
) -> Logits:
    """Rows that the workers of a cluster work on, wherever `Logits` are taken.

    Parameters
    ----------
    logits
        Anything that `thermoset.open` returns or accepts; a dask array (n, C); a list of delayed blocks or futures; or
        rows in memory.
    labels : array-like (n,), optional
        Labels of all rows, where the rows have none of their own; a dask array is computed.
    groups : array-like (n,), optional
        The group of each row, where the rows have none of their own; a dask array is computed.
    classes : sequence of str, optional
        Class names, for dask arrays and blocks.
    client : distributed.Client, optional
        The active one by default.
    """
    client = _client(client)
    labels_and_groups, engine = (_compute(labels), _compute(groups)), DaskEngine(client)
    several = isinstance(logits, list | tuple) and len(logits) > 0
    if isinstance(logits, StoredLogits):
        return as_logits(logits.on(engine), *labels_and_groups)
    if all(isinstance(one, str) or hasattr(one, "__fspath__") for one in (logits if several else [logits])):
        from thermoset.io.loading import open as open_source  # noqa: PLC0415

        return as_logits(open_source(logits).on(engine), *labels_and_groups)
    if is_instance(logits, "dask.array", "Array"):
        logits, several = list(_one_column_block(logits).to_delayed().ravel()), True
    if several and not isinstance(logits[0], list | tuple | np.ndarray):
        blocks = [one if is_instance(one, "distributed", "Future") else client.compute(one) for one in logits]
        rows = _remote_rows(blocks, classes, client)
        warn_of_probabilities(rows)
        return as_logits(rows.on(engine), *labels_and_groups)
    data = as_logits(logits, *labels_and_groups)
    step = max(1, _SENT_BYTES // (data.n_classes * data.dtype.itemsize))
    blocks = [client.submit(_same, block, pure=False) for _, block in data.blocks(step)]
    rows = _remote_rows(blocks, data.classes, client, data.input_kind)
    return as_logits(rows.on(engine), data.labels, data.groups)


def _same(rows: Any) -> Any:
    """A task whose result can be computed again when a worker is lost, as scattered rows cannot."""
    return rows


class LazyAnswers(NamedTuple):
    """The answers for the rows of a dask array, as dask arrays: labels (n,), confidence (n,), sets (n, C).

    actions (n,) are those of `predict_arrays`, and None without an answer rule.
    """

    labels: Any
    confidence: Any
    sets: Any
    actions: Any = None


def predict(predictor: TwoTemperaturePredictor, logits: Any, groups: Any = None) -> LazyAnswers:
    """The answers of `TwoTemperaturePredictor.predict_arrays` for the rows of a dask array, as dask arrays.

    `groups`: the group of each row, where thresholds are by group; a dask array is computed. Everything else is lazy,
    and a row's answers do not depend on its block. For files, see `run_shards`.
    """
    if not is_instance(logits, "dask.array", "Array"):
        raise InputError(
            f"predict takes a dask array of logits (n, C); got {type(logits).__name__}. For files, use run_shards."
        )
    dask, array = need("dask", "dask", "predicting on dask"), need("dask.array", "dask", "predicting on dask")
    rows, document = _one_column_block(logits), predictor.document_
    ends = np.cumsum([0, *rows.chunks[0]]).tolist()
    known = None if groups is None else read_groups(_compute(groups), ends[-1])
    answer = dask.delayed(_in_one_thread, pure=True)
    delayed = [
        answer(_answers, predictor, block, None if known is None else known.take(slice(*place)))
        for block, place in zip(rows.to_delayed().ravel(), pairwise(ends), strict=True)
    ]
    kinds = [((), np.int64), ((), np.float64), ((document.n_classes,), np.bool_), ((), np.int64)]
    columns = []
    for k, (width, dtype) in enumerate(kinds if document.answers is not None else kinds[:3]):
        sized = zip(delayed, rows.chunks[0], strict=True)
        parts = [array.from_delayed(one[k], (size, *width), dtype=dtype) for one, size in sized]
        columns.append(array.concatenate(parts, axis=0))
    return LazyAnswers(*columns)


def run_shards(client: Any = None) -> RunShards:
    """What runs jobs on the workers of a cluster, for the `run` of `thermoset.predictor.many_files.predict_shards`.

    The workers read and write the files themselves.
    """
    client = _client(client)

    def run(predictor: TwoTemperaturePredictor, jobs: Sequence[ShardJob]) -> Iterator[ShardDone]:
        there = client.submit(_same, predictor, pure=False)

        def send(job: ShardJob) -> Any:
            absolute = job._replace(source=job.source.absolute(), target=job.target.absolute())
            return client.submit(_in_one_thread, predict_shard, there, absolute, pure=False)

        for future in DaskEngine(client).as_finished(map(send, jobs)):
            yield future.result()

    return run


def _answers(predictor: TwoTemperaturePredictor, rows: Any, groups: Groups | None) -> tuple[Any, ...]:
    return tuple(predictor.predict_arrays(rows, groups=groups))


def _in_one_thread(work: Callable[..., Any], *arguments: Any) -> Any:
    """A task of dask, which has other threads for other tasks."""
    with alone():
        return work(*arguments)


def _client(client: Any) -> Any:
    """The client, or the active one."""
    distributed = need("distributed", "dask", "working on a cluster")
    if client is not None:
        return client
    try:
        return distributed.get_client()
    except ValueError:
        raise InputError(
            "there is no active dask client. Create one, client = distributed.Client(address), or pass client=."
        ) from None


def _one_column_block(logits: Any) -> Any:
    """A dask array with whole rows in its blocks, whose sizes are known."""
    if logits.ndim != 2:
        raise InputError(f"logits must be two-dimensional, rows by classes; got a dask array of shape {logits.shape}.")
    rows = logits.compute_chunk_sizes() if np.isnan(np.sum(logits.shape)) else logits
    return rows if rows.numblocks[1] == 1 else rows.rechunk({1: -1})


def _compute(values: Any) -> Any:
    return values.compute() if hasattr(values, "dask") and hasattr(values, "compute") else values


# ---- the engine ------------------------------------------------------------------------------------------------------


class DaskEngine:
    """Runs tasks of `thermoset.rows` on the workers of a client's cluster."""

    def __init__(self, client: Any) -> None:
        self.client = client

    def map(
        self, source: Source, task: Task, keep: Callable[[Any, slice], None], n_jobs: int | None,  # noqa: ARG002
        progress: Progress | None,
    ) -> None:  # fmt: skip
        """Hand what the task returns for every block to `keep`, in any order, with the place of its rows."""
        calls = (
            (piece.place, _map, _argument_for(piece.shard), piece.rows, task.at(piece.place))
            for piece in _require_stored(source).pieces(_PIECE_BYTES)
        )
        for place, future in self._run(calls, source.n_rows, progress):
            for some, result in future.result():
                keep(result, slice(place.start + some.start, place.start + some.stop))

    def sum(
        self, source: Source, task: Task, zero: Callable[[], Arrays], n_jobs: int | None,  # noqa: ARG002
        progress: Progress | None,
    ) -> Arrays:  # fmt: skip
        """The sums to which the task adds every block."""
        pieces = list(_require_stored(source).pieces(_PIECE_BYTES))
        if not pieces:
            return zero()
        n_tasks = min(len(pieces), max(_SUMS * _threads_of(self.client), -(-len(pieces) // _MOST_PIECES)))
        ends = [len(pieces) * i // n_tasks for i in range(n_tasks + 1)]

        def call(some: Sequence[Piece]) -> tuple[Any, ...]:
            shards, rows = [_argument_for(piece.shard) for piece in some], [piece.rows for piece in some]
            tasks = [task.at(piece.place) for piece in some]
            return slice(some[0].place.start, some[-1].place.stop), _sum, shards, rows, tasks, zero

        parts: list[Any] = []
        for _, future in self._run((call(pieces[i:j]) for i, j in pairwise(ends)), source.n_rows, progress):
            parts.append(future)
            if len(parts) > 1:  # two at a time, on the workers
                parts.append(self.client.submit(_add, parts.pop(), parts.pop(), pure=False))
        total: Arrays = parts[0].result()
        return total

    def _run(
        self, calls: Iterator[tuple[Any, ...]], n_rows: int, progress: Progress | None
    ) -> Iterator[tuple[slice, Any]]:
        """Finished futures, with their rows, of calls: rows, function, arguments."""
        places: dict[str, slice] = {}

        def send(call: tuple[Any, ...]) -> Any:
            with warnings.catch_warnings():  # large arguments are what the rows need, and go to one worker
                warnings.filterwarnings("ignore", message="Sending large graph")
                future = self.client.submit(*call[1:], pure=False)
            places[future.key] = call[0]
            return future

        done = 0
        for future in self.as_finished(map(send, calls)):
            if future.status == "error":
                future.result()
            place = places.pop(future.key)
            yield place, future
            done += place.stop - place.start
            if progress is not None:
                progress(done, n_rows)

    def as_finished(self, futures: Iterator[Any]) -> Iterator[Any]:
        """Futures as they finish, in any order; more are sent as others come back."""
        from distributed import as_completed  # noqa: PLC0415 - an extra

        first = list(islice(futures, _AHEAD * _threads_of(self.client)))
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


def _threads_of(client: Any) -> int:
    """Threads of all workers; an error where there is no worker."""
    total = sum(client.nthreads().values())
    if not total:
        client.wait_for_workers(1, timeout=30)
        total = sum(client.nthreads().values())
    return int(total)


def _require_stored(source: Source) -> StoredLogits:
    if not isinstance(source, StoredLogits):
        raise InputError(f"a cluster needs stored rows; got {type(source).__name__}. Use thermoset.open.")
    return source


def _argument_for(shard: Shard) -> Any:
    """What a task takes in place of a shard: dask puts the rows of a future there."""
    if isinstance(shard, TransformedShard):
        return _argument_for(shard.shard), shard.f
    return shard.future if isinstance(shard, RemoteShard) else shard


def _blocks(shard: Any, rows: slice | NDArray[np.int64]) -> Iterator[tuple[slice, Block]]:
    """The rows of a task, block by block, with their places among them."""
    block = _read(shard, rows)
    step = block_rows(block.shape[1])
    for first in range(0, len(block), step):
        some = block[first : first + step]
        yield slice(first, first + len(some)), some


def _read(shard: Any, rows: slice | NDArray[np.int64]) -> Block:
    """Rows of an array, of a shard, or of either after a function that changes them."""
    if isinstance(shard, tuple):
        inner, f = shard
        changed: Block = f(_read(inner, rows))
        return changed
    return shard[rows] if isinstance(shard, np.ndarray) else Piece(shard, rows, slice(0, 0)).read()


def _map(shard: Any, rows: slice | NDArray[np.int64], task: Task) -> list[tuple[slice, Any]]:
    """A task of dask: what the blocks of some rows give, with their places among them."""
    return [(place, task.at(place)(block)) for place, block in _blocks(shard, rows)]


def _sum(shards: Sequence[Any], rows: Sequence[Any], tasks: Sequence[Task], zero: Callable[[], Arrays]) -> Arrays:
    """A task of dask: the sum over rows of several shards."""
    sums = zero()
    for shard, some, task in zip(shards, rows, tasks, strict=True):
        for place, block in _blocks(shard, some):
            task.at(place)(block, sums)
    return sums


def _add(one: Arrays, other: Arrays) -> Arrays:
    """A task of dask: the sum of two sums, which stay as they are: dask may use them again."""
    return add_up([tuple(map(np.copy, one)), other])


# ---- rows that are with the workers ----------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class RemoteShard(Shard):
    """Rows that a worker holds, or can make again: a future of an array."""

    future: Any
    client: Any

    def read(self, start: int, stop: int) -> NDArray[np.floating[Any]]:
        """Some rows, fetched from the worker."""
        block: NDArray[np.floating[Any]] = self.client.submit(
            lambda rows: rows[start:stop], self.future, pure=False
        ).result()
        return block


def _remote_rows(
    futures: Sequence[Any], classes: Sequence[str] | None, client: Any, input_kind: str = LOGITS
) -> StoredLogits:
    """The rows of futures of two-dimensional arrays, one after the other; each is checked where it is."""
    checked = [client.submit(_check_block, future, f"block {i}", pure=False) for i, future in enumerate(futures)]
    names = None if classes is None else tuple(classes)
    facts = client.gather([client.submit(lambda block: (block.shape, block.dtype), one, pure=False) for one in checked])
    for i, (shape, dtype) in enumerate(facts):
        if shape[1] != facts[0][0][1] or dtype != facts[0][1]:
            raise InputError(
                f"block {i} has {shape[1]} columns of {dtype}, but block 0 has {facts[0][0][1]} of {facts[0][1]}. All "
                "blocks must have the same classes and the same type."
            )
    shards = [
        RemoteShard(f"block {i}", shape[0], shape[1], dtype, names, input_kind, future, client)
        for i, (future, (shape, dtype)) in enumerate(zip(checked, facts, strict=True))
    ]
    return StoredLogits.of(shards)


def _check_block(rows: Any, name: str) -> NDArray[np.floating[Any]]:
    """A task: rows as `Logits` would take them."""
    try:
        return checked_logits(rows).logits
    except InputError as error:
        raise InputError(f"{name}: {error}") from None
