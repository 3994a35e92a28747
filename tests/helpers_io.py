"""Files for the tests of thermoset.io."""

import io
import os
import pickle
import zipfile
from pathlib import Path

import numpy as np
from numpy.lib import format as npy

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


def npy_header(shape: tuple, descr: str = "<f4") -> bytes:
    """The header of an npy file that declares whatever it likes."""
    stream = io.BytesIO()
    npy.write_array_header_1_0(stream, {"descr": descr, "fortran_order": False, "shape": shape})
    return stream.getvalue()


def write_zip(path: Path, members: dict[str, bytes], compression: int = zipfile.ZIP_DEFLATED) -> None:
    with zipfile.ZipFile(path, "w", compression) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
