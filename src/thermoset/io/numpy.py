"""NumPy files: npz archives and npy files, read without a pickle in sight.

An npy file has its labels, class names and groups in files next to it: `val_logits.npy`, `val_labels.npy`.
"""

import struct
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tokenize import TokenError
from typing import IO, Any, BinaryIO

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray

from thermoset.errors import FileFormatError, InputError
from thermoset.io.files import unreadable, write_whole
from thermoset.io.roles import Request
from thermoset.io.table import PIECE_BYTES, Column, Columns, Flat, Forward, Held, Table
from thermoset.quoting import printable, quoted

_HEADERS = {(1, 0): npy.read_array_header_1_0, (2, 0): npy.read_array_header_2_0}
# A header is a Python literal: what its tokenizer, parser and numpy.dtype raise for nonsense (KeyError: the version).
_BAD_HEADER = (ValueError, TypeError, SyntaxError, KeyError, EOFError, TokenError, RecursionError, MemoryError)
_BAD_ARCHIVE = (zipfile.BadZipFile, zlib.error, EOFError, RuntimeError, NotImplementedError, ValueError, OverflowError)
SIBLINGS = ("labels", "classes", "groups")
_LOCAL_HEADER = struct.Struct("<4s22xHH")


def _header(stream: IO[bytes], name: str, n_bytes: int) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
    """Shape, Fortran order and type of an array; the stream is left where its data begin, and ends after `n_bytes`."""
    with unreadable(f"{name} is not a readable npy array", _BAD_HEADER):
        shape, fortran, dtype = _HEADERS[npy.read_magic(stream)](stream)
    if dtype.hasobject:
        raise FileFormatError(
            f"{name} is an object array, which only a pickle can hold and pickles are never read. "
            "Save numbers as numbers and names with dtype=str."
        )
    if dtype.kind not in "fiubcUS" or dtype.itemsize == 0:
        raise FileFormatError(
            f"{name} has dtype {printable(str(dtype), 100)} and shape {quoted(shape)}; "
            "expected numbers or text. Save bfloat16 as float32."
        )
    declared = int(np.prod(shape, dtype=object)) * dtype.itemsize
    if declared != n_bytes - stream.tell():
        raise FileFormatError(
            f"{name} declares {quoted(declared)} bytes of data (shape {quoted(shape)}, {dtype}) "
            f"but {n_bytes - stream.tell():,} follow: truncated. Save it again."
        )
    return shape, fortran, dtype


def npy_column(path: Path) -> Column:
    """The array of an npy file."""
    with path.open("rb") as stream:
        shape, fortran, dtype = _header(stream, path.name, path.stat().st_size)
        return Flat(path, stream.tell(), shape, dtype, fortran)


def read_npy(path: Path, request: Request) -> Table:
    """Logits in one file, what belongs to them in files next to it."""
    name = next((word for word in ("probs", "probabilities") if word in path.name), "logits")
    return Table({name if request.probabilities else "logits": npy_column(path), **sibling_columns(path, request)})


def sibling_columns(path: Path, request: Request) -> dict[str, Column]:
    """What npy files next to an array hold: labels, class names, groups, and what the user has named."""
    columns: dict[str, Column] = {}
    for name in dict.fromkeys((*SIBLINGS, *request.named)):
        file = sibling(path, name)
        if file.exists():
            columns[name] = npy_column(file)
    return columns


def sibling(path: Path, what: str) -> Path:
    """Name the file that holds something else about the rows of an array."""
    array = path.with_suffix(".npy") if path.suffix.lower() != ".npy" else path
    for word in ("logits", "probs", "probabilities"):
        head, match, tail = array.name.rpartition(word)
        if match:
            return array.with_name(f"{head}{what}{tail}")
    return array.with_name(f"{array.stem}_{what}{array.suffix}")


def write_npy(path: Path, table: Table) -> None:
    """Write logits, and what belongs to them next to them; each file is whole or absent, logits come last."""
    arrays = as_arrays(table)
    logits = arrays.pop("logits", None)
    if logits is None:
        raise InputError("npy cannot hold the largest logits of rows. Save as npz or parquet.")
    for name in SIBLINGS:
        if name not in arrays and (file := sibling(path, name)).exists():
            raise InputError(f"{file.name} exists and would be read with it. Remove it or choose another name.")
    for name, array in {**arrays, "logits": logits}.items():
        with write_whole(path if name == "logits" else sibling(path, name)) as stream:
            np.save(stream, array, allow_pickle=False)


def as_arrays(table: Table) -> dict[str, NDArray[Any]]:
    """Columns and metadata as arrays that NumPy can save."""
    arrays = {name: array.astype(str) if array.dtype.kind == "O" else array for name, array in table.arrays().items()}
    return arrays | {name: np.asarray(value) for name, value in table.metadata.items()}


# -- archives ----------------------------------------------------------------------------------------------------------


def read_npz(path: Path, _: Request) -> Table:
    """The arrays of an archive: stored ones are read in place, packed ones forwards."""
    with _archive(path) as archive:
        members = {info.filename.removesuffix(".npy"): info for info in archive.infolist()}

    def open_column(name: str) -> Column:
        return _member(path, members[name])

    return Table(Columns(members, open_column))


def _member(path: Path, info: zipfile.ZipInfo) -> Column:
    if info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED) or info.flag_bits & 1:
        raise FileFormatError(f"{info.filename} is encrypted or compressed in a way NumPy does not write.")
    with _archive(path) as archive, archive.open(info) as stream:
        shape, fortran, dtype = _header(stream, info.filename, info.file_size)
        begin = stream.tell()
    if not shape:
        with _archive(path) as archive, archive.open(info) as stream:
            return Held(npy.read_array(stream, allow_pickle=False))
    if info.compress_type != zipfile.ZIP_STORED:
        return _Packed(path, shape, dtype, info.filename, fortran)
    with path.open("rb") as file:  # a member has a header of its own, which may be longer than the directory says
        file.seek(info.header_offset)
        head = file.read(_LOCAL_HEADER.size)
    if len(head) < _LOCAL_HEADER.size or not head.startswith(b"PK\x03\x04"):
        raise FileFormatError(f"{info.filename} is not where the archive says: damaged. Save it again.")
    _, name, extra = _LOCAL_HEADER.unpack(head)
    offset = info.header_offset + _LOCAL_HEADER.size + int(name) + int(extra) + begin
    return Flat(path, offset, shape, dtype, fortran)


@dataclass(frozen=True)
class _Packed(Forward):
    """An array in a compressed member, which can only be unpacked from its beginning on."""

    member: str = ""
    fortran: bool = False

    def blocks(self, _: int) -> Iterator[NDArray[Any]]:
        """Rows as they are unpacked; all at once where they are strewn over the member."""
        with _archive(self.path) as archive, archive.open(self.member) as stream:
            if self.fortran:
                yield npy.read_array(stream, allow_pickle=False)
                return
            _header(stream, self.member, archive.getinfo(self.member).file_size)
            stride = self.dtype.itemsize * int(np.prod(self.shape[1:], dtype=np.int64))
            step = max(1, PIECE_BYTES // max(1, stride)) * stride
            while content := stream.read(step):
                yield np.frombuffer(content, self.dtype).reshape(-1, *self.shape[1:])


def write_npz(stream: BinaryIO, table: Table) -> None:
    """Write an archive: of logits as they are, because they hardly shrink; of the largest logits packed."""
    packed = zipfile.ZIP_STORED if "logits" in table.columns else zipfile.ZIP_DEFLATED
    with zipfile.ZipFile(stream, "w", packed) as archive:
        for name, array in as_arrays(table).items():
            with archive.open(f"{name}.npy", "w", force_zip64=True) as member:
                npy.write_array(member, array, allow_pickle=False)


@contextmanager
def _archive(path: Path) -> Iterator[zipfile.ZipFile]:
    said = "not a readable npz archive, or a truncated one"
    with unreadable(said, _BAD_ARCHIVE, " Save it again."), zipfile.ZipFile(path) as archive:
        yield archive
