"""Files that lie, for the tests of thermoset.io."""

import io
import json
import os
import pickle
import struct
import subprocess
import sys
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


def lie_about_size(path: Path, name: str, size: int) -> None:
    """Overwrite the uncompressed size of a member in the zip directory."""
    data = bytearray(path.read_bytes())
    at = data.rindex(b"PK\x01\x02")
    while data[at + 46 : at + 46 + len(name)] != name.encode():
        at = data.rindex(b"PK\x01\x02", 0, at)
    data[at + 24 : at + 28] = struct.pack("<I", size)
    path.write_bytes(data)


# -- parquet by hand ----------------------------------------------------------------------------------------------

I32, I64, BINARY, LIST, STRUCT = 5, 6, 8, 9, 12


def _varint(value: int) -> bytes:
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    return bytes([*out, value])


def thrift(fields: list[tuple[int, int, object]]) -> bytes:
    """A structure of Thrift's compact protocol: (number, type, value) of each field."""
    out, before = b"", 0
    for number, kind, value in fields:
        out += bytes([(number - before) << 4 | kind])
        if kind in (I32, I64):
            out += _varint(value << 1)
        elif kind == BINARY:
            out += _varint(len(value)) + value
        elif kind == STRUCT:
            out += thrift(value)
        else:  # of structures, or of numbers
            inner = STRUCT if value and isinstance(value[0], list) else I32
            parts = [thrift(part) if inner == STRUCT else _varint(part << 1) for part in value]
            out += bytes([len(value) << 4 | inner]) + b"".join(parts)
        before = number
    return out + b"\0"


def parquet_bytes(
    *, n_rows: int = 1, stored: bytes = b"", content: int | None = None, values: int | None = None, codec: int = 0
) -> bytes:
    """Two columns of float64, both the same page: `stored`, which says that it has so much content and values."""
    values = n_rows if values is None else values
    data = [(1, I32, values), (2, I32, 0), (3, I32, 3), (4, I32, 3)]  # plain; levels would be run lengths
    header = thrift(
        [(1, I32, 0), (2, I32, len(stored) if content is None else content), (3, I32, len(stored)), (5, STRUCT, data)]
    )
    page = header + stored
    size = (6, I64, len(page)), (7, I64, len(page)), (9, I64, 4)
    schema = [[(4, BINARY, b"root"), (5, I32, 2)]]
    columns = []
    for name in (b"a", b"b"):
        schema.append([(1, I32, 5), (3, I32, 0), (4, BINARY, name)])
        path = BINARY << 0 | 1 << 4  # a list of one text
        meta = thrift([(1, I32, 5), (2, LIST, [0, 3])])[:-1] + bytes([1 << 4 | LIST, path]) + _varint(1) + name
        meta += thrift([(1, I32, codec), (2, I64, n_rows), *((n - 3, kind, v) for n, kind, v in size)])
        columns.append(meta)
    chunks = b"".join(thrift([(2, I64, 4)])[:-1] + bytes([1 << 4 | STRUCT]) + meta + b"\0" for meta in columns)
    group = bytes([1 << 4 | LIST, 2 << 4 | STRUCT]) + chunks + thrift([(1, I64, 2 * len(page)), (2, I64, n_rows)])
    footer = thrift([(1, I32, 1), (2, LIST, schema), (3, I64, n_rows)])[:-1]
    footer += bytes([1 << 4 | LIST, 1 << 4 | STRUCT]) + group + b"\0"
    return b"PAR1" + page + footer + struct.pack("<I", len(footer)) + b"PAR1"


# -- outcomes in a process of their own ---------------------------------------------------------------------------

ATTEMPT = """
import json, resource, sys
from pathlib import Path
from thermoset.errors import InputError
from thermoset.io import load, open_blocks

def peak():
    return int(next(line for line in open("/proc/self/status") if line.startswith("VmHWM")).split()[1]) * 1024

def pool():
    return sys.modules["pyarrow"].default_memory_pool().max_memory() if "pyarrow" in sys.modules else 0

def blocks(path, **options):
    with open_blocks(path, **options) as opened:
        for block in opened:
            pass

good, max_bytes, *paths = sys.argv[1:]
load(good)  # with all that is loaded once
used = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (used + 2**31, used + 2**31))
for path in paths:
    for read in (load, blocks):
        open("/proc/self/clear_refs", "w").write("5")
        before, allocated = peak(), pool()
        try:
            said = str(read(path, max_bytes=int(max_bytes)))
        except InputError as error:
            said = str(error)
        print(json.dumps([said, max(peak() - before, pool() - allocated)]), flush=True)
"""


def attempts(good: Path, paths: list[Path], max_bytes: int) -> list[tuple[str, int]]:
    """What `load` and `open_blocks` say of each file, and how much memory they took to find out."""
    command = [sys.executable, "-c", ATTEMPT, str(good), str(max_bytes), *map(str, paths)]
    run = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    assert run.returncode == 0, run.stdout + run.stderr
    return [tuple(json.loads(line)) for line in run.stdout.splitlines()]
