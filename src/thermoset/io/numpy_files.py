"""NumPy files: npz archives and npy files, read without `numpy.load` and so without a pickle in sight.

A header declares an array's shape and type. Before memory is allocated the declared size is compared with what
the file holds and with the limit.
"""

import math
import sys
import zipfile
import zlib
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from tokenize import TokenError
from typing import IO, Any, BinaryIO, NamedTuple

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray

from thermoset.data import Logits
from thermoset.errors import FileFormatError, InputError
from thermoset.io.files import (
    GROUPS,
    LABELS,
    NAMES,
    Ids,
    Request,
    build,
    check_shape,
    check_size,
    first_of,
    no_column,
    scores_name,
    write_whole,
)
from thermoset.io.names import group_name, label_name
from thermoset.quoting import printable, quoted, reason

__all__ = [
    "BAD_ARCHIVE",
    "ArrayHeader",
    "archive_errors",
    "check_member",
    "cut",
    "decoded",
    "file_header",
    "group_sibling",
    "member_header",
    "members_of",
    "npz_ids",
    "read_blocks",
    "read_bytes",
    "read_data",
    "read_into",
    "read_member",
    "read_npy",
    "read_npy_array",
    "read_npz",
    "read_npz_arrays",
    "sibling",
    "siblings",
    "texts",
    "write_npy",
    "write_npz",
]

CHUNK = 1 << 24
HEADER_READERS = {(1, 0): npy.read_array_header_1_0, (2, 0): npy.read_array_header_2_0}
# A header is a Python literal: what its tokenizer, parser and numpy.dtype raise for nonsense (KeyError: the version).
BAD_HEADER = (ValueError, TypeError, SyntaxError, KeyError, EOFError, TokenError, RecursionError, MemoryError)
BAD_ARCHIVE = (zipfile.BadZipFile, zlib.error, EOFError, RuntimeError, NotImplementedError, ValueError, OverflowError)


class ArrayHeader(NamedTuple):
    """What a file declares of an array."""

    shape: tuple[int, ...]
    fortran: bool
    dtype: np.dtype[Any]

    @property
    def n_bytes(self) -> int:
        """Size of the data that must follow."""
        return math.prod(self.shape) * self.dtype.itemsize


def read_npz(path: Path, request: Request) -> Logits:
    """Read arrays `logits`, `labels`, `classes` and `groups` of an archive; others are not looked at."""

    def choose(held: Collection[str]) -> list[str | None]:
        scores = scores_name(held, request.probabilities)
        return [scores, label_name(held, request), first_of(NAMES, held), group_name(held, request)]

    scores, labels, classes, groups = read_npz_arrays(path, choose, request.max_bytes)
    return build(request, scores, labels, None if classes is None else texts(classes), decoded(groups))


def read_npz_arrays(
    path: Path, choose: Callable[[Collection[str]], list[str | None]], max_bytes: int
) -> list[NDArray[Any] | None]:
    """Read the arrays of an archive that `choose` picks out of the names it holds; None where it picks None."""
    with archive_errors(), zipfile.ZipFile(path) as archive:
        members = members_of(archive)
        names = choose(members)
        wanted = [members[name] for name in names if name is not None]
        for info in wanted:
            check_member(info)
        check_size(sum(info.file_size for info in wanted), max_bytes, "the archive")
        return [None if name is None else read_member(archive, members[name]) for name in names]


def npz_ids(
    archive: zipfile.ZipFile, members: Mapping[str, zipfile.ZipInfo], request: Request, shape: tuple[int, ...]
) -> Ids:
    """Read the array of ids, whole: within the limit."""
    name = request.id_column or ""
    if name not in members:
        raise no_column(name, members)
    check_member(members[name])
    check_size(members[name].file_size, request.max_bytes, members[name].filename)
    found = read_member(archive, members[name])
    if found.shape != shape[:1] or found.dtype.kind not in "iuUS":
        raise FileFormatError(
            f"array {quoted(name)} must hold {shape[0]} ids, whole numbers or text; got {found.dtype}, shape "
            f"{found.shape}."
        )
    ids: list[Any] = texts(found) if found.dtype.kind in "US" else found.tolist()
    return Ids(lambda: iter(ids), text=not np.can_cast(found.dtype, np.int64))


def read_npy(path: Path, request: Request) -> Logits:
    """Read logits from one file, and labels, class names and groups from its siblings if they exist."""
    scores = read_npy_array(path, request.max_bytes)
    classes, labels, groups = siblings(path)[1], label_sibling(path, request), group_sibling(path, request)
    return build(
        request,
        scores,
        None if labels is None else read_npy_array(labels, request.max_bytes),
        texts(read_npy_array(classes, request.max_bytes)) if classes.exists() else None,
        None if groups is None else decoded(read_npy_array(groups, request.max_bytes)),
    )


def siblings(path: Path) -> tuple[Path, Path, Path]:
    """Name the files of labels, of class names and of groups that belong to an npy file of logits.

    >>> [sibling.name for sibling in siblings(Path("val_logits.npy"))]
    ['val_labels.npy', 'val_classes.npy', 'val_groups.npy']
    """
    return sibling(path, "labels"), sibling(path, "classes"), sibling(path, "groups")


def group_sibling(path: Path, request: Request) -> Path | None:
    """The file of groups beside an npy file of logits, if there is one to be read."""
    return _found_sibling(path, GROUPS[0], request.groups) if request.find_groups else None


def label_sibling(path: Path, request: Request) -> Path | None:
    """The file of labels beside an npy file of logits, if there is one to be read."""
    return _found_sibling(path, LABELS[0], request.labels) if request.find_labels else None


def _found_sibling(path: Path, usual: str, named: str | None) -> Path | None:
    found = sibling(path, named or usual)
    if not found.exists() and named is not None:
        raise FileFormatError(f"there is no {found.name} next to it to read {quoted(named)} from.")
    return found if found.exists() else None


def sibling(path: Path, what: str) -> Path:
    """Name the file that holds something else about the rows of an npy file of logits.

    >>> sibling(Path("val_logits.npy"), "site").name, sibling(Path("val.npy"), "labels").name
    ('val_site.npy', 'val_labels.npy')
    """
    for word in ("logits", "probs", "probabilities"):
        head, found, tail = path.name.rpartition(word)
        if found:
            return path.with_name(f"{head}{what}{tail}")
    return path.with_name(f"{path.stem}_{what}{path.suffix}")


def read_npy_array(path: Path, max_bytes: int) -> NDArray[Any]:
    """Read one npy file."""
    with path.open("rb") as stream:
        header = file_header(stream, path)
        check_size(header.n_bytes, max_bytes, path.name)
        return read_data(stream, header, path.name)


def write_npz(stream: BinaryIO, logits: Logits) -> None:
    """Write an uncompressed archive: logits hardly compress, and reading is ten times faster."""
    arrays: dict[str, NDArray[Any]] = {"logits": logits.logits}
    if logits.labels is not None:
        arrays["labels"] = logits.labels
    if logits.classes is not None:
        arrays["classes"] = np.asarray(logits.classes)
    if logits.groups is not None:
        arrays["groups"] = np.asarray(logits.groups)
    with zipfile.ZipFile(stream, "w") as archive:
        for name, array in arrays.items():
            with archive.open(f"{name}.npy", "w", force_zip64=True) as member:
                npy.write_array(member, array, allow_pickle=False)


def write_npy(path: Path, logits: Logits) -> None:
    """Write logits, and labels, class names and groups beside them; each file is whole or absent, logits come last."""
    names, groups = logits.classes, logits.groups
    parts = (
        logits.labels,
        None if names is None else np.asarray(names),
        None if groups is None else np.asarray(groups),
    )
    beside = siblings(path)
    for sibling, part in zip(beside, parts, strict=True):
        if part is None and sibling.exists():
            raise InputError(f"{sibling.name} exists and would be read with it. Remove it or choose another name.")
    for target, part in zip((*beside, path), (*parts, logits.logits), strict=True):
        if part is not None:
            with write_whole(target) as stream:
                np.save(stream, part, allow_pickle=False)


@contextmanager
def archive_errors() -> Iterator[None]:
    """Say in the project's own errors that an archive cannot be read."""
    try:
        yield
    except InputError:
        raise
    except BAD_ARCHIVE as error:
        raise FileFormatError(
            f"not a readable npz archive, or a truncated one ({reason(error)}). Save it again."
        ) from None


def members_of(archive: zipfile.ZipFile) -> dict[str, zipfile.ZipInfo]:
    """The members of an archive by the names of their arrays."""
    return {info.filename.removesuffix(".npy"): info for info in archive.infolist()}


def check_member(info: zipfile.ZipInfo) -> None:
    """Refuse what NumPy does not write."""
    if info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED) or info.flag_bits & 1:
        raise FileFormatError(f"{info.filename} is encrypted or compressed in a way NumPy does not write.")


def read_member(archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> NDArray[Any]:
    """Read one array of an archive."""
    with archive.open(info) as stream:
        return read_data(stream, member_header(stream, info), info.filename)


def cut(array: NDArray[Any], rows: int) -> Iterator[NDArray[Any]]:
    """Cut an array that is in memory into blocks of rows.

    >>> [len(block) for block in cut(np.zeros((3, 2)), 2)]
    [2, 1]
    """
    for first in range(0, len(array), rows):
        yield np.array(array[first : first + rows], order="C")


def member_header(stream: IO[bytes], info: zipfile.ZipInfo) -> ArrayHeader:
    """Shape and type of an array in an archive; the stream is left where its data begin."""
    header = _read_header(stream, info.filename)
    _check_declared(header, info.file_size - stream.tell(), info.filename)
    return header


def file_header(stream: IO[bytes], path: Path) -> ArrayHeader:
    """Shape and type of the array of an npy file; the stream is left where its data begin."""
    header = _read_header(stream, path.name)
    _check_declared(header, path.stat().st_size - stream.tell(), path.name)
    return header


def _read_header(stream: IO[bytes], name: str) -> ArrayHeader:
    try:
        header = ArrayHeader(*HEADER_READERS[npy.read_magic(stream)](stream))
    except BAD_HEADER as error:
        raise FileFormatError(f"{name} is not a readable npy array ({reason(error)}).") from None
    if not all(type(size) is int for size in header.shape):  # a header may say True, and NumPy lets it pass
        raise FileFormatError(f"{name} declares the shape {quoted(header.shape)}; expected whole numbers.")
    if header.dtype.hasobject:
        raise FileFormatError(
            f"{name} is an object array, which only a pickle can hold and pickles are never read. "
            f"Save numbers as numbers and names with dtype=str."
        )
    if header.dtype.kind not in "fiubcUS" or header.dtype.itemsize == 0 or min(header.shape, default=0) < 0:
        raise FileFormatError(
            f"{name} has dtype {printable(str(header.dtype), 100)} and shape {quoted(header.shape)}; "
            f"expected numbers or text. Save bfloat16 as float32."
        )
    return header


def _check_declared(header: ArrayHeader, available: int, name: str) -> None:
    if header.n_bytes != available:
        raise FileFormatError(
            f"{name} declares {quoted(header.n_bytes)} bytes of data (shape {quoted(header.shape)}, {header.dtype}) "
            f"but {available:,} follow: truncated. Save it again."
        )
    check_shape(header.shape, name)


def read_data(stream: IO[bytes], header: ArrayHeader, name: str) -> NDArray[Any]:
    """Read all of an array."""
    flat = read_bytes(stream, header, name, 0, header.n_bytes).view(header.dtype)
    if header.dtype.kind == "U":
        _check_text(flat, name)
    return flat.reshape(header.shape[::-1]).T if header.fortran else flat.reshape(header.shape)


def read_blocks(stream: IO[bytes], header: ArrayHeader, name: str, rows: int) -> Iterator[NDArray[Any]]:
    """Read an array in C order, so many rows at a time."""
    n_rows, n_columns = header.shape
    row_bytes = n_columns * header.dtype.itemsize
    for first in range(0, n_rows, rows):
        end = min(first + rows, n_rows)
        block = read_bytes(stream, header, name, first * row_bytes, end * row_bytes)
        yield block.view(header.dtype).reshape(-1, n_columns)


def _check_text(flat: NDArray[Any], name: str) -> None:
    """Refuse four bytes that are no character: NumPy would hand them to Python, which takes them for its own fault."""
    points = flat.view(flat.dtype.str[0] + "u4")
    if points.size and points.max() > sys.maxunicode:
        raise FileFormatError(f"{name} holds bytes that are not text: damaged. Save it again.")


def read_bytes(stream: IO[bytes], header: ArrayHeader, name: str, begin: int, end: int) -> NDArray[np.uint8]:
    """Read the bytes from `begin` to `end` of an array's data; the stream stands at `begin`."""
    buffer = np.empty(end - begin, dtype=np.uint8)
    done = read_into(stream, buffer.data)
    if done < len(buffer):
        raise FileFormatError(
            f"{name} ends after {begin + done:,} of {header.n_bytes:,} bytes: truncated. Save it again."
        )
    return buffer


def read_into(stream: IO[bytes], view: memoryview) -> int:
    """Read bytes from where a stream stands; gives how many there were."""
    done = 0
    while done < len(view):
        got = stream.readinto(view[done : done + CHUNK])  # type: ignore[attr-defined]  # binary streams have it
        if not got:
            break
        done += got
    return done


def decoded(values: NDArray[Any] | None) -> NDArray[Any] | None:
    """Values of rows with bytes as text; whoever takes them judges the rest.

    >>> decoded(np.array([b"north", b"south"]))
    array(['north', 'south'], dtype='<U5')
    """
    return values if values is None or values.dtype.kind != "S" else np.char.decode(values, "utf-8", "replace")


def texts(classes: NDArray[Any]) -> list[str]:
    """Read an array of class names.

    >>> texts(np.array([b"cat", b"dog"]))
    ['cat', 'dog']
    """
    if classes.ndim != 1 or classes.dtype.kind not in "US":
        as_text = " Save classes.astype(str), and labels.astype(str) if labels are these names."
        raise FileFormatError(
            f"class names must be a 1-D array of text; got {classes.dtype}, shape {classes.shape}."
            f"{as_text if classes.dtype.kind in 'iu' else ''}"
        )
    if classes.dtype.kind == "S":
        return [name.decode(errors="replace") for name in classes.tolist()]
    return [str(name) for name in classes.tolist()]
