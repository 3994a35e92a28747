"""HDF5: datasets `logits`, `labels`, `classes` and `groups` at the top of a file."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from thermoset.data import Logits
from thermoset.errors import FileFormatError, InputError
from thermoset.io.files import (
    NAMES,
    Request,
    RowSource,
    check_shape,
    check_size,
    first_of,
    need,
    no_column,
    scores_name,
)
from thermoset.io.names import group_name, label_name
from thermoset.io.numpy_files import ArrayHeader
from thermoset.io.numpy_rows import FlatRows
from thermoset.io.stored import BandedRows, Rows, StoredFile, as_source, as_whole
from thermoset.quoting import quoted, reason

__all__ = ["open_hdf5", "read_hdf5", "read_hdf5_dataset", "stored_hdf5", "write_hdf5"]

READING = "reading .h5"
# What h5py was seen to raise for damaged files.
BAD_HDF5 = (OSError, ValueError, TypeError, KeyError, RuntimeError, OverflowError)


@dataclass(frozen=True)
class Hdf5Chunks:
    """The chunks of a dataset, in rows of chunks."""

    path: Path
    dataset: str
    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    ends: int  # how many rows a row of chunks has

    def read_rows(self, start: int, stop: int) -> NDArray[Any]:
        """Rows start to stop - 1."""
        rows = np.empty((stop - start, *self.shape[1:]), dtype=self.dtype)
        with _opened(self.path) as file:
            _dataset(file, self.dataset).read_direct(rows, np.s_[start:stop])
        return rows


def stored_hdf5(path: Path, request: Request) -> StoredFile:
    """Look at the datasets; one that is neither chunked nor compressed is read in place."""
    with _opened(path) as file:
        name = scores_name(list(file), request.probabilities)
        rows = _rows(path, _dataset(file, name), name, request)
        key, names = label_name(list(file), request), first_of(NAMES, list(file))
        groups = group_name(list(file), request)
        classes: object = None
        if names is not None:
            classes = _values(_dataset(file, names), names, request.max_bytes)
        elif (attribute := first_of(NAMES, list(file.attrs))) is not None:
            classes = [str(item) for item in np.atleast_1d(file.attrs[attribute]).tolist()]
    labels = partial(read_hdf5_dataset, path, key, request) if request.find_labels and key is not None else None
    found = None if groups is None else partial(read_hdf5_dataset, path, groups, request)
    return StoredFile(rows, classes, labels, name, groups=found)


def _rows(path: Path, dataset: Any, name: str, request: Request) -> Rows:
    shape, dtype = tuple(map(int, dataset.shape or ())), dataset.dtype
    if dtype.kind not in "fiu":
        raise FileFormatError(f"dataset {quoted(name)} is of type {quoted(str(dtype))}; expected numbers.")
    check_shape(shape, f"dataset {quoted(name)}")
    start = dataset.id.get_offset()
    if start is not None and dataset.chunks is None and dataset.dtype.isnative:
        header = ArrayHeader(shape, False, dtype)
        if start + header.n_bytes > path.stat().st_size:
            raise FileFormatError(f"dataset {quoted(name)} ends after the file: truncated.")
        return FlatRows(path, int(start), header, quoted(name))
    ends = dataset.chunks[0] if dataset.chunks else 1
    if len(shape) == 2:
        band = min(max(ends, 1), max(shape[0], 1)) * shape[1] * dtype.itemsize
        check_size(band, request.max_bytes, f"a row of chunks of dataset {quoted(name)}")
        _check_written(dataset, name)
    return BandedRows(Hdf5Chunks(path, name, shape, dtype, int(ends)))


def _check_written(dataset: Any, name: str) -> None:
    """Refuse a dataset with chunks that were never written: they would be read as if they held zeros."""
    if dataset.chunks:
        counts = [-(-size // chunk) for size, chunk in zip(dataset.shape, dataset.chunks, strict=True)]
        whole = dataset.id.get_num_chunks() == int(np.prod(counts, dtype=object))
    else:
        whole = dataset.size == 0 or dataset.id.get_storage_size() > 0
    if not whole:
        raise FileFormatError(f"parts of dataset {quoted(name)} were never written. Write it again.")


def read_hdf5_dataset(path: Path, name: str, request: Request) -> object:
    """Read a dataset of one value for each row."""
    with _opened(path) as file:
        if name not in file:
            raise no_column(name, list(file))
        return _values(_dataset(file, name), name, request.max_bytes)


def _values(dataset: Any, name: str, max_bytes: int) -> NDArray[Any] | list[str]:
    """Numbers, or text as strings."""
    text = need("h5py", "hdf5", READING).check_string_dtype(dataset.dtype)
    if text is None and dataset.dtype.kind not in "fiub":
        raise FileFormatError(
            f"dataset {quoted(name)} is of type {quoted(str(dataset.dtype))}; expected numbers or text."
        )
    check_size(int(np.prod(dataset.shape or (), dtype=object)) * max(8, dataset.dtype.itemsize), max_bytes, name)
    if text is None:
        return np.asarray(dataset[...])
    if dataset.ndim != 1:
        raise FileFormatError(f"dataset {quoted(name)} must have one dimension; got shape {dataset.shape}.")
    return [str(item) for item in dataset.asstr(errors="replace")[...].tolist()]


def _dataset(file: Any, name: str) -> Any:
    """A dataset that lies in this file: what links and maps of other files name is not read."""
    library = need("h5py", "hdf5", READING)
    if isinstance(file.get(name, getlink=True), library.ExternalLink):
        raise FileFormatError(f"{quoted(name)} is a link to another file. Open that one.")
    found = file[name]
    if not isinstance(found, library.Dataset):
        raise FileFormatError(f"{quoted(name)} is a group; expected a dataset.")
    if found.external or found.is_virtual:
        raise FileFormatError(
            f"the numbers of dataset {quoted(name)} are stored in other files. Write them into this one."
        )
    return found


@contextmanager
def _opened(path: Path) -> Iterator[Any]:
    library = need("h5py", "hdf5", READING)
    try:
        with library.File(path, "r") as file:
            yield file
    except InputError:
        raise
    except BAD_HDF5 as error:
        raise FileFormatError(f"not a readable HDF5 file, or a truncated one ({reason(error)}).") from None


def read_hdf5(path: Path, request: Request) -> Logits:
    """Read a file at once."""
    return as_whole(stored_hdf5(path, request), request)


def open_hdf5(path: Path, request: Request, _: ExitStack) -> RowSource:
    """Read blocks of rows."""
    return as_source(stored_hdf5(path, request))


def write_hdf5(stream: BinaryIO, logits: Logits) -> None:
    """Write datasets `logits`, `labels`, `classes`, `groups`; numbers follow each other, to be read in place."""
    library = need("h5py", "hdf5", "writing .h5")
    with library.File(stream, "w") as file:
        file.create_dataset("logits", data=logits.logits)
        if logits.labels is not None:
            file.create_dataset("labels", data=logits.labels)
        if logits.classes is not None:
            file.create_dataset("classes", data=list(logits.classes), dtype=library.string_dtype())
        if logits.groups is not None:
            names = np.asarray(logits.groups.names, dtype=object)  # of objects: each name is in memory once
            file.create_dataset("groups", data=names[logits.groups.codes], dtype=library.string_dtype())
