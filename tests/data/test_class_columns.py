"""Which columns of a table are doubted, and which are not: neither ids become classes nor are classes refused."""

import numpy as np
import pytest

import thermoset as ts
from parts import require
from thermoset.data.guards import check_class_columns
from thermoset.errors import InputError

RNG = np.random.default_rng(0)
LOGITS = RNG.normal(size=(40, 3))
IDS, LABELS = np.arange(40.0), RNG.integers(0, 3, size=40).astype(float)


def with_column(values, at=0):
    return np.insert(LOGITS, at, values, axis=1)


NAMED = {
    "id": "--id-column id or --ignore id",
    "row_id": "--id-column row_id or",
    "imageId": "--id-column imageId or",
    "Index": "--id-column Index or",
    "Unnamed: 0": "--id-column 'Unnamed: 0' or --ignore 'Unnamed: 0' if",
    "y": "--labels y or --ignore y",
    "True Label": "--labels 'True Label' or",
    "target": "--labels target or",
    "prediction": "Add --ignore prediction if",
    "fold": "--groups fold or --ignore fold",
    "a, id": "--id-column 'a, id' or --ignore '\"a, id\"' if",
}


@pytest.mark.parametrize("name", NAMED)
@pytest.mark.parametrize("n_rows", [1, 40])
def test_whole_numbers_under_a_telling_name_are_refused(name, n_rows):
    rows = with_column(IDS + 1)[:n_rows]
    with pytest.raises(InputError) as caught:
        check_class_columns([name, "cat", "dog", "eel"], rows)
    assert f"column '{name}' looks like" in str(caught.value)
    assert NAMED[name] in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("name", NAMED)
def test_a_class_may_have_any_of_these_names(name):
    check_class_columns([name, "cat", "dog", "eel"], with_column(RNG.normal(size=40)))
    check_class_columns([name, "cat", "dog", "eel"], with_column(IDS), known=[name])


@pytest.mark.parametrize("name", ["weight", "sample_weight", "timestamp", "confidence"])
def test_numbers_about_rows_are_refused_whatever_they_are(name):
    with pytest.raises(InputError, match=f"column '{name}' looks like metadata of the rows"):
        check_class_columns(["cat", name], LOGITS[:, :2])


@pytest.mark.parametrize("values", [IDS, IDS[::-1] + 1000, LABELS, np.full(40, 2026.0)], ids=str)
@pytest.mark.parametrize("at", [0, 3])
def test_whole_numbers_among_fractions_are_refused_under_any_name(values, at):
    names = ["cat", "dog", "eel"]
    names.insert(at, "customer")
    with pytest.raises(InputError, match="column 'customer' holds whole numbers, and the others have fractions"):
        check_class_columns(names, with_column(values, at))
    check_class_columns(names, with_column(values, at), known=["customer"])


@pytest.mark.parametrize(
    "values",
    [np.zeros(40), np.full(40, -10_000.0), np.full(40, -np.inf), np.where(IDS < 39, -np.inf, 2.0)],
    ids=["reference", "mask", "masked", "nearly masked"],
)
def test_columns_that_models_write_are_not_doubted(values):
    check_class_columns(["a", "cat", "dog", "eel"], with_column(values))


def test_a_few_rows_are_no_evidence():
    # Of logits with one decimal a tenth are whole: three in a row happen once in a thousand columns.
    check_class_columns(["a", "b"], np.array([[1.0, 0.5], [2.0, 1.3], [3.0, 0.2]]))
    rounded = np.round(np.random.default_rng(1).normal(size=(3, 5000)), 1)
    assert (rounded == np.floor(rounded)).all(axis=0).any()
    check_class_columns([f"c{i}" for i in range(5000)], rounded)


def test_logits_without_fractions_are_not_doubted():
    whole = RNG.integers(-20, 20, size=(200, 4)).astype(float)
    check_class_columns(["a", "b", "c", "d"], whole)
    check_class_columns(["x", "y", "z", "w"], whole)
    with pytest.raises(InputError, match="column 'id' looks like ids"):
        check_class_columns(["id", "b", "c", "d"], whole)


def test_probabilities_of_0_and_1_are_not_doubted():
    sure = np.zeros((40, 3))
    sure[:, 0] = LABELS == 0
    rest = RNG.uniform(size=40)
    sure[:, 1], sure[:, 2] = (1 - sure[:, 0]) * rest, (1 - sure[:, 0]) * (1 - rest)
    check_class_columns(["y", "cat", "dog"], sure)


def test_columns_beside_numbered_ones_are_no_classes():
    names = ["logit_0", "age", "logit_1", "logit_2"]
    with pytest.raises(InputError, match="column 'age' is next to logit_0 to logit_2, which look like all classes"):
        check_class_columns(names, with_column(RNG.normal(size=40)))


def test_frames():
    pandas = require("pandas", "io")
    frame = pandas.DataFrame(LOGITS, columns=["cat", "dog", "eel"])
    assert ts.Logits(frame).n_classes == 3
    wider = frame.assign(customer=np.arange(40))
    with pytest.raises(InputError, match="column 'customer' holds whole numbers"):
        ts.Logits(wider)
    assert ts.Logits(wider, classes=list(wider.columns)).n_classes == 4


def test_a_predictor_names_the_column_that_is_none_of_its_classes():
    model = ts.TemperatureScaler().fit(ts.Logits(LOGITS, LABELS.astype(int), ["cat", "dog", "eel"]))
    wider = ts.Logits(with_column(RNG.normal(size=40)), classes=["age", "cat", "dog", "eel"])
    with pytest.raises(InputError, match=r"expecting 3 features as input: column 'age' is none of the classes"):
        model.predict_proba(wider)
