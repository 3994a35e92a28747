"""What every file shares: its name, its size, errors about it, locks, and being written whole or not at all.

And documents: JSON with a format, a schema and a checksum, as predictors, answer rules and monitors save it.
"""

import errno
import hashlib
import importlib
import os
import secrets
import stat
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import partial
from io import FileIO
from pathlib import Path
from types import ModuleType
from typing import Any, BinaryIO, TypeVar

import msgspec

from thermoset.bounds import whole_number
from thermoset.errors import FileFormatError, InputError, MissingExtraError
from thermoset.quoting import printable, quoted, reason
from thermoset.rows import physical_memory

try:
    import fcntl
except ImportError:  # there are no such locks on Windows
    fcntl = None  # type: ignore[assignment]

FilePath = str | os.PathLike[str]

FOLDER_SUFFIXES = (".zarr",)  # of folders that are one file of logits
_PIECE = 1 << 20
MOST_BYTES = 2**100 - 1  # the largest limit: more than there are anywhere
LONGEST_MESSAGE = 1000


def as_path(path: object) -> Path:
    """Take the name of a file."""
    if not isinstance(path, (str, os.PathLike)) or "\0" in os.fspath(path):
        raise InputError(f"path must be the name of a file; got {path!r}.")
    return Path(path)


def known_suffix(path: Path, suffixes: tuple[str, ...]) -> str:
    """Return the suffix, in small letters, if it is one of those known."""
    suffix = suffix_of(path)
    if suffix not in suffixes:
        more = _WAYS_OUT.get(path.suffix.lower(), "")
        raise FileFormatError(f"{path}: unknown kind of file {suffix!r}; known: {', '.join(suffixes)}.{more}")
    return suffix


def suffix_of(path: Path) -> str:
    """The ending that says what kind of file it is, in small letters; of packed text with the ending before it."""
    last = path.suffix.lower()
    return f"{Path(path.stem).suffix.lower()}{last}" if last == ".gz" else last


_WAYS_OUT = {
    **dict.fromkeys((".xlsx", ".xls", ".ods"), " Save the sheet as csv: frame.to_csv('val.csv', index=False)."),
    **dict.fromkeys((".pkl", ".pickle", ".joblib"), " Pickles are never read: np.savez('val.npz', logits=logits)."),
    **dict.fromkeys((".gz", ".bz2", ".zip", ".zst"), " Unpack it first; of packed files csv.gz and tsv.gz are read."),
}


def existing_file(path: FilePath, suffixes: tuple[str, ...]) -> tuple[Path, str]:
    """Return the path and the suffix of a file that is there and of a known kind."""
    source = as_path(path)
    if source.suffix.lower() in FOLDER_SUFFIXES and source.is_dir():
        return source, known_suffix(source, suffixes)
    size = _regular(source).st_size
    suffix = known_suffix(source, suffixes)
    if suffix in FOLDER_SUFFIXES:
        raise FileFormatError(f"{source}: is a file; {suffix} must be a folder.")
    if size == 0:
        raise FileFormatError(f"{source}: the file is empty.")
    return source, suffix


def read_at_most(path: FilePath, most: int) -> bytes:
    """Read all of a regular file, unless it has more than `most` bytes."""
    source = as_path(path)
    size = _regular(source).st_size  # before it is opened: to open a pipe is to wait for a writer
    content = bytearray()
    with errors_about(source), source.open("rb") as stream:
        while size <= most and (piece := stream.read(_PIECE)):  # it may have grown, and in /proc sizes say nothing
            content += piece
            size = max(size, len(content))
        if size > most:
            raise FileFormatError(f"has more than {most:,} bytes, the most that such a file may have.")
    return bytes(content)


def _regular(source: Path) -> os.stat_result:
    """The status of a file that is there, and is a file."""
    try:
        status = source.stat()
    except (FileNotFoundError, NotADirectoryError):
        raise InputError(f"{source}: there is no such file.") from None
    except OSError as error:
        raise InputError(f"{source}: cannot be read ({error.strerror or error}).") from None
    if stat.S_ISDIR(status.st_mode):
        raise InputError(f"{source}: is a folder; pass the name of a file.")
    if not stat.S_ISREG(status.st_mode):
        raise InputError(f"{source}: is not a regular file.")
    return status


@contextmanager
def errors_about(path: Path, done: str = "read") -> Iterator[None]:
    """Begin what is said about bad input with the path of the file, and of trouble with disk, memory and text.

    Whatever a file or its name brings into a message, it stays one line of plain text.
    """
    try:
        yield
    except InputError as error:
        before, message = printable(error.before), printable(error.message, LONGEST_MESSAGE)
        plain = type(error)(message, row=error.row, name=error.name, column=error.column, before=before)
        raise plain.about(printable(str(path))) from None
    except MemoryError:
        raise FileFormatError(f"{printable(str(path))}: needs more memory than is available.") from None
    except UnicodeDecodeError as error:
        why = f"not UTF-8 text ({error.reason} at byte {error.start})"
        raise FileFormatError(f"{printable(str(path))}: {why}.") from None
    except UnicodeEncodeError as error:
        if error.object != str(path):
            raise
        raise InputError(
            f"{printable(str(path))}: cannot be {done}: a name that is not UTF-8. Rename it, or save it as npz."
        ) from None
    except OSError as error:
        why = printable(str(error.strerror or error), LONGEST_MESSAGE)
        raise InputError(f"{printable(str(path))}: cannot be {done} ({why}).") from None


@contextmanager
def unreadable(what: str, errors: tuple[type[Exception], ...], remedy: str = "") -> Iterator[None]:
    """Say in the project's own error why a library cannot read a file; such errors that are ours pass."""
    try:
        yield
    except InputError:
        raise
    except errors as error:
        raise FileFormatError(f"{what} ({reason(error)}).{remedy}") from None


def need(module: str, extra: str, purpose: str) -> ModuleType:
    """Import an optional module, or say which extra brings it."""
    try:
        return importlib.import_module(module)
    except ImportError:
        raise MissingExtraError.of(module.partition(".")[0], extra, purpose) from None


def byte_limit(max_bytes: int | None) -> int:
    """Read what `max_bytes` takes: a number of bytes, or None for half of the machine's memory."""
    if max_bytes is None:
        return physical_memory() // 2
    return whole_number(max_bytes, "max_bytes", 0, MOST_BYTES, "Omit it for half of the memory.")


def check_size(n_bytes: int, max_bytes: int, what: str) -> None:
    """Refuse to read what would not fit, before anything is allocated."""
    if n_bytes > max_bytes:
        raise FileFormatError(
            f"{what} declares {n_bytes:,} bytes, above the limit of {max_bytes:,}. "
            f"If the file is trusted, pass a larger max_bytes."
        )


def check_folder(folder: Path) -> None:
    """Refuse a folder that cannot be made or written, without making it yet."""
    nearest = folder.absolute()
    try:
        while not os.path.lexists(nearest):  # a link to nothing is in the way too
            nearest = nearest.parent
        usable = nearest.is_dir()
    except OSError as error:
        raise InputError(f"{folder} cannot be created ({error.strerror or error}). Name another.") from None
    if not usable:
        raise InputError(f"{folder} cannot be created ({nearest} is not a folder). Name another.")
    if not os.access(nearest, os.W_OK | os.X_OK):
        raise InputError(f"{folder} cannot be written ({nearest}: permission denied). Name another.")


def check_targets(targets: Iterable[Path], sources: Iterable[Path]) -> None:
    """Refuse, before the work, files that cannot be replaced after it, and those that are read, by whatever name."""
    read = set()
    for source in sources:
        with suppress(OSError):  # whoever reads it will say so
            status = source.stat()
            read.add((status.st_dev, status.st_ino))
    for target in targets:
        with errors_about(target, "written"):
            there = _replaceable(target)
            if there is not None and (there.st_dev, there.st_ino) in read:
                raise InputError("is the file to read from. Name another.")


def _replaceable(target: Path) -> os.stat_result | None:
    """What the system says of the regular file that a new one will replace; None if nothing is there.

    Nothing else is replaced: under the name of a device or a pipe, also through a link, a renamed file would take its
    place for every program.
    """
    try:
        status = target.stat()
    except FileNotFoundError:
        return None
    is_folder = stat.S_ISDIR(status.st_mode)
    if is_folder and target.suffix.lower() not in FOLDER_SUFFIXES:
        raise InputError("is a folder; pass the name of a file.")
    if not is_folder and not stat.S_ISREG(status.st_mode):
        raise InputError("is not a regular file and will not be replaced; name another.")
    return status


@contextmanager
def write_whole(path: Path) -> Iterator[BinaryIO]:
    """Open a stream whose content appears under `path` all at once, at the end, or never.

    It goes to a hidden file in the same folder (a rename across file systems would not be atomic), to disk, and
    is then renamed. On failure the hidden file is removed; a killed process may leave it, never a partial `path`.
    A file that is replaced hands on its owner and mode.
    """
    older = _replaceable(path)
    target = Path(os.path.realpath(path))  # write through a symbolic link, do not replace it
    if not target.parent.is_dir():
        raise InputError(f"folder {target.parent} does not exist; create it first.")
    shown = target.name.encode(errors="ignore")[:100].decode(errors="ignore")  # names are limited in bytes
    hidden = target.with_name(f".{shown}.{secrets.token_hex(8)}.tmp")
    mode = 0o666 if older is None else stat.S_IMODE(older.st_mode) & 0o777  # never more open than what it replaces
    try:
        with open(hidden, "x+b", opener=partial(os.open, mode=mode)) as stream:  # HDF5 reads what it writes
            yield stream
            stream.flush()
            if older is not None and hasattr(os, "fchown"):
                with suppress(PermissionError):
                    os.fchown(stream.fileno(), older.st_uid, older.st_gid)
                os.fchmod(stream.fileno(), mode)
            os.fsync(stream.fileno())
        hidden.replace(target)
    except BaseException:
        hidden.unlink(missing_ok=True)
        raise


def write_all(folder: Path, contents: Mapping[str, bytes]) -> list[Path]:
    """Write files by path within a folder, which is made if it is not there; each whole or not at all."""
    for name, content in contents.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        with write_whole(folder / name) as stream:
            stream.write(content)
    return [folder / name for name in contents]


_NO_LOCKS = (errno.ENOSYS, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOLCK)
_PAUSE = 0.02  # seconds between two looks at a lock


def lock(path: Path, busy: str, patience: float = 0.0) -> FileIO:
    """Open a file that only one process can have open so; others wait so many seconds, then fail because it is busy.

    Where the file system has no locks, nobody is kept out.
    """
    end = time.monotonic() + patience
    while True:
        stream = path.open("a+b", buffering=0)
        try:
            if fcntl is not None:
                fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            stream.close()
            if time.monotonic() >= end:
                raise InputError(busy) from None
            time.sleep(_PAUSE)
            continue
        except OSError as error:
            if error.errno not in _NO_LOCKS:
                stream.close()
                raise
        with suppress(FileNotFoundError):  # whoever held the lock may have finished and removed the file meanwhile
            if os.path.samestat(path.stat(), os.fstat(stream.fileno())):
                return stream
        stream.close()


@contextmanager
def locked_file(path: Path, busy: str, patience: float) -> Iterator[None]:
    """Hold a lock by the name of a file that is there for this alone, and goes at the end.

    A process that is killed leaves the file, and not the lock.
    """
    with errors_about(path, "written"):
        stream = lock(path, busy, patience)
    with stream:
        try:
            yield
        finally:
            path.unlink(missing_ok=True)


# -- documents ---------------------------------------------------------------------------------------------------------

D = TypeVar("D", bound=msgspec.Struct)
"""A document: a struct with the fields format, schema and checksum, all with defaults."""


class _Head(msgspec.Struct):
    format: str = ""
    schema: int = 0


def checksum_of(document: msgspec.Struct) -> str:
    """SHA-256 of everything in a document but the checksum itself."""
    content = msgspec.json.encode(msgspec.structs.replace(document, checksum=""))
    return hashlib.sha256(msgspec.json.format(content, indent=-1)).hexdigest()


def _seal(document: msgspec.Struct, indent: int) -> bytes:
    """A document as it is written, with its checksum: indented, or with indent=-1 in one line."""
    content = msgspec.json.encode(msgspec.structs.replace(document, checksum=checksum_of(document)))
    return msgspec.json.format(content, indent=indent) + b"\n"


def write_sealed(path: FilePath, document: msgspec.Struct, indent: int = 1) -> None:
    """Write a document with its checksum, whole or not at all."""
    target = as_path(path)
    with errors_about(target, "written"), write_whole(target) as stream:
        stream.write(_seal(document, indent))


def read_sealed(
    path: FilePath,
    kind: type[D],
    name: str,
    most_bytes: int,
    checks: Callable[[D], Iterable[tuple[bool, str]]],
    remedy: str = "Save it again.",
    exact: bool = False,
) -> D:
    """Read a document of a kind, which users know by a name, or say why it is none.

    `checks` say whether two parts of it disagree, and what must hold; in an order in which what is read is there.
    `exact`: what was written in one line must be so to the byte; a digit more of a number may leave it what it is.
    """
    source = as_path(path)
    content = read_at_most(source, most_bytes)
    with errors_about(source):
        try:
            document = _decode(content, kind, name, remedy, exact)
            for broken, requirement in checks(document):
                if broken:
                    raise FileFormatError(f"is not usable as {name}: {requirement}.")
        except InputError as error:  # whatever is in the file is the file's fault
            raise FileFormatError(str(error)) from None
    return document


def _decode(content: bytes, kind: type[D], name: str, remedy: str, exact: bool) -> D:
    known = {field.name: field.default for field in msgspec.structs.fields(kind)}
    try:
        head = msgspec.json.decode(content, type=_Head)
    except msgspec.ValidationError:
        head = _Head()
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise FileFormatError(f"is not a JSON document, or is damaged ({reason(error)}). {remedy}") from None
    if head.format != known["format"]:
        raise FileFormatError(f"is not {name} saved by thermoset.")
    if head.schema != known["schema"]:
        raise FileFormatError(
            f"was saved by a newer thermoset, or is damaged (schema {quoted(head.schema)}; this one reads schema "
            f"{known['schema']}). Upgrade thermoset."
        )
    try:
        document: Any = msgspec.json.decode(msgspec.json.format(content, indent=-1), type=kind)
        unchanged = checksum_of(document) == document.checksum and (not exact or _seal(document, -1) == content)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError, OverflowError) as error:  # whole numbers: 64 bits
        raise FileFormatError(f"is damaged or was edited: {reason(error)}. {remedy}") from None
    if not unchanged:
        raise FileFormatError(f"is damaged or was edited: its checksum does not match. {remedy}")
    checked: D = document
    return checked
