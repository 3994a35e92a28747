"""What every estimator here does at its door: read the data, remember its classes, recognise them again."""

from typing import Any

import numpy as np

from thermoset.data import Logits, as_logits, with_columns
from thermoset.data.labels import label_indices
from thermoset.errors import InputError

__all__ = [
    "fit_data",
    "predict_data",
    "remember_classes",
    "require_fitted",
    "split_data",
]


def fit_data(estimator: Any, logits: Any, labels: Any, groups: Any = None) -> Logits:
    """Read labelled rows for `estimator.fit`."""
    data = as_logits(logits, labels, groups)
    data.require_labels(f"{type(estimator).__name__}.fit")
    return data


def split_data(part: Any, name: str) -> Logits:
    """Read one part of a split: labelled `Logits`, or a pair of arrays (logits, labels).

    >>> split_data(([[0.0, 1.0], [2.0, 0.0]], [1, 0]), "calibration")
    Logits(2 rows x 2 classes, float64, labelled)
    """
    if not isinstance(part, Logits | tuple) or (isinstance(part, tuple) and len(part) != 2):
        raise InputError(
            f"{name} must be Logits or a pair (logits, labels); got {type(part).__name__}. "
            "Use ts.Logits(logits, labels)."
        )
    data = as_logits(*part) if isinstance(part, tuple) else part
    data.require_labels(f"fit_split ({name} rows)")
    return data


def remember_classes(estimator: Any, n_classes: int, classes: tuple[str, ...] | None) -> None:
    """Note what was fitted on; the last step of a fit, because it is what makes an estimator count as fitted."""
    estimator.n_features_in_ = n_classes
    estimator.class_names_ = classes


def require_fitted(estimator: Any) -> None:
    """Refuse an estimator that is not fitted."""
    if not hasattr(estimator, "n_features_in_"):
        from sklearn.utils.validation import check_is_fitted  # noqa: PLC0415 - it raises scikit-learn's own error

        check_is_fitted(estimator, "n_features_in_")


def predict_data(estimator: Any, logits: Any, groups: Any = None, labels: Any = None) -> Logits:
    """Read rows for a fitted estimator; other classes than it was fitted on are refused."""
    require_fitted(estimator)
    shape: tuple[int, ...] = getattr(logits, "shape", ())
    if len(shape) == 2:  # before the door, which would only say that one column is too few
        _check_width(estimator, shape[1])
    if isinstance(logits, (list, tuple)) and not logits:  # no rows at all
        logits = np.empty((0, estimator.n_features_in_))
    named = labels is not None and estimator.class_names_ is not None
    data = as_logits(logits, None if named else labels, groups)
    _check_width(estimator, data.n_classes)
    if named:  # labels may be names that the estimator knows and the rows do not
        names = data.classes or estimator.class_names_
        data = with_columns(data, label_indices(labels, (data.n_rows, data.n_classes), names))
    if data.classes is not None and estimator.class_names_ is not None:
        _check_names(estimator, data.classes)
    return data


def _check_width(estimator: Any, n_classes: int) -> None:
    name, expected = type(estimator).__name__, estimator.n_features_in_
    if n_classes != expected:
        one_score = " Pass scores of a binary model as Logits.from_binary(scores)." if n_classes == 1 else ""
        raise InputError(
            f"X has {n_classes} features, but {name} is expecting {expected} features as input: "
            f"one logit for each class it was fitted on, in the same order.{one_score}"
        )


def _check_names(estimator: Any, classes: tuple[str, ...]) -> None:
    for column, (given, fitted) in enumerate(zip(classes, estimator.class_names_, strict=True)):
        if given != fitted:
            raise InputError(
                f"class names must be those {type(estimator).__name__} was fitted on, in the same order; "
                f"column {column} is {given!r} where it had {fitted!r}. Reorder the columns."
            )
