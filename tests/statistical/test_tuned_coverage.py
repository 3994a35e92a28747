"""Choosing T-hat from calibration rows leaves coverage exact: the law over many splits, and a rule that breaks it."""

import numpy as np
import pytest

import thermoset as ts
from law import generated, z_over_splits

pytestmark = pytest.mark.long

N_CALIBRATION, N_CONFORMAL, N_EVALUATION, SPLITS = 100, 100, 2000, 150
TIMES = 6
LOGITS, LABELS = generated(20_000, 8, signal=-1.0, seed=0)
OTHERS = ts.Logits(*generated(N_CONFORMAL, 8, signal=3.0, seed=3))


def z_of(fit):
    """The hits of all splits against their law; `fit` gets calibration rows from a pool of their own."""
    rng = np.random.default_rng(1)
    pool = ts.Logits(*generated(20_000, 8, signal=-1.0, seed=2))

    def predict(logits, labels, fresh):
        calibration = pool.take(rng.permutation(len(pool))[:N_CALIBRATION])
        return fit(calibration, ts.Logits(logits, labels))(fresh)

    return z_over_splits(
        predict, LOGITS, LABELS, alpha="0.1", n_conformal=N_CONFORMAL, n_evaluation=N_EVALUATION, splits=SPLITS
    )


def test_coverage_is_exact_when_the_smallest_sets_are_chosen():
    """A choice serves `TIMES` splits, each with its own conformal rows: given the choice, all follow the law.

    The predictor is fitted for the first of them, and again with other conformal rows, which must not change T-hat. The
    others have the sets of a classifier at T-hat, which are the predictor's, as the first shows.
    """
    model, left = None, 0

    def fit(calibration, conformal):
        nonlocal model, left
        if left == 0:
            predictor, other = (
                ts.TwoTemperaturePredictor("aps", prefer="small").fit_split(calibration, rows)
                for rows in (conformal, OTHERS)
            )
            assert predictor.temperature_sets_ == other.temperature_sets_
            model, left = ts.ConformalClassifier("aps", 0.1, predictor.temperature_sets_), TIMES
            np.testing.assert_array_equal(model.fit(conformal).predict_set(LOGITS), predictor.predict_set(LOGITS))
        left -= 1
        return model.fit(conformal).predict_set

    assert abs(z_of(fit)) < 5


def test_the_test_has_power():
    """Taking the temperature, and the u, with the smallest sets on the conformal rows themselves is caught."""

    def fit(_, conformal):
        models = [
            ts.ConformalClassifier("aps", 0.1, float(t), random_state=i).fit(conformal)
            for i, t in enumerate(np.linspace(1.0, 1.2, 40))
        ]
        sizes = [model.set_sizes(conformal).mean() for model in models]
        return models[int(np.argmin(sizes))].predict_set

    assert z_of(fit) < -5
