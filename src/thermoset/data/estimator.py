"""The base class of the estimators: scikit-learn's grammar, without scikit-learn until somebody asks for it.

Importing `sklearn.base` takes longer than a server needs to load a predictor and answer. So the estimators do not
inherit from `BaseEstimator`: what it does is looked up there when it is called. There is no copy of it here.
"""

import inspect
import sys
from contextlib import suppress
from typing import Any, Self

__all__ = ["Estimator"]


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
        found: dict[str, Any] = _ask(self, "get_params")(deep=deep)
        return found

    def set_params(self, **params: Any) -> Self:
        """Set parameters by name; returns the estimator."""
        _ask(self, "set_params")(**params)
        return self

    def __sklearn_tags__(self) -> Any:
        return _ask(self, "__sklearn_tags__")()

    def __repr__(self) -> str:
        return repr(_shown(self))

    def _repr_mimebundle_(self, **options: Any) -> dict[str, str]:
        """What notebooks show: scikit-learn's diagram with the parameters."""
        bundle: dict[str, str] = _shown(self)._repr_mimebundle_(**options)
        return bundle

    def __getattr__(self, name: str) -> Any:
        """What else scikit-learn asks of an estimator (metadata routing, parts of its HTML), once it is loaded."""
        if isinstance(own := getattr(type(self), name, None), property):  # which raised AttributeError: say the same
            return own.__get__(self)
        base = getattr(sys.modules.get("sklearn.base"), "BaseEstimator", None)
        asked = base is not None and not isinstance(self, base) and not name.startswith("__")
        if asked:
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
    found = inspect.getattr_static(twin, name)
    return found.__get__(estimator, twin) if hasattr(found, "__get__") else found


def _shown(estimator: Any) -> Any:
    """A copy that is a `BaseEstimator`."""
    shown = object.__new__(_twin(type(estimator)))
    vars(shown).update(vars(estimator))
    return shown
