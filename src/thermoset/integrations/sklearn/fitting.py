"""Fitting: of the classifier on parts of the rows, and of temperatures and threshold in three ways."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from inspect import signature
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.model_selection import GroupKFold, KFold, StratifiedKFold, check_cv
from sklearn.utils import _safe_indexing
from sklearn.utils.parallel import Parallel, delayed

from thermoset.bounds import MOST_HELD, checked_seed, whole_number
from thermoset.conformal.recipe import Recipe
from thermoset.data import split_indices
from thermoset.data.guards import training_signs, warn_of_training
from thermoset.data.splits import rows_of_user
from thermoset.errors import InputError
from thermoset.integrations.sklearn.cross import CrossSets, cross_sets
from thermoset.integrations.sklearn.responses import Reader, label_columns, respond
from thermoset.levels import exact_level
from thermoset.predictor import TwoTemperaturePredictor
from thermoset.predictor.fit import candidates_of, withdraw_promise
from thermoset.quoting import quoted
from thermoset.rows import top_labels
from thermoset.uniforms import checked_ids, stream

Rows = NDArray[np.int64]


@dataclass(frozen=True)
class Fold:
    """The rows that a model is fitted on, and those that it scores."""

    train: Rows
    test: Rows


@dataclass(frozen=True)
class TrainingRows:
    """What a classifier is fitted on; arguments of its `fit` with one value for each row go with the rows.

    `numbers` are those that some of a user's rows had among all, for messages.
    """

    X: Any
    y: NDArray[Any]
    groups: Any
    params: Mapping[str, Any]
    numbers: Rows | None = None

    def take(self, rows: Rows) -> "TrainingRows":
        """Some of the rows."""

        def some(value: Any) -> Any:
            shape = getattr(value, "shape", None)
            if shape is None and isinstance(value, Sequence) and not isinstance(value, str | bytes):
                shape = (len(value),)
            return _safe_indexing(value, rows) if shape and shape[0] == len(self.y) else value

        params = {name: some(value) for name, value in self.params.items()}
        groups = None if self.groups is None else _safe_indexing(self.groups, rows)
        return TrainingRows(_safe_indexing(self.X, rows), self.y[rows], groups, params, self.numbers_of(rows))

    def numbers_of(self, rows: Rows) -> Rows:
        """The user's numbers of some of these rows."""
        return rows if self.numbers is None else self.numbers[rows]

    def fit(self, estimator: Any) -> Any:
        """A fresh copy of a classifier, fitted on these rows; on numbers where it takes no other labels, as XGBoost."""
        try:
            return clone(estimator).fit(self.X, self.y, **self.params)
        except (ValueError, TypeError):
            classes, numbers = np.unique(self.y, return_inverse=True)
            if np.array_equal(classes, np.arange(len(classes))):
                raise
            return NamedClasses(clone(estimator).fit(self.X, numbers, **self.params), classes)


class NamedClasses:
    """A classifier that was fitted on the numbers of the classes, with their labels as its `classes_`."""

    def __init__(self, estimator: Any, classes: NDArray[Any]) -> None:
        self.estimator, self.classes_ = estimator, classes

    def __getattr__(self, name: str) -> Any:
        if name == "estimator" or name.startswith("__"):  # while it is unpickled or copied
            raise AttributeError(name)
        return getattr(self.estimator, name)

    def predict(self, X: Any) -> NDArray[Any]:
        """Labels of rows."""
        labels: NDArray[Any] = self.classes_[np.asarray(self.estimator.predict(X), dtype=np.int64)]
        return labels


def folds_of(cv: Any, rows: TrainingRows, seed: int, *, stratified: bool) -> list[Fold]:
    """Folds that put every row into exactly one test part.

    A whole number makes shuffled folds: by groups where there are any, with equal shares of the classes if
    `stratified`, and plain ones otherwise.
    """
    if isinstance(cv, int | np.integer) and not isinstance(cv, bool):
        n_folds = whole_number(cv, "cv", 2, MOST_HELD, "Try cv=5.")
        kind = GroupKFold if rows.groups is not None else StratifiedKFold if stratified else KFold
        splitter = kind(n_folds, shuffle=True, random_state=int(stream(seed, "folds").integers(2**31)))
    elif cv is None or isinstance(cv, bool | float | str):
        raise InputError(f"cv must be 'prefit', a number of folds >= 2, or a splitter; got {quoted(cv)}. Try cv=5.")
    else:
        splitter = check_cv(cv)
    folds = [Fold(np.asarray(a), np.asarray(b)) for a, b in splitter.split(rows.X, rows.y, rows.groups)]
    tested = np.bincount(np.concatenate([fold.test for fold in folds]), minlength=len(rows.y))
    if len(tested) > len(rows.y) or np.any(tested != 1):
        raise InputError(
            f"cv must put every row into exactly one test fold; {np.count_nonzero(tested != 1)} row(s) are in none or "
            "in several. KFold, StratifiedKFold and GroupKFold do so."
        )
    return folds


def fold_models(estimator: Any, rows: TrainingRows, folds: Sequence[Fold], n_jobs: int | None) -> list[Any]:
    """The classifier fitted without each of the folds."""
    fit = delayed(TrainingRows.fit)
    models: list[Any] = Parallel(n_jobs=n_jobs)(fit(rows.take(fold.train), estimator) for fold in folds)
    return models


def out_of_fold(
    models: Sequence[Any], rows: TrainingRows, folds: Sequence[Fold], response: str, reader: Reader
) -> NDArray[Any]:
    """Scores of every row by the model that has not seen it, (n, C), in the order of the rows."""
    parts = []
    for model, fold in zip(models, folds, strict=True):
        with rows_of_user(rows.numbers_of(fold.test)):
            parts.append(reader.columns(respond(model, _safe_indexing(rows.X, fold.test), response)))
    place = np.concatenate([fold.test for fold in folds])
    values: NDArray[Any] = np.concatenate(parts)[np.argsort(place)]
    return values


_KEPT_ROWS = ("_fit_X", "X_train_", "support_vectors_")  # of scikit-learn's estimators: rows they were fitted on
_ENOUGH_ROWS = 30  # to tell whether a fitted estimator has seen them


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
    shared = signature(TwoTemperaturePredictor).parameters.keys() & asked.get_params(deep=False).keys()
    predictor = TwoTemperaturePredictor(**{name: getattr(asked, name) for name in shared})
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
    scored = reader.read_labelled(response.values, y)
    predictor.fit(scored.data, split_by=split_by, ids=ids)
    if not predictor.document_.training_signs:
        data = scored.data
        signs = training_signs([data], top_labels(data), data.require_labels("fit"), _ENOUGH_ROWS)
        if _remembers(asked.estimator, X):
            signs = f"{type(asked.estimator).__name__} keeps most of these rows, as rows that it learned from"
        if signs:
            warn_of_training(signs, "Use rows that the estimator has not seen, or folds: cv=5.")
            predictor._adopt(withdraw_promise(predictor.document_, signs))
    return Fitted(asked.estimator, response.name, reader, predictor, scored.zero_labels, len(scored.data))


def _remembers(estimator: Any, X: Any) -> bool:
    """Whether an estimator that keeps rows it learned from, as neighbours and support vectors, keeps most of these."""
    known = next((getattr(estimator, name) for name in _KEPT_ROWS if hasattr(estimator, name)), None)
    if not isinstance(known, np.ndarray) or known.ndim != 2 or np.shape(X)[1:] != known.shape[1:]:
        return False
    rows, kept = (set(map(bytes, np.ascontiguousarray(part, dtype=np.float64))) for part in (X, known))
    return len(rows) > 0.9 * len(X) and 2 * len(rows & kept) > min(len(rows), len(kept))


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
    estimator = known.fit(asked.estimator)
    with rows_of_user(fresh.numbers):
        response = respond(estimator, fresh.X, asked.response)
    reader = _reader(asked, response.classes)
    label_columns(
        rows.y, reader.classes, "They were held out, and no other row has their class: add rows of that class."
    )
    with rows_of_user(fresh.numbers):
        conformal = reader.read_labelled(response.values, fresh.y)
    models = fold_models(asked.estimator, known, folds, asked.n_jobs)
    values = out_of_fold(models, known, folds, response.name, reader)
    with rows_of_user(known.numbers):
        calibration = reader.read_labelled(values, known.y)
        predictor.fit_split(calibration.data, conformal.data, ids=keys)
    zeros = calibration.zero_labels + conformal.zero_labels
    return Fitted(estimator, response.name, reader, predictor, zeros, len(rows.y))


def fit_cross(asked: Any, rows: TrainingRows, ids: Any) -> Fitted:
    """Temperatures and cross-conformal sets from the out-of-fold scores of all rows."""
    if asked.grouping is not None:
        raise InputError("conformal='cross' needs one rule for all classes: omit grouping, or use conformal='split'.")
    other = {"method": "lac"} if asked.method == "auto" else {}
    recipe = Recipe.of(_predictor(asked), **other)
    if ids is not None:
        checked_ids(ids, len(rows.y))
    # Plain folds: the theorem wants them drawn without a look at the labels.
    folds = folds_of(asked.cv, rows, recipe.random_state, stratified=False)
    estimator = rows.fit(asked.estimator)
    models = fold_models(asked.estimator, rows, folds, asked.n_jobs)
    response = respond(models[0], _safe_indexing(rows.X, folds[0].test), asked.response)
    reader = _reader(asked, np.asarray(estimator.classes_))
    scored = reader.read_labelled(out_of_fold(models, rows, folds, response.name, reader), rows.y)
    sets = cross_sets(scored.data, [fold.test for fold in folds], recipe, asked.prefer, asked.objective, ids)
    return Fitted(estimator, response.name, reader, sets, scored.zero_labels, len(rows.y), tuple(models))
