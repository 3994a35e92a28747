"""Files of predictions, written in blocks of rows: label, confidence and prediction set of every row.

| suffix | content |
|---|---|
| `.parquet` | columns `label`, `confidence`, `set` (lists), `size` |
| `.csv` | columns `label`, `confidence`, `size`, `set`; a set is a JSON list in one cell |
| `.jsonl` | one object a line: `label`, `confidence`, `set`, `size` |

Labels are class names where there are names, else column numbers. Where rows have ids, their column (key) comes first,
called `id` unless it has another name, then `group`, as text, where rows have groups. A set lists its labels in the
order of the columns. Confidences are written as the float64 they equal, and are read back exactly. Where the predictor
has an answer rule, `action` follows: answer, choose or review.

Where p-values are written, `credibility` and `conformal_confidence` (see `conformal.p_summary`) and the p-values of all
classes follow: a list `p` in parquet, columns `p_<class>` in csv, an object `p` by class in jsonl (a list where classes
have no names).
"""

import csv
import io
import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from itertools import pairwise
from pathlib import Path
from types import ModuleType
from typing import Any, BinaryIO, Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from thermoset.data.arrays import class_names
from thermoset.data.groups import Groups, read_groups
from thermoset.errors import InputError
from thermoset.io.files import FilePath, as_path, errors_about, known_suffix, need, write_whole
from thermoset.p_summary import PSummary, p_summary
from thermoset.quoting import quoted

Names = tuple[str, ...] | None
"""Class names, in the order of the columns."""


class PredictionBlock(NamedTuple):
    """Predictions for some rows; the set of row i is `members[offsets[i]:offsets[i + 1]]`."""

    label: NDArray[np.int32]
    confidence: NDArray[np.float64]
    size: NDArray[np.int32]
    members: NDArray[np.int32]
    offsets: NDArray[np.int64]


def prediction_block(label: NDArray[Any], confidence: NDArray[Any], sets: NDArray[Any]) -> PredictionBlock:
    """Gather the labels that are in each set.

    >>> prediction_block(np.array([1]), np.array([0.75]), np.array([[False, True, True]])).members
    array([1, 2], dtype=int32)
    """
    # Flat, because NumPy takes several times as long to find what is true in two dimensions.
    width = sets.shape[1]
    found = np.flatnonzero(sets)
    offsets = np.searchsorted(found, width * np.arange(len(sets) + 1))
    members, size = (found % max(width, 1)).astype(np.int32), np.diff(offsets).astype(np.int32)
    return PredictionBlock(label.astype(np.int32), confidence.astype(np.float64), size, members, offsets)


def joined_blocks(blocks: Sequence[PredictionBlock]) -> PredictionBlock:
    """The rows of all blocks, one after another; there may be none.

    >>> one = prediction_block(np.array([1]), np.array([0.75]), np.array([[False, True, True]]))
    >>> joined_blocks([one, one]).offsets
    array([0, 2, 4])
    """
    label, confidence, size, members = (
        np.concatenate([np.empty(0, dtype), *(block[place] for block in blocks)])
        for place, dtype in enumerate((np.int32, np.float64, np.int32, np.int32))
    )
    offsets = np.concatenate([[0], np.cumsum(size, dtype=np.int64)])
    return PredictionBlock(label, confidence, size, members, offsets)


class ArrowPredictions:
    """Predictions as columns of Arrow; labels are names where classes have names, else column numbers.

    >>> import pyarrow
    >>> block = prediction_block(np.array([1]), np.array([0.75]), np.array([[False, True]]))
    >>> ArrowPredictions(pyarrow, ("cat", "dog")).columns(block)["set"].to_pylist()
    [['dog']]
    """

    def __init__(self, arrow: ModuleType, names: Names) -> None:
        self._arrow = arrow
        self._texts = None if names is None else arrow.array(names, arrow.string())
        kind = arrow.int32() if names is None else arrow.string()
        self.types = {"label": kind, "confidence": arrow.float64(), "set": arrow.list_(kind), "size": arrow.int32()}

    @property
    def label_bytes(self) -> int:
        """About what a label of a set takes."""
        return 4 if self._texts is None else 4 + self._texts.nbytes // len(self._texts)

    def columns(self, block: PredictionBlock) -> dict[str, Any]:
        """The columns of a block, by name, in the order and with the types of `types`."""
        arrow = self._arrow
        sets = arrow.ListArray.from_arrays(arrow.array(block.offsets, arrow.int32()), self._labels(block.members))
        confidence, size = arrow.array(block.confidence), arrow.array(block.size)
        return {"label": self._labels(block.label), "confidence": confidence, "set": sets, "size": size}

    def _labels(self, numbers: NDArray[np.int32]) -> Any:
        places = self._arrow.array(numbers)
        return places if self._texts is None else self._texts.take(places)


IdKind = Literal["number", "text"]

P_COLUMNS = ("credibility", "conformal_confidence", "p")
"""What files hold besides, where p-values are written."""


class PValues(NamedTuple):
    """p-values of some rows, (n, C), and what they come to."""

    table: NDArray[np.float64]
    told: PSummary

    @classmethod
    def of(cls, table: NDArray[np.float64]) -> "PValues":
        """As a table of them says."""
        return cls(table, p_summary(table))

    @property
    def columns(self) -> tuple[NDArray[np.float64], ...]:
        """As `P_COLUMNS` names them."""
        return self.told.credibility, self.told.confidence, self.table


class Block(NamedTuple):
    """Checked predictions, and the ids, groups and p-values of their rows: none if rows have none."""

    found: PredictionBlock
    ids: list[Any]
    groups: Groups | None
    p: PValues | None
    actions: list[str] | None = None

    @property
    def after(self) -> list[list[str]]:
        """The columns that come right after the predictions."""
        return [] if self.actions is None else [self.actions]

    @property
    def beside(self) -> list[list[Any]]:
        """The columns that come before the predictions."""
        return [*([self.ids] if self.ids else []), *([] if self.groups is None else [list(self.groups)])]


class Layout(NamedTuple):
    """What a file holds.

    Class names, of which kind ids are, whether rows have groups, of how many classes p-values, the name of the ids, and
    whether rows have actions.
    """

    names: Names
    ids: IdKind | None
    groups: bool
    n_p: int | None
    id_column: str = "id"
    actions: bool = False

    @property
    def after(self) -> list[str]:
        """Names of the columns that come right after the predictions."""
        return ["action"] if self.actions else []

    @property
    def beside(self) -> list[str]:
        """Names of the columns that come before the predictions."""
        return [*([] if self.ids is None else [self.id_column]), *(["group"] if self.groups else [])]

    @property
    def p_names(self) -> list[str]:
        """A name for each class that has a p-value."""
        return list(map(str, range(self.n_p or 0))) if self.names is None else list(self.names)


Write = Callable[[Block], None]

PIECE = 1 << 20  # cells of `sets` that are turned into lists at a time, however many rows come at once
TAKEN = frozenset(("label", "confidence", "size", "set", "action", "group", *P_COLUMNS))  # names of columns and keys
ROW_GROUP_BYTES = 1 << 24  # rows of parquet wait until there are so many: small row groups are slow to read


class PredictionWriter:
    """Takes predictions block by block; made by `open_predictions`.

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
        parts = np.asarray(labels), np.asarray(confidence), np.asarray(sets)
        self._n_classes = _check(*parts, self._n_classes)
        given, table = self._checked_ids(ids, len(parts[0])), self._checked_p(p, parts[2].shape)
        known, done = self._checked_groups(groups, len(parts[0])), self._checked_actions(actions, len(parts[0]))
        step = max(1, PIECE // max(1, self._n_classes))
        with errors_about(self._path, "written"):
            for first in range(0, len(parts[0]), step):
                some = slice(first, first + step)
                found = prediction_block(*(part[some] for part in parts))
                of_groups = None if known is None else known.take(some)
                p_values = None if table is None else PValues.of(table[some])
                self._write(Block(found, given[some], of_groups, p_values, None if done is None else done[some]))
                self.sizes.update(found.size.tolist())

    def _checked_ids(self, ids: Sequence[Any] | None, n_rows: int) -> list[Any]:
        if (ids is None) != (self._layout.ids is None):
            raise InputError("ids must be given if the file was opened for them, and only then. See open_predictions.")
        given = [] if ids is None else list(ids)
        kind = int if self._layout.ids == "number" else str
        if ids is not None and (len(given) != n_rows or not all(isinstance(one, kind) for one in given)):
            wanted = "whole numbers" if kind is int else "texts"
            raise InputError(f"ids must be {n_rows} {wanted}, one per row; got {len(given)}, or another type.")
        return given

    def _checked_groups(self, groups: object, n_rows: int) -> Groups | None:
        if (groups is not None) != self._layout.groups:
            raise InputError(
                "groups must be given if the file was opened for them, and only then. See open_predictions."
            )
        return None if groups is None else read_groups(groups, n_rows)

    def _checked_actions(self, actions: Sequence[str] | None, n_rows: int) -> list[str] | None:
        if (actions is not None) != self._layout.actions or (actions is not None and len(actions) != n_rows):
            raise InputError(
                f"actions must be {n_rows} texts if the file was opened for them, else None. See open_predictions."
            )
        return None if actions is None else list(actions)

    def _checked_p(self, p: ArrayLike | None, shape: tuple[int, ...]) -> NDArray[np.float64] | None:
        if (p is None) != (self._layout.n_p is None):
            raise InputError("p must be given if the file was opened for it, and only then. See open_predictions.")
        if p is None:
            return None
        table = np.asarray(p, dtype=np.float64)
        if table.shape != shape or not np.all((table >= 0) & (table <= 1)):
            raise InputError(f"p must be p-values in [0, 1] of shape {shape}; got {table.shape}, or other values.")
        return table


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
        The suffix decides: `.parquet`, `.csv` or `.jsonl`; see `thermoset.io.predictions`.
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


def _check(label: NDArray[Any], sure: NDArray[Any], inside: NDArray[Any], n_classes: int | None) -> int:
    """Refuse what does not fit together; the number of classes."""
    if inside.ndim != 2 or inside.dtype != np.bool_ or inside.shape[1] != (n_classes or inside.shape[1]):
        wanted = f"(n, {'C' if n_classes is None else n_classes})"
        raise InputError(f"sets must be a boolean array {wanted}; got {inside.dtype}, shape {inside.shape}.")
    n_rows, width = inside.shape
    for name, values, kinds in (("labels", label, "iu"), ("confidence", sure, "f")):
        if values.shape != (n_rows,) or (values.dtype.kind not in kinds and n_rows):
            wanted = "whole numbers" if kinds == "iu" else "floats"
            raise InputError(
                f"{name} must be {n_rows} {wanted}, one per row; got {values.dtype}, shape {values.shape}."
            )
    if n_rows and (label.min() < 0 or label.max() >= width):
        raise InputError(f"labels must be in 0..{width - 1}; got {label.min()}..{label.max()}.")
    if not np.isfinite(sure).all():
        raise InputError("confidence must be finite; got NaN or inf, which JSON cannot hold.")
    return int(width)


@contextmanager
def _csv(stream: BinaryIO, layout: Layout) -> Iterator[Write]:
    names, n_p = layout.names, layout.n_p

    def write_rows(rows: Iterable[tuple[Any, ...]]) -> None:
        text = io.StringIO(newline="")
        csv.writer(text).writerows(rows)  # a float is written as its repr
        stream.write(text.getvalue().encode())

    def write(block: Block) -> None:
        found = block.found
        labels = found.label.tolist()
        named = labels if names is None else [names[label] for label in labels]
        cells = named, found.confidence.tolist(), found.size.tolist(), _json_sets(found, names)
        last = [] if block.p is None else np.column_stack(block.p.columns).T.tolist()
        write_rows(zip(*block.beside, *cells, *block.after, *last, strict=True))

    p_columns = [] if n_p is None else [*list(P_COLUMNS)[:-1], *(f"p_{name}" for name in layout.p_names)]
    write_rows([(*layout.beside, "label", "confidence", "size", "set", *layout.after, *p_columns)])
    yield write


@contextmanager
def _jsonl(stream: BinaryIO, layout: Layout) -> Iterator[Write]:
    names = layout.names

    def write(block: Block) -> None:
        found = block.found
        labels = map(_json_labels(names), found.label.tolist())
        before = [""] * len(found.label)
        for key, column in zip(layout.beside, block.beside, strict=True):
            before = [
                f"{head}{_json_value(key)}: {_json_value(one)}, " for head, one in zip(before, column, strict=True)
            ]
        after = iter([""] * len(found.label) if block.p is None else _json_p(block.p, names))
        if block.actions is not None:
            after = (f', "action": {_json_value(one)}{p}' for one, p in zip(block.actions, after, strict=True))
        sure, sets, sizes = found.confidence.tolist(), _json_sets(found, names), found.size.tolist()
        lines = (
            f'{{{head}"label": {label}, "confidence": {sure!r}, "set": {inside}, "size": {size}{tail}}}\n'
            for head, label, sure, inside, size, tail in zip(before, labels, sure, sets, sizes, after, strict=True)
        )
        stream.write("".join(lines).encode())

    yield write


def _json_p(p: PValues, names: Names) -> Iterator[str]:
    labels = None if names is None else [f"{json.dumps(name, ensure_ascii=False)}: " for name in names]
    for credible, sure, row in zip(*(column.tolist() for column in p.columns), strict=True):
        cells = row if labels is None else [f"{label}{one!r}" for label, one in zip(labels, row, strict=True)]
        table = f"[{', '.join(map(repr, row))}]" if labels is None else f"{{{', '.join(cells)}}}"
        yield f', "credibility": {credible!r}, "conformal_confidence": {sure!r}, "p": {table}'


def _json_value(one: object) -> str:
    return json.dumps(one, ensure_ascii=False)


def _json_labels(names: Names) -> Callable[[int], str]:
    """How a label is written in JSON."""
    return str if names is None else [json.dumps(name, ensure_ascii=False) for name in names].__getitem__


def _json_sets(block: PredictionBlock, names: Names) -> Iterator[str]:
    label = _json_labels(names)
    for begin, end in pairwise(block.offsets.tolist()):
        yield f"[{', '.join(map(label, block.members[begin:end].tolist()))}]"


@contextmanager
def _parquet(stream: BinaryIO, layout: Layout) -> Iterator[Write]:
    n_p = layout.n_p
    arrow, parquet = need("pyarrow", "io", "writing .parquet"), need("pyarrow.parquet", "io", "writing .parquet")
    id_type = arrow.int64() if layout.ids == "number" else arrow.string()
    first = {name: id_type if name == layout.id_column else arrow.string() for name in layout.beside}
    predictions = ArrowPredictions(arrow, layout.names)
    number = arrow.float64()
    last = {} if n_p is None else dict(zip(P_COLUMNS, (number, number, arrow.list_(number)), strict=True))
    schema = arrow.schema(first | predictions.types | dict.fromkeys(layout.after, arrow.string()) | last)
    cost = RowCost(16 + 8 * (n_p or 0), predictions.label_bytes)
    waiting: list[Any] = []
    n_bytes = 0

    def write(block: Block) -> None:
        before = [arrow.array(column, kind) for column, kind in zip(block.beside, first.values(), strict=True)]
        after = [arrow.array(column, arrow.string()) for column in block.after]
        cells = [*before, *predictions.columns(block.found).values(), *after, *_arrow_p(arrow, block.p)]
        nonlocal n_bytes
        begin, table = 0, arrow.table(cells, schema=schema)
        # A row group ends with the row that fills it, wherever blocks end: their size must not show in the file.
        for end in _row_groups(block.found.size, cost, n_bytes):
            waiting.append(table.slice(begin, end - begin))
            flush()
            begin, n_bytes = end, 0
        waiting.append(table.slice(begin))
        n_bytes += int(cost.of(block.found.size[begin:]).sum())

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


def _arrow_p(arrow: ModuleType, p: PValues | None) -> list[Any]:
    if p is None:
        return []
    n_rows, n_classes = p.table.shape
    offsets = arrow.array(n_classes * np.arange(n_rows + 1), arrow.int32())
    lists = arrow.ListArray.from_arrays(offsets, arrow.array(p.table.ravel()))
    return [arrow.array(p.told.credibility), arrow.array(p.told.confidence), lists]


class RowCost(NamedTuple):
    """About how many bytes a row takes: by itself, and for each label of its set."""

    row: int
    label: int

    def of(self, sizes: NDArray[np.int32]) -> NDArray[np.int64]:
        """Bytes of rows, by the sizes of their sets."""
        return self.row + sizes.astype(np.int64) * self.label


def _row_groups(sizes: NDArray[np.int32], cost: RowCost, waiting: int) -> list[int]:
    """The rows of a block after which a row group is full, given the bytes that are waiting to be written."""
    filled = waiting + np.cumsum(cost.of(sizes))
    ends: list[int] = []
    while filled.size and filled[-1] >= ROW_GROUP_BYTES:
        end = int(np.searchsorted(filled, ROW_GROUP_BYTES)) + 1
        ends.append(end + (ends[-1] if ends else 0))
        filled = filled[end:] - filled[end - 1]
    return ends


KINDS: dict[str, Callable[[BinaryIO, Layout], AbstractContextManager[Write]]] = {
    ".parquet": _parquet,
    ".csv": _csv,
    ".jsonl": _jsonl,
}
PREDICTION_SUFFIXES = tuple(KINDS)
"""The endings of file names that predictions can be written to."""
