"""What every file format shares: paths, names, limits, and writing a file whole or not at all."""

import importlib
import math
import os
import secrets
import stat
import sys
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from itertools import islice
from pathlib import Path
from types import ModuleType
from typing import Any, BinaryIO, NamedTuple

from thermoset.bounds import whole_number
from thermoset.data import Logits, as_logits, checked_logits
from thermoset.data.labels import column_indices
from thermoset.data.outputs import GROUPS, LABELS, NAMES
from thermoset.errors import FileFormatError, InputError, MissingExtraError
from thermoset.quoting import printable, quoted
from thermoset.rows import physical_memory

__all__ = [
    "FOLDER_SUFFIXES",
    "GROUPS",
    "LABELS",
    "MOST_BYTES",
    "NAMES",
    "FilePath",
    "Ids",
    "Request",
    "RowSource",
    "as_path",
    "build",
    "byte_limit",
    "check_folder",
    "check_shape",
    "check_size",
    "check_targets",
    "errors_about",
    "existing",
    "first_of",
    "known_suffix",
    "list_name",
    "named_classes",
    "need",
    "no_column",
    "read_at_most",
    "scores_name",
    "write_all",
    "write_whole",
]

FilePath = str | os.PathLike[str]

PROBABILITIES = ("probs", "probabilities", "logits")
FOLDER_SUFFIXES = (".zarr",)  # of folders that are one file of logits
_PIECE = 1 << 20
MOST_BYTES = 2**100 - 1  # that can be asked for: more than there are anywhere
MOST_AXES = 32  # of a NumPy array, before NumPy 2
WIDEST = 16  # bytes of a number, at most
LONGEST_MESSAGE = 1000


class Request(NamedTuple):
    """What the user asked for."""

    probabilities: bool
    max_bytes: int
    find_labels: bool  # look for labels beside the file: not if the user named a file of labels
    id_column: str | None = None  # the column (array) that holds ids and is no class
    n_options: int | None = None  # how many columns multiple choice has, where more than the file's rows have
    groups: str | None = None  # the column (array) of groups; `groups` where there is one, if the user named none
    find_groups: bool = True  # look for groups in and beside the file: not if they come from elsewhere
    ignored: tuple[str, ...] = ()  # columns that are no classes
    partial_labels: bool = False  # labels may be missing, and are read as they are
    leave_labels: bool = False  # labels are left out, whatever they are: the user wants none
    labels: str | None = None  # the column (array) of labels; `label` or `labels` where there is one, if not named
    classes: tuple[str, ...] | None = None  # the columns that are classes, or names for those of an array
    known: tuple[str, ...] = ()  # columns that are classes for certain: those of a predictor
    doubt: bool = True  # refuse columns that do not look like classes: not where rows become no `Logits`

    def is_beside(self, name: str) -> bool:
        """Whether a column is not a class: it holds groups or ids, or is to be ignored."""
        if self.classes is not None:
            return name not in self.classes
        return name.strip().lower() in GROUPS or name in (self.groups, self.id_column, self.labels, *self.ignored)


class Ids(NamedTuple):
    """The ids of the rows of an open file: how to go through them from the first row on, and whether they are text."""

    read: Callable[[], Iterator[object]]
    text: bool


def no_column(name: str, held: Iterable[str]) -> FileFormatError:
    """The complaint that there is no such column or array."""
    found = ", ".join(map(quoted, islice(held, 5)))
    return FileFormatError(f"there is no {quoted(name)} in the file; it begins with {found}.")


class RowSource(NamedTuple):
    """The scores of an open file: what is known before they are read, and how to read them."""

    shape: tuple[int | None, ...]  # None: how many rows there are is only known after the last
    classes: object  # names as the file gives them, or None
    read: Callable[[int], Iterator[object]]  # arrays of at most so many rows, from the first row on
    ids: Ids | None = None  # if they were asked for
    groups: Callable[[], Iterator[object]] | None = None  # goes through them from the first row on, where there are any
    grouped: bool = False  # whether blocks bring their groups with them
    columns: tuple[str, ...] = ()  # of the classes, where each has a column


def as_path(path: object) -> Path:
    """Take the name of a file.

    >>> as_path("val.npz").name
    'val.npz'
    """
    if not isinstance(path, (str, os.PathLike)) or "\0" in os.fspath(path):
        raise InputError(f"path must be the name of a file; got {path!r}.")
    return Path(path)


def known_suffix(path: Path, suffixes: tuple[str, ...]) -> str:
    """Return the suffix, in small letters, if it is one of those known.

    >>> known_suffix(Path("VAL.NPZ"), (".npz", ".npy"))
    '.npz'
    """
    suffix = path.suffix.lower()
    if suffix not in suffixes:
        raise FileFormatError(f"{path}: unknown kind of file {suffix!r}; known: {', '.join(suffixes)}.")
    return suffix


def existing(path: FilePath, suffixes: tuple[str, ...]) -> tuple[Path, str]:
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
    """What the system says of a file that is there, and is a file."""
    try:
        found = source.stat()
    except (FileNotFoundError, NotADirectoryError):
        raise InputError(f"{source}: there is no such file.") from None
    except OSError as error:
        raise InputError(f"{source}: cannot be read ({error.strerror or error}).") from None
    if stat.S_ISDIR(found.st_mode):
        raise InputError(f"{source}: is a folder; pass the name of a file.")
    if not stat.S_ISREG(found.st_mode):
        raise InputError(f"{source}: is not a regular file.")
    return found


@contextmanager
def errors_about(path: Path, done: str = "read") -> Iterator[None]:
    """Begin what is said about bad input with the path of the file; say the same of trouble with disk and memory.

    Whatever a file or its name brings into a message, it stays one line of plain text.

    >>> with errors_about(Path("val.npz")):
    ...     raise InputError("holds nothing.")
    Traceback (most recent call last):
        ...
    thermoset.errors.InputError: val.npz: holds nothing.
    """
    try:
        yield
    except InputError as error:
        raise type(error)(f"{printable(str(path))}: {printable(str(error), LONGEST_MESSAGE)}") from None
    except MemoryError:
        raise FileFormatError(f"{printable(str(path))}: needs more memory than is available.") from None
    except UnicodeEncodeError as error:
        if error.object != str(path):
            raise
        raise InputError(
            f"{printable(str(path))}: cannot be {done}: a name that is not UTF-8. Rename it, or save it as npz."
        ) from None
    except OSError as error:
        why = printable(str(error.strerror or error), LONGEST_MESSAGE)
        raise InputError(f"{printable(str(path))}: cannot be {done} ({why}).") from None


def build(
    request: Request, scores: object, labels: object = None, classes: object = None, groups: object = None
) -> Logits:
    """Make `Logits` of a file's arrays.

    >>> build(Request(True, 0, True), [[1.0, 0.0]])
    Logits(1 rows x 2 classes, float64)
    """
    if isinstance(scores, Logits):  # rows that are not whole come checked
        return as_logits(scores, groups=groups)
    make: Callable[..., Logits] = Logits.from_probabilities if request.probabilities else checked_logits
    rows = make(scores, None, named_classes(request, classes), groups)
    if rows.n_rows == 0:
        raise FileFormatError("the file has no rows.")
    if labels is None or request.leave_labels:
        return rows
    return rows.labelled(column_indices(labels, (rows.n_rows, rows.n_classes), rows.classes))


def named_classes(request: Request, found: Any) -> Any:
    """The names of classes: what the file says, or what the user says where it has none.

    >>> named_classes(Request(False, 0, True, classes=("cat", "dog")), None)
    ('cat', 'dog')
    """
    if request.classes is None or found is None:
        return request.classes if found is None else found
    if tuple(found) != request.classes:
        raise InputError(
            f"the file names its classes {quoted(list(found))}, and classes were given as "
            f"{quoted(list(request.classes))}. Leave classes out, or give the same in the same order."
        )
    return found


def first_of(names: Collection[str], held: Collection[str]) -> str | None:
    """Return the first of `names` that is held.

    >>> first_of(LABELS, ["logits", "label"])
    'label'
    """
    return next((name for name in names if name in held), None)


def scores_name(held: Collection[str], probabilities: bool) -> str:
    """Find the array of logits, or of probabilities, among the names a file holds.

    >>> scores_name(["labels", "probs"], probabilities=True)
    'probs'
    """
    wanted = PROBABILITIES if probabilities else ("logits",)
    found = first_of(wanted, held)
    if found is None:
        what = " or ".join(repr(name) for name in wanted)
        hint = " Pass probabilities=True to read probabilities." if first_of(PROBABILITIES, held) else ""
        holds = ", ".join(printable(name, 40) for name in sorted(held)[:20]) or "nothing"
        raise FileFormatError(f"no array called {what}; the file holds: {holds}.{hint}")
    return found


def list_name(held: Collection[str], probabilities: bool) -> str | None:
    """Find the column whose cells are whole rows; timm's inference script calls it `logit` or `prob`.

    >>> list_name(["filename", "logit"], probabilities=False)
    'logit'
    """
    return first_of((*PROBABILITIES, "prob") if probabilities else ("logits", "logit"), held)


def need(module: str, extra: str, purpose: str) -> ModuleType:
    """Import an optional module, or say which extra brings it.

    >>> need("nothing", "io", "it")
    Traceback (most recent call last):
        ...
    thermoset.errors.MissingExtraError: it needs nothing, which is not installed. Run: pip install 'thermoset[io]'
    """
    try:
        return importlib.import_module(module)
    except ImportError:
        raise MissingExtraError.of(module.partition(".")[0], extra, purpose) from None


def byte_limit(max_bytes: int | None) -> int:
    """Read what `max_bytes` takes: a number of bytes, or None for half of the machine's memory.

    >>> byte_limit(1000), byte_limit(None) == physical_memory() // 2
    (1000, True)
    """
    if max_bytes is None:
        return physical_memory() // 2
    return whole_number(max_bytes, "max_bytes", 0, MOST_BYTES, "Omit it for half of the memory.")


def check_size(n_bytes: int, max_bytes: int, what: str) -> None:
    """Refuse to read what would not fit, before anything is allocated.

    >>> check_size(8, 10, "array 'logits'")
    """
    if n_bytes > max_bytes:
        raise FileFormatError(
            f"{what} declares {n_bytes:,} bytes, above the limit of {max_bytes:,}. "
            f"If the file is trusted, pass a larger max_bytes."
        )


def check_shape(shape: Sequence[int], what: str) -> None:
    """Refuse a shape that no array can have, even without any data, as 0 x 2**62.

    >>> check_shape((10, 3), "array 'logits'")
    """
    if (
        len(shape) > MOST_AXES
        or min(shape, default=0) < 0
        or math.prod(size or 1 for size in shape) > sys.maxsize // WIDEST
    ):
        raise FileFormatError(f"{what} declares a shape that no array can have: damaged. Save it again.")


def check_folder(folder: Path) -> None:
    """Refuse a folder that cannot be made or written, without making it yet."""
    standing = folder.absolute()
    try:
        while not os.path.lexists(standing):  # a link to nothing is in the way too
            standing = standing.parent
        usable = standing.is_dir()
    except OSError as error:
        raise InputError(f"{folder} cannot be created ({error.strerror or error}). Name another.") from None
    if not usable:
        raise InputError(f"{folder} cannot be created ({standing} is not a folder). Name another.")
    if not os.access(standing, os.W_OK | os.X_OK):
        raise InputError(f"{folder} cannot be written ({standing}: permission denied). Name another.")


def check_targets(targets: Iterable[Path], sources: Iterable[Path]) -> None:
    """Refuse, before the work, files that cannot be replaced after it, and those that are read, by whatever name."""
    read = set()
    for source in sources:
        with suppress(OSError):  # whoever reads it will say so
            found = source.stat()
            read.add((found.st_dev, found.st_ino))
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
        found = target.stat()
    except FileNotFoundError:
        return None
    is_folder = stat.S_ISDIR(found.st_mode)
    if is_folder and target.suffix.lower() not in FOLDER_SUFFIXES:
        raise InputError("is a folder; pass the name of a file.")
    if not is_folder and not stat.S_ISREG(found.st_mode):
        raise InputError("is not a regular file and will not be replaced; name another.")
    return found


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
            if older is not None:
                _hand_on(older, stream.fileno(), mode)
            os.fsync(stream.fileno())
        hidden.replace(target)
    except BaseException:
        hidden.unlink(missing_ok=True)
        raise


def _hand_on(older: os.stat_result, number: int, mode: int) -> None:
    """Give an open file the owner and mode of an older one, where the system has them and lets us."""
    if hasattr(os, "fchown"):
        with suppress(PermissionError):
            os.fchown(number, older.st_uid, older.st_gid)
        os.fchmod(number, mode)


def write_all(folder: Path, contents: Mapping[str, bytes]) -> list[Path]:
    """Write files by path within a folder, which is made if it is not there; each whole or not at all."""
    for name, content in contents.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        with write_whole(folder / name) as stream:
            stream.write(content)
    return [folder / name for name in contents]
