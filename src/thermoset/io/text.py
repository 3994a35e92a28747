"""Csv: a header line, a column for each class named after it, and a column `label`.

A label is the name of a class column or, if no class is called like a whole number, the number of a column
counted from 0. (With columns 1, 2, 3 the label 1 is the name of the first: no guessing from the values.)
"""

import csv
import io
import math
import re
from array import array
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import numpy as np
from numpy.typing import NDArray

from thermoset.data import Logits
from thermoset.data.arrays import column_classes
from thermoset.errors import FileFormatError, InputError, MissingExtraError
from thermoset.io.files import LABELS, Request, build, need

__all__ = ["is_whole", "label_column", "read_csv", "write_csv"]

WHOLE = re.compile(r"\s*[+-]?[0-9]+(\.0*)?\s*")


class Header(NamedTuple):
    """The first line: all columns, which of them is the label, and the class names if they are names."""

    columns: list[str]
    label: str | None
    classes: tuple[str, ...] | None

    @property
    def scores(self) -> list[str]:
        """The columns that hold numbers."""
        return [name for name in self.columns if name != self.label]


class Cells(NamedTuple):
    """The lines below the header."""

    scores: NDArray[np.float64]
    labels: list[int] | None


class BadLabelError(ValueError):
    """A label that is neither a class name nor a column number; the text says what is wrong with it."""


def read_csv(path: Path, request: Request) -> Logits:
    """Read with pyarrow if it is there; whatever goes wrong, read again line by line to name the line."""
    try:
        header = read_header(_first_line(path))
        cells = _read_fast(path, header)
        if cells is None:
            cells = _read_lines(path, header)
        try:
            return build(request, cells.scores, cells.labels, header.classes)
        except InputError:
            _read_lines(path, header)  # says it with the line, if it is about one cell
            raise
    except UnicodeDecodeError as error:
        raise FileFormatError(f"not UTF-8 text ({error.reason} at byte {error.start}).") from None
    except csv.Error as error:
        raise FileFormatError(f"not a readable csv file ({error}).") from None


def write_csv(stream: BinaryIO, logits: Logits) -> None:
    """Write numbers so that they are read back exactly, labels as names if there are any.

    Every float is written as the float64 it equals: 0.1 in float32 is 0.10000000149011612, and a reader that saw
    "0.1" would get other logits.
    """
    plain = [f"logit_{i}" for i in range(logits.n_classes)]
    columns = plain if logits.classes is None else list(logits.classes)
    names: list[Any] = list(range(logits.n_classes)) if columns == plain else columns
    header = ["label", *columns] if logits.labels is not None else columns
    try:
        readable = read_header(header).scores == columns
    except FileFormatError:
        readable = False
    if not readable:
        raise InputError("csv cannot hold these class names (one is 'label', or all are numbers). Save as npz.")
    text = io.TextIOWrapper(stream, encoding="utf-8", newline="")
    writer = csv.writer(text)
    writer.writerow(header)
    labels = [] if logits.labels is None else logits.labels.tolist()
    for row, scores in enumerate(logits.logits):
        cells = scores.astype(np.float64).tolist()
        writer.writerow([names[labels[row]], *cells] if labels else cells)
    text.flush()
    text.detach()


def read_header(columns: list[str]) -> Header:
    """Check the first line.

    >>> read_header(["label", "cat", "dog"])
    Header(columns=['label', 'cat', 'dog'], label='label', classes=('cat', 'dog'))
    """
    if not columns:
        raise FileFormatError("the file has no header line; the first line must name the columns.")
    if all(map(_is_number, columns)) and not all(map(is_whole, columns)):
        raise FileFormatError("line 1 holds numbers; the first line must name the columns, one a class and 'label'.")
    if len(columns) == 1:
        raise FileFormatError(f"only one column, {columns[0][:40]!r}; columns must be separated by commas.")
    for place, name in enumerate(columns, 1):
        if not name.strip():
            raise FileFormatError(f"column {place} has no name. If it is an index, write the file without it.")
        if name in columns[: place - 1]:
            raise FileFormatError(f"two columns are called {name!r}.")
    label = label_column(name for name in columns if name.strip().lower() in LABELS)
    return Header(columns, label, column_classes(name for name in columns if name != label))


def label_column(found: Iterable[str]) -> str | None:
    """Return the one column of labels, if there is one.

    >>> label_column(["label"])
    'label'
    """
    names = list(found)
    if len(names) > 1:
        raise FileFormatError(f"columns {names[0]!r} and {names[1]!r} both look like labels. Drop one.")
    return names[0] if names else None


def is_whole(text: str) -> bool:
    """Whether a text is a whole number.

    >>> is_whole("12"), is_whole("cat"), is_whole("1.5")
    (True, False, False)
    """
    return WHOLE.fullmatch(text) is not None


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


class _Labels:
    """Reads the label of one cell."""

    def __init__(self, header: Header) -> None:
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
            raise BadLabelError(f"is {text!r}; wanted {what}")
        number = int(float(text))
        if not 0 <= number < self.n_classes:
            hint = ". If labels start at 1, subtract 1" if number == self.n_classes else ""
            raise BadLabelError(f"is {number}; must be in 0..{self.n_classes - 1}{hint}")
        return number


def _first_line(path: Path) -> list[str]:
    return next((cells for _, cells in _lines(path)), [])


def _lines(path: Path) -> Iterator[tuple[int, list[str]]]:
    """Yield lines that are not blank, with their numbers."""
    with path.open(encoding="utf-8-sig", newline="") as stream:
        reader = csv.reader(stream, strict=True)
        for cells in reader:
            if cells:
                yield reader.line_num, cells


def _read_fast(path: Path, header: Header) -> Cells | None:
    """Read with pyarrow; None if it is not there or does not like something."""
    try:
        arrow, reader = need("pyarrow", "io", "fast csv"), need("pyarrow.csv", "io", "fast csv")
    except MissingExtraError:
        return None
    types = {name: arrow.string() if name == header.label else arrow.float64() for name in header.columns}
    # No text stands for a missing number: an empty cell must fail.
    convert = reader.ConvertOptions(column_types=types, null_values=[], strings_can_be_null=False)
    parse = reader.ParseOptions(newlines_in_values=any("\n" in name or "\r" in name for name in header.columns))
    try:
        table = reader.read_csv(path, parse_options=parse, convert_options=convert)
        if table.column_names != header.columns:
            return None
        labels = None
        if header.label is not None:
            read = _Labels(header).read
            unique = table.column(header.label).combine_chunks().dictionary_encode()
            numbers = np.asarray([read(text) for text in unique.dictionary.to_pylist()], dtype=np.int64)
            labels = numbers[unique.indices.to_numpy()].tolist()
    except (arrow.ArrowException, BadLabelError):
        return None
    scores = np.empty((table.num_rows, len(header.scores)))
    for place, name in enumerate(header.scores):
        scores[:, place] = table.column(name).to_numpy()
    return Cells(scores, labels)


def _read_lines(path: Path, header: Header) -> Cells:
    """Read cell by cell; slow, needs nothing, and knows the line of what is wrong."""
    lines = _lines(path)
    next(lines)
    values, labels, read = array("d"), array("q"), _Labels(header).read
    n_columns = len(header.columns)
    place = None if header.label is None else header.columns.index(header.label)
    for number, cells in lines:
        if len(cells) != n_columns:
            raise FileFormatError(f"line {number} has {len(cells)} cells where the header has {n_columns}.")
        if place is not None:
            text = cells.pop(place)
            try:
                labels.append(read(text))
            except BadLabelError as error:
                raise FileFormatError(f"line {number}, column {header.label!r} {error}.") from None
        values.extend(_number(text, number, header, i) for i, text in enumerate(cells))
    scores = np.asarray(values, dtype=np.float64).reshape(-1, len(header.scores))
    return Cells(scores, None if place is None else labels.tolist())


def _number(text: str, line: int, header: Header, place: int) -> float:
    try:
        value = float(text)
        if "_" not in text and not math.isnan(value) and value != math.inf:  # Python reads 1_000, nobody else does
            return value
    except ValueError:
        pass
    shown = repr(text) if text.strip() else "empty"
    raise FileFormatError(
        f"line {line}, column {header.scores[place]!r} is {shown}; wanted a number or -inf. "
        f"Every column but the label holds the logits of a class."
    )
