"""Which files a path, a folder, a glob or a list of these stands for, and in which order."""

import glob
import os
import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from pathlib import Path

from thermoset.errors import InputError
from thermoset.io.files import FOLDER_SUFFIXES, FilePath, as_path, suffix_of
from thermoset.io.formats import READABLE
from thermoset.io.numpy import sibling
from thermoset.quoting import quoted

__all__ = ["Where", "found_shards"]

Where = FilePath | Sequence[FilePath]

HIVE = re.compile(r"([^=/]+)=(.*)")
"""What folders are called that give their rows a value: a key and a value, as Hive and Spark write them."""

SIDECARS = ("labels", "classes", "groups")
SIDECAR_SUFFIX = ".npy"
_SIDECAR_STEM = re.compile(r"(?:^|[._-])(?:labels?|classes|class_names|groups?)$")
_MANIFEST = re.compile(r"(?:^|[._-])manifest\.jsonl?$")
_DIGITS = re.compile(r"(\d+)")


def found_shards(where: Where, *, sidecars: Collection[str] = ()) -> tuple[Path, ...]:
    """The files of logits that `where` stands for; none of them is opened.

    Parameters
    ----------
    where : path, folder, glob, or a list of these
        A path is taken as it is. A folder stands for its files that can be read, and for those in folders called
        `key=value` inside it, as Hive and Spark write them; a `.zarr` folder is one file. Files that begin with a dot
        or an underscore (`_SUCCESS`, `_metadata`), manifests, and labels, classes and groups in files of their own
        are left out. Folders and globs are sorted by name with numbers in numeric order, so that `part-2` comes
        before `part-10`; a list keeps its order.
    sidecars : collection of str
        Words besides `labels`, `classes` and `groups` that mark an npy file as belonging to another one.

    Raises
    ------
    InputError
        A file or folder does not exist, or holds nothing that can be read.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     for name in ("part-10.npy", "part-2.npy", "part-2_labels.npy", "_SUCCESS"):
    ...         Path(folder, name).touch()
    ...     [path.name for path in found_shards(folder)]
    ['part-2.npy', 'part-10.npy']
    """
    if isinstance(where, (str, os.PathLike)):
        return tuple(_found(where, sidecars))
    if not isinstance(where, (list, tuple)):
        raise InputError(f"where must be a path, a folder, a glob or a list of these; got {type(where).__name__}.")
    if not where:
        raise InputError("where is an empty list; name at least one file of logits.")
    return tuple(path for part in where for path in _found(part, sidecars))


def _found(where: FilePath, sidecars: Collection[str]) -> list[Path]:
    path = as_path(where)
    if _is_plain_folder(path):
        return _in_folder(path, sidecars)
    if os.path.lexists(path) or not glob.has_magic(str(path)):
        if not path.exists():
            raise InputError(f"{path}: there is no such file.")
        return [path]
    # Not Path.glob: it takes no absolute pattern.
    matches = [Path(match) for match in glob.iglob(str(path), recursive=True)]  # noqa: PTH207
    files = [match for match in matches if not _is_plain_folder(match)]
    found = _shards_among(files, sidecars)
    found += [file for match in matches if _is_plain_folder(match) for file in _walk(match, sidecars)]
    if not found:
        what = f"only {quoted(matches[0].name)} and the like, which cannot be read" if matches else "nothing"
        raise InputError(f"{path}: finds {what}; expected files that end in {', '.join(READABLE)}.")
    return sorted(dict.fromkeys(found), key=_natural)


def _in_folder(folder: Path, sidecars: Collection[str]) -> list[Path]:
    try:
        found = list(_walk(folder, sidecars))
        inner = next((entry.name for entry in folder.iterdir() if entry.is_dir()), None)
    except OSError as error:
        raise InputError(f"{folder}: cannot be read ({error.strerror or error}).") from None
    if not found:
        hint = "" if inner is None else f" To look into folders like {quoted(inner)}, pass a glob: {folder}/**/*.npy."
        raise InputError(f"{folder}: is a folder without files that end in {', '.join(READABLE)}.{hint}")
    return sorted(found, key=_natural)


def _walk(folder: Path, sidecars: Collection[str]) -> Iterator[Path]:
    with os.scandir(folder) as entries:
        listed = list(entries)
    folders = [entry for entry in listed if entry.is_dir() and Path(entry.name).suffix.lower() not in FOLDER_SUFFIXES]
    names = {entry.name for entry in folders}
    yield from _shards_among([folder / entry.name for entry in listed if entry.name not in names], sidecars)
    for name in names:
        if not name.startswith((".", "_")) and HIVE.fullmatch(name):
            yield from _walk(folder / name, sidecars)


def _shards_among(files: Iterable[Path], sidecars: Collection[str]) -> list[Path]:
    """Leave out files that accompany logits: labels, class names, groups, manifests."""
    readable = [file for file in files if suffix_of(file) in READABLE and not file.name.startswith((".", "_"))]
    plain = [file for file in readable if not _MANIFEST.search(file.name)]
    arrays = [file for file in plain if file.suffix.lower() == SIDECAR_SUFFIX]
    bare = [file.with_suffix(SIDECAR_SUFFIX) for file in plain if file.suffix.lower() in FOLDER_SUFFIXES]
    beside = {sibling(file, word) for file in (*arrays, *bare) for word in (*SIDECARS, *sidecars)}
    beside |= {file for file in arrays if _SIDECAR_STEM.search(file.stem)}
    return [file for file in plain if file not in beside]


def _is_plain_folder(path: Path) -> bool:
    return path.suffix.lower() not in FOLDER_SUFFIXES and path.is_dir()


def _natural(path: Path) -> tuple[object, ...]:
    """Compare runs of digits as numbers, folder by folder; names that differ in leading zeros by their text."""
    parts = tuple(tuple(_comparable(piece) for piece in _DIGITS.split(part)) for part in path.parts)
    return parts, str(path)


def _comparable(piece: str) -> tuple[int, int, str]:
    return (0, int(piece), "") if piece.isdecimal() else (1, 0, piece)
