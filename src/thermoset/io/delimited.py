"""Csv and tsv, plain or packed: a header line, a column for each class, and columns `label` and `groups`.

Or a column `logits` (or `logit`) whose cells are lists, as JSON or as NumPy prints arrays: `timm`'s inference script
writes that. pyarrow reads as far as it likes what it sees; from there on lines are read one by one, by what knows the
line of a cell that is wrong, and needs nothing but Python.
"""

import csv
import gzip
import io
import math
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any, BinaryIO, TextIO

import numpy as np
from numpy.typing import NDArray

from thermoset.data.arrays import first_repeated
from thermoset.data.class_columns import not_a_class
from thermoset.errors import FileFormatError, InputError, MissingExtraError
from thermoset.io.files import need, suffix_of
from thermoset.io.roles import Request, find_roles, is_number, is_whole, list_name
from thermoset.io.table import PIECE_BYTES, TEXT, Column, Forward, Held, Table, rows_in
from thermoset.quoting import quoted, reason

_TEXT_BLOCK = 1 << 20  # bytes of text in a block of pyarrow, which reads 32 ahead
_CELL = 64  # but a block must hold a line, and hardly a number takes more bytes than this
_BYTE_ORDER_MARK = "\ufeff"
_BETTER = "Write parquet or json"


class _NotFastError(Exception):
    """pyarrow is not there, or met something it does not like."""


@contextmanager
def text_errors() -> Iterator[None]:
    """Say in the project's own errors that a text cannot be read."""
    try:
        yield
    except UnicodeDecodeError as error:
        raise FileFormatError(f"not UTF-8 text ({error.reason} at byte {error.start}).") from None
    except csv.Error as error:
        raise FileFormatError(f"not a readable csv file ({reason(error)}).") from None
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise FileFormatError(f"not a readable gz file, or a truncated one ({reason(error)}).") from None


def csv_lines(path: Path) -> Iterator[tuple[int, list[str]]]:
    """Yield lines that are not blank, with their numbers."""
    with _open_text(path) as stream:
        reader = csv.reader(stream, strict=True, delimiter=_delimiter(path))
        for cells in reader:
            if cells:
                yield reader.line_num, cells


def _open_text(path: Path) -> TextIO:
    if path.suffix.lower() == ".gz":
        return gzip.open(path, "rt", encoding="utf-8-sig", newline="")
    return path.open(encoding="utf-8-sig", newline="")


def _delimiter(path: Path) -> str:
    return "\t" if suffix_of(path).startswith(".tsv") else ","


# -- reading -----------------------------------------------------------------------------------------------------------


def read_csv(path: Path, asked: Request) -> Table:
    """Look at the first two lines, and count the others."""
    with text_errors():
        lines = [cells for _, cells in islice(csv_lines(path), 2)]
        header = lines[0] if lines else []
        _check_header(header, asked, _delimiter(path))
        first = lines[1] if len(lines) == 2 and len(lines[1]) == len(header) else [""] * len(header)
        n_rows = sum(len(block) for block in _Cells(path, (0,), TEXT, names=tuple(header), places=(0,)).blocks(0))
    columns: dict[str, Column] = {}
    rows = list_name(header, asked.probabilities)
    for place, (name, cell) in enumerate(zip(header, first, strict=True)):
        column = _Cells(path, (n_rows,), TEXT, tuple(header), (place,), not cell.strip() or is_number(cell))
        columns[name] = _as_lists(column, cell, name == rows) if cell.lstrip().startswith("[") else column

    def stack(names: Sequence[str]) -> Column:
        places = tuple(header.index(name) for name in names)
        return _Cells(path, (n_rows, len(names)), np.dtype(np.float64), tuple(header), places)

    return Table(columns, cells=True, stack=stack, line=partial(_line_of, path))


def _line_of(path: Path, row: int) -> int:
    """The line of a row, counted from 1."""
    return next(islice((number for number, _ in csv_lines(path)), row + 1, None))


def _check_header(columns: list[str], asked: Request, delimiter: str) -> None:
    if not columns:
        raise FileFormatError("the file has no header line; the first line must name the columns.")
    if all(map(is_number, columns)) and not all(map(is_whole, columns)):
        raise FileFormatError(
            "line 1 holds numbers; the first line must name the columns, one per class and 'label'. "
            "Put a line before it, such as label,cat,dog."
        )
    if len(columns) == 1:
        by = "tabs" if delimiter == "\t" else "commas"
        raise FileFormatError(f"only one column, {quoted(columns[0])}; columns must be separated by {by}.")
    if columns[0].startswith(_BYTE_ORDER_MARK):  # beside the one that was taken off: it would hide a label column
        raise FileFormatError("the file begins with two byte order marks. Save it again as UTF-8.")
    if (twice := first_repeated(name for name in columns if name.strip())) is not None:
        raise FileFormatError(f"two columns are called {quoted(twice)}.")
    if asked.classes is None and sum(not name.strip() for name in columns[1:]):
        place = next(place for place, name in enumerate(columns[1:], 2) if not name.strip())
        raise FileFormatError(
            f"column {place} has no name. Name it, or list the classes (--classes, in Python classes=)."
        )


@dataclass(frozen=True)
class _Cells(Forward):
    """Cells of some columns: text of one, or numbers of several side by side."""

    names: tuple[str, ...] = ()  # of all columns
    places: tuple[int, ...] = ()
    looks_numeric: bool = True

    def blocks(self, _: int) -> Iterator[NDArray[Any]]:
        """Read with pyarrow as far as it goes, and from there line by line."""
        done = 0
        with text_errors():
            with suppress(_NotFastError):
                for block in self._fast():
                    done += len(block)
                    yield block
                return
            yield from self._slow(done)

    def _fast(self) -> Iterator[NDArray[Any]]:
        try:
            arrow, reader = need("pyarrow", "io", "fast csv"), need("pyarrow.csv", "io", "fast csv")
        except MissingExtraError:
            raise _NotFastError from None
        wanted = [self.names[place] for place in self.places]
        numbers = len(self.shape) == 2
        kind = arrow.float64() if numbers else arrow.string()
        # No text stands for a missing number: an empty cell must fail.
        convert = reader.ConvertOptions(
            include_columns=wanted, column_types=dict.fromkeys(wanted, kind), null_values=[], strings_can_be_null=False
        )
        # Elsewhere a line break in a cell is an error to pyarrow if it cuts the text there, and then not fast.
        breaks = any("\n" in name or "\r" in name for name in self.names)
        parse = reader.ParseOptions(newlines_in_values=breaks, delimiter=_delimiter(self.path))
        read = reader.ReadOptions(block_size=max(_TEXT_BLOCK, len(self.names) * _CELL))
        try:
            with reader.open_csv(
                str(self.path), read_options=read, parse_options=parse, convert_options=convert
            ) as batches:
                for batch in batches:
                    if numbers:
                        yield np.stack([column.to_numpy(zero_copy_only=False) for column in batch.columns], axis=1)
                    else:
                        yield np.array(batch.column(0).to_pylist(), dtype=object)
        except (arrow.ArrowException, OSError, UnicodeError):  # names of files that are not UTF-8, too
            raise _NotFastError from None

    def _slow(self, done: int) -> Iterator[NDArray[Any]]:
        """Read cell by cell all rows but those that are done."""
        step, rows = rows_in(PIECE_BYTES // 4, self), list[Any]()
        for number, cells in islice(csv_lines(self.path), done + 1, None):
            try:
                rows.append(self._row(number, cells))
            except FileFormatError:
                if rows:  # those before it are good
                    yield np.array(rows, dtype=self.dtype)
                raise
            if len(rows) == step:
                yield np.array(rows, dtype=self.dtype)
                rows = []
        if rows:
            yield np.array(rows, dtype=self.dtype)

    def _row(self, line: int, cells: list[str]) -> Any:
        if len(cells) != len(self.names):
            raise FileFormatError(f"line {line} has {len(cells)} cells, but the header has {len(self.names)}.")
        picked = [cells[place] for place in self.places]
        return [self._number(*cell, line) for cell in enumerate(picked)] if self.shape[1:] else picked[0]

    def _number(self, column: int, text: str, line: int) -> float:
        if is_number(text) and "_" not in text and not math.isnan(float(text)):  # Python reads 1_000, nobody else does
            return float(text)
        name, shown = self.names[self.places[column]], quoted(text) if text.strip() else "empty"
        if text.strip() and not is_number(text):
            raise FileFormatError(f"line {line}, {not_a_class(name, f'is {shown}; expected a number or -inf')}")
        raise FileFormatError(f"line {line}, column {quoted(name)} is {shown}; expected a number or -inf.")


@dataclass(frozen=True)
class _Lists(Forward):
    """Cells that hold lists."""

    cells: _Cells

    def blocks(self, first: int) -> Iterator[NDArray[Any]]:
        """Rows of equal length."""
        row, name = first, self.cells.names[self.cells.places[0]]
        for block in self.cells.blocks(first):
            lists = [_floats(cell, name) for cell in block.tolist()]
            for place, one in enumerate(lists, row):
                if len(one) != self.shape[1]:
                    raise FileFormatError(f"row {place} has {len(one)} values, but row 0 has {self.shape[1]}.")
            row += len(block)
            yield np.array(lists, dtype=self.dtype)


def _as_lists(column: _Cells, cell: str, are_rows: bool) -> Column:
    """Cells as lists of numbers, as many as the first has; lists of text elsewhere than in rows are not looked at."""
    name, n_rows = column.names[column.places[0]], column.shape[0]
    try:
        return _Lists(column.path, (n_rows, len(_floats(cell, name))), np.dtype(np.float64), column)
    except FileFormatError:
        if are_rows:
            raise
        return replace(column, shape=(n_rows, 0))


def _floats(cell: str, name: str) -> list[float]:
    """The numbers of a list, which NumPy separates by spaces and JSON by commas."""
    inside = cell.strip()
    if "..." in inside:
        raise FileFormatError(f"column {quoted(name)} has lists that NumPy cut short with '...'. {_BETTER}.")
    if not (inside.startswith("[") and inside.endswith("]")):
        raise FileFormatError(f"column {quoted(name)} is {quoted(cell)}; expected a list of numbers. {_BETTER}.")
    parts = inside[1:-1].replace(",", " ").split()
    if bad := next((part for part in parts if "_" in part or not is_number(part)), None):
        raise FileFormatError(f"column {quoted(name)} holds {quoted(bad)}; expected a list of numbers.")
    return list(map(float, parts))


# -- writing -----------------------------------------------------------------------------------------------------------


def write_csv(stream: BinaryIO, table: Table) -> None:
    """Write numbers so that they are read back exactly, labels as names if there are any.

    Every float is written as the float64 it equals: 0.1 in float32 is 0.10000000149011612, and a reader that saw
    "0.1" would get other logits.
    """
    if "logits" not in table.columns:
        raise InputError("csv cannot hold the largest logits of rows. Save as npz or parquet.")
    logits, labels, groups = (table.columns.get(name) for name in ("logits", "labels", "groups"))
    n_rows, n_classes = logits.shape if logits is not None else (0, 0)
    plain = [f"logit_{i}" for i in range(n_classes)]
    columns = list(table.metadata.get("classes", plain))
    names: Sequence[Any] = range(n_classes) if columns == plain else columns
    header = [*([] if labels is None else ["label"]), *([] if groups is None else ["groups"]), *columns]
    _check_readable(header, columns)
    text = io.TextIOWrapper(stream, encoding="utf-8", newline="")
    writer = csv.writer(text)
    writer.writerow(header)
    for first in range(0, n_rows, 1000):
        parts = [column.read(first, min(first + 1000, n_rows)) for column in (labels, groups) if column is not None]
        beside = [part.tolist() for part in parts]
        if labels is not None:
            beside[0] = [names[label] for label in beside[0]]
        rows = logits.read(first, min(first + 1000, n_rows)).astype(np.float64).tolist() if logits is not None else []
        writer.writerows([*cells, *row] for *cells, row in zip(*beside, rows, strict=True))
    text.flush()
    text.detach()


def _check_readable(header: list[str], columns: list[str]) -> None:
    """Refuse class names that would be read as something else."""
    held: dict[str, Column] = dict.fromkeys(header, Held(np.zeros(1)))

    def stack(names: Sequence[str]) -> Column:
        return Held(np.array([list(names)], dtype=object))

    try:
        as_saved = Request(False, 0, doubt=False)
        _check_header(header, as_saved, ",")
        found = find_roles(Table(held, cells=True, stack=stack), as_saved).columns
    except FileFormatError:
        found = ()
    if list(found) != columns:
        raise InputError(
            "csv cannot hold these class names (one is 'label' or 'groups', or all are numbers). Save as npz."
        )
