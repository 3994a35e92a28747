"""Which scores of a classifier are read, and what becomes of probabilities of zero."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import softmax
from sklearn.ensemble import RandomForestClassifier, VotingClassifier
from sklearn.exceptions import NotFittedError
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import RidgeClassifier
from sklearn.model_selection import GridSearchCV
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC
from sklearn.tree import DecisionTreeClassifier

from set_classifiers import FIT, LINEAR, NAMES, NEW, TRAIN, Duck, X, Y, quick, rows_of_three
from thermoset import InputError, ZeroProbabilityWarning
from thermoset.integrations.sklearn.responses import Reader, respond

pytestmark = pytest.mark.slow


def test_scores_of_pairs_are_not_scores_of_classes():
    """One-versus-one with three classes has three columns, and they are not those of the classes."""
    three = Y < 3
    machine = SVC(decision_function_shape="ovo").fit(X[three][:200], Y[three][:200])
    assert machine.decision_function(X).shape == (900, 3)
    found = [machine, make_pipeline(StandardScaler(), machine), FrozenEstimator(machine)]
    found[1].fit(X[three][:200], Y[three][:200])
    for estimator in found:
        with pytest.raises(InputError, match="must have decision_function, predict_log_proba or predict_proba"):
            respond(estimator, X, "auto")
    search = GridSearchCV(SVC(decision_function_shape="ovo"), {"C": [1.0]}, cv=2).fit(X[three][:200], Y[three][:200])
    with pytest.raises(InputError, match="GridSearchCV must have decision_function with one column per class"):
        respond(search, X, "decision_function")
    assert respond(SVC().fit(X[TRAIN], Y[TRAIN]), X, "auto").values.shape == (900, 4)


def test_columns_that_are_not_classes_are_passed_over():
    rows, y = rows_of_three()
    duck = Duck(decision_function=lambda rows: rows[:, :2], predict_proba=lambda rows: softmax(rows, axis=1))
    model = quick(duck).fit(rows, y)
    assert model.response_ == "predict_proba"
    np.testing.assert_allclose(model.logits(rows).logits, np.log(softmax(rows, axis=1)))
    with pytest.raises(InputError, match=r"must have decision_function .* gave shape \(120, 2\) for 3 classes"):
        quick(duck, response="decision_function").fit(rows, y)


def test_the_order_of_methods_and_one_by_name():
    bayes = GaussianNB().fit(X[TRAIN], Y[TRAIN])
    assert respond(bayes, X, "auto").name == "predict_log_proba"
    np.testing.assert_array_equal(respond(bayes, X, "auto").values, bayes.predict_log_proba(X))
    by_name = quick(LINEAR, response="predict_proba").fit(X[FIT], Y[FIT])
    np.testing.assert_array_equal(by_name.logits(X[NEW]).logits, np.log(LINEAR.predict_proba(X[NEW])))
    with pytest.raises(InputError, match="RidgeClassifier must have predict_proba"):
        quick(RidgeClassifier().fit(X[TRAIN], Y[TRAIN]), response="predict_proba").fit(X[FIT], Y[FIT])
    with pytest.raises(InputError, match=r"response must be 'auto', 'decision_function', .*; got 'predict'"):
        quick(LINEAR, response="predict").fit(X[FIT], Y[FIT])


def test_an_estimator_without_scores():
    votes = VotingClassifier([("a", LINEAR), ("b", GaussianNB())]).fit(X[TRAIN], Y[TRAIN])
    with pytest.raises(InputError, match=r"^VotingClassifier must have decision_function, .*\. Pass a classifier that"):
        quick(votes).fit(X[FIT], Y[FIT])
    both = RandomForestClassifier(3).fit(X[TRAIN], np.column_stack([Y[TRAIN], Y[TRAIN]]))
    with pytest.raises(InputError, match="has several outputs"):
        quick(both).fit(X[FIT], Y[FIT])
    with pytest.raises(InputError, match="only one class, 0; sets need at least two"):
        quick(GaussianNB().fit(X[:5], np.zeros(5, int))).fit(X[FIT], Y[FIT])
    with pytest.raises(NotFittedError, match=r"GaussianNB is not fitted.* or pass cv=5"):
        quick(GaussianNB()).fit(X[FIT], Y[FIT])


def test_scores_that_are_no_numbers():
    rows, y = rows_of_three()
    with pytest.raises(InputError, match=r"logits\[0, 0\] is NaN"):
        quick(Duck(decision_function=lambda rows: rows * np.nan)).fit(rows, y)
    with pytest.raises(InputError, match=r"probs\[0\] sums to"):
        quick(Duck(predict_proba=lambda rows: 2 * softmax(rows, axis=1))).fit(rows, y)


FOREST = RandomForestClassifier(20, random_state=0).fit(X[TRAIN], NAMES[Y[TRAIN]])


def test_labels_of_probability_zero_are_counted_and_can_be_in_sets():
    tree = DecisionTreeClassifier(min_samples_leaf=20, random_state=0).fit(X[TRAIN], NAMES[Y[TRAIN]])
    model = quick(tree, alpha=0.3).fit(X[FIT], NAMES[Y[FIT]])
    own = tree.predict_proba(X[FIT])[np.arange(300), Y[FIT]]
    assert model.zero_labels_ == np.count_nonzero(own == 0) > 0
    with pytest.warns(ZeroProbabilityWarning, match=rf"label of {model.zero_labels_} of 300 rows .* alpha=0.02"):
        strict = quick(tree, alpha=0.02).fit(X[FIT], NAMES[Y[FIT]])
    sets, zero = strict.predict_set(X[NEW]), tree.predict_proba(X[NEW]) == 0
    assert np.any(sets & zero)


def test_forests_take_the_logarithm_of_zero_without_a_warning():
    model = quick(FOREST).fit(X[FIT], NAMES[Y[FIT]])
    assert model.response_ == "predict_log_proba"
    probs = FOREST.predict_proba(X[NEW])
    assert (probs == 0).any()
    logits = model.logits(X[NEW]).logits
    np.testing.assert_array_equal(logits[probs > 0], np.log(probs[probs > 0]))
    np.testing.assert_allclose(np.exp(logits[probs == 0]), 0.01, rtol=1e-12)  # a vote is 1 / 20, its half 0.025
    np.testing.assert_array_equal(model.predict(X[NEW]), FOREST.predict(X[NEW]))


def test_without_a_floor_a_label_of_probability_zero_is_a_miss():
    labels = NAMES[Y[FIT]].copy()
    labels[0] = NAMES[FOREST.predict_proba(X[FIT][:1]).argmin()]
    n_zero = np.count_nonzero(FOREST.predict_proba(X[FIT])[np.arange(len(labels)), np.searchsorted(NAMES, labels)] == 0)
    assert n_zero > 0
    with pytest.warns(ZeroProbabilityWarning, match=rf"labels of {n_zero} of 300 rows have probability zero"):
        model = quick(FOREST, floor=None).fit(X[FIT], labels)
    came = model.predictor_.document_.provenance
    assert came.calibration_zero_labels + came.conformal_zero_labels == model.zero_labels_ == n_zero
    with pytest.raises(InputError, match="floor must be a number strictly between 0 and 1"):
        quick(FOREST, floor=0.0).fit(X[FIT], labels)


@given(
    st.lists(st.sampled_from([0.0, 0.0, 5e-324, 1e-300, 1e-9, 0.001, 0.3, 1.0]), min_size=2, max_size=8).filter(any),
    st.sampled_from([1e-9, 0.01, 0.5]),
)
def test_what_stands_for_zero_is_below_all_other_labels_and_at_most_the_floor(votes, floor):
    with np.errstate(divide="ignore"):
        values = np.log(np.array([votes])) - np.log(sum(votes))
    logits = Reader(np.arange(len(votes)), floor).data(values).logits[0]
    zero = np.array(votes) == 0
    np.testing.assert_array_equal(logits[~zero], values[0, ~zero])
    assert np.isfinite(logits).all()
    assert np.all(logits[zero] < values[0, ~zero].min())
    assert np.all(logits[zero] <= np.log(floor) + 1e-12)
    assert len(set(logits[zero])) <= 1
