"""Labels of which some are missing, in every kind of file."""

import numpy as np
import pytest

import thermoset as ts
from helpers_io import write_columns
from thermoset.io import read_partial_labels

ROWS = np.array([[1.5, 0.5, 0.0], [0.1, 2.5, 0.3], [0.2, 0.4, 3.0]])
WANTED = [2, -1, 0]


MISSING, TEXTS = [2.0, np.nan, 0.0], ["c", "", "a"]
BY_NAME = {name: ROWS[:, i] for i, name in enumerate("abc")}
BY_NUMBER = {f"logit_{i}": ROWS[:, i] for i in range(3)}
KINDS = [
    *((suffix, {"logits": ROWS, "labels": WANTED}) for suffix in (".npz", ".npy", ".safetensors", ".h5", ".pt")),
    (".npz", {"logits": ROWS, "labels": MISSING}),
    (".npz", {"logits": ROWS, "labels": TEXTS, "classes": ["a", "b", "c"]}),
    (".csv", {"Label": TEXTS, **BY_NAME}),
    (".csv", {"label": ["2", "", "0"], **BY_NUMBER}),
    (".jsonl", {"logits": ROWS, "label": np.array([2, None, 0])}),
    *((suffix, {"logits": ROWS, "label": np.array([2, None, 0])}) for suffix in (".parquet", ".feather")),
    (".parquet", {"label": np.array(["c", None, "a"]), **BY_NAME}),
]


@pytest.mark.parametrize(("suffix", "columns"), KINDS)
def test_missing_labels_are_read_and_everybody_else_refuses_them(suffix, columns, tmp_path):
    path = write_columns(tmp_path / f"val{suffix}", columns)
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
    columns = {"label": np.array(["c", None, "a"]), "site": ["x", "y", "x"], **BY_NAME}
    write_columns(tmp_path / "rows.parquet", columns)
    rows = ts.load(tmp_path / "rows.parquet", labels=False, groups="site")
    assert read_partial_labels(tmp_path / "rows.parquet", rows, groups="site").tolist() == WANTED
