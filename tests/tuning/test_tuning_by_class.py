"""Thresholds by class are chosen where classes have rows enough for them, and only there."""

import numpy as np
import pytest

import thermoset as ts

pytestmark = pytest.mark.slow


def population(n_rows, seed, n_classes=4):
    """Classes that differ much: the noise of a class grows with its number."""
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, n_classes, n_rows)
    noise = rng.normal(size=(n_rows, n_classes)) * (1 + 2 * labels[:, None] / n_classes)
    return ts.Logits(2 * (noise + 2 * np.eye(n_classes)[labels]), labels)


def class_coverage(predictor, fresh):
    return ts.metrics.class_coverage(predictor.predict_set(fresh), fresh.labels).coverage


@pytest.fixture(scope="module")
def fresh():
    return population(20_000, seed=1)


@pytest.fixture(scope="module")
def evened():
    return ts.TwoTemperaturePredictor("auto", prefer="even", calibration="temperature").fit(population(6_000, seed=0))


@pytest.mark.filterwarnings("ignore::thermoset.errors.BudgetWarning")  # 2.3 of 4 labels are more than half
@pytest.mark.parametrize("prefer", ["even", "classes>=0.86"])
def test_many_rows_of_each_class_are_used(fresh, evened, prefer):
    made = evened
    if prefer != "even":
        made = ts.TwoTemperaturePredictor("auto", prefer=prefer, calibration="temperature").fit(
            population(6_000, seed=0)
        )
    assert made.choice_.setting.grouping == made.document_.recipe.grouping == "class"
    assert made.choice_.met
    found = class_coverage(made, fresh)
    assert np.abs(found - 0.9).max() < 0.03
    plain = ts.TwoTemperaturePredictor("lac", prefer="small", calibration="temperature").fit(population(6_000, seed=0))
    assert np.abs(class_coverage(plain, fresh) - 0.9).max() > 0.06
    sentence = made.choice_.sentences[0]
    assert "LAC, Mondrian" in sentence


@pytest.mark.filterwarnings("ignore::thermoset.errors.BudgetWarning")
@pytest.mark.parametrize("prefer", ["even", "classes>=0.86", "small"])
def test_few_rows_are_not(prefer):
    made = ts.TwoTemperaturePredictor("auto", prefer=prefer).fit(population(250, seed=0))
    assert made.choice_.setting.grouping is None


def test_a_file_of_them_answers_the_same(tmp_path, fresh, evened):
    evened.save(tmp_path / "p.json")
    read = ts.TwoTemperaturePredictor.load(tmp_path / "p.json")
    assert np.array_equal(read.predict_set(fresh), evened.predict_set(fresh))
