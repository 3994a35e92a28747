"""A class that one threshold hardly covers is named when a predictor is fitted, and no other class is."""

import warnings

import numpy as np
import pytest

from conftest import REAL
from thermoset import Logits, TwoTemperaturePredictor
from thermoset.conformal import ConformalClassifier
from thermoset.conformal.calibration_scores import warn_of_missed_classes
from thermoset.errors import CoverageWarning


def payments(n=4_000, share=0.036):
    """Log-odds of a rare class, by which it is hardly ever the likelier one."""
    rng = np.random.default_rng(0)
    fraud = (rng.random(n) < share).astype(int)
    scores = 1.5 * (rng.normal(size=n) + 1.5 * fraud) - 1.5**2 / 2 + np.log(share / (1 - share))
    return Logits.from_binary(scores, fraud, classes=["fine", "fraud"])


def messages(model, data):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model.fit(data)
    return [str(one.message) for one in caught if issubclass(one.category, CoverageWarning)]


def test_a_rare_class_that_is_left_out_is_named_with_the_remedy():
    found = messages(TwoTemperaturePredictor("lac", prefer="small"), payments())
    assert len(found) == 1
    assert "'fraud'" in found[0]
    assert "'fine'" not in found[0]
    assert "grouping='class'" in found[0]


@pytest.mark.parametrize("asked", [{"prefer": "small", "grouping": "class"}, {"prefer": "classes>=0.8"}])
def test_the_remedies_silence_it(asked):
    assert messages(TwoTemperaturePredictor("lac", **asked), payments()) == []


def scores_of(n_rare, n_hit):
    """A threshold fitted to a class of 400 rows that is covered, and to a rare one of which `n_hit` rows are."""
    hit = np.repeat([True, True, False], [400, n_hit, n_rare - n_hit])
    labels = np.repeat([0, 1], [400, n_rare])
    wide = np.random.default_rng(0).uniform(1, 2, size=len(hit))
    logits = np.zeros((len(hit), 2))
    logits[np.arange(len(hit)), labels] = np.where(hit, wide, -wide)
    model = ConformalClassifier("lac", alpha=0.5).fit(logits, labels)
    return model.calibration_, np.array([[complex(0.5, 0)]])


@pytest.mark.parametrize(
    ("n_rare", "n_hit", "warned"),
    [
        (20, 0, True),  # at most 1 - 0.05 ** (1 / 20) = 0.139
        (19, 0, False),  # too few rows to judge
        (20, 4, True),  # at most 0.401 (Clopper and Pearson), below 0.45
        (20, 5, False),  # at most 0.456
    ],
)
def test_classes_are_missed_below_half_of_the_promise(n_rare, n_hit, warned):
    scores, thresholds = scores_of(n_rare, n_hit)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        warn_of_missed_classes(scores, thresholds, "0.1", None)
    assert [one.category for one in caught] == [CoverageWarning] * warned


def test_three_classes_are_named_and_the_others_counted():
    rng = np.random.default_rng(0)
    labels = rng.permutation(np.repeat(np.arange(7), [3_000, 3_000, 30, 30, 30, 30, 30]))
    logits = rng.normal(size=(len(labels), 7)) + 6 * np.eye(7)[labels % 2]  # rare classes look like common ones
    model = ConformalClassifier("lac", alpha=0.1).fit(logits, labels)
    with pytest.warns(CoverageWarning, match=r"and 2 more") as caught:
        warn_of_missed_classes(model.calibration_, model.thresholds_, "0.1", tuple("abcdefg"))
    assert sum(f"'{name}' (" in str(caught[0].message) for name in "abcdefg") == 3


@pytest.mark.slow
@pytest.mark.parametrize("name", REAL)
def test_it_is_silent_on_published_files(real, name):
    data = Logits(*real(name))
    for method, alpha in (("lac", 0.1), ("raps", 0.05)):
        model = ConformalClassifier(method, alpha).fit(data)
        warn_of_missed_classes(model.calibration_, model.thresholds_, alpha, None)  # a warning is an error here
