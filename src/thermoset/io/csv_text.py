"""The text of csv files: lines of cells, and what a cell looks like."""

import csv
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from itertools import islice
from pathlib import Path

from thermoset.errors import FileFormatError
from thermoset.io.files import Ids, Request, no_column
from thermoset.quoting import quoted, reason

__all__ = ["csv_column", "csv_groups", "csv_ids", "csv_lines", "is_number", "is_whole", "text_errors"]

WHOLE = re.compile(r"\s*[+-]?[0-9]+(\.0*)?\s*")


def is_whole(text: str) -> bool:
    """Whether a text is a whole number.

    >>> is_whole("12"), is_whole("cat"), is_whole("1.5")
    (True, False, False)
    """
    return WHOLE.fullmatch(text) is not None


def is_number(text: str) -> bool:
    """Whether a text is a number.

    >>> is_number("1e-3"), is_number("cat")
    (True, False)
    """
    try:
        float(text)
    except ValueError:
        return False
    return True


@contextmanager
def text_errors() -> Iterator[None]:
    """Say in the project's own errors that a text cannot be read."""
    try:
        yield
    except UnicodeDecodeError as error:
        raise FileFormatError(f"not UTF-8 text ({error.reason} at byte {error.start}).") from None
    except csv.Error as error:
        raise FileFormatError(f"not a readable csv file ({reason(error)}).") from None


def csv_lines(path: Path) -> Iterator[tuple[int, list[str]]]:
    """Yield lines that are not blank, with their numbers."""
    with path.open(encoding="utf-8-sig", newline="") as stream:
        reader = csv.reader(stream, strict=True)
        for cells in reader:
            if cells:
                yield reader.line_num, cells


def csv_column(path: Path, name: str, wanted: str | None = "a value") -> Iterator[str]:
    """A column, line by line; whoever reads it reads the scores as well, and hears there of lines that do not fit.

    An empty cell is an error that says what was wanted; with None it is an empty text.
    """
    with text_errors():
        header = next((cells for _, cells in csv_lines(path)), [])
        if name not in header:
            raise no_column(name, header)
        place = header.index(name)
        for number, cells in islice(csv_lines(path), 1, None):
            if wanted is None:
                yield "".join(cells[place : place + 1])
                continue
            if not cells[place : place + 1] or not cells[place].strip():
                raise FileFormatError(f"line {number}, column {quoted(name)} is empty; expected {wanted}.")
            yield cells[place]


def csv_ids(path: Path, request: Request) -> Ids | None:
    """The ids of a file, if they were asked for."""
    if request.id_column is None:
        return None
    return Ids(partial(csv_column, path, request.id_column, "an id"), text=True)


def csv_groups(path: Path, name: str | None) -> Callable[[], Iterator[str]] | None:
    """How to go through the groups of a file, if it has any."""
    return None if name is None else partial(csv_column, path, name, "a group")
