"""scikit-learn's own checks of an estimator, all of them."""

import pytest
from sklearn.linear_model import RidgeClassifier
from sklearn.naive_bayes import GaussianNB
from sklearn.utils.estimator_checks import check_estimator

from set_classifiers import quick

pytestmark = pytest.mark.long

CANNOT: dict[str, str] = {}
"""Checks that are excused, and why: none so far."""


# The checks fit a handful of rows: a level of 0.4 asks for few, and thresholds may be infinite all the same.
@pytest.mark.filterwarnings("ignore::thermoset.CoverageWarning", "ignore::thermoset.BoundWarning")
@pytest.mark.filterwarnings("ignore::thermoset.ZeroProbabilityWarning")
@pytest.mark.filterwarnings("ignore:SCIPY_ARRAY_API is not set")
@pytest.mark.parametrize(("estimator", "conformal"), [(RidgeClassifier(), "split"), (GaussianNB(), "cross")], ids=str)
def test_scikit_learn_checks(estimator, conformal):
    model = quick(estimator, alpha=0.4, cv=2, conformal=conformal)
    results = check_estimator(model, expected_failed_checks=CANNOT, on_fail=None, on_skip=None)
    failed = {result["check_name"]: result["exception"] for result in results if result["status"] == "failed"}
    excused = {result["check_name"] for result in results if result["status"] == "xfail"}
    assert not failed
    assert excused == set(CANNOT), "an excuse that is not needed any more"
