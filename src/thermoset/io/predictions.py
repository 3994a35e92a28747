"""Files of predictions, written in blocks of rows: label, confidence and prediction set of every row.

| suffix | content |
|---|---|
| `.parquet` | columns `label`, `confidence`, `set` (lists), `size` |
| `.csv` | columns `label`, `confidence`, `size`, `set`; a set is a JSON list in one cell |
| `.jsonl` | one object a line: `label`, `confidence`, `set`, `size` |
| `.npz` | arrays `label`, `confidence`, `size`, `set_labels`, `set_offsets`; `classes` if there are names |

Labels are class names where there are names, else column numbers; in npz always column numbers, and the set of row i
is `set_labels[set_offsets[i]:set_offsets[i + 1]]`. Where rows have ids, a column (array, key) `id` comes first. A set
lists its labels in the order of the columns. Confidences are written as the float64 they equal, and are read back
exactly.
"""

import csv
import io
import json
import shutil
import tempfile
import zipfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from itertools import pairwise
from pathlib import Path
from typing import IO, Any, BinaryIO, Literal, NamedTuple

import numpy as np
from numpy.lib import format as npy
from numpy.typing import ArrayLike, NDArray

from thermoset.data.arrays import class_names
from thermoset.errors import InputError
from thermoset.io.files import FilePath, as_path, errors_about, known_suffix, need, write_whole

__all__ = ["PREDICTION_SUFFIXES", "PredictionWriter", "open_predictions"]

Names = tuple[str, ...] | None
IdKind = Literal["number", "text"]

PIECE = 1 << 20  # cells of `sets` that are turned into lists at a time, however many rows come at once
ROW_GROUP_BYTES = 1 << 24  # rows of parquet wait until there are so many: small row groups are slow to read
ARRAYS = {"label": "<i4", "confidence": "<f8", "size": "<i4", "set_labels": "<i4", "set_offsets": "<i8"}
"""What an npz archive holds."""


class Block(NamedTuple):
    """Checked predictions; the set of row i is `members[offsets[i]:offsets[i + 1]]`."""

    label: NDArray[np.int32]
    confidence: NDArray[np.float64]
    size: NDArray[np.int32]
    members: NDArray[np.int32]
    offsets: NDArray[np.int64]
    ids: list[Any]  # none if rows have none


Write = Callable[[Block], None]


class PredictionWriter:
    """Takes predictions block by block; made by `open_predictions`."""

    def __init__(self, path: Path, write: Write, n_classes: int | None, ids: IdKind | None) -> None:
        self._path, self._write, self._n_classes, self._ids = path, write, n_classes, ids

    def write(
        self, labels: ArrayLike, confidence: ArrayLike, sets: ArrayLike, ids: Sequence[Any] | None = None
    ) -> None:
        """Write some rows.

        Parameters
        ----------
        labels : int array (n,)
            Predicted labels, as column numbers.
        confidence : float array (n,)
            The probability of each.
        sets : bool array (n, C)
            Which labels are in the prediction set.
        ids : sequence, optional
            One for each row, if the file was opened for them.

        >>> with tempfile.TemporaryDirectory() as folder:
        ...     with open_predictions(f"{folder}/sets.jsonl") as out:
        ...         out.write(labels=[1], confidence=[0.75], sets=[[False, True]])
        ...     print(Path(f"{folder}/sets.jsonl").read_text())
        {"label": 1, "confidence": 0.75, "set": [1], "size": 1}
        """
        parts = np.asarray(labels), np.asarray(confidence), np.asarray(sets)
        self._n_classes = _check(*parts, self._n_classes)
        given = self._checked_ids(ids, len(parts[0]))
        step = max(1, PIECE // max(1, self._n_classes))
        with errors_about(self._path, "written"):
            for first in range(0, len(parts[0]), step):
                some = slice(first, first + step)
                self._write(_block(parts[0][some], parts[1][some], parts[2][some], given[some]))

    def _checked_ids(self, ids: Sequence[Any] | None, n_rows: int) -> list[Any]:
        if (ids is None) != (self._ids is None):
            raise InputError("ids must be given if the file was opened for them, and only then. See open_predictions.")
        given = [] if ids is None else list(ids)
        kind = int if self._ids == "number" else str
        if ids is not None and (len(given) != n_rows or not all(isinstance(one, kind) for one in given)):
            wanted = "whole numbers" if kind is int else "texts"
            raise InputError(f"ids must be {n_rows} {wanted}, one for each row; got {len(given)}, or others.")
        return given


@contextmanager
def open_predictions(
    path: FilePath, classes: Sequence[str] | None = None, *, ids: IdKind | None = None
) -> Iterator[PredictionWriter]:
    """Open a file of predictions; it appears under its name when the `with` block ends well, and never otherwise.

    Parameters
    ----------
    path : path
        The suffix decides: `.parquet`, `.csv`, `.jsonl` or `.npz`; see `thermoset.io.predictions`.
    classes : sequence of str, optional
        Class names, in the order of the columns.
    ids : "number" or "text", optional
        Rows have ids, which are all whole numbers or all text, and are written first. (For npz they are held in memory
        until the end.)

    Raises
    ------
    InputError
        The kind of file is not known, or it cannot be written.
    MissingExtraError
        pyarrow is needed and not installed.

    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with open_predictions(f"{folder}/sets.csv", ["cat", "dog"]) as out:
    ...         out.write([1, 0], [0.75, 0.5], [[False, True], [True, True]])
    ...     print(Path(f"{folder}/sets.csv").read_text())
    label,confidence,size,set
    dog,0.75,1,"[""dog""]"
    cat,0.5,2,"[""cat"", ""dog""]"
    """
    target = as_path(path)
    open_kind = KINDS[known_suffix(target, PREDICTION_SUFFIXES)]
    names = None if classes is None else class_names(classes, len(classes))
    with ExitStack() as stack:  # what the caller raises goes through as it is, and undoes what was written
        with errors_about(target, "written"):
            stream = stack.enter_context(write_whole(target))
            write = stack.enter_context(open_kind(stream, names, ids))
        yield PredictionWriter(target, write, None if names is None else len(names), ids)
        with errors_about(target, "written"):
            stack.pop_all().close()  # what comes last; then to disk and under its name


def _check(label: NDArray[Any], sure: NDArray[Any], inside: NDArray[Any], n_classes: int | None) -> int:
    """Refuse what does not fit together; the number of classes."""
    if inside.ndim != 2 or inside.dtype != np.bool_ or inside.shape[1] != (n_classes or inside.shape[1]):
        wanted = f"(n, {'C' if n_classes is None else n_classes})"
        raise InputError(f"sets must be a boolean array {wanted}; got {inside.dtype}, shape {inside.shape}.")
    n_rows, width = inside.shape
    for name, values, kinds in (("labels", label, "iu"), ("confidence", sure, "f")):
        if values.shape != (n_rows,) or (values.dtype.kind not in kinds and n_rows):
            wanted = "whole numbers" if kinds == "iu" else "floats"
            raise InputError(f"{name} must be {n_rows} {wanted}, one a row; got {values.dtype}, shape {values.shape}.")
    if n_rows and (label.min() < 0 or label.max() >= width):
        raise InputError(f"labels must be in 0..{width - 1}; got {label.min()}..{label.max()}.")
    if not np.isfinite(sure).all():
        raise InputError("confidence must be finite; got NaN or inf, which JSON cannot hold.")
    return int(width)


def _block(label: NDArray[Any], sure: NDArray[Any], inside: NDArray[Any], ids: list[Any]) -> Block:
    size = inside.sum(axis=1)
    offsets = np.concatenate([[0], np.cumsum(size)])
    members = np.nonzero(inside)[1].astype(np.int32)
    return Block(label.astype(np.int32), sure.astype(np.float64), size.astype(np.int32), members, offsets, ids)


@contextmanager
def _csv(stream: BinaryIO, names: Names, ids: IdKind | None) -> Iterator[Write]:
    def write_rows(rows: Iterable[tuple[Any, ...]]) -> None:
        text = io.StringIO(newline="")
        csv.writer(text).writerows(rows)  # a float is written as its repr
        stream.write(text.getvalue().encode())

    def write(block: Block) -> None:
        labels = block.label.tolist()
        named = labels if names is None else [names[label] for label in labels]
        first = [] if ids is None else [block.ids]
        cells = named, block.confidence.tolist(), block.size.tolist(), _json_sets(block, names)
        write_rows(zip(*first, *cells, strict=True))

    write_rows([(*([] if ids is None else ["id"]), "label", "confidence", "size", "set")])
    yield write


@contextmanager
def _jsonl(stream: BinaryIO, names: Names, ids: IdKind | None) -> Iterator[Write]:
    def write(block: Block) -> None:
        labels = map(_json_labels(names), block.label.tolist())
        known = [""] * len(block.label) if ids is None else [f'"id": {_json_id(one)}, ' for one in block.ids]
        rows = zip(known, labels, block.confidence.tolist(), _json_sets(block, names), block.size.tolist(), strict=True)
        lines = (
            f'{{{known}"label": {label}, "confidence": {sure!r}, "set": {inside}, "size": {size}}}\n'
            for known, label, sure, inside, size in rows
        )
        stream.write("".join(lines).encode())

    yield write


def _json_id(one: object) -> str:
    return json.dumps(one, ensure_ascii=False)


def _json_labels(names: Names) -> Callable[[int], str]:
    """How a label is written in JSON."""
    return str if names is None else [json.dumps(name, ensure_ascii=False) for name in names].__getitem__


def _json_sets(block: Block, names: Names) -> Iterator[str]:
    label = _json_labels(names)
    for begin, end in pairwise(block.offsets.tolist()):
        yield f"[{', '.join(map(label, block.members[begin:end].tolist()))}]"


@contextmanager
def _parquet(stream: BinaryIO, names: Names, ids: IdKind | None) -> Iterator[Write]:
    arrow, parquet = need("pyarrow", "io", "writing .parquet"), need("pyarrow.parquet", "io", "writing .parquet")
    kind = arrow.int32() if names is None else arrow.string()
    first = {} if ids is None else {"id": arrow.int64() if ids == "number" else arrow.string()}
    columns = first | {"label": kind, "confidence": arrow.float64(), "set": arrow.list_(kind), "size": arrow.int32()}
    schema = arrow.schema(columns)
    texts = None if names is None else arrow.array(names, kind)
    waiting: list[Any] = []
    n_bytes = 0

    def labels(numbers: NDArray[np.int32]) -> Any:
        return arrow.array(numbers) if texts is None else texts.take(arrow.array(numbers))

    def write(block: Block) -> None:
        sets = arrow.ListArray.from_arrays(arrow.array(block.offsets, arrow.int32()), labels(block.members))
        known = [arrow.array(block.ids, kind) for kind in first.values()]
        cells = [*known, labels(block.label), arrow.array(block.confidence), sets, arrow.array(block.size)]
        waiting.append(arrow.table(cells, schema=schema))
        nonlocal n_bytes
        n_bytes += waiting[-1].nbytes
        if n_bytes >= ROW_GROUP_BYTES:
            flush()

    def flush() -> None:
        nonlocal n_bytes
        if waiting:
            writer.write_table(arrow.concat_tables(waiting))
        waiting.clear()
        n_bytes = 0

    writer = parquet.ParquetWriter(stream, schema)
    try:
        yield write
        flush()
        writer.close()
    finally:
        # A writer left open would write its last words later, to a stream that is closed. Closing twice is nothing.
        with suppress(Exception):  # what went wrong is on its way already
            writer.close()


@contextmanager
def _npz(stream: BinaryIO, names: Names, ids: IdKind | None) -> Iterator[Write]:
    """Let arrays grow in nameless files beside the target; they become members of the archive at the end."""
    with ExitStack() as stack:
        folder = Path(stream.name).parent
        spools = {name: stack.enter_context(tempfile.TemporaryFile(dir=folder)) for name in ARRAYS}
        n_members, known = 0, []

        def append(name: str, values: NDArray[Any]) -> None:
            spools[name].write(values.astype(ARRAYS[name]).data)

        def write(block: Block) -> None:
            nonlocal n_members
            known.extend(block.ids)
            append("label", block.label)
            append("confidence", block.confidence)
            append("size", block.size)
            append("set_labels", block.members)
            append("set_offsets", block.offsets[1:] + n_members)
            n_members += len(block.members)

        append("set_offsets", np.zeros(1))
        yield write
        texts = {} if names is None else {"classes": np.asarray(names)}
        given = {} if ids is None else {"id": np.asarray(known, dtype=np.int64 if ids == "number" else np.str_)}
        _assemble(stream, spools, given | texts)


def _assemble(stream: BinaryIO, spools: Mapping[str, IO[bytes]], others: Mapping[str, NDArray[Any]]) -> None:
    with zipfile.ZipFile(stream, "w") as archive:
        for name, spool in spools.items():
            length = spool.tell() // np.dtype(ARRAYS[name]).itemsize
            spool.seek(0)
            with archive.open(f"{name}.npy", "w", force_zip64=True) as member:
                npy.write_array_header_1_0(member, {"descr": ARRAYS[name], "fortran_order": False, "shape": (length,)})
                shutil.copyfileobj(spool, member)
        for name, values in others.items():
            with archive.open(f"{name}.npy", "w", force_zip64=True) as member:
                npy.write_array(member, values, allow_pickle=False)


KINDS: dict[str, Callable[[BinaryIO, Names, IdKind | None], AbstractContextManager[Write]]] = {
    ".parquet": _parquet,
    ".csv": _csv,
    ".jsonl": _jsonl,
    ".npz": _npz,
}
PREDICTION_SUFFIXES = tuple(KINDS)
"""The endings of file names that predictions can be written to."""
