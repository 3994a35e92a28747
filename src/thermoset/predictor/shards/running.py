"""Predicting many shards into one folder: planned, checked, run, and resumed where an earlier run was stopped."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from thermoset._version import __version__
from thermoset.errors import InputError
from thermoset.io import PREDICTION_SUFFIXES
from thermoset.io.files import FilePath, as_path, check_folder, need
from thermoset.io.finding import Where
from thermoset.io.names import checked_columns
from thermoset.predictor.document import checksum_of
from thermoset.predictor.predictor import TwoTemperaturePredictor
from thermoset.predictor.shards.folder import Folder, Run, check_target, locked
from thermoset.predictor.shards.jobs import (
    Reading,
    ShardDone,
    ShardJob,
    check_shards,
    plan_shards,
    predict_shard,
    source_of,
)
from thermoset.quoting import quoted

__all__ = ["KINDS", "Predicted", "RunShards", "predict_shards", "size_counts"]

KINDS = tuple(suffix.removeprefix(".") for suffix in PREDICTION_SUFFIXES)
"""The formats in which predictions can be written."""

RunShards = Callable[[TwoTemperaturePredictor, Sequence[ShardJob]], Iterable[ShardDone]]
"""Runs `predict_shard` for each job, anywhere and in any order, and yields each record as soon as it is ready."""


class Predicted(NamedTuple):
    """The contents of a folder of predictions, and how many of its shards were already there."""

    folder: Path
    shards: tuple[ShardDone, ...]
    found: int

    @property
    def rows(self) -> int:
        """How many rows there are."""
        return sum(one.rows for one in self.shards)

    @property
    def sizes(self) -> NDArray[np.int64]:
        """How many rows have a set of 0, 1, 2 ... labels."""
        return size_counts(self.shards)


def size_counts(shards: Iterable[ShardDone]) -> NDArray[np.int64]:
    """Add up set sizes over shards: counts[s] rows have a set of s labels."""
    pairs = np.array([pair for one in shards for pair in one.sizes], dtype=np.int64).reshape(-1, 2)
    counts = np.zeros(pairs[:, 0].max(initial=0) + 1, dtype=np.int64)
    np.add.at(counts, pairs[:, 0], pairs[:, 1])
    return counts


def predict_shards(
    predictor: TwoTemperaturePredictor,
    where: Where,
    out: FilePath,
    *,
    kind: str = "parquet",
    resume: bool = False,
    probabilities: bool = False,
    labels: str | None = None,
    classes: Sequence[str] | None = None,
    id_column: str | None = None,
    u: Literal["row", "ids"] = "row",
    groups: str | None = None,
    ignore: Sequence[str] = (),
    p_values: bool = False,
    weights: str | None = None,
    memory: int | str | None = None,
    run: RunShards | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> Predicted:
    """Predict many files of logits into a folder: one file of predictions each, and a manifest.

    Every shard is opened and checked before the first is predicted. A run that was stopped, for any reason, can be
    continued with `resume`: finished shards are kept, and the folder ends up byte for byte as it would have been
    without the interruption.

    Parameters
    ----------
    predictor : TwoTemperaturePredictor
        A fitted one.
    where : path, folder, glob, or a list of these
        The files of logits; see `thermoset.io.found_shards`.
    out : path
        The folder for the predictions: a new or empty one, or, with `resume`, that of an earlier run.
    kind : "parquet", "csv" or "jsonl"
        The output format; see `thermoset.io.open_predictions`.
    resume : bool
        Continue an earlier run with the same predictor, shards and settings; start a new one if there is none.
    probabilities, labels, classes, id_column, groups, ignore
        As in `thermoset.io.open_blocks`. Ids are written with the predictions, under the name of their column.
    u : "row" or "ids"
        Where the randomness of a set comes from: the seed and the row's logits, or the seed and the row's id, as in
        `predict_set(ids=...)`.
    p_values : bool
        Write the p-values of all labels too; see `TwoTemperaturePredictor.predict_p`.
    weights : str, optional
        The column (array) that holds the weight of each row, where the predictor's conformal rows have weights.
    memory : int or str, optional
        About how much memory blocks of logits and their results may take at a time, such as "64MiB"; the default and
        maximum is 128 MiB. It does not change the output.
    run : function, optional
        Runs the jobs elsewhere: takes the predictor and the jobs, and yields the result of `predict_shard` for each, in
        any order.
    progress : function, optional
        Called with the bytes of logits done and the total.

    Raises
    ------
    InputError
        A shard cannot be used, the folder is not empty, another process is working in it, or the run to resume was
        begun with other settings.

    >>> import tempfile, thermoset as ts
    >>> rng = np.random.default_rng(0)
    >>> labels = rng.integers(0, 3, size=600)
    >>> data = ts.Logits(rng.normal(size=(600, 3)) + 3 * np.eye(3)[labels], labels)
    >>> predictor = ts.TwoTemperaturePredictor().fit(data)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     Path(f"{folder}/in").mkdir()
    ...     for i in range(3):
    ...         ts.save(f"{folder}/in/part-{i}.npz", data.take(slice(200 * i, 200 * i + 200)))
    ...     done = predict_shards(predictor, f"{folder}/in", f"{folder}/out", kind="csv")
    ...     names = sorted(path.name for path in Path(f"{folder}/out").iterdir())
    ...     again = predict_shards(predictor, f"{folder}/in", f"{folder}/out", kind="csv", resume=True)
    >>> names
    ['_manifest.json', 'part-0.csv', 'part-1.csv', 'part-2.csv']
    >>> done.rows, done.found, again.found
    (600, 0, 3)
    """
    folder = as_path(out)
    if kind not in KINDS:
        raise InputError(f"kind must be one of {', '.join(KINDS)}; got {quoted(kind)}.")
    if kind == "parquet":
        need("pyarrow", "io", "writing parquet")
    picked, ignored = None if classes is None else checked_columns(classes, "classes"), checked_columns(ignore)
    reading = Reading(
        probabilities,
        id_column,
        groups,
        p_values=p_values,
        weights=weights,
        labels=labels,
        classes=picked,
        ignore=ignored,
        u=u,
    ).within(memory)
    jobs = plan_shards(where, folder, kind, reading)
    check_folder(folder)
    what = Run(
        version=__version__,
        predictor=checksum_of(predictor.document_),
        kind=kind,
        probabilities=probabilities,
        labels=labels,
        classes=picked,
        id_column=id_column,
        u=u,
        groups=groups,
        ignore=ignored,
        p_values=p_values,
        weights=weights,
    )
    with locked(folder) as journal:
        check_target(folder, resume)
        ours = Folder(folder, journal, what, jobs)
        found, pending = len(ours.done), ours.pending
        if pending or ours.is_open:
            check_shards(predictor, pending)
            ours.begin()
            _work(predictor, ours, run, progress)
            ours.close()
        return Predicted(folder, ours.manifest.shards, found)


def _work(
    predictor: TwoTemperaturePredictor,
    ours: Folder,
    run: RunShards | None,
    progress: Callable[[int, int], None] | None,
) -> None:
    """Run what is pending, and take note of every shard that is finished."""
    pending = ours.pending
    told = _Told(pending, progress)
    try:
        for one in told.one_by_one(predictor) if run is None else run(predictor, pending):
            ours.finished(one)
            told.finished(one)
    except InputError as error:
        kept = f"{len(ours.done)} of {len(ours.done) + len(ours.pending)} shards are finished and kept"
        raise type(error)(f"{error} {kept}: resume to do the rest.") from None


class _Told:
    """Tells how many bytes of logits are done, also within a shard where that is known."""

    def __init__(self, jobs: Sequence[ShardJob], progress: Callable[[int, int], None] | None) -> None:
        self._jobs, self._progress, self._done = jobs, progress, 0
        self._total = 0 if progress is None else sum(source_of(job.source).bytes for job in jobs)

    def one_by_one(self, predictor: TwoTemperaturePredictor) -> Iterator[ShardDone]:
        """Run all jobs here."""
        for job in self._jobs:
            size = 0 if self._progress is None else source_of(job.source).bytes
            yield predict_shard(predictor, job, partial(self._within, size))

    def _within(self, size: int, rows: int, n_rows: int | None) -> None:
        if self._progress is not None and n_rows:
            self._progress(self._done + size * rows // n_rows, self._total)

    def finished(self, one: ShardDone) -> None:
        self._done += one.source.bytes
        if self._progress is not None:
            self._progress(self._done, self._total)
