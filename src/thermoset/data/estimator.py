"""What every estimator shares: scikit-learn's grammar, without scikit-learn until somebody asks for it, and its data.

Importing `sklearn.base` takes longer than a server needs to load a predictor and answer. So the estimators do not
inherit from `BaseEstimator`: what it does is looked up there when it is called. There is no copy of it here.
"""

import inspect
import sys
from contextlib import suppress
from typing import Any, Self

import numpy as np

from thermoset.data.guards import AS_LOGITS, LOGITS, PROBABILITIES, input_kind_of, judge_rows, may_be, not_a_class
from thermoset.data.labels import label_indices
from thermoset.data.logits import Logits, as_logits, checked_logits, with_columns
from thermoset.errors import InputError


class Estimator:
    """An estimator for scikit-learn: parameters, clones, tags, text and HTML are what `BaseEstimator` makes of them.

    >>> from thermoset import TemperatureScaler
    >>> TemperatureScaler("ece").set_params(n_bins=20)
    TemperatureScaler(n_bins=20, objective='ece')
    >>> TemperatureScaler().get_params()
    {'n_bins': 15, 'objective': 'nll'}
    """

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """The parameters by name."""
        params: dict[str, Any] = _ask(self, "get_params")(deep=deep)
        return params

    def set_params(self, **params: Any) -> Self:
        """Set parameters by name; returns the estimator."""
        _ask(self, "set_params")(**params)
        return self

    def __sklearn_tags__(self) -> Any:
        return _ask(self, "__sklearn_tags__")()

    def __repr__(self) -> str:
        return repr(_visible_copy(self))

    def _repr_mimebundle_(self, **options: Any) -> dict[str, str]:
        """What notebooks show: scikit-learn's diagram with the parameters."""
        bundle: dict[str, str] = _visible_copy(self)._repr_mimebundle_(**options)
        return bundle

    def __getattr__(self, name: str) -> Any:
        """What else scikit-learn asks of an estimator (metadata routing, parts of its HTML), once it is loaded."""
        if isinstance(own := getattr(type(self), name, None), property):  # which raised AttributeError: say the same
            return own.__get__(self)
        base = getattr(sys.modules.get("sklearn.base"), "BaseEstimator", None)
        delegates = base is not None and not isinstance(self, base) and not name.startswith("__")
        if delegates:
            with suppress(AttributeError):
                return _ask(self, name)
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")


_twins: dict[type, Any] = {}


def _twin(kind: type) -> Any:
    """The same class with `BaseEstimator` before it: scikit-learn's printers look for that by type."""
    from sklearn.base import BaseEstimator  # noqa: PLC0415 - the point of this module

    if kind not in _twins:
        about = {"__module__": kind.__module__, "__doc__": kind.__doc__}
        _twins[kind] = type(kind.__name__, (BaseEstimator, kind), about)
    return _twins[kind]


def _ask(estimator: Any, name: str) -> Any:
    """An attribute as `BaseEstimator` has it, for this estimator."""
    twin = _twin(type(estimator))
    attribute = inspect.getattr_static(twin, name)
    return attribute.__get__(estimator, twin) if hasattr(attribute, "__get__") else attribute


def _visible_copy(estimator: Any) -> Any:
    """A copy that is a `BaseEstimator`."""
    shown = object.__new__(_twin(type(estimator)))
    vars(shown).update(vars(estimator))
    return shown


# ---- the rows of an estimator ----------------------------------------------------------------------------------------


def fit_data(estimator: Any, logits: Any, labels: Any, groups: Any = None) -> Logits:
    """Read labelled rows for `estimator.fit`."""
    data = as_logits(logits, labels, groups)
    data.require_labels(f"{type(estimator).__name__}.fit")
    judge_rows(data)
    return data


def split_data(part: Any, name: str) -> Logits:
    """Read one part of a split: labelled `Logits`, or a pair of arrays (logits, labels)."""
    if not isinstance(part, Logits | tuple) or (isinstance(part, tuple) and len(part) != 2):
        raise InputError(
            f"{name} must be Logits or a pair (logits, labels); got {type(part).__name__}. "
            "Use ts.Logits(logits, labels)."
        )
    data = as_logits(*part) if isinstance(part, tuple) else part
    data.require_labels(f"fit_split ({name} rows)")
    return data


def remember_classes(estimator: Any, n_classes: int, classes: tuple[str, ...] | None, input_kind: str) -> None:
    """Note what was fitted on; the last step of a fit, because it is what makes an estimator count as fitted."""
    estimator.input_kind_ = input_kind
    estimator.n_features_in_ = n_classes
    estimator.class_names_ = classes


def require_fitted(estimator: Any) -> None:
    """Refuse an estimator that is not fitted."""
    if not hasattr(estimator, "n_features_in_"):
        from sklearn.utils.validation import check_is_fitted  # noqa: PLC0415 - it raises scikit-learn's own error

        check_is_fitted(estimator, "n_features_in_")


def predict_data(estimator: Any, logits: Any, groups: Any = None, labels: Any = None) -> Logits:
    """Read rows for a fitted estimator; others than it was fitted on, by classes or by kind, are refused."""
    require_fitted(estimator)
    shape: tuple[int, ...] = getattr(logits, "shape", ())
    if len(shape) == 2:  # before `Logits`, which would only say that one column is too few
        _check_width(estimator, shape[1], logits.classes if isinstance(logits, Logits) else None, shape[0])
    if isinstance(logits, (list, tuple)) and not logits:  # no rows at all
        logits = np.empty((0, estimator.n_features_in_))
    named = labels is not None and estimator.class_names_ is not None
    own = None if named else labels
    whole = isinstance(logits, Logits)
    data = as_logits(logits, own, groups) if whole else checked_logits(logits, own, None, groups)
    fitted, classes = estimator.class_names_, data.classes
    if fitted is not None and classes is not None and classes != fitted and set(classes) == set(fitted):
        data = data.in_order(fitted)
    check_classes(estimator, data.n_classes, data.classes)
    if named:  # labels may be names that the estimator knows and the rows do not
        names = data.classes or estimator.class_names_
        data = with_columns(data, label_indices(labels, (data.n_rows, data.n_classes), names))
    kind, given_as = estimator.input_kind_, input_kind_of(data)
    few = given_as == LOGITS and kind != LOGITS and may_be(data, kind)  # rows, to be sure what they are
    if given_as != kind and not few:
        raise InputError(f"{type(estimator).__name__} was fitted on {_REFUSED[kind, given_as]}")
    return data


def check_classes(estimator: Any, n_classes: int, classes: tuple[str, ...] | None) -> None:
    """Refuse other classes than a fitted estimator has."""
    _check_width(estimator, n_classes, classes)
    for column, (name, fitted) in enumerate(zip(classes or (), estimator.class_names_ or (), strict=False)):
        if name != fitted:
            raise InputError(
                f"class names must be those {type(estimator).__name__} was fitted on, in the same order; "
                f"column {column} is {name!r} where it had {fitted!r}. Reorder the columns."
            )


_FROM = "Logits.from_probabilities (--probabilities for commands)"
_REFUSED = {
    (LOGITS, PROBABILITIES): f"logits, and these rows come from {_FROM}. Pass the logits of the model.",
    (LOGITS, AS_LOGITS): "logits, and these rows are probabilities: in [0, 1], summing to 1. Pass the model's logits.",
    (PROBABILITIES, LOGITS): f"probabilities, and these rows are logits. Pass probabilities, by {_FROM}.",
    (PROBABILITIES, AS_LOGITS): f"probabilities, and these rows are probabilities given as logits. Use {_FROM}.",
    (AS_LOGITS, LOGITS): "probabilities that were given as logits, and these rows are no probabilities.",
    (AS_LOGITS, PROBABILITIES): "probabilities that were given as logits, and these rows come from "
    f"{_FROM}. Fit it again in the same way.",
}
"""What to say by what an estimator was fitted on and what it was given."""


def _check_width(estimator: Any, n_classes: int, classes: tuple[str, ...] | None, n_rows: int = 0) -> None:
    name, expected, fitted = type(estimator).__name__, estimator.n_features_in_, estimator.class_names_
    if n_classes == expected:
        return
    wanted = "one logit for each class it was fitted on, in the same order."
    if n_classes == 1:
        wanted += " Pass scores of a binary model as Logits.from_binary(scores)."
    elif n_rows == expected:
        wanted += " Are the logits transposed? Pass logits.T."
    if more := [one for one in classes or () if one not in fitted] if fitted else []:
        wanted = not_a_class(more[0], "is none of the classes it was fitted on")
    raise InputError(f"X has {n_classes} features, but {name} is expecting {expected} features as input: {wanted}")
