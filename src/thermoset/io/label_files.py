"""Labels in a file of their own: npy, or text with one label in each line."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from thermoset.data import Logits, as_logits
from thermoset.errors import FileFormatError
from thermoset.io.csv_text import is_whole
from thermoset.io.files import check_size, read_at_most
from thermoset.io.numpy_files import read_npy_array

__all__ = ["LABEL_SUFFIXES", "with_labels"]

LINE_BYTES = 64  # a text of its own takes so many, however short the line is


def with_labels(logits: Logits, path: Path, max_bytes: int) -> Logits:
    """Add the labels of a file."""
    return as_logits(logits, KINDS[path.suffix.lower()](path, max_bytes, logits.classes))


def _npy(path: Path, max_bytes: int, _: tuple[str, ...] | None) -> NDArray[Any]:
    return read_npy_array(path, max_bytes)


def _text(path: Path, max_bytes: int, classes: tuple[str, ...] | None) -> Any:
    """Names of classes, or numbers of columns if no class is called like a whole number (as in csv)."""
    content = read_at_most(path, max_bytes)
    check_size(len(content) + LINE_BYTES * content.count(b"\n"), max_bytes, "the file of labels, as lines,")
    try:
        lines = content.decode("utf-8-sig").splitlines()
    except UnicodeDecodeError as error:
        raise FileFormatError(f"{path.name} is not UTF-8 text ({error.reason} at byte {error.start}).") from None
    found = [line.strip() for line in lines]
    if found and all(map(is_whole, found)) and not any(map(is_whole, classes or ())):
        return np.array([float(text) for text in found])  # infinite for hundreds of digits, and then out of range
    return found


KINDS: dict[str, Callable[[Path, int, tuple[str, ...] | None], Any]] = {".npy": _npy, ".txt": _text}
LABEL_SUFFIXES = tuple(KINDS)
"""The endings of names of files that hold labels alone."""
