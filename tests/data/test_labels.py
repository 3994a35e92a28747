"""Labels where classes are called by whole numbers, and rows of binary models: never a guess."""

import numpy as np
import pytest

import thermoset as ts
from helpers_io import write_columns
from parts import require
from thermoset.data.labels import column_indices, partial_indices

ROWS = np.arange(12.0).reshape(4, 3)


def test_whole_numbers_as_names_make_whole_numbers_names():
    for classes in ([10, 20, 30], np.array([10, 20, 30]), (number for number in (10, 20, 30))):
        found = ts.Logits(ROWS, [10, 30, 20, 10], classes)
        assert found.labels.tolist() == [0, 2, 1, 0]
        assert found.classes == ("10", "20", "30"), "kept as text"
    for labels in ([1, 2, 1, 2], np.array([1.0, 2.0, 1.0, 2.0]), ["1", "2", "1", "2"]):
        assert ts.Logits(ROWS, labels, [1, 2, 3]).labels.tolist() == [0, 1, 0, 1]
    assert ts.Logits(ROWS, [0, 1, 2, 0], [2, 0, 1]).labels.tolist() == [1, 2, 0, 1], "names, in another order"


@pytest.mark.parametrize("labels", [[0, 1, 2, 0], [10, 20, 40, 10], [10.0, np.inf, 20.0, 30.0]])
def test_labels_that_are_no_names_are_refused_where_names_are_whole_numbers(labels):
    with pytest.raises(ts.InputError, match=r"not one of the 3 classes \(10, 20, 30\)\. Classes were given as whole"):
        ts.Logits(ROWS, labels, [10, 20, 30])
    with pytest.raises(ts.InputError, match=r"labels\[1\] is 1.5; labels must be whole"):
        ts.Logits(ROWS, [10, 1.5, 20, 30], [10, 20, 30])


def test_mixed_names_are_refused():
    for classes in ([1, "2", 3], [1.0, 2.0, 3.0], [True, False, 2]):
        with pytest.raises(ts.InputError, match="class names must be all strings, or all whole numbers"):
            ts.Logits(ROWS, classes=classes)


def test_text_of_whole_numbers_is_read_in_the_one_way_that_is_possible():
    assert ts.Logits(ROWS, [10, 30, 20, 10], ["10", "20", "30"]).labels.tolist() == [0, 2, 1, 0], "no such columns"
    assert ts.Logits(ROWS, [0, 2, 1, 0], ["10", "20", "30"]).labels.tolist() == [0, 2, 1, 0], "no such names"
    assert ts.Logits(ROWS, [0, 1, 2, 0], ["0", "1", "2"]).labels.tolist() == [0, 1, 2, 0], "both ways agree"
    assert ts.Logits(ROWS, [1, 0, 1, 0], ["0", "1", "3"]).labels.tolist() == [1, 0, 1, 0], "both ways agree here"
    assert ts.Logits(ROWS, ["1", "2", "1", "3"], ["1", "2", "3"]).labels.tolist() == [0, 1, 0, 2]
    assert ts.Logits(ROWS, [1, 2, 1, 2], ["1", "2", "c"]).labels.tolist() == [1, 2, 1, 2], "one is no number"


def test_what_can_be_read_in_two_ways_is_refused_in_one_line():
    with pytest.raises(
        ts.InputError, match=r"labels\[0\] is 1: the class called '1', or column 1, which is called '2'"
    ):
        ts.Logits(ROWS, [1, 2, 1, 2], ["1", "2", "3"])
    with pytest.raises(
        ts.InputError, match=r"labels\[2\] is 2: the class called '2', or column 2, which is called '3'"
    ):
        ts.Logits(np.zeros((4, 4)), [0, 1, 2, 0], ["0", "1", "3", "2"])


def test_labels_out_of_range_may_be_names():
    with pytest.raises(ts.InputError, match=r"labels\[0\] is 10; .* pass classes=\[\.\.\.\] if labels are class names"):
        ts.Logits(ROWS, [10, 20, 30, 10])


def test_a_frame_with_whole_numbers_for_columns_is_not_guessed_at():
    pandas = require("pandas", "io")
    frame = pandas.DataFrame(ROWS, columns=[1, 2, 3])
    with pytest.raises(
        ts.InputError, match=r"columns are the whole numbers \[1, 2, 3\].*classes=list\(frame.columns\)"
    ):
        ts.Logits(frame, [1, 2, 1, 2])
    assert ts.Logits(frame, [1, 2, 1, 2], classes=list(frame.columns)).labels.tolist() == [0, 1, 0, 1]
    assert ts.Logits(frame.to_numpy(), [1, 2, 1, 2]).labels.tolist() == [1, 2, 1, 2]
    assert ts.Logits(frame).classes is None
    assert ts.Logits(pandas.DataFrame(ROWS), [1, 2, 1, 2]).labels.tolist() == [1, 2, 1, 2], "columns that only count"
    with pytest.raises(ts.InputError, match=r"different orders. Reorder: frame\[\[3, 2, 1\]\]"):
        ts.Logits(frame, classes=[3, 2, 1])


def test_files_and_training_loops_number_columns_whatever_classes_are_called(tmp_path):
    names = ("2", "0", "1")  # as ImageFolder sorts folders that are called by numbers
    assert column_indices([0, 1, 2, 0], (4, 3), names).tolist() == [0, 1, 2, 0]
    assert column_indices(["0", "1", "2", "0"], (4, 3), names).tolist() == [1, 2, 0, 1]
    rows = ts.Logits(ROWS, ["0", "1", "2", "0"], names)
    ts.save(tmp_path / "rows.npz", rows)
    assert ts.load(tmp_path / "rows.npz") == rows
    np.save(tmp_path / "y.npy", rows.labels)
    ts.save(tmp_path / "bare.npz", ts.Logits(ROWS, classes=names))
    assert ts.load(tmp_path / "bare.npz", labels=tmp_path / "y.npy") == rows
    np.savez(tmp_path / "numbers.npz", logits=ROWS, classes=[10, 20, 30])
    with pytest.raises(ts.InputError, match=r"got int64, shape \(3,\)\. Save classes\.astype\(str\)"):
        ts.load(tmp_path / "numbers.npz")


def test_in_a_table_a_number_is_the_name_of_a_column_that_is_called_so(tmp_path):
    columns = {"1": ROWS[:, 0] + 0.5, "2": ROWS[:, 1], "3": ROWS[:, 2], "label": [1, 2, 3, 1]}
    for suffix in (".csv", ".parquet"):
        assert ts.load(write_columns(tmp_path / f"val{suffix}", columns)).labels.tolist() == [0, 1, 2, 0]


def test_partial_labels_may_be_whole_numbers_that_are_names():
    assert partial_indices([20, -1, 10], (3, 3), ("10", "20", "30")).tolist() == [1, -1, 0]
    assert partial_indices([1, np.nan, 2], (3, 3), ("1", "2", "3"), column_indices).tolist() == [1, -1, 2]


def test_joined_and_loaded_rows_keep_labels_of_classes_called_by_numbers():
    rows = ts.Logits(ROWS, ["1", "2", "1", "2"], ["1", "2", "3"])
    assert rows.concatenate(rows).labels.tolist() == [0, 1, 0, 1] * 2


# --- binary models ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("shape", [(-1,), (-1, 1)])
def test_scores_of_a_binary_model_become_two_columns(shape):
    z = np.array([1.5, -0.5, 0.0], dtype=np.float32)
    found = ts.Logits.from_binary(z.reshape(shape), ["yes", "no", "no"], ["no", "yes"])
    assert found.dtype == np.float32
    assert found.logits.tolist() == [[0.0, 1.5], [0.0, -0.5], [0.0, 0.0]]
    assert found.labels.tolist() == [1, 0, 0]
    sigmoid = 1 / (1 + np.exp(-z.astype(np.float64)))
    np.testing.assert_allclose(ts.calibration.probabilities(found)[:, 1], sigmoid, rtol=1e-12)


def test_scores_of_a_binary_model_are_never_guessed_at():
    z, y = np.array([1.5, -0.5, 0.0]), [1, 0, 1]
    for logits in (z, z[:, None]):
        with pytest.raises(ts.InputError, match=r"use Logits\.from_binary\(scores\)"):
            ts.Logits(logits, y)
        with pytest.raises(ts.InputError, match=r"pass np\.column_stack\(\[1 - p, p\]\)"):
            ts.Logits.from_probabilities(logits, y)
    with pytest.raises(ts.InputError, match=r"two columns already, one for each class: use Logits\(scores\)"):
        ts.Logits.from_binary(np.zeros((3, 2)))
    with pytest.raises(ts.InputError, match=r"one number for each row, shape \(n,\) or \(n, 1\); got \(3, 4\)"):
        ts.Logits.from_binary(np.zeros((3, 4)))
    with pytest.raises(ts.InputError, match=r"\[1, 1\] is NaN"):
        ts.Logits.from_binary([0.0, np.nan])


def test_a_predictor_of_two_classes_says_how_to_pass_scores():
    rng = np.random.default_rng(0)
    labels = rng.integers(0, 2, size=200)
    z = rng.normal(size=200) + 2 * labels
    predictor = ts.ConformalClassifier("lac").fit(ts.Logits.from_binary(z, labels))
    assert predictor.predict_set(ts.Logits.from_binary(z)).shape == (200, 2)
    for scores in (z, z[:, None]):
        with pytest.raises(ts.InputError, match=r"Logits\.from_binary\(scores\)"):
            predictor.predict_set(scores)


def test_a_csv_file_of_scores_says_what_to_add(tmp_path):
    path = tmp_path / "scores.csv"
    path.write_text("score,label\n1.5,1\n-0.5,0\n")
    with pytest.raises(ts.InputError, match=r"one column of scores, 'score'.*add a column of zeros before it"):
        ts.load(path)
    path.write_text("no,score,label\n0,1.5,1\n0,-0.5,0\n")
    assert ts.load(path).logits.tolist() == [[0.0, 1.5], [0.0, -0.5]]
