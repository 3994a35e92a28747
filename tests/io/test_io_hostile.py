"""Files that are damaged or made to do harm: run code, raise what nobody expects, or write on the terminal."""

import contextlib
import io
import json
import os
import pickle
import struct
import subprocess
import sys
import zipfile

import numpy as np
import pytest

from helpers_io import npy_bytes, npy_header, write_zip
from parts import require
from thermoset.data import Logits
from thermoset.data.arrays import class_names
from thermoset.errors import FileFormatError, InputError
from thermoset.io import load, open_blocks, save
from thermoset.io.delimited import AS_SAVED, read_header
from thermoset.quoting import quoted

VAL = Logits(np.float32([[2.0, 0.5, -1.0], [0.25, 1.25, -np.inf]]), [1, 0], ["cat", "dog", "eel"])


def read_all(path, **options):
    with open_blocks(path, **options) as blocks:
        return list(blocks)


def both_refuse(path, said, kind=FileFormatError, **options):
    """`load` and `open_blocks` say so, in one line of plain text."""
    for read in (load, read_all):
        with pytest.raises(kind, match=said) as caught:
            read(path, **options)
        assert str(caught.value).isprintable()
        assert len(str(caught.value)) < 1000 + len(str(path))


# -- pickles ------------------------------------------------------------------------------------------------------


def torch_file(path, content):
    """A torch archive around any pickle."""
    data = content if isinstance(content, bytes) else pickle.dumps(content, protocol=2)
    write_zip(path, {"archive/data.pkl": data, "archive/version": b"3\n"}, zipfile.ZIP_STORED)
    return path


def a_dict(key, value):
    return b"\x80\x02}" + key + value + b"s."


TEXT = b"X\x06\x00\x00\x00logits"


@pytest.fixture
def torch():
    return require("torch", "torch")


@pytest.mark.parametrize(
    ("code", "said"),
    [
        (b"\x80\x02}q\x00(X\x06\x00\x00", "its pickle cannot be read"),
        (b"\x80\x02J\x00", "its pickle cannot be read"),
        (b"\x80\x02", "its pickle cannot be read"),
        (b".", "its pickle cannot be read"),
        (b"\x80\x02h\x05.", "its pickle cannot be read"),
        (b"\x80\x02t.", "its pickle cannot be read"),
        (b"\x80\x02K\x01K\x01K\x01s.", "keys are set in what is no dict"),
        (b"\x80\x04\x8c\x05posix\x8c\x05mkdir\x93.", "uses SHORT_BINUNICODE, which torch does not write"),
        (a_dict(b"K\x01\x85", b"N"), r"its pickle has \(1,\) for a key; expected text"),
        (b"\x80\x02K\x01)R.", "something is called that is no function"),
        (b"\x80\x02(U\x07storageU\x010tQ.", "a storage is not described as torch does"),
        (a_dict(TEXT, b"N"), "'logits' is of type NoneType; expected a tensor"),
        (b"\x80\x02cos\x1b[31m\nsystem\n.", r"holds 'os\\x1b\[31m.system'; only plain tensors"),
    ],
)
def test_damaged_pickles(tmp_path, torch, code, said):
    both_refuse(torch_file(tmp_path / "val.pt", code), said)


def test_tensors_without_numbers_of_their_own(tmp_path, torch):
    torch.save({"logits": torch.zeros(2, 2, device="meta")}, tmp_path / "val.pt")
    both_refuse(tmp_path / "val.pt", "holds 'torch._utils._rebuild_meta_tensor_no_storage'; only plain tensors")
    torch.save({"logits": torch.zeros(2, 2).to_sparse()}, tmp_path / "val.pt")
    both_refuse(tmp_path / "val.pt", "only plain tensors")
    with pytest.raises(InputError, match="a tensor NumPy cannot hold"):
        Logits(torch.zeros(2, 2, device="meta"))


@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors")
def test_nested_tensors(tmp_path, torch):
    torch.save({"logits": torch.nested.nested_tensor([torch.zeros(2), torch.zeros(3)])}, tmp_path / "val.pt")
    both_refuse(tmp_path / "val.pt", "only plain tensors")


def test_tensors_that_reach_beyond_their_storage(tmp_path, torch):
    torch.save({"logits": torch.zeros(4, 4)[1:3, 1:3]}, tmp_path / "good.pt")
    assert load(tmp_path / "good.pt") == Logits(np.zeros((2, 2), np.float32))
    with zipfile.ZipFile(tmp_path / "good.pt") as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    for old, new in (
        (b"K\x05K\x02K\x02", b"K\x0bK\x02K\x02"),
        (b"K\x02K\x02\x86", b"K\x02K\xff\x86"),
        (b"K\x04K\x01\x86", b"K\xffK\x01\x86"),
    ):
        assert members["good/data.pkl"].count(old) == 1
        changed = members | {"good/data.pkl": members["good/data.pkl"].replace(old, new)}
        write_zip(tmp_path / "val.pt", changed, zipfile.ZIP_STORED)
        both_refuse(tmp_path / "val.pt", "more numbers than the file")


@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_two_members_of_one_name(tmp_path, torch):
    """torch might read another pickle than the one that was looked at."""
    save(tmp_path / "val.pt", VAL)
    with zipfile.ZipFile(tmp_path / "val.pt", "a") as archive:
        archive.writestr("archive/data.pkl", b"\x80\x02}.")
    both_refuse(tmp_path / "val.pt", "members are called data.pkl")


# -- quadratic in the number of classes ---------------------------------------------------------------------------


class Name(str):
    """Text that counts how often it is compared."""

    __slots__ = ()
    compared = 0

    def __eq__(self, other):
        Name.compared += 1
        return str.__eq__(self, other)

    __hash__ = str.__hash__


def test_names_are_not_compared_with_each_other(monkeypatch):
    names = [Name(f"c{i}") for i in range(3000)]
    for read in (lambda names: read_header(names, AS_SAVED), lambda names: class_names(names, len(names))):
        monkeypatch.setattr(Name, "compared", 0)
        with pytest.raises(InputError, match="'c2999'"):
            read([*names, Name("c2999")])
        assert Name.compared < 10 * len(names)


def test_the_schema_of_parquet_is_built_once(tmp_path, monkeypatch):
    arrow, parquet = require("pyarrow", "io"), require("pyarrow.parquet", "io")
    parquet.write_table(arrow.table({f"c{i}": [1.0] for i in range(200)}), tmp_path / "val.parquet")
    built = []
    schema = parquet.ParquetFile.schema_arrow
    counted = property(lambda file: built.append(1) or schema.fget(file))
    monkeypatch.setattr(parquet.ParquetFile, "schema_arrow", counted)
    assert load(tmp_path / "val.parquet").n_classes == read_all(tmp_path / "val.parquet")[0].n_classes == 200
    assert len(built) <= 4


# -- shapes, text and numbers that nobody expects -----------------------------------------------------------------


@pytest.mark.parametrize(
    ("shape", "said"),
    [
        ((2, True), "declares the shape \\(2, True\\); expected whole numbers"),
        ((2**62, 0), "a shape that no array can have"),
        ((0, 2**62), "a shape that no array can have"),
        ((2**40, 0, 2**40), "a shape that no array can have"),
        ((10**4000, 10**4000), "a number of about .* digits bytes of data"),
    ],
)
def test_shapes_of_npy(tmp_path, shape, said):
    content = npy_header(shape)
    (tmp_path / "val.npy").write_bytes(content + bytes(8 if True in shape else 0))
    write_zip(tmp_path / "val.npz", {"logits.npy": (tmp_path / "val.npy").read_bytes()})
    both_refuse(tmp_path / "val.npy", said)
    both_refuse(tmp_path / "val.npz", said)


def test_a_header_with_a_number_too_long_to_print(tmp_path):
    text = f"{{'descr': '<f4', 'fortran_order': False, 'shape': (0x{'f' * 9000}, 1)}}".encode()
    (tmp_path / "val.npy").write_bytes(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text)
    both_refuse(tmp_path / "val.npy", "not a readable npy|a number of about .* digits")


def test_shapes_of_safetensors(tmp_path):
    require("safetensors", "io")
    for shape in ([2**62, 0], [0, 2**62]):
        header = json.dumps({"logits": {"dtype": "F32", "shape": shape, "data_offsets": [0, 0]}}).encode()
        (tmp_path / "val.safetensors").write_bytes(struct.pack("<Q", len(header)) + header)
        both_refuse(tmp_path / "val.safetensors", "a shape that no array can have")


@pytest.mark.parametrize("order", "<>")
def test_bytes_that_are_no_characters(tmp_path, order):
    names = np.array([ord("a"), 0x110000], dtype=f"{order}u4").view(f"{order}U1")
    np.savez(tmp_path / "classes.npz", logits=np.zeros((2, 2)), classes=names)
    both_refuse(tmp_path / "classes.npz", r"classes\.npy holds bytes that are not text")
    np.savez(tmp_path / "labels.npz", logits=np.zeros((2, 2)), labels=names, classes=["a", "b"])
    with pytest.raises(FileFormatError, match=r"labels\.npy holds bytes that are not text"):
        load(tmp_path / "labels.npz")
    np.savez(tmp_path / "logits.npz", logits=np.stack([names, names]))
    both_refuse(tmp_path / "logits.npz", "holds bytes that are not text|must be numbers", InputError)


@pytest.mark.parametrize("plain", [True, False])
def test_csv_labels_of_many_digits(tmp_path, monkeypatch, plain):
    if plain:
        monkeypatch.setitem(sys.modules, "pyarrow", None)
    for digits in ("9" * 310, "-" + "9" * 310, "9" * 5000):
        (tmp_path / "val.csv").write_text(f"a,b,label\n1,2,{digits}\n")
        with pytest.raises(FileFormatError, match=r"line 2, column 'label' is -?9{30,40}\.\.\.; must be in 0\.\.1"):
            load(tmp_path / "val.csv")


def test_csv_with_two_byte_order_marks(tmp_path):
    (tmp_path / "val.csv").write_bytes(b"\xef\xbb\xbf" * 2 + b"label,cat,dog\n1,1,2\n")
    both_refuse(tmp_path / "val.csv", "begins with two byte order marks. Save it again as UTF-8")
    with pytest.raises(InputError, match="csv cannot hold these class names"):
        save(tmp_path / "val.csv", Logits([[1.0, 2.0]], classes=["\ufeffa", "b"]))


# -- what a file brings into a message ----------------------------------------------------------------------------

BAD = "x\n\x1b[31m\u202e" + "y" * 5000


def write_csv(folder):
    (folder / "val.csv").write_text(f'"{BAD}","{BAD}"\n1,2\n')
    return folder / "val.csv"


def write_cell(folder):
    (folder / "val.csv").write_text(f'"{BAD}","b"\n1,"{BAD}"\n')
    return folder / "val.csv"


def write_label(folder):
    (folder / "val.csv").write_text(f'label,a,b\n"{BAD}",1,x\n')
    return folder / "val.csv"


def write_names(folder):
    np.savez(folder / "val.npz", logits=np.zeros((2, 2)), classes=[BAD, BAD])
    return folder / "val.npz"


def write_array(folder):
    write_zip(folder / "val.npz", {f"{BAD}{i}.npy": npy_bytes(np.zeros(2)) for i in range(30)})
    return folder / "val.npz"


def write_header(folder):
    (folder / "val.npy").write_bytes(npy_header((2, 2), [(BAD[:3000], "<f4")]) + bytes(16))
    return folder / "val.npy"


def write_tensors(folder):
    require("safetensors.numpy", "io").save_file({BAD: np.zeros(2)}, folder / "val.safetensors")
    return folder / "val.safetensors"


def write_columns(folder):
    arrow, parquet = require("pyarrow", "io"), require("pyarrow.parquet", "io")
    parquet.write_table(arrow.table({BAD: ["x"], "b": [1.0]}), folder / "val.parquet")
    return folder / "val.parquet"


def write_keys(folder):
    require("torch", "torch").save({BAD: 1, BAD + "z": 2}, folder / "val.pt")
    return folder / "val.pt"


def write_path(folder):
    np.savez(folder / "v\x1bal\n.npz", other=1)
    return folder / "v\x1bal\n.npz"


WRITERS = [
    write_csv,
    write_cell,
    write_label,
    write_names,
    write_array,
    write_header,
    write_tensors,
    write_columns,
    write_keys,
    write_path,
]


@pytest.mark.parametrize("write", WRITERS)
def test_messages_are_one_line_of_plain_text(tmp_path, write):
    both_refuse(write(tmp_path), ".", InputError)


def test_labels_in_messages(tmp_path):
    for labels, classes in (([BAD, "a"], ["a", "b"]), ([BAD, "a"], None), ([BAD, 1], ["a", "b"])):
        with pytest.raises(InputError) as caught:
            Logits([[1.0, 2.0], [1.0, 2.0]], labels, classes)
        assert str(caught.value).isprintable()
        assert len(str(caught.value)) < 400


def test_values_are_shown_in_short():
    deep = []
    for _ in range(60):
        deep = [deep, deep]
    for value in (deep, "x" * 10**6, 10**5000, {BAD: deep}, b"\x00" * 1000, list(range(10**6)), np.zeros(1000)):
        assert len(quoted(value)) < 500
        assert quoted(value).isprintable() or isinstance(value, np.ndarray)
    assert quoted(3) == "3"
    assert quoted("cat") == "'cat'"
    assert quoted(-(10**60)).startswith("-1000")


# -- disks and other programs -------------------------------------------------------------------------------------


class FullDisk(io.BytesIO):
    """Takes a few bytes and then no more."""

    def write(self, data):
        if self.tell() + len(data) > 1000:
            raise OSError(28, "No space left on device")
        return super().write(data)


@pytest.mark.parametrize("suffix", [".npz", ".csv", ".parquet", ".safetensors", ".pt"])
def test_a_full_disk_is_named(tmp_path, monkeypatch, suffix):
    parts = {".parquet": ("pyarrow", "io"), ".safetensors": ("safetensors", "io"), ".pt": ("torch", "torch")}
    if suffix in parts:
        require(*parts[suffix])
    monkeypatch.setattr("thermoset.io.write_whole", lambda path: contextlib.nullcontext(FullDisk()))
    with pytest.raises(InputError, match=rf"val\{suffix}: cannot be written \(.*No space left on device"):
        save(tmp_path / f"val{suffix}", Logits(np.zeros((5000, 10))))


SHORTENED = """
import os, sys
from thermoset.errors import InputError
from thermoset.io import open_blocks
for path in sys.argv[1:]:
    with open_blocks(path, block_bytes=8000) as blocks:
        parts = iter(blocks)
        next(parts)
        os.truncate(path, 5000)
        try:
            print(sum(map(len, parts)))
        except InputError as error:
            print(error)
"""


@pytest.mark.slow
def test_files_that_another_program_shortens(tmp_path):
    """A mapped file would end the process with SIGBUS."""
    torch, safe = require("torch", "torch"), require("safetensors.numpy", "io")
    array = np.random.default_rng(0).normal(size=(100_000, 4))
    np.save(tmp_path / "rows.npy", array)
    np.save(tmp_path / "columns.npy", np.asfortranarray(array))
    safe.save_file({"logits": array}, tmp_path / "val.safetensors")
    torch.save({"logits": torch.from_numpy(array)}, tmp_path / "val.pt")
    files = [tmp_path / name for name in ("rows.npy", "columns.npy", "val.safetensors", "val.pt")]
    command = [sys.executable, "-c", SHORTENED, *map(str, files)]
    run = subprocess.run(command, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
    said = run.stdout.splitlines()
    assert [line.startswith(f"{path}: ") for line, path in zip(said, files, strict=True)] == [True] * 4
    assert all("truncated" in line for line in said)
    assert os.path.getsize(files[0]) == 5000  # noqa: PTH202
