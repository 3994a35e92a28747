"""Fitting a classifier on parts of the rows, and scoring each row by the one that has not seen it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.model_selection import GroupKFold, KFold, StratifiedKFold, check_cv
from sklearn.utils import _safe_indexing
from sklearn.utils.parallel import Parallel, delayed

from thermoset.bounds import MOST_HELD, whole_number
from thermoset.data.row_numbers import rows_of_user
from thermoset.errors import InputError
from thermoset.integrations.sklearn.responses import Reader, respond
from thermoset.quoting import quoted
from thermoset.uniforms import stream

__all__ = ["Fold", "TrainingRows", "fold_models", "folds_of", "out_of_fold"]

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
        params = {
            name: _safe_indexing(value, rows) if _has_rows(value, len(self.y)) else value
            for name, value in self.params.items()
        }
        groups = None if self.groups is None else _safe_indexing(self.groups, rows)
        return TrainingRows(_safe_indexing(self.X, rows), self.y[rows], groups, params, self.numbers_of(rows))

    def numbers_of(self, rows: Rows) -> Rows:
        """The user's numbers of some of these rows."""
        return rows if self.numbers is None else self.numbers[rows]

    def fitted(self, estimator: Any) -> Any:
        """A fresh copy of a classifier, fitted on these rows."""
        return clone(estimator).fit(self.X, self.y, **self.params)


def _has_rows(value: Any, n_rows: int) -> bool:
    shape = getattr(value, "shape", None)
    if shape is not None:
        return len(shape) > 0 and shape[0] == n_rows
    return isinstance(value, Sequence) and not isinstance(value, str | bytes) and len(value) == n_rows


def folds_of(cv: Any, rows: TrainingRows, seed: int, *, stratified: bool) -> list[Fold]:
    """Folds that put every row into exactly one test part.

    A whole number makes shuffled folds: by groups where there are any, with equal shares of the classes if
    `stratified`, and plain ones otherwise.

    >>> rows = TrainingRows(np.zeros((6, 1)), np.array([0, 0, 0, 1, 1, 1]), None, {})
    >>> [fold.test.size for fold in folds_of(3, rows, 0, stratified=True)]
    [2, 2, 2]
    """
    splitter = _splitter(cv, rows, seed, stratified)
    folds = [Fold(np.asarray(a), np.asarray(b)) for a, b in splitter.split(rows.X, rows.y, rows.groups)]
    tested = np.bincount(np.concatenate([fold.test for fold in folds]), minlength=len(rows.y))
    if len(tested) > len(rows.y) or np.any(tested != 1):
        raise InputError(
            f"cv must put every row into exactly one test fold; {np.count_nonzero(tested != 1)} row(s) are in none or "
            "in several. KFold, StratifiedKFold and GroupKFold do so."
        )
    return folds


def _splitter(cv: Any, rows: TrainingRows, seed: int, stratified: bool) -> Any:
    if isinstance(cv, int | np.integer) and not isinstance(cv, bool):
        n_folds = whole_number(cv, "cv", 2, MOST_HELD, "Try cv=5.")
        shuffle = {"shuffle": True, "random_state": int(stream(seed, "folds").integers(2**31))}
        if rows.groups is not None:
            return GroupKFold(n_folds, **shuffle)
        return (StratifiedKFold if stratified else KFold)(n_folds, **shuffle)
    if cv is None or isinstance(cv, bool | float | str):
        raise InputError(f"cv must be 'prefit', a number of folds >= 2, or a splitter; got {quoted(cv)}. Try cv=5.")
    return check_cv(cv)


def fold_models(estimator: Any, rows: TrainingRows, folds: Sequence[Fold], n_jobs: int | None) -> list[Any]:
    """The classifier fitted without each of the folds."""
    models: list[Any] = Parallel(n_jobs=n_jobs)(delayed(_fitted)(estimator, rows, fold.train) for fold in folds)
    return models


def _fitted(estimator: Any, rows: TrainingRows, train: Rows) -> Any:
    return rows.take(train).fitted(estimator)


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
