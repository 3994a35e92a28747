"""Labels of probability zero, as forests give them, are misses: coverage follows its law, which dropping breaks."""

import numpy as np
import pytest

import thermoset as ts
from law import z_over_splits

pytestmark = pytest.mark.long

N_CONFORMAL, N_EVALUATION, ALPHA = 120, 800, "0.2"


def votes(n_rows=4000, n_classes=6, seed=0):
    """Probabilities of which those below 0.06 were lost, and labels that they were drawn with: some are at zero."""
    rng = np.random.default_rng(seed)
    whole = rng.dirichlet(np.full(n_classes, 0.6), size=n_rows)
    labels = (whole.cumsum(axis=1) > rng.random((n_rows, 1))).argmax(axis=1)
    kept = np.where(whole < 0.06, 0.0, whole)
    return kept / kept.sum(axis=1, keepdims=True), labels


PROBS, LABELS = votes()
LOGITS = ts.Logits.from_probabilities(PROBS).logits
ZERO = PROBS[np.arange(len(LABELS)), LABELS] == 0


def z_of(predict, splits):
    sizes = {"n_conformal": N_CONFORMAL, "n_evaluation": N_EVALUATION}
    return z_over_splits(predict, LOGITS, LABELS, alpha=ALPHA, splits=splits, **sizes)


@pytest.mark.parametrize("method", ["aps", "lac"])
def test_sets_follow_the_law_with_labels_of_probability_zero(method):
    assert 0.02 < ZERO.mean() < 0.08

    def predict(logits, labels, fresh):
        return ts.ConformalClassifier(method, ALPHA).fit(logits, labels).predict_set(fresh)

    def dropped(logits, labels, fresh):
        kept = ~np.isneginf(logits[np.arange(len(labels)), labels])
        return predict(logits[kept], labels[kept], fresh)

    assert abs(z_of(predict, 200)) < 4
    assert z_of(dropped, 200) < -8


@pytest.mark.filterwarnings("ignore::thermoset.ZeroProbabilityWarning")
def test_so_do_those_of_a_predictor():
    probs, labels = votes(150, seed=1)
    chosen_on = ts.Logits.from_probabilities(probs, labels)
    assert np.any(probs[np.arange(150), labels] == 0)

    def predict(logits, own, fresh):
        predictor = ts.TwoTemperaturePredictor("aps", ALPHA, prefer="small")
        conformal = ts.Logits.from_probabilities(np.exp(logits), own)
        predictor.fit_split(chosen_on, conformal)
        assert predictor.document_.provenance.conformal_zero_labels == np.isneginf(logits[np.arange(120), own]).sum()
        return predictor.predict_set(ts.Logits.from_probabilities(np.exp(fresh)))

    assert abs(z_of(predict, 3)) < 4
