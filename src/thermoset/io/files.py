"""What every file format shares: paths, names, limits, and writing a file whole or not at all."""

import importlib
import os
import secrets
import sys
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import BinaryIO, NamedTuple

from thermoset.bounds import whole_number
from thermoset.data import Logits
from thermoset.errors import FileFormatError, InputError, MissingExtraError

__all__ = [
    "LABELS",
    "MOST_BYTES",
    "NAMES",
    "FilePath",
    "Request",
    "RowSource",
    "as_path",
    "build",
    "byte_limit",
    "check_shape",
    "check_size",
    "errors_about",
    "existing",
    "first_of",
    "known_suffix",
    "need",
    "physical_memory",
    "scores_name",
    "write_all",
    "write_whole",
]

FilePath = str | os.PathLike[str]

LABELS = ("labels", "label")
NAMES = ("classes", "class_names")
PROBABILITIES = ("probs", "probabilities", "logits")
MOST_BYTES = 2**100 - 1  # that can be asked for: more than there are anywhere
MOST_AXES = 32  # of a NumPy array, before NumPy 2


class Request(NamedTuple):
    """What the user asked for."""

    probabilities: bool
    max_bytes: int
    find_labels: bool  # look for labels beside the file: not if the user named a file of labels


class RowSource(NamedTuple):
    """The scores of an open file: what is known before they are read, and how to read them."""

    shape: tuple[int | None, ...]  # None: how many rows there are is only known after the last
    classes: object  # names as the file gives them, or None
    read: Callable[[int], Iterator[object]]  # arrays of at most so many rows, from the first row on


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
    try:
        if source.is_dir():
            raise InputError(f"{source}: is a folder; give the name of a file.")
        if not source.exists():
            raise InputError(f"{source}: there is no such file.")
        if not source.is_file():
            raise InputError(f"{source}: is not a regular file.")
        suffix = known_suffix(source, suffixes)
        if source.stat().st_size == 0:
            raise FileFormatError(f"{source}: the file is empty.")
    except OSError as error:
        raise InputError(f"{source}: cannot be read ({error.strerror or error}).") from None
    return source, suffix


@contextmanager
def errors_about(path: Path, done: str = "read") -> Iterator[None]:
    """Begin what is said about bad input with the path of the file; say the same of trouble with disk and memory.

    >>> with errors_about(Path("val.npz")):
    ...     raise InputError("holds nothing.")
    Traceback (most recent call last):
        ...
    thermoset.errors.InputError: val.npz: holds nothing.
    """
    try:
        yield
    except InputError as error:
        raise type(error)(f"{path}: {error}") from None
    except MemoryError:
        raise FileFormatError(f"{path}: needs more memory than there is.") from None
    except OSError as error:
        raise InputError(f"{path}: cannot be {done} ({error.strerror or error}).") from None


def build(request: Request, scores: object, labels: object = None, classes: object = None) -> Logits:
    """Make `Logits` of a file's arrays.

    >>> build(Request(True, 0, True), [[1.0, 0.0]])
    Logits(1 rows x 2 classes, float64)
    """
    make: Callable[..., Logits] = Logits.from_probabilities if request.probabilities else Logits
    return make(scores, labels, classes)


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
        holds = ", ".join(sorted(held)[:20]) or "nothing"
        raise FileFormatError(f"no array called {what}; the file holds: {holds}.{hint}")
    return found


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


def physical_memory() -> int:
    """Return the bytes of memory of this machine, or 16 GiB where the system does not say.

    >>> physical_memory() > 0
    True
    """
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, OSError, ValueError):
        return 1 << 34


def byte_limit(max_bytes: int | None) -> int:
    """Read what `max_bytes` takes: a number of bytes, or None for half of the machine's memory.

    >>> byte_limit(1000), byte_limit(None) == physical_memory() // 2
    (1000, True)
    """
    if max_bytes is None:
        return physical_memory() // 2
    return whole_number(max_bytes, "max_bytes", 0, MOST_BYTES, "Leave it out for half of the memory.")


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
    """Refuse a shape that no array can have, even without any data, as 0 x 10**30.

    >>> check_shape((10, 3), "array 'logits'")
    """
    if len(shape) > MOST_AXES or max(shape, default=0) > sys.maxsize:
        raise FileFormatError(f"{what} declares a shape that no array can have: hostile. Save it again.")


@contextmanager
def write_whole(path: Path) -> Iterator[BinaryIO]:
    """Open a stream whose content appears under `path` all at once, at the end, or never.

    It goes to a hidden file in the same folder (a rename across file systems would not be atomic), to disk, and
    is then renamed. On failure the hidden file is removed; a killed process may leave it, never a partial `path`.
    """
    target = Path(os.path.realpath(path))  # write through a symbolic link, do not replace it
    if target.is_dir():
        raise InputError("is a folder; give the name of a file.")
    if not target.parent.is_dir():
        raise InputError(f"folder {target.parent} does not exist; make it first.")
    hidden = target.with_name(f".{target.name[:100]}.{secrets.token_hex(8)}.tmp")
    try:
        with hidden.open("xb") as stream:
            yield stream
            stream.flush()
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
