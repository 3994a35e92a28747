"""The rows of one file, however it holds them: what `load` and `open` read from, and `open_blocks` in blocks."""

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from thermoset.arrays import Block
from thermoset.bounds import whole_number
from thermoset.data import Groups, Logits, checked_logits
from thermoset.data.groups import read_groups
from thermoset.data.guards import LOGITS, PROBABILITIES
from thermoset.data.labels import class_names, column_indices
from thermoset.data.reading import GROUPS
from thermoset.data.stored import Shard
from thermoset.errors import FileFormatError, InputError
from thermoset.io.arrays import metadata_files
from thermoset.io.files import MOST_BYTES, FilePath, check_size, errors_about, existing_file
from thermoset.io.formats import HIVE, READABLE, format_of
from thermoset.io.roles import (
    Layout,
    Request,
    TopColumns,
    all_values,
    check_columns,
    find_roles,
    find_top,
    is_value_file,
    read_as_numbers,
    request,
    texts,
)
from thermoset.io.table import TEXT, Column, Held, Table, row_bytes
from thermoset.quoting import quoted

BLOCK_BYTES = 1 << 24
_VALUE_BYTES = 8  # of a float64, the largest type of logits


@dataclass(frozen=True)
class Source(Shard):
    """Rows of one file."""

    path: Path
    request: Request = field(repr=False)
    layout: Layout = field(repr=False)
    line: Callable[[int], int] | None = field(repr=False)
    stamp: tuple[int, int] = field(repr=False)

    @property
    def n_bytes(self) -> int:
        """What all rows take in memory, with labels and groups."""
        scores, labels, groups = self.layout.scores, self.layout.labels, self.layout.groups
        parts = [*(scores.parts.values() if isinstance(scores, TopColumns) else [scores]), labels, groups]
        return self.n_rows * sum(row_bytes(part) for part in parts if part is not None)

    def read(self, start: int, stop: int) -> Block:
        """Rows start to stop - 1, C-contiguous and checked."""
        with errors_about(self.path):
            if _stamp(self.path) != self.stamp:
                raise InputError("was written to after it was opened. Open it again.")
        return self.rows(start, stop).logits

    def rows(self, start: int, stop: int) -> Logits:
        """Rows start to stop - 1, checked, without labels; what is said of a bad row counts rows of the file."""
        scores, groups = self.layout.scores, self.layout.groups
        with self.errors(start, "" if stop == self.n_rows else f" Rows from {stop} on were not looked at."):
            known = None if groups is None else texts(groups.read(start, stop))
            if isinstance(scores, TopColumns):
                return scores.rows(start, stop, self.classes, known)
            return as_rows(self.request, scores.read(start, stop), self.classes, known)

    @contextmanager
    def errors(self, start: int = 0, more: str = "") -> Iterator[None]:
        """Say of an error which file it is about, and which row, counted from `start`; in a text also which line."""
        with errors_about(self.path):
            try:
                yield
            except InputError as error:
                if error.row is None:
                    raise
                row = start + error.row
                line = "" if self.line is None else f" It is in line {self.line(row)}."
                raise error.at(row, line + more) from None

    def check_columns(self) -> None:
        """Refuse columns that do not look like classes, unless the user has said that they are."""
        with self.errors():
            check_columns(self.layout, self.request)

    def label_values(self) -> Any:
        """The labels as the file has them, missing ones too; None if it has none."""
        if self.layout.labels is None:
            return None
        with self.errors():
            values = all_values(self.layout.labels, self.request.max_bytes)
            return read_as_numbers(values, self.classes, self.layout.columns)

    def labels(self) -> NDArray[np.int64] | None:
        """The label of each row as a column number; None if there are none."""
        if (values := self.label_values()) is None:
            return None
        with self.errors():
            return column_indices(values, (self.n_rows, self.n_classes), self.classes)

    def groups(self) -> Groups | None:
        """The group of each row; None if there are none."""
        if self.layout.groups is None:
            return None
        with self.errors():
            return read_groups(all_values(self.layout.groups, self.request.max_bytes), self.n_rows)


def open_table(path: FilePath, request: Request) -> tuple[Path, Table]:
    """Look at a file's header and what lies next to it; rows are not read."""
    source, suffix = existing_file(path, READABLE)
    with errors_about(source):
        return source, format_of(suffix).read(source, request)


def open_source(path: FilePath, request: Request, *, fewest: int = 1) -> Source:
    """Find out what a file holds where; it must have so many rows."""
    source, table = open_table(path, request)
    with errors_about(source):
        stamp = _stamp(source)
        folder = hive_value(source, request.groups or GROUPS[0]) if request.find_groups else None
        inside = request if folder is None else request._replace(find_groups=False)
        layout = find_top(table, inside) or find_roles(table, inside)
        scores = layout.scores
        if folder is not None:
            layout = layout._replace(groups=Held(np.broadcast_to(np.array(folder, TEXT), scores.shape[:1])))
        is_top = isinstance(scores, TopColumns)
        if not is_top and (len(scores.shape) != 2 or scores.shape[1] < 2 or scores.dtype.kind not in "fiu"):
            as_rows(request, np.broadcast_to(np.zeros((), scores.dtype), scores.shape))  # says what is wrong
        n_rows, n_classes = scores.shape
        if n_rows < fewest:
            raise FileFormatError("the file has no rows.")
        check_size(8 * n_classes if is_top else row_bytes(scores), request.max_bytes, "a row")
        if n_rows == 0 and layout.classes is None and request.n_options is not None:
            n_classes = request.n_options  # a column of lists without rows does not tell how long they are
        classes = None if layout.classes is None else class_names(layout.classes, n_classes)
        # A row that is one of logits and one of probabilities: what type does it become?
        kind = np.dtype(float) if is_top else as_rows(request, np.array([[1, 0]], dtype=scores.dtype)).logits.dtype
        name = f"{source}[{layout.array}]" if layout.array and not table.cells else str(source)
        contains = PROBABILITIES if request.probabilities else LOGITS
        return Source(name, n_rows, n_classes, kind, classes, contains, source, request, layout, table.line, stamp)


def as_rows(request: Request, scores: NDArray[Any], classes: Any = None, groups: Any = None) -> Logits:
    """Rows of a file, checked."""
    make: Any = Logits.from_probabilities if request.probabilities else checked_logits
    rows: Logits = make(scores, None, classes, groups)
    return rows


def _stamp(path: Path) -> tuple[int, int]:
    """What tells whether a file was written to: size and time of change; of a Zarr folder those of its metadata."""
    stats = [part.stat() for part in (metadata_files(path) if path.is_dir() else [path])]
    return sum(one.st_size for one in stats), sum(one.st_mtime_ns for one in stats)


def hive_value(path: Path, key: str) -> str | None:
    """The value in the nearest folder called `key=value` above a file."""
    pairs = (re.fullmatch(HIVE, part) for part in reversed(path.parts[:-1]))
    return next((pair[2] for pair in pairs if pair and pair[1] == key), None)


# -- in blocks of rows -------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class LogitBlocks:
    """The rows of an open file, as `Logits` without labels, with their groups; each iteration starts at the first row.

    Attributes
    ----------
    n_rows, n_classes : int
    classes : tuple of str, or None
    block_rows : int
        The most rows a block has.
    id_kind : "number", "text", or None
        What the ids of rows are, where they were asked for.
    has_groups : bool
        Whether the rows have groups.
    """

    n_rows: int
    n_classes: int
    classes: tuple[str, ...] | None
    block_rows: int
    has_groups: bool
    id_kind: Literal["number", "text"] | None
    _source: Source = field(repr=False)

    def __iter__(self) -> Iterator[Logits]:
        for start in range(0, self.n_rows, self.block_rows):
            yield self._source.rows(start, min(start + self.block_rows, self.n_rows))

    def with_ids(self) -> Iterator[tuple[Logits, list[Any]]]:
        """The blocks with the ids of their rows; the file must have been opened with `id_column`."""
        column, done = self._source.layout.ids, 0
        if column is None:
            raise InputError("there are no ids: name their column when the file is opened, as id_column=.")
        for block in self:
            with self._source.errors(done):
                ids = [self._id(one, row) for row, one in enumerate(texts(column.read(done, done + len(block))))]
            yield block, ids
            done += len(block)

    def _id(self, value: Any, row: int) -> int | str:
        name = self._source.request.id_column
        one = value.item() if isinstance(value, np.generic) else value
        if one is None or (isinstance(one, str) and not one.strip()):
            raise InputError("is missing; expected an id.", row=row, name=name)
        with suppress(UnicodeEncodeError, OverflowError):
            if self.id_kind == "text" and isinstance(one, (str, int)) and not isinstance(one, bool):
                return str(one).encode().decode()  # JSON may have half of a surrogate pair, which no file can hold
            is_whole = isinstance(one, int) or (isinstance(one, float) and abs(one) < 2**53 and one == int(one))
            if self.id_kind == "number" and is_whole and abs(one) < 2**63:
                return int(one)
        raise InputError(f"is {quoted(one)}; ids are whole numbers below 2**63, or text.", row=row, name=name)


@contextmanager
def open_blocks(
    path: FilePath,
    *,
    probabilities: bool = False,
    labels: str | None = None,
    classes: Sequence[str] | None = None,
    id_column: str | None = None,
    groups: str | None = None,
    n_options: int | None = None,
    ignore: Sequence[str] = (),
    known: Sequence[str] | None = None,
    block_bytes: int = BLOCK_BYTES,
    max_bytes: int | None = None,
) -> Iterator[LogitBlocks]:
    """Open a file of logits to read it in blocks of rows.

    The blocks, one after the other, are the logits, class names and groups that `load` gives, bit for bit, and what
    `load` refuses is refused, when it is reached; but a file without rows has no blocks. Labels are not read. The file
    may be larger than the memory, but for compressed npz in Fortran order and an array in json, which are read whole.

    Parameters
    ----------
    path : path
        A file of any kind that `load` reads.
    probabilities : bool
        The file holds probabilities; see `load`.
    labels : str, optional
        The column of labels, where it is not called `label` or `labels`: it is not a class, and is not read.
    id_column : str, optional
        The column that holds ids: whole numbers or text, not a class. `LogitBlocks.with_ids` gives them.
    groups : str, optional
        The column (array, dataset) that holds the group of each row, or the key of a folder above the file that is
        called `key=value`; see `load`.
    classes, known, n_options, ignore
        As for `load`.
    block_bytes : int
        A block has at most as many rows as fit, as float64, into so many bytes, and at least one.
    max_bytes : int, optional
        Refuse a row, the class names, or an array that must be read whole, if they declare more bytes than this; by
        default half of the machine's memory. No block is larger.

    Raises
    ------
    InputError, FileFormatError, MissingExtraError
        As `load`; when the file is opened, or when the bad part of it is reached.

    >>> import tempfile
    >>> from thermoset.io import save
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     save(f"{folder}/new.npz", Logits([[2.0, 0.5], [0.1, 1.2], [0.0, 3.0]]))
    ...     with open_blocks(f"{folder}/new.npz", block_bytes=32) as blocks:
    ...         print(blocks.n_rows, blocks.n_classes, [len(block) for block in blocks])
    3 2 [2, 1]
    """
    columns: dict[str, object] = {"labels": labels, "groups": groups}
    for what, name in columns.items():
        if name is not None and (not isinstance(name, str) or is_value_file(name)):
            raise InputError(f"{what} must be the name of a column where files are read in blocks; got {quoted(name)}.")
    options = request(
        probabilities,
        max_bytes,
        labels=labels,
        groups=groups,
        classes=classes,
        id_column=id_column,
        ignore=ignore,
        known=known,
        n_options=n_options,
    )
    size = whole_number(block_bytes, "block_bytes", 1, MOST_BYTES, "Try 2**27.")
    source = open_source(path, options._replace(find_labels=False), fewest=0)
    with suppress(FileFormatError):  # rows that cannot be read are reported when they are reached
        source.check_columns()
    with errors_about(source.path):
        ids = source.layout.ids
        id_kind = None if ids is None else _id_kind(ids, id_column or "")
    block_rows = max(1, min(size, options.max_bytes) // (source.n_classes * _VALUE_BYTES))
    has_groups = source.layout.groups is not None
    # Not inside errors_about: the caller's own errors are not about this file.
    yield LogitBlocks(source.n_rows, source.n_classes, source.classes, block_rows, has_groups, id_kind, source)


def _id_kind(column: Column, name: str) -> Literal["number", "text"]:
    """Whether ids are whole numbers or text; the first tells where a column may hold anything."""
    kind = column.dtype.kind
    if len(column.shape) != 1 or kind not in "iufOUS":
        raise FileFormatError(
            f"column {quoted(name)} is {column.dtype}, shape {column.shape}; ids are numbers or text."
        )
    if kind == "O":
        first = column.read(0, min(1, column.shape[0])).tolist()
        return "number" if first and isinstance(first[0], (int, float)) else "text"
    return "text" if kind in "US" or column.dtype == np.uint64 else "number"
