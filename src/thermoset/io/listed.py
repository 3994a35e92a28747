"""Csv whose cells are whole rows: a column `logits` (or `logit`) of lists, as JSON or as NumPy prints arrays.

That is what `timm`'s inference script writes. NumPy prints eight digits, so parquet is better where there is a choice.
"""

from collections.abc import Iterator
from contextlib import ExitStack
from functools import partial
from itertools import islice
from pathlib import Path
from typing import NamedTuple

from thermoset.data import Logits
from thermoset.data.arrays import first_repeated
from thermoset.errors import FileFormatError
from thermoset.io.csv_text import csv_groups, csv_ids, csv_lines, is_number, is_whole, text_errors
from thermoset.io.delimited import open_csv, read_csv
from thermoset.io.files import Request, RowSource, list_name, no_column
from thermoset.io.names import group_name, label_name
from thermoset.io.rows import ORDER, Row, RowList, class_number, naming, numbers, restored
from thermoset.quoting import quoted

__all__ = ["open_csv_file", "read_csv_file"]

BETTER = "Write parquet or json"


class ListHeader(NamedTuple):
    """Where the columns stand that are read."""

    columns: list[str]
    scores: int
    label: int | None
    order: int | None
    groups: int | None


def read_csv_file(path: Path, request: Request) -> Logits:
    """Read a csv file of lists, or of one column for each class."""
    header = _list_header(path, request)
    if header is None:
        return read_csv(path, request)
    return RowList(partial(_rows, path, request, header), ragged=False, request=request).gathered()


def open_csv_file(path: Path, request: Request, stack: ExitStack) -> RowSource:
    """Open a csv file of lists, or of one column for each class."""
    header = _list_header(path, request)
    if header is None:
        return open_csv(path, request, stack)
    rows = RowList(partial(_rows, path, request, header), ragged=False, request=request)
    width = rows.width()
    if request.id_column is not None and request.id_column not in header.columns:
        raise no_column(request.id_column, header.columns)
    groups = csv_groups(path, None if header.groups is None else header.columns[header.groups])
    return RowSource((None, width), None, partial(rows.blocks, width), csv_ids(path, request), groups)


def _list_header(path: Path, request: Request) -> ListHeader | None:
    """Where lists stand; None if the first line below the header has none."""
    with text_errors():
        lines = [cells for _, cells in islice(csv_lines(path), 2)]
    by_column = request.classes is not None and set(request.classes) <= set(*lines[:1])
    name = list_name(lines[0], request.probabilities) if len(lines) == 2 and not by_column else None
    if name is None or len(lines[1]) != len(lines[0]):
        return None
    columns = lines[0]
    cell = lines[1][columns.index(name)]
    if not cell.lstrip().startswith("["):
        if is_number(cell) and not all(map(is_number, lines[1])):  # beside names of files: the largest of each row
            numbers(float(cell), f"column {quoted(name)}")
        return None
    if (twice := first_repeated(columns)) is not None:
        raise FileFormatError(f"two columns are called {quoted(twice)}.")
    label, groups = label_name(columns, request), group_name(columns, request)
    return ListHeader(
        columns,
        columns.index(name),
        None if label is None else columns.index(label),
        columns.index(ORDER) if ORDER in columns and lines[1][columns.index(ORDER)].startswith("[") else None,
        None if groups is None else columns.index(groups),
    )


def _rows(path: Path, request: Request, header: ListHeader) -> Iterator[Row]:
    columns = header.columns
    with text_errors():
        for number, cells in islice(csv_lines(path), 1, None):
            with naming(f"line {number}"):
                if len(cells) != len(columns):
                    raise FileFormatError(f"has {len(cells)} cells, but the header has {len(columns)}.")
                yield _row(cells, header, request)


def _row(cells: list[str], header: ListHeader, request: Request) -> Row:
    scores = _floats(cells[header.scores], header.columns[header.scores])
    if header.order is not None:
        scores = restored(scores, [int(x) for x in _floats(cells[header.order], ORDER) if abs(x) < 2**31])
    elif header.label is not None and cells[header.label].startswith("["):
        class_number([cells[header.label]], quoted(header.columns[header.label]))  # says that rows are not whole
    group = None if header.groups is None else cells[header.groups]
    if header.label is None or header.order is not None or not request.find_labels:
        return Row(scores, None, group)
    text, what, names = cells[header.label], f"column {quoted(header.columns[header.label])}", request.classes
    number = is_whole(text) and not any(map(is_whole, names or ()))
    return Row(scores, class_number(float(text) if number else text, what, names), group)


def _floats(cell: str, name: str) -> list[float]:
    """The numbers of a list, which NumPy separates by spaces and JSON by commas."""
    inside = cell.strip()
    if "..." in inside:
        raise FileFormatError(f"column {quoted(name)} has lists that NumPy cut short with '...'. {BETTER}.")
    if not (inside.startswith("[") and inside.endswith("]")):
        raise FileFormatError(f"column {quoted(name)} is {quoted(cell)}; expected a list of numbers. {BETTER}.")
    parts = inside[1:-1].replace(",", " ").split()
    try:
        if "_" in inside:  # Python reads 1_000, nobody else does
            raise ValueError
        return list(map(float, parts))
    except ValueError:
        bad = next(part for part in parts if "_" in part or not is_number(part))
        raise FileFormatError(f"column {quoted(name)} holds {quoted(bad)}; expected a list of numbers.") from None
