"""A classifier with prediction sets, with scikit-learn's interface."""

import warnings
from collections.abc import Iterable
from copy import deepcopy
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, MetaEstimatorMixin, clone
from sklearn.utils import assert_all_finite, get_tags, indexable
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, column_or_1d

from thermoset.conformal.recipe import labels_in
from thermoset.data import Logits
from thermoset.data.splits import Part
from thermoset.errors import InputError, ZeroProbabilityWarning
from thermoset.integrations.sklearn.fitting import (
    CrossSets,
    Fitted,
    TrainingRows,
    cross_promise,
    fit_cross,
    fit_prefit,
    fit_split,
)
from thermoset.integrations.sklearn.responses import RESPONSES, respond
from thermoset.levels import Alpha, conformal_rank, exact_level
from thermoset.monitor.check import check
from thermoset.monitor.report import CheckReport
from thermoset.predictor import Prediction, TwoTemperaturePredictor
from thermoset.predictor.leakage import refuse_leakage
from thermoset.quoting import quoted
from thermoset.scores import ScoreLike


class SetClassifier(ClassifierMixin, MetaEstimatorMixin, BaseEstimator):  # type: ignore[misc]
    """Calibrated probabilities and prediction sets for any classifier that gives scores or probabilities.

    The scores of the classifier are read as logits; a `TwoTemperaturePredictor` turns them into probabilities with T*
    and sets with T-hat. Class labels are those of the classifier, in the order of its `classes_`.

    Parameters
    ----------
    estimator : classifier
        Anything with `classes_` and one of `decision_function`, `predict_log_proba`, `predict_proba`: scikit-learn's
        classifiers, pipelines and searches, LightGBM, XGBoost, or your own.
    method, alpha, prefer, objective, randomized, allow_empty, grouping, calibration, claims, calibration_fraction
        As in `TwoTemperaturePredictor`. `calibration_fraction` is for `cv="prefit"`. Cross-conformal sets have one
        temperature for their confidence, whatever `calibration` says.
    cv : "prefit", a number of folds, or a splitter
        "prefit": the estimator is already fitted, on rows other than those passed to `fit`, which choose the
        temperatures and set the threshold. Folds: the estimator is fitted here, and out-of-fold scores choose the
        temperatures.
    conformal : "split" or "cross"
        What sets the threshold when there are folds. "split": a held-out part of the rows, drawn at random; coverage is
        exact. "cross": all rows (CV+), each scored by the model that has not seen it; no row is lost, but the promise
        is weaker: see `promise_`.
    held_out : float or int
        The fraction or number of rows that set the threshold, with folds and `conformal="split"`.
    response : "auto", "decision_function", "predict_log_proba" or "predict_proba"
        The method that gives the scores. "auto" uses the first of these that has one column per class, or one column z
        for two classes, which is read as the logits (0, z).
    floor : float or None
        Replaces a probability of exactly zero, as forests and nearest neighbours give: this probability, or half of the
        row's smallest other one if that is less. None masks such classes: a label of probability zero is then a miss,
        which T* by NLL leaves out.
    n_jobs : int or None
        Processes that fit the folds, as in scikit-learn.
    random_state : int
        Seed of the splits and of the randomised sets.

    Attributes
    ----------
    estimator_ : classifier
        The classifier that predicts: as given, or fitted on the rows that were not held out.
    classes_, n_features_in_, feature_names_in_
        Those of `estimator_`.
    predictor_ : TwoTemperaturePredictor
        Probabilities and sets from the scores; it can be saved and exported. Not available with cross-conformal sets.
    fold_estimators_ : list of classifiers
        With `conformal="cross"`, the models that the sets come from.
    response_ : str
        The method that gives the scores.
    promise_ : str
        The guarantee, as a sentence.
    temperature_, temperature_sets_, choice_
        T*, T-hat, and why it was chosen.
    zero_labels_ : int
        Rows whose own label had probability zero, among those that set temperatures and threshold.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.linear_model import LogisticRegression
    >>> from thermoset.integrations.sklearn import SetClassifier
    >>> iris = load_iris()
    >>> X, y = iris.data[:, :2], iris.target_names[iris.target]
    >>> model = SetClassifier(LogisticRegression(), "lac", cv=5, held_out=0.4).fit(X[::2], y[::2])
    >>> [str(flower) for flower in model.predict_set_labels(X[101:102])[0]]
    ['versicolor']
    >>> model.predict_set(X[1::2]).shape, model.classes_.tolist()
    ((75, 3), ['setosa', 'versicolor', 'virginica'])
    """

    def __init__(
        self,
        estimator: Any,
        method: ScoreLike = "auto",
        alpha: Alpha = 0.1,
        prefer: str = "small",
        cv: Any = "prefit",
        objective: Literal["nll", "ece"] = "nll",
        randomized: bool = True,
        allow_empty: bool = True,
        grouping: str | None = None,
        random_state: int = 0,
        *,
        conformal: Literal["split", "cross"] = "split",
        held_out: Part = 0.2,
        calibration: Any = "auto",
        claims: Literal["model", "distribution-free"] = "model",
        calibration_fraction: Alpha | None = None,
        response: str = "auto",
        floor: float | None = 0.01,
        n_jobs: int | None = None,
    ) -> None:
        self.estimator = estimator
        self.method = method
        self.alpha = alpha
        self.prefer = prefer
        self.cv = cv
        self.objective = objective
        self.randomized = randomized
        self.allow_empty = allow_empty
        self.grouping = grouping
        self.random_state = random_state
        self.conformal = conformal
        self.held_out = held_out
        self.calibration = calibration
        self.claims = claims
        self.calibration_fraction = calibration_fraction
        self.response = response
        self.floor = floor
        self.n_jobs = n_jobs

    def fit(self, X: Any, y: Any, *, split_by: Any = None, ids: Any = None, **fit_params: Any) -> "SetClassifier":
        """Choose the temperatures and set the threshold; with folds, fit the estimator too.

        Parameters
        ----------
        X, y
            Rows as the estimator takes them, and their labels.
        split_by : one value for each row
            Rows with the same value stay together in every split: those of one patient or camera are not independent.
        ids : one whole number or text for each row
            u then comes from the seed and the id; see `ConformalClassifier.fit`. Coverage is then exact even where rows
            have equal scores, as with forests and nearest neighbours. Prediction then needs ids too.
        **fit_params
            For `estimator.fit`, such as `sample_weight`; values with one entry per row are split with the rows.
            Temperatures and threshold count every row once.
        """
        self._check_parameters(fit_params)
        y = column_or_1d(y, warn=True)
        assert_all_finite(y, input_name="y")
        check_classification_targets(y)
        if self._is_prefit:
            fitted = fit_prefit(self, X, y, split_by, ids)
        else:
            X, y = indexable(X, y)
            if len(y) < 2:
                raise InputError(f"fit needs rows for the folds and for the threshold; got {len(y)} sample.")
            fit = fit_cross if self.conformal == "cross" else fit_split
            fitted = fit(self, TrainingRows(X, y, split_by, fit_params), ids)
        self._keyed = ids is not None
        self._adopt(fitted)
        return self

    def predict(self, X: Any) -> NDArray[Any]:
        """The most likely class of each row, as a label of `classes_`."""
        columns = self._set_maker.predict(self.logits(X))
        return np.asarray(self.classes_[columns])

    def predict_proba(self, X: Any) -> NDArray[np.float64]:
        """Calibrated probabilities, (n, C), in the order of `classes_`."""
        return self._set_maker.predict_proba(self.logits(X))

    def predict_set(self, X: Any, *, ids: Any = None) -> NDArray[np.bool_]:
        """Sets as booleans, (n, C), in the order of `classes_`; `ids` if `fit` had them."""
        return self._sets(X, self.logits(X), ids)

    def predict_set_labels(self, X: Any, *, ids: Any = None) -> list[NDArray[Any]]:
        """The labels in each row's set, in the order of `classes_`."""
        return labels_in(self.predict_set(X, ids=ids), self.classes_)

    def predict_records(self, X: Any, *, ids: Any = None) -> list[Prediction]:
        """Label, confidence and set of each row as records, for reading and for JSON."""
        data = self.logits(X)
        probs = self._set_maker.predict_proba(data)
        labels, confidence = self.classes_[self._set_maker.predict(data)].tolist(), probs.max(axis=1).tolist()
        members = [tuple(some.tolist()) for some in labels_in(self._sets(X, data, ids), self.classes_)]
        return [Prediction(*answer) for answer in zip(labels, confidence, members, strict=True)]

    def set_sizes(self, X: Any, *, ids: Any = None) -> NDArray[np.int64]:
        """Number of labels in each row's set, (n,)."""
        sizes: NDArray[np.int64] = self.predict_set(X, ids=ids).sum(axis=1)
        return sizes

    def check(self, X: Any, y: Any, *, ids: Any = None, fail_on: str | Iterable[str] = ()) -> CheckReport:
        """Check the promise on fresh labelled rows; see `monitor.check`."""
        maker = self._set_maker
        if isinstance(maker, CrossSets):
            raise InputError(
                "check compares coverage with its exact law, but cross-conformal sets have none: promise_ is only a "
                "lower bound. Use conformal='split'."
            )
        data = self.logits(X, y)
        labels = data.require_labels("check")
        refuse_leakage(maker.document_, data)
        sets, probs = self._sets(X, data, ids), maker.predict_proba(data)
        report = check(sets, probs, labels, maker._promise, fail_on=fail_on, class_names=data.classes)
        maker._accept(report)
        return report

    def logits(self, X: Any, y: Any = None) -> Logits:
        """The scores of `estimator_` as `Logits`, with the names of the classes: what `predictor_` takes.

        `y` adds labels, for `predictor_.recalibrate` and the report.
        """
        check_is_fitted(self)
        values = self._fitted.reader.columns(respond(self.estimator_, X, self.response_))
        if y is None:
            return self._fitted.reader.data(values)
        return self._fitted.reader.read_labelled(values, y).data

    @property
    def predictor_(self) -> TwoTemperaturePredictor:
        """Probabilities and sets from logits; it can be saved and exported."""
        maker = self._set_maker
        if isinstance(maker, TwoTemperaturePredictor):
            return maker
        raise AttributeError(
            "conformal='cross' has no predictor_: its sets need the models of all folds, so they cannot be saved or "
            "exported as one predictor. Use conformal='split'."
        )

    @property
    def fold_estimators_(self) -> list[Any]:
        """The models that cross-conformal sets come from."""
        if isinstance(self._set_maker, CrossSets):
            return list(self._fitted.models)
        raise AttributeError("fold_estimators_ is available only with conformal='cross'.")

    @property
    def promise_(self) -> str:
        """The guarantee, as a sentence."""
        maker = self._set_maker
        if isinstance(maker, CrossSets):
            return cross_promise(maker.n_rows, len(maker.scores), maker.choice_.alpha)
        doubted = not self._is_prefit or maker.document_.training_signs
        unseen = "" if doubted else " The estimator must not have been fitted on the rows of fit."
        return _split_promise(maker) + unseen

    def __sklearn_clone__(self) -> "SetClassifier":
        """A copy that is not fitted; with "prefit" it keeps the fitted estimator, which a plain clone would lose."""
        params = self.get_params(deep=False)
        kept = {"estimator"} if self._is_prefit and hasattr(self.estimator, "classes_") else set()
        copies = {name: value if name in kept else clone(value, safe=False) for name, value in params.items()}
        copy = type(self)(**copies)
        if hasattr(self, "_metadata_request"):
            copy._metadata_request = deepcopy(self._metadata_request)
        return copy

    def __sklearn_tags__(self) -> Any:
        """Those of a classifier that takes the input of the estimator."""
        tags = super().__sklearn_tags__()
        if hasattr(self.estimator, "__sklearn_tags__"):
            tags.input_tags = get_tags(self.estimator).input_tags
        return tags

    @property
    def _is_prefit(self) -> bool:
        return isinstance(self.cv, str) and self.cv == "prefit"

    @property
    def _set_maker(self) -> TwoTemperaturePredictor | CrossSets:
        """What makes the sets; before `fit` an error, which is an AttributeError too."""
        check_is_fitted(self)
        return self._fitted.sets

    def _check_parameters(self, fit_params: dict[str, Any]) -> None:
        """Refuse what cannot work, before the work; the predictor checks what it shares with this."""
        if self.response not in ("auto", *RESPONSES):
            known = ", ".join(map(repr, RESPONSES))
            raise InputError(f"response must be 'auto', {known}; got {quoted(self.response)}.")
        if self.floor is not None:
            exact_level(self.floor, "floor", "0.01")
        if self.conformal not in ("split", "cross"):
            raise InputError(f"conformal must be 'split' or 'cross'; got {quoted(self.conformal)}.")
        if not self._is_prefit:
            return
        if self.conformal == "cross":
            raise InputError("conformal='cross' needs folds, but cv='prefit' has none. Try cv=5.")
        if fit_params:
            raise InputError(
                f"cv='prefit' fits no estimator, so it cannot pass on {quoted(next(iter(fit_params)))}. Omit it."
            )

    def _adopt(self, fitted: Fitted) -> None:
        """Take over what was fitted."""
        self._fitted = fitted
        self.estimator_, self.response_, self.zero_labels_ = fitted.estimator, fitted.response, fitted.zero_labels
        self.classes_ = fitted.reader.classes
        self.temperature_, self.temperature_sets_ = fitted.sets.temperature_, fitted.sets.temperature_sets_
        self.choice_ = fitted.sets.choice_
        for name in ("n_features_in_", "feature_names_in_"):
            self.__dict__.pop(name, None)
            if hasattr(fitted.estimator, name):
                setattr(self, name, getattr(fitted.estimator, name))
        share = fitted.zero_labels / fitted.n_scored
        if self.floor is not None and share > exact_level(self.alpha):  # without a floor, the predictor has said it
            warnings.warn(
                f"the estimator gave probability zero to the label of {fitted.zero_labels} of {fitted.n_scored} rows "
                f"({share:.0%}, more than alpha={self.alpha}): sets must include labels that it does not rank. Use a "
                "classifier that gives every class a probability (more trees, larger leaves, more neighbours).",
                ZeroProbabilityWarning,
                stacklevel=3,
            )

    def _check_ids(self, ids: Any) -> Any:
        """Ids in prediction as in `fit`: rows whose u is drawn in two ways are not exchangeable where scores tie."""
        if (ids is not None) != self._keyed:
            had, do = ("ids", "Pass ids= here too.") if self._keyed else ("no ids", "Omit them, or fit with ids.")
            raise InputError(f"fit had {had}, and prediction must draw u the same way. {do}")
        return ids

    def _sets(self, X: Any, data: Logits, ids: Any) -> NDArray[np.bool_]:
        """Sets of rows whose logits by `estimator_` are known."""
        maker, keys = self._fitted.sets, self._check_ids(ids)
        if not isinstance(maker, CrossSets):
            return maker.predict_set(data, ids=keys)
        reader = self._fitted.reader
        by_model = [reader.data(reader.columns(respond(one, X, self.response_))) for one in self._fitted.models]
        sets = maker.sets(by_model, keys)
        if not self.allow_empty:  # the folds may have different top labels; a label more does coverage no harm
            sets[np.arange(len(sets)), data.logits.argmax(axis=1)] = True
        return sets


def _split_promise(predictor: TwoTemperaturePredictor) -> str:
    """The promise of sets whose threshold comes from rows that the model was not fitted on."""
    document, promise = predictor.document_, predictor._promise
    if document.training_signs:
        return document.training_signs
    level = f"{promise.promised:.6g}"
    grouping = document.grouping
    if grouping is not None and not grouping.exact:
        return (
            "For new rows like those of fit, a set contains the true label with probability at least "
            f"{max(2 * promise.promised - 1, 0):.6g}, and in practice about {level}: thresholds are interpolated."
        )
    if grouping is not None:
        return (
            f"For new rows of each {grouping.unit} like those of fit, a set contains the true label with probability "
            f"at least {level}."
        )
    n, where = document.provenance.conformal_rows, "For new rows like those of fit, a set contains the true label"
    if not promise.exact:
        return f"{where} with probability at least {level}."
    k = conformal_rank(n, document.alpha)
    return (
        f"{where} with probability {k / (n + 1):.6g} = {k}/{n + 1}, from {n} rows that set the threshold: "
        "exactly if no two scores are equal, and at least that if some are."
    )
