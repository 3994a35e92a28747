"""One file of logits as a shard: facts that its header gives, and rows that are read when they are wanted."""

from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from thermoset.data import Groups, Logits
from thermoset.data.arrays import Floats, class_names
from thermoset.data.class_columns import most_rows
from thermoset.data.groups import read_groups
from thermoset.data.input_kinds import LOGITS, PROBABILITIES
from thermoset.data.labels import column_indices
from thermoset.errors import FileFormatError, InputError
from thermoset.io.arrow_files import stored_arrow
from thermoset.io.checked import checked_block, checked_shape
from thermoset.io.compact import open_top
from thermoset.io.files import Request, build, check_size, errors_about, existing, named_classes
from thermoset.io.group_folders import group_folder, same_group
from thermoset.io.hdf5_files import stored_hdf5
from thermoset.io.listed import read_csv_file
from thermoset.io.names import check_columns
from thermoset.io.numpy_rows import stored_npy, stored_npz
from thermoset.io.parquet_rows import stored_parquet
from thermoset.io.records import read_json
from thermoset.io.safe import stored_safetensors
from thermoset.io.stored import StoredFile, WholeRows, row_bytes
from thermoset.io.tensors import read_pt
from thermoset.io.zarr_folders import stored_zarr
from thermoset.io.zarr_metadata import metadata_files

__all__ = ["STORED", "FileShard", "Stamp", "open_shard"]


class Stamp(NamedTuple):
    """What tells whether a file was written to since it was opened."""

    n_bytes: int
    changed: int

    @classmethod
    def of(cls, path: Path) -> "Stamp":
        """The file's size and when it was last written to; of a Zarr folder those of its metadata."""
        found = [part.stat() for part in (metadata_files(path) if path.is_dir() else [path])]
        return cls(sum(one.st_size for one in found), max((one.st_mtime_ns for one in found), default=0))


@dataclass(frozen=True)
class FileShard:
    """Rows of logits in one file (a `thermoset.data.shards.Shard`); made by `open_shard`.

    Attributes
    ----------
    path : Path
    name : str
        The path, and the array in a file that holds several.
    n_rows, n_classes : int
    dtype : float16, float32 or float64
        Type of the rows that `read` gives.
    classes : tuple of str, or None
    input_kind : "logits" or "probabilities"
        What the file holds; `read` gives logits.
    """

    path: Path
    name: str
    n_rows: int
    n_classes: int
    dtype: np.dtype[Any]
    classes: tuple[str, ...] | None
    input_kind: str
    request: Request = field(repr=False)
    stored: StoredFile = field(repr=False)
    stamp: Stamp = field(repr=False)

    @property
    def has_labels(self) -> bool:
        """Whether there are labels, in the file or beside it."""
        return self.stored.labels is not None

    @property
    def has_groups(self) -> bool:
        """Whether there are groups, in the file, beside it or in its path."""
        return self.stored.groups is not None

    def groups(self) -> Groups | None:
        """The group of each row; None if there are none."""
        if self.stored.groups is None:
            return None
        with errors_about(self.path):
            self.check_unchanged()
            return read_groups(self.stored.groups(), self.n_rows)

    def labels(self) -> NDArray[np.int64] | None:
        """The label of each row as a column number; None if there are none."""
        if self.stored.labels is None:
            return None
        with errors_about(self.path):
            self.check_unchanged()
            return column_indices(self.stored.labels(), (self.n_rows, self.n_classes), self.classes)

    def read(self, start: int, stop: int) -> Floats:
        """Rows start to stop - 1, C-contiguous and checked."""
        with errors_about(self.path):
            if not 0 <= start < stop <= self.n_rows:
                raise InputError(f"has rows 0 to {self.n_rows}; asked for {start} to {stop}.")
            self.check_unchanged()
            return checked_block(self.request, self.stored.rows.read(start, stop), start, self.n_rows).logits

    def check_columns(self) -> None:
        """Refuse columns that do not look like classes; the first rows tell."""
        if not self.stored.columns:
            return
        with errors_about(self.path):
            rows = self.stored.rows.read(0, min(self.n_rows, most_rows(self.n_classes)))
            check_columns(self.stored.columns, rows, self.request)

    def check_unchanged(self) -> None:
        """Refuse a file that is not the one that was opened."""
        if Stamp.of(self.path) != self.stamp:
            raise InputError("was written to after it was opened. Open it again.")


def open_shard(path: Path, request: Request) -> FileShard:
    """Look at a file's header and what lies beside it; rows are not read, but for csv, json and pt."""
    source, suffix = existing(path, tuple(STORED))
    with errors_about(source):
        stamp = Stamp.of(source)
        request, group = group_folder(source, request)
        stored = _stored(source, suffix, request)
        n_rows, n_classes = checked_shape(stored.rows.shape, request)
        if group is not None:
            stored = stored._replace(groups=partial(same_group, group, int(n_rows or 0)))
        check_size(row_bytes(stored.rows), request.max_bytes, "a row")
        named = named_classes(request, stored.classes)
        classes = None if named is None else class_names(named, n_classes)
        kind = PROBABILITIES if request.probabilities else LOGITS
        if stored.final:
            request = request._replace(probabilities=False)
        # A row that is one of logits and one of probabilities: what type does it become?
        plain = request._replace(classes=None)
        dtype = build(plain, np.array([[1, 0]], dtype=stored.rows.dtype)).logits.dtype
    name = f"{source}[{stored.array}]" if stored.array else str(source)
    return FileShard(source, name, int(n_rows or 0), n_classes, dtype, classes, kind, request, stored, stamp)


def _stored(path: Path, suffix: str, request: Request) -> StoredFile:
    try:
        return STORED[suffix](path, request)
    except FileFormatError:
        with ExitStack() as stack:
            top = open_top(path, suffix, request._replace(id_column=None, find_groups=False), stack)
        if top is None:
            raise
        raise InputError(
            "holds the largest logits of each row, which are small enough for memory: read it with thermoset.load."
        ) from None


def _stored_whole(read: Callable[[Path, Request], Logits], path: Path, request: Request) -> StoredFile:
    """Read a file that does not tell its rows before they are read: now, and again whenever others took its room."""
    check_size(path.stat().st_size, request.max_bytes, "the file")
    logits = read(path, request)
    rows = WholeRows(path, logits.logits.shape, logits.logits.dtype, partial(_rows_of, read, path, request))
    has_labels = request.find_labels and logits.labels is not None
    labels = partial(_labels_of, read, path, request) if has_labels else None
    groups = None if logits.groups is None else partial(_groups_of, read, path, request)
    return StoredFile(rows, logits.classes, labels, final=True, groups=groups)


def _rows_of(read: Callable[[Path, Request], Logits], path: Path, request: Request) -> NDArray[Any]:
    return read(path, request).logits


def _labels_of(read: Callable[[Path, Request], Logits], path: Path, request: Request) -> object:
    return read(path, request).labels


def _groups_of(read: Callable[[Path, Request], Logits], path: Path, request: Request) -> object:
    return read(path, request).groups


STORED: dict[str, Callable[[Path, Request], StoredFile]] = {
    ".npz": stored_npz,
    ".npy": stored_npy,
    ".arrow": stored_arrow,
    ".feather": stored_arrow,
    ".ipc": stored_arrow,
    ".zarr": stored_zarr,
    ".h5": stored_hdf5,
    ".hdf5": stored_hdf5,
    ".csv": partial(_stored_whole, read_csv_file),
    ".parquet": stored_parquet,
    ".safetensors": stored_safetensors,
    ".pt": partial(_stored_whole, read_pt),
    ".pth": partial(_stored_whole, read_pt),
    ".json": partial(_stored_whole, read_json),
    ".jsonl": partial(_stored_whole, read_json),
}
"""How the files of each ending are opened as shards."""
