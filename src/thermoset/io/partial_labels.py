"""Labels of rows of which some have none yet: for those who watch a stream, whose labels come later.

A missing label is -1 or NaN where labels are numbers, an empty cell or line in csv and txt, null in json, parquet and
Arrow, and a blank text. Everywhere else in this library a missing label is an error: fitting on some of the rows would
hide that the others were left out.
"""

from collections.abc import Callable, Sequence
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from thermoset.data import Logits
from thermoset.data.labels import column_indices, one_column, partial_indices
from thermoset.errors import InputError
from thermoset.io.compact import read_top
from thermoset.io.csv_text import csv_column, csv_lines, is_whole
from thermoset.io.delimited import label_in
from thermoset.io.files import FilePath, Request, byte_limit, errors_about, existing
from thermoset.io.finding import Where, found_shards
from thermoset.io.label_files import LABEL_SUFFIXES, column_named, file_values, is_label_file
from thermoset.io.names import checked_columns, checked_roles, label_name
from thermoset.io.numpy_files import decoded, label_sibling, read_npy_array, read_npz_arrays
from thermoset.io.records import json_column, json_keys
from thermoset.io.shards import STORED
from thermoset.io.tensors import pt_names, read_pt_values

__all__ = ["read_partial_labels"]


def read_partial_labels(
    where: Where,
    rows: Logits,
    labels: FilePath | None = None,
    *,
    probabilities: bool = False,
    classes: Sequence[str] | None = None,
    id_column: str | None = None,
    groups: FilePath | None = None,
    ignore: Sequence[str] = (),
    max_bytes: int | None = None,
) -> NDArray[np.int64] | None:
    r"""Read the labels of rows, as column numbers with -1 where a label is missing; None if there are no labels.

    Parameters
    ----------
    where : path, folder, glob, or a list of these
        The files that the rows were read from.
    rows : Logits
        Those rows, read with `labels=False`.
    labels : str or path, optional
        The column of the labels, or a file with them, as for `thermoset.load`; a blank line is a missing one.
    probabilities, classes, id_column, groups, ignore, max_bytes
        As for `thermoset.load`, with which the rows were read.

    >>> import tempfile, thermoset as ts
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder, "today.csv")
    ...     _ = path.write_text("label,cat,dog\ndog,1.5,0.5\n,0.1,2.5\n")
    ...     read_partial_labels(path, ts.load(path, labels=False))
    array([ 1, -1])
    """
    limit, shape = byte_limit(max_bytes), (rows.n_rows, rows.n_classes)
    if labels is not None and is_label_file(labels):
        file = existing(labels, LABEL_SUFFIXES)[0]
        with errors_about(file):
            values = _numbered(file_values(file, limit), rows.classes)
            return partial_indices(values, shape, rows.classes, column_indices)
    named = column_named(labels)
    beside = (*checked_columns(ignore), *(name for name in (column_named(groups), id_column) if name is not None))
    roles = checked_roles(labels=named, classes=classes, ignore=beside)
    request = Request(
        probabilities, limit, find_labels=True, find_groups=False, partial_labels=True, doubt=False, **roles
    )
    paths = list(found_shards(where, sidecars=(*beside, *([] if named is None else [named]))))
    found = [_labels_in(path, request) for path in paths]
    if all(one is None for one in found):
        return None
    if any(one is None for one in found):
        without = next(path for path, one in zip(paths, found, strict=True) if one is None)
        raise InputError(f"{without}: has no labels, but other files do. Add them as separate batches.")
    values = found[0] if len(found) == 1 else list(chain.from_iterable(one_column(one, "labels") for one in found))
    with errors_about(paths[0]):
        return partial_indices(_numbered(values, rows.classes), shape, rows.classes, column_indices)


def _labels_in(path: Path, request: Request) -> Any:
    """The labels of a file as they are; None if it has none."""
    source, suffix = existing(path, tuple(STORED))
    with errors_about(source):
        if suffix in _READERS:
            return _READERS[suffix](source, request)
        if (top := read_top(source, suffix, request)) is not None:
            return top.labels
        stored = STORED[suffix](source, request)
        return None if stored.labels is None else stored.labels()


def _npz(path: Path, request: Request) -> Any:
    (found,) = read_npz_arrays(path, lambda held: [label_name(held, request)], request.max_bytes)
    return decoded(found)


def _npy(path: Path, request: Request) -> Any:
    file = label_sibling(path, request)
    return None if file is None else decoded(read_npy_array(file, request.max_bytes))


def _csv(path: Path, request: Request) -> Any:
    header = next((cells for _, cells in csv_lines(path)), [])
    name = label_in(header, request)
    return None if name is None else list(csv_column(path, name, None))


def _json(path: Path, request: Request) -> Any:
    name = label_name(json_keys(path, request), request)
    return None if name is None else list(json_column(path, name, request))


def _pt(path: Path, request: Request) -> Any:
    name = label_name(pt_names(path, request), request)
    return None if name is None else read_pt_values(path, name, request)


def _numbered(values: Any, classes: Sequence[str] | None) -> Any:
    """Texts that are whole numbers as numbers, if no class is called like one; blank ones are NaN then."""
    if not isinstance(values, list) or not all(isinstance(one, str) for one in values):
        return values
    texts = [one.strip() for one in values]
    if any(map(is_whole, classes or ())) or not all(not text or text == "-1" or is_whole(text) for text in texts):
        return texts
    return np.array([float(text) if text else np.nan for text in texts])


_READERS: dict[str, Callable[[Path, Request], Any]] = {
    ".npz": _npz,
    ".npy": _npy,
    ".csv": _csv,
    ".json": _json,
    ".jsonl": _json,
    ".pt": _pt,
    ".pth": _pt,
}
"""Files whose labels are read here; others say themselves where their labels are."""
