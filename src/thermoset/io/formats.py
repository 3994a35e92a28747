"""The one registry of formats: what reads and writes files of each ending; and the files that a path stands for.

A new format is a module with a function from a path to a `Table`, and a line here; contract tests collect it.
"""

import glob
import os
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from pathlib import Path
from typing import BinaryIO, NamedTuple

from thermoset.errors import InputError
from thermoset.io.arrays import read_hdf5, read_zarr, write_hdf5, write_zarr
from thermoset.io.arrow import read_arrow, read_parquet, write_arrow, write_parquet
from thermoset.io.delimited import read_csv, write_csv
from thermoset.io.files import FOLDER_SUFFIXES, FilePath, as_path, suffix_of, write_whole
from thermoset.io.numpy import SIBLINGS, read_npy, read_npz, sibling, write_npy, write_npz
from thermoset.io.records import read_json
from thermoset.io.roles import Request
from thermoset.io.table import Table
from thermoset.io.tensors import read_pt, read_safetensors, write_pt, write_safetensors
from thermoset.quoting import quoted


class Format(NamedTuple):
    """How files are read and written."""

    read: Callable[[Path, Request], Table]
    write: Callable[[BinaryIO, Table], None] | None = None  # to a stream whose content appears at once
    write_path: Callable[[Path, Table], None] | None = None  # where one stream is not enough

    def save(self, path: Path, table: Table) -> None:
        """Write a file whole or not at all."""
        if self.write_path is not None:
            self.write_path(path, table)
        elif self.write is not None:
            with write_whole(path) as stream:
                self.write(stream, table)


FORMATS: dict[str, Format] = {
    ".npz": Format(read_npz, write_npz),
    ".npy": Format(read_npy, write_path=write_npy),
    ".csv": Format(read_csv, write_csv),
    ".parquet": Format(read_parquet, write_parquet),
    ".arrow": Format(read_arrow, write_arrow),
    ".zarr": Format(read_zarr, write_path=write_zarr),
    ".h5": Format(read_hdf5, write_hdf5),
    ".safetensors": Format(read_safetensors, write_safetensors),
    ".pt": Format(read_pt, write_pt),
    ".jsonl": Format(read_json),
}
"""How the files of each kind are read and written."""

ALIASES = {
    ".tsv": ".csv",
    ".csv.gz": ".csv",
    ".tsv.gz": ".csv",
    ".feather": ".arrow",
    ".ipc": ".arrow",
    ".hdf5": ".h5",
    ".pth": ".pt",
    ".json": ".jsonl",
}
"""Other endings of the same kinds."""

READABLE = (*FORMATS, *ALIASES)
"""The endings of file names that can be read."""
SUFFIXES = tuple(one for one in READABLE if ALIASES.get(one, one) not in (".csv", ".jsonl") or one == ".csv")
"""The endings of file names that can be read and written."""


def format_of(suffix: str) -> Format:
    """The format of an ending that is known."""
    return FORMATS[ALIASES.get(suffix, suffix)]


# -- which files -------------------------------------------------------------------------------------------------------

Where = FilePath | Sequence[FilePath]

HIVE = re.compile(r"([^=/]+)=(.*)")
"""What folders are called that give their rows a value: a key and a value, as Hive and Spark write them."""

_SIDECAR_STEM = re.compile(r"(?:^|[._-])(?:labels?|classes|class_names|groups?)$")
_MANIFEST = re.compile(r"(?:^|[._-])manifest\.jsonl?$")


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
        return tuple(_files_at(where, sidecars))
    if not isinstance(where, (list, tuple)):
        raise InputError(f"where must be a path, a folder, a glob or a list of these; got {type(where).__name__}.")
    if not where:
        raise InputError("where is an empty list; name at least one file of logits.")
    return tuple(path for part in where for path in _files_at(part, sidecars))


def _files_at(where: FilePath, sidecars: Collection[str]) -> list[Path]:
    path, endings = as_path(where), f"files that end in {', '.join(READABLE)}"
    if _is_plain_folder(path):
        try:
            paths = list(_walk(path, sidecars))
            inner = next((entry.name for entry in path.iterdir() if entry.is_dir()), None)
        except OSError as error:
            raise InputError(f"{path}: cannot be read ({error.strerror or error}).") from None
        if not paths:
            hint = "" if inner is None else f" To look into folders like {quoted(inner)}, pass a glob: {path}/**/*.npy."
            raise InputError(f"{path}: is a folder without {endings}.{hint}")
        return sorted(paths, key=_natural)
    if os.path.lexists(path) or not glob.has_magic(str(path)):
        if not path.exists():
            raise InputError(f"{path}: there is no such file.")
        return [path]
    # Not Path.glob: it takes no absolute pattern.
    matches = [Path(match) for match in glob.iglob(str(path), recursive=True)]  # noqa: PTH207
    folders = [match for match in matches if _is_plain_folder(match)]
    paths = _shards_among([match for match in matches if match not in folders], sidecars)
    paths += [file for folder in folders for file in _walk(folder, sidecars)]
    if not paths:
        what = f"only {quoted(matches[0].name)} and the like, which cannot be read" if matches else "nothing"
        raise InputError(f"{path}: finds {what}; expected {endings}.")
    return sorted(dict.fromkeys(paths), key=_natural)


def _walk(folder: Path, sidecars: Collection[str]) -> Iterator[Path]:
    """Files in a folder and in those inside it that are called `key=value`."""
    with os.scandir(folder) as entries:
        listed = [(folder / entry.name, entry.is_dir()) for entry in entries]
    folders = {path for path, is_folder in listed if is_folder and path.suffix.lower() not in FOLDER_SUFFIXES}
    yield from _shards_among([path for path, _ in listed if path not in folders], sidecars)
    for path in folders:
        if not path.name.startswith((".", "_")) and HIVE.fullmatch(path.name):
            yield from _walk(path, sidecars)


def _shards_among(files: Iterable[Path], sidecars: Collection[str]) -> list[Path]:
    """Leave out files that accompany logits: labels, class names, groups, manifests."""
    readable = [file for file in files if suffix_of(file) in READABLE and not file.name.startswith((".", "_"))]
    plain = [file for file in readable if not _MANIFEST.search(file.name)]
    arrays = [file for file in plain if file.suffix.lower() == ".npy"]
    bare = [file.with_suffix(".npy") for file in plain if file.suffix.lower() in FOLDER_SUFFIXES]
    companions = {sibling(file, word) for file in (*arrays, *bare) for word in (*SIBLINGS, *sidecars)}
    companions |= {file for file in arrays if _SIDECAR_STEM.search(file.stem)}
    return [file for file in plain if file not in companions]


def _is_plain_folder(path: Path) -> bool:
    return path.suffix.lower() not in FOLDER_SUFFIXES and path.is_dir()


def _natural(path: Path) -> tuple[object, ...]:
    """Compare runs of digits as numbers, folder by folder; names that differ in leading zeros by their text."""
    parts = (
        [(0, int(one), "") if one.isdecimal() else (1, 0, one) for one in re.split(r"(\d+)", part)]
        for part in path.parts
    )
    return tuple(parts), str(path)
