"""Choosing T-hat from calibration rows leaves coverage exact: the law over many splits, and a rule that breaks it."""

import numpy as np

import thermoset as ts
from law import generated, z_over_splits

N_CALIBRATION, N_CONFORMAL, N_EVALUATION, SPLITS = 100, 100, 2000, 150
LOGITS, LABELS = generated(20_000, 8, signal=-1.0, seed=0)


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
    def fit(calibration, conformal):
        return ts.TwoTemperaturePredictor("aps", prefer="size").fit_split(calibration, conformal).predict_set

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
