"""Fitting: of the classifier on parts of the rows, and of temperatures and threshold in three ways."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from inspect import signature
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.model_selection import GroupKFold, KFold, StratifiedKFold, check_cv
from sklearn.utils import _safe_indexing
from sklearn.utils.parallel import Parallel, delayed

from thermoset.arrays import Bools, Floats, Ints, Pairs
from thermoset.bounds import MOST_HELD, checked_seed, whole_number
from thermoset.calibration import TemperatureScaler, probabilities
from thermoset.conformal import Scoring
from thermoset.conformal.recipe import Recipe
from thermoset.conformal.scoring import label_scores, score_matrix
from thermoset.data import Logits, split_indices
from thermoset.data.guards import training_signs, warn_of_training
from thermoset.data.splits import rows_of_user
from thermoset.errors import InputError
from thermoset.integrations.sklearn.responses import Reader, label_columns, respond
from thermoset.levels import Alpha, conformal_rank, exact_level
from thermoset.predictor import TwoTemperaturePredictor
from thermoset.predictor.fit import candidates_of, withdraw_promise
from thermoset.quoting import quoted
from thermoset.rows import top_labels
from thermoset.tuning import Choice, choose
from thermoset.uniforms import checked_ids, stream

if TYPE_CHECKING:
    from thermoset.integrations.sklearn.classifier import SetClassifier

Folds = list[tuple[Ints, Ints]]
"""The rows that each model is fitted on, and those that it scores."""


@dataclass(frozen=True)
class TrainingRows:
    """What a classifier is fitted on; arguments of its `fit` with one value for each row go with the rows.

    `numbers` are those that some of a user's rows had among all, for messages.
    """

    X: Any
    y: NDArray[Any]
    groups: Any
    params: Mapping[str, Any]
    numbers: Ints | None = None

    def take(self, rows: Ints) -> "TrainingRows":
        """Some of the rows."""

        def some(value: Any) -> Any:
            shape = getattr(value, "shape", None)
            if shape is None and isinstance(value, Sequence) and not isinstance(value, str | bytes):
                shape = (len(value),)
            return _safe_indexing(value, rows) if shape and shape[0] == len(self.y) else value

        params = {name: some(value) for name, value in self.params.items()}
        groups = None if self.groups is None else _safe_indexing(self.groups, rows)
        return TrainingRows(_safe_indexing(self.X, rows), self.y[rows], groups, params, self.numbers_of(rows))

    def numbers_of(self, rows: Ints) -> Ints:
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


def folds_of(cv: Any, rows: TrainingRows, seed: int, *, stratified: bool) -> Folds:
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
    folds = [(np.asarray(train), np.asarray(test)) for train, test in splitter.split(rows.X, rows.y, rows.groups)]
    tested = np.bincount(np.concatenate([test for _, test in folds]), minlength=len(rows.y))
    if len(tested) > len(rows.y) or np.any(tested != 1):
        raise InputError(
            f"cv must put every row into exactly one test fold; {np.count_nonzero(tested != 1)} row(s) are in none or "
            "in several. KFold, StratifiedKFold and GroupKFold do so."
        )
    return folds


def fold_models(estimator: Any, rows: TrainingRows, folds: Folds, n_jobs: int | None) -> list[Any]:
    """The classifier fitted without each of the folds."""
    fit = delayed(TrainingRows.fit)
    models: list[Any] = Parallel(n_jobs=n_jobs)(fit(rows.take(train), estimator) for train, _ in folds)
    return models


def out_of_fold(models: list[Any], rows: TrainingRows, folds: Folds, response: str, reader: Reader) -> NDArray[Any]:
    """Scores of every row by the model that has not seen it, (n, C), in the order of the rows."""
    parts = []
    for model, (_, test) in zip(models, folds, strict=True):
        with rows_of_user(rows.numbers_of(test)):
            parts.append(reader.columns(respond(model, _safe_indexing(rows.X, test), response)))
    place = np.concatenate([test for _, test in folds])
    values: NDArray[Any] = np.concatenate(parts)[np.argsort(place)]
    return values


# ---- cross-conformal sets --------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class CrossSets:
    """What makes cross-conformal sets, but for the models: the label scores of each fold, in ascending order.

    The rule of CV+ for classification (Romano, Sesia and Candès 2020; Vovk 2015): with s_i the score of row i under the
    model fitted without its fold, label y enters the set of x if fewer than `rank`, ceil((n + 1)(1 - alpha)), of the
    s_i are below the score of (x, y) under the model fitted without the fold of i.
    """

    scores: tuple[Pairs, ...]
    scoring: Scoring
    rank: int
    temperature_: float
    choice_: Choice

    @property
    def temperature_sets_(self) -> float:
        """T-hat; attributes and methods have the names that a predictor gives them."""
        return self.scoring.temperature

    @property
    def n_rows(self) -> int:
        """How many rows decide."""
        return sum(map(len, self.scores))

    def predict(self, data: Logits) -> Ints:
        """The most likely label of each row, as its column number."""
        return np.asarray(data.logits.argmax(axis=1))

    def predict_proba(self, data: Logits) -> Floats:
        """The softmax at T*, (n, C)."""
        return probabilities(data, self.temperature_)

    def sets(self, by_model: Sequence[Logits], ids: Any = None) -> Bools:
        """Sets (n, C) from the logits that each fold's model gives the rows."""
        below = np.zeros(by_model[0].logits.shape, dtype=np.int64)
        for scores, data in zip(self.scores, by_model, strict=True):
            own = self.scoring
            matrix = score_matrix(data, own.score, own.temperature, own.randomness(None, len(data), ids))
            below += np.searchsorted(scores, matrix, side="left")
        return below < self.rank


def cross_sets(
    data: Logits, parts: Sequence[Ints], recipe: Recipe, prefer: str, objective: Literal["nll", "ece"], ids: Any = None
) -> CrossSets:
    """Temperatures and scores of all rows, from their out-of-fold logits; `parts` are the rows of each fold."""
    best = float(TemperatureScaler(objective).fit(data).temperature_)
    choice = choose(data, recipe, prefer=prefer, calibrated=best, n_conformal=len(data))
    scoring = Scoring.of(recipe.change(temperature=choice.temperature))
    (scores,) = label_scores(
        data,
        data.require_labels("cross-conformal sets"),
        scoring.score,
        [scoring.temperature],
        scoring.randomness(None, len(data), ids),
    )
    rank = conformal_rank(len(data), choice.setting.alpha)
    return CrossSets(tuple(np.sort(scores[rows]) for rows in parts), scoring, rank, best, choice)


def cross_bound(n_rows: int, n_folds: int, alpha: Alpha) -> float:
    """The coverage that CV+ promises for n rows in K equal folds.

    1 - 2 alpha - min{ 2 (1 - 1/K) / (n/K + 1), (1 - K/n) / (K + 1) } (Barber et al. 2021, theorem 4; Romano, Sesia and
    Candès 2020 for classification), and never below 0.
    """
    n, folds = Fraction(n_rows), Fraction(n_folds)
    slack = min(2 * (1 - 1 / folds) / (n / folds + 1), (1 - folds / n) / (folds + 1))
    return max(0.0, float(1 - 2 * exact_level(alpha) - slack))


def cross_promise(n_rows: int, n_folds: int, alpha: Alpha) -> str:
    """The promise of cross-conformal sets."""
    bound, level = cross_bound(n_rows, n_folds, alpha), float(1 - exact_level(alpha))
    return (
        f"For new rows like those of fit, a set contains the true label with probability at least {bound:.4g}, and in "
        f"practice about {level:.6g}: cross-conformal sets (CV+) from {n_rows} rows in {n_folds} random folds of equal "
        "size. The theorem takes the two temperatures as given; here they were chosen from the same rows, which it "
        "does not cover."
    )


# ---- temperatures and threshold, in three ways -----------------------------------------------------------------------

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


def _predictor(settings: "SetClassifier") -> TwoTemperaturePredictor:
    """The predictor to be fitted; its parameters are checked here, before classifiers are fitted."""
    if settings.grouping == "group":
        raise InputError(
            "SetClassifier has no thresholds by group: its `split_by` only keeps rows together in folds. Fit a "
            "TwoTemperaturePredictor(grouping='group') on the scores of held-out rows."
        )
    shared = signature(TwoTemperaturePredictor).parameters.keys() & settings.get_params(deep=False).keys()
    predictor = TwoTemperaturePredictor(**{name: getattr(settings, name) for name in shared})
    candidates_of(predictor)
    return predictor


def _reader(settings: "SetClassifier", classes: NDArray[Any]) -> Reader:
    if len(classes) < 2:
        known = quoted(classes.tolist()[0])
        raise InputError(f"the estimator knows only one class, {known}; sets need at least two.")
    return Reader(classes, None if settings.floor is None else float(exact_level(settings.floor, "floor")))


def fit_prefit(settings: "SetClassifier", X: Any, y: Any, split_by: Any, ids: Any) -> Fitted:
    """Temperatures and threshold from the scores of all rows, by a classifier that was fitted on others."""
    predictor, response = _predictor(settings), respond(settings.estimator, X, settings.response)
    reader = _reader(settings, response.classes)
    scored = reader.read_labelled(response.values, y)
    predictor.fit(scored.data, split_by=split_by, ids=ids)
    if not predictor.document_.training_signs:
        data = scored.data
        signs = training_signs([data], top_labels(data), data.require_labels("fit"), _ENOUGH_ROWS)
        if _remembers(settings.estimator, X):
            signs = f"{type(settings.estimator).__name__} keeps most of these rows, as rows that it learned from"
        if signs:
            warn_of_training(signs, "Use rows that the estimator has not seen, or folds: cv=5.")
            predictor._adopt(withdraw_promise(predictor.document_, signs))
    return Fitted(settings.estimator, response.name, reader, predictor, scored.zero_labels, len(scored.data))


def _remembers(estimator: Any, X: Any) -> bool:
    """Whether an estimator that keeps rows it learned from, as neighbours and support vectors, keeps most of these."""
    known = next((getattr(estimator, name) for name in _KEPT_ROWS if hasattr(estimator, name)), None)
    if not isinstance(known, np.ndarray) or known.ndim != 2 or np.shape(X)[1:] != known.shape[1:]:
        return False
    rows, kept = (set(map(bytes, np.ascontiguousarray(part, dtype=np.float64))) for part in (X, known))
    return len(rows) > 0.9 * len(X) and 2 * len(rows & kept) > min(len(rows), len(kept))


def fit_split(settings: "SetClassifier", rows: TrainingRows, ids: Any) -> Fitted:
    """The threshold from rows held out at random; everything else from the rest."""
    predictor, seed = _predictor(settings), checked_seed(settings.random_state)
    held, rest = split_indices(len(rows.y), settings.held_out, random_state=seed, split_by=rows.groups)
    keys = None
    if ids is not None:
        checked_ids(ids, len(rows.y))
        keys = np.array(ids, dtype=object)[held]
    known, fresh = rows.take(rest), rows.take(held)
    folds = folds_of(settings.cv, known, seed, stratified=True)
    estimator = known.fit(settings.estimator)
    with rows_of_user(fresh.numbers):
        response = respond(estimator, fresh.X, settings.response)
    reader = _reader(settings, response.classes)
    label_columns(
        rows.y, reader.classes, "They were held out, and no other row has their class: add rows of that class."
    )
    with rows_of_user(fresh.numbers):
        conformal = reader.read_labelled(response.values, fresh.y)
    models = fold_models(settings.estimator, known, folds, settings.n_jobs)
    values = out_of_fold(models, known, folds, response.name, reader)
    with rows_of_user(known.numbers):
        calibration = reader.read_labelled(values, known.y)
        predictor.fit_split(calibration.data, conformal.data, ids=keys)
    zeros = calibration.zero_labels + conformal.zero_labels
    return Fitted(estimator, response.name, reader, predictor, zeros, len(rows.y))


def fit_cross(settings: "SetClassifier", rows: TrainingRows, ids: Any) -> Fitted:
    """Temperatures and cross-conformal sets from the out-of-fold scores of all rows."""
    if settings.grouping is not None:
        raise InputError("conformal='cross' needs one rule for all classes: omit grouping, or use conformal='split'.")
    other = {"method": "lac"} if settings.method == "auto" else {}
    recipe = Recipe.of(_predictor(settings), **other)
    if ids is not None:
        checked_ids(ids, len(rows.y))
    # Plain folds: the theorem wants them drawn without looking at the labels.
    folds = folds_of(settings.cv, rows, recipe.random_state, stratified=False)
    estimator = rows.fit(settings.estimator)
    models = fold_models(settings.estimator, rows, folds, settings.n_jobs)
    response = respond(models[0], _safe_indexing(rows.X, folds[0][1]), settings.response)
    reader = _reader(settings, np.asarray(estimator.classes_))
    scored = reader.read_labelled(out_of_fold(models, rows, folds, response.name, reader), rows.y)
    sets = cross_sets(scored.data, [test for _, test in folds], recipe, settings.prefer, settings.objective, ids)
    return Fitted(estimator, response.name, reader, sets, scored.zero_labels, len(rows.y), tuple(models))
