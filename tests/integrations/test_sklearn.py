"""`SetClassifier` is the predictor on the scores of a classifier, with the classifier's own labels."""

import numpy as np
import pytest
from scipy.special import expit
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import KFold, cross_val_predict
from sklearn.naive_bayes import GaussianNB

import thermoset as ts
from set_classifiers import FIT, LINEAR, NAMES, NEW, TRAIN, Duck, X, Y, quick, rows_of_three
from thermoset import InputError
from thermoset.data import split_indices
from thermoset.integrations.sklearn import SetClassifier

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("given", [{}, {"method": "lac", "grouping": "class", "random_state": 3}], ids=str)
def test_prefit_is_the_predictor_on_the_decision_function_bit_for_bit(given):
    model = SetClassifier(LINEAR, **given).fit(X[FIT], Y[FIT])
    rows = ts.Logits(LINEAR.decision_function(X[FIT]), Y[FIT], classes=["0", "1", "2", "3"])
    by_hand = ts.TwoTemperaturePredictor(**given).fit(rows)
    assert model.predictor_.document_ == by_hand.document_
    new = LINEAR.decision_function(X[NEW])
    np.testing.assert_array_equal(model.predict_set(X[NEW]), by_hand.predict_set(new))
    np.testing.assert_array_equal(model.predict_proba(X[NEW]), by_hand.predict_proba(new))
    np.testing.assert_array_equal(model.set_sizes(X[NEW]), by_hand.set_sizes(new))
    assert model.response_ == "decision_function"


def test_folds_are_the_predictor_on_out_of_fold_scores_and_held_out_rows():
    cv = KFold(3, shuffle=True, random_state=7)
    model = SetClassifier(LogisticRegression(), cv=cv, held_out=0.3, random_state=5).fit(X[FIT], Y[FIT])
    held, rest = split_indices(300, 0.3, random_state=5)
    known, labels = X[FIT][rest], Y[FIT][rest]
    out_of_fold = cross_val_predict(LogisticRegression(), known, labels, cv=cv, method="decision_function")
    final = LogisticRegression().fit(known, labels)
    names = ["0", "1", "2", "3"]
    by_hand = ts.TwoTemperaturePredictor(random_state=5).fit_split(
        ts.Logits(out_of_fold, labels, names), ts.Logits(final.decision_function(X[FIT][held]), Y[FIT][held], names)
    )
    assert model.predictor_.document_ == by_hand.document_
    np.testing.assert_array_equal(model.estimator_.coef_, final.coef_)


def test_a_saved_predictor_gives_the_same_sets(tmp_path):
    model = quick(LINEAR).fit(X[FIT], Y[FIT])
    model.predictor_.save(tmp_path / "predictor.json")
    again = ts.TwoTemperaturePredictor.load(tmp_path / "predictor.json")
    np.testing.assert_array_equal(again.predict_set(LINEAR.decision_function(X[NEW])), model.predict_set(X[NEW]))


def test_check_is_that_of_the_predictor():
    model = quick(LINEAR).fit(X[FIT], Y[FIT])
    report = model.check(X[NEW], Y[NEW])
    assert report.to_json_dict() == model.predictor_.check(model.logits(X[NEW], Y[NEW])).to_json_dict()
    assert report.rows == 300


def test_the_same_seed_gives_the_same_answer():
    first, again = (SetClassifier(GaussianNB(), cv=3).fit(X[FIT], Y[FIT]) for _ in range(2))
    assert first.predictor_.document_ == again.predictor_.document_
    other = SetClassifier(GaussianNB(), cv=3, random_state=1).fit(X[FIT], Y[FIT])
    assert other.predictor_.document_ != first.predictor_.document_


OTHER = [np.array([-3, 7, 8, 1000]), np.array(["b a", "é", "日本", "日本!"]), np.array([0.0, 1.0, 2.0, 9.0])]


@pytest.mark.parametrize("labels", [NAMES, *OTHER], ids=str)
def test_labels_are_those_of_the_estimator(labels):
    named = LogisticRegression().fit(X[TRAIN], labels[Y[TRAIN]])
    model, plain = quick(named).fit(X[FIT], labels[Y[FIT]]), quick(LINEAR).fit(X[FIT], Y[FIT])
    assert model.classes_.tolist() == labels.tolist()
    assert model.classes_.dtype == labels.dtype
    np.testing.assert_array_equal(model.predict(X[NEW]), labels[plain.predict(X[NEW])])
    sets = plain.predict_set(X[NEW])
    np.testing.assert_array_equal(model.predict_set(X[NEW]), sets)
    found = model.predict_set_labels(X[NEW])
    assert [some.tolist() for some in found] == [labels[row].tolist() for row in sets]
    records, confidence = model.predict_records(X[NEW]), plain.predict_proba(X[NEW]).max(axis=1)
    assert [one.label for one in records] == labels[plain.predict(X[NEW])].tolist()
    assert [one.set for one in records] == [tuple(some.tolist()) for some in found]
    np.testing.assert_allclose([one.confidence for one in records], confidence, rtol=1e-14)
    assert model.predictor_.document_.classes == tuple(str(label) for label in labels.tolist())
    assert model.score(X[NEW], labels[Y[NEW]]) == plain.score(X[NEW], Y[NEW])


@pytest.mark.parametrize("labels", [[False, True], ["no", "yes"], [-1, 1]], ids=str)
def test_one_column_for_two_classes_is_a_logit(labels):
    labels = np.array(labels)
    y = labels[(Y >= 2).astype(int)]
    binary = LogisticRegression().fit(X[TRAIN], y[TRAIN])
    model = quick(binary).fit(X[FIT], y[FIT])
    z = binary.decision_function(X[NEW])
    np.testing.assert_allclose(model.predict_proba(X[NEW])[:, 1], expit(z / model.temperature_), rtol=1e-12)
    np.testing.assert_array_equal(model.predict(X[NEW]), binary.predict(X[NEW]))
    assert model.predict(X[NEW]).dtype == labels.dtype
    assert {str(labels[0]), str(labels[1])} == set(model.predictor_.document_.classes)


@pytest.mark.parametrize("shape", [(-1,), (-1, 1)])
def test_one_column_of_probabilities_is_that_of_the_second_class(shape):
    rng = np.random.default_rng(0)
    p = rng.random(100)
    y = np.where(rng.random(100) < p, "yes", "no")
    duck = Duck(predict_proba=lambda rows: rows[:, 0].reshape(shape))
    duck.classes_ = np.array(["no", "yes"])
    model = quick(duck).fit(p[:, None], y)
    np.testing.assert_allclose(model.logits(p[:, None]).logits, np.log(np.column_stack([1 - p, p])))


def test_classes_in_any_order():
    rows, y = rows_of_three()
    duck = Duck(decision_function=lambda rows: rows)
    model = quick(duck).fit(rows, y)
    assert model.classes_.tolist() == ["zebra", "ant", "moth"]
    np.testing.assert_array_equal(model.predict(rows), Duck.classes_[rows.argmax(axis=1)])
    assert clone(model).estimator is duck
    assert not hasattr(model, "n_features_in_")


def test_labels_that_the_estimator_does_not_know():
    with pytest.raises(InputError, match=r"y\[2\] is 'eel', which is not one of the 4 classes .*; 1 such row"):
        quick(LogisticRegression().fit(X[TRAIN], NAMES[Y[TRAIN]])).fit(X[:3], ["ant", "bee", "eel"])
    with pytest.raises(InputError, match=r"y\[0\] is 9, which is not one of the 4 classes .* \(0, 1, 2, 3\)"):
        quick(LINEAR).fit(X[FIT], Y[FIT]).check(X[:2], [9, 9])
    with pytest.raises(InputError, match="one label per row, 300 in all; got 299"):
        quick(LINEAR).fit(X[FIT], Y[FIT][1:])


def test_a_class_without_rows_in_fit_is_no_obstacle():
    some = Y[FIT] != 2
    model = quick(LINEAR).fit(X[FIT][some], Y[FIT][some])
    assert model.predict_set(X[NEW]).shape == (300, 4)
    assert model.predict_set(X[NEW])[:, 2].any()


def test_a_class_that_is_held_out_as_a_whole():
    y = NAMES[Y[FIT]].astype(object)
    held, _ = split_indices(300, 0.2, random_state=0)
    y[held[0]] = "rare"
    with pytest.raises(InputError, match=rf"y\[{held[0]}\] is 'rare', .* held out, and no other row has their class"):
        quick(GaussianNB(), cv=3).fit(X[FIT], y)


def test_a_class_that_a_fold_has_not_seen():
    y = NAMES[Y[FIT]].astype(object)
    _, rest = split_indices(300, 0.2, random_state=0)
    y[rest[0]] = "rare"
    model = quick(LogisticRegression(), cv=KFold(3)).fit(X[FIT], y)
    assert model.classes_.tolist() == [*NAMES, "rare"]
    assert model.zero_labels_ == 1


def test_the_promise_names_the_rows_behind_it():
    model = SetClassifier(LINEAR, "aps", prefer="small").fit(X[FIT], Y[FIT])
    assert "with probability 0.900662 = 136/151, from 150 rows" in model.promise_  # k = ceil(151 * 0.9)
    model.predictor_.recalibrate(model.logits(X[NEW], Y[NEW]))
    assert "= 271/301, from 300 rows" in model.promise_


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"randomized": False}, "with probability at least 0.9."),
        ({"allow_empty": False}, "with probability at least 0.9."),
        ({"grouping": "class"}, "rows of each class like those of fit"),
    ],
    ids=str,
)
def test_promises_that_are_weaker(given, said):
    assert said in SetClassifier(LINEAR, "aps", prefer="small", **given).fit(X[FIT], Y[FIT]).promise_
