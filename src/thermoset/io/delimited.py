"""Csv: a header line, a column for each class named after it, and columns `label` and `groups`.

A label is the name of a class column or, if no class is called like a whole number, the number of a column
counted from 0. (With columns 1, 2, 3 the label 1 is the name of the first: no guessing from the values.)
"""

import csv
import io
import math
from array import array
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, suppress
from functools import partial
from itertools import islice
from pathlib import Path
from types import ModuleType
from typing import Any, BinaryIO, NamedTuple

import numpy as np
from numpy.typing import NDArray

from thermoset.data import Logits
from thermoset.data.arrays import column_classes, first_repeated
from thermoset.data.class_columns import not_a_class
from thermoset.errors import FileFormatError, InputError, MissingExtraError
from thermoset.io.csv_text import csv_groups, csv_ids, csv_lines, is_number, is_whole, text_errors
from thermoset.io.files import LABELS, Request, RowSource, build, need, no_column
from thermoset.io.names import check_columns, group_name, label_name
from thermoset.io.rows import FILES
from thermoset.quoting import printable, quoted

__all__ = ["class_columns", "label_in", "open_csv", "read_csv", "write_csv"]

TEXT_BLOCK = (1 << 14, 1 << 20)  # the least and the most bytes of text in a block of pyarrow, which reads 32 ahead
BYTE_ORDER_MARK = "\ufeff"
AS_SAVED = Request(False, 0, True)  # what reads a file that was written here
CELL = 64  # but a block must hold a line, and hardly a number takes more bytes than this


class CsvHeader(NamedTuple):
    """The first line: all columns, those that hold numbers, the label and the group, and the class names if any.

    A column `filename` beside numbered columns holds no numbers: `timm` writes it.
    """

    columns: list[str]
    scores: list[str]
    label: str | None
    classes: tuple[str, ...] | None
    groups: str | None = None

    @property
    def places(self) -> list[int]:
        """Where the columns stand that hold numbers."""
        place = {name: place for place, name in enumerate(self.columns)}
        return [place[name] for name in self.scores]


class Line(NamedTuple):
    """A line below the header: its number, its label and its group (empty if there is none), and the other cells."""

    number: int
    label: str
    group: str
    scores: list[str]


class Cells(NamedTuple):
    """The lines below the header."""

    scores: NDArray[np.float64]
    labels: list[int] | None
    groups: list[str] | None


class BadLabelError(ValueError):
    """A label that is neither a class name nor a column number; the text says what is wrong with it."""


class NotFastError(Exception):
    """pyarrow is not there, or met something it does not like."""


def read_csv(path: Path, request: Request) -> Logits:
    """Read with pyarrow if it is there; whatever goes wrong, read again line by line to name the line."""
    with text_errors():
        header = read_header(_first_line(path), request)
        try:
            cells = _read_fast(path, header)
        except NotFastError:
            cells = _read_lines(path, header)
        check_columns(header.scores, cells.scores, request)
        try:
            return build(request, cells.scores, cells.labels, header.classes, cells.groups)
        except InputError:
            _read_lines(path, header)  # says it with the line, if it is about one cell
            raise


def open_csv(path: Path, request: Request, _: ExitStack) -> RowSource:
    """Read the header line; the lines below are read in blocks, without their labels."""
    with text_errors():
        header = read_header(_first_line(path), request)
    read = partial(_csv_blocks, path, header)
    groups = csv_groups(path, header.groups)
    columns = tuple(header.scores)
    return RowSource((None, len(columns)), header.classes, read, csv_ids(path, request), groups, columns=columns)


def write_csv(stream: BinaryIO, logits: Logits) -> None:
    """Write numbers so that they are read back exactly, labels as names if there are any.

    Every float is written as the float64 it equals: 0.1 in float32 is 0.10000000149011612, and a reader that saw
    "0.1" would get other logits.
    """
    plain = [f"logit_{i}" for i in range(logits.n_classes)]
    columns = plain if logits.classes is None else list(logits.classes)
    names: list[Any] = list(range(logits.n_classes)) if columns == plain else columns
    header = [*([] if logits.labels is None else ["label"]), *([] if logits.groups is None else ["groups"]), *columns]
    try:
        readable = read_header(header, AS_SAVED).scores == columns
    except FileFormatError:
        readable = False
    if not readable:
        raise InputError(
            "csv cannot hold these class names (one is 'label' or 'groups', or all are numbers). Save as npz."
        )
    text = io.TextIOWrapper(stream, encoding="utf-8", newline="")
    writer = csv.writer(text)
    writer.writerow(header)
    beside = [] if logits.labels is None else [[names[label] for label in logits.labels.tolist()]]
    beside += [] if logits.groups is None else [list(logits.groups)]
    for row, scores in enumerate(logits.logits):
        writer.writerow([*(column[row] for column in beside), *scores.astype(np.float64).tolist()])
    text.flush()
    text.detach()


def read_header(columns: list[str], request: Request) -> CsvHeader:
    """Check the first line, and find what each column is.

    >>> header = read_header(["label", "groups", "cat", "dog"], AS_SAVED)
    >>> header.scores, header.label, header.groups
    (['cat', 'dog'], 'label', 'groups')
    """
    if not columns:
        raise FileFormatError("the file has no header line; the first line must name the columns.")
    if all(map(is_number, columns)) and not all(map(is_whole, columns)):
        raise FileFormatError("line 1 holds numbers; the first line must name the columns, one per class and 'label'.")
    if len(columns) == 1:
        raise FileFormatError(f"only one column, {quoted(columns[0])}; columns must be separated by commas.")
    if columns[0].startswith(BYTE_ORDER_MARK):  # beside the one that was taken off: it would hide a label column
        raise FileFormatError("the file begins with two byte order marks. Save it again as UTF-8.")
    for place, name in enumerate(columns, 1):
        if not name.strip() and request.classes is None:
            raise FileFormatError(
                f"column {place} has no name. If it is an index, write the file without it, or list the classes "
                "(--classes, in Python classes=)."
            )
    if (twice := first_repeated(name for name in columns if name.strip())) is not None:
        raise FileFormatError(f"two columns are called {quoted(twice)}.")
    if request.id_column is not None and request.id_column not in columns:
        raise no_column(request.id_column, columns)
    groups, label = group_name(columns, request), label_in(columns, request)
    scores, classes = class_columns(columns, label, request)
    _check_several(scores)
    return CsvHeader(columns, scores, label if request.find_labels else None, classes, groups)


def _check_several(scores: list[str]) -> None:
    if len(scores) == 1:
        raise FileFormatError(
            f"has one column of scores, {quoted(scores[0])}; expected one for each class. If these are scores of the "
            "second of two classes, add a column of zeros before it, named after the first."
        )


def label_in(columns: Sequence[str], request: Request) -> str | None:
    """The column of labels of a table: the one that was named, or the one called so in any spelling."""
    if request.labels is not None:
        return label_name(columns, request)
    taken = {request.groups, request.id_column, *request.ignored, *(request.classes or ())}
    found = [name for name in columns if name.strip().lower() in LABELS and name not in taken]
    if len(found) > 1:
        raise FileFormatError(
            f"columns {quoted(found[0])} and {quoted(found[1])} both look like labels. Name the one that holds them "
            "(--labels, in Python labels=), and ignore the other (--ignore, ignore=)."
        )
    return found[0] if found else None


def class_columns(
    columns: Sequence[str], label: str | None, request: Request
) -> tuple[list[str], tuple[str, ...] | None]:
    """The columns of the classes, and what classes are called: those that were named, or all that are nothing else."""
    if request.classes is not None:
        if missing := [name for name in request.classes if name not in columns]:
            raise no_column(missing[0], columns)
        return list(request.classes), request.classes
    names = [name for name in columns if name != label and not request.is_beside(name)]
    if FILES in names and column_classes(name for name in names if name != FILES) is None:
        names.remove(FILES)  # beside columns that are only numbered it can be no class
    return names, column_classes(names)


class _Labels:
    """Reads the label of one cell."""

    def __init__(self, header: CsvHeader) -> None:
        self.n_classes = len(header.scores)
        self.index = {name: column for column, name in enumerate(header.classes or ())}
        self.numbers = not any(map(is_whole, self.index))

    def read(self, text: str) -> int:
        if text in self.index:
            return self.index[text]
        if not text.strip():
            raise BadLabelError("is missing. Drop rows without a label")
        if not (self.numbers and is_whole(text)):
            what = "the name of a class column" if self.index else "a whole number"
            raise BadLabelError(f"is {quoted(text)}; expected {what}")
        number = float(text)  # infinite for hundreds of digits, which is too much as well
        if not 0 <= number < self.n_classes:
            hint = ". If labels start at 1, subtract 1" if number == self.n_classes else ""
            raise BadLabelError(f"is {printable(text.strip(), 40)}; must be in 0..{self.n_classes - 1}{hint}")
        return int(number)


def _first_line(path: Path) -> list[str]:
    return next((cells for _, cells in csv_lines(path)), [])


def _rows(path: Path, header: CsvHeader) -> Iterator[Line]:
    """Yield the lines below the header."""
    n_columns, places = len(header.columns), header.places
    label, group = (None if name is None else header.columns.index(name) for name in (header.label, header.groups))
    for number, cells in islice(csv_lines(path), 1, None):
        if len(cells) != n_columns:
            raise FileFormatError(f"line {number} has {len(cells)} cells, but the header has {n_columns}.")
        own, shared = ("" if place is None else cells[place] for place in (label, group))
        yield Line(number, own, shared, [cells[i] for i in places])


def _csv_blocks(path: Path, header: CsvHeader, rows: int) -> Iterator[NDArray[np.float64]]:
    """Read with pyarrow as far as it goes, and from there line by line."""
    done = 0
    with text_errors():
        with suppress(NotFastError):
            for block in _fast_blocks(path, header, rows):
                done += len(block)
                yield block
            return
        yield from _line_blocks(path, header, rows, done)


def _fast_blocks(path: Path, header: CsvHeader, rows: int) -> Iterator[NDArray[np.float64]]:
    arrow, reader = _arrow_csv()
    convert, parse = _arrow_options(arrow, reader, header)
    n_columns, (least, most) = len(header.columns), TEXT_BLOCK
    read = reader.ReadOptions(block_size=max(least, n_columns * CELL, min(rows * n_columns * 8, most)))
    parts: list[NDArray[np.float64]] = []
    missing = rows
    try:
        with reader.open_csv(path, read_options=read, parse_options=parse, convert_options=convert) as batches:
            if batches.schema.names != header.columns:
                raise NotFastError
            for batch in batches:
                scores = _stack(batch, header)
                while len(scores):
                    parts.append(scores[:missing])
                    scores, missing = scores[missing:], missing - len(parts[-1])
                    if missing == 0:
                        yield _usual(np.concatenate(parts))
                        parts, missing = [], rows
    except arrow.ArrowException:
        raise NotFastError from None
    if parts:
        yield _usual(np.concatenate(parts))


def _usual(block: NDArray[np.float64]) -> NDArray[np.float64]:
    """Refuse NaN and +inf: the other way of reading knows the line."""
    with np.errstate(invalid="ignore"):
        if not (block < np.inf).all():
            raise NotFastError
    return block


def _line_blocks(path: Path, header: CsvHeader, rows: int, done: int) -> Iterator[NDArray[np.float64]]:
    """Read cell by cell all rows but those that are done."""
    n_columns = len(header.scores)
    values = array("d")
    for line in islice(_rows(path, header), done, None):
        values.extend(_number(text, line.number, header, i) for i, text in enumerate(line.scores))
        if len(values) == rows * n_columns:
            yield np.asarray(values).reshape(rows, n_columns)
            values = array("d")
    if values:
        yield np.asarray(values).reshape(-1, n_columns)


def _read_fast(path: Path, header: CsvHeader) -> Cells:
    """Read with pyarrow."""
    arrow, reader = _arrow_csv()
    convert, parse = _arrow_options(arrow, reader, header)
    labels = None
    try:
        table = reader.read_csv(path, parse_options=parse, convert_options=convert)
        if table.column_names != header.columns:
            raise NotFastError
        if header.label is not None:
            read = _Labels(header).read
            unique = table.column(header.label).combine_chunks().dictionary_encode()
            numbers = np.asarray([read(text) for text in unique.dictionary.to_pylist()], dtype=np.int64)
            labels = numbers[unique.indices.to_numpy()].tolist()
    except (arrow.ArrowException, BadLabelError):
        raise NotFastError from None
    groups = None if header.groups is None else table.column(header.groups).to_pylist()
    return Cells(_stack(table, header), labels, groups)


def _arrow_csv() -> tuple[ModuleType, ModuleType]:
    try:
        return need("pyarrow", "io", "fast csv"), need("pyarrow.csv", "io", "fast csv")
    except MissingExtraError:
        raise NotFastError from None


def _arrow_options(arrow: ModuleType, reader: ModuleType, header: CsvHeader) -> tuple[Any, Any]:
    """How to convert cells and to parse lines."""
    numbers = set(header.scores)
    types = {name: arrow.float64() if name in numbers else arrow.string() for name in header.columns}
    # No text stands for a missing number: an empty cell must fail.
    convert = reader.ConvertOptions(column_types=types, null_values=[], strings_can_be_null=False)
    # Elsewhere a line break in a cell is an error to pyarrow if it cuts the text there, and then not fast.
    parse = reader.ParseOptions(newlines_in_values=any("\n" in name or "\r" in name for name in header.columns))
    return convert, parse


def _stack(table: Any, header: CsvHeader) -> NDArray[np.float64]:
    scores = np.empty((table.num_rows, len(header.scores)))
    for column, place in enumerate(header.places):
        scores[:, column] = table.column(place).to_numpy()
    return scores


def _read_lines(path: Path, header: CsvHeader) -> Cells:
    """Read cell by cell; slow, needs nothing, and knows the line of what is wrong."""
    values, labels, groups, read = array("d"), array("q"), list[str](), _Labels(header).read
    for line in _rows(path, header):
        if header.label is not None:
            try:
                labels.append(read(line.label))
            except BadLabelError as error:
                raise FileFormatError(f"line {line.number}, column {quoted(header.label)} {error}.") from None
        if header.groups is not None:
            if not line.group.strip():
                where = f"line {line.number}, column {quoted(header.groups)}"
                raise FileFormatError(f"{where} is empty. Give every row a group, or drop the row.")
            groups.append(line.group)
        values.extend(_number(text, line.number, header, i) for i, text in enumerate(line.scores))
    scores = np.asarray(values, dtype=np.float64).reshape(-1, len(header.scores))
    return Cells(scores, None if header.label is None else labels.tolist(), groups if header.groups else None)


def _number(text: str, line: int, header: CsvHeader, place: int) -> float:
    try:
        value = float(text)
        if "_" not in text and not math.isnan(value) and value != math.inf:  # Python reads 1_000, nobody else does
            return value
    except ValueError:
        pass
    shown = quoted(text) if text.strip() else "empty"
    name = header.scores[place]
    if text.strip() and not is_number(text):
        raise FileFormatError(f"line {line}, {not_a_class(name, f'is {shown}; expected a number or -inf')}")
    raise FileFormatError(f"line {line}, column {quoted(name)} is {shown}; expected a number or -inf.")
