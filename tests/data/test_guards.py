"""Mistakes of new users that rows and labels show: each as somebody would meet it."""

import warnings

import numpy as np
import pytest

import thermoset as ts
from law import generated
from thermoset.rows import memory_budget

LOGITS, LABELS = generated(4000, 10)


def said(fit):
    """The messages of suspicious rows."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        fit()
    return [str(one.message) for one in caught if one.category is ts.SuspiciousRowsWarning]


def working(n_rows=2000, n_classes=10, seed=0):
    """Rows of a classifier that is right in about nine of ten rows."""
    draw = np.random.default_rng(seed)
    labels = draw.integers(0, n_classes, n_rows)
    return draw.normal(size=(n_rows, n_classes)) + 4 * np.eye(n_classes)[labels], labels


def test_class_names_in_another_order_than_columns():
    logits, labels = working()
    names = [f"class {i}" for i in range(10)]
    wrong = names[3:] + names[:3]
    text = [names[label] for label in labels]
    assert not said(lambda: ts.TemperatureScaler().fit(ts.Logits(logits, text, names)))
    (message,) = said(lambda: ts.TemperatureScaler().fit(ts.Logits(logits, text, wrong)))
    assert "order" in message


def test_labels_that_start_at_one_without_the_top_class():
    logits, labels = working()
    few = labels < 9
    (message,) = said(lambda: ts.TemperatureScaler().fit(logits[few], labels[few] + 1))
    assert "start at 1" in message


def test_rows_of_which_none_is_wrong():
    logits, labels = working()
    logits = logits + 20 * np.eye(10)[labels]
    (message,) = said(lambda: ts.TemperatureScaler().fit(logits, labels))
    assert "training rows" in message


def test_labels_by_chance_are_not_called_another_order():
    draw = np.random.default_rng(1)
    for n_classes in (2, 10, 300):
        logits, labels = draw.normal(size=(600, n_classes)), draw.integers(0, n_classes, 600)
        assert not said(lambda logits=logits, labels=labels: ts.TemperatureScaler().fit(logits, labels))


def test_one_array_is_of_one_kind():
    probs = np.exp(LOGITS) / np.exp(LOGITS).sum(axis=1, keepdims=True)
    rounded = probs.round(2)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        made = ts.TwoTemperaturePredictor("lac", temperature_sets=1.0).fit(rounded, LABELS)
    assert made.n_features_in_ == 10


@pytest.mark.parametrize("suffix", [".parquet", ".npz"])
def test_rows_that_fit_the_budget_are_read_into_memory(tmp_path, suffix):
    ts.save(tmp_path / f"val{suffix}", ts.Logits(LOGITS, LABELS))
    rows = ts.open(tmp_path / f"val{suffix}")
    assert type(rows.within_budget()) is ts.Logits
    assert rows.within_budget() == ts.load(tmp_path / f"val{suffix}")
    with memory_budget("1MiB"):
        assert rows.within_budget() is rows
    whole = ts.TwoTemperaturePredictor("lac", temperature_sets=1.0).fit(LOGITS, LABELS)
    for memory in (None, "1MiB"):
        made = ts.TwoTemperaturePredictor("lac", temperature_sets=1.0).fit(rows, memory=memory)
        assert made.threshold_ == whole.threshold_


def test_named_columns_in_another_order_are_put_in_order():
    logits, labels = working(600)
    names = [f"class {i}" for i in range(10)]
    made = ts.ConformalClassifier("lac").fit(ts.Logits(logits, labels, names))
    turned = ts.Logits(logits[:, ::-1].copy(), classes=names[::-1])
    assert np.array_equal(made.predict_set(turned), made.predict_set(logits))
    with pytest.raises(ts.InputError):
        made.predict_set(ts.Logits(logits, classes=[*names[:-1], "other"]))


def test_a_transposed_array_is_recognised():
    logits, labels = working(600)
    with pytest.raises(ts.InputError, match="transposed"):
        ts.Logits(logits.T, labels)


@pytest.mark.parametrize("name", ["LAC", "THR", "thr"])
def test_names_of_other_libraries_are_understood(name):
    logits, labels = working(600)
    found = ts.ConformalClassifier(name).fit(logits, labels)
    assert found.threshold_ == ts.ConformalClassifier("lac").fit(logits, labels).threshold_


@pytest.mark.parametrize("text", ["outcome,cat,dog\ncat,1.5,0.5\ndog,0.5,2.5\n"])
def test_a_column_of_text_may_be_the_labels(tmp_path, text):
    (tmp_path / "val.csv").write_text(text)
    with pytest.raises(ts.InputError, match="--labels outcome or --ignore outcome"):
        ts.load(tmp_path / "val.csv")
    assert ts.load(tmp_path / "val.csv", labels="outcome").labels.tolist() == [0, 1]


def test_a_table_without_a_header_line(tmp_path):
    (tmp_path / "val.csv").write_text("1.5,0.5\n0.5,2.5\n")
    with pytest.raises(ts.InputError, match="line 1 holds numbers"):
        ts.load(tmp_path / "val.csv")
