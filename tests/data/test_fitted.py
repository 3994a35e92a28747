"""The estimators are scikit-learn's, as far as an estimator that takes logits can be."""

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.utils.estimator_checks import check_estimator

from thermoset import ConformalClassifier, InputError, Logits, TemperatureScaler

ESTIMATORS = [
    ConformalClassifier(),
    ConformalClassifier("aps", grouping="class"),
    TemperatureScaler(),
    TemperatureScaler("ece"),
]

_COLUMN = "its labels are classes of other data; here a label is the number of a column"
CANNOT = {
    "check_readonly_memmap_input": _COLUMN,
    "check_estimators_overwrite_params": _COLUMN,
    "check_estimators_fit_returns_self": _COLUMN,
    "check_fit_score_takes_y": "the second argument of fit is called labels, not y",
    "check_dtype_object": "an array of objects hides missing and ragged values: it is refused",
}


# The checks fit a handful of rows, for which thresholds are infinite and temperatures end at a bound.
@pytest.mark.filterwarnings("ignore::thermoset.CoverageWarning", "ignore::thermoset.BoundWarning")
@pytest.mark.filterwarnings("ignore:SCIPY_ARRAY_API is not set")
# They do not: what BaseEstimator does is asked of it when it is needed (`thermoset.data.estimator`).
@pytest.mark.filterwarnings("ignore:Estimator .* does not inherit from `sklearn.base.BaseEstimator`")
@pytest.mark.parametrize("estimator", ESTIMATORS, ids=str)
def test_scikit_learn_checks(estimator):
    results = check_estimator(estimator, expected_failed_checks=CANNOT, on_fail=None, on_skip=None)
    failed = {result["check_name"] for result in results if result["status"] == "failed"}
    excused = {result["check_name"] for result in results if result["status"] == "xfail"}
    assert not failed
    assert excused == set(CANNOT), "an excuse that is not needed any more"


@pytest.mark.parametrize("estimator", ESTIMATORS, ids=str)
def test_clone_parameters_and_not_fitted(estimator):
    copy = clone(estimator)
    assert copy.get_params() == estimator.get_params()
    name = next(iter(estimator.get_params()))
    assert copy.set_params(**{name: "something"}).get_params()[name] == "something"
    predict = estimator.predict_set if isinstance(estimator, ConformalClassifier) else estimator.predict_proba
    with pytest.raises(NotFittedError):
        predict(np.zeros((2, 3)))


@pytest.mark.parametrize("estimator", [ConformalClassifier(), TemperatureScaler()], ids=str)
def test_other_classes_than_fitted_are_refused(estimator):
    rng = np.random.default_rng(0)
    names = ["cat", "dog", "eel"]
    data = Logits(rng.normal(size=(60, 3)), rng.integers(0, 3, 60), classes=names)
    fitted = clone(estimator).fit(data)
    predict = fitted.predict_set if isinstance(estimator, ConformalClassifier) else fitted.predict_proba
    np.testing.assert_array_equal(predict(data), predict(data.logits))
    with pytest.raises(InputError, match=r"X has 2 features, but .* is expecting 3"):
        predict(data.logits[:, :2])
    with pytest.raises(InputError, match=r"X has 2 features, but .* is expecting 3"):
        predict([[0.0, 1.0]])
    turned = Logits(data.logits[:, [0, 2, 1]].copy(), classes=["cat", "eel", "dog"])
    np.testing.assert_array_equal(predict(turned), predict(data))
    with pytest.raises(InputError, match="'ant'"):
        predict(Logits(data.logits, classes=["cat", "ant", "dog"]))
