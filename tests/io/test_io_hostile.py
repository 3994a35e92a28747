"""Files that were made to do harm: hang, fill the memory, raise what nobody expects, or write on the terminal."""

import contextlib
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
import pytest

from helpers_io import attempts, npy_bytes, npy_header, parquet_bytes, write_zip
from parts import require
from thermoset.data import Logits
from thermoset.data.arrays import class_names
from thermoset.errors import FileFormatError, InputError
from thermoset.io import load, open_blocks, save
from thermoset.io.delimited import AS_SAVED, read_header
from thermoset.io.tensors import load_pt
from thermoset.quoting import quoted

MB = 2**20
VAL = Logits(np.float32([[2.0, 0.5, -1.0], [0.25, 1.25, -np.inf]]), [1, 0], ["cat", "dog", "eel"])
PROC = pytest.mark.skipif(not Path("/proc/self/clear_refs").exists(), reason="needs /proc")


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


def doubled(begin, n=60):
    """Pickle code: what `begin` makes, in a pair with itself, that in a pair with itself, and so on."""
    return begin + b"".join(b"q" + bytes([i]) + b"h" + bytes([i]) + b"\x86" for i in range(n))


def a_dict(key, value):
    return b"\x80\x02}" + key + value + b"s."


TEXT = b"X\x06\x00\x00\x00logits"


@pytest.fixture
def torch():
    return require("torch", "torch")


def test_keys_that_take_for_ever_to_hash(tmp_path, torch):
    path = torch_file(tmp_path / "val.pt", a_dict(doubled(b"K\x01"), b"K\x01"))
    assert path.stat().st_size < 1000
    both_refuse(path, r"its pickle has \(\(\(\.\.\.\), .*for a key; expected text")
    with pytest.raises(FileFormatError, match="for a key; expected text"):
        load_pt(path, MB, "")
    same_hash = b"".join(b"\x8a\x0a" + (i * (2**61 - 1)).to_bytes(10, "little") + b"N" for i in range(1, 50))
    torch_file(path, b"\x80\x02}(" + same_hash + b"u.")
    both_refuse(path, "for a key; expected text")


def test_pickles_whose_parts_are_counted_in_powers_of_two(tmp_path, torch):
    for part in ("logits", "labels", "classes"):
        content = {"logits": torch.zeros(2, 2)} if part != "logits" else {}
        torch.save(content, tmp_path / "val.pt")
        with zipfile.ZipFile(tmp_path / "val.pt") as archive:
            members = {name: archive.read(name) for name in archive.namelist()}
        key = b"X" + struct.pack("<I", len(part)) + part.encode()
        code = members["val/data.pkl"].removesuffix(b".") + key + doubled(b"]") + b"s."
        write_zip(tmp_path / "val.pt", members | {"val/data.pkl": code}, zipfile.ZIP_STORED)
        for read in (load,) if part == "labels" else (load, read_all):
            with pytest.raises(InputError, match=r"expected a tensor|class names must be all strings"):
                read(tmp_path / "val.pt")
    called = b"ctorch._utils\n_rebuild_tensor_v2\n" + doubled(b"K\x01") + b"\x85R"
    both_refuse(torch_file(tmp_path / "val.pt", b"\x80\x02" + called + b"."), "more than 1000 parts")
    with pytest.raises(FileFormatError, match="more than 1000 parts"):
        load_pt(tmp_path / "val.pt", MB, "")
    torch_file(tmp_path / "val.pt", b"\x80\x02" + doubled(b"K\x01") + b")R.")  # torch would print what is called
    with pytest.raises(FileFormatError, match="something is called that is no function"):
        load_pt(tmp_path / "val.pt", MB, "")


@PROC
def test_lists_do_not_pass_below_the_limit(tmp_path, torch):
    save(tmp_path / "good.pt", VAL)
    row = [1.0] * 3000
    rows = torch_file(tmp_path / "rows.pt", {"logits": [row] * 3000})  # 72 MB as float64
    assert rows.stat().st_size < 100_000
    name = "x" * 20_000
    torch.save({"logits": torch.zeros(3000, 2), "labels": [name] * 3000, "classes": [name, "b"]}, tmp_path / "names.pt")
    many = torch_file(tmp_path / "many.pt", b"\x80\x02" + b"]" * MB + b".")
    said = attempts(tmp_path / "good.pt", [rows, tmp_path / "names.pt", many], 2 * MB)
    assert ["expected a tensor" in said[i][0] for i in (0, 1)] == [True, True]
    assert "the list 'labels' declares 240,000,000 bytes, above the limit" in said[2][0]
    assert ["above the limit" in said[i][0] for i in (4, 5)] == [True, True]
    assert max(used for _, used in said) < 16 * MB


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


# -- parquet that declares more than it holds ---------------------------------------------------------------------


def test_parquet_by_hand_is_parquet(tmp_path):
    require("pyarrow", "io")
    (tmp_path / "val.parquet").write_bytes(parquet_bytes(n_rows=3, stored=np.arange(3.0).tobytes()))
    expected = Logits(np.float64([[0, 0], [1, 1], [2, 2]]), classes=["a", "b"])
    assert load(tmp_path / "val.parquet") == expected
    assert read_all(tmp_path / "val.parquet") == [expected]


@PROC
def test_parquet_is_judged_before_memory_is_allocated(tmp_path):
    arrow, parquet = require("pyarrow", "io"), require("pyarrow.parquet", "io")
    save(tmp_path / "good.parquet", VAL)
    files = {
        "page": parquet_bytes(n_rows=3, stored=bytes(24), codec=1, content=2**30),
        "expanding": parquet_bytes(n_rows=2**24, stored=bytes(24), codec=1, content=2**27),
        "values": parquet_bytes(n_rows=3, stored=bytes(24), values=2**30),
        "rows": parquet_bytes(n_rows=2**30, stored=bytes(24)),
    }
    for name, content in files.items():
        (tmp_path / f"{name}.parquet").write_bytes(content)
    flat = arrow.array(np.zeros(2**23))  # 64 MB
    wide = arrow.table({"logits": arrow.ListArray.from_arrays(arrow.array([0, 2, 2**23]), flat)})
    parquet.write_table(wide, tmp_path / "lists.parquet", data_page_size=2**30, write_batch_size=2**23)
    labels = {"a": np.zeros(3000), "b": np.zeros(3000), "label": ["x" * 20_000] * 3000}  # 60 MB
    parquet.write_table(arrow.table(labels), tmp_path / "labels.parquet")
    names = [*files, "lists", "labels"]
    assert max((tmp_path / f"{name}.parquet").stat().st_size for name in names) < 100_000
    said = attempts(tmp_path / "good.parquet", [tmp_path / f"{name}.parquet" for name in names], 2 * MB)
    words = ("hostile", "above the limit", "not a readable")
    assert [any(word in text for word in words) for text, _ in said] == [True] * 10 + [False, False]
    assert "which is not one of the 2 classes" in said[10][0]
    assert max(used for _, used in said) < 24 * MB


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
