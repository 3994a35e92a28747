"""The rows of one file, however it holds them: what `load`, `open` and `open_blocks` read from."""

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from thermoset.arrays import Block
from thermoset.data import Groups, Logits, checked_logits
from thermoset.data.groups import read_groups
from thermoset.data.guards import LOGITS, PROBABILITIES
from thermoset.data.labels import class_names, column_indices
from thermoset.data.reading import GROUPS
from thermoset.errors import FileFormatError, InputError
from thermoset.io.arrays import metadata_files
from thermoset.io.files import FilePath, check_size, errors_about, existing_file
from thermoset.io.formats import HIVE, READABLE, format_of
from thermoset.io.roles import (
    Layout,
    Request,
    TopColumns,
    check_columns,
    find_roles,
    find_top,
    read_as_numbers,
    read_values,
    texts,
)
from thermoset.io.table import TEXT, Held, Table, row_bytes


@dataclass(frozen=True)
class Source:
    """Rows of one file (a `data.stored.Shard`): paths and facts, no open handle, so that it can be pickled."""

    path: Path
    name: str
    n_rows: int
    n_classes: int
    dtype: np.dtype[Any]
    classes: tuple[str, ...] | None
    request: Request = field(repr=False)
    layout: Layout = field(repr=False)
    line: Callable[[int], int] | None = field(repr=False)
    stamp: tuple[int, int] = field(repr=False)

    @property
    def input_kind(self) -> str:
        """What the file contains."""
        return PROBABILITIES if self.request.probabilities else LOGITS

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
            values = read_values(self.layout.labels, self.request.max_bytes)
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
            return read_groups(read_values(self.layout.groups, self.request.max_bytes), self.n_rows)


def open_table(path: FilePath, asked: Request) -> tuple[Path, Table]:
    """Look at a file's header and what lies next to it; rows are not read."""
    source, suffix = existing_file(path, READABLE)
    with errors_about(source):
        return source, format_of(suffix).read(source, asked)


def open_source(path: FilePath, asked: Request, *, fewest: int = 1) -> Source:
    """Find out what a file holds where; it must have so many rows."""
    source, table = open_table(path, asked)
    with errors_about(source):
        stamp = _stamp(source)
        folder = hive_value(source, asked.groups or GROUPS[0]) if asked.find_groups else None
        inside = asked if folder is None else asked._replace(find_groups=False)
        layout = find_top(table, inside) or find_roles(table, inside)
        scores = layout.scores
        if folder is not None:
            layout = layout._replace(groups=Held(np.broadcast_to(np.array(folder, TEXT), scores.shape[:1])))
        is_top = isinstance(scores, TopColumns)
        if not is_top and (len(scores.shape) != 2 or scores.shape[1] < 2 or scores.dtype.kind not in "fiu"):
            as_rows(asked, np.broadcast_to(np.zeros((), scores.dtype), scores.shape))  # says what is wrong
        n_rows, n_classes = scores.shape
        if n_rows < fewest:
            raise FileFormatError("the file has no rows.")
        check_size(8 * n_classes if is_top else row_bytes(scores), asked.max_bytes, "a row")
        if n_rows == 0 and layout.classes is None and asked.n_options is not None:
            n_classes = asked.n_options  # a column of lists without rows does not tell how long they are
        classes = None if layout.classes is None else class_names(layout.classes, n_classes)
        # A row that is one of logits and one of probabilities: what type does it become?
        kind = np.dtype(float) if is_top else as_rows(asked, np.array([[1, 0]], dtype=scores.dtype)).logits.dtype
        name = f"{source}[{layout.array}]" if layout.array and not table.cells else str(source)
        return Source(source, name, n_rows, n_classes, kind, classes, asked, layout, table.line, stamp)


def as_rows(asked: Request, scores: NDArray[Any], classes: Any = None, groups: Any = None) -> Logits:
    """Rows of a file, checked."""
    make: Any = Logits.from_probabilities if asked.probabilities else checked_logits
    rows: Logits = make(scores, None, classes, groups)
    return rows


def _stamp(path: Path) -> tuple[int, int]:
    """What tells whether a file was written to: size and time of change; of a Zarr folder those of its metadata."""
    found = [part.stat() for part in (metadata_files(path) if path.is_dir() else [path])]
    return sum(one.st_size for one in found), sum(one.st_mtime_ns for one in found)


def hive_value(path: Path, key: str) -> str | None:
    """The value in the nearest folder called `key=value` above a file."""
    pairs = (re.fullmatch(HIVE, part) for part in reversed(path.parts[:-1]))
    return next((pair[2] for pair in pairs if pair and pair[1] == key), None)
