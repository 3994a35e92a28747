"""Predictions for many files of logits: one file of predictions for each, in a folder that can be resumed.

While a run goes on, the folder has a journal of the files that are finished; at the end the manifest takes its place. A
resumed run keeps what the same predictor wrote with the same options, for files that have not changed. Both names
begin with an underscore, so that pyarrow, Spark and dask do not take them for tables.
"""

import glob
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import asdict, dataclass
from itertools import takewhile
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from thermoset._version import __version__
from thermoset.bounds import MOST_ROWS, bytes_of
from thermoset.data import Logits
from thermoset.data.labels import checked_weights
from thermoset.data.top_k import MOST_CLASSES, TopLogits
from thermoset.errors import InputError
from thermoset.io import PREDICTION_SUFFIXES, found_shards, open_blocks, open_predictions, read_values
from thermoset.io.files import FilePath, as_path, check_folder, errors_about, lock, need, read_at_most, write_whole
from thermoset.io.formats import Where
from thermoset.io.roles import checked_columns
from thermoset.io.source import BLOCK_BYTES, LogitBlocks
from thermoset.predictor.sets import ACTIONS
from thermoset.quoting import printable, quoted
from thermoset.rows import Progress

if TYPE_CHECKING:
    from thermoset.predictor.predictor import TwoTemperaturePredictor

MANIFEST = "_manifest.json"
"""What was predicted, by what and from what; there when everything is finished."""
JOURNAL = "_unfinished.journal"
"""What is finished so far; there until everything is."""


_Count = Annotated[int, msgspec.Meta(ge=0, le=MOST_ROWS)]


@dataclass(frozen=True)
class Reading:
    """How files are read, and what is written with the sets; see `predict_shards`."""

    probabilities: bool = False
    labels: str | None = None
    classes: Sequence[str] | None = None
    id_column: str | None = None
    u: Literal["row", "ids"] = "row"
    groups: str | None = None
    ignore: Sequence[str] = ()
    weights: str | None = None
    p_values: bool = False
    memory: int | str | None = None

    def __post_init__(self) -> None:
        checked_columns(self.ignore)
        checked_columns(() if self.classes is None else self.classes, "classes")
        if self.u not in ("row", "ids"):
            raise InputError(f"u must be 'row' or 'ids'; got {quoted(self.u)}.")
        if self.u == "ids" and self.id_column is None:
            raise InputError("u can only come from ids if their column is named. Add id_column (--id-column).")
        if self.memory is not None:
            bytes_of(self.memory)

    @property
    def sidecars(self) -> tuple[str, ...]:
        """Columns that npy files have in a file next to them, which is no file of logits."""
        return tuple(name for name in (self.groups, self.weights, self.labels) if name is not None)

    @property
    def block_bytes(self) -> int:
        """The size of a block: it is held as it was read and as float64, with its ranks, sets and p-values."""
        usual, held = (BLOCK_BYTES // 4, 32) if self.p_values else (BLOCK_BYTES, 8)
        return usual if self.memory is None else min(usual, bytes_of(self.memory) // held)


class ShardJob(NamedTuple):
    """One file to predict: where its logits are, where its predictions go, and what the manifest calls the two."""

    source: Path
    target: Path
    input: str
    output: str
    reading: Reading


class ShardDone(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A file whose predictions are finished.

    `sizes` has a pair (labels in a set, rows) for each set size that occurs; `undecided` counts rows with labels that
    their largest logits alone could not exclude.
    """

    input: str
    input_bytes: int
    input_modified_ns: int
    output: str
    output_bytes: int
    rows: _Count
    sizes: tuple[tuple[Annotated[int, msgspec.Meta(ge=0, le=MOST_CLASSES)], _Count], ...]
    undecided: _Count


class Manifest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The options of a run, and its finished files. Each line of a journal is a manifest of some of them."""

    run: dict[str, Any]
    shards: tuple[ShardDone, ...]


class Predicted(NamedTuple):
    """The finished files, in order, and how many of them were already there."""

    shards: tuple[ShardDone, ...]
    found: int = 0

    @property
    def rows(self) -> int:
        """How many rows there are."""
        return sum(one.rows for one in self.shards)

    @property
    def sizes(self) -> NDArray[np.int64]:
        """How many rows have a set of 0, 1, 2 ... labels."""
        pairs = np.array([pair for one in self.shards for pair in one.sizes], dtype=np.int64).reshape(-1, 2)
        return np.bincount(pairs[:, 0], weights=pairs[:, 1], minlength=1).astype(np.int64)


RunShards = Callable[["TwoTemperaturePredictor", Sequence[ShardJob]], Iterable[ShardDone]]
"""Calls `predict_shard` for each job, anywhere and in any order, and yields each result as soon as it is there."""


def predict_shards(
    predictor: "TwoTemperaturePredictor",
    where: Where,
    out: FilePath,
    *,
    kind: str = "parquet",
    resume: bool = False,
    run: RunShards | None = None,
    progress: Callable[[int, int], None] | None = None,
    **reading: Any,
) -> Predicted:
    """Predict many files of logits into a folder: one file of predictions each, and a manifest.

    The first row of every file is predicted before anything is written. A run that was stopped, for any reason, can be
    continued with `resume`: the folder ends up byte for byte as it would have been without the interruption.

    Parameters
    ----------
    where : path, folder, glob, or a list of these
        The files of logits; see `thermoset.io.found_shards`.
    out : path
        The folder for the predictions: a new or empty one, or, with `resume`, that of an earlier run.
    kind : "parquet", "csv" or "jsonl"
        The output format; see `thermoset.io.open_predictions`.
    resume : bool
        Continue an earlier run with the same predictor and options; start a new one if there is none.
    run : function, optional
        Runs the jobs elsewhere; see `RunShards`.
    progress : function, optional
        Called with the bytes of logits done and the total.
    probabilities, labels, classes, id_column, groups, ignore
        As in `thermoset.io.open_blocks`. Ids are written with the predictions, under the name of their column.
    u : "row" or "ids"
        Where the randomness of a set comes from: the seed and the row's logits, or the seed and the row's id.
    weights : str
        The column of each row's weight, where the predictor's conformal rows have weights.
    p_values : bool
        Write the p-values of all labels too; see `TwoTemperaturePredictor.predict_p`.
    memory : int or str
        About how much memory blocks and their results may take, such as "64MiB"; the default and maximum is 128 MiB.

    >>> import tempfile, thermoset as ts
    >>> rng = np.random.default_rng(0)
    >>> labels = rng.integers(0, 3, size=600)
    >>> data = ts.Logits(rng.normal(size=(600, 3)) + 3 * np.eye(3)[labels], labels)
    >>> predictor = ts.TwoTemperaturePredictor().fit(data)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     for i, part in enumerate(data.split(0.5)):
    ...         ts.save(f"{folder}/part-{i}.npz", part)
    ...     done = predict_shards(predictor, f"{folder}/*.npz", f"{folder}/out", kind="csv")
    ...     again = predict_shards(predictor, f"{folder}/*.npz", f"{folder}/out", kind="csv", resume=True)
    ...     print(done.rows, done.found, again.found, sorted(os.listdir(f"{folder}/out")))
    600 0 2 ['_manifest.json', 'part-0.csv', 'part-1.csv']
    """
    folder, how, tell = as_path(out), Reading(**reading), progress or (lambda _, __: None)
    if f".{kind}" not in PREDICTION_SUFFIXES:
        known = ", ".join(suffix.removeprefix(".") for suffix in PREDICTION_SUFFIXES)
        raise InputError(f"kind must be one of {known}; got {quoted(kind)}.")
    if kind == "parquet":
        need("pyarrow", "io", "writing parquet")
    jobs = _plan(where, folder, kind, how)
    check_folder(folder)
    options = {"version": __version__, "predictor": predictor._inference.identity, "format": kind, **asdict(how)}
    del options["memory"]
    options = msgspec.json.decode(msgspec.json.encode(options))  # as it is read from a manifest
    done = _finished_shards(folder, jobs, options, resume)
    n_earlier, pending = len(done), [job for job in jobs if job.output not in done]
    _check_first_rows(predictor, pending)
    if pending or (folder / JOURNAL).exists():
        sizes = [_size_and_time(job.source)[0] for job in pending]
        n_bytes, total = 0, sum(sizes)

        def within(rows: int, n_rows: int) -> None:  # the file that is being predicted
            tell(n_bytes + sizes[len(done) - n_earlier] * rows // n_rows, total)

        results = (predict_shard(predictor, job, within) for job in pending)
        with _journal(folder, jobs, options, done) as note:
            for one in results if run is None else run(predictor, pending):
                note(one)
                n_bytes += one.input_bytes
                tell(n_bytes, total)
    return Predicted(tuple(done[job.output] for job in jobs), n_earlier)


# --- the folder -----------------------------------------------------------------------------------------------------


def _plan(where: Where, folder: Path, kind: str, reading: Reading) -> list[ShardJob]:
    """A job for each file. Subfolders are kept; names start at what all places share, each up to its first wildcard."""
    sources, roots = found_shards(where, sidecars=reading.sidecars), []
    for place in [as_path(one) for one in ([where] if isinstance(where, str | os.PathLike) else where)]:
        plain = Path(*takewhile(lambda part: not glob.has_magic(part), place.parts))
        roots.append(os.path.abspath(place.parent if place in sources else plain))  # noqa: PTH100 (links stay links)
    base, jobs = os.path.commonpath(roots), dict[str, ShardJob]()
    for source in sources:
        name = Path(os.path.relpath(source, base))
        output = name.with_suffix(f".{kind}").as_posix()
        if output in jobs:
            both = " and ".join(printable(str(path)) for path in (jobs[output].source, source))
            raise InputError(f"{both} would both be written as {printable(output)}. Use different names or folders.")
        jobs[output] = ShardJob(source, folder / output, name.as_posix(), output, reading)
    return list(jobs.values())


def _finished_shards(
    folder: Path, jobs: Sequence[ShardJob], options: dict[str, Any], resume: bool
) -> dict[str, ShardDone]:
    """What an earlier run has finished, by output; refuse a folder with something else, and one of another run."""
    record = next((folder / name for name in (JOURNAL, MANIFEST) if (folder / name).exists()), None)
    if record is None:
        others = sorted(one.name for one in folder.glob("[!.]*"))
        if others:
            raise InputError(f"{folder}: is not empty (it contains {quoted(others[0])}). Name a new folder.")
        return {}
    if not resume:
        raise InputError(f"{folder}: contains predictions of an earlier run. Resume it, or name another folder.")
    known, done = {job.output: job for job in jobs}, dict[str, ShardDone]()
    for line in read_at_most(record, 2**32).splitlines():
        with suppress(msgspec.DecodeError, UnicodeDecodeError, RecursionError):  # torn when a run was killed
            part = msgspec.json.decode(line, type=Manifest)
            _check_same(folder, part, options, known)
            done |= {one.output: one for one in part.shards if _is_current(known[one.output], one)}
    return done


def _check_same(folder: Path, earlier: Manifest, options: dict[str, Any], known: dict[str, ShardJob]) -> None:
    """Refuse to resume with other options, or without a file that is there."""
    differing = [
        name.replace("_", " ") + ("" if name == "predictor" else f" ({quoted(then)} then, {quoted(now)} now)")
        for name, now in options.items()
        if (then := earlier.run.get(name)) != now
    ] + [f"list of files ({quoted(one.input)} is missing)" for one in earlier.shards if one.output not in known]
    if differing:
        raise InputError(
            f"{folder}: was begun with a different {differing[0]}, so it cannot be resumed. Use the same, or name "
            "another folder."
        )


def _is_current(job: ShardJob, one: ShardDone) -> bool:
    """Whether predictions are there as they were written, of a file that has not changed."""
    whole = job.target.is_file() and job.target.stat().st_size == one.output_bytes
    return whole and _size_and_time(job.source) == (one.input_bytes, one.input_modified_ns)


def _size_and_time(path: Path) -> tuple[int, int]:
    """Bytes and time of modification of a file of logits, or of the files of a folder that is one (Zarr)."""
    with errors_about(path):
        files = [inner for inner in path.rglob("*") if inner.is_file()] if path.is_dir() else [path]
        stats = [file.stat() for file in files]
    return sum(one.st_size for one in stats), max((one.st_mtime_ns for one in stats), default=0)


@contextmanager
def _journal(
    folder: Path, jobs: Sequence[ShardJob], options: dict[str, Any], done: dict[str, ShardDone]
) -> Iterator[Callable[[ShardDone], None]]:
    """What takes note of a finished file, in `done` and on disk; once all are finished, the manifest is written."""
    places = {folder, *(job.target.parent for job in jobs)}
    with errors_about(folder, "written"):
        for place in places:
            place.mkdir(parents=True, exist_ok=True)
        stream = lock(folder / JOURNAL, "another process is writing predictions to this folder. Wait for its end.")

    def note(*shards: ShardDone) -> None:
        with errors_about(folder, "written"):
            stream.write(b"\n" + msgspec.json.encode(Manifest(options, shards)))  # on its own line, if one was torn
            os.fsync(stream.fileno())
        done.update({one.output: one for one in shards})

    with stream:
        note(*done.values())
        (folder / MANIFEST).unlink(missing_ok=True)
        try:
            yield note
        except (InputError, KeyboardInterrupt, SystemExit) as error:
            kept = f"{len(done):,} of {len(jobs):,} shards are finished and kept"
            if isinstance(error, InputError):
                raise type(error)(f"{error} {kept}: resume to do the rest.") from None
            error.add_note(kept)
            raise
        for left in [left for place in places for left in place.glob(".*.tmp")]:
            left.unlink(missing_ok=True)  # of `write_whole`, where a run or a worker was killed
        with errors_about(folder, "written"), write_whole(folder / MANIFEST) as manifest:
            manifest.write(msgspec.json.encode(Manifest(options, tuple(done[job.output] for job in jobs))))
        (folder / JOURNAL).unlink()


# --- one file -------------------------------------------------------------------------------------------------------


def predict_shard(predictor: "TwoTemperaturePredictor", job: ShardJob, progress: Progress | None = None) -> ShardDone:
    """Predict one file: its predictions appear complete, or not at all.

    It needs nothing but its arguments, which can be pickled, and the two files: it can run in another process or on
    another machine that has them. `progress` gets the rows done and their number.
    """
    rows = undecided = 0
    reading, document = job.reading, predictor.document_
    with (
        _open(predictor, job, reading.block_bytes) as blocks,
        open_predictions(
            job.target,
            document.classes,
            ids=blocks.id_kind,
            id_column=reading.id_column or "id",
            groups=blocks.has_groups,
            p_values=document.n_classes if reading.p_values else None,
            actions=document.answers is not None,
        ) as written,
    ):
        before = _size_and_time(job.source)
        for block, ids, own in _rows(job, blocks):
            with errors_about(job.source):
                p = predictor.predict_p(block, **own) if reading.p_values else None
                answers = predictor.predict_arrays(block, **own)
                if isinstance(block, TopLogits):
                    undecided += int(predictor._inference.undecided(block, own["ids"], own["weights"]).sum())
            done = None if answers.actions is None else [ACTIONS[one] for one in answers.actions]
            written.write(*answers[:3], ids=ids, groups=block.groups, p=p, actions=done)
            rows += len(block)
            if progress is not None:
                progress(rows, blocks.n_rows)
        if _size_and_time(job.source) != before:
            raise InputError(f"{job.source}: changed while it was being read. Wait until it is complete.")
    sizes = tuple(sorted(written.sizes.items()))
    return ShardDone(job.input, *before, job.output, job.target.stat().st_size, rows, sizes, undecided)


def _check_first_rows(predictor: "TwoTemperaturePredictor", jobs: Iterable[ShardJob]) -> None:
    """Predict the first row of every file, so that a bad one is reported before hours of work."""
    first: tuple[Path, Any] | None = None
    for job in jobs:
        with _open(predictor, job, block_bytes=1) as blocks:
            for block, _, own in _rows(job, blocks):
                with errors_about(job.source):
                    predictor.predict_arrays(block, **own)
                    if job.reading.p_values:
                        predictor._inference.require_p_values()
                first = first or (job.source, (blocks.id_kind, blocks.has_groups))
                if first[1] != (blocks.id_kind, blocks.has_groups):
                    raise InputError(f"{job.source}: differs in the type of ids, or in having groups, from {first[0]}.")
                break


def _open(predictor: "TwoTemperaturePredictor", job: ShardJob, block_bytes: int) -> AbstractContextManager[LogitBlocks]:
    reading, document = job.reading, predictor.document_
    return open_blocks(
        job.source,
        probabilities=reading.probabilities,
        labels=reading.labels,
        classes=reading.classes,
        id_column=reading.id_column,
        groups=reading.groups,
        n_options=document.n_classes,
        ignore=[*reading.ignore, *([] if reading.weights is None else [reading.weights])],
        known=document.classes,
        block_bytes=block_bytes,
    )


def _rows(job: ShardJob, blocks: LogitBlocks) -> Iterator[tuple[Logits, list[Any] | None, dict[str, Any]]]:
    """The blocks of a file, with their ids, and with what their sets depend on besides the logits."""
    reading, weights, end = job.reading, None, 0
    if reading.weights is not None:
        others = (reading.labels, reading.id_column, reading.groups, *reading.ignore)
        values = read_values(
            [job.source],
            reading.weights,
            probabilities=reading.probabilities,
            classes=reading.classes,
            ignore=[name for name in others if name is not None],
        )
        with errors_about(job.source):
            weights = checked_weights(values, len(values))
    for block, ids in ((block, None) for block in blocks) if blocks.id_kind is None else blocks.with_ids():
        start, end = end, end + len(block)
        own = {"ids": ids if reading.u == "ids" else None, "weights": None if weights is None else weights[start:end]}
        yield block, ids, own
