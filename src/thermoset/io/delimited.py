"""Csv and tsv, plain or packed: a header line, a column for each class, and columns `label` and `groups`.

Or a column `logits` (or `logit`) whose cells are lists, as JSON or as NumPy prints arrays, as `timm` writes them.
Python's csv module reads it all, so that no extra is needed and a cell that is wrong is named by its line.
"""

import csv
import gzip
import io
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain, islice
from operator import itemgetter
from pathlib import Path
from typing import Any, BinaryIO

import msgspec
import numpy as np
from numpy.typing import NDArray

from thermoset.data.guards import not_a_class
from thermoset.data.reading import first_repeated
from thermoset.errors import FileFormatError, InputError
from thermoset.io.files import FilePath, errors_about, existing_file, read_at_most, suffix_of, unreadable
from thermoset.io.roles import Request, find_roles, is_number, is_whole, list_name
from thermoset.io.table import PIECE_BYTES, TEXT, Column, Forward, Held, Table, rows_in
from thermoset.quoting import quoted, reason

_BYTE_ORDER_MARK = "\ufeff"
_BETTER = "Write parquet or json"
_SHARES_BYTES = 2**28


@contextmanager
def _text_errors() -> Iterator[None]:
    bad_gz = (EOFError, gzip.BadGzipFile, zlib.error)
    with (
        unreadable("not a readable csv file", (csv.Error,)),
        unreadable("not a readable gz file, or a truncated one", bad_gz),
    ):
        yield


def _lines(path: Path) -> Iterator[tuple[int, list[str]]]:
    """Yield lines that are not blank, with their numbers."""
    opened = gzip.open if path.suffix.lower() == ".gz" else open
    with opened(path, "rt", encoding="utf-8-sig", newline="") as stream:
        head = next(stream, "")
        own = "\t" if suffix_of(path).startswith(".tsv") else ","
        delimiter = next((one for one in (own, ";", "\t", ",") if one in head), own)
        reader = csv.reader(chain([head], stream), strict=True, delimiter=delimiter)
        for cells in reader:
            if cells:
                yield reader.line_num, cells


# -- reading -----------------------------------------------------------------------------------------------------------


def read_csv(path: Path, request: Request) -> Table:
    """Look at the first two lines, and count the others."""
    with _text_errors():
        lines = _lines(path)
        _, header = next(lines, (1, list[str]()))
        _check_header(header)
        _, first = next(lines, (2, list[str]()))
        n_rows = bool(first) + sum(1 for _ in lines)
    first = first if len(first) == len(header) else [""] * len(header)
    header = [name if name.strip() else " " * place for place, name in enumerate(header)]  # several may have none
    columns: dict[str, Column] = {}
    rows = list_name(header, request.probabilities)
    for place, (name, cell) in enumerate(zip(header, first, strict=True)):
        column = _Cells(path, (n_rows,), TEXT, tuple(header), (place,), not cell.strip() or is_number(cell))
        columns[name] = _as_lists(column, cell, name == rows) if cell.lstrip().startswith("[") else column

    def stack(names: Sequence[str]) -> Column:
        places = tuple(map(header.index, names))
        return _Cells(path, (n_rows, len(names)), np.dtype(np.float64), tuple(header), places)

    return Table(columns, cells=True, stack=stack, line=partial(_line_of, path))


def _line_of(path: Path, row: int) -> int:
    return next(islice((number for number, _ in _lines(path)), row + 1, None))


def _check_header(columns: list[str]) -> None:
    if not columns:
        raise FileFormatError("the file has no header line; the first line must name the columns.")
    if all(map(is_number, columns)) and not all(map(is_whole, columns)):
        raise FileFormatError(
            "line 1 contains numbers; the first line must name the columns, one per class and 'label'. "
            "Put a line before it, such as label,cat,dog."
        )
    if len(columns) == 1:
        by = "commas, semicolons or tabs"
        raise FileFormatError(f"only one column, {quoted(columns[0])}; columns must be separated by {by}.")
    if columns[0].startswith(_BYTE_ORDER_MARK):  # besides the one that was taken off: it would hide a label column
        raise FileFormatError("the file begins with two byte order marks. Save it again as UTF-8.")
    if (twice := first_repeated(name for name in columns if name.strip())) is not None:
        raise FileFormatError(f"two columns are called {quoted(twice)}.")


@dataclass(frozen=True)
class _Cells(Forward):
    """Cells of some columns: text of one, or numbers of several side by side."""

    names: tuple[str, ...] = ()  # of all columns
    places: tuple[int, ...] = ()
    looks_numeric: bool = True

    def blocks(self, _: int) -> Iterator[NDArray[Any]]:
        """Rows from the first line on."""
        step, pick = rows_in(PIECE_BYTES // 4, self), itemgetter(*self.places)
        with _text_errors():
            lines = islice(_lines(self.path), 1, None)
            while some := list(islice(lines, step)):
                wrong = next((at for at, (_, cells) in enumerate(some) if len(cells) != len(self.names)), len(some))
                picked = [pick(cells) for _, cells in some[:wrong]]
                if len(self.shape) == 1:
                    yield np.array(picked, dtype=object)
                else:
                    yield from self._numbers(picked, some)
                if wrong < len(some):
                    line, cells = some[wrong]
                    raise FileFormatError(f"line {line} has {len(cells)} cells, but the header has {len(self.names)}.")

    def _numbers(self, picked: list[Sequence[str]], some: list[tuple[int, list[str]]]) -> Iterator[NDArray[Any]]:
        """Cells as numbers; a cell that is none is named after the rows before it."""
        try:
            block = np.array(picked, dtype=object).astype(np.float64)
            if not any("_" in "".join(row) for row in picked):  # Python reads 1_000, nobody else does
                yield block
                return
        except ValueError:
            pass
        for row, (line, _) in zip(picked, some, strict=False):
            values = [self._number(*cell, line) for cell in enumerate(row)]
            yield np.array([values])

    def _number(self, column: int, text: str, line: int) -> float:
        if is_number(text) and "_" not in text:
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
        before = [part.tolist() for part in parts]
        if labels is not None:
            before[0] = [names[label] for label in before[0]]
        rows = logits.read(first, min(first + 1000, n_rows)).astype(np.float64).tolist() if logits is not None else []
        writer.writerows([*cells, *row] for *cells, row in zip(*before, rows, strict=True))
    text.flush()
    text.detach()


def _check_readable(header: list[str], columns: list[str]) -> None:
    """Refuse class names that would be read as something else."""
    held: dict[str, Column] = dict.fromkeys(header, Held(np.zeros(1)))

    def stack(names: Sequence[str]) -> Column:
        return Held(np.array([list(names)], dtype=object))

    try:
        as_saved = Request(doubt=False)
        _check_header(header)
        classes = find_roles(Table(held, cells=True, stack=stack), as_saved).columns
    except FileFormatError:
        classes = ()
    if list(classes) != columns:
        raise InputError(
            "csv cannot hold these class names (one is 'label' or 'groups', or all are numbers). Save as npz."
        )


# -- class shares ------------------------------------------------------------------------------------------------------


def read_shares(path: FilePath) -> dict[str, float]:
    """Class shares by name or column number: lines of csv with a class and its share, or a JSON object of shares."""
    source, suffix = existing_file(path, (".csv", ".json"))
    content = read_at_most(source, _SHARES_BYTES)
    with errors_about(source), _text_errors():
        if suffix == ".json":
            try:
                document: Any = msgspec.json.decode(content)
                by_class = (
                    {str(column): share for column, share in enumerate(document)}
                    if type(document) is list
                    else document
                )
                return msgspec.convert(by_class, dict[str, float])
            except (msgspec.ValidationError, OverflowError) as error:
                said = f'must be an object of shares by class, such as {{"cat": 0.7, "dog": 0.3}} ({reason(error)})'
                raise FileFormatError(f"{said}.") from None
            except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
                raise FileFormatError(f"is not a JSON document ({reason(error)}).") from None
        shares: dict[str, float] = {}
        text = io.StringIO(content.decode("utf-8-sig"), newline="")
        for number, cells in enumerate(csv.reader(text, strict=True), start=1):
            if cells and len(cells) != 2:
                raise FileFormatError(f"line {number} must be a class and its share; got {len(cells)} cells.")
            if not cells or (number == 1 and not is_number(cells[1])):  # names of columns
                continue
            name, share = cells
            if not is_number(share):
                raise FileFormatError(f"line {number}: the share must be a number; got {quoted(share)}.")
            if name in shares:
                raise FileFormatError(f"line {number}: class {quoted(name)} appears twice.")
            shares[name] = float(share)
    return shares
