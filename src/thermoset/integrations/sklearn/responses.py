"""The output of a classifier, read as logits in the order of its classes."""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import logsumexp
from sklearn.exceptions import NotFittedError
from sklearn.frozen import FrozenEstimator
from sklearn.utils.validation import column_or_1d

from thermoset.data import Logits
from thermoset.errors import InputError
from thermoset.quoting import quoted, reason

RESPONSES = ("decision_function", "predict_log_proba", "predict_proba")
"""Methods that give scores, in the order in which "auto" looks for them: logits first, probabilities last."""

Values = NDArray[Any]


class Response(NamedTuple):
    """Scores of rows, (n, C) in the order of `classes`; -inf where a probability is zero."""

    name: str
    values: Values
    classes: NDArray[Any]


class Scored(NamedTuple):
    """Rows as logits, and how many of them have a label that the classifier gave probability zero."""

    data: Logits
    zero_labels: int


class Reader(NamedTuple):
    """How scores become logits: which classes have which column, and what stands for a probability of zero.

    A zero becomes the probability `floor`, or half of the row's smallest other probability where that is less, so that
    it stays below every label that got a vote. That is a fixed function of the row, which is all that coverage needs.
    `floor=None` keeps zeros: such classes are masked.
    """

    classes: NDArray[Any]
    floor: float | None

    def columns(self, response: Response) -> Values:
        """Scores in the order of all classes; -inf for those that the estimator has not seen."""
        if np.array_equal(response.classes, self.classes):
            return response.values
        own = label_columns(response.classes, self.classes)
        values = np.full((len(response.values), len(self.classes)), -np.inf, dtype=response.values.dtype)
        values[:, own] = response.values
        return values

    def data(self, values: Values) -> Logits:
        """Rows without labels."""
        zero = np.isneginf(values)
        if self.floor is not None and zero.any():
            least = np.where(zero, np.inf, values).min(axis=1)
            stand_in = np.minimum(logsumexp(values, axis=1) + np.log(self.floor), least - np.log(2))
            values = np.where(zero, stand_in[:, None], values).astype(values.dtype)
        return Logits(values, classes=[str(label) for label in self.classes.tolist()])

    def read_labelled(self, values: Values, y: object) -> Scored:
        """Rows with their labels."""
        labels = label_columns(y, self.classes)
        if len(labels) != len(values):
            raise InputError(f"y must have one label per row, {len(values)} in all; got {len(labels)}.")
        zero = int(np.count_nonzero(np.isneginf(values[np.arange(len(labels)), labels])))
        return Scored(self.data(values).labelled(labels), zero)


def respond(estimator: Any, X: Any, method: str) -> Response:
    """Scores of rows by the method that was asked for, or by the first that "auto" finds."""
    classes, refused = _classes(estimator), ""
    for name in RESPONSES if method == "auto" else (method,):
        # Scores of pairs of classes have for three classes as many columns as classes.
        pairs = name == "decision_function" and len(classes) > 2 and _scores_pairs(estimator)
        if not hasattr(estimator, name) or pairs:
            continue
        with np.errstate(divide="ignore"):  # forests take the logarithm of zero here
            raw = getattr(estimator, name)(X)
        values = _as_columns(name, _array(raw, name), len(classes))
        if values is not None:
            return Response(name, values, classes)
        refused = f" {name} gave shape {np.shape(raw)} for {len(classes)} classes."
    wanted = f"{RESPONSES[0]}, {RESPONSES[1]} or {RESPONSES[2]}" if method == "auto" else method
    raise InputError(
        f"{type(estimator).__name__} must have {wanted} with one column per class, but does not.{refused} Pass a "
        "classifier that gives a score for every class."
    )


def _classes(estimator: Any) -> NDArray[Any]:
    name = type(estimator).__name__
    classes = getattr(estimator, "classes_", None)
    if classes is None:
        raise NotFittedError(f"{name} is not fitted: it has no classes_. Fit it first, or pass cv=5 to have it fitted.")
    if isinstance(classes, list) or np.ndim(classes) != 1:
        raise InputError(f"{name} has several outputs, but a set is for one. Pass a classifier with a single output.")
    return np.asarray(classes)


def _scores_pairs(estimator: Any) -> bool:
    """Whether `decision_function` is one-versus-one, which support vector machines do when told to."""
    while True:
        if hasattr(estimator, "steps"):
            estimator = estimator.steps[-1][1]
        elif hasattr(estimator, "best_estimator_"):
            estimator = estimator.best_estimator_
        elif isinstance(estimator, FrozenEstimator):
            estimator = estimator.estimator
        else:
            return getattr(estimator, "decision_function_shape", None) == "ovo"


def _array(raw: Any, name: str) -> Values:
    try:
        values = np.asarray(raw)
    except ValueError as error:
        raise InputError(f"{name} did not return an array with one row per row of X ({reason(error)}).") from None
    return values if values.dtype.kind == "f" else values.astype(np.float64)


def _as_columns(name: str, values: Values, n_classes: int) -> Values | None:
    """Scores with a column for each class; None if they have other columns."""
    if n_classes == 2 and values.ndim in (1, 2) and values.size == len(values) and name != "predict_log_proba":
        second = values.reshape(-1)  # one column is for the second class
        first = np.zeros_like(second) if name == "decision_function" else 1 - second
        values = np.column_stack([first, second])
    if values.ndim != 2 or values.shape[1] != n_classes:
        return None
    return Logits.from_probabilities(values).logits if name == "predict_proba" else values


def label_columns(y: object, classes: NDArray[Any], hint: str = "") -> NDArray[np.int64]:
    """The column of each label; `hint` says what to do about labels that have none."""
    labels = column_or_1d(y, warn=True).tolist()
    column = {label: i for i, label in enumerate(classes.tolist())}
    columns = np.array([column.get(label, -1) for label in labels], dtype=np.int64)
    unknown = np.flatnonzero(columns < 0)
    if unknown.size:
        row = int(unknown[0])
        shown = ", ".join(map(quoted, classes.tolist()[:5])) + (", ..." if len(classes) > 5 else "")
        raise InputError(
            f"is {quoted(labels[row])}, which is not one of the {len(classes)} classes of the estimator "
            f"({shown}); {unknown.size} such row(s). {hint or 'Drop them, or fit the estimator on all classes.'}",
            row=row,
            name="y",
        )
    return columns
