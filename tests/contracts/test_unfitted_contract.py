"""What an estimator does after `fit` raises scikit-learn's own error before it; methods are collected from classes."""

import inspect
from types import FunctionType

import numpy as np
import pytest
from sklearn.exceptions import NotFittedError
from sklearn.naive_bayes import GaussianNB

import thermoset as ts
from thermoset.integrations.sklearn import SetClassifier

ROWS = ts.Logits(np.eye(3), [0, 1, 2])
GIVEN = {"logits": ROWS, "X": np.eye(3), "target": ROWS, "more": ROWS, "y": [0, 1, 2], "alpha": 0.1, "alphas": [0.1]}
GIVEN |= {"path": "never.json", "out": "never"}
WHILE_FITTING = {"fit", "fit_split", "learn", "adopt", "warn_at_bound"}
ESTIMATORS = {
    "predictor": ts.TwoTemperaturePredictor(),
    "conformal": ts.ConformalClassifier(),
    "scaler": ts.TemperatureScaler(),
    "sklearn": SetClassifier(GaussianNB()),
}


def public(estimator, kind):
    """The names of an estimator's own class that are of a kind, but for those that fit it."""
    own = [name for name, one in vars(type(estimator)).items() if isinstance(one, kind)]
    return [name for name in own if not name.startswith("_") and name not in WHILE_FITTING]


def methods(estimator):
    return public(estimator, FunctionType)


CASES = [(kind, name) for kind, estimator in ESTIMATORS.items() for name in methods(estimator)]


@pytest.mark.parametrize(("kind", "name"), CASES)
def test_not_fitted(kind, name):
    method = getattr(ESTIMATORS[kind], name)
    needed = [one for one in inspect.signature(method).parameters.values() if one.default is one.empty]
    with pytest.raises(NotFittedError):
        method(**{one.name: GIVEN[one.name] for one in needed if one.kind is not one.VAR_KEYWORD})


LEARNED = [(kind, name) for kind, one in ESTIMATORS.items() for name in public(one, property) if name != "recipe"]


@pytest.mark.parametrize(("kind", "name"), LEARNED)
def test_nothing_was_learned(kind, name):
    """A property is that of something fitted: the error is an AttributeError too, so that hasattr says no."""
    with pytest.raises(NotFittedError):
        getattr(ESTIMATORS[kind], name)
    assert not hasattr(ESTIMATORS[kind], name)


def test_predictions_are_among_them():
    assert ("predictor", "choice_") in LEARNED
    for kind, estimator in ESTIMATORS.items():
        asked = {"predict_proba"} if kind == "scaler" else {"predict_set", "set_sizes"}
        assert asked <= {name for which, name in CASES if which == kind}, estimator
