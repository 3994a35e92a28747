"""Files of tensors: safetensors, and torch's .pt through its restricted unpickler."""

import json
import pickle  # only for the name of torch's exception
import zipfile
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from thermoset.data import Logits
from thermoset.errors import FileFormatError
from thermoset.io.files import LABELS, NAMES, Request, build, check_size, first_of, need, scores_name

__all__ = ["load_pt", "read_pt", "read_safetensors", "write_pt", "write_safetensors"]

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
    try:
        with library.safe_open(path, framework="numpy") as file:
            held = list(file.keys())
            names = scores_name(held, request.probabilities), first_of(LABELS, held)
            scores, labels = (None if name is None else _safe_tensor(file, name, path) for name in names)
            metadata = file.metadata() or {}
    except library.SafetensorError as error:
        raise FileFormatError(f"not a readable safetensors file, or a truncated one ({error}).") from None
    key = first_of(NAMES, metadata)
    return build(request, scores, labels, None if key is None else names_from_json(metadata[key]))


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
    content = load_pt(path, request.max_bytes, "Save a dict of tensors: logits, labels.")
    if isinstance(content, torch.Tensor):
        content = {"logits": content}
    if not isinstance(content, dict):
        raise FileFormatError(f"holds a {type(content).__name__}; wanted a dict with tensors logits and labels.")
    held = {str(key): value for key, value in content.items()}
    names = (scores_name(held, request.probabilities), first_of(LABELS, held), first_of(NAMES, held))
    scores, labels, classes = (None if name is None else held[name] for name in names)
    for part in (scores, labels):
        if isinstance(part, torch.Tensor):  # a tensor with stride 0 can be larger than its file
            check_size(part.numel() * max(part.element_size(), 4), request.max_bytes, "a tensor")
    return build(request, scores, labels, classes)


def load_pt(path: Path, max_bytes: int, remedy: str) -> Any:
    """Read whatever a .pt file holds through torch's restricted unpickler, on the CPU."""
    torch = need("torch", "torch", "reading .pt")
    _check_pt_archive(path, max_bytes)
    try:
        return torch.load(path, weights_only=True, map_location="cpu")
    except BAD_PT as error:
        reason = " ".join(str(error).split())[:160]
        raise FileFormatError(f"torch cannot read it with weights_only=True ({reason}). {remedy}") from None


def write_pt(stream: BinaryIO, logits: Logits) -> None:
    """Write a dict with tensors `logits` and `labels` and a list `classes`."""
    torch = need("torch", "torch", "writing .pt")
    content: dict[str, Any] = {"logits": torch.tensor(logits.logits)}
    if logits.labels is not None:
        content["labels"] = torch.tensor(logits.labels)
    if logits.classes is not None:
        content["classes"] = list(logits.classes)
    torch.save(content, stream)


def _safe_tensor(file: Any, name: str, path: Path) -> NDArray[Any]:
    if file.get_slice(name).get_dtype() == "BF16":
        return _bfloat16(path, name)
    try:
        array: NDArray[Any] = file.get_tensor(name)
    except (TypeError, AttributeError) as error:
        raise FileFormatError(f"tensor {name!r} has a type NumPy cannot hold ({error}). Save it as float32.") from None
    return array


def _bfloat16(path: Path, name: str) -> NDArray[np.float32]:
    """Read bfloat16, which NumPy lacks: the upper half of a float32. The library has checked the header already."""
    with path.open("rb") as stream:
        length = int.from_bytes(stream.read(8), "little")
        entry = json.loads(stream.read(length))[name]
        begin, end = entry["data_offsets"]
        stream.seek(8 + length + begin)
        upper = np.frombuffer(stream.read(end - begin), dtype="<u2")
    return (upper.astype(np.uint32) << 16).view(np.float32).reshape(entry["shape"])


def _check_pt_archive(path: Path, max_bytes: int) -> None:
    """Look at the zip directory before torch does; a bare pickle, torch's format before 1.6, is not read."""
    try:
        with zipfile.ZipFile(path) as archive:
            check_size(sum(info.file_size for info in archive.infolist()), max_bytes, "the archive")
    except (zipfile.BadZipFile, ValueError, NotImplementedError) as error:
        if isinstance(error, FileFormatError):
            raise
        raise FileFormatError(
            f"not a torch archive, a truncated one, or of torch before 1.6 ({error}). Save it again with torch.save."
        ) from None
