"""What the metadata of a Zarr folder declare, judged before the library sees them.

A codec decides what is done with the bytes of a chunk, and one that is called `pickle` runs them. Only codecs that turn
bytes into numbers or text are let through.
"""

import json
import math
import os
import struct
from collections.abc import Iterable, Iterator, Mapping
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from thermoset.errors import FileFormatError, InputError
from thermoset.io.files import check_shape, read_at_most
from thermoset.quoting import quoted

__all__ = ["ArrayFolder", "Node", "metadata_files", "read_node"]

NUMBERS = {"float16", "float32", "float64"} | {f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)}
COMPRESSORS = {"blosc", "bz2", "gzip", "lz4", "lzma", "zlib", "zstd"}
CODECS = COMPRESSORS | {"bytes", "crc32c", "endian", "sharding_indexed", "transpose", "vlen-utf8"}
CODECS |= {"bitround", "delta", "fletcher32", "shuffle"}
METADATA_BYTES = 1 << 24
BLOSC = struct.Struct("<4xI4xI")  # bytes once they are decoded, and in the file


class ArrayFolder(NamedTuple):
    """An array in a folder."""

    path: Path
    version: int
    shape: tuple[int, ...]
    dtype: np.dtype[Any] | None  # None for text
    chunks: tuple[int, ...]  # what is stored in one file
    inner: tuple[int, ...]  # what is decoded at once
    separator: str
    prefix: str  # of the names of files
    packing: str = ""  # the codec that the bytes of a file come from

    @property
    def chunk_bytes(self) -> int:
        """Bytes of a chunk, once it is decoded."""
        return math.prod(self.inner) * (self.dtype.itemsize if self.dtype is not None else 1)

    def first_missing(self) -> str | None:
        """The first chunk that has no file: it would be read as if it were full of the same number."""
        names = (name for name in self._chunk_files(0, self.shape[0]) if not (self.path / name).is_file())
        return next(names, None)

    def check_chunks(self, start: int, stop: int) -> None:
        """Refuse chunks whose files are shorter than they should be: blosc would read beyond their end."""
        if self.packing not in {"bytes", "blosc"} or self.dtype is None:
            return
        wanted = math.prod(self.chunks) * self.dtype.itemsize
        for name in self._chunk_files(start, stop):
            with (self.path / name).open("rb") as stream:
                size = os.fstat(stream.fileno()).st_size
                good = size == wanted
                if self.packing == "blosc":
                    head = stream.read(BLOSC.size)
                    good = len(head) == BLOSC.size and BLOSC.unpack(head) == (wanted, size)
            if not good:
                raise FileFormatError(f"chunk {name} of array {quoted(self.path.name)} is truncated or damaged.")

    def _chunk_files(self, start: int, stop: int) -> Iterator[str]:
        counts = [range(-(-size // chunk)) for size, chunk in zip(self.shape, self.chunks, strict=True)]
        counts[0] = range(start // self.chunks[0], -(-stop // self.chunks[0]))
        return (self.prefix + self.separator.join(map(str, place)) for place in product(*counts))


class Node(NamedTuple):
    """A folder with an array, or with several."""

    array: ArrayFolder | None
    members: Mapping[str, Path]
    attributes: Mapping[str, Any]


def read_node(path: Path) -> Node:
    """Read the metadata of a folder."""
    if (path / "zarr.json").is_file():
        found = _json(path / "zarr.json")
        attributes = found.get("attributes") or {}
        is_array = found.get("node_type") == "array"
    elif (path / ".zarray").is_file() or (path / ".zgroup").is_file():
        is_array = (path / ".zarray").is_file()
        found = _json(path / (".zarray" if is_array else ".zgroup"))
        attributes = _json(path / ".zattrs") if (path / ".zattrs").is_file() else {}
    else:
        raise FileFormatError("not a Zarr folder: it holds neither zarr.json nor .zgroup nor .zarray.")
    if not isinstance(attributes, dict):
        raise FileFormatError("its Zarr attributes are not an object: damaged.")
    if is_array:
        return Node(_array(path, found), {}, attributes)
    return Node(None, {part.name: part for part in path.iterdir() if _is_array(part)}, attributes)


def metadata_files(path: Path) -> list[Path]:
    """The files of a folder, and of the arrays in it, that say what they hold."""
    own = [path / name for name in ("zarr.json", ".zarray", ".zgroup")]
    inner = [] if own[1].is_file() else [*path.glob("*/zarr.json"), *path.glob("*/.zarray")]
    return [part for part in (*own, *inner) if part.is_file()]


def _is_array(path: Path) -> bool:
    return (path / "zarr.json").is_file() or (path / ".zarray").is_file()


def _json(path: Path) -> dict[str, Any]:
    try:
        found = json.loads(read_at_most(path, METADATA_BYTES))
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict):
        raise FileFormatError(f"{path.name} is not a JSON object: damaged, or not a Zarr folder.")
    return found


def _array(path: Path, found: dict[str, Any]) -> ArrayFolder:
    try:
        made = _version_3(path, found) if "node_type" in found else _version_2(path, found)
    except InputError:
        raise
    except (KeyError, TypeError, ValueError, AttributeError):
        raise FileFormatError(
            f"the metadata of array {quoted(path.name)} are damaged, or of an unknown kind."
        ) from None
    sizes = (*made.shape, *made.chunks, *made.inner)
    same = len(made.shape) == len(made.chunks) == len(made.inner)
    whole = all(type(size) is int and size >= 0 for size in sizes)
    if not same or not whole or min(made.chunks + made.inner, default=1) < 1:
        raise FileFormatError(f"array {quoted(path.name)} declares shape {quoted(made.shape)}, chunks {made.chunks}.")
    for shape in (made.shape, made.chunks, made.inner):
        check_shape(shape, f"array {quoted(path.name)}")
    return made


def _version_3(path: Path, found: dict[str, Any]) -> ArrayFolder:
    kind, codecs = found["data_type"], found["codecs"]
    name = kind["name"] if isinstance(kind, dict) else kind
    _check_codecs(codecs, path.name)
    if name not in NUMBERS and name not in {"string", "fixed_length_utf32"}:
        raise FileFormatError(f"array {quoted(path.name)} is of type {quoted(name)}; expected numbers or text.")
    grid, keys = found["chunk_grid"], found["chunk_key_encoding"]
    if grid["name"] != "regular" or found.get("storage_transformers"):
        raise FileFormatError(f"the chunks of array {quoted(path.name)} are not of one size. Write it again.")
    chunks = tuple(grid["configuration"]["chunk_shape"])
    sharded = next((codec["configuration"] for codec in codecs if codec["name"] == "sharding_indexed"), None)
    inner = chunks if sharded is None else tuple(sharded["chunk_shape"])
    old = keys["name"] == "v2"
    separator = (keys.get("configuration") or {}).get("separator", "." if old else "/")
    dtype = np.dtype(name) if name in NUMBERS else None
    prefix = "" if old else f"c{separator}"
    return ArrayFolder(path, 3, tuple(found["shape"]), dtype, chunks, inner, separator, prefix, _name(codecs[-1]))


def _version_2(path: Path, found: dict[str, Any]) -> ArrayFolder:
    codecs = [*(found.get("filters") or []), *([found["compressor"]] if found.get("compressor") else [])]
    _check_codecs(codecs, path.name)
    dtype = np.dtype(found["dtype"]) if isinstance(found["dtype"], str) else None
    text = dtype is not None and (
        dtype.kind in "US" or (dtype.hasobject and any(c["id"] == "vlen-utf8" for c in codecs))
    )
    if dtype is None or not (text or dtype.name in NUMBERS):
        raise FileFormatError(
            f"array {quoted(path.name)} is of type {quoted(found['dtype'])}; expected numbers or text."
        )
    chunks = tuple(found["chunks"])
    separator = found.get("dimension_separator", ".")
    packing = _name(codecs[-1]) if codecs else "bytes"
    return ArrayFolder(path, 2, tuple(found["shape"]), None if text else dtype, chunks, chunks, separator, "", packing)


def _name(codec: Mapping[str, Any]) -> str:
    return str(codec["id"] if "id" in codec else codec["name"]).removeprefix("numcodecs.")


def _check_codecs(codecs: Iterable[Any], array: str) -> None:
    for codec in codecs:
        name = _name(codec)
        if name not in CODECS:
            raise FileFormatError(
                f"array {quoted(array)} uses codec {quoted(name)}; expected one of {', '.join(sorted(COMPRESSORS))}."
            )
        inside = codec.get("configuration") or {}
        _check_codecs([*inside.get("codecs", []), *inside.get("index_codecs", [])], array)
