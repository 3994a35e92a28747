"""Weighted coverage under a known covariate shift, over 200 splits, where plain coverage is far off.

Rows are kept with probability w(x) / max w, so that conformal rows and a kept row are weighted exchangeable with
weights w (Tibshirani et al. 2019): coverage of kept rows is at least 1 - alpha, and exceeds it by no more than the
largest share that one weight has in the sum. Hits - (1 - alpha) rows therefore have a mean of at least 0 in every
split, however many rows are kept.
"""

import numpy as np
import pytest

import thermoset as ts
from law import generated
from thermoset.monitor.promise import weighted_law

pytestmark = pytest.mark.long

ALPHA, SPLITS = 0.1, 200


def hard_rows_first(logits, scale):
    """A weight that grows as the two largest logits come closer: an exponential of the margin, at most 1."""
    top = np.sort(logits.astype(np.float64), axis=1)
    return np.exp(-(top[:, -1] - top[:, -2]) / scale)


def over_splits(method, data, weights, n_conformal, n_fresh, **options):
    """Coverage of kept rows and its z-value against 1 - alpha, for weighted and for plain sets; and the upper bound."""
    rng = np.random.default_rng(11)
    excess, rows, bounds = np.zeros((2, SPLITS)), np.zeros(SPLITS), []
    for s in range(SPLITS):
        order = rng.permutation(len(data))[: n_conformal + n_fresh]
        conformal, fresh = order[:n_conformal], order[n_conformal:]
        fresh = fresh[rng.random(n_fresh) < weights[fresh] / weights.max()]
        some = data.take(conformal)
        model = ts.ConformalClassifier(method, ALPHA, **options).fit(some, weights=weights[conformal])
        plain = ts.ConformalClassifier(method, ALPHA, **options).fit(some)
        kept, own = data.take(fresh), weights[fresh]
        sets = model.predict_set(kept, weights=own), plain.predict_set(kept)
        rows[s] = len(fresh)
        for i, found in enumerate(sets):
            excess[i, s] = found[np.arange(len(fresh)), data.labels[fresh]].sum() - (1 - ALPHA) * len(fresh)
        bounds.append(np.mean(np.maximum(weights[conformal].max(), own) / (weights[conformal].sum() + own)))
    z = excess.mean(axis=1) / (excess.std(axis=1, ddof=1) / np.sqrt(SPLITS))
    coverage = 1 - ALPHA + excess.sum(axis=1) / rows.sum()
    error = excess.std(axis=1, ddof=1) * np.sqrt(SPLITS) / rows.sum()
    return coverage, z, error, float(np.mean(bounds))


def holds(found):
    (weighted, plain), z, error, bound = found
    assert z[0] > -4, f"weighted coverage {weighted:.4f}"
    assert weighted < 1 - ALPHA + bound + 4 * error[0], f"weighted coverage {weighted:.4f}"
    assert z[1] < -6, f"plain coverage {plain:.4f}"


def in_the_dark(n_rows, n_classes):
    """Rows with a brightness that logits do not tell: the darker it is, the more labels are wrong and weights large."""
    logits, labels = generated(n_rows, n_classes, signal=0.5)
    rng = np.random.default_rng(1)
    dark = rng.random(n_rows)
    wrong = rng.random(n_rows) < 0.3 * dark
    return ts.Logits(logits, np.where(wrong, rng.integers(0, n_classes, n_rows), labels)), np.exp(2 * dark)


@pytest.mark.parametrize("method", ["lac", "aps"])
def test_generated_rows(method):
    holds(over_splits(method, *in_the_dark(6000, 5), 400, 600))


def test_a_real_file(real):
    logits, labels = real("cifar100_resnet50")
    weights = hard_rows_first(logits, 3.0)
    holds(over_splits("lac", ts.Logits(logits, labels), weights, 500, 800, temperature=1.3))


def test_the_bundled_glyphs():
    data = ts.datasets.load_glyphs().logits.take(slice(None, None, 3))
    holds(over_splits("lac", data, hard_rows_first(data.logits, 1.5), 300, 500))


def test_the_law_of_checks_is_on_the_safe_side():
    """It is an approximation: over 300 thresholds, p-values below .05 and .2 come no oftener than chance allows."""
    data, weights = in_the_dark(20000, 4)
    rng, found = np.random.default_rng(5), np.empty(300)
    for s in range(300):
        order = rng.permutation(len(data))[:900]
        conformal, fresh = order[:300], order[300:]
        fresh = fresh[rng.random(len(fresh)) < weights[fresh] / weights.max()]
        model = ts.ConformalClassifier("lac", ALPHA).fit(data.take(conformal), weights=weights[conformal])
        sets = model.predict_set(data.take(fresh), weights=weights[fresh])
        rows = model.calibration_.scatter_rows(ALPHA)
        hits = sets[np.arange(len(fresh)), data.labels[fresh]].sum()
        found[s] = weighted_law(rows, len(fresh), ALPHA)[: hits + 1].sum()
    for level in (0.05, 0.2):
        assert (found < level).mean() <= level + 3.3 * np.sqrt(level * (1 - level) / 300)
