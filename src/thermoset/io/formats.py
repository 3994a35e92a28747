"""The one registry of formats: what reads and writes the files of each ending.

A new format is a module with a function from a path to a `Table`, and a line here; contract tests collect it.
"""

from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO, NamedTuple

from thermoset.io.arrays import read_hdf5, read_zarr, write_hdf5, write_zarr
from thermoset.io.arrow import read_arrow, read_parquet, write_arrow, write_parquet
from thermoset.io.delimited import read_csv, write_csv
from thermoset.io.files import write_whole
from thermoset.io.numpy import read_npy, read_npz, write_npy, write_npz
from thermoset.io.records import read_json
from thermoset.io.roles import Request
from thermoset.io.table import Table
from thermoset.io.tensors import read_pt, read_safetensors, write_pt, write_safetensors


class Format(NamedTuple):
    """How files are read and written."""

    read: Callable[[Path, Request], Table]
    write: Callable[[BinaryIO, Table], None] | None = None  # to a stream whose content appears at once
    write_path: Callable[[Path, Table], None] | None = None  # where one stream is not enough

    @property
    def can_write(self) -> bool:
        """Whether files of this kind can be written."""
        return self.write is not None or self.write_path is not None

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
SUFFIXES = tuple(
    suffix
    for suffix in READABLE
    if suffix not in (".tsv", ".csv.gz", ".tsv.gz") and FORMATS[ALIASES.get(suffix, suffix)].can_write
)
"""The endings of file names that can be read and written."""


def format_of(suffix: str) -> Format:
    """The format of an ending that is known."""
    return FORMATS[ALIASES.get(suffix, suffix)]
