"""Cross-conformal sets: the rule in plain NumPy, its theorem, and what it cannot do."""

import numpy as np
import pytest
from scipy.special import softmax
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import KFold
from sklearn.naive_bayes import GaussianNB

from set_classifiers import FIT, NAMES, NEW, X, Y, quick
from thermoset import InputError
from thermoset.integrations.sklearn.fitting import cross_bound
from thermoset.rows import gaps_of
from thermoset.uniforms import Randomness

pytestmark = pytest.mark.slow

SMALL, LABELS = X[FIT][:83], Y[FIT][:83]


def lac(logits, u):
    return 1 - softmax(logits, axis=1)


def aps(logits, u):
    """The mass above a label plus u times its own."""
    probs = softmax(logits, axis=1)
    return np.array([[row[row > p].sum() + v * p for p in row] for row, v in zip(probs, u, strict=True)])


def no_u(logits, rows):
    return np.ones(len(rows))


def seeded(logits, rows):
    return Randomness(0).block(gaps_of(np.sort(logits, axis=1)))


@pytest.mark.parametrize(
    ("method", "randomized", "score", "draw"),
    [("lac", True, lac, no_u), ("aps", False, aps, no_u), ("aps", True, aps, seeded)],
)
def test_the_rule_of_cv_plus_in_plain_numpy(method, randomized, score, draw):
    cv, alpha = KFold(5, shuffle=True, random_state=3), 0.2
    model = quick(LogisticRegression(), method=method, randomized=randomized, alpha=alpha, cv=cv, conformal="cross")
    model.fit(SMALL, NAMES[LABELS])
    new, below = X[NEW], np.zeros((300, 4), dtype=int)
    for train, test in cv.split(SMALL):
        one = LogisticRegression().fit(SMALL[train], NAMES[LABELS[train]])
        seen, fresh = one.decision_function(SMALL[test]), one.decision_function(new)
        own = score(seen / model.temperature_sets_, draw(seen, test))[np.arange(len(test)), LABELS[test]]
        others = score(fresh / model.temperature_sets_, draw(fresh, new))
        # A deterministic score of the last rank is 1 for every row: rounding must not part what is equal.
        below += (own[:, None, None] < others - 1e-12).sum(axis=0)
    expected = below < (1 - alpha) * (83 + 1)
    np.testing.assert_array_equal(model.predict_set(new), expected)
    np.testing.assert_array_equal(model.set_sizes(new), expected.sum(axis=1))
    assert 0 < expected.mean() < 1


def test_probabilities_come_from_a_model_of_all_rows():
    model = quick(LogisticRegression(), cv=3, conformal="cross").fit(X[FIT], NAMES[Y[FIT]])
    whole = LogisticRegression().fit(X[FIT], NAMES[Y[FIT]])
    expected = softmax(whole.decision_function(X[NEW]) / model.temperature_, axis=1)
    np.testing.assert_allclose(model.predict_proba(X[NEW]), expected, rtol=1e-10)
    np.testing.assert_array_equal(model.predict(X[NEW]), whole.predict(X[NEW]))
    assert [one.label for one in model.predict_records(X[NEW][:5])] == whole.predict(X[NEW][:5]).tolist()
    assert len(model.fold_estimators_) == 3
    again = quick(LogisticRegression(), cv=3, conformal="cross").fit(X[FIT], NAMES[Y[FIT]])
    np.testing.assert_array_equal(again.predict_set(X[NEW]), model.predict_set(X[NEW]))


def test_no_set_is_empty_if_none_may_be():
    model = quick(GaussianNB(), cv=3, conformal="cross", alpha=0.6, allow_empty=False).fit(SMALL, LABELS)
    assert model.set_sizes(X[NEW]).min() == 1
    assert model.predict_set(X[NEW])[np.arange(300), model.predict(X[NEW])].all()
    assert quick(GaussianNB(), cv=3, conformal="cross", alpha=0.6).fit(SMALL, LABELS).set_sizes(X[NEW]).min() == 0


def test_a_class_that_a_fold_has_not_seen():
    labels = NAMES[LABELS].astype(object)
    labels[0] = "rare"
    model = quick(LogisticRegression(), cv=3, conformal="cross").fit(SMALL, labels)
    assert model.classes_.tolist() == [*NAMES, "rare"]
    assert {len(one.classes_) for one in model.fold_estimators_} == {4, 5}
    assert model.predict_set(X[NEW]).shape == (300, 5)
    assert model.zero_labels_ == 1


@pytest.mark.parametrize(
    ("n_rows", "n_folds", "slack"),
    [(100, 2, min(2 * 0.5 / 51, 0.98 / 3)), (40, 20, min(2 * 0.95 / 3, 0.5 / 21)), (50, 50, 0.0)],
)
def test_the_bound_by_hand(n_rows, n_folds, slack):
    assert cross_bound(n_rows, n_folds, 0.1) == pytest.approx(1 - 2 * 0.1 - slack, abs=1e-15)
    assert cross_bound(n_rows, n_folds, 0.7) == 0


def test_the_promise_is_the_weaker_one():
    promise = quick(GaussianNB(), cv=5, conformal="cross").fit(X[FIT], Y[FIT]).promise_
    assert f"at least {cross_bound(300, 5, 0.1):.4g}" in promise
    assert "in practice about 0.9" in promise
    assert "temperatures" in promise


def test_what_cross_conformal_sets_cannot_do():
    model = quick(GaussianNB(), cv=2, conformal="cross").fit(X[FIT], Y[FIT])
    with pytest.raises(AttributeError, match="has no predictor_: its sets need the models of all folds"):
        _ = model.predictor_
    with pytest.raises(InputError, match="check compares coverage with its exact law"):
        model.check(X[NEW], Y[NEW])
    with pytest.raises(InputError, match="conformal='cross'"):
        quick(GaussianNB(), cv=2, conformal="cross", grouping="class").fit(X[FIT], Y[FIT])
    model.set_params(conformal="split").fit(X[FIT], Y[FIT])
    assert model.predictor_.document_.n_classes == 4
    assert not hasattr(model, "fold_estimators_")


def test_too_few_rows_for_a_level_are_refused():
    with pytest.raises(InputError, match=r"alpha=0\.02 needs at least 98 calibration rows; got 83"):
        quick(GaussianNB(), cv=2, conformal="cross", alpha=0.02).fit(SMALL, LABELS)


def test_a_fold_that_has_seen_one_class_alone():
    y = np.concatenate([np.tile([0, 1, 0, 1, 1], 10), np.ones(10, int)])
    cv = [(np.arange(50, 60), np.arange(50)), (np.arange(50), np.arange(50, 60))]
    model = quick(GaussianNB(), cv=cv, conformal="cross", alpha=0.4).fit(X[:60], y)
    assert [one.classes_.tolist() for one in model.fold_estimators_] == [[1], [0, 1]]
    assert model.zero_labels_ == 20
