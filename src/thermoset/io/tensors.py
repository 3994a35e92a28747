"""Files of tensors: safetensors, and torch's .pt through its restricted unpickler."""

import json
import pickle  # only for the name of torch's exception
import zipfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from thermoset.data import Logits
from thermoset.data.arrays import read_table
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

__all__ = ["load_pt", "open_pt", "open_safetensors", "read_pt", "read_safetensors", "write_pt", "write_safetensors"]

_WANTED = "Save a dict of tensors: logits, labels."

# All that torch.load was seen to raise for damaged files; a KeyError for a storage that is not there, for example.
BAD_PT = (
    RuntimeError,
    pickle.UnpicklingError,
    ValueError,
    TypeError,
    KeyError,
    IndexError,
    AttributeError,
    AssertionError,
    EOFError,
    OverflowError,
    zipfile.BadZipFile,
)


def read_safetensors(path: Path, request: Request) -> Logits:
    """Read tensors `logits` and `labels`; class names stand in the metadata, as a JSON list."""
    library = need("safetensors", "io", "reading .safetensors")
    with _safe_errors(library), library.safe_open(path, framework="numpy") as file:
        held = list(file.keys())
        names = scores_name(held, request.probabilities), first_of(LABELS, held)
        scores, labels = (None if name is None else _safe_tensor(file, name, path) for name in names)
        classes = _safe_names(file)
    return build(request, scores, labels, classes)


def open_safetensors(path: Path, request: Request, stack: ExitStack) -> RowSource:
    """Look at the header; the tensor of logits is read in slices."""
    library = need("safetensors", "io", "reading .safetensors")
    with _safe_errors(library):
        file = stack.enter_context(library.safe_open(path, framework="numpy"))
        name = scores_name(list(file.keys()), request.probabilities)
        shape = tuple(file.get_slice(name).get_shape())
        check_shape(shape, f"tensor {name!r}")
        return RowSource(shape, _safe_names(file), partial(_safe_blocks, library, file, name, path))


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


def read_pt(path: Path, request: Request) -> Logits:
    """Read a dict of tensors, or one tensor of logits; no class outside torch's own list is ever built."""
    torch = need("torch", "torch", "reading .pt")
    held = _held(torch, load_pt(path, request.max_bytes, _WANTED))
    names = (scores_name(held, request.probabilities), first_of(LABELS, held), first_of(NAMES, held))
    scores, labels, classes = (None if name is None else held[name] for name in names)
    for part in (scores, labels):
        if isinstance(part, torch.Tensor):  # a tensor with stride 0 can be larger than its file
            check_size(part.numel() * max(part.element_size(), 4), request.max_bytes, "a tensor")
    return build(request, scores, labels, classes)


def load_pt(path: Path, max_bytes: int, remedy: str) -> Any:
    """Read whatever a .pt file holds, through torch's restricted unpickler, on the CPU."""
    torch = need("torch", "torch", "reading .pt")
    check_size(sum(info.file_size for info in _pt_members(path)), max_bytes, "the archive")
    return _pt_content(torch, path, remedy, mmap=False)


def open_pt(path: Path, request: Request, _: ExitStack) -> RowSource:
    """Map the file into memory, or read all of it if its members are compressed, which torch does not do."""
    torch = need("torch", "torch", "reading .pt")
    members = _pt_members(path)
    stored = all(info.compress_type == zipfile.ZIP_STORED for info in members)
    if not stored:
        check_size(sum(info.file_size for info in members), request.max_bytes, "the archive")
    held = _held(torch, _pt_content(torch, path, _WANTED, mmap=stored))
    name, names = scores_name(held, request.probabilities), first_of(NAMES, held)
    scores, classes = held[name], None if names is None else held[names]
    if not isinstance(scores, torch.Tensor) or scores.layout != torch.strided:
        scores = torch.from_numpy(read_table(scores, "probs" if request.probabilities else "logits").values)
    # What a file holds may be of any size; a tensor with stride 0 can be larger than its file.
    check_shape(scores.shape, f"tensor {name!r}")
    n_bytes = scores.numel() * scores.element_size()
    check_size(n_bytes, max(request.max_bytes, path.stat().st_size), "a tensor")
    return RowSource(tuple(scores.shape), classes, partial(_pt_blocks, scores))


def write_pt(stream: BinaryIO, logits: Logits) -> None:
    """Write a dict with tensors `logits` and `labels` and a list `classes`."""
    torch = need("torch", "torch", "writing .pt")
    content: dict[str, Any] = {"logits": torch.tensor(logits.logits)}
    if logits.labels is not None:
        content["labels"] = torch.tensor(logits.labels)
    if logits.classes is not None:
        content["classes"] = list(logits.classes)
    torch.save(content, stream)


@contextmanager
def _safe_errors(library: ModuleType) -> Iterator[None]:
    try:
        yield
    except library.SafetensorError as error:
        raise FileFormatError(f"not a readable safetensors file, or a truncated one ({error}).") from None


def _safe_names(file: Any) -> list[str] | None:
    metadata = file.metadata() or {}
    key = first_of(NAMES, metadata)
    return None if key is None else names_from_json(metadata[key])


def _safe_blocks(library: ModuleType, file: Any, name: str, path: Path, rows: int) -> Iterator[NDArray[Any]]:
    with _safe_errors(library):
        n_rows = file.get_slice(name).get_shape()[0]
        for first in range(0, n_rows, rows):
            yield _safe_tensor(file, name, path, slice(first, min(first + rows, n_rows)))


def _safe_tensor(file: Any, name: str, path: Path, rows: slice | None = None) -> NDArray[Any]:
    """Read a tensor, or some rows of it."""
    part = file.get_slice(name)
    check_shape(part.get_shape(), f"tensor {name!r}")
    if part.get_dtype() == "BF16":
        return _bfloat16(path, name, rows)
    try:
        array: NDArray[Any] = file.get_tensor(name) if rows is None else part[rows]
    except (TypeError, AttributeError) as error:
        raise FileFormatError(f"tensor {name!r} has a type NumPy cannot hold ({error}). Save it as float32.") from None
    return array


def _bfloat16(path: Path, name: str, rows: slice | None) -> NDArray[np.float32]:
    """Read bfloat16, which NumPy lacks: the upper half of a float32. The library has checked the header already."""
    with path.open("rb") as stream:
        length = int.from_bytes(stream.read(8), "little")
        entry = json.loads(stream.read(length))[name]
        shape, (begin, end) = entry["shape"], entry["data_offsets"]
        if rows is not None:
            row_bytes = (end - begin) // shape[0]
            begin, end = begin + rows.start * row_bytes, begin + rows.stop * row_bytes
            shape = [rows.stop - rows.start, *shape[1:]]
        stream.seek(8 + length + begin)
        upper = np.frombuffer(stream.read(end - begin), dtype="<u2")
    return (upper.astype(np.uint32) << 16).view(np.float32).reshape(shape)


def _pt_members(path: Path) -> list[zipfile.ZipInfo]:
    """Look at the zip directory before torch does; a bare pickle, torch's format before 1.6, is not read."""
    try:
        with zipfile.ZipFile(path) as archive:
            return archive.infolist()
    except (zipfile.BadZipFile, ValueError, NotImplementedError) as error:
        raise FileFormatError(
            f"not a torch archive, a truncated one, or of torch before 1.6 ({error}). Save it again with torch.save."
        ) from None


def _pt_content(torch: ModuleType, path: Path, remedy: str, *, mmap: bool) -> Any:
    """What a file holds, through torch's restricted unpickler, on the CPU."""
    try:
        return torch.load(path, weights_only=True, map_location="cpu", mmap=mmap)
    except BAD_PT as error:
        reason = " ".join(str(error).split())[:160]
        raise FileFormatError(f"torch cannot read it with weights_only=True ({reason}). {remedy}") from None


def _held(torch: ModuleType, content: Any) -> dict[str, Any]:
    """The named parts of what a file of logits holds."""
    if isinstance(content, torch.Tensor):
        content = {"logits": content}
    if not isinstance(content, dict):
        raise FileFormatError(f"holds a {type(content).__name__}; wanted a dict with tensors logits and labels.")
    return {str(key): value for key, value in content.items()}


def _pt_blocks(scores: Any, rows: int) -> Iterator[Any]:
    for first in range(0, len(scores), rows):
        yield scores[first : first + rows].clone()  # not a view of a file that might change
