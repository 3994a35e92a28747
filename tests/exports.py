"""Predictors with any sets, without a search for their temperatures, and how far an engine may stray from them."""

import warnings
from functools import cache
from typing import NamedTuple

import msgspec
import numpy as np
from thermoset.predictor.thresholds import Thresholds

from law import generated
from on_arrays import score_matrix
from thermoset import ConformalClassifier, TwoTemperaturePredictor
from thermoset.conformal.methods import Method
from thermoset.errors import CoverageWarning
from thermoset.integrations.program.sets import band_of
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
    found, made = fitted.calibration_, fitted.recipe
    groups, score = found.group_of_class, found.scoring.score
    score = score.of if score.keep_top and isinstance(score, NeverEmpty) else score
    document = msgspec.structs.replace(
        _any_predictor().document_,
        method=Method.of(score),
        alpha=str(made.alpha),
        alpha_sets=str(made.alpha),
        temperature=calibrated,
        temperature_sets=float(temperature),
        thresholds=Thresholds.of(fitted.thresholds_),
        pool_sizes=tuple(found.pool_sizes().tolist()),
        grouping=made.grouping,
        group_of_class=None if groups is None else tuple(groups.tolist()),
        seed=found.scoring.seed,
        allow_empty=made.allow_empty,
        n_classes=logits.shape[1],
        classes=names,
    )
    predictor = TwoTemperaturePredictor(**recipe)
    predictor._adopt(document, score)
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
    made, score = predictor.document_, predictor.recipe.set_score
    band = band_of(score, made.n_classes)
    pairs = score_matrix(logits, score, made.temperature_sets, Randomness(made.seed))
    q = made.thresholds.pairs()[labels if made.grouping is not None else np.zeros_like(labels)]
    found = pairs[rows, labels]
    near = np.abs(found.real - q.real) <= band
    near &= np.abs(found.imag - q.imag) <= 2 * band * np.maximum(1, np.abs(q.imag))
    return Parity(len(np.unique(rows)), len(np.unique(rows[~near])))
