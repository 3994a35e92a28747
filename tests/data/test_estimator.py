"""The base class of the estimators against scikit-learn's own."""

import copy
import pickle

import numpy as np
import pytest
from sklearn import config_context
from sklearn.base import BaseEstimator, clone, is_classifier
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer
from sklearn.utils import get_tags

from thermoset import RAPS, ConformalClassifier, Logits, TemperatureScaler, TwoTemperaturePredictor

ESTIMATORS = [
    ConformalClassifier(),
    ConformalClassifier(RAPS(0.1), alpha="0.05", grouping="class", random_state=7),
    TemperatureScaler("ece", n_bins=20),
    TwoTemperaturePredictor(),
    TwoTemperaturePredictor("lac", prefer="size<=3", calibration_fraction=0.3),
]


def as_inherited(estimator):
    """The same estimator in a class of the same name that does inherit from BaseEstimator."""
    kind = type(estimator)
    methods = ("__init__", "fit", "predict", "predict_proba")
    inherited = type(
        kind.__name__, (BaseEstimator,), {name: vars(kind)[name] for name in methods if name in vars(kind)}
    )
    return inherited(**{name: getattr(estimator, name) for name in inherited._get_param_names()})


@pytest.mark.parametrize("estimator", ESTIMATORS, ids=repr)
def test_it_looks_as_if_it_were_inherited(estimator):
    inherited = as_inherited(estimator)
    assert repr(estimator) == repr(inherited)
    assert estimator.get_params() == inherited.get_params()
    assert estimator.get_params(deep=False) == inherited.get_params(deep=False)
    assert get_tags(estimator) == get_tags(inherited)
    assert is_classifier(estimator) == is_classifier(inherited)
    with config_context(print_changed_only=False):
        assert repr(estimator) == repr(inherited)
    with config_context(enable_metadata_routing=True):
        assert str(estimator.get_metadata_routing()) == str(inherited.get_metadata_routing())


@pytest.mark.parametrize("estimator", ESTIMATORS, ids=repr)
def test_a_wrong_parameter_is_refused_as_scikit_learn_does(estimator):
    with pytest.raises(ValueError, match="Invalid parameter") as theirs:
        as_inherited(estimator).set_params(temprature=2.0)
    with pytest.raises(ValueError, match="Invalid parameter") as ours:
        clone(estimator).set_params(temprature=2.0)
    assert str(ours.value) == str(theirs.value)


@pytest.mark.parametrize("estimator", ESTIMATORS, ids=repr)
def test_what_nobody_has_is_missing(estimator):
    with pytest.raises(AttributeError, match="object has no attribute 'nothing_'"):
        _ = estimator.nothing_
    assert not hasattr(estimator, "__fspath__")


def test_requests_for_metadata_belong_to_the_estimator():
    with config_context(enable_metadata_routing=True):
        asking = ConformalClassifier().set_fit_request(ids=True)
        assert type(asking) is ConformalClassifier
        assert asking.get_metadata_routing().fit.requests["ids"] is True
        assert clone(asking).get_metadata_routing().fit.requests["ids"] is True


def test_notebooks_show_parameters_alone_and_in_a_pipeline():
    scaler = TemperatureScaler("ece")
    assert "TemperatureScaler" in scaler._repr_html_()
    assert "n_bins" in scaler._repr_mimebundle_()["text/html"]
    with config_context(display="text"):
        assert not hasattr(scaler, "_repr_html_")
        assert scaler._repr_mimebundle_() == {"text/plain": "TemperatureScaler(objective='ece')"}
    pipeline = make_pipeline(FunctionTransformer(), scaler)
    assert "TemperatureScaler" in pipeline._repr_html_()
    assert "TemperatureScaler(objective='ece')" in repr(pipeline)


def rows(n=300):
    labels = np.arange(n) % 3
    return np.random.default_rng(0).normal(size=(n, 3)) + 2 * np.eye(3)[labels], labels


def test_a_grid_search_fits_and_chooses():
    logits, labels = rows()

    def size(model, logits, labels):
        return -model.set_sizes(logits).mean()

    search = GridSearchCV(ConformalClassifier(alpha=0.2), {"method": ["topk", "lac"]}, scoring=size, cv=3)
    search.fit(logits, labels)
    assert type(search.best_estimator_) is ConformalClassifier
    assert search.best_params_ == {"method": "lac"}  # the smallest sets by construction (Sadinle et al. 2019)


@pytest.mark.parametrize("remade", [copy.deepcopy, lambda one: pickle.loads(pickle.dumps(one))])  # noqa: S301
def test_a_fitted_one_can_be_sent_elsewhere(remade):
    logits, labels = rows()
    model = ConformalClassifier(alpha=0.2).fit(Logits(logits, labels))
    again = remade(model)
    assert type(again) is ConformalClassifier
    np.testing.assert_array_equal(again.predict_set(logits), model.predict_set(logits))
    with pytest.raises(NotFittedError, match="This ConformalClassifier instance is not fitted yet"):
        clone(again).predict_set(logits)


def test_a_class_of_ones_own_keeps_the_grammar():
    class Mine(TemperatureScaler):
        def __init__(self, extra=1, objective="nll", n_bins=15):
            super().__init__(objective, n_bins)
            self.extra = extra

    assert repr(Mine(extra=2)) == "Mine(extra=2)"
    assert clone(Mine(extra=3)).get_params() == {"extra": 3, "n_bins": 15, "objective": "nll"}
