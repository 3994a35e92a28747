"""Zarr folders, of version 2 and 3: arrays `logits`, `labels`, `classes`, `groups`, or one array of logits."""

import lzma
import os
import secrets
import shutil
import zlib
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from thermoset.data import Logits
from thermoset.errors import FileFormatError, InputError
from thermoset.io import held
from thermoset.io.files import (
    NAMES,
    Request,
    RowSource,
    check_size,
    first_of,
    need,
    no_column,
    scores_name,
)
from thermoset.io.names import group_name, label_name
from thermoset.io.numpy_files import group_sibling, label_sibling, read_npy_array, siblings, texts
from thermoset.io.numpy_rows import read_npy_values
from thermoset.io.stored import BandedRows, StoredFile, as_source, as_whole
from thermoset.io.tables import BATCH_BYTES, rows_in
from thermoset.io.zarr_metadata import ArrayFolder, Node, read_node
from thermoset.quoting import quoted, reason

__all__ = ["open_zarr", "read_zarr", "read_zarr_array", "stored_zarr", "write_zarr", "zarr_sidecars"]

READING = "reading .zarr"
# What zarr was seen to raise for damaged metadata and chunks; its own errors are among these.
BAD_ZARR = (
    ValueError,
    TypeError,
    LookupError,
    RuntimeError,
    AttributeError,
    EOFError,
    zlib.error,
    lzma.LZMAError,
)


@dataclass(frozen=True)
class ZarrChunks:
    """The chunks of an array, in rows of chunks."""

    array: ArrayFolder
    path: Path

    @property
    def shape(self) -> tuple[int, ...]:
        """What the metadata declare."""
        return self.array.shape

    @property
    def dtype(self) -> np.dtype[Any]:
        """Type of the numbers."""
        return np.dtype(np.float64) if self.array.dtype is None else self.array.dtype

    @property
    def ends(self) -> int:
        """How many rows a row of chunks has."""
        return self.array.inner[0]

    def read_rows(self, start: int, stop: int) -> NDArray[Any]:
        """Rows start to stop - 1."""
        what = ("zarr", self.array.path)
        with _zarr_errors(self.array.path):
            self.array.check_chunks(start, stop)
            found = held.take(self.path, what)
            opened = _opened(self.array) if found is None else found
            rows = np.asarray(opened[start:stop])
            held.give(self.path, what, held.Held(opened))
        return rows


def stored_zarr(path: Path, request: Request) -> StoredFile:
    """Read the metadata, and compare them with the files that are there."""
    need("zarr", "zarr", READING)  # said now, and not when rows are read
    node = read_node(path)
    if node.array is not None:
        return _stored_array(path, node.array, request)
    name = scores_name(node.members, request.probabilities)
    array = _member(node, name)
    rows = _rows(path, array, request)
    key = label_name(node.members, request) if request.find_labels else None
    labels = None if key is None else partial(read_zarr_array, path, key, request)
    groups = group_name(node.members, request)
    found = None if groups is None else partial(read_zarr_array, path, groups, request)
    return StoredFile(rows, _classes(path, node, request), labels, name, groups=found)


def _stored_array(path: Path, array: ArrayFolder, request: Request) -> StoredFile:
    """One array of logits; labels, class names and groups are npy files beside the folder, as for an npy file."""
    names, labels = zarr_sidecars(path)[1], label_sibling(path.with_suffix(".npy"), request)
    classes = texts(read_npy_array(names, request.max_bytes)) if names.exists() else None
    found = None if labels is None else partial(read_npy_array, labels, request.max_bytes)
    beside = group_sibling(path.with_suffix(".npy"), request)
    groups = None if beside is None else partial(read_npy_values, beside, request.max_bytes)
    return StoredFile(_rows(path, array, request), classes, found, groups=groups)


def zarr_sidecars(path: Path) -> tuple[Path, Path, Path]:
    """Name the files of labels, of class names and of groups that belong to a folder with one array.

    >>> [sidecar.name for sidecar in zarr_sidecars(Path("val_logits.zarr"))]
    ['val_labels.npy', 'val_classes.npy', 'val_groups.npy']
    """
    return siblings(path.with_suffix(".npy"))


def _rows(path: Path, array: ArrayFolder, request: Request) -> BandedRows:
    name = quoted(array.path.name)
    if array.dtype is None:
        raise FileFormatError(f"array {name} holds text; expected numbers.")
    if len(array.shape) == 2:
        band = min(array.inner[0], array.shape[0]) * array.shape[1] * array.dtype.itemsize
        check_size(max(band, array.chunk_bytes), request.max_bytes, f"a row of chunks of array {name}")
        if (missing := array.first_missing()) is not None:
            raise FileFormatError(
                f"chunk {missing} of array {name} is missing. Write the array again, with write_empty_chunks=True."
            )
    return BandedRows(ZarrChunks(array, path))


def _classes(path: Path, node: Node, request: Request) -> object:
    """Class names: an array of text, or a list in the attributes of the group."""
    key = first_of(NAMES, node.members)
    if key is not None:
        return read_zarr_array(path, key, request)
    key = first_of(NAMES, node.attributes)
    return None if key is None else node.attributes[key]


def read_zarr_array(path: Path, name: str, request: Request) -> NDArray[Any] | list[str]:
    """Read an array of one value for each row, or of class names."""
    node = read_node(path)
    if name not in node.members:
        raise no_column(name, node.members)
    array = _member(node, name)
    size = max(array.chunk_bytes, int(np.prod(array.shape, dtype=object)) * (array.dtype or np.dtype("f8")).itemsize)
    check_size(size, request.max_bytes, f"array {quoted(name)}")
    with _zarr_errors(array.path):
        values = np.asarray(_opened(array)[...])
    if values.ndim == 1 and values.dtype.kind not in "fiub":
        return [item.decode(errors="replace") if isinstance(item, bytes) else str(item) for item in values.tolist()]
    return values


def _member(node: Node, name: str) -> ArrayFolder:
    array = read_node(node.members[name]).array
    if array is None:
        raise FileFormatError(f"{quoted(name)} is a group; expected an array.")
    return array


def _opened(array: ArrayFolder) -> Any:
    library = need("zarr", "zarr", READING)
    return library.open_array(str(array.path), mode="r", zarr_format=array.version)


@contextmanager
def _zarr_errors(path: Path) -> Iterator[None]:
    try:
        yield
    except InputError:
        raise
    except BAD_ZARR as error:
        raise FileFormatError(f"array {quoted(path.name)} cannot be read, or is truncated ({reason(error)}).") from None


def read_zarr(path: Path, request: Request) -> Logits:
    """Read a folder at once."""
    return as_whole(stored_zarr(path, request), request)


def open_zarr(path: Path, request: Request, _: ExitStack) -> RowSource:
    """Read blocks of rows."""
    return as_source(stored_zarr(path, request))


def write_zarr(path: Path, logits: Logits) -> None:
    """Write arrays `logits`, `labels`, `classes` and `groups`; the folder appears whole or not at all."""
    library = need("zarr", "zarr", "writing .zarr")
    target = Path(os.path.realpath(path))
    if not target.parent.is_dir():
        raise InputError(f"folder {target.parent} does not exist; create it first.")
    mark = secrets.token_hex(8)
    new, old = (target.with_name(f".{target.name[:100]}.{mark}.{what}") for what in ("tmp", "old"))
    try:
        group = library.open_group(str(new), mode="w-", zarr_format=3)
        shape, step = logits.logits.shape, rows_in(BATCH_BYTES, logits)
        # Not compressed: logits hardly shrink. A chunk that gets lost is NaN, and noticed.
        options = {"chunks": (min(step, shape[0]), shape[1]), "compressors": None, "fill_value": float("nan")}
        array = group.create_array("logits", shape=shape, dtype=logits.logits.dtype, **options)
        for first in range(0, shape[0], step):
            array[first : first + step] = logits.logits[first : first + step]
        if logits.labels is not None:
            group.create_array("labels", data=logits.labels)
        if logits.classes is not None:
            names = group.create_array("classes", shape=(shape[1],), dtype=str)
            names[:] = np.asarray(logits.classes)
        if logits.groups is not None:
            of_rows = group.create_array("groups", shape=(shape[0],), dtype=str)
            of_rows[:] = np.asarray(logits.groups)
        _to_disk(new)
        _replace(target, new, old)
    except BaseException:
        shutil.rmtree(new, ignore_errors=True)
        raise
    shutil.rmtree(old, ignore_errors=True)


def _to_disk(folder: Path) -> None:
    for file in (part for part in folder.rglob("*") if part.is_file()):
        with file.open("rb") as stream:
            os.fsync(stream.fileno())


def _replace(target: Path, new: Path, old: Path) -> None:
    """Put a folder where another one was, which is put aside; nothing but a Zarr folder is replaced."""
    if not os.path.lexists(target):
        new.rename(target)
        return
    read_node(target)
    target.rename(old)
    try:
        new.rename(target)
    except OSError:
        old.rename(target)
        raise
