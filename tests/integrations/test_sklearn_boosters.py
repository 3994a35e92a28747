"""LightGBM and XGBoost as they are installed, through the same methods as every other classifier."""

import pickle

import numpy as np
import pytest
from scipy.special import softmax

from parts import require
from set_classifiers import FIT, NAMES, NEW, TRAIN, X, Y, quick


@pytest.fixture(params=["lightgbm", "xgboost"])
def booster(request):
    """A small booster that is not fitted, and a function of it that gives its raw scores."""
    module = require(request.param, "test" if request.param == "lightgbm" else "boosting")
    if request.param == "lightgbm":
        model = module.LGBMClassifier(n_estimators=10, n_jobs=1, verbose=-1)
        return model, lambda fitted, rows: fitted.predict(rows, raw_score=True)
    model = module.XGBClassifier(n_estimators=10, n_jobs=1)
    return model, lambda fitted, rows: fitted.predict(rows, output_margin=True)


def test_sets_are_those_of_the_raw_scores(booster):
    """The logarithm of a softmax is the raw score less a constant of the row, up to the rounding of probabilities."""
    model, raw_scores = booster
    model.fit(X[TRAIN], Y[TRAIN])
    sets = quick(model).fit(X[FIT], Y[FIT])
    assert sets.response_ in ("decision_function", "predict_proba")  # LightGBM has the former
    raw = raw_scores(model, X[NEW]).astype(np.float64)
    logits = sets.logits(X[NEW]).logits
    np.testing.assert_allclose(softmax(logits, axis=1), softmax(raw, axis=1), rtol=1e-4, atol=1e-7)
    np.testing.assert_array_equal(sets.predict(X[NEW]), model.predict(X[NEW]))
    assert sets.classes_.tolist() == [0, 1, 2, 3]
    assert sets.n_features_in_ == 8


def test_folds(booster):
    model, _ = booster
    sets = quick(model, cv=2).fit(X[FIT], Y[FIT])
    hits = sets.predict_set(X[NEW])[np.arange(300), Y[NEW]]
    assert 0.75 < hits.mean() < 1  # 60 rows set the threshold: the law puts it between .81 and .96 in 95% of cases


def test_two_classes(booster):
    model, raw_scores = booster
    two = (Y > 1).astype(int)
    model.fit(X[TRAIN], two[TRAIN])
    sets = quick(model).fit(X[FIT], two[FIT])
    logits = sets.logits(X[NEW]).logits
    np.testing.assert_allclose(logits[:, 1] - logits[:, 0], raw_scores(model, X[NEW]), rtol=1e-3, atol=1e-4)


def test_names_and_frames():
    pd = require("pandas", "test")
    lightgbm = require("lightgbm", "test")
    frame = pd.DataFrame(X, columns=[f"x{i}" for i in range(8)])
    model = quick(lightgbm.LGBMClassifier(n_estimators=10, n_jobs=1, verbose=-1), cv=2).fit(frame[:300], NAMES[Y[:300]])
    assert model.classes_.tolist() == NAMES.tolist()
    assert model.feature_names_in_.tolist() == frame.columns.tolist()
    assert set(model.predict(frame[300:])) <= set(NAMES)


def test_names_for_estimators_that_take_numbers_alone():
    """XGBoost refuses names: it is fitted on numbers, and everything that users see has the names."""
    module = require("xgboost", "boosting")
    booster = module.XGBClassifier(n_estimators=10, n_jobs=1)
    named = quick(booster, cv=2).fit(X[FIT], NAMES[Y[FIT]])
    numbered = quick(booster, cv=2).fit(X[FIT], Y[FIT])
    assert named.classes_.tolist() == NAMES.tolist()
    np.testing.assert_array_equal(named.predict_set(X[NEW]), numbered.predict_set(X[NEW]))
    np.testing.assert_array_equal(named.predict(X[NEW]), NAMES[numbered.predict(X[NEW])])
    np.testing.assert_array_equal(named.estimator_.predict(X[NEW]), NAMES[numbered.estimator_.predict(X[NEW])])
    again = pickle.loads(pickle.dumps(named))  # noqa: S301
    np.testing.assert_array_equal(again.predict_set(X[NEW]), named.predict_set(X[NEW]))
    cross = quick(booster, cv=2, conformal="cross").fit(X[FIT], NAMES[Y[FIT]])
    assert cross.classes_.tolist() == NAMES.tolist()


def test_other_errors_of_an_estimator_come_through():
    module = require("xgboost", "boosting")
    with pytest.raises(ValueError, match="max_depth"):
        quick(module.XGBClassifier(n_estimators=2, max_depth=-3), cv=2).fit(X[FIT], NAMES[Y[FIT]])
