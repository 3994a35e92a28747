"""Tensors: safetensors, and torch's .pt files, of which `torch.load(weights_only=True)` reads tensors and lists alone.

In safetensors names of classes stand in the metadata, as a JSON list. Where the metadata have a list under the name of
a tensor (`groups`), its numbers are places in that list.
"""

import io
import json
import pickle
import struct
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from thermoset.data.reading import NAMES, foreign_array
from thermoset.errors import FileFormatError
from thermoset.io.arrow import names_from_json
from thermoset.io.files import need, unreadable
from thermoset.io.roles import Request
from thermoset.io.table import Column, Columns, Flat, Held, Table, read_all
from thermoset.quoting import quoted

SAFE_TYPES = {"F64": "<f8", "F32": "<f4", "F16": "<f2", "BF16": "<u2", "BOOL": "|b1"} | {
    f"{sign.upper()}{8 * size}": f"<{sign}{size}" for sign in "iu" for size in (1, 2, 4, 8)
}
_FACTS = ("n_classes", "rest_temperatures")
_WANTED = "Save a dict of tensors: logits, labels."


def read_safetensors(path: Path, _: Request) -> Table:
    """Let the library judge the header, then read it: the library tells no offsets, and would map the data."""
    library = need("safetensors", "io", "reading .safetensors")
    with path.open("rb") as stream:
        length = int.from_bytes(stream.read(8), "little")
        bad = (library.SafetensorError, ValueError, RecursionError)
        with unreadable("not a readable safetensors file, or a truncated one", bad):
            with library.safe_open(path, framework="numpy"):
                pass
            entries = json.loads(stream.read(length))
    stored = entries.pop("__metadata__", None) or {}

    def open_column(name: str) -> Column:
        entry = entries[name]
        if entry["dtype"] not in SAFE_TYPES:
            raise FileFormatError(
                f"tensor {quoted(name)} has type {entry['dtype']}, which NumPy cannot hold. Save it as float32."
            )
        offset, dtype = 8 + length + entry["data_offsets"][0], np.dtype(SAFE_TYPES[entry["dtype"]])
        flat = Flat(path, offset, tuple(entry["shape"]), dtype, bfloat16=entry["dtype"] == "BF16")
        return Held(_names_at(read_all(flat), name, stored[name])) if name in stored else flat

    facts: dict[str, Any] = {name: names_from_json(stored[name]) for name in NAMES if name in stored}
    for name in (name for name in _FACTS if name in stored):
        try:
            facts[name] = json.loads(stored[name])
        except (ValueError, RecursionError):
            raise FileFormatError(f"its metadata hold {quoted(stored[name])}; expected a number.") from None
    return Table(Columns(entries, open_column), facts)


def _names_at(places: NDArray[Any], name: str, text: str) -> NDArray[Any]:
    """Names of rows that are stored as places in a list."""
    names = names_from_json(text)
    if not all(isinstance(one, str) for one in names) or places.dtype.kind not in "iu":
        raise FileFormatError(f"tensor {quoted(name)} and its names in the metadata must be whole numbers and text.")
    if places.size and not 0 <= places.min() <= places.max() < len(names):
        raise FileFormatError(f"tensor {quoted(name)} names places outside of its list of {len(names)} names.")
    row_names: NDArray[Any] = np.array(names, dtype=object)[places]
    return row_names


def write_safetensors(stream: BinaryIO, table: Table) -> None:
    """Write tensors, and names of classes and groups in the metadata."""
    library = need("safetensors.numpy", "io", "writing .safetensors")
    metadata = {name: json.dumps(value) for name, value in table.metadata.items()}
    tensors = table.arrays()
    for name, array in tensors.items():
        if array.dtype.kind == "O":
            names, tensors[name] = np.unique(array.astype(str), return_inverse=True)
            metadata[name] = json.dumps(names.tolist())
        tensors[name] = np.ascontiguousarray(tensors[name])
    stream.write(library.save(tensors, metadata=metadata or None))


# -- torch -------------------------------------------------------------------------------------------------------------


# What torch was seen to raise for damaged files.
_BAD_PT = (RuntimeError, ValueError, TypeError, EOFError, LookupError, AttributeError, struct.error, zipfile.BadZipFile)


@contextmanager
def _torch_errors() -> Iterator[None]:
    said = "not a torch archive, a truncated one, or of torch before 1.6"
    more = "holds more than plain tensors, numbers, text, and lists and dicts of them"
    with (
        unreadable(said, _BAD_PT, " Save it again with torch.save."),
        unreadable(more, (pickle.UnpicklingError,), f" {_WANTED}"),
    ):
        yield


def _load_pt(path: Path) -> dict[str, Any]:
    """What a file holds; tensors stay where they are until they are looked at."""
    torch = need("torch", "torch", "reading .pt")
    with _torch_errors():
        with path.open("rb") as stream:
            if stream.read(4) != b"PK\x03\x04":
                raise ValueError("no zip archive")
        held = torch.load(path, map_location="cpu", weights_only=True, mmap=True)
    if isinstance(held, torch.Tensor):
        held = {"logits": held}
    if not isinstance(held, dict):
        raise FileFormatError(f"holds a {type(held).__name__}; expected a dict with tensors logits and labels.")
    return {name: one for name, one in held.items() if isinstance(name, str)}


def read_pt(path: Path, _: Request) -> Table:
    """A dict of tensors, or one tensor of logits; class names, and labels and groups if one likes, are lists."""
    torch, held = need("torch", "torch", "reading .pt"), _load_pt(path)

    def open_column(name: str) -> Column:
        one = held[name]
        if isinstance(one, torch.Tensor):
            if str(one.layout) != "torch.strided":
                raise FileFormatError(f"{quoted(name)} is a sparse tensor ({one.layout}). Save it with .to_dense().")
            with _torch_errors():
                dtype = foreign_array(torch.empty(0, dtype=one.dtype), name).dtype
            return _Tensor(path, tuple(one.shape), dtype, name)
        if not isinstance(one, list):
            raise FileFormatError(f"{quoted(name)} is of type {type(one).__name__}; expected a tensor. {_WANTED}")
        if not all(isinstance(item, (str, int, float)) for item in one):
            raise FileFormatError(f"{quoted(name)} is a list of other things than numbers or names. {_WANTED}")
        text = any(isinstance(item, str) for item in one)
        return Held(np.array(one, dtype=object) if text else np.array(one))

    facts = {name: held.pop(name) for name in (*NAMES, *_FACTS) if name in held}
    return Table(Columns(held, open_column), facts)


@dataclass(frozen=True)
class _Tensor:
    """A tensor in a torch archive; mapped for each read, so that what was touched leaves the memory."""

    path: Path
    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    name: str

    def read(self, start: int, stop: int) -> NDArray[Any]:
        """Rows start to stop - 1."""
        with _torch_errors():
            return np.array(foreign_array(_load_pt(self.path)[self.name][start:stop], self.name), order="C")


def write_pt(stream: BinaryIO, table: Table) -> None:
    """Write a dict of tensors, and lists of names."""
    torch = need("torch", "torch", "writing .pt")
    arrays = table.arrays().items()
    content = {name: array.tolist() if array.dtype.kind == "O" else torch.tensor(array) for name, array in arrays}
    buffer = io.BytesIO()  # torch's own writer hides why a disk could not be written
    torch.save(content | dict(table.metadata), buffer)
    stream.write(buffer.getbuffer())
