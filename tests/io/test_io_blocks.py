"""Files in blocks of rows: what `load` reads, bit for bit, whatever the block; memory is bounded by a block."""

import json
import os
import struct
import subprocess
import sys
import tempfile
import tracemalloc
import zipfile
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from helpers_io import PARTS, Bomb, npy_header, pickled_bomb, write_zip
from parts import require
from thermoset.data import Logits
from thermoset.errors import FileFormatError, InputError, MissingExtraError
from thermoset.io import SUFFIXES, load, open_blocks, save
from tiers import examples

VAL = Logits(np.float32([[2.0, 0.5, -1.0], [0.25, 1.25, -np.inf], [0, 0, 1]]), [1, 0, 2], ["cat", "dog", "eel"])


@pytest.fixture(params=SUFFIXES)
def suffix(request):
    if request.param in PARTS:
        require(*PARTS[request.param])
    return request.param


@pytest.fixture(params=["pyarrow", "plain"])
def csv_reader(request, monkeypatch):
    """Both readers: with pyarrow, and line by line."""
    if request.param == "plain":
        monkeypatch.setitem(sys.modules, "pyarrow", None)
    else:
        require("pyarrow", "io")
    return request.param


def write_raw(path, array, labels=None):
    """Write an array as other programs would: nothing is checked."""
    if path.suffix == ".npz":
        np.savez(path, **{"logits": array} | ({} if labels is None else {"labels": labels}))
    elif path.suffix == ".npy":
        np.save(path, array)
    elif path.suffix == ".csv":
        names = [f"logit_{i}" for i in range(array.shape[1])]
        rows = [names, *(map(repr, row) for row in array.tolist())]
        path.write_text("".join(",".join(row) + "\n" for row in rows))
    elif path.suffix == ".parquet":
        arrow, parquet = require("pyarrow", "io"), require("pyarrow.parquet", "io")
        flat = arrow.array(array.reshape(-1))
        lists = arrow.FixedSizeListArray.from_arrays(flat, array.shape[1])
        parquet.write_table(arrow.table({"logits": lists}), path)
    elif path.suffix in (".arrow", ".feather", ".ipc"):
        arrow, ipc = require("pyarrow", "io"), require("pyarrow.ipc", "io")
        lists = arrow.FixedSizeListArray.from_arrays(arrow.array(array.reshape(-1)), array.shape[1])
        table = arrow.table({"logits": lists})
        with ipc.new_file(path, table.schema) as writer:
            writer.write_table(table)
    elif path.suffix == ".zarr":
        require("zarr", "zarr").open_group(str(path), mode="w").create_array("logits", data=array, chunks=(5, 2))
    elif path.suffix in (".h5", ".hdf5"):
        with require("h5py", "hdf5").File(path, "w") as file:
            chunks = tuple(max(1, size // 2) for size in array.shape) if array.size else None
            file.create_dataset("logits", data=array, chunks=chunks)
    elif path.suffix == ".safetensors":
        require("safetensors.numpy", "io").save_file({"logits": array}, path)
    else:
        torch = require("torch", "torch")
        torch.save({"logits": torch.from_numpy(array)}, path)
    return path


def read_all(path, **options):
    with open_blocks(path, **options) as blocks:
        return list(blocks)


def refused(path, said, kind=FileFormatError, **options):
    with pytest.raises(kind, match=said) as caught:
        read_all(path, **options)
    assert "\n" not in str(caught.value)
    assert str(caught.value).startswith(str(path))


def agrees_with_load(path, block_bytes, **options):
    """Blocks one after the other are what `load` gives; a second time around as well."""
    whole = load(path, **options)
    with open_blocks(path, block_bytes=block_bytes, **options) as blocks:
        assert blocks.n_rows in {whole.n_rows, None}
        assert (blocks.n_rows is None) == (path.suffix == ".csv")
        assert blocks.n_classes == whole.n_classes
        assert blocks.classes == whole.classes
        fit = max(1, block_bytes // (8 * whole.n_classes))
        assert min(blocks.block_rows, whole.n_rows) == min(fit, whole.n_rows)
        for parts in (list(blocks), list(blocks)):
            assert all(1 <= len(part) <= blocks.block_rows for part in parts)
            assert all(part.logits.dtype == whole.logits.dtype for part in parts)
            assert all(part.classes == whole.classes and part.labels is None for part in parts)
            assert np.concatenate([part.logits for part in parts]).tobytes() == whole.logits.tobytes()


def random_logits(n_rows, n_classes, dtype=np.float32):
    return np.random.default_rng(n_rows).normal(size=(n_rows, n_classes)).astype(dtype)


# -- blocks are what load gives -----------------------------------------------------------------------------------

texts = st.text(st.characters(exclude_categories=["Cs", "Cc"]), min_size=1, max_size=8).filter(str.strip)
sizes = st.integers(1, 400) | st.just(10**30)


@st.composite
def some_logits(draw):
    dtype = draw(st.sampled_from([np.float16, np.float32, np.float64]))
    shape = draw(st.tuples(st.integers(1, 12), st.integers(2, 4)))
    cells = st.floats(width=dtype().itemsize * 8, allow_nan=False, allow_infinity=False) | st.just(-np.inf)
    array = draw(hnp.arrays(dtype, shape, elements=cells))
    array[np.isneginf(array).all(axis=1), 0] = 1.0
    labels = draw(st.none() | hnp.arrays(np.int64, shape[0], elements=st.integers(0, shape[1] - 1)))
    classes = draw(st.none() | st.lists(texts, min_size=shape[1], max_size=shape[1], unique=True))
    return Logits(array, labels, classes)


@settings(max_examples=examples(60), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(val=some_logits(), block_bytes=sizes)
def test_blocks_are_what_load_gives(suffix, val, block_bytes):
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"val{suffix}"
        try:
            save(path, val)
        except InputError as error:
            assert "csv cannot hold these class names" in str(error)  # noqa: PT017
            return
        agrees_with_load(path, block_bytes)


number_types = st.sampled_from(["<f2", "<f4", "<f8", ">f2", ">f4", ">f8", "<i1", "<u2", "<i4", ">i8", "<u8", "g"])


@settings(max_examples=examples(60))
@given(st.data(), number_types, st.tuples(st.integers(1, 9), st.integers(2, 5)), sizes, st.booleans(), st.booleans())
def test_every_order_and_type_of_numpy(data, dtype, shape, block_bytes, fortran, compressed):
    cells = st.integers(0, 100)
    array = data.draw(hnp.arrays(np.int64, shape, elements=cells)).astype(dtype, order="F" if fortran else "C")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder)
        (np.savez_compressed if compressed else np.savez)(path / "val.npz", logits=array, other=np.arange(3))
        np.save(path / "val.npy", array)
        for name in ("val.npz", "val.npy"):
            agrees_with_load(path / name, block_bytes)


@settings(max_examples=examples(40), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(array=hnp.arrays(np.float32, (11, 3), elements=st.floats(0.125, 8, width=32)), block_bytes=sizes)
@pytest.mark.parametrize("suffix", [".npz", ".npy", ".csv", ".parquet", ".safetensors", ".pt"])
def test_probabilities_in_blocks(suffix, array, block_bytes):
    probs = (array / array.sum(axis=1, keepdims=True, dtype=np.float64)).astype(np.float32)
    with tempfile.TemporaryDirectory() as folder:
        agrees_with_load(write_raw(Path(folder) / f"val{suffix}", probs), block_bytes, probabilities=True)


@settings(max_examples=examples(40), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.data(), st.integers(1, 20), st.integers(1, 8), sizes, st.integers(0, 4))
def test_parquet_of_every_layout(data, n_rows, group, block_bytes, layout):
    arrow, parquet = require("pyarrow", "io"), require("pyarrow.parquet", "io")
    floats = st.floats(width=32, allow_nan=False, allow_infinity=False)
    array = data.draw(hnp.arrays(np.float32, (n_rows, 3), elements=floats))
    wide = {f"class {i}": array[:, i] for i in range(3)}
    kinds = (arrow.list_(arrow.float32()), arrow.large_list(arrow.float32()), arrow.list_(arrow.float32(), 3))
    lists = [{"id": ["x"] * n_rows, "logits": arrow.array(array.tolist(), kind)} for kind in kinds]
    whole = {name: np.arange(n_rows) for name in wide}
    table = arrow.table([*lists, wide | {"label": [0] * n_rows}, whole][layout])
    with tempfile.TemporaryDirectory() as folder:
        parquet.write_table(table, Path(folder) / "val.parquet", row_group_size=group)
        agrees_with_load(Path(folder) / "val.parquet", block_bytes)


def test_parquet_with_empty_row_groups(tmp_path):
    arrow, parquet = require("pyarrow", "io"), require("pyarrow.parquet", "io")
    for kind in (arrow.list_(arrow.float32()), arrow.list_(arrow.float32(), 3)):
        table = arrow.table({"logits": arrow.array(random_logits(5, 3).tolist(), kind)})
        with parquet.ParquetWriter(tmp_path / "val.parquet", table.schema) as writer:
            for part in (table[:0], table, table[:0], table[:0], table, table[:0]):
                writer.write_table(part)
        for block_bytes in (1, 72, 1000):
            agrees_with_load(tmp_path / "val.parquet", block_bytes)


def test_tensors_of_other_kinds(tmp_path):
    torch, safe = require("torch", "torch"), require("safetensors.torch", "io")
    half = torch.tensor(random_logits(10, 3)).bfloat16()
    tensors = {"pad": torch.ones(5), "logits": half, "zlast": torch.ones(5)}
    safe.save_file(tensors, tmp_path / "val.safetensors", metadata={"class_names": json.dumps(["a", "b", "c"])})
    torch.save(tensors, tmp_path / "dict.pt")
    torch.save(half.requires_grad_(), tmp_path / "one.pth")
    torch.save({"logits": half.T.contiguous().T, "classes": ["a", "b", "c"]}, tmp_path / "strided.pt")
    torch.save({"logits": half[:1].expand(6, 3), "labels": [9]}, tmp_path / "expanded.pt")
    torch.save({"probs": half.float().softmax(1).bfloat16()}, tmp_path / "probs.pt")
    for block_bytes in (1, 50, 10_000):
        for name in ("val.safetensors", "dict.pt", "one.pth", "strided.pt"):
            agrees_with_load(tmp_path / name, block_bytes)
        agrees_with_load(tmp_path / "probs.pt", block_bytes, probabilities=True)
        parts = read_all(tmp_path / "expanded.pt", block_bytes=block_bytes)  # `load` would trip over the labels
        assert np.array_equal(np.concatenate([part.logits for part in parts]), [half[0].tolist()] * 6)


def test_a_pt_file_that_was_packed_again(tmp_path):
    torch = require("torch", "torch")
    torch.save({"logits": torch.zeros(10_000, 2)}, tmp_path / "plain.pt")
    with zipfile.ZipFile(tmp_path / "plain.pt") as archive:
        write_zip(tmp_path / "val.pt", {name: archive.read(name) for name in archive.namelist()})
    agrees_with_load(tmp_path / "val.pt", 1000)
    assert sum(map(len, read_all(tmp_path / "val.pt", max_bytes=50_000))) == 10_000


@pytest.mark.parametrize(
    ("text", "rows"),
    [
        ("cat,dog\n1,2\n3,-inf\n", [[1, 2], [3, -np.inf]]),
        ("label,cat,dog\ncow,1,2\n,3,4\n", [[1, 2], [3, 4]]),  # labels are not read
        ("cat,label,dog\n1,7,2\n3,x,4\n5,1,6", [[1, 2], [3, 4], [5, 6]]),
        ('"a\nb","c, ""d""",label\n1,2,"a\nb"\n\n3,4,c\n', [[1, 2], [3, 4]]),
        (b"\xef\xbb\xbfcat,dog\r\n1, 2\r\n\r\n3e-320,4", [[1, 2], [3e-320, 4]]),
        ("cat,dog\n1,2\n+3,4\n5,6\n", [[1, 2], [3, 4], [5, 6]]),  # a sign pyarrow does not like
        ('a,b,label\n1,2,"x\n3,4,y"\n5,6,z\n', [[1, 2], [5, 6]]),
    ],
)
@pytest.mark.parametrize("block_bytes", [1, 32, 1000])
def test_csv_in_blocks(tmp_path, csv_reader, text, rows, block_bytes):
    path = tmp_path / "val.csv"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    parts = read_all(path, block_bytes=block_bytes)
    assert np.array_equal(np.concatenate([part.logits for part in parts]), rows)


@pytest.mark.parametrize("odd_row", [0, 1, 2_999, 3_000, 15_000, 19_999])
def test_csv_that_pyarrow_gives_up_in_the_middle(tmp_path, csv_reader, odd_row):
    rows = [f"{value!r},{row}.5" for row, value in enumerate(random_logits(20_000, 1, np.float64).ravel().tolist())]
    rows[odd_row] = f"+{rows[odd_row].lstrip('-')}"
    path = tmp_path / "val.csv"
    path.write_text("\n".join(["cat,dog", *rows]))
    assert path.stat().st_size > 20 * 2**14  # many of pyarrow's blocks, of which it has read some before it stops
    for block_bytes in (1600, 160_000):
        agrees_with_load(path, block_bytes)


def test_csv_with_labels_over_several_lines(tmp_path, csv_reader):
    """Wherever pyarrow cuts the text, the second line of a label is not a row."""
    for length in range(40, 60):
        row = f'1,2,"x\n3,4,{"y" * length}"\n'
        (tmp_path / "val.csv").write_text("a,b,label\n" + row * 2000)
        parts = read_all(tmp_path / "val.csv", block_bytes=3200)
        assert np.array_equal(np.concatenate([part.logits for part in parts]), [[1, 2]] * 2000)


def test_named_files_of_labels_and_names_beside_npy(tmp_path):
    np.save(tmp_path / "new_logits.npy", VAL.logits)
    np.save(tmp_path / "new_labels.npy", [7, 7])  # of another length, but nobody asks
    np.save(tmp_path / "new_classes.npy", VAL.classes)
    (part,) = read_all(tmp_path / "new_logits.npy")
    assert part == Logits(VAL.logits, classes=VAL.classes)
    np.savez(tmp_path / "val.npz", logits=VAL.logits, labels=np.array([None, 1], dtype=object), classes=VAL.classes)
    assert read_all(tmp_path / "val.npz") == [part]


# -- errors -------------------------------------------------------------------------------------------------------


def test_the_row_of_a_bad_value_is_that_of_the_file(tmp_path, suffix):
    array = random_logits(2000, 3)
    array[1501, 1] = array[1502, 2] = array[1900, 0] = np.nan
    path = write_raw(tmp_path / f"val{suffix}", array)
    if suffix == ".csv":
        refused(path, "line 1503, column 'logit_1' is 'nan'", block_bytes=2400)
        return
    refused(
        path,
        r"logits\[1501, 1\] is NaN; 2 such value.* Rows from 1600 on were not looked at",
        InputError,
        block_bytes=2400,
    )
    with pytest.raises(InputError) as whole:
        load(path)
    with pytest.raises(InputError) as one_block:
        read_all(path)
    assert str(one_block.value) == str(whole.value)


def test_a_row_far_down(tmp_path):
    array = np.zeros((700_010, 2), dtype=np.float32)
    array[700_001] = -np.inf
    np.save(tmp_path / "val.npy", array)
    refused(
        tmp_path / "val.npy", r"logits\[700001\] is -inf for every class; 1 such row", InputError, block_bytes=2**16
    )
    array[:] = 0.5
    array[700_001, 1] = 0.75
    np.savez(tmp_path / "val.npz", probs=array)
    said = r"probs\[700001\] sums to 1\.25; 1 row"
    refused(tmp_path / "val.npz", said, InputError, block_bytes=2**16, probabilities=True)
    array[700_001, 1] = -1
    np.savez(tmp_path / "val.npz", probs=array)
    said = r"probs\[700001, 1\] is -1\.0; probabilities must be >= 0"
    refused(tmp_path / "val.npz", said, InputError, block_bytes=2**16, probabilities=True)


@pytest.mark.parametrize(
    ("row", "said"),
    [
        ("3,x", "line 5003, column 'dog' is 'x'; expected a number"),
        (",4", "line 5003, column 'cat' is empty"),
        ("3,inf", "line 5003, column 'dog' is 'inf'"),
        ("3", "line 5003 has 1 cells, but the header has 2"),
        ("3,4,5", "line 5003 has 3 cells"),
        ('3,"4', "not a readable csv file"),
        ("3,\udcff", "not UTF-8"),
    ],
)
def test_the_line_of_a_bad_cell(tmp_path, csv_reader, row, said):
    lines = ["cat,dog", "", *["1.25,2.5"] * 5000, row, *["5,6"] * 1000]
    (tmp_path / "val.csv").write_bytes("\n".join(lines).encode(errors="surrogateescape"))
    refused(tmp_path / "val.csv", said, block_bytes=4096)
    done = 0
    with open_blocks(tmp_path / "val.csv", block_bytes=4096) as blocks, suppress(FileFormatError):
        for block in blocks:
            done += len(block)
    # All that was good before it, in blocks of 4096 / 16 rows; but text is decoded some lines ahead.
    assert done == 5000 // 256 * 256 or said == "not UTF-8"


def test_a_masked_row_of_csv(tmp_path, csv_reader):
    (tmp_path / "val.csv").write_text("a,b\n" + "1,2\n" * 500 + "-inf,-inf\n")
    refused(tmp_path / "val.csv", r"logits\[500\] is -inf for every class", InputError, block_bytes=160)


@pytest.mark.parametrize(
    ("columns", "said"),
    [
        ({"a": [1.0] * 5 + [None], "b": [2.0] * 6}, "row 5 of column 'a' is missing"),
        ({"logits": [[1.0, 2.0]] * 5 + [[3.0]]}, "row 5 of column 'logits' has 1 values, but row 0 has 2"),
        (
            {"logits": [[1.0, 2.0]] * 4 + [[3.0, 4.0, 5.0]] * 2},
            "row 4 of column 'logits' has 3 values, but row 0 has 2",
        ),
        ({"logits": [[1.0, 2.0]] * 5 + [None]}, "row 5 of column 'logits' is missing"),
        ({"logits": [[1.0, 2.0]] * 5 + [[3.0, None]]}, "row 5 of column 'logits' has a missing value at position 1"),
        ({"logits": [None, [1.0, 2.0]]}, "row 0 of column 'logits' is missing"),
        ({"logits": [["a", "b"]]}, "lists of string; expected lists of numbers"),
        ({"a": [1.0], "b": [2.0], "name": ["x"]}, "column 'name' is of type string"),
        ({"a": [1.0], "b": [2.0], "id": [7]}, "column 'id' holds whole numbers"),
        ({"a": [1.0], "b": [2.0], "label": [0], "Labels": [0]}, "both look like labels"),
    ],
)
@pytest.mark.parametrize("block_bytes", [32, 10_000])
def test_bad_parquet_is_refused(tmp_path, columns, said, block_bytes):
    arrow, parquet = require("pyarrow", "io"), require("pyarrow.parquet", "io")
    parquet.write_table(arrow.table(columns), tmp_path / "val.parquet", row_group_size=4)
    refused(tmp_path / "val.parquet", said, block_bytes=block_bytes)


@pytest.mark.parametrize(
    ("array", "suffixes"),
    [
        (np.zeros((3, 1)), SUFFIXES),
        (np.zeros(3), (".npz", ".npy", ".safetensors", ".pt")),
        (np.zeros((2, 2, 2)), (".npz", ".npy", ".safetensors", ".pt")),
        (np.zeros(()), (".npz", ".npy", ".safetensors", ".pt")),
        (np.zeros((2, 2), dtype=bool), (".npz", ".npy", ".safetensors", ".pt")),
        (np.zeros((2, 2), dtype=complex), (".npz", ".npy", ".pt")),
        (np.array([["a", "b"]]), (".npz", ".npy")),
    ],
    ids=["column", "1-D", "3-D", "0-D", "bool", "complex", "text"],
)
def test_shapes_and_types_are_judged_as_by_load(tmp_path, array, suffixes):
    for suffix in suffixes:
        path = write_raw(tmp_path / f"val{suffix}", array)
        with pytest.raises(InputError) as whole:
            load(path)
        with pytest.raises(InputError) as blocks:
            read_all(path)
        same = str(blocks.value) == str(whole.value)
        assert same or (suffix == ".csv" and str(blocks.value) == str(whole.value).replace("(3, 1)", "(1, 1)"))


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_a_file_without_rows_has_no_blocks_and_is_not_loaded(tmp_path, suffix):
    path = write_raw(tmp_path / f"val{suffix}", np.zeros((0, 3)))
    assert read_all(path, n_options=3) == []
    with pytest.raises(InputError, match="no rows"):
        load(path)


def test_names_are_judged_as_by_load(tmp_path):
    for classes, said in ((["a", "b"], "classes must hold 3 names"), (["a", "b", "b"], "'b' appears more than once")):
        np.savez(tmp_path / "val.npz", logits=VAL.logits, classes=classes)
        for read in (load, read_all):
            with pytest.raises(InputError, match=rf"val\.npz: .*{said}"):
                read(tmp_path / "val.npz")


def test_arrays_that_are_not_there(tmp_path):
    np.savez(tmp_path / "val.npz", probs=VAL.logits)
    refused(tmp_path / "val.npz", "no array called 'logits'; the file holds: probs. Pass probabilities=True")
    torch = require("torch", "torch")
    torch.save([torch.zeros(2, 2)], tmp_path / "val.pt")
    refused(tmp_path / "val.pt", "holds a list; expected a dict")


def test_files_that_are_not_there(tmp_path, suffix):
    refused(tmp_path / f"none{suffix}", "there is no such file", InputError)
    (tmp_path / f"empty{suffix}").touch()
    refused(tmp_path / f"empty{suffix}", "is empty|must be a folder")
    (tmp_path / "val.xlsx").write_text("x")
    refused(tmp_path / "val.xlsx", r"unknown kind of file '\.xlsx'; known: \.npz, \.npy, \.csv")


@pytest.mark.parametrize(
    ("name", "module", "extra"),
    [
        ("a.parquet", "pyarrow", "io"),
        ("a.arrow", "pyarrow", "io"),
        ("a.h5", "h5py", "hdf5"),
        ("a.safetensors", "safetensors", "io"),
        ("a.pt", "torch", "torch"),
    ],
)
def test_missing_parts_are_named(tmp_path, monkeypatch, name, module, extra):
    for loaded in [module, *(known for known in sys.modules if known.startswith(f"{module}."))]:
        monkeypatch.setitem(sys.modules, loaded, None)
    (tmp_path / name).write_bytes(b"something")
    with pytest.raises(MissingExtraError, match=rf"needs {module}.*thermoset\[{extra}\]"):
        read_all(tmp_path / name)


@pytest.mark.parametrize("block_bytes", [0, -1, 1.5, "many", None])
def test_bad_blocks_are_refused(tmp_path, block_bytes):
    save(tmp_path / "val.npz", VAL)
    with pytest.raises(InputError, match=r"block_bytes must be a whole number from 1 to .*; got "):
        read_all(tmp_path / "val.npz", block_bytes=block_bytes)


def fail_inside(path, error):
    with open_blocks(path) as blocks:
        for _ in blocks:
            raise error


def test_errors_of_the_caller_are_not_about_the_file(tmp_path, suffix):
    save(tmp_path / f"val{suffix}", VAL)
    for error in (InputError("mine"), ValueError("mine"), OSError(5, "mine"), KeyError("mine"), MemoryError()):
        with pytest.raises(type(error)) as caught:
            fail_inside(tmp_path / f"val{suffix}", error)
        assert caught.value is error


# -- damaged files ---------------------------------------------------------------------------------------------


def test_every_truncation_is_refused(tmp_path, suffix):
    if suffix in {".csv", ".zarr"}:  # a csv file cut at a line is a csv file; a folder cannot be cut
        return
    whole, cut = tmp_path / f"whole{suffix}", tmp_path / f"cut{suffix}"
    save(whole, VAL)
    data = whole.read_bytes()
    for length in {1, 7, 8, 20, len(data) // 3, len(data) // 2, len(data) * 9 // 10, len(data) - 1}:
        cut.write_bytes(data[:length])
        refused(cut, ".", block_bytes=24)


@settings(max_examples=examples(80), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
@pytest.mark.filterwarnings("ignore")  # torch and zipfile may warn about what they see; what counts is how it ends
def test_damaged_bytes_end_as_with_load(tmp_path, suffix, data):
    if suffix in {".zarr", ".h5", ".hdf5"}:  # a folder; libhdf5 promises nothing about files of strangers
        return
    whole, broken = tmp_path / f"whole{suffix}", tmp_path / f"broken{suffix}"
    if not whole.exists():
        save(whole, Logits(VAL.logits, classes=VAL.classes))
    content = bytearray(whole.read_bytes())
    for _ in range(data.draw(st.integers(1, 4))):
        content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    broken.write_bytes(content)
    try:
        parts = read_all(broken, max_bytes=1 << 24, block_bytes=24)
    except InputError as error:
        assert str(error).startswith(str(broken))  # noqa: PT017
        if suffix not in {".pt", ".pth"}:
            with pytest.raises(InputError):
                load(broken, max_bytes=1 << 24)
    else:
        if suffix in {".pt", ".pth"}:  # torch looks at some checksums only when it does not map the file
            return
        loaded = load(broken, max_bytes=1 << 24)
        assert np.concatenate([part.logits for part in parts]).tobytes() == loaded.logits.tobytes()


@pytest.mark.filterwarnings("ignore:Detected pickle protocol")
def test_pickles_are_never_executed(tmp_path, suffix):
    mark = tmp_path / "executed"
    (tmp_path / f"val{suffix}").write_bytes(pickled_bomb(mark))
    refused(tmp_path / f"val{suffix}", ".")
    objects = np.array([Bomb(mark)], dtype=object)
    np.savez(tmp_path / "val.npz", logits=objects)
    refused(tmp_path / "val.npz", r"logits\.npy is an object array.*pickles are never read")
    np.savez(tmp_path / "val.npz", logits=VAL.logits, classes=objects)
    refused(tmp_path / "val.npz", r"classes\.npy is an object array")
    np.save(tmp_path / "val.npy", objects, allow_pickle=True)
    refused(tmp_path / "val.npy", "is an object array")
    torch = require("torch", "torch")
    torch.save({"logits": torch.tensor(VAL.logits), "extra": Bomb(mark)}, tmp_path / "val.pt")
    refused(tmp_path / "val.pt", r"holds '\w+\.mkdir'; only plain tensors")
    assert not mark.exists()


@pytest.mark.parametrize("shape", [(10**9, 10**6), (3, 3), (10**30, 10**30)])
def test_headers_that_declare_more_than_there_is(tmp_path, shape):
    (tmp_path / "val.npy").write_bytes(npy_header(shape) + bytes(16))
    refused(tmp_path / "val.npy", "declares .* bytes of data .* but 16 follow")
    write_zip(tmp_path / "val.npz", {"logits.npy": npy_header(shape) + bytes(16)})
    refused(tmp_path / "val.npz", "declares .* bytes of data .* but 16 follow")


@pytest.mark.parametrize("shape", [(0, 10**30), (1,) * 33])
def test_shapes_that_no_array_can_have(tmp_path, shape):
    content = npy_header(shape) + bytes(0 if 0 in shape else 4)
    (tmp_path / "val.npy").write_bytes(content)
    write_zip(tmp_path / "val.npz", {"logits.npy": content})
    require("safetensors", "io")
    entry = {"dtype": "F32", "shape": (1,) * 33, "data_offsets": (0, 4)}  # its library checks how large sizes are
    text = json.dumps({"logits": entry}).encode()
    (tmp_path / "val.safetensors").write_bytes(struct.pack("<Q", len(text)) + text + bytes(4))
    for name in ("val.npy", "val.npz", "val.safetensors"):
        refused(tmp_path / name, "declares a shape that no array can have")
        with pytest.raises(FileFormatError, match="declares a shape that no array can have"):
            load(tmp_path / name)


def test_a_file_that_shrinks_while_it_is_read(tmp_path):
    np.save(tmp_path / "val.npy", random_logits(10_000, 4))
    with open_blocks(tmp_path / "val.npy", block_bytes=320) as blocks:
        parts = iter(blocks)
        next(parts)
        os.truncate(tmp_path / "val.npy", 100_000)
        with pytest.raises(FileFormatError, match=r"ends after .* of 160,000 bytes: truncated"):
            list(parts)


# -- limits -------------------------------------------------------------------------------------------------------


def test_the_limit_is_not_about_the_file(tmp_path, suffix):
    path = write_raw(tmp_path / f"val{suffix}", random_logits(2000, 4))
    with pytest.raises(FileFormatError, match="above the limit"):
        load(path, max_bytes=20_000)
    for block_bytes in (3200, 10**6):
        parts = read_all(path, max_bytes=20_000, block_bytes=block_bytes)
        assert sum(map(len, parts)) == 2000
        assert max(map(len, parts)) <= min(block_bytes, 20_000) // 32
    refused(path, "declares .* above the limit of 16", max_bytes=16)


def test_what_must_be_read_whole_is_limited(tmp_path):
    array = random_logits(2000, 4)
    np.savez_compressed(tmp_path / "val.npz", logits=np.asfortranarray(array))
    refused(tmp_path / "val.npz", "in Fortran order, declares 32,000 bytes, above the limit", max_bytes=20_000)
    np.save(tmp_path / "val.npy", np.asfortranarray(array))
    assert sum(map(len, read_all(tmp_path / "val.npy", max_bytes=20_000))) == 2000  # not read at once
    np.savez(tmp_path / "val.npz", logits=array, classes=["a", "b", "c", "d" * 10_000])
    refused(tmp_path / "val.npz", r"classes\.npy declares 160,128 bytes, above the limit", max_bytes=20_000)


def test_torch_tensors_larger_than_their_file_are_refused(tmp_path):
    torch = require("torch", "torch")
    torch.save({"logits": torch.zeros(1).expand(10**6, 10**6)}, tmp_path / "val.pt")
    refused(tmp_path / "val.pt", "a tensor declares .* above the limit")


# -- memory -------------------------------------------------------------------------------------------------------

MB = 2**20


def write_large(path, *, compressed=False, fortran=False):
    array = np.tile(random_logits(2**13, 16), (32, 1))
    assert array.nbytes == 16 * MB
    if compressed:
        np.savez_compressed(path, logits=array)
    else:
        write_raw(path, np.asfortranarray(array) if fortran else array)
    return path


@pytest.mark.long
@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("a.npz", {}),
        ("a.npz", {"compressed": True}),
        ("a.npy", {}),
        ("a.npy", {"fortran": True}),
        ("a.safetensors", {}),
    ],
    ids=["npz", "compressed", "npy", "fortran", "safetensors"],
)
def test_memory_is_bounded_by_a_block(tmp_path, name, options):
    if name == "a.safetensors":
        require("safetensors", "io")
    path = write_large(tmp_path / name, **options)
    tracemalloc.start()
    try:
        with open_blocks(path, block_bytes=MB // 2) as blocks:
            rows = sum(map(len, blocks))
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert rows == 2**18
    assert peak < 16 * MB / 4
    tracemalloc.start()
    load(path)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak > 16 * MB  # the measure sees arrays


@pytest.mark.long
def test_memory_of_csv_without_pyarrow_is_bounded(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    (tmp_path / "a.csv").write_text("a,b,c,d\n" + "1,2,3,4\n" * 100_000)  # 3.2 MB as float64
    tracemalloc.start()
    with open_blocks(tmp_path / "a.csv", block_bytes=MB // 32) as blocks:
        rows = sum(map(len, blocks))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert rows == 100_000
    assert peak < 3_200_000 / 4


CHILD = """
import sys
import pyarrow, pyarrow.csv, pyarrow.parquet
from thermoset.io import load, open_blocks
pool = pyarrow.default_memory_pool()
with open_blocks(sys.argv[1], block_bytes=2**16) as blocks:
    rows = sum(map(len, blocks))
streamed = pool.max_memory()
load(sys.argv[1])
print(rows, streamed, pool.max_memory())
"""


@pytest.mark.long
@pytest.mark.parametrize("layout", ["lists", "columns", "csv"])
def test_memory_of_pyarrow_is_bounded(tmp_path, layout):
    """Counted by pyarrow itself, in a process of its own, since the count never falls."""
    arrow, parquet = require("pyarrow", "io"), require("pyarrow.parquet", "io")
    n_rows = 2**18
    array = np.tile(random_logits(2**13, 16), (32, 1))
    assert array.nbytes == 16 * MB
    path = tmp_path / "a.parquet"
    # One row group: a block is a part of it, made of small pages.
    options = {"use_dictionary": False, "row_group_size": n_rows, "data_page_size": 2**16}
    if layout == "lists":
        lists = arrow.FixedSizeListArray.from_arrays(arrow.array(array.reshape(-1)), 16)
        parquet.write_table(arrow.table({"logits": lists}), path, **options)
    elif layout == "columns":
        columns = {f"logit_{i}": array[:, i] for i in range(16)}
        parquet.write_table(arrow.table(columns), path, **options)
    else:
        path = tmp_path / "a.csv"
        line = ",".join(f"{value:.3f}" for value in array[0])
        path.write_text(",".join(f"logit_{i}" for i in range(16)) + "\n" + f"{line}\n" * n_rows)
    run = subprocess.run([sys.executable, "-c", CHILD, str(path)], capture_output=True, text=True, check=True)
    rows, streamed, loaded = map(int, run.stdout.split())
    assert rows == n_rows
    assert loaded > 16 * MB
    assert streamed < 16 * MB / 2


RESIDENT = """
import re, sys
import torch
from thermoset.io import load, open_blocks

def resident():
    return int(re.search(r"RssAnon:\\s+(\\d+)", open("/proc/self/status").read())[1]) * 1024

def most_resident(path):
    with open_blocks(path, block_bytes=2**20) as blocks:
        return max(resident() for block in blocks)

before = most_resident(sys.argv[1])  # with all that is loaded once
streamed = most_resident(sys.argv[2])
whole = load(sys.argv[2])
print(streamed - before, resident() - before)
"""


@pytest.mark.long
@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="needs /proc")
def test_memory_of_torch_is_bounded(tmp_path):
    torch = require("torch", "torch")
    torch.save({"logits": torch.zeros(10, 16)}, tmp_path / "small.pt")
    torch.save({"logits": torch.ones(2**20, 16)}, tmp_path / "large.pt")  # 64 MB
    files = str(tmp_path / "small.pt"), str(tmp_path / "large.pt")
    run = subprocess.run([sys.executable, "-c", RESIDENT, *files], capture_output=True, text=True, check=True)
    streamed, loaded = map(int, run.stdout.split())
    assert loaded > 60 * MB
    assert streamed < 64 * MB / 4
