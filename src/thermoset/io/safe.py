"""Safetensors: tensors `logits` and `labels`, class names in the metadata.

The library checks the header. The numbers are read, not mapped as it would: if another program shortens a file
meanwhile, touching a map of it kills the process.
"""

import json
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import IO, Any, BinaryIO, NamedTuple

import numpy as np
from numpy.typing import NDArray

from thermoset.data import Logits
from thermoset.errors import FileFormatError
from thermoset.io.files import (
    LABELS,
    NAMES,
    Request,
    RowSource,
    build,
    check_shape,
    check_size,
    first_of,
    need,
    scores_name,
)
from thermoset.io.numpy_files import ArrayHeader, read_blocks, read_data
from thermoset.quoting import quoted, reason

__all__ = ["names_from_json", "open_safetensors", "read_safetensors", "write_safetensors"]

SAFE_TYPES = {"F64": "<f8", "F32": "<f4", "F16": "<f2", "BF16": "<u2", "BOOL": "|b1"} | {
    f"{sign.upper()}{8 * size}": f"<{sign}{size}" for sign in "iu" for size in (1, 2, 4, 8)
}
JSON_BYTES = 48  # an empty list in a list, of three bytes, takes some sixty in memory; names are read twice


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

    def read(self, name: str) -> NDArray[Any]:
        """Read a tensor."""
        with self._at(name) as stream:
            return self._numbers(name, read_data(stream, self.header(name), quoted(name)))

    def blocks(self, name: str, rows: int) -> Iterator[NDArray[Any]]:
        """Read a tensor, so many rows at a time."""
        with self._at(name) as stream:
            for block in read_blocks(stream, self.header(name), quoted(name), rows):
                yield self._numbers(name, block)

    @contextmanager
    def _at(self, name: str) -> Iterator[IO[bytes]]:
        with self.path.open("rb") as stream:
            stream.seek(self.start + self.entries[name]["data_offsets"][0])
            yield stream

    def _numbers(self, name: str, array: NDArray[Any]) -> NDArray[Any]:
        """Widen bfloat16, which NumPy lacks: it is the upper half of a float32."""
        if self.entries[name]["dtype"] != "BF16":
            return array
        return (array.astype(np.uint32) << 16).view(np.float32)


def read_safetensors(path: Path, request: Request) -> Logits:
    """Read tensors `logits` and `labels`; class names stand in the metadata, as a JSON list."""
    file = _safe_file(path, request.max_bytes)
    scores, labels = scores_name(file.names, request.probabilities), first_of(LABELS, file.names)
    return build(request, file.read(scores), None if labels is None else file.read(labels), file.classes)


def open_safetensors(path: Path, request: Request, _: ExitStack) -> RowSource:
    """Look at the header; the tensor of logits is read in blocks."""
    file = _safe_file(path, request.max_bytes)
    name = scores_name(file.names, request.probabilities)
    return RowSource(file.header(name).shape, file.classes, partial(file.blocks, name))


def write_safetensors(stream: BinaryIO, logits: Logits) -> None:
    """Write tensors `logits` and `labels`, class names in the metadata."""
    library = need("safetensors.numpy", "io", "writing .safetensors")
    tensors = {"logits": logits.logits} | ({} if logits.labels is None else {"labels": logits.labels})
    metadata = None if logits.classes is None else {"classes": json.dumps(logits.classes)}
    stream.write(library.save(tensors, metadata=metadata))


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


def _safe_file(path: Path, max_bytes: int) -> SafeFile:
    """Let the library judge the header, then read it: the library tells no offsets, and would map the data."""
    library = need("safetensors", "io", "reading .safetensors")
    with path.open("rb") as stream:
        length = int.from_bytes(stream.read(8), "little")
        if length < path.stat().st_size:  # else it lies, and the library says so
            check_size(length * JSON_BYTES, max_bytes, "the header, as text and read,")
        try:
            with library.safe_open(path, framework="numpy"):
                pass
            entries = json.loads(stream.read(length))
        except (library.SafetensorError, ValueError, RecursionError) as error:
            why = reason(error)
            raise FileFormatError(f"not a readable safetensors file, or a truncated one ({why}).") from None
    return SafeFile(path, 8 + length, entries)
