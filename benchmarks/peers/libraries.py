"""The libraries, called as their documentation says: temperatures, prediction sets, confidences.

A builder gets labelled rows, imports what it needs, and returns what is timed. This module itself imports NumPy alone,
so that a fresh process that makes sets with one library imports no other.

TorchCP and torch-uncertainty import torchvision, torch_geometric and others at the top, which cannot all be installed
on a plain CPU machine and are not used here. Stand-ins take their place during the import; what is measured is the
libraries' own code.
"""

import importlib
import sys
import types
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

__all__ = ["CONFIDENCES", "SETS", "TEMPERATURES", "Confidence", "Model", "Rows", "imported"]

Logits = NDArray[np.float32]
Rows = tuple[Logits, NDArray[np.int64]]

_WARM_UP = 100  # rows
_MOST_STAND_INS = 100  # of one library


# --- Temperatures: the fit to be timed, which gives T.


def _thermoset_temperature(rows: Rows) -> Callable[[], float]:
    from thermoset import TemperatureScaler

    TemperatureScaler().fit(rows[0][:_WARM_UP], rows[1][:_WARM_UP])  # compiles
    return lambda: float(TemperatureScaler().fit(*rows).temperature_)


def _sklearn_temperature(rows: Rows) -> Callable[[], float]:
    """The fit inside `CalibratedClassifierCV(method="temperature")`, called directly.

    That is in scikit-learn's favour: the public class adds cross-validated predictions, copies and checks.
    """
    from sklearn.calibration import _TemperatureScaling

    return lambda: 1.0 / float(_TemperatureScaling().fit(*rows).beta_)


def _probmetrics_temperature(rows: Rows) -> Callable[[], float]:
    """Its default, bisection on the gradient; rows are given as logits, without its check of probabilities."""
    from probmetrics.calibrators.temperature_scaling import TemperatureScalingCalibrator
    from probmetrics.distributions import CategoricalLogits

    logits, labels = (_tensor(array) for array in rows)
    return lambda: 1.0 / float(TemperatureScalingCalibrator().fit_torch(CategoricalLogits(logits), labels).invtemp_)


def _netcal_temperature(rows: Rows) -> Callable[[], float]:
    """Maximum likelihood, its default; it takes probabilities."""
    from netcal.scaling import TemperatureScaling

    probs = softmax(rows[0])

    def fit() -> float:
        scaling = TemperatureScaling()
        scaling.fit(probs, rows[1])
        return 1.0 / float(np.asarray(scaling.temperature).ravel()[0])

    return fit


def _lbfgs(line_search: bool) -> Callable[[Rows], Callable[[], float]]:
    """What many projects write by hand: LBFGS on the cross entropy.

    Without a line search it has the settings of Guo et al.'s published code (a rate of 0.01, 50 steps); with one it has
    PyTorch's default rate, and stops by itself.
    """

    def build(rows: Rows) -> Callable[[], float]:
        import torch

        logits, labels = (_tensor(array) for array in rows)
        options = {"line_search_fn": "strong_wolfe"} if line_search else {"lr": 0.01}

        def fit() -> float:
            temperature = torch.nn.Parameter(torch.ones(1) * 1.5)
            optimizer = torch.optim.LBFGS([temperature], max_iter=50, **options)

            def loss() -> Any:
                optimizer.zero_grad()
                value = torch.nn.functional.cross_entropy(logits / temperature, labels)
                value.backward()
                return value

            optimizer.step(loss)
            return float(temperature.detach())

        return fit

    return build


TEMPERATURES: dict[str, Callable[[Rows], Callable[[], float]]] = {
    "thermoset": _thermoset_temperature,
    "scikit-learn": _sklearn_temperature,
    "probmetrics": _probmetrics_temperature,
    "netcal": _netcal_temperature,
    "torch LBFGS": _lbfgs(line_search=True),
    "torch LBFGS, Guo et al.": _lbfgs(line_search=False),
}


# --- Prediction sets: calibrated on labelled rows, what turns logits into sets.


class Model(NamedTuple):
    """What makes sets, and what turns logits into the type that it takes, which is not timed."""

    predict: Callable[[Any], Any]
    prepare: Callable[[Logits], Any] = lambda logits: logits


_SetBuilder = Callable[[Rows, float], Model]


def _thermoset_sets(method: str) -> _SetBuilder:
    def build(conformal: Rows, alpha: float) -> Model:
        from thermoset import ConformalClassifier

        return Model(ConformalClassifier(method, alpha=alpha).fit(*conformal).predict_set)

    return build


def _mapie_sets(score: str) -> _SetBuilder:
    def build(conformal: Rows, alpha: float) -> Model:
        from mapie.classification import SplitConformalClassifier

        estimator = _softmax_estimator(conformal[0].shape[1])
        model = SplitConformalClassifier(estimator, 1 - alpha, conformity_score=score, prefit=True, random_state=0)
        model.conformalize(*conformal)
        how = {"include_last_label": "randomized"} if score == "aps" else {}
        return Model(lambda logits: model.predict_set(logits, how)[1][:, :, 0])

    return build


def _torchcp_sets(score: str) -> _SetBuilder:
    def build(conformal: Rows, alpha: float) -> Model:
        scores = imported("torchcp.classification.score")
        predictor = imported("torchcp.classification.predictor").SplitPredictor
        model = predictor(scores.APS(randomized=True) if score == "aps" else scores.LAC(), alpha=alpha)
        model.calculate_threshold(*(_tensor(array) for array in conformal))
        return Model(lambda logits: model.predict_with_logits(logits).numpy(), _tensor)

    return build


def _crepes_sets(conformal: Rows, alpha: float) -> Model:
    """Its hinge score is LAC; it has no APS. Without smoothing, as its documentation advises for speed."""
    from crepes import ConformalClassifier
    from crepes.extras import hinge

    logits, labels = conformal
    model = ConformalClassifier()
    model.fit(hinge(softmax(logits), np.arange(logits.shape[1]), labels))
    return Model(lambda rows: model.predict_set(hinge(softmax(rows)), confidence=1 - alpha, smoothing=False))


def _puncc_sets(score: str) -> _SetBuilder:
    """Over a predictor whose input is logits; it returns lists of labels."""

    def build(conformal: Rows, alpha: float) -> Model:
        from deel.puncc import classification
        from deel.puncc.api.prediction import BasePredictor

        class Softmax:
            def predict(self, X: Logits) -> NDArray[np.float64]:
                return softmax(X)

        kind = classification.APS if score == "aps" else classification.LAC
        model = kind(BasePredictor(Softmax(), is_trained=True), train=False)
        model.fit(X_calib=conformal[0], y_calib=conformal[1])
        return Model(lambda logits: model.predict(logits, alpha=alpha)[1])

    return build


def _torch_uncertainty_sets(score: str) -> _SetBuilder:
    """Without its temperature scaling, which it would do first; a class is in the set where its share is not zero."""

    def build(conformal: Rows, alpha: float) -> Model:
        import torch
        from torch.utils.data import DataLoader, TensorDataset

        package = imported("torch_uncertainty.post_processing")
        kind = package.ConformalClsAPS if score == "aps" else package.ConformalClsTHR
        model = kind(alpha=alpha, model=torch.nn.Identity(), enable_ts=False)
        model.fit(DataLoader(TensorDataset(*(_tensor(array) for array in conformal)), batch_size=4096))
        return Model(lambda logits: model.conformal(logits).numpy() > 0, _tensor)

    return build


SETS: dict[str, dict[str, _SetBuilder]] = {
    "thermoset": {"LAC": _thermoset_sets("lac"), "APS": _thermoset_sets("aps")},
    "MAPIE": {"LAC": _mapie_sets("lac"), "APS": _mapie_sets("aps")},
    "TorchCP": {"LAC": _torchcp_sets("lac"), "APS": _torchcp_sets("aps")},
    "crepes": {"LAC": _crepes_sets},
    "puncc": {"LAC": _puncc_sets("lac"), "APS": _puncc_sets("aps")},
    "torch-uncertainty": {"LAC": _torch_uncertainty_sets("lac"), "APS": _torch_uncertainty_sets("aps")},
}
"""Libraries, and the scores of each that are measured; APS is randomised everywhere."""


# --- Confidences: fitted to labelled rows, what gives the label that is predicted and how likely it is right.


class Confidence(NamedTuple):
    """The label that is predicted for each row, and its confidence."""

    label: NDArray[np.int64]
    value: NDArray[np.float64]


_ConfidenceBuilder = Callable[[Rows], Callable[[Logits], Confidence]]


def _thermoset_confidence(rows: Rows) -> Callable[[Logits], Confidence]:
    """The three steps of calibration="auto"."""
    from benchmarks.calibrators import auto

    predict = auto(*rows, 0)
    return lambda logits: _top_of(*predict(logits))


def _sklearn_confidence(rows: Rows) -> Callable[[Logits], Confidence]:
    """One temperature, by the fit inside `CalibratedClassifierCV`, which itself refuses rows without some class."""
    temperature = _sklearn_temperature(rows)()
    return lambda logits: _top_of(softmax(logits / np.float32(temperature)))


def _mapie_confidence(calibrator: str) -> _ConfidenceBuilder:
    """A map for each predicted class; the columns of the other classes are not numbers."""

    def build(rows: Rows) -> Callable[[Logits], Confidence]:
        from mapie.calibration import TopLabelCalibrator

        model = TopLabelCalibrator(_softmax_estimator(rows[0].shape[1]), calibrator, cv="prefit").fit(*rows)

        def predict(logits: Logits) -> Confidence:
            return Confidence(logits.argmax(axis=1), np.nanmax(model.predict_proba(logits), axis=1))

        return predict

    return build


def _netcal_confidence(module: str, kind: str) -> _ConfidenceBuilder:
    """Confidence calibration, as in its README: the largest probability, and whether the label was right."""

    def build(rows: Rows) -> Callable[[Logits], Confidence]:
        model = getattr(importlib.import_module(f"netcal.{module}"), kind)()
        top = _top_of(softmax(rows[0]))
        model.fit(top.value, (top.label == rows[1]).astype(int))

        def predict(logits: Logits) -> Confidence:
            top = _top_of(softmax(logits))
            return Confidence(top.label, np.asarray(model.transform(top.value), dtype=np.float64).ravel())

        return predict

    return build


def _probmetrics_confidence(kind: str) -> _ConfidenceBuilder:
    def build(rows: Rows) -> Callable[[Logits], Confidence]:
        from probmetrics.calibrators import get_calibrator
        from probmetrics.distributions import CategoricalLogits

        model = get_calibrator(kind)
        model.fit_torch(CategoricalLogits(_tensor(rows[0])), _tensor(rows[1]))
        return lambda logits: _top_of(
            model.predict_proba_torch(CategoricalLogits(_tensor(logits))).get_probs().numpy().astype(np.float64)
        )

    return build


CONFIDENCES: dict[str, _ConfidenceBuilder] = {
    "thermoset": _thermoset_confidence,
    "scikit-learn, temperature": _sklearn_confidence,
    "MAPIE, top-label sigmoid": _mapie_confidence("sigmoid"),
    "MAPIE, top-label isotonic": _mapie_confidence("isotonic"),
    "netcal, histogram": _netcal_confidence("binning", "HistogramBinning"),
    "netcal, isotonic": _netcal_confidence("binning", "IsotonicRegression"),
    "netcal, beta": _netcal_confidence("scaling", "BetaCalibration"),
    "probmetrics, SVS": _probmetrics_confidence("svs"),
}


# --- What several of them need.


def softmax(logits: NDArray[Any]) -> NDArray[np.float64]:
    """In double precision, for libraries that take probabilities."""
    weights = logits.astype(np.float64)
    weights -= weights.max(axis=1, keepdims=True)
    np.exp(weights, out=weights)
    weights /= weights.sum(axis=1, keepdims=True)
    return weights


def _softmax_estimator(n_classes: int) -> Any:
    """A fitted scikit-learn classifier whose input is logits."""
    from sklearn.base import BaseEstimator, ClassifierMixin

    class Softmax(ClassifierMixin, BaseEstimator):
        def __init__(self) -> None:
            self.classes_ = np.arange(n_classes)
            self.is_fitted_ = True

        def fit(self, _X: Any, _y: Any) -> "Softmax":
            return self

        def predict(self, X: Logits) -> NDArray[np.int64]:
            return X.argmax(axis=1)

        def predict_proba(self, X: Logits) -> NDArray[np.float64]:
            return softmax(X)

    return Softmax()


def _top_of(probs: NDArray[np.float64], label: NDArray[np.int64] | None = None) -> Confidence:
    label = probs.argmax(axis=1) if label is None else label
    return Confidence(label, probs[np.arange(len(probs)), label])


def _tensor(array: NDArray[Any]) -> Any:
    import torch

    return torch.from_numpy(array.copy())  # the rows are shared and cannot be written to, which PyTorch warns of


class _StandIn(types.ModuleType):
    __path__: list[str] = []  # noqa: RUF012 (what Python looks for in a package)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return type(name, (), {})


def imported(module: str) -> Any:
    """A module of a library, with stand-ins for whatever the library misses while it is imported."""
    package = module.split(".", maxsplit=1)[0]
    if find_spec(package) is None:
        raise ImportError(f"{package} is not installed")
    return sys.modules.get(module) or _import_with_stand_ins(module, package)


def _import_with_stand_ins(module: str, package: str) -> Any:
    with _stand_ins() as absent:
        for _ in range(_MOST_STAND_INS):
            try:
                return importlib.import_module(module)
            except ModuleNotFoundError as error:
                if error.name is None or error.name.startswith(package):
                    raise
                _stand_in(error.name, absent)
                for name in [name for name in sys.modules if name.split(".")[0] == package]:
                    del sys.modules[name]
    raise ImportError(f"{package} misses more than {_MOST_STAND_INS} modules")


@contextmanager
def _stand_ins() -> Iterator[list[str]]:
    absent: list[str] = []
    try:
        yield absent
    finally:
        for name in absent:
            sys.modules.pop(name, None)


def _stand_in(name: str, absent: list[str]) -> None:
    module = sys.modules[name] = _StandIn(name)
    absent.append(name)
    parent, _, own = name.rpartition(".")
    if parent in sys.modules:
        setattr(sys.modules[parent], own, module)
