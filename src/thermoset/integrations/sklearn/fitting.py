"""The three ways to fit: a fitted classifier, folds with a held-out part, folds alone."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import _safe_indexing

from thermoset.bounds import checked_seed
from thermoset.conformal.recipe import Recipe
from thermoset.data import split_indices
from thermoset.data.row_numbers import rows_of_user
from thermoset.errors import InputError
from thermoset.integrations.sklearn.cross import CrossSets, Wanted, cross_sets
from thermoset.integrations.sklearn.folds import TrainingRows, fold_models, folds_of, out_of_fold
from thermoset.integrations.sklearn.responses import Reader, label_columns, respond
from thermoset.levels import exact_level
from thermoset.predictor import TwoTemperaturePredictor
from thermoset.predictor.fit import candidates_of
from thermoset.quoting import quoted
from thermoset.uniforms import checked_ids

__all__ = ["Fitted", "fit_cross", "fit_prefit", "fit_split"]

_OF_PREDICTOR = (
    "method",
    "alpha",
    "prefer",
    "objective",
    "randomized",
    "allow_empty",
    "grouping",
    "random_state",
    "calibration",
    "claims",
    "calibration_fraction",
)


@dataclass(frozen=True)
class Fitted:
    """The classifier that predicts, how its scores are read, and what makes sets of them.

    `models` are those of the folds where the sets come from them. `zero_labels` of `n_scored` rows have a label of
    probability zero.
    """

    estimator: Any
    response: str
    reader: Reader
    sets: TwoTemperaturePredictor | CrossSets
    zero_labels: int
    n_scored: int
    models: tuple[Any, ...] = ()


def _predictor(asked: Any) -> TwoTemperaturePredictor:
    """The predictor to be fitted; its parameters are checked here, before classifiers are fitted."""
    if asked.grouping == "group":
        raise InputError(
            "SetClassifier has no thresholds by group: its `split_by` only keeps rows together in folds. Fit a "
            "TwoTemperaturePredictor(grouping='group') on the scores of held-out rows."
        )
    predictor = TwoTemperaturePredictor(**{name: getattr(asked, name) for name in _OF_PREDICTOR})
    candidates_of(predictor)
    return predictor


def _reader(asked: Any, classes: NDArray[Any]) -> Reader:
    if len(classes) < 2:
        known = quoted(classes.tolist()[0])
        raise InputError(f"the estimator knows only one class, {known}; sets need at least two.")
    return Reader(classes, None if asked.floor is None else float(exact_level(asked.floor, "floor")))


def fit_prefit(asked: Any, X: Any, y: Any, split_by: Any, ids: Any) -> Fitted:
    """Temperatures and threshold from the scores of all rows, by a classifier that was fitted on others."""
    predictor, response = _predictor(asked), respond(asked.estimator, X, asked.response)
    reader = _reader(asked, response.classes)
    scored = reader.scored(response.values, y)
    predictor.fit(scored.data, split_by=split_by, ids=ids)
    return Fitted(asked.estimator, response.name, reader, predictor, scored.zero_labels, len(scored.data))


def fit_split(asked: Any, rows: TrainingRows, ids: Any) -> Fitted:
    """The threshold from rows held out at random; everything else from the rest."""
    predictor, seed = _predictor(asked), checked_seed(asked.random_state)
    held, rest = split_indices(len(rows.y), asked.held_out, random_state=seed, split_by=rows.groups)
    keys = None
    if ids is not None:
        checked_ids(ids, len(rows.y))
        keys = np.array(ids, dtype=object)[held]
    known, fresh = rows.take(rest), rows.take(held)
    folds = folds_of(asked.cv, known, seed, stratified=True)
    estimator = known.fitted(asked.estimator)
    with rows_of_user(fresh.numbers):
        response = respond(estimator, fresh.X, asked.response)
    reader = _reader(asked, response.classes)
    label_columns(
        rows.y, reader.classes, "They were held out, and no other row has their class: add rows of that class."
    )
    with rows_of_user(fresh.numbers):
        conformal = reader.scored(response.values, fresh.y)
    models = fold_models(asked.estimator, known, folds, asked.n_jobs)
    values = out_of_fold(models, known, folds, response.name, reader)
    with rows_of_user(known.numbers):
        calibration = reader.scored(values, known.y)
        predictor.fit_split(calibration.data, conformal.data, ids=keys)
    zeros = calibration.zero_labels + conformal.zero_labels
    return Fitted(estimator, response.name, reader, predictor, zeros, len(rows.y))


def fit_cross(asked: Any, rows: TrainingRows, ids: Any) -> Fitted:
    """Temperatures and cross-conformal sets from the out-of-fold scores of all rows."""
    wanted = _one_rule(asked)
    if ids is not None:
        checked_ids(ids, len(rows.y))
    # Plain folds: the theorem wants them drawn without a look at the labels.
    folds = folds_of(asked.cv, rows, wanted.recipe.random_state, stratified=False)
    estimator = rows.fitted(asked.estimator)
    models = fold_models(asked.estimator, rows, folds, asked.n_jobs)
    response = respond(models[0], _safe_indexing(rows.X, folds[0].test), asked.response)
    reader = _reader(asked, np.asarray(estimator.classes_))
    scored = reader.scored(out_of_fold(models, rows, folds, response.name, reader), rows.y)
    sets = cross_sets(scored.data, folds, wanted, ids)
    return Fitted(estimator, response.name, reader, sets, scored.zero_labels, len(rows.y), tuple(models))


def _one_rule(asked: Any) -> Wanted:
    """What cross-conformal sets are made for: one rule for all classes; "auto" is LAC."""
    if asked.grouping is not None:
        raise InputError("conformal='cross' needs one rule for all classes: omit grouping, or use conformal='split'.")
    other = {"method": "lac"} if asked.method == "auto" else {}
    return Wanted(Recipe.of(_predictor(asked), **other), asked.prefer, asked.objective)
