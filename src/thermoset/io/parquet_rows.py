"""Rows of a parquet file from any row on: a row group is decoded from its beginning, and goes on where it was left."""

from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from itertools import accumulate
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from thermoset.errors import FileFormatError
from thermoset.io import held
from thermoset.io.files import Request, need
from thermoset.io.parquet import open_file, read_column, read_labels, tables, width_of
from thermoset.io.stored import StoredFile
from thermoset.io.tables import arrow_errors, scores_of, stored_type

__all__ = ["ParquetRows", "stored_parquet"]

DECODED_BYTES = 1 << 22  # of rows that are decoded at a time


def stored_parquet(path: Path, request: Request) -> StoredFile:
    """Look at what the file declares, and at the first row if the length of lists is not."""
    arrow = need("pyarrow", "io", "reading .parquet")
    with arrow_errors(arrow, "parquet"), ExitStack() as stack:
        source = open_file(path, request, stack)
        layout, ends = source.layout, tuple(accumulate(source.group_rows))
        shape = source.n_rows, width_of(arrow, source)
        labels = partial(read_labels, path, request) if request.find_labels and layout.label is not None else None
        groups = None if layout.groups is None else partial(read_column, path, layout.groups, request)
        rows = ParquetRows(path, request, shape, stored_type(layout), ends)
        return StoredFile(rows, layout.classes, labels, groups=groups, columns=tuple(layout.names))


@dataclass(frozen=True)
class ParquetRows:
    """The columns of scores."""

    path: Path
    request: Request
    shape: tuple[int, int]
    dtype: np.dtype[Any]
    ends: tuple[int, ...]  # of row groups

    def read(self, start: int, stop: int) -> NDArray[Any]:
        """Rows start to stop - 1."""
        what = ("parquet", self.request)
        cursor: _Cursor | None = held.take(self.path, what)
        if cursor is not None and cursor.row != start and not cursor.row < start < self.ends[cursor.group]:
            cursor.stack.close()
            cursor = None
        with ExitStack() as stack, arrow_errors(need("pyarrow", "io", "reading .parquet"), "parquet"):
            cursor = cursor or _Cursor(self, int(np.searchsorted(self.ends, start, side="right")))
            stack.callback(cursor.stack.close)
            block = np.empty((stop - start, self.shape[1]), dtype=self.dtype)
            cursor.fill(block, start)
            if stop < self.shape[0]:
                stack.pop_all()
                held.give(self.path, what, held.Held(cursor, 3 * DECODED_BYTES, cursor.stack.close))
        return block


class _Cursor:
    """An open file, and how far it was read."""

    def __init__(self, rows: ParquetRows, group: int) -> None:
        self.stack = ExitStack()
        self.arrow = need("pyarrow", "io", "reading .parquet")
        self.rows, self.group = rows, group
        self.row = rows.ends[group - 1] if group else 0  # the next one to be given out
        with ExitStack() as stack:
            # One thread: whoever reads many shards reads them in as many processes as there are cores.
            self.source = open_file(rows.path, rows.request, stack)._replace(threads=False)
            self.stack = stack.pop_all()
        step = max(1, DECODED_BYTES // (rows.shape[1] * rows.dtype.itemsize))
        self.tables = tables(self.arrow, self.source, step, group)
        self.left: NDArray[Any] = np.empty((0, rows.shape[1]), dtype=rows.dtype)

    def fill(self, block: NDArray[Any], start: int) -> None:
        """Go on to `start` and copy rows from there."""
        done = 0
        while done < len(block):
            if len(self.left) == 0:
                self._decode()
            passed = min(start - self.row, len(self.left)) if self.row < start else 0
            some = self.left[passed : passed + len(block) - done]
            block[done : done + len(some)] = some
            self.left = self.left[passed + len(some) :]
            self.row, done = self.row + passed + len(some), done + len(some)

    def _decode(self) -> None:
        table = next(self.tables, None)
        if table is None:
            raise FileFormatError(f"ends after {self.row:,} of {self.rows.shape[0]:,} rows: damaged. Save it again.")
        self.left = scores_of(self.arrow, table, self.source.layout, self.row, self.rows.shape[1])
        self.group = int(np.searchsorted(self.rows.ends, self.row, side="right"))
