"""One shard after another: planning the work, checking it, and doing it."""

import glob
import hashlib
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, Literal, NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from thermoset.bounds import bytes_of
from thermoset.data.fitted import check_classes
from thermoset.data.top import TopLogits
from thermoset.data.weights import checked_weights
from thermoset.errors import InputError
from thermoset.io import found_shards, open_blocks, open_predictions, read_values
from thermoset.io.blocks import BLOCK_BYTES, LogitBlocks
from thermoset.io.files import FilePath, as_path, errors_about
from thermoset.io.finding import Where
from thermoset.quoting import printable, quoted

if TYPE_CHECKING:
    from thermoset.predictor.predictor import TwoTemperaturePredictor

__all__ = [
    "Reading",
    "RowsDone",
    "ShardDone",
    "ShardJob",
    "Source",
    "check_shards",
    "plan_shards",
    "predict_shard",
    "sha256_of",
    "source_of",
]

RowsDone = Callable[[int, int | None], None]
"""Called with the rows done and the total, or None if that is only known at the end of the file."""

_ENDS = 1 << 16  # bytes at each end of an input that its fingerprint covers
_BLOCKS_HELD = 8  # a block as it was read and as float64, its ranks and sets on all threads: less than so many blocks


class Reading(NamedTuple):
    """How shards are read, and whether p-values are written with the sets."""

    probabilities: bool = False
    id_column: str | None = None
    groups: str | None = None
    block_bytes: int = BLOCK_BYTES
    p_values: bool = False
    weights: str | None = None
    labels: str | None = None  # their column, which is not read
    classes: Sequence[str] | None = None
    ignore: Sequence[str] = ()
    u: Literal["row", "ids"] = "row"

    @property
    def sidecars(self) -> tuple[str, ...]:
        """Columns that npy files have in a file beside them, which is no file of logits."""
        return tuple(name for name in (self.groups, self.weights, self.labels) if name is not None)

    def checked(self) -> "Reading":
        """The same, if u can come from where it should."""
        if self.u not in ("row", "ids"):
            raise InputError(f"u must be 'row' or 'ids'; got {quoted(self.u)}.")
        if self.u == "ids" and self.id_column is None:
            raise InputError("u can only come from ids if their column is named. Add id_column (--id-column).")
        return self

    def within(self, memory: int | str | None) -> "Reading":
        """The same with blocks of the usual size, or smaller ones where the memory or p-values ask for it.

        >>> Reading().within("64MiB").block_bytes
        8388608
        """
        usual, held = (BLOCK_BYTES // 4, 4 * _BLOCKS_HELD) if self.p_values else (BLOCK_BYTES, _BLOCKS_HELD)
        most = usual if memory is None else bytes_of(memory) // held
        return self._replace(block_bytes=min(usual, most))


class ShardJob(NamedTuple):
    """One shard to predict: where its logits are, where its predictions go, and what the manifest calls the two."""

    source: Path
    target: Path
    input: str
    output: str
    reading: Reading


class Source(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What shows that a file of logits is still the one that was read, without reading all of it again.

    Where size, time of modification and both ends are the same, nobody has replaced or rewritten the file. This is no
    proof that every byte in between is the same: a program can change some of them and set the time back.
    """

    bytes: int
    modified_ns: int
    ends_sha256: str  # of the first and the last 64 KiB


class ShardDone(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A shard whose predictions are complete and on disk.

    `input` and `output` are names below the folder of the logits and below that of the predictions; `sizes` has a pair
    (labels in a set, number of rows) for each set size that occurs; `undecided` counts rows with labels that were
    included because rows with only their largest logits could not exclude them.
    """

    input: str
    source: Source
    output: str
    bytes: int
    sha256: str
    rows: int
    sizes: tuple[tuple[int, int], ...]
    undecided: int


def plan_shards(where: Where, out: FilePath, kind: str, reading: Reading) -> tuple[ShardJob, ...]:
    """List the jobs: one file of predictions per shard, named after it.

    Subfolders are kept, as hive-style trees need. With several places, names start at their common parent folder.

    Parameters
    ----------
    where : path, folder, glob, or a list of these
        The files of logits; see `thermoset.io.found_shards`.
    out : path
        The folder for the predictions.
    kind : "parquet", "csv" or "jsonl"
        What they are written as.
    reading : Reading
        How shards are read.

    >>> import tempfile
    >>> from thermoset import Logits
    >>> from thermoset.io import save
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     (Path(folder) / "day=1").mkdir()
    ...     save(f"{folder}/day=1/a.npz", Logits([[2.0, 0.5]]))
    ...     [job.output for job in plan_shards(folder, "sets", "csv", Reading())]
    ['day=1/a.csv']
    """
    found = found_shards(where, sidecars=reading.checked().sidecars)
    folder = as_path(out)
    places = [where] if isinstance(where, str | os.PathLike) else where
    base = _common_folder([as_path(place) for place in places], found)
    jobs: dict[str, ShardJob] = {}
    for source in found:
        name = Path(os.path.relpath(source, base))
        output = name.with_suffix(f".{kind}").as_posix()
        if output in jobs:
            raise InputError(_collision(jobs[output], source))
        jobs[output] = ShardJob(source, folder / output, name.as_posix(), output, reading)
    return tuple(jobs.values())


def _common_folder(places: Iterable[Path], found: Sequence[Path]) -> str:
    """The folder that names start at: what all places have in common, each up to its first wildcard."""
    shards, roots = set(found), []
    for place in places:
        parts = place.parent.parts if place in shards else place.parts
        wild = [i for i, part in enumerate(parts) if place not in shards and glob.has_magic(part)]
        roots.append(os.path.abspath(Path(*parts[: wild[0] if wild else None])))  # noqa: PTH100 (links keep their names)
    return os.path.commonpath(roots)


def _collision(first: ShardJob, second: Path) -> str:
    names = [printable(str(path)) for path in (first.source, second)]
    if os.path.relpath(second, first.source) == ".":
        return f"{names[0]}: is listed twice. Name each shard once."
    output = printable(first.output)
    return f"{names[0]} and {names[1]} would both be written as {output}. Predict them into different folders."


def check_shards(predictor: "TwoTemperaturePredictor", jobs: Iterable[ShardJob]) -> None:
    """Open every shard and read its first row, so that a bad one is reported before hours of work.

    Number and names of the classes must be the predictor's; ids must be whole numbers everywhere, or text everywhere;
    all shards must have groups, or none; and weights, if the predictor needs them, which are read whole.
    """
    jobs = list(jobs)
    if any(job.reading.p_values for job in jobs):
        predictor.require_p()
    first: tuple[Path, str | None, bool] | None = None
    for job in jobs:
        with _opened(predictor, job, block_bytes=1) as blocks:
            some = next(iter(blocks), None)
            _weights(predictor, job)
            if some is None:  # no rows, so no ids that could be of another kind
                continue
            if first is None:
                first = job.source, blocks.id_kind, blocks.has_groups
            if blocks.id_kind != first[1]:
                here, there = ("whole numbers", "text") if blocks.id_kind == "number" else ("text", "whole numbers")
                raise InputError(f"{job.source}: ids are {here}, but {there} in {first[0]}. Use the same type for all.")
            if blocks.has_groups != first[2]:
                has = "has groups" if blocks.has_groups else "has no groups"
                raise InputError(f"{job.source}: {has}, unlike {first[0]}. Give all shards groups, or none.")


def predict_shard(predictor: "TwoTemperaturePredictor", job: ShardJob, progress: RowsDone | None = None) -> ShardDone:
    """Predict one shard: its file of predictions appears complete, or not at all.

    It needs nothing but its arguments, which can be pickled, and the two files: it can run in another process or on
    another machine that has them.
    """
    rows = undecided = 0
    made, with_p = predictor.document_, job.reading.p_values
    with (
        _opened(predictor, job, block_bytes=job.reading.block_bytes) as blocks,
        open_predictions(
            job.target,
            made.classes,
            ids=blocks.id_kind,
            id_column=job.reading.id_column or "id",
            groups=blocks.has_groups,
            p_values=made.n_classes if with_p else None,
        ) as written,
    ):
        before, weights = source_of(job.source), _weights(predictor, job)
        for block, ids in ((block, None) for block in blocks) if blocks.ids is None else blocks.with_ids():
            own: dict[str, Any] = {
                "ids": ids if job.reading.u == "ids" else None,
                "weights": None if weights is None else weights[rows : rows + len(block)],
            }
            p = predictor.predict_p(block, **own) if with_p else None
            written.write(*predictor.predict_arrays(block, **own), ids=ids, groups=block.groups, p=p)
            undecided += int(predictor._inference.undecided(block, **own).sum()) if isinstance(block, TopLogits) else 0
            rows += len(block)
            if progress is not None:
                progress(rows, blocks.n_rows)
        if source_of(job.source) != before:
            raise InputError(
                f"{job.source}: changed while it was being read. Wait until it is complete, and start again."
            )
    size, digest = sha256_of(job.target)
    sizes = tuple(sorted(written.sizes.items()))
    return ShardDone(job.input, before, job.output, size, digest, rows, sizes, undecided)


@contextmanager
def _opened(predictor: "TwoTemperaturePredictor", job: ShardJob, block_bytes: int) -> Iterator[LogitBlocks]:
    """Open a shard, and refuse other classes than the predictor's; the errors name the shard."""
    reading, n_classes = job.reading, predictor.document_.n_classes
    with open_blocks(
        job.source,
        probabilities=reading.probabilities,
        labels=reading.labels,
        classes=reading.classes,
        id_column=reading.id_column,
        groups=reading.groups,
        n_options=n_classes,
        ignore=(*reading.ignore, *([] if reading.weights is None else [reading.weights])),
        known=predictor.document_.classes,
        block_bytes=block_bytes,
    ) as blocks:
        with errors_about(job.source):
            check_classes(predictor, blocks.n_classes, blocks.classes)
        yield blocks


def _weights(predictor: "TwoTemperaturePredictor", job: ShardJob) -> NDArray[np.float64] | None:
    """The weights of all rows of a shard, where the predictor needs them; refused where it does not."""
    reading, needed = job.reading, predictor.document_.is_weighted
    if needed != (reading.weights is not None):
        raise InputError(
            "the predictor's conformal rows have weights, so rows to be predicted need them too. Name their column "
            "(--weights)."
            if needed
            else f"the predictor's conformal rows have no weights, so column {quoted(reading.weights)} has no meaning. "
            "Omit --weights, or recalibrate with weights."
        )
    if reading.weights is None:
        return None
    others = (reading.labels, reading.id_column, reading.groups, *reading.ignore)
    found = read_values(
        [job.source],
        reading.weights,
        probabilities=reading.probabilities,
        classes=reading.classes,
        ignore=[name for name in others if name is not None],
    )
    with errors_about(job.source):
        return checked_weights(found, len(found))


def source_of(path: Path) -> Source:
    """Look at a file of logits; of a folder that is one (Zarr), at the list of its files."""
    with errors_about(path):
        if path.is_dir():
            files = sorted(inner for inner in path.rglob("*") if inner.is_file())
            seen = [(inner.relative_to(path).as_posix(), inner.stat()) for inner in files]
            listed = "".join(f"{name}\0{stat.st_size}\0{stat.st_mtime_ns}\n" for name, stat in seen)
            latest = max((stat.st_mtime_ns for _, stat in seen), default=0)
            return Source(sum(stat.st_size for _, stat in seen), latest, hashlib.sha256(listed.encode()).hexdigest())
        with path.open("rb") as stream:
            status = os.fstat(stream.fileno())
            return Source(status.st_size, status.st_mtime_ns, _ends(stream, status.st_size))


def _ends(stream: BinaryIO, size: int) -> str:
    """SHA-256 of the first and the last 64 KiB; of a shorter file, of all of it."""
    found = hashlib.sha256(stream.read(_ENDS))
    stream.seek(max(stream.tell(), size - _ENDS))
    found.update(stream.read(_ENDS))
    return found.hexdigest()


def sha256_of(path: Path) -> tuple[int, str]:
    """Size and SHA-256 of a file."""
    with errors_about(path), path.open("rb") as stream:
        return os.fstat(stream.fileno()).st_size, hashlib.file_digest(stream, "sha256").hexdigest()
