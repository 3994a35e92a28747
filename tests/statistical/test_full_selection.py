"""Temperature and threshold from the same rows: coverage is at least nominal, also where a plain choice fails."""

import math

import numpy as np
import pytest

import thermoset as ts
from law import generated, z_over_splits
from thermoset.conformal.classifier import fitted_at
from thermoset.core.sources import ArrayRows, RankedRows
from thermoset.tuning import read_preference
from thermoset.tuning.full import largest_counted, temperature_menu, winners

MENU = temperature_menu()
SPLITS = 200


def two_kinds(n_rows, n_classes, seed):
    """Labels that the logits know nothing of, and rows of two scales, which every temperature ranks differently.

    Which temperature has the smallest sets is then chance alone: where the threshold happens to be too low.
    """
    rng = np.random.default_rng(seed)
    scale = np.where(rng.random((n_rows, 1)) < 0.5, 0.5, 5.0)
    return scale * rng.normal(size=(n_rows, n_classes)), rng.integers(0, n_classes, n_rows)


def full(recipe, prefer):
    """Sets with all rows for both, as the predictor makes them, without all that it measures."""

    def predict(logits, labels, fresh):
        data = ts.Logits(logits, labels)
        found = winners(RankedRows(ArrayRows(logits)), data, recipe, read_preference(prefer))
        speak = np.flatnonzero(found.may_win.any(axis=1))
        models = fitted_at(ts.ConformalClassifier.of(recipe), MENU[speak].tolist(), data)
        each = [model.predict_set(fresh) & found.may_win[j] for j, model in zip(speak, models, strict=True)]
        return np.any(each, axis=0)

    return predict


def cheating(recipe):
    """The temperature whose sets are smallest on the very rows that set its threshold, and its sets alone."""

    def predict(logits, labels, fresh):
        data = ts.Logits(logits, labels)
        models = fitted_at(ts.ConformalClassifier.of(recipe), MENU.tolist(), data)
        sizes = [np.minimum(model.set_sizes(data), largest_counted(data.n_classes)).mean() for model in models]
        return models[int(np.argmin(sizes))].predict_set(fresh)

    return predict


NOISE = two_kinds(8000, 16, seed=0)
LAC = ts.Recipe("lac", alpha="0.85")


def z_on_noise(predict):
    return z_over_splits(predict, *NOISE, alpha="0.85", n_conformal=50, n_evaluation=1000, splits=SPLITS)


def test_coverage_is_at_least_nominal_where_any_choice_is_luck():
    assert z_on_noise(full(LAC, "size")) > -5


def test_the_test_has_power():
    assert z_on_noise(cheating(LAC)) < -5


@pytest.mark.parametrize(("method", "prefer"), [("raps", "coverage"), ("aps", "size"), ("lac", "coverage")])
def test_coverage_is_at_least_nominal_on_rows_of_a_classifier(method, prefer):
    logits, labels = generated(12_000, 8, signal=-1.0, seed=1)
    recipe = ts.Recipe(method, alpha="0.1")
    z = z_over_splits(
        full(recipe, prefer), logits, labels, alpha="0.1", n_conformal=100, n_evaluation=1000, splits=SPLITS
    )
    assert z > -5


def test_many_rows_waste_little():
    """With 3,000 rows the coverage is nominal to within half a percentage point: the union is no large one."""
    logits, labels = generated(20_000, 8, signal=-1.0, seed=2)
    logits[np.arange(len(labels)), labels] += labels / 2
    recipe = ts.Recipe("raps", alpha="0.1")
    hits = []
    rng = np.random.default_rng(3)
    for _ in range(8):
        mixed = rng.permutation(len(labels))
        some, fresh = mixed[:3000], mixed[3000:6000]
        sets = full(recipe, "coverage")(logits[some], labels[some], logits[fresh])
        hits.append(sets[np.arange(len(fresh)), labels[fresh]].mean())
    law_error = math.sqrt(2 * 0.09 / 3000 / 8)  # of thresholds and of fresh rows
    assert abs(np.mean(hits) - 0.9) < 0.005 + 5 * law_error
