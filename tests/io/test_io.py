"""Files: round trips, the naming rules, damaged and foreign files, and writing whole or not at all."""

import json
import os
import signal
import struct
import subprocess
import sys
import tempfile
import time
import zipfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from conftest import real_file
from helpers_io import PARTS, Bomb, npy_bytes, npy_header, pickled_bomb, write_zip
from parts import require
from thermoset.data import Logits
from thermoset.errors import FileFormatError, InputError, MissingExtraError
from thermoset.io import SUFFIXES, load, save
from tiers import examples

VAL = Logits(np.array([[2.0, 0.5, -1.0], [0.25, 1.25, -np.inf]], dtype=np.float32), [1, 0], ["cat", "dog", "eel"])


@pytest.fixture(params=SUFFIXES)
def suffix(request):
    if request.param in PARTS:
        require(*PARTS[request.param])
    return request.param


@pytest.fixture(params=[suffix for suffix in SUFFIXES if suffix != ".zarr"])
def file_suffix(request):
    """Of formats that are one file."""
    if request.param in PARTS:
        require(*PARTS[request.param])
    return request.param


def refused(path, said, kind=FileFormatError, **options):
    with pytest.raises(kind, match=said) as caught:
        load(path, **options)
    assert "\n" not in str(caught.value)
    assert str(caught.value).startswith(str(path))


def names_in(folder):
    return sorted(path.name for path in folder.iterdir())


def contents(folder):
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def safetensors_bytes(header):
    text = json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + bytes(16)


# -- round trips --------------------------------------------------------------------------------------------------

texts = st.text(st.characters(exclude_categories=["Cs", "Cc"]), min_size=1, max_size=8).filter(str.strip)


@st.composite
def some_logits(draw):
    dtype = draw(st.sampled_from([np.float16, np.float32, np.float64]))
    shape = draw(st.tuples(st.integers(1, 5), st.integers(2, 4)))
    cells = st.floats(width=dtype().itemsize * 8, allow_nan=False, allow_infinity=False) | st.just(-np.inf)
    array = draw(hnp.arrays(dtype, shape, elements=cells))
    array[np.isneginf(array).all(axis=1), 0] = draw(st.sampled_from([0.0, -0.0, 5e-324]))
    labels = draw(st.none() | hnp.arrays(np.int64, shape[0], elements=st.integers(0, shape[1] - 1)))
    classes = draw(st.none() | st.lists(texts, min_size=shape[1], max_size=shape[1], unique=True))
    return Logits(array, labels, classes)


def same_bits(one, other):
    return one.tobytes() == other.tobytes()


@settings(max_examples=examples(60), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(val=some_logits())
def test_round_trip_is_exact(suffix, val):
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"val{suffix}"
        try:
            save(path, val)
        except InputError as error:  # the one thing csv cannot hold
            assert suffix == ".csv"
            assert "csv cannot hold these class names" in str(error)  # noqa: PT017
            return
        back = load(path)
    if suffix == ".csv":
        assert back.logits.dtype == np.float64
        assert same_bits(back.logits, val.logits.astype(np.float64))
    else:
        assert back == val
        assert same_bits(back.logits, val.logits)
    assert back.classes == val.classes
    assert (back.labels is None) == (val.labels is None)
    assert val.labels is None or np.array_equal(back.labels, val.labels)


def test_only_the_files_of_the_format_appear(tmp_path, suffix):
    save(tmp_path / f"val{suffix}", VAL)
    expected = [f"val{suffix}"] if suffix != ".npy" else ["val.npy", "val_classes.npy", "val_labels.npy"]
    assert names_in(tmp_path) == expected


def test_suffix_in_capitals_and_str_paths(tmp_path):
    save(str(tmp_path / "VAL.NPZ"), VAL)
    assert load(str(tmp_path / "VAL.NPZ")) == VAL


@pytest.mark.parametrize("compressed", [True, False])
def test_npz_of_numpy(tmp_path, compressed):
    write = np.savez_compressed if compressed else np.savez
    fortran = np.asfortranarray(VAL.logits)
    ignored = np.array([None, {}], dtype=object)
    write(tmp_path / "a.npz", logits=fortran, labels=VAL.labels.astype("i2"), class_names=VAL.classes, ignored=ignored)
    assert load(tmp_path / "a.npz") == VAL
    write(tmp_path / "b.npz", logits=VAL.logits)
    assert load(tmp_path / "b.npz") == Logits(VAL.logits)
    write(tmp_path / "c.npz", logits=VAL.logits, label=np.array(["dog", "cat"]), classes=np.array(VAL.classes, "S"))
    assert load(tmp_path / "c.npz") == VAL


def test_published_logits_can_be_read():
    for file in sorted(real_file("cifar10_resnet50").parent.glob("*.npz")):
        val = load(file)
        with np.load(file) as arrays:
            assert np.array_equal(val.logits, arrays["logits"])
            assert np.array_equal(val.labels, arrays["labels"])


def test_bfloat16_becomes_float32(tmp_path):
    torch, safe = require("torch", "torch"), require("safetensors.torch", "io")
    tensors = {"pad": torch.ones(3), "logits": torch.tensor(VAL.logits).bfloat16(), "label": torch.tensor([1, 0])}
    safe.save_file(tensors, tmp_path / "val.safetensors")
    torch.save(tensors, tmp_path / "val.pt")
    for name in ("val.safetensors", "val.pt"):
        val = load(tmp_path / name)
        assert val == Logits(VAL.logits, VAL.labels)  # these values need no more than eight bits
        assert val.logits.dtype == np.float32


def test_torch_files_of_other_shapes(tmp_path):
    torch = require("torch", "torch")
    torch.save(torch.tensor(VAL.logits, requires_grad=True), tmp_path / "one.pt")
    assert load(tmp_path / "one.pt") == Logits(VAL.logits)
    torch.save({"logits": torch.tensor(VAL.logits), "labels": [1, 0], "epoch": 3}, tmp_path / "dict.pth")
    assert load(tmp_path / "dict.pth") == Logits(VAL.logits, [1, 0])
    torch.save([torch.tensor(VAL.logits)], tmp_path / "list.pt")
    refused(tmp_path / "list.pt", "holds a list; expected a dict")


# -- npy and its siblings -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "labels"),
    [
        ("logits.npy", "labels.npy"),
        ("val_logits.npy", "val_labels.npy"),
        ("logits_val.npy", "labels_val.npy"),
        ("logits_of_logits.npy", "logits_of_labels.npy"),
        ("val.npy", "val_labels.npy"),
    ],
)
def test_npy_finds_its_labels(tmp_path, name, labels):
    np.save(tmp_path / name, VAL.logits)
    assert load(tmp_path / name).labels is None
    np.save(tmp_path / labels, VAL.labels)
    assert load(tmp_path / name) == Logits(VAL.logits, VAL.labels)


def test_labels_from_a_named_file(tmp_path):
    np.save(tmp_path / "val.npy", VAL.logits)
    np.save(tmp_path / "val_labels.npy", VAL.labels)
    np.save(tmp_path / "truth.npy", [2, 2])
    assert load(tmp_path / "val.npy", labels=tmp_path / "truth.npy").labels.tolist() == [2, 2]
    save(tmp_path / "val.npz", Logits(VAL.logits))
    assert load(tmp_path / "val.npz", labels=tmp_path / "truth.npy").labels.tolist() == [2, 2]
    save(tmp_path / "val.npz", VAL)
    refused(tmp_path / "val.npz", "different labels", InputError, labels=tmp_path / "truth.npy")
    with pytest.raises(InputError, match="no such file"):
        load(tmp_path / "val.npz", labels=tmp_path / "none.npy")
    with pytest.raises(FileFormatError, match=r"known: \.npy"):
        load(tmp_path / "val.npz", labels=tmp_path / "val.npz")
    with pytest.raises(FileFormatError, match=r"known: \.npy"):
        load(tmp_path / "val.npz", labels=str(tmp_path / "val.npz"))


def test_npy_does_not_adopt_stale_siblings(tmp_path):
    save(tmp_path / "val_logits.npy", VAL)
    with pytest.raises(InputError, match=r"val_labels\.npy exists"):
        save(tmp_path / "val_logits.npy", Logits(VAL.logits))
    assert load(tmp_path / "val_logits.npy") == VAL


# -- probabilities ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["probs", "probabilities", "logits"])
def test_probabilities_must_be_asked_for(tmp_path, name):
    probs = np.array([[0.25, 0.75], [1.0, 0.0]])
    np.savez(tmp_path / "val.npz", **{name: probs, "labels": [0, 1]})
    assert load(tmp_path / "val.npz", probabilities=True) == Logits.from_probabilities(probs, [0, 1])
    if name != "logits":
        refused(tmp_path / "val.npz", f"no array called 'logits'; the file holds: .*{name}.*probabilities=True")


def test_probabilities_in_tables(tmp_path):
    (tmp_path / "val.csv").write_text("prob_0,prob_1,label\n0.25,0.75,1\n")
    assert load(tmp_path / "val.csv", probabilities=True) == Logits.from_probabilities([[0.25, 0.75]], [1])
    (tmp_path / "val.csv").write_text("a,b\n0.25,0.5\n")
    refused(tmp_path / "val.csv", r"probs\[0\] sums to 0\.75", InputError, probabilities=True)


# -- csv ----------------------------------------------------------------------------------------------------------


@pytest.fixture(params=["pyarrow", "plain"])
def csv_reader(request, monkeypatch):
    """Both readers: with pyarrow, and line by line."""
    if request.param == "plain":
        monkeypatch.setitem(sys.modules, "pyarrow", None)
    else:
        require("pyarrow", "io")
    return request.param


def csv_file(folder, text):
    path = folder / "val.csv"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("cat,dog\n1,2\n", Logits([[1.0, 2.0]], classes=["cat", "dog"])),
        ("cat,dog,label\n1,2,dog\n3,-inf,cat\n", Logits([[1, 2], [3, -np.inf]], [1, 0], ["cat", "dog"])),
        ("cat,label,dog\n1,1,2\n3,0,4\n", Logits([[1, 2], [3, 4]], [1, 0], ["cat", "dog"])),
        ("Labels,cat,dog\n1.0,1,2\n", Logits([[1, 2]], [1], ["cat", "dog"])),
        ("label,logit_0,logit_1\n1,1,2\n", Logits([[1, 2]], [1])),
        ("label,1,2\n1,5,6\n2,5,6\n", Logits([[5, 6], [5, 6]], [0, 1], ["1", "2"])),
        ("label,0,a\n0,5,6\na,5,6\n", Logits([[5, 6], [5, 6]], [0, 1], ["0", "a"])),
        ("0,1\n5,6\n", Logits([[5, 6]], classes=["0", "1"])),
        ('"a,b","c ""d""",label\n1,2,"a,b"\n', Logits([[1, 2]], [0], ["a,b", 'c "d"'])),
        ('"a\nb",c,label\n1,2,"a\nb"\n\n3,4,c\n', Logits([[1, 2], [3, 4]], [0, 1], ["a\nb", "c"])),
        (b"\xef\xbb\xbfcat,dog\r\n1, 2\r\n\r\n3e-320,4", Logits([[1, 2], [3e-320, 4]], classes=["cat", "dog"])),
        ("NA,nan,label\n1,2,NA\n1,2,nan\n", Logits([[1, 2], [1, 2]], [0, 1], ["NA", "nan"])),
    ],
)
def test_csv_is_read(tmp_path, csv_reader, text, expected):
    assert load(csv_file(tmp_path, text)) == expected


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("cat,dog\n1,2\n3,x\n", "line 3, column 'dog' is 'x'; expected a number"),
        ("cat,dog\n1,2\n\n,4\n", "line 4, column 'cat' is empty"),
        ("cat,dog\n1,2\n3,nan\n", "line 3, column 'dog' is 'nan'"),
        ("cat,dog\n1,2\ninf,4\n", "line 3, column 'cat' is 'inf'"),
        ("cat,dog\n1,2\n3,1_0\n", "line 3, column 'dog' is '1_0'"),
        ("cat,dog\n1,2\n3\n", "line 3 has 1 cells, but the header has 2"),
        ("cat,dog\n1,2\n3,4,5\n", "line 3 has 3 cells"),
        ('"a\nb",dog\n1,2\n3,x\n', "line 4, column 'dog' is 'x'"),
        ("cat,dog,label\n1,2,cow\n", "line 2, column 'label' is 'cow'; expected the name of a class column"),
        ("cat,dog,label\n1,2,cat\n1,2,\n", "line 3, column 'label' is missing"),
        ("cat,dog,label\n1,2,2\n", r"line 2, column 'label' is 2; must be in 0\.\.1\. If labels start at 1"),
        ("cat,dog,label\n1,2,-1\n", "line 2, column 'label' is -1"),
        ("cat,dog,label\n1,2,0.5\n", "line 2, column 'label' is '0.5'"),
        ("logit_0,logit_1,label\n1,2,a\n", "line 2, column 'label' is 'a'; expected a whole number"),
        ("1,2,label\n1,2,0\n", "line 2, column 'label' is '0'; expected the name"),
        ("name,cat,dog\nx,1,2\n", "line 2, column 'name' is 'x'"),
        ("cat,dog,label,labels\n1,2,0,0\n", "both look like labels"),
        ("cat,cat\n1,2\n", "two columns are called 'cat'"),
        (",cat,dog\n0,1,2\n", "column 1 has no name"),
        ("cat;dog\n1;2\n", "only one column, 'cat;dog'; columns must be separated by commas"),
        ("1.5,2\n3,4\n", "line 1 holds numbers"),
        ("\n\n", "no header"),
        (b"cat,dog\n1,\xff\n", "not UTF-8"),
        (b"c\xff,dog\n1,2\n", "not UTF-8"),
        ('cat,dog\n1,"2\n', "not a readable csv file"),
        ("cat,dog\n1," + "2" * 200_000 + "\n", "not a readable csv|is '2|[+]inf"),
    ],
)
def test_bad_csv_is_refused_with_its_line(tmp_path, csv_reader, text, said):
    refused(csv_file(tmp_path, text), said)


@pytest.mark.parametrize(
    ("text", "said"),
    [("cat,dog\n", "no rows"), ("label,cat\n0,1\n", "one column of scores, 'cat'"), ("a,b\n-inf,-inf\n", "every")],
)
def test_csv_with_too_little(tmp_path, csv_reader, text, said):
    refused(csv_file(tmp_path, text), said, InputError)


@pytest.mark.parametrize("classes", [["label", "b"], ["a", "Labels"], ["1.5", "2"]])
def test_names_csv_cannot_hold(tmp_path, classes):
    with pytest.raises(InputError, match="csv cannot hold these class names"):
        save(tmp_path / "val.csv", Logits([[1.0, 2.0]], classes=classes))
    assert names_in(tmp_path) == []


# -- parquet ------------------------------------------------------------------------------------------------------


@pytest.fixture
def parquet(tmp_path):
    """Write a parquet file from columns."""
    arrow, library = require("pyarrow", "io"), require("pyarrow.parquet", "io")

    def write(columns, **options):
        library.write_table(arrow.table(columns), tmp_path / "val.parquet", **options)
        return tmp_path / "val.parquet"

    write.arrow = arrow
    return write


def test_parquet_with_a_column_for_each_class(parquet):
    wide = {"cat": np.float32([1, 2]), "a.b": np.float32([3, 4])}
    assert load(parquet(wide)) == Logits(np.float32([[1, 3], [2, 4]]), classes=["cat", "a.b"])
    assert load(parquet({**wide, "label": ["a.b", "cat"]})).labels.tolist() == [1, 0]
    assert load(parquet({**wide, "labels": [0, 1]})).labels.tolist() == [0, 1]
    assert load(parquet({"logit_0": [1.0], "logit_1": [2.0]})) == Logits([[1.0, 2.0]])
    assert load(parquet({"1": [1.0], "2": [2.0], "label": [1]})) == Logits([[1.0, 2.0]], [0], ["1", "2"])


def test_parquet_with_lists(parquet):
    arrow = parquet.arrow
    rows = [[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]]
    for kind in (arrow.list_(arrow.float64()), arrow.large_list(arrow.float64()), arrow.list_(arrow.float64(), 2)):
        columns = {"id": ["x", "y", "z"], "logits": arrow.array(rows, kind), "label": [0, 1, 0]}
        assert load(parquet(columns, row_group_size=2)) == Logits(rows, [0, 1, 0])
    probs = arrow.array([[0.5, 0.5]], arrow.list_(arrow.float32()))
    expected = Logits.from_probabilities(np.float32([[0.5, 0.5]]))
    assert load(parquet({"probs": probs, "logits": probs}), probabilities=True) == expected


def test_frames_written_by_pandas_and_polars(tmp_path):
    pandas, polars = require("pandas", "test"), require("polars", "test")
    frame = pandas.DataFrame({"cat": [1.0, 2.0], "dog": [3.0, 4.0], "label": ["dog", "cat"]}, index=["x", "y"])
    frame.to_parquet(tmp_path / "a.parquet")
    expected = Logits([[1.0, 3.0], [2.0, 4.0]], [1, 0], ["cat", "dog"])
    assert load(tmp_path / "a.parquet") == expected
    frame.assign(label=frame["label"].astype("category")).to_parquet(tmp_path / "b.parquet")
    assert load(tmp_path / "b.parquet") == expected
    polars.DataFrame({"logits": [[1.0, 3.0], [2.0, 4.0]], "label": [1, 0]}).write_parquet(tmp_path / "c.parquet")
    assert load(tmp_path / "c.parquet") == Logits(expected.logits, [1, 0])


@pytest.mark.parametrize(
    ("columns", "said"),
    [
        ({"a": [1.0], "b": [2.0], "name": ["x"]}, "column 'name' is of type string"),
        ({"a": [1.0], "b": [2.0], "id": [7]}, "column 'id' holds whole numbers"),
        ({"a": [1.0, None], "b": [2.0, 3.0]}, "row 1 of column 'a' is missing"),
        ({"a": [1.0, 2.0], "b": [2.0, 3.0], "label": [0, None]}, "row 1 of column 'label' is missing"),
        ({"a": [1.0], "b": [2.0], "label": [0], "Labels": [0]}, "both look like labels"),
        ({"logits": [[1.0, 2.0], [3.0]]}, "row 1 of column 'logits' has 1 values, but row 0 has 2"),
        ({"logits": [[1.0, 2.0], None]}, "row 1 of column 'logits' is missing"),
        ({"logits": [[1.0, 2.0], [3.0, None]]}, "row 1 of column 'logits' has a missing value at position 1"),
        ({"logits": [["a", "b"]]}, "lists of string; expected lists of numbers"),
    ],
)
def test_bad_parquet_is_refused(parquet, columns, said):
    refused(parquet(columns), said)


# -- damaged, foreign and absent files -----------------------------------------------------------------------------


def test_files_that_are_not_there(tmp_path, suffix):
    refused(tmp_path / f"none{suffix}", "there is no such file", InputError)
    (tmp_path / f"folder{suffix}").mkdir()
    refused(tmp_path / f"folder{suffix}", "is a folder|not a Zarr folder", InputError)
    (tmp_path / f"empty{suffix}").touch()
    refused(tmp_path / f"empty{suffix}", "is empty|must be a folder")


def test_unknown_kinds_are_refused(tmp_path):
    (tmp_path / "val.xlsx").write_text("x")
    refused(tmp_path / "val.xlsx", r"unknown kind of file '\.xlsx'; known: \.npz, \.npy, \.csv, \.parquet, \.arrow")
    with pytest.raises(FileFormatError, match=r"unknown kind of file ''"):
        save(tmp_path / "val", VAL)
    for path in (3, None, b"val.npz", "a\0.npz"):
        with pytest.raises(InputError, match="path must be the name of a file"):
            load(path)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no named pipes here")
def test_pipes_are_refused(tmp_path):
    os.mkfifo(tmp_path / "val.npz")
    refused(tmp_path / "val.npz", "not a regular file", InputError)


def test_every_truncation_is_refused(tmp_path, file_suffix):
    suffix = file_suffix
    if suffix == ".csv":  # a csv file cut at a line is a csv file
        return
    whole, cut = tmp_path / f"whole{suffix}", tmp_path / f"cut{suffix}"
    save(whole, VAL)
    data = whole.read_bytes()
    for length in {1, 7, 8, 20, len(data) // 3, len(data) // 2, len(data) * 9 // 10, len(data) - 1}:
        cut.write_bytes(data[:length])
        refused(cut, ".")


@settings(max_examples=examples(80), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
@pytest.mark.filterwarnings("ignore")  # torch and zipfile may warn about what they see; what counts is how it ends
def test_damaged_bytes_give_logits_or_an_input_error(tmp_path, file_suffix, data):
    suffix = file_suffix
    if suffix in {".h5", ".hdf5"}:  # libhdf5 promises nothing about files of strangers
        return
    whole, broken = tmp_path / f"whole{suffix}", tmp_path / f"broken{suffix}"
    if not whole.exists():
        save(whole, VAL)
    content = bytearray(whole.read_bytes())
    for _ in range(data.draw(st.integers(1, 4))):
        content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    broken.write_bytes(content)
    try:
        load(broken, max_bytes=1 << 24)
    except InputError as error:
        assert str(error).startswith(str(broken))  # noqa: PT017


@pytest.mark.filterwarnings("ignore:Detected pickle protocol")
def test_a_renamed_pickle_is_never_executed(tmp_path, suffix):
    mark = tmp_path / "executed"
    (tmp_path / f"val{suffix}").write_bytes(pickled_bomb(mark))
    refused(tmp_path / f"val{suffix}", ".")
    assert not mark.exists()


@pytest.mark.filterwarnings("ignore:Detected pickle protocol")
def test_pickles_inside_are_never_executed(tmp_path):
    mark = tmp_path / "executed"
    objects = np.array([Bomb(mark)], dtype=object)
    np.savez(tmp_path / "val.npz", logits=objects)
    refused(tmp_path / "val.npz", r"logits\.npy is an object array.*pickles are never read")
    np.savez(tmp_path / "names.npz", logits=VAL.logits, classes=np.array(["a", "b", "c"], dtype=object))
    refused(tmp_path / "names.npz", r"classes\.npy is an object array.*dtype=str")
    np.save(tmp_path / "val.npy", objects, allow_pickle=True)
    refused(tmp_path / "val.npy", "is an object array")
    np.save(tmp_path / "good.npy", VAL.logits)
    np.save(tmp_path / "good_labels.npy", objects, allow_pickle=True)
    refused(tmp_path / "good.npy", "is an object array")
    torch = require("torch", "torch")
    torch.save({"logits": torch.tensor(VAL.logits), "extra": Bomb(mark)}, tmp_path / "val.pt")
    refused(tmp_path / "val.pt", r"holds '\w+\.mkdir'; only plain tensors")
    assert not mark.exists()
    torch.load(tmp_path / "val.pt", weights_only=False)  # the payload works: the test can fail
    assert mark.exists()


def test_headers_that_declare_more_than_there_is(tmp_path):
    for shape in [(10**9, 10**6), (3, 3), (10**30, 10**30)]:
        (tmp_path / "val.npy").write_bytes(npy_header(shape) + bytes(16))
        refused(tmp_path / "val.npy", "declares .* bytes of data .* but 16 follow")
        write_zip(tmp_path / "val.npz", {"logits.npy": npy_header(shape) + bytes(16)})
        refused(tmp_path / "val.npz", "declares .* bytes of data .* but 16 follow")
    (tmp_path / "val.npy").write_bytes(npy_bytes(VAL.logits) + b"more")
    refused(tmp_path / "val.npy", "declares 24 bytes of data .* but 28 follow")


@pytest.mark.parametrize(
    ("header", "said"),
    [
        (npy_header((-2, -2)), "shape"),
        (npy_header((2, 2), "<V4"), "dtype.*float32"),
        (npy_header((2, 2), "<M8[s]"), "dtype"),
        (npy_header((2, 2), "<U0"), "dtype"),
        (npy_header((2, 2), "|O"), "object array"),
        (b"\x93NUMPY\x09\x00" + bytes(20), "not a readable npy"),
        (b"\x93NUMPY\x01\x00\xff\xff{", "not a readable npy"),
        (b"\x93NUMPY\x01\x00\x10\x00" + b"__import__('os')", "not a readable npy"),
        (b"\x93NUMPY\x01\x00\x00\x20" + b"(" * 0x2000, "not a readable npy"),
        (b"\x93NUMPY\x02\x00\xff\xff\xff\x7f{", "not a readable npy"),
        (b"not an array", "not a readable npy"),
    ],
)
def test_bad_npy_headers_are_refused(tmp_path, header, said):
    (tmp_path / "val.npy").write_bytes(header + bytes(16))
    refused(tmp_path / "val.npy", said)
    write_zip(tmp_path / "val.npz", {"logits.npy": header + bytes(16)})
    refused(tmp_path / "val.npz", said)


def test_what_an_archive_declares_is_compared_with_the_limit_before_it_is_read(tmp_path, monkeypatch):
    path = tmp_path / "val.npz"
    zeros = npy_bytes(np.zeros((1000, 10_000), dtype=np.float32))
    write_zip(path, {"logits.npy": zeros})
    assert path.stat().st_size < 100_000
    monkeypatch.setattr(zipfile.ZipFile, "open", lambda *args, **kwargs: pytest.fail("it was read"))
    refused(path, "declares 40,000,128 bytes, above the limit of 1,000,000.*max_bytes", max_bytes=1_000_000)
    monkeypatch.undo()
    assert load(path).n_classes == 10_000  # honest files that compress well are read


@pytest.mark.parametrize("compression", [zipfile.ZIP_LZMA, zipfile.ZIP_BZIP2])
def test_other_compressions_are_refused(tmp_path, compression):
    write_zip(tmp_path / "val.npz", {"logits.npy": npy_bytes(VAL.logits)}, compression)
    refused(tmp_path / "val.npz", "compressed in a way NumPy does not write")


def test_files_above_the_limit_are_refused(tmp_path, suffix):
    save(tmp_path / f"val{suffix}", VAL)
    refused(tmp_path / f"val{suffix}", "above the limit of 10", max_bytes=10)


def test_archives_without_the_arrays(tmp_path):
    np.savez(tmp_path / "val.npz", scores=VAL.logits, y=VAL.labels)
    refused(tmp_path / "val.npz", "no array called 'logits'; the file holds: scores, y")
    write_zip(tmp_path / "none.npz", {})
    refused(tmp_path / "none.npz", "the file holds: nothing")


@pytest.mark.parametrize(
    "content",
    [
        struct.pack("<Q", 2**63) + b"{}",
        struct.pack("<Q", 10**6) + b"{}",
        struct.pack("<Q", 5) + b"{abc}",
        b"\x00\x01",
        safetensors_bytes({"logits": {"dtype": "F32", "shape": [10**9, 10**9], "data_offsets": [0, 16]}}),
        safetensors_bytes({"logits": {"dtype": "F32", "shape": [2, 2], "data_offsets": [0, 2**60]}}),
        safetensors_bytes(
            {
                "logits": {"dtype": "F32", "shape": [2, 2], "data_offsets": [0, 16]},
                "__metadata__": {"classes": "a, b"},
            }
        ),
    ],
    ids=["length", "long", "json", "short", "shape", "offsets", "names"],
)
def test_safetensors_that_lie_are_refused(tmp_path, content):
    require("safetensors", "io")
    (tmp_path / "val.safetensors").write_bytes(content)
    refused(tmp_path / "val.safetensors", "not a readable safetensors|not a JSON list")


def test_torch_tensors_larger_than_their_file_are_refused(tmp_path):
    torch = require("torch", "torch")
    torch.save({"logits": torch.zeros(1).expand(10**6, 10**6)}, tmp_path / "val.pt")
    assert (tmp_path / "val.pt").stat().st_size < 10_000
    refused(tmp_path / "val.pt", "declares .* above the limit")


def test_data_in_a_file_is_judged_as_any_other(tmp_path):
    np.savez(tmp_path / "val.npz", logits=[[1.0, np.nan]], labels=[0])
    refused(tmp_path / "val.npz", r"logits\[0, 1\] is NaN", InputError)
    np.savez(tmp_path / "val.npz", logits=VAL.logits, labels=[0])
    refused(tmp_path / "val.npz", r"labels must have shape \(2,\)", InputError)


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
    for act in (lambda: load(tmp_path / name), lambda: save(tmp_path / name, VAL)):
        with pytest.raises(MissingExtraError, match=rf"needs {module}.*thermoset\[{extra}\]"):
            act()
    assert (tmp_path / name).read_bytes() == b"something"
    assert names_in(tmp_path) == [name]


# -- writing whole or not at all ----------------------------------------------------------------------------------


def test_a_failed_save_leaves_things_as_they_were(tmp_path, monkeypatch, suffix):
    path = tmp_path / f"val{suffix}"
    save(path, VAL)
    before = contents(tmp_path)

    def full_disk(fd):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full_disk)
    with pytest.raises(InputError, match=r"cannot be written .*No space left"):
        save(path, Logits([[1.0, 2.0]], [0], ["a", "b"]))
    assert contents(tmp_path) == before


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="needs SIGKILL")
def test_a_killed_save_leaves_no_partial_file(tmp_path):
    path = tmp_path / "val.csv"
    code = (
        "import sys, numpy as np, thermoset as ts\n"
        "print('ready', flush=True)\n"
        "ts.save(sys.argv[1], ts.Logits(np.random.default_rng(0).normal(size=(100_000, 100))))"
    )
    with subprocess.Popen([sys.executable, "-c", code, str(path)], stdout=subprocess.PIPE) as process:
        process.stdout.readline()
        while not any(file.stat().st_size > 100_000 for file in tmp_path.glob(".val.csv.*")):
            assert process.poll() is None, "the save ended before it could be killed"
            time.sleep(0.005)
        process.kill()
    assert not path.exists()


def test_save_writes_through_a_link_and_with_ordinary_rights(tmp_path):
    (tmp_path / "real").mkdir()
    (tmp_path / "link.npz").symlink_to(tmp_path / "real" / "val.npz")
    save(tmp_path / "link.npz", VAL)
    assert (tmp_path / "link.npz").is_symlink()
    assert load(tmp_path / "real" / "val.npz") == VAL
    (tmp_path / "plain").touch()
    assert (tmp_path / "real" / "val.npz").stat().st_mode == (tmp_path / "plain").stat().st_mode


def test_bad_targets_are_refused(tmp_path):
    with pytest.raises(InputError, match=r"folder .* does not exist"):
        save(tmp_path / "none" / "val.npz", VAL)
    (tmp_path / "folder.npz").mkdir()
    with pytest.raises(InputError, match="is a folder"):
        save(tmp_path / "folder.npz", VAL)
    with pytest.raises(InputError, match="save writes Logits; got list"):
        save(tmp_path / "val.npz", [[1.0, 2.0]])
    assert names_in(tmp_path) == ["folder.npz"]
