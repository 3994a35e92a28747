"""Labels, or groups, in a file of their own: npy, or text with one in each line."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from thermoset.data import Logits, with_columns
from thermoset.data.labels import column_indices
from thermoset.errors import FileFormatError
from thermoset.io import held
from thermoset.io.csv_text import is_whole
from thermoset.io.files import FilePath, as_path, check_size, existing, read_at_most
from thermoset.io.numpy_files import decoded, read_npy_array
from thermoset.io.numpy_rows import flat_npy

__all__ = [
    "LABEL_SUFFIXES",
    "column_named",
    "file_values",
    "is_label_file",
    "label_count",
    "label_part",
    "value_file",
    "with_labels",
]

LINE_BYTES = 64  # a text of its own takes so many, however short the line is
Names = tuple[str, ...] | None


def with_labels(logits: Logits, path: Path, max_bytes: int) -> Logits:
    """Add the labels of a file."""
    labels = KINDS[path.suffix.lower()](path, max_bytes, logits.classes)
    return with_columns(logits, column_indices(labels, (logits.n_rows, logits.n_classes), logits.classes))


def label_count(path: Path, max_bytes: int) -> int:
    """How many labels a file has."""
    if path.suffix.lower() == ".npy":
        shape = flat_npy(path).shape
        return shape[0] if shape else 0
    return len(_text(path, max_bytes, None))


def label_part(path: Path, rows: tuple[int, int], max_bytes: int, classes: Names) -> Any:
    """The labels of the rows from one to before another; those of an npy file are read alone."""
    if path.suffix.lower() == ".npy":
        return flat_npy(path).read(*rows)
    what = ("labels", classes)
    found = held.take(path, what)
    labels = _text(path, max_bytes, classes) if found is None else found
    held.give(path, what, held.Held(labels, LINE_BYTES * len(labels)))
    return labels[slice(*rows)]


def file_values(path: Path, max_bytes: int) -> Any:
    """Values of rows that are no labels, such as groups; those of a text file stay text, with their zeros: 007."""
    return decoded(read_npy_array(path, max_bytes)) if path.suffix.lower() == ".npy" else _lines(path, max_bytes)


def is_label_file(name: object) -> bool:
    """Whether a name is that of a file that holds one value for each row.

    >>> is_label_file("sites.txt"), is_label_file("site")
    (True, False)
    """
    return isinstance(name, (str, os.PathLike)) and Path(name).suffix.lower() in LABEL_SUFFIXES


def column_named(name: FilePath | Literal[False] | None) -> str | None:
    """The column or array that is meant where the name of one, or of a file, may be given; None if it is neither.

    >>> column_named("target"), column_named("labels.txt"), column_named(False)
    ('target', None, None)
    """
    return str(as_path(name)) if name and not _is_file(name) else None


def value_file(name: FilePath | Literal[False] | None) -> Path | None:
    """The file that is meant in the same place, which must be there; None if it is a column, or nothing.

    >>> value_file("target") is None
    True
    """
    return existing(name, LABEL_SUFFIXES)[0] if name and _is_file(name) else None


def _is_file(name: FilePath) -> bool:
    """Whether a file is meant: by its ending, or because it is there, under a name that ends like that of a file."""
    return is_label_file(name) or not isinstance(name, str) or (Path(name).suffix != "" and Path(name).is_file())


def _npy(path: Path, max_bytes: int, _: Names) -> NDArray[Any]:
    return read_npy_array(path, max_bytes)


def _text(path: Path, max_bytes: int, classes: Names) -> Any:
    """Names of classes, or numbers of columns if no class is called like a whole number (as in csv)."""
    found = _lines(path, max_bytes)
    if found and all(map(is_whole, found)) and not any(map(is_whole, classes or ())):
        return np.array([float(text) for text in found])  # infinite for hundreds of digits, and then out of range
    return found


def _lines(path: Path, max_bytes: int) -> list[str]:
    content = read_at_most(path, max_bytes)
    check_size(len(content) + LINE_BYTES * content.count(b"\n"), max_bytes, "the file, as lines,")
    try:
        lines = content.decode("utf-8-sig").splitlines()
    except UnicodeDecodeError as error:
        raise FileFormatError(f"{path.name} is not UTF-8 text ({error.reason} at byte {error.start}).") from None
    return [line.strip() for line in lines]


KINDS: dict[str, Callable[[Path, int, Names], Any]] = {".npy": _npy, ".txt": _text}
LABEL_SUFFIXES = tuple(KINDS)
"""The endings of names of files that hold labels alone."""
