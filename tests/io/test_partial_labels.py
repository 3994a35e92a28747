"""Labels of which some are missing, in every kind of file."""

import json

import numpy as np
import pytest

import thermoset as ts
from parts import require
from thermoset.io import read_partial_labels

ROWS = np.array([[1.5, 0.5, 0.0], [0.1, 2.5, 0.3], [0.2, 0.4, 3.0]])
WANTED = [2, -1, 0]


def npz(folder):
    np.savez(folder / "rows.npz", logits=ROWS, labels=np.array(WANTED))
    return folder / "rows.npz"


def npz_of_nan(folder):
    np.savez(folder / "rows.npz", logits=ROWS, labels=np.array([2, np.nan, 0]))
    return folder / "rows.npz"


def npz_of_names(folder):
    np.savez(folder / "rows.npz", logits=ROWS, labels=np.array(["c", "", "a"]), classes=np.array(["a", "b", "c"]))
    return folder / "rows.npz"


def npy(folder):
    np.save(folder / "val_logits.npy", ROWS)
    np.save(folder / "val_labels.npy", np.array(WANTED))
    return folder / "val_logits.npy"


def csv(folder):
    lines = ["Label,a,b,c", "c,1.5,0.5,0.0", ",0.1,2.5,0.3", "a,0.2,0.4,3.0"]
    (folder / "rows.csv").write_text("\n".join(lines) + "\n")
    return folder / "rows.csv"


def csv_of_numbers(folder):
    lines = ["label,logit_0,logit_1,logit_2", "2,1.5,0.5,0.0", ",0.1,2.5,0.3", "0,0.2,0.4,3.0"]
    (folder / "rows.csv").write_text("\n".join(lines) + "\n")
    return folder / "rows.csv"


def jsonl(folder):
    records = [{"logits": row.tolist(), "label": label} for row, label in zip(ROWS, [2, None, 0], strict=True)]
    (folder / "rows.jsonl").write_text("".join(json.dumps(record) + "\n" for record in records))
    return folder / "rows.jsonl"


def parquet(folder):
    arrow = require("pyarrow", "io")
    table = arrow.table({"logits": ROWS.tolist(), "label": arrow.array([2, None, 0])})
    require("pyarrow.parquet", "io").write_table(table, folder / "rows.parquet")
    return folder / "rows.parquet"


def parquet_of_names(folder):
    arrow = require("pyarrow", "io")
    columns = {name: ROWS[:, i] for i, name in enumerate("abc")}
    require("pyarrow.parquet", "io").write_table(
        arrow.table({"label": ["c", None, "a"], **columns}), folder / "rows.parquet"
    )
    return folder / "rows.parquet"


def feather(folder):
    arrow = require("pyarrow", "io")
    table = arrow.table({"logits": ROWS.tolist(), "label": arrow.array([2, None, 0])})
    require("pyarrow.feather", "io").write_feather(table, folder / "rows.feather")
    return folder / "rows.feather"


def safetensors(folder):
    require("safetensors.numpy", "io").save_file(
        {"logits": ROWS, "labels": np.array(WANTED)}, folder / "rows.safetensors"
    )
    return folder / "rows.safetensors"


def hdf5(folder):
    with require("h5py", "io").File(folder / "rows.h5", "w") as file:
        file["logits"], file["labels"] = ROWS, np.array(WANTED)
    return folder / "rows.h5"


def pt(folder):
    torch = require("torch", "torch")
    torch.save({"logits": torch.tensor(ROWS), "labels": torch.tensor(WANTED)}, folder / "rows.pt")
    return folder / "rows.pt"


KINDS = (
    npz, npz_of_nan, npz_of_names, npy, csv, csv_of_numbers, jsonl, parquet, parquet_of_names, feather, safetensors,
    hdf5, pt,
)  # fmt: skip


@pytest.mark.parametrize("make", KINDS, ids=lambda make: make.__name__)
def test_missing_labels_are_read_and_everybody_else_refuses_them(make, tmp_path):
    path = make(tmp_path)
    rows = ts.load(path, labels=False)
    assert rows.labels is None
    assert np.array_equal(rows.logits, ROWS)
    assert read_partial_labels(path, rows).tolist() == WANTED
    opened = ts.open(path, labels=False)
    assert opened.labels is None
    assert read_partial_labels(path, opened).tolist() == WANTED
    with pytest.raises(ts.InputError):
        ts.load(path)


@pytest.mark.parametrize("text", ["2\n\n0\n", "2\n-1\n0\n", "c\n\na\n"])
def test_labels_in_a_text_file(text, tmp_path):
    (tmp_path / "labels.txt").write_text(text)
    rows = ts.Logits(ROWS, classes=list("abc"))
    assert read_partial_labels("rows.npz", rows, tmp_path / "labels.txt").tolist() == WANTED


def test_a_file_without_labels_has_none(tmp_path):
    for name in ("rows.npz", "rows.csv", "rows.parquet", "rows.npy"):
        ts.save(tmp_path / name, ts.Logits(ROWS))
        assert read_partial_labels(tmp_path / name, ts.load(tmp_path / name, labels=False)) is None


def test_files_of_which_some_have_labels_are_refused(tmp_path):
    ts.save(tmp_path / "a.npz", ts.Logits(ROWS, [0, 1, 2]))
    ts.save(tmp_path / "b.npz", ts.Logits(ROWS + 1))
    rows = ts.open(tmp_path, labels=False)
    with pytest.raises(ts.InputError, match=r"b\.npz: has no labels, but other files do"):
        read_partial_labels(tmp_path, rows)
    ts.save(tmp_path / "b.npz", ts.Logits(ROWS + 1, [2, 2, 2]))
    rows = ts.open(tmp_path, labels=False)
    assert read_partial_labels(tmp_path, rows).tolist() == [0, 1, 2, 2, 2, 2]


@pytest.mark.parametrize(("label", "said"), [(3, r"labels\[1\] is 3; must be in 0\.\.2"), (-2, "is -2")])
def test_labels_of_another_model_are_refused_by_row(label, said, tmp_path):
    np.savez(tmp_path / "rows.npz", logits=ROWS, labels=np.array([-1, label, 0]))
    with pytest.raises(ts.InputError, match=said):
        read_partial_labels(tmp_path / "rows.npz", ts.Logits(ROWS))


def test_groups_beside_the_labels_are_no_class(tmp_path):
    arrow = require("pyarrow", "io")
    columns = {name: ROWS[:, i] for i, name in enumerate("abc")}
    table = arrow.table({"label": ["c", None, "a"], "site": ["x", "y", "x"], **columns})
    require("pyarrow.parquet", "io").write_table(table, tmp_path / "rows.parquet")
    rows = ts.load(tmp_path / "rows.parquet", labels=False, groups="site")
    assert read_partial_labels(tmp_path / "rows.parquet", rows, groups="site").tolist() == WANTED
