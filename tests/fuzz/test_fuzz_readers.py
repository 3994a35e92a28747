"""Damaged files of every kind: reading ends in logits or in an InputError.

The files are changed at random, from a seed: bytes, cuts, parts of one file in another, numbers that are lengths, parts
said twice. `make evidence` tries fifty times as many.
"""

import io
import random
import struct
import zipfile
import zlib
from pathlib import Path

import numpy as np
import pytest

from helpers_io import PARTS, npy_bytes
from parts import require
from thermoset.data import Logits
from thermoset.data.compacting import compact
from thermoset.errors import InputError
from thermoset.io import READABLE, SUFFIXES, load, open_blocks, save
from thermoset.io.compact import COMPACT_SUFFIXES
from tiers import cases

pytestmark = [pytest.mark.long, pytest.mark.scaled]

LIMIT = 1 << 22
# Read like another one; a folder, whose metadata have tests of their own; and libhdf5 promises nothing about damage.
LEFT_OUT = {".pth", ".feather", ".ipc", ".zarr", ".h5", ".hdf5"}
KINDS = tuple(suffix for suffix in READABLE if suffix not in LEFT_OUT)
INTERESTING = (0, 1, 2, 127, 128, 255, 256, 32767, 65535, 2**31 - 1, 2**31, 2**32 - 1, 2**62, 2**63 - 1, 2**64 - 1)
TOKENS = (
    *(
        b"logits",
        b"labels",
        b"label",
        b"classes",
        b"probs",
        b"nan",
        b"inf",
        b"-inf",
        b"1e999",
        b'"',
        b",",
        b"\n",
        b"\r",
    ),
    *(
        b"\xef\xbb\xbf",
        b"\x00",
        b"\xff\xff\xff\xff",
        b"\x1b[31m",
        b"9" * 400,
        b"(" * 50,
        b"[" * 50,
        b"True",
        b"0x7fffffff",
    ),
    *(
        b"<U1",
        b"|O",
        b">f8",
        b"BF16",
        b"F64",
        b"\xed\xa0\x80",
        b"\xf4\x90\x80\x80",
        b"q\x00h\x00\x86",
        b"]",
        b"}",
        b"R",
        b"b",
    ),
)


def sources(folder: Path, suffix: str) -> list[bytes]:
    """Small files of a kind that can be read, as different from each other as may be."""
    rng = np.random.default_rng(0)
    plain = rng.normal(size=(5, 3))
    found = []
    if suffix not in SUFFIXES:
        return OTHERS[suffix]()
    for i, logits in enumerate(
        (
            Logits(plain.astype(np.float32), [0, 1, 2, 0, 1], ["cat", "dog", "eel"], ["n", "s", "n", "süd", "007"]),
            Logits(plain),
            Logits(np.zeros((300, 2), dtype=np.float16), classes=["a", "b"]),
        )
    ):
        path = folder / f"source{i}{suffix}"
        save(path, logits)
        found.append(path.read_bytes())
    if suffix in COMPACT_SUFFIXES:
        path = folder / f"compact{suffix}"
        save(path, compact(Logits(rng.normal(size=(40, 12)), np.arange(40) % 12, groups=np.arange(40) % 3), 5))
        found.append(path.read_bytes())
    return found + OTHERS.get(suffix, list)()


def other_arrow() -> list[bytes]:
    arrow, ipc = require("pyarrow", "io"), require("pyarrow.ipc", "io")
    lists = arrow.array([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]])
    names = arrow.array(["a", "b", "a"]).dictionary_encode()
    table = arrow.table({"what": ["x", "y", "z"], "logits": lists, "label": [0, 1, 0]})
    columns = arrow.table({"a": [1.0, 2.0, 3.0], "b": [1.0, 0.5, 0.25], "label": names})
    found = []
    for made in (table, columns):
        for compression in (None, "lz4", "zstd"):
            stream = io.BytesIO()
            with ipc.new_file(stream, made.schema, options=ipc.IpcWriteOptions(compression=compression)) as writer:
                writer.write_table(made, max_chunksize=2)
            found.append(stream.getvalue())
    return found


def other_npz() -> list[bytes]:
    stream = io.BytesIO()
    named = {"classes": np.array(["a", "b"]), "labels": np.array(["a", "b", "a"])}
    np.savez_compressed(stream, logits=np.asfortranarray(np.eye(3, 2)), **named)
    return [stream.getvalue()]


def other_npy() -> list[bytes]:
    return [npy_bytes(np.asfortranarray(np.eye(3, 2))), npy_bytes(np.arange(8, dtype=">i4").reshape(4, 2))]


def other_csv() -> list[bytes]:
    return [
        b'\xef\xbb\xbflabel,"a\nb",c\r\n"a\nb",1,2\r\n\r\nc,3e-5,-inf\r\n',
        b"logit_0,logit_1,label\n1,2,1\n3,4,0\n",
        b'filename,index,logit,label\na.jpg,[1 0],"[ 2.5\n -1e-3]",1\nb.jpg,[0 1],[1.0 -inf],0\n',
    ]


def other_json() -> list[bytes]:
    pair = b'["-1.5", "False"], ["-0.25", "True"]'
    return [
        b'{"logits": [1, 2.5, -Infinity], "label": 2, "note": "\xc3\xa9"}\n{"logits": [1, 2, 3], "label": 0}\n',
        b'[{"logit": [3, 1, 2], "index": [1, 2, 0]}, {"logit": [3, 1e-5, 2], "index": [1, 2, 0]}]',
        b'{"doc_id": 0, "target": "1", "filtered_resps": [' + pair + b'], "filter": "none", "acc": 1.0}\n'
        b'{"doc_id": 1, "target": "no", "arguments": {"gen_args_0": {"arg_0": "q", "arg_1": "no"}}, "filtered_resps": ['
        + pair
        + b', ["-3", "False"]], "filter": "none"}\n',
    ]


def other_parquet() -> list[bytes]:
    arrow, parquet = require("pyarrow", "io"), require("pyarrow.parquet", "io")
    lists = arrow.array([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]])
    tables = (
        ({"logits": lists, "label": ["a", "b", "a"]}, {"row_group_size": 2, "compression": "zstd"}),
        ({"logit": lists, "index": [[1, 0]] * 3, "filename": ["a", "b", "c"]}, {}),
        ({"a": np.float32([1, 2, 3]), "b": np.float32([3, 2, 1]), "label": [0, 1, 0]}, {"data_page_version": "2.0"}),
        ({"a": np.zeros(3000), "b": np.zeros(3000), "label": ["a"] * 3000}, {"compression": "gzip"}),
    )
    found = []
    for columns, options in tables:
        stream = io.BytesIO()
        parquet.write_table(arrow.table(columns), stream, **options)
        found.append(stream.getvalue())
    return found


def other_safetensors() -> list[bytes]:
    torch, safe = require("torch", "torch"), require("safetensors.torch", "io")
    return [
        safe.save({"logits": torch.ones(3, 2).bfloat16(), "label": torch.tensor([0, 1, 0])}, {"classes": '["a","b"]'})
    ]


def other_pt() -> list[bytes]:
    torch = require("torch", "torch")
    found = []
    for content in (
        torch.ones(3, 2).T.contiguous().T,
        {"logits": torch.ones(3, 2).bfloat16(), "labels": [0, 1, 0], "e": {1: 2.5}},
    ):
        stream = io.BytesIO()
        torch.save(content, stream)
        found.append(stream.getvalue())
    return found


OTHERS = {
    ".npz": other_npz,
    ".npy": other_npy,
    ".csv": other_csv,
    ".parquet": other_parquet,
    ".arrow": other_arrow,
    ".safetensors": other_safetensors,
    ".pt": other_pt,
    ".json": other_json,
    ".jsonl": other_json,
}


# -- changes ------------------------------------------------------------------------------------------------------


def flip(rng: random.Random, data: bytearray, other: bytes) -> None:
    for _ in range(rng.randint(1, 4)):
        data[rng.randrange(len(data))] = rng.choice((rng.randrange(256), 0, 1, 255, 127, 128))


def cut(rng: random.Random, data: bytearray, other: bytes) -> None:
    begin = rng.randrange(len(data))
    del data[begin : rng.choice((len(data), begin + rng.randint(1, 16)))]


def splice(rng: random.Random, data: bytearray, other: bytes) -> None:
    begin = rng.randrange(len(other))
    part = other[begin : begin + rng.randint(1, 64)]
    place = rng.randrange(len(data) + 1)
    data[place : place + rng.choice((0, len(part)))] = part


def number(rng: random.Random, data: bytearray, other: bytes) -> None:
    size, order = rng.choice("BHIQ"), rng.choice("<>")
    value = rng.choice(INTERESTING) & (256 ** struct.calcsize(size) - 1)
    place = rng.randrange(len(data))
    data[place : place + struct.calcsize(size)] = struct.pack(order + size, value)


def varint(rng: random.Random, data: bytearray, other: bytes) -> None:
    value, out = rng.choice(INTERESTING), bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    place = rng.randrange(len(data))
    data[place : place + rng.choice((0, 1, len(out) + 1))] = out + bytes([value])


def repeat(rng: random.Random, data: bytearray, other: bytes) -> None:
    begin = rng.randrange(len(data))
    part = bytes(data[begin : begin + rng.randint(1, 64)])
    data[begin:begin] = part * rng.choice((1, 2, 3, 50))


def token(rng: random.Random, data: bytearray, other: bytes) -> None:
    word, place = rng.choice(TOKENS), rng.randrange(len(data) + 1)
    data[place : place + rng.choice((0, len(word)))] = word


CHANGES = (flip, flip, cut, splice, number, varint, repeat, token)


def changed(rng: random.Random, data: bytes, other: bytes) -> bytes:
    content = bytearray(data)
    for _ in range(rng.choice((1, 1, 2, 4))):
        if content:
            rng.choice(CHANGES)(rng, content, other)
    return bytes(content)


def changed_inside(rng: random.Random, data: bytes, other: bytes) -> bytes:
    """Change a member of an archive and pack it again: a checksum would catch every other change."""
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive, zipfile.ZipFile(io.BytesIO(other)) as second:
            members = [[info, archive.read(info)] for info in archive.infolist()]
            others = [second.read(info) or b"x" for info in second.infolist()]
    except (zipfile.BadZipFile, zlib.error):
        return data
    chosen = rng.choice([member for member in members if member[1]])
    chosen[1] = changed(rng, chosen[1], rng.choice(others))
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", rng.choice((zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED))) as archive:
        for info, content in members:
            archive.writestr(info.filename, content)
    return stream.getvalue()


def changed_footer(rng: random.Random, data: bytes, other: bytes) -> bytes:
    """Change the footer of a parquet file and say how long it is now."""
    length = int.from_bytes(data[-8:-4], "little")
    footer = changed(rng, data[-8 - length : -8], other[-8 - int.from_bytes(other[-8:-4], "little") : -8])
    return data[: -8 - length] + footer + struct.pack("<I", len(footer)) + b"PAR1"


def changed_header(rng: random.Random, data: bytes, other: bytes) -> bytes:
    """Change the header of a safetensors file and say how long it is now."""
    length = int.from_bytes(data[:8], "little")
    header = changed(rng, data[8 : 8 + length], other[8:])
    return struct.pack("<Q", len(header)) + header + data[8 + length :]


INSIDE = {".npz": changed_inside, ".pt": changed_inside, ".parquet": changed_footer, ".safetensors": changed_header}


# -- outcomes -----------------------------------------------------------------------------------------------------


def read_blocks(path, **options):
    with open_blocks(path, block_bytes=64, **options) as blocks:
        return list(blocks)


def said(read, path, **options) -> str:
    """What is said of a file; nothing if it can be read. Any other exception ends the test."""
    try:
        read(path, max_bytes=LIMIT, **options)
    except InputError as error:
        return str(error)
    return ""


@pytest.mark.filterwarnings("ignore")  # what zipfile and torch say of names given twice; what counts is how it ends
@pytest.mark.parametrize("suffix", KINDS)
def test_reading_a_damaged_file_ends_in_logits_or_an_input_error(tmp_path, suffix):
    if suffix in PARTS:
        require(*PARTS[suffix])
    originals = sources(tmp_path, suffix)
    path = tmp_path / f"val{suffix}"
    for i in range(cases(200)):
        rng = random.Random(f"{suffix} {i}")  # noqa: S311
        data, other = rng.choice(originals), rng.choice(originals)
        change = INSIDE.get(suffix, changed) if rng.random() < 0.6 else changed
        path.write_bytes(change(rng, data, other))
        probabilities = rng.random() < 0.1
        for read in (load, read_blocks):
            message = said(read, path, probabilities=probabilities)
            assert message.isprintable(), (i, message)
            assert message.startswith(str(path)) or not message, (i, message)
