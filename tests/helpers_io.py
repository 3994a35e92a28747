"""Files for the tests of thermoset.io."""

import csv
import io
import json
import os
import pickle
import zipfile
from pathlib import Path

import numpy as np
import pytest

from parts import require
from thermoset.errors import FileFormatError
from thermoset.io import load, open_blocks

PARTS = {
    ".parquet": ("pyarrow", "io"),
    ".arrow": ("pyarrow", "io"),
    ".feather": ("pyarrow", "io"),
    ".ipc": ("pyarrow", "io"),
    ".zarr": ("zarr", "zarr"),
    ".h5": ("h5py", "hdf5"),
    ".hdf5": ("h5py", "hdf5"),
    ".safetensors": ("safetensors", "io"),
    ".pt": ("torch", "torch"),
    ".pth": ("torch", "torch"),
}
"""What reads the files of each ending, and the extra that brings it."""


class Bomb:
    """Creates a file when unpickled."""

    def __init__(self, mark: Path) -> None:
        self.mark = mark

    def __reduce__(self):
        return os.mkdir, (str(self.mark),)


def pickled_bomb(mark: Path) -> bytes:
    return pickle.dumps({"logits": Bomb(mark), "labels": Bomb(mark)}, protocol=2)


def npy_bytes(array: np.ndarray, *, pickled: bool = False) -> bytes:
    stream = io.BytesIO()
    np.save(stream, array, allow_pickle=pickled)
    return stream.getvalue()


def write_zip(path: Path, members: dict[str, bytes], compression: int = zipfile.ZIP_DEFLATED) -> None:
    with zipfile.ZipFile(path, "w", compression) as archive:
        for name, content in members.items():
            archive.writestr(name, content)


def write_columns(path: Path, columns: dict, rows: int = 11) -> Path:
    """Write columns by name, arrays or lists, as other programs would; in npy each has a file of its own."""
    suffix, arrays = path.suffix, {name: np.asarray(values) for name, values in columns.items()}
    if suffix in PARTS:
        require(*PARTS[suffix])
    lists = {name: array.tolist() for name, array in arrays.items()}
    if suffix == ".npz":
        np.savez(path, **arrays)
    elif suffix == ".npy":
        for name, array in arrays.items():
            np.save(path if name == "logits" else path.with_name(f"{path.stem}_{name}.npy"), array)
    elif suffix == ".csv":
        with path.open("w", encoding="utf-8", newline="") as stream:
            csv.writer(stream).writerows([lists, *zip(*lists.values(), strict=True)])
    elif suffix == ".jsonl":
        records = (dict(zip(lists, row, strict=True)) for row in zip(*lists.values(), strict=True))
        path.write_text("".join(json.dumps(record) + "\n" for record in records))
    elif suffix in (".parquet", ".arrow", ".feather"):
        table = require("pyarrow", "io").table(lists | {name: one for name, one in arrays.items() if one.ndim == 1})
        if suffix == ".parquet":
            require("pyarrow.parquet", "io").write_table(table, path, row_group_size=rows)
        else:
            with require("pyarrow.ipc", "io").new_file(path, table.schema) as writer:
                writer.write_table(table, max_chunksize=rows)
    elif suffix == ".zarr":
        group = require("zarr", "zarr").open_group(str(path), mode="w")
        for name, array in arrays.items():
            kind = str if array.dtype.kind in "UO" else array.dtype
            group.create_array(name, shape=array.shape, dtype=kind)[:] = array
    elif suffix == ".h5":
        with require("h5py", "hdf5").File(path, "w") as file:
            for name, array in arrays.items():
                file.create_dataset(name, data=lists[name] if array.dtype.kind in "UO" else array)
    elif suffix == ".safetensors":
        require("safetensors.numpy", "io").save_file(arrays, path)
    else:
        torch = require("torch", "torch")
        torch.save({name: torch.tensor(array) for name, array in arrays.items()}, path)
    return path


def read_blocks(path, **options):
    with open_blocks(path, **options) as blocks:
        return np.concatenate([block.logits for block in blocks])


def both_refuse(path, said, kind=FileFormatError, **options):
    for read in (load, read_blocks):
        with pytest.raises(kind, match=said) as caught:
            read(path, **options)
        assert str(caught.value).isprintable()
        assert str(caught.value).startswith(str(path))
        assert len(str(caught.value)) < 1000 + len(str(path))
