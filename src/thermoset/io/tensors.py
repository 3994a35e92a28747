"""Torch's .pt files: what they hold is looked up in their pickle, and nothing in it is unpickled.

The numbers are read, not mapped: if another program shortens a file meanwhile, touching a map of it kills the process.
"""

import io
import zipfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import IO, Any, BinaryIO, NamedTuple

import numpy as np
from numpy.typing import NDArray

from thermoset.data import Logits
from thermoset.data.groups import read_groups
from thermoset.errors import FileFormatError, InputError
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
from thermoset.io.numpy_files import BAD_ARCHIVE, ArrayHeader, check_member, cut, read_blocks, read_data
from thermoset.io.pickles import StoredTensor, read_pickle
from thermoset.quoting import quoted, reason

__all__ = ["open_pt", "pt_names", "read_pt", "read_pt_values", "write_pt"]

_WANTED = "Save a dict of tensors: logits, labels."


def read_pt(path: Path, request: Request) -> Logits:
    """Read a dict of tensors, or one tensor of logits; class names, and labels and groups if one likes, are lists."""
    torch = need("torch", "torch", "reading .pt")
    with _pt_errors(), zipfile.ZipFile(path) as archive:
        file = TorchFile.of(torch, archive, request.max_bytes)
        key, groups = label_name(file.held, request), group_name(file.held, request)
        return build(
            request,
            file.whole(scores_name(file.held, request.probabilities), request.max_bytes),
            None if key is None else file.tensor_or_list(key, request.max_bytes),
            file.classes,
            None if groups is None else file.tensor_or_list(groups, request.max_bytes),
        )


def pt_names(path: Path, request: Request) -> tuple[str, ...]:
    """What a file holds, by name."""
    torch = need("torch", "torch", "reading .pt")
    with _pt_errors(), zipfile.ZipFile(path) as archive:
        return tuple(TorchFile.of(torch, archive, request.max_bytes).held)


def read_pt_values(path: Path, name: str, request: Request) -> Any:
    """Read a tensor or a list of one value for each row."""
    torch = need("torch", "torch", "reading .pt")
    with _pt_errors(), zipfile.ZipFile(path) as archive:
        file = TorchFile.of(torch, archive, request.max_bytes)
        if name not in file.held:
            raise no_column(name, file.held)
        return file.tensor_or_list(name, request.max_bytes)


def open_pt(path: Path, request: Request, stack: ExitStack) -> RowSource:
    """Look at the pickle; the numbers are read in blocks, or at once if rows do not stand one after the other."""
    torch = need("torch", "torch", "reading .pt")
    with _pt_errors():
        file = TorchFile.of(torch, stack.enter_context(zipfile.ZipFile(path)), request.max_bytes)
        name = scores_name(file.held, request.probabilities)
        shape = file.tensor(name).shape
        file.check_size(name, max(request.max_bytes, file.storage(name).file_size))  # what a file holds may be large
        key = group_name(file.held, request)
        groups = None if key is None else read_groups(file.tensor_or_list(key, request.max_bytes), shape[0])
        blocks = partial(file.blocks, name, request.max_bytes)
        return RowSource(shape, file.classes, blocks, groups=None if groups is None else groups.__iter__)


class TorchFile(NamedTuple):
    """What a .pt file holds: names and where the numbers lie. No unpickler sees it."""

    torch: ModuleType
    archive: zipfile.ZipFile
    held: dict[str, Any]
    storages: dict[str, zipfile.ZipInfo]
    order: str  # of bytes

    @classmethod
    def of(cls, torch: ModuleType, archive: zipfile.ZipFile, max_bytes: int) -> "TorchFile":
        """Read the pickle of an archive."""
        root, data = _pt_pickle(archive, max_bytes)
        content = read_pickle(data, _WANTED)
        if isinstance(content, StoredTensor):
            content = {"logits": content}
        if not isinstance(content, dict):
            raise FileFormatError(f"holds a {type(content).__name__}; expected a dict with tensors logits and labels.")
        held = {key: value for key, value in content.items() if isinstance(key, str)}
        members = {info.filename: info for info in archive.infolist()}
        order = members.get(f"{root}byteorder")
        big = order is not None and order.file_size == 3 and archive.read(order) == b"big"
        stem = f"{root}data/"
        storages = {name.removeprefix(stem): info for name, info in members.items() if name.startswith(stem)}
        return cls(torch, archive, held, storages, ">" if big else "<")

    @property
    def classes(self) -> Any:
        """The list of class names, if there is one."""
        key = first_of(NAMES, self.held)
        return None if key is None else self.held[key]

    def tensor(self, name: str) -> StoredTensor:
        """Where a tensor lies, compared with what is there."""
        tensor = self.held[name]
        if not isinstance(tensor, StoredTensor):
            raise FileFormatError(f"{quoted(name)} is of type {type(tensor).__name__}; expected a tensor. {_WANTED}")
        check_shape(tensor.shape, f"tensor {quoted(name)}")
        if tensor.key not in self.storages or tensor.end * self._item(tensor) > self.storage(name).file_size:
            raise FileFormatError(f"tensor {quoted(name)} has more numbers than the file: damaged. Save it again.")
        return tensor

    def storage(self, name: str) -> zipfile.ZipInfo:
        """The member with a tensor's numbers."""
        info = self.storages[self.held[name].key]
        check_member(info)
        return info

    def check_size(self, name: str, max_bytes: int) -> None:
        """Compare a tensor with the limit; with stride 0 it can be larger than its file."""
        tensor = self.tensor(name)
        check_size(tensor.size * self._item(tensor), max_bytes, "a tensor")

    def whole(self, name: str, max_bytes: int) -> Any:
        """Read a tensor."""
        tensor = self.tensor(name)
        self.check_size(name, max_bytes)
        return self._typed(tensor, self._view(name, max_bytes))

    def tensor_or_list(self, name: str, max_bytes: int) -> Any:
        """Read labels or groups: a tensor, or a list of numbers or of names."""
        value = self.held[name]
        if isinstance(value, StoredTensor) or not isinstance(value, list):
            return self.whole(name, max_bytes)
        if not all(isinstance(item, (str, int, float)) for item in value):
            raise FileFormatError(f"{quoted(name)} is a list of other things than numbers or names. {_WANTED}")
        return value

    def blocks(self, name: str, max_bytes: int, rows: int) -> Iterator[Any]:
        """Read a tensor, so many rows at a time."""
        tensor = self.tensor(name)
        with _pt_errors():
            if not tensor.is_contiguous:
                view = self._view(name, max_bytes)
                yield from (self._typed(tensor, block) for block in cut(view, rows))
                return
            with self.archive.open(self.storage(name)) as stream:
                _skip(stream, tensor.offset * self._item(tensor))
                header = ArrayHeader(tensor.shape, False, self._raw(tensor))
                yield from (self._typed(tensor, block) for block in read_blocks(stream, header, quoted(name), rows))

    def _item(self, tensor: StoredTensor) -> int:
        dtype = getattr(self.torch, tensor.dtype, None)
        if dtype is None:
            raise FileFormatError(f"a tensor is of type {quoted(tensor.dtype)}. Save it as float32.")
        return int(dtype.itemsize)

    def _raw(self, tensor: StoredTensor) -> np.dtype[Any]:
        return np.dtype(f"{self.order}i{self._item(tensor)}")

    def _view(self, name: str, max_bytes: int) -> NDArray[Any]:
        """Read a storage whole and look at it as the tensor does."""
        tensor, info = self.tensor(name), self.storage(name)
        dtype = self._raw(tensor)
        check_size(info.file_size, max_bytes, f"tensor {quoted(info.filename)}")
        with self.archive.open(info) as stream:
            n = info.file_size // dtype.itemsize
            flat = read_data(stream, ArrayHeader((n,), False, dtype), quoted(info.filename))
        strides = tuple(stride * dtype.itemsize for stride in tensor.strides)
        return np.lib.stride_tricks.as_strided(flat[tensor.offset :], tensor.shape, strides)

    def _typed(self, tensor: StoredTensor, raw: NDArray[Any]) -> Any:
        """Make a tensor of bits: torch has types that NumPy lacks."""
        native = np.asarray(raw, dtype=raw.dtype.newbyteorder("="), order="C")
        return self.torch.from_numpy(native).view(getattr(self.torch, tensor.dtype))


def write_pt(stream: BinaryIO, logits: Logits) -> None:
    """Write a dict with tensors `logits` and `labels` and lists `classes` and `groups`."""
    torch = need("torch", "torch", "writing .pt")
    content: dict[str, Any] = {"logits": torch.tensor(logits.logits)}
    if logits.labels is not None:
        content["labels"] = torch.tensor(logits.labels)
    if logits.classes is not None:
        content["classes"] = list(logits.classes)
    if logits.groups is not None:
        content["groups"] = list(logits.groups)
    recorded = _Recorded(stream)
    try:
        torch.save(content, recorded)
    except RuntimeError:  # of torch's writer, which hides why a write failed
        if recorded.error is not None:
            raise recorded.error from None
        raise


class _Recorded(io.RawIOBase):
    """Passes on what is written and keeps what went wrong."""

    def __init__(self, stream: BinaryIO) -> None:
        self.stream = stream
        self.error: OSError | None = None

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        try:
            return self.stream.write(data)
        except OSError as error:
            self.error = error
            raise


@contextmanager
def _pt_errors() -> Iterator[None]:
    """A bare pickle, torch's format before 1.6, is not read."""
    try:
        yield
    except InputError:
        raise
    except BAD_ARCHIVE as error:
        raise FileFormatError(
            f"not a torch archive, a truncated one, or of torch before 1.6 ({reason(error)}). "
            f"Save it again with torch.save."
        ) from None


def _pt_pickle(archive: zipfile.ZipFile, max_bytes: int) -> tuple[str, bytes]:
    """Find the one pickle of an archive, and the folder it stands in."""
    names = [info.filename.lower() for info in archive.infolist()]
    found = [info for info in archive.infolist() if info.filename.lower().endswith("data.pkl")]
    if len(found) != 1 or len(set(names)) != len(names):  # torch might see another one than we do
        raise FileFormatError(f"not a torch archive: {len(found)} members are called data.pkl, or two have one name.")
    check_member(found[0])
    check_size(found[0].file_size, max_bytes, "the pickle in the file")
    return found[0].filename[: -len("data.pkl")], archive.read(found[0])


def _skip(stream: IO[bytes], n_bytes: int) -> None:
    while n_bytes > 0 and (got := len(stream.read(min(n_bytes, 1 << 20)))):
        n_bytes -= got
