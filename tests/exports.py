"""Predictors with any sets, without a search for their temperatures, and how far an engine may stray from them."""

import warnings
from functools import cache
from typing import NamedTuple

import numpy as np

from law import generated
from on_arrays import score_matrix
from thermoset import ConformalClassifier, Logits, TwoTemperaturePredictor
from thermoset.errors import CoverageWarning
from thermoset.integrations.program.sets import band_of
from thermoset.predictor.fit import RowOptions, _fields_of_sets
from thermoset.scores import NeverEmpty
from thermoset.uniforms import Randomness

TEMPERATURES = (0.05, 0.1, 0.3, 1.0, 2.0, 5.0, 20.0)


@cache
def _any_predictor():
    logits, labels = generated(600, 5)
    return TwoTemperaturePredictor("aps", alpha="0.1").fit(logits, labels)


def predictor_at(temperature, logits, labels, *, calibrated=1.5, names=None, **recipe):
    """A predictor whose sets are those of a classifier fitted on these rows at a temperature."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CoverageWarning)
        fitted = ConformalClassifier(temperature=temperature, **recipe).fit(logits, labels)
    score = fitted.calibration_.scoring.score
    made = fitted.recipe.change(method=score.of if isinstance(score, NeverEmpty) else score)
    document = _any_predictor().document_.change(
        recipe=made,
        alpha=made.alpha,
        temperature=calibrated,
        n_classes=logits.shape[1],
        classes=names,
        **_fields_of_sets(fitted, made, Logits(logits, labels), RowOptions()),
    )
    predictor = TwoTemperaturePredictor(**recipe)
    predictor._adopt(document)
    return predictor


class Parity(NamedTuple):
    """How sets of an engine differ from the library's: rows, and rows whose difference rounding does not explain."""

    differing: int
    unexplained: int


def compared(predictor, logits, sets):
    """Count differing rows. Rounding explains a label whose score is within the stated bound of the threshold."""
    rows, labels = np.nonzero(predictor.predict_set(logits) != sets)
    if not len(rows):
        return Parity(0, 0)
    made, recipe = predictor.document_, predictor.document_.recipe
    score = recipe.set_score
    band = band_of(score, made.n_classes)
    pairs = score_matrix(logits, score, recipe.temperature, Randomness(recipe.seed))
    q = predictor._inference.thresholds.ravel()[labels if recipe.grouping is not None else np.zeros_like(labels)]
    found = pairs[rows, labels]
    near = np.abs(found.real - q.real) <= band
    near &= np.abs(found.imag - q.imag) <= 2 * band * np.maximum(1, np.abs(q.imag))
    return Parity(len(np.unique(rows)), len(np.unique(rows[~near])))
