"""Stores of arrays, Zarr folders (of version 2 and 3) and HDF5: `logits`, `labels`, `classes`, `groups`.

A Zarr folder may be one array of logits, with the others in npy files next to it. A codec decides what is done with
the bytes of a chunk, and one that is called `pickle` runs them: only codecs that turn bytes into numbers or text are
let through, and every array is opened by its own path. Of HDF5 nothing is read that lies in another file.
"""

import json
import lzma
import os
import secrets
import shutil
import zlib
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from thermoset.data.reading import NAMES
from thermoset.errors import FileFormatError, InputError
from thermoset.io.files import check_size, need, read_at_most, unreadable
from thermoset.io.numpy import sibling_columns
from thermoset.io.roles import Request
from thermoset.io.table import BATCH_BYTES, PIECE_BYTES, TEXT, Column, Columns, Forward, Table, row_bytes, rows_in
from thermoset.quoting import quoted

_COMPRESSORS = {"blosc", "bz2", "gzip", "lz4", "lzma", "zlib", "zstd"}
_CODECS = _COMPRESSORS | {"bytes", "crc32c", "endian", "sharding_indexed", "transpose", "vlen-utf8"}
_CODECS |= {"bitround", "delta", "fletcher32", "shuffle"}
_METADATA = ("zarr.json", ".zarray", ".zgroup")
_METADATA_BYTES = 1 << 24
# What zarr and h5py were seen to raise for damaged files; their own errors are among these.
_BAD = (ArithmeticError, AttributeError, EOFError, LookupError, OSError, RuntimeError, TypeError, ValueError)


def _errors(what: str) -> AbstractContextManager[None]:
    return unreadable(f"{what} cannot be read, or is truncated", (*_BAD, SystemError, lzma.LZMAError, zlib.error))


@dataclass(frozen=True)
class _Chunked(Forward):
    """An array in chunks, which are decoded in rows of chunks."""

    array: str = ""
    step: int = 1  # rows that are decoded at a time

    def place(self, row: int) -> int:
        """The first row of a row of chunks."""
        return row // self.step * self.step

    def blocks(self, first: int) -> Iterator[NDArray[Any]]:
        """Rows of chunks."""
        for start in range(first, self.shape[0], self.step):
            block = self._slice(slice(start, min(start + self.step, self.shape[0])))
            if self.dtype == TEXT:
                items = [one.decode(errors="replace") if isinstance(one, bytes) else str(one) for one in block.flat]
                block = np.array(items, dtype=object).reshape(block.shape)
            yield block

    def _slice(self, rows: slice) -> NDArray[Any]:
        """Some rows; the file is opened for each, because HDF5 keeps files that are open from being replaced."""
        if self.path.is_dir():
            with _errors(f"array {quoted(self.array)}"):
                return np.asarray(_open_zarr(self.path)[rows])
        with _file(self.path) as file:
            dataset = _dataset(file, self.array)
            return np.asarray(dataset.asstr(errors="replace")[rows] if self.dtype == TEXT else dataset[rows])


def _chunked_column(path: Path, name: str, array: Any, request: Request) -> Column:
    """An array of zarr or h5py, both of which have shape, dtype and chunks."""
    dtype = TEXT if array.dtype.kind not in "fiub" else np.dtype(array.dtype)
    plain = _Chunked(path, tuple(map(int, array.shape or ())), dtype, name)
    chunk = int(array.chunks[0]) if array.chunks else 1
    check_size(
        min(chunk, max(plain.shape[:1], default=1)) * row_bytes(plain), request.max_bytes, f"a chunk of {quoted(name)}"
    )
    return replace(plain, step=max(chunk, rows_in(PIECE_BYTES, plain) // chunk * chunk))


# -- zarr --------------------------------------------------------------------------------------------------------------


def read_zarr(path: Path, request: Request) -> Table:
    """Judge the metadata, and compare them with the files that are there."""
    need("zarr", "zarr", "reading .zarr")  # said now, and not when rows are read
    metadata = _metadata(path)
    if metadata.get("node_type") == "array" or "chunks" in metadata:
        return Table(
            {"probs" if request.probabilities else "logits": _zarr(path, request), **sibling_columns(path, request)}
        )
    attributes = metadata.get("attributes") or (_json(path / ".zattrs") if (path / ".zattrs").is_file() else {})
    if not isinstance(attributes, dict):
        raise FileFormatError("the attributes of the Zarr folder are not a JSON object: damaged. Write it again.")
    names = [part.name for part in path.iterdir() if (part / "zarr.json").is_file() or (part / ".zarray").is_file()]
    return Table(Columns(names, lambda name: _zarr(path / name, request)), attributes)


def _metadata(path: Path) -> dict[str, Any]:
    for name in _METADATA:
        if (path / name).is_file():
            return _json(path / name)
    raise FileFormatError("not a Zarr folder: it has neither zarr.json nor .zgroup nor .zarray.")


def _json(path: Path) -> dict[str, Any]:
    try:
        document = json.loads(read_at_most(path, _METADATA_BYTES))
    except (ValueError, RecursionError):
        document = None
    if not isinstance(document, dict):
        raise FileFormatError(f"{path.name} is not a JSON object: damaged, or not a Zarr folder.")
    return document


def metadata_files(path: Path) -> list[Path]:
    """The files of a folder, and of the arrays in it, that say what they hold."""
    own = [path / name for name in _METADATA if (path / name).is_file()]
    return [*own, *path.glob("*/zarr.json"), *path.glob("*/.zarray")]


def _zarr(path: Path, request: Request) -> Column:
    metadata = _metadata(path)
    with _errors(f"array {quoted(path.name)}"):
        declared = [*(metadata.get("codecs") or ()), *(metadata.get("filters") or ())]
        declared += [metadata["compressor"]] if metadata.get("compressor") else []
        _check_codecs(declared, path.name)
        kind = str(metadata.get("data_type", metadata.get("dtype")))
        if "|O" in kind and not any(_codec(codec) == "vlen-utf8" for codec in declared):
            raise FileFormatError(f"array {quoted(path.name)} contains objects; expected numbers or text.")
        array = _open_zarr(path)
        # Chunks that are missing would be read as if they were full of one number.
        if array.ndim == 2 and array.nchunks_initialized < array.nchunks:
            raise FileFormatError(
                f"chunks of array {quoted(path.name)} are missing. Write it again, with write_empty_chunks=True."
            )
        if any(_codec(codec) == "blosc" for codec in declared):  # which reads beyond the end of a chunk that was cut
            for file in (part for part in path.rglob("*") if part.is_file() and part.name[0] not in ".z"):
                with file.open("rb") as stream:
                    head = stream.read(16)
                if len(head) < 16 or int.from_bytes(head[12:], "little") != file.stat().st_size:
                    raise FileFormatError(f"chunk {file.name} of array {quoted(path.name)} is truncated or damaged.")
        return _chunked_column(path, path.name, array, request)


def _codec(codec: Any) -> str:
    return str(codec["id"] if "id" in codec else codec["name"]).removeprefix("numcodecs.")


def _check_codecs(codecs: Iterable[Any], array: str) -> None:
    for codec in codecs:
        if _codec(codec) not in _CODECS:
            raise FileFormatError(
                f"array {quoted(array)} uses codec {quoted(_codec(codec))}; expected one of "
                f"{', '.join(sorted(_COMPRESSORS))}."
            )
        inside = codec.get("configuration") or {}
        _check_codecs([*inside.get("codecs", []), *inside.get("index_codecs", [])], array)


def _open_zarr(path: Path) -> Any:
    library = need("zarr", "zarr", "reading .zarr")
    return library.open_array(str(path), mode="r", zarr_format=3 if (path / "zarr.json").is_file() else 2)


def write_zarr(path: Path, table: Table) -> None:
    """Write arrays; the folder appears whole or not at all, and replaces nothing but a Zarr folder."""
    library = need("zarr", "zarr", "writing .zarr")
    target = Path(os.path.realpath(path))
    if not target.parent.is_dir():
        raise InputError(f"folder {target.parent} does not exist; create it first.")
    mark = secrets.token_hex(8)
    new, old = (target.with_name(f".{target.name[:100]}.{mark}.{what}") for what in ("tmp", "old"))
    try:
        group = library.open_group(str(new), mode="w-", zarr_format=3)
        for name, column in table.columns.items():
            _write_array(group, name, column)
        names = table.metadata.get("classes")
        if names is not None:
            group.create_array("classes", shape=(len(names),), dtype=str)[:] = np.asarray(names)
        group.attrs.update({name: value for name, value in table.metadata.items() if name != "classes"})
        for file in (part for part in new.rglob("*") if part.is_file()):
            with file.open("rb") as stream:
                os.fsync(stream.fileno())
        _replace(target, new, old)
    except BaseException:
        shutil.rmtree(new, ignore_errors=True)
        raise
    shutil.rmtree(old, ignore_errors=True)


def _write_array(group: Any, name: str, column: Column) -> None:
    if column.dtype == TEXT:
        group.create_array(name, shape=column.shape, dtype=str)[:] = column.read(0, column.shape[0]).astype(str)
        return
    # Not compressed: logits hardly shrink. A chunk that gets lost is NaN, and noticed.
    n_rows, step = column.shape[0], rows_in(BATCH_BYTES, column)
    fill = float("nan") if column.dtype.kind == "f" else 0
    chunks = (max(1, min(step, n_rows)), *column.shape[1:])
    options = {"chunks": chunks, "compressors": None, "fill_value": fill, "config": {"write_empty_chunks": True}}
    array = group.create_array(name, shape=column.shape, dtype=column.dtype, **options)
    for first in range(0, n_rows, step):
        array[first : first + step] = column.read(first, min(first + step, n_rows))


def _replace(target: Path, new: Path, old: Path) -> None:
    """Put a folder where another one was, which is put aside."""
    if not os.path.lexists(target):
        new.rename(target)
        return
    _metadata(target)
    target.rename(old)
    try:
        new.rename(target)
    except OSError:
        old.rename(target)
        raise


# -- HDF5 --------------------------------------------------------------------------------------------------------------


def read_hdf5(path: Path, request: Request) -> Table:
    """Look at the datasets at the top of a file."""
    with _file(path) as file:
        names = [name for name in file if isinstance(name, str)]
        key = next((name for name in NAMES if name in file.attrs), None)
        classes = {} if key is None else {key: [str(item) for item in np.atleast_1d(file.attrs[key]).tolist()]}
        facts = {name: file.attrs[name].tolist() for name in ("n_classes", "rest_temperatures") if name in file.attrs}

    def open_column(name: str) -> Column:
        with _file(path) as file:
            dataset = _dataset(file, name)
            if dataset.chunks:
                counts = [-(-size // chunk) for size, chunk in zip(dataset.shape, dataset.chunks, strict=True)]
                written = dataset.id.get_num_chunks() == int(np.prod(counts, dtype=object))
            else:
                written = not dataset.size or dataset.id.get_storage_size() > 0
            if not written:  # they would be read as if they held zeros
                raise FileFormatError(f"parts of dataset {quoted(name)} were never written. Write it again.")
            return _chunked_column(path, name, dataset, request)

    return Table(Columns(names, open_column), classes | facts)


def _dataset(file: Any, name: str) -> Any:
    """A dataset that lies in this file: what links and maps of other files name is not read."""
    library = need("h5py", "hdf5", "reading .h5")
    if not isinstance(file.get(name, getlink=True), library.HardLink):
        raise FileFormatError(f"{quoted(name)} is a link, which may lead to another file. Open that one.")
    dataset = file[name]
    if dataset.external or dataset.is_virtual:  # which a group has not
        raise FileFormatError(
            f"the numbers of dataset {quoted(name)} are stored in other files. Write them into this one."
        )
    return dataset


@contextmanager
def _file(path: Path) -> Iterator[Any]:
    with _errors("the HDF5 file"), need("h5py", "hdf5", "reading .h5").File(path, "r") as file:
        yield file


def write_hdf5(stream: BinaryIO, table: Table) -> None:
    """Write datasets, and names of classes; numbers follow each other."""
    library = need("h5py", "hdf5", "writing .h5")

    def write(file: Any, name: str, values: Any) -> None:
        encoded = [str(one).encode() for one in values]  # of one length: what HDF5 keeps elsewhere is slow, and fragile
        length = max(map(len, encoded), default=1)
        file.create_dataset(name, data=encoded, shape=(len(encoded),), dtype=library.string_dtype("utf-8", length))

    with library.File(stream, "w") as file:
        for name, array in table.arrays().items():
            write(file, name, array.tolist()) if array.dtype.kind == "O" else file.create_dataset(name, data=array)
        for name, value in table.metadata.items():
            if name == "classes":
                write(file, name, value)
            else:
                file.attrs[name] = value
