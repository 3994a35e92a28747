"""Safetensors: tensors `logits`, `labels` and `groups`, names of classes and groups in the metadata.

A tensor holds numbers. Where the metadata have a JSON list under the name of a tensor (`groups`), its numbers are
places in that list.

The library checks the header. The numbers are read, not mapped as it would: if another program shortens a file
meanwhile, touching a map of it kills the process.
"""

import json
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import numpy as np
from numpy.typing import NDArray

from thermoset.data import Logits
from thermoset.errors import FileFormatError
from thermoset.io.files import (
    NAMES,
    Request,
    RowSource,
    build,
    check_shape,
    check_size,
    first_of,
    need,
    no_column,
    scores_name,
)
from thermoset.io.names import group_name, label_name
from thermoset.io.numpy_files import ArrayHeader, read_data
from thermoset.io.numpy_rows import FlatRows, widened
from thermoset.io.stored import StoredFile, as_source
from thermoset.quoting import quoted, reason

__all__ = [
    "names_from_json",
    "open_safetensors",
    "read_safetensors",
    "read_values",
    "stored_safetensors",
    "write_safetensors",
]

SAFE_TYPES = {"F64": "<f8", "F32": "<f4", "F16": "<f2", "BF16": "<u2", "BOOL": "|b1"} | {
    f"{sign.upper()}{8 * size}": f"<{sign}{size}" for sign in "iu" for size in (1, 2, 4, 8)
}


class SafeFile(NamedTuple):
    """A safetensors file whose header its library has checked."""

    path: Path
    start: int  # of the data
    entries: dict[str, Any]

    @property
    def names(self) -> list[str]:
        """The tensors it holds."""
        return [name for name in self.entries if name != "__metadata__"]

    @property
    def classes(self) -> list[str] | None:
        """The class names in its metadata."""
        metadata = self.entries.get("__metadata__") or {}
        key = first_of(NAMES, metadata)
        return None if key is None else names_from_json(metadata[key])

    def header(self, name: str) -> ArrayHeader:
        """Shape and type of a tensor."""
        entry = self.entries[name]
        check_shape(entry["shape"], f"tensor {quoted(name)}")
        if entry["dtype"] not in SAFE_TYPES:
            raise FileFormatError(
                f"tensor {quoted(name)} has type {entry['dtype']}, which NumPy cannot hold. Save it as float32."
            )
        return ArrayHeader(tuple(entry["shape"]), False, np.dtype(SAFE_TYPES[entry["dtype"]]))

    def values(self, name: str) -> NDArray[Any]:
        """Read a tensor of one value for each row: numbers, or places in the list of names of that name."""
        metadata, places = self.entries.get("__metadata__") or {}, self.read(name)
        if name not in metadata:
            return places
        names = names_from_json(metadata[name])
        if not all(isinstance(one, str) for one in names) or places.dtype.kind not in "iu":
            raise FileFormatError(
                f"tensor {quoted(name)} and its names in the metadata must be whole numbers and text."
            )
        if places.size and not 0 <= places.min() <= places.max() < len(names):
            raise FileFormatError(f"tensor {quoted(name)} names places outside of its list of {len(names)} names.")
        of_rows: NDArray[Any] = np.asarray(names, dtype=np.str_)[places]
        return of_rows

    def rows(self, name: str) -> FlatRows:
        """Where the numbers of a tensor lie."""
        entry = self.entries[name]
        start = self.start + entry["data_offsets"][0]
        return FlatRows(self.path, start, self.header(name), quoted(name), entry["dtype"] == "BF16")

    def read(self, name: str) -> NDArray[Any]:
        """Read a tensor."""
        rows = self.rows(name)
        with self.path.open("rb") as stream:
            stream.seek(rows.start)
            array = read_data(stream, rows.header, rows.what)
        return widened(array) if rows.bfloat16 else array


def read_safetensors(path: Path, request: Request) -> Logits:
    """Read tensors `logits`, `labels` and `groups`; names stand in the metadata, as JSON lists."""
    file = _safe_file(path)
    scores, labels = scores_name(file.names, request.probabilities), label_name(file.names, request)
    groups = group_name(file.names, request)
    return build(
        request,
        file.read(scores),
        None if labels is None else file.read(labels),
        file.classes,
        None if groups is None else file.values(groups),
    )


def stored_safetensors(path: Path, request: Request) -> StoredFile:
    """Look at the header; the tensor of logits is read in place."""
    file = _safe_file(path)
    name, key = scores_name(file.names, request.probabilities), label_name(file.names, request)
    labels = partial(_read_tensor, path, key, request) if request.find_labels and key is not None else None
    groups = group_name(file.names, request)
    found = None if groups is None else partial(read_values, path, groups, request)
    return StoredFile(file.rows(name), file.classes, labels, name, groups=found)


def open_safetensors(path: Path, request: Request, _: ExitStack) -> RowSource:
    """Look at the header; the tensor of logits is read in blocks."""
    return as_source(stored_safetensors(path, request))


def _read_tensor(path: Path, name: str, request: Request) -> NDArray[Any]:
    return _with_tensor(path, name, request).read(name)


def read_values(path: Path, name: str, request: Request) -> NDArray[Any]:
    """Read one value for each row, within the limit."""
    return _with_tensor(path, name, request).values(name)


def _with_tensor(path: Path, name: str, request: Request) -> SafeFile:
    """Open a file that has a tensor, of which the size is within the limit."""
    file = _safe_file(path)
    if name not in file.names:
        raise no_column(name, file.names)
    check_size(file.header(name).n_bytes, request.max_bytes, f"tensor {quoted(name)}")
    return file


def write_safetensors(stream: BinaryIO, logits: Logits) -> None:
    """Write tensors `logits`, `labels` and `groups`, names of classes and groups in the metadata."""
    library = need("safetensors.numpy", "io", "writing .safetensors")
    tensors: dict[str, NDArray[Any]] = {"logits": logits.logits}
    metadata = {} if logits.classes is None else {"classes": json.dumps(logits.classes)}
    if logits.labels is not None:
        tensors["labels"] = logits.labels
    if logits.groups is not None:
        tensors["groups"], metadata["groups"] = logits.groups.codes, json.dumps(logits.groups.names)
    stream.write(library.save(tensors, metadata=metadata or None))


def names_from_json(text: str | bytes) -> list[str]:
    """Read class names from the metadata of a file.

    >>> names_from_json('["cat", "dog"]')
    ['cat', 'dog']
    """
    try:
        names = json.loads(text)
    except (ValueError, RecursionError):
        names = None
    if not isinstance(names, list):
        raise FileFormatError("the class names in the file's metadata are not a JSON list of strings.")
    return names


def _safe_file(path: Path) -> SafeFile:
    """Let the library judge the header, then read it: the library tells no offsets, and would map the data."""
    library = need("safetensors", "io", "reading .safetensors")
    with path.open("rb") as stream:
        length = int.from_bytes(stream.read(8), "little")
        try:
            with library.safe_open(path, framework="numpy"):
                pass
            entries = json.loads(stream.read(length))
        except (library.SafetensorError, ValueError, RecursionError) as error:
            why = reason(error)
            raise FileFormatError(f"not a readable safetensors file, or a truncated one ({why}).") from None
    return SafeFile(path, 8 + length, entries)
