"""Files of predictions, written in blocks of rows: label, confidence and prediction set of every row.

`docs/file-formats.md` has the columns of each kind. Labels are class names where there are names, else column numbers;
a set lists its labels in the order of the columns; confidences are read back exactly.
"""

import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from itertools import pairwise
from pathlib import Path
from types import ModuleType
from typing import Any, BinaryIO, Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from thermoset.data.groups import read_groups
from thermoset.data.labels import class_names
from thermoset.errors import InputError
from thermoset.io.files import FilePath, as_path, errors_about, known_suffix, need, write_whole
from thermoset.levels import p_summary
from thermoset.quoting import quoted
from thermoset.text_tables import csv_text

Names = tuple[str, ...] | None
IdKind = Literal["number", "text"]

P_COLUMNS = ("credibility", "conformal_confidence", "p")  # where p-values are written
TAKEN = frozenset(("label", "confidence", "size", "set", "action", "group", *P_COLUMNS))
PIECE = 1 << 20  # cells of `sets` that are turned into lists at a time, however many rows come at once
ROW_GROUP_BYTES = 1 << 24  # rows of parquet wait until there are so many: small row groups are slow to read


class PredictionBlock(NamedTuple):
    """Predictions for some rows; the set of row i is `members[offsets[i]:offsets[i + 1]]`."""

    label: NDArray[np.int32]
    confidence: NDArray[np.float64]
    size: NDArray[np.int32]
    members: NDArray[np.int32]
    offsets: NDArray[np.int64]

    def with_names(self, names: Names) -> tuple[list[Any], list[list[Any]]]:
        """Labels and sets as they are written."""
        labels, members = (
            places.tolist() if names is None else [names[place] for place in places.tolist()]
            for places in (self.label, self.members)
        )
        return labels, [members[begin:end] for begin, end in pairwise(self.offsets.tolist())]


def prediction_block(label: NDArray[Any], confidence: NDArray[Any], sets: NDArray[Any]) -> PredictionBlock:
    """Gather the labels that are in each set."""
    # Flat, because NumPy takes several times as long to find what is true in two dimensions.
    width = sets.shape[1]
    cells = np.flatnonzero(sets)
    offsets = np.searchsorted(cells, width * np.arange(len(sets) + 1))
    members, size = (cells % max(width, 1)).astype(np.int32), np.diff(offsets).astype(np.int32)
    return PredictionBlock(label.astype(np.int32), confidence.astype(np.float64), size, members, offsets)


class ArrowPredictions:
    """Predictions as columns of Arrow."""

    def __init__(self, arrow: ModuleType, names: Names) -> None:
        self._arrow = arrow
        self._texts = None if names is None else arrow.array(names, arrow.string())
        kind = arrow.int32() if names is None else arrow.string()
        self.types = {"label": kind, "confidence": arrow.float64(), "set": arrow.list_(kind), "size": arrow.int32()}
        self.label_bytes = 4 if self._texts is None else 4 + self._texts.nbytes // len(self._texts)

    def columns(self, block: PredictionBlock) -> dict[str, Any]:
        """The columns of a block, by name, in the order and with the types of `types`."""
        arrow = self._arrow
        sets = arrow.ListArray.from_arrays(arrow.array(block.offsets, arrow.int32()), self._labels(block.members))
        confidence, size = arrow.array(block.confidence), arrow.array(block.size)
        return {"label": self._labels(block.label), "confidence": confidence, "set": sets, "size": size}

    def _labels(self, numbers: NDArray[np.int32]) -> Any:
        places = self._arrow.array(numbers)
        return places if self._texts is None else self._texts.take(places)


class Layout(NamedTuple):
    """What a file holds besides labels, confidences and sets."""

    names: Names
    ids: IdKind | None
    groups: bool
    n_p: int | None  # of how many classes p-values are written
    id_column: str = "id"
    actions: bool = False

    @property
    def before(self) -> list[str]:
        """Names of the columns that come before the predictions."""
        return [*([] if self.ids is None else [self.id_column]), *(["group"] if self.groups else [])]

    @property
    def after(self) -> list[str]:
        """Names of the columns that come after them."""
        return [*(["action"] if self.actions else []), *([] if self.n_p is None else P_COLUMNS)]

    @property
    def p_names(self) -> list[str]:
        """A name for each class that has a p-value."""
        return list(map(str, range(self.n_p or 0))) if self.names is None else list(self.names)


Write = Callable[[PredictionBlock, list[list[Any]], list[Any]], None]
"""Writes predictions, with what comes before and after them: a list for each column; p-values by row."""


class PredictionWriter:
    """Takes predictions block by block; created by `open_predictions`.

    Attributes
    ----------
    sizes : Counter
        How many of the rows written so far have a set of each size that occurs.
    """

    def __init__(self, path: Path, write: Write, layout: Layout) -> None:
        self._path, self._write, self._layout = path, write, layout
        self._n_classes = layout.n_p if layout.names is None else len(layout.names)
        self.sizes: Counter[int] = Counter()

    def write(
        self,
        labels: ArrayLike,
        confidence: ArrayLike,
        sets: ArrayLike,
        ids: Sequence[Any] | None = None,
        groups: object = None,
        p: ArrayLike | None = None,
        actions: Sequence[str] | None = None,
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
        groups : Groups or sequence, optional
            The group of each row, if the file was opened for them.
        p : float array (n, C), optional
            p-values of all classes, if the file was opened for them.
        actions : sequence of str, optional
            What is done with each row, if the file was opened for it.

        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     with open_predictions(f"{folder}/sets.jsonl") as out:
        ...         out.write(labels=[1], confidence=[0.75], sets=[[False, True]])
        ...     print(Path(f"{folder}/sets.jsonl").read_text())
        {"label": 1, "confidence": 0.75, "set": [1], "size": 1}
        """
        parts, layout = (np.asarray(labels), np.asarray(confidence), np.asarray(sets)), self._layout
        self._n_classes, n_rows = _check(*parts, self._n_classes), len(parts[0])
        for what, value, wanted in (
            ("ids", ids, layout.ids is not None),
            ("groups", groups, layout.groups),
            ("p", p, layout.n_p is not None),
            ("actions", actions, layout.actions),
        ):
            if (value is not None) != wanted:
                raise InputError(f"{what} must be given if the file was opened for it, and only then.", name=what)
        before = [] if ids is None else [_checked_ids(ids, n_rows, layout.ids)]
        before += [] if groups is None else [list(read_groups(groups, n_rows))]
        if actions is not None and len(actions) != n_rows:
            raise InputError(f"actions must be {n_rows} texts, one per row; got {len(actions)}.")
        table = None if p is None else np.asarray(p, dtype=np.float64)
        if table is not None and (table.shape != parts[2].shape or not np.all((table >= 0) & (table <= 1))):
            raise InputError(
                f"p must be p-values in [0, 1] of shape {parts[2].shape}; got {table.shape}, or other values."
            )
        step = max(1, PIECE // max(1, self._n_classes))
        with errors_about(self._path, "written"):
            for some in (slice(first, first + step) for first in range(0, n_rows, step)):
                block = prediction_block(*(part[some] for part in parts))
                after: list[Any] = [] if actions is None else [list(actions[some])]
                if table is not None:
                    after += [*(one.tolist() for one in p_summary(table[some])[1:]), table[some]]
                self._write(block, [column[some] for column in before], after)
                self.sizes.update(block.size.tolist())


def _checked_ids(ids: Sequence[Any], n_rows: int, wanted: IdKind | None) -> list[Any]:
    items, kind = list(ids), int if wanted == "number" else str
    if len(items) != n_rows or not all(isinstance(one, kind) for one in items):
        kinds = "whole numbers" if kind is int else "texts"
        raise InputError(f"ids must be {n_rows} {kinds}, one per row; got {len(items)}, or another type.")
    return items


def _check(label: NDArray[Any], sure: NDArray[Any], inside: NDArray[Any], n_classes: int | None) -> int:
    """Refuse what does not fit together; the number of classes."""
    if inside.ndim != 2 or inside.dtype != np.bool_ or inside.shape[1] != (n_classes or inside.shape[1]):
        wanted = f"(n, {'C' if n_classes is None else n_classes})"
        raise InputError(f"sets must be a boolean array {wanted}; got {inside.dtype}, shape {inside.shape}.")
    n_rows, width = inside.shape
    for name, values, kinds, wanted in (("labels", label, "iu", "whole numbers"), ("confidence", sure, "f", "floats")):
        if values.shape != (n_rows,) or (values.dtype.kind not in kinds and n_rows):
            raise InputError(
                f"{name} must be {n_rows} {wanted}, one per row; got {values.dtype}, shape {values.shape}."
            )
    if n_rows and (label.min() < 0 or label.max() >= width):
        raise InputError(f"labels must be in 0..{width - 1}; got {label.min()}..{label.max()}.")
    if not np.isfinite(sure).all():
        raise InputError("confidence must be finite; got NaN or inf, which JSON cannot hold.")
    return int(width)


@contextmanager
def open_predictions(
    path: FilePath,
    classes: Sequence[str] | None = None,
    *,
    ids: IdKind | None = None,
    id_column: str = "id",
    groups: bool = False,
    p_values: int | None = None,
    actions: bool = False,
) -> Iterator[PredictionWriter]:
    """Open a file of predictions; it appears under its name when the `with` block ends well, and never otherwise.

    Parameters
    ----------
    path : path
        The suffix decides: `.parquet`, `.csv` or `.jsonl`; `docs/file-formats.md` has their columns.
    classes : sequence of str, optional
        Class names, in the order of the columns.
    ids : "number" or "text", optional
        Rows have ids, which are all whole numbers or all text, and are written first.
    id_column : str
        What the column (key) of ids is called.
    groups : bool
        Rows have groups, which are written as text, before the predictions.
    p_values : int, optional
        Rows have p-values of so many classes, which is all there are.
    actions : bool
        Rows have actions: answer, choose or review.

    Raises
    ------
    InputError
        The kind of file is not known, or it cannot be written.
    MissingExtraError
        pyarrow is needed and not installed.

    >>> import tempfile
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
    if p_values is not None and names is not None and p_values != len(names):
        raise InputError(f"p_values must be the number of classes, {len(names)}; got {p_values}.")
    layout = Layout(names, ids, groups, p_values, id_column, actions)
    if ids is not None and id_column in {*TAKEN, *(f"p_{name}" for name in layout.p_names)}:
        raise InputError(
            f"ids cannot be called {quoted(id_column)}, as a column of predictions is. Rename their column."
        )
    with ExitStack() as stack:  # what the caller raises goes through as it is, and undoes what was written
        with errors_about(target, "written"):
            stream = stack.enter_context(write_whole(target))
            write = stack.enter_context(open_kind(stream, layout))
        yield PredictionWriter(target, write, layout)
        with errors_about(target, "written"):
            stack.pop_all().close()  # what comes last; then to disk and under its name


# -- formats -----------------------------------------------------------------------------------------------------------

_encode = json.JSONEncoder(ensure_ascii=False).encode


@contextmanager
def _csv(stream: BinaryIO, layout: Layout) -> Iterator[Write]:
    def write(block: PredictionBlock, before: list[list[Any]], after: list[Any]) -> None:
        labels, sets = block.with_names(layout.names)
        columns = [*before, labels, block.confidence.tolist(), block.size.tolist(), map(_encode, sets)]
        for one in after:
            columns += one.T.tolist() if isinstance(one, np.ndarray) else [one]
        stream.write(csv_text(zip(*columns, strict=True), "\r\n").encode())

    later = [*layout.after[: -1 if layout.n_p else None], *(f"p_{name}" for name in layout.p_names if layout.n_p)]
    stream.write(csv_text([(*layout.before, "label", "confidence", "size", "set", *later)], "\r\n").encode())
    yield write


@contextmanager
def _jsonl(stream: BinaryIO, layout: Layout) -> Iterator[Write]:
    keys = [*layout.before, "label", "confidence", "set", "size", *layout.after]

    def write(block: PredictionBlock, before: list[list[Any]], after: list[Any]) -> None:
        labels, sets = block.with_names(layout.names)
        after = [one.tolist() if isinstance(one, np.ndarray) else one for one in after]
        if layout.n_p is not None and layout.names is not None:
            after[-1] = [dict(zip(layout.names, row, strict=True)) for row in after[-1]]
        columns = [*before, labels, block.confidence.tolist(), sets, block.size.tolist(), *after]
        lines = (_encode(dict(zip(keys, row, strict=True))) for row in zip(*columns, strict=True))
        stream.write("".join(f"{line}\n" for line in lines).encode())

    yield write


@contextmanager
def _parquet(stream: BinaryIO, layout: Layout) -> Iterator[Write]:
    arrow, parquet = need("pyarrow", "io", "writing .parquet"), need("pyarrow.parquet", "io", "writing .parquet")
    predictions, number, text = ArrowPredictions(arrow, layout.names), arrow.float64(), arrow.string()
    types = {name: arrow.int64() if layout.ids == "number" and not i else text for i, name in enumerate(layout.before)}
    later = {"action": text} | dict(zip(P_COLUMNS, (number, number, arrow.list_(number)), strict=True))
    types |= predictions.types | {name: later[name] for name in layout.after}
    row_bytes, label_bytes = 16 + 8 * (layout.n_p or 0), predictions.label_bytes
    schema, waiting, n_bytes = arrow.schema(types), list[Any](), 0

    def column(name: str, values: Any) -> Any:
        if isinstance(values, np.ndarray):
            return arrow.FixedSizeListArray.from_arrays(values.ravel(), values.shape[1]).cast(types[name])
        return arrow.array(values, types[name])

    def write(block: PredictionBlock, before: list[list[Any]], after: list[Any]) -> None:
        arrays = [*map(column, layout.before, before), *predictions.columns(block).values()]
        table = arrow.table([*arrays, *map(column, layout.after, after)], schema=schema)
        nonlocal n_bytes
        filled, begin = n_bytes + np.cumsum(row_bytes + label_bytes * block.size.astype(np.int64)), 0
        # A row group ends with the row that fills it, wherever blocks end: their size must not show in the file.
        while filled.size and filled[-1] >= ROW_GROUP_BYTES:
            end = begin + int(np.searchsorted(filled[begin:], ROW_GROUP_BYTES)) + 1
            waiting.append(table.slice(begin, end - begin))
            flush()
            filled, begin = filled - filled[end - 1], end
        waiting.append(table.slice(begin))
        n_bytes = int(filled[-1]) if filled.size else n_bytes

    def flush() -> None:
        if waiting:
            writer.write_table(arrow.concat_tables(waiting).combine_chunks())
        waiting.clear()

    writer = parquet.ParquetWriter(stream, schema)
    try:
        yield write
        flush()
        writer.close()
    finally:
        # A writer left open would write its last words later, to a stream that is closed. Closing twice is nothing.
        with suppress(Exception):  # what went wrong is on its way already
            writer.close()


KINDS: dict[str, Callable[[BinaryIO, Layout], AbstractContextManager[Write]]] = {
    ".parquet": _parquet,
    ".csv": _csv,
    ".jsonl": _jsonl,
}
PREDICTION_SUFFIXES = tuple(KINDS)
"""The endings of file names that predictions can be written to."""


def write_table(path: FilePath, columns: Mapping[str, list[Any]]) -> None:
    """Write columns of equal length to a `.csv` or `.parquet` file, whole or not at all."""
    target = as_path(path)
    suffix = known_suffix(target, (".csv", ".parquet"))
    rows = [tuple(columns), *zip(*columns.values(), strict=True)]
    with errors_about(target, "written"), write_whole(target) as stream:
        if suffix == ".csv":
            stream.write(csv_text(rows).encode())
        else:
            arrow, parquet = (need(name, "io", "writing parquet") for name in ("pyarrow", "pyarrow.parquet"))
            parquet.write_table(arrow.table(dict(columns)), stream)
