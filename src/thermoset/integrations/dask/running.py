"""What users call: the commands of the library, on a cluster."""

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from thermoset.data import Logits, as_logits
from thermoset.data.arrays import is_instance
from thermoset.data.groups import Groups, read_groups
from thermoset.data.input_kinds import warn_of_probabilities
from thermoset.data.stored import StoredLogits
from thermoset.errors import InputError
from thermoset.integrations.dask.engine import DaskEngine
from thermoset.integrations.dask.shards import remote_rows
from thermoset.io.files import need
from thermoset.monitor.report import CheckReport
from thermoset.predictor import TwoTemperaturePredictor
from thermoset.predictor.many_files import Predicted, RunShards, ShardDone, ShardJob, predict_shard
from thermoset.predictor.many_files import predict_shards as shards_here
from thermoset.predictor.sets import PredictionArrays
from thermoset.rows import alone
from thermoset.sweeping import Sweep
from thermoset.sweeping import sweep as sweep_here

__all__ = ["LazyAnswers", "check", "fit", "on_cluster", "predict", "predict_shards", "run_shards", "sweep"]

_SENT_BYTES = 2**26  # of rows in memory that go to the workers in one block


def sweep(logits: Any, labels: Any = None, *, groups: Any = None, client: Any = None, **options: Any) -> Sweep:
    """`thermoset.sweep` on a cluster, with the same `options`; `groups` as in `on_cluster`."""
    return sweep_here(on_cluster(logits, labels, groups=groups, client=client), **options)


def fit(
    predictor: TwoTemperaturePredictor,
    logits: Any,
    labels: Any = None,
    *,
    groups: Any = None,
    client: Any = None,
    **options: Any,
) -> TwoTemperaturePredictor:
    """`TwoTemperaturePredictor.fit` on a cluster, with the same `options`. Returns the fitted predictor."""
    return predictor.fit(on_cluster(logits, labels, groups=groups, client=client), **options)


def check(
    predictor: TwoTemperaturePredictor,
    logits: Any,
    labels: Any = None,
    *,
    groups: Any = None,
    client: Any = None,
    **options: Any,
) -> CheckReport:
    """`TwoTemperaturePredictor.check` on a cluster, with the same `options`."""
    return predictor.check(on_cluster(logits, labels, groups=groups, client=client), **options)


class LazyAnswers(NamedTuple):
    """The answers for the rows of a dask array, as dask arrays: labels (n,), confidence (n,), sets (n, C)."""

    labels: Any
    confidence: Any
    sets: Any


def predict(predictor: TwoTemperaturePredictor, logits: Any, groups: Any = None) -> LazyAnswers:
    """The answers of `TwoTemperaturePredictor.predict_arrays` for the rows of a dask array, as dask arrays.

    `groups`: the group of each row, where thresholds are by group; a dask array is computed. Everything else is lazy,
    and a row's answers do not depend on its block. For files, see `predict_shards`.
    """
    if not is_instance(logits, "dask.array", "Array"):
        raise InputError(
            f"predict takes a dask array of logits (n, C); got {type(logits).__name__}. For files, use predict_shards."
        )
    dask, array = need("dask", "dask", "predicting on dask"), need("dask.array", "dask", "predicting on dask")
    rows = _one_column_block(logits)
    answer, kinds = dask.delayed(_answers, pure=True), (np.int64, np.float64, np.bool_)
    ends = np.cumsum([0, *rows.chunks[0]])
    known = None if groups is None else read_groups(_computed(groups), int(ends[-1]))
    parts = [None if known is None else known.take(slice(*place)) for place in pairwise(ends.tolist())]
    blocks = zip(rows.to_delayed().ravel(), parts, strict=True)
    found = [answer(predictor, block, part) for block, part in blocks]
    n_classes = predictor.document_.n_classes

    def joined(k: int) -> Any:
        width = (n_classes,) if k == 2 else ()
        parts = (
            array.from_delayed(one[k], (size, *width), dtype=kinds[k])
            for one, size in zip(found, rows.chunks[0], strict=True)
        )
        return array.concatenate(list(parts), axis=0)

    return LazyAnswers(joined(0), joined(1), joined(2))


def _answers(predictor: TwoTemperaturePredictor, rows: Any, groups: Groups | None) -> PredictionArrays:
    """A task: one thread, as dask has others for other blocks."""
    with alone():
        return PredictionArrays(*predictor.predict_arrays(rows, groups=groups)[:3])


def predict_shards(
    predictor: TwoTemperaturePredictor, where: Any, out: Any, *, client: Any = None, **options: Any
) -> Predicted:
    """`thermoset.predictor.many_files.predict_shards` on a cluster: one file of predictions per file of logits.

    The workers read and write the files themselves. The `options` are the same. The folder can be resumed anywhere.
    """
    return shards_here(predictor, where, out, run=run_shards(_client(client)), **options)


def run_shards(client: Any) -> RunShards:
    """What runs jobs on the workers of a cluster, for the `run` of `thermoset.predictor.many_files.predict_shards`."""

    def run(predictor: TwoTemperaturePredictor, jobs: Sequence[ShardJob]) -> Iterator[ShardDone]:
        there = client.submit(_same, predictor, pure=False)
        waiting = iter(jobs)

        def send(job: ShardJob) -> Any:
            absolute = job._replace(source=job.source.absolute(), target=job.target.absolute())
            return client.submit(_predict_shard, there, absolute, pure=False)

        for future in DaskEngine(client).finished(map(send, waiting)):
            yield future.result()

    return run


def _predict_shard(predictor: TwoTemperaturePredictor, job: ShardJob) -> ShardDone:
    """A task: one thread, as dask has others for other shards."""
    with alone():
        return predict_shard(predictor, job)


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
    found = _client(client)
    engine, given, named = DaskEngine(found), _computed(labels), _computed(groups)
    if isinstance(logits, StoredLogits):
        return as_logits(logits.on(engine), given, named)
    if isinstance(logits, str) or hasattr(logits, "__fspath__") or _are_paths(logits):
        from thermoset.io.opening import open as open_source  # noqa: PLC0415

        return as_logits(open_source(logits).on(engine), given, named)
    if is_instance(logits, "dask.array", "Array"):
        blocks = found.compute(list(_one_column_block(logits).to_delayed().ravel()))
        return as_logits(_told(remote_rows(blocks, classes, found)).on(engine), given, named)
    if isinstance(logits, list | tuple) and logits and not isinstance(logits[0], list | tuple | np.ndarray):
        blocks = [one if is_instance(one, "distributed", "Future") else found.compute(one) for one in logits]
        return as_logits(_told(remote_rows(blocks, classes, found)).on(engine), given, named)
    data = as_logits(logits, given, named)
    step = max(1, _SENT_BYTES // (data.n_classes * data.dtype.itemsize))
    blocks = [found.submit(_same, block, pure=False) for _, block in data.blocks(step)]
    rows = remote_rows(blocks, data.classes, found, data.input_kind)
    return as_logits(rows.on(engine), data.labels, data.groups)


def _told(rows: StoredLogits) -> StoredLogits:
    """The rows, after a warning if they look like probabilities."""
    warn_of_probabilities(rows)
    return rows


def _same(rows: Any) -> Any:
    """A task whose result can be made again when a worker is lost, as scattered rows cannot."""
    return rows


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


def _computed(labels: Any) -> Any:
    return labels.compute() if hasattr(labels, "dask") and hasattr(labels, "compute") else labels


def _are_paths(given: Any) -> bool:
    return (
        isinstance(given, list | tuple)
        and bool(given)
        and all(isinstance(one, str) or hasattr(one, "__fspath__") for one in given)
    )
