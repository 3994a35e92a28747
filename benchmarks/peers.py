"""Other libraries, each as a function that does the job on arrays; nothing is imported before it is asked for.

Each builder does what comes before the job (imports, conformal calibration) and returns the job to be timed,
or the ImportError that kept it from being built.
"""

import sys
import types
from collections.abc import Callable
from functools import wraps
from typing import Any, ParamSpec

import numpy as np
from numpy.typing import NDArray

from benchmarks.timing import Contender

__all__ = ["Rows", "mapie_aps", "probmetrics_temperature", "sklearn_temperature", "torchcp_aps"]

Rows = tuple[NDArray[np.float32], NDArray[np.int64]]
_P = ParamSpec("_P")


def _optional(build: Callable[_P, Contender]) -> Callable[_P, Contender | ImportError]:
    @wraps(build)
    def built(*args: _P.args, **kwargs: _P.kwargs) -> Contender | ImportError:
        try:
            return build(*args, **kwargs)
        except ImportError as error:
            return error

    return built


def _torch(threads: int) -> Any:
    import torch

    torch.set_num_threads(threads)
    return torch


@_optional
def sklearn_temperature(data: Rows) -> Contender:
    """The fit inside `CalibratedClassifierCV(method="temperature")`, called directly.

    That is in scikit-learn's favour: the public class adds cross-validated predictions, copies and checks that have
    nothing to do with the temperature. It works in the input's precision, here float32, and on one thread.
    """
    from sklearn.calibration import _TemperatureScaling

    return lambda: 1.0 / float(_TemperatureScaling().fit(*data).beta_)


@_optional
def probmetrics_temperature(data: Rows, threads: int) -> Contender:
    """Its default, bisection on the gradient; rows are given as logits, without its check of probabilities."""
    torch = _torch(threads)
    from probmetrics.calibrators.temperature_scaling import TemperatureScalingCalibrator
    from probmetrics.distributions import CategoricalLogits

    logits, labels = (torch.from_numpy(array.copy()) for array in data)

    def fit() -> float:
        calibrator = TemperatureScalingCalibrator().fit_torch(CategoricalLogits(logits), labels)
        return 1.0 / float(calibrator.invtemp_)

    return fit


@_optional
def mapie_aps(conformal: Rows, logits: NDArray[np.float32], alpha: float) -> Contender:
    """Randomised APS of MAPIE over a classifier whose input is logits."""
    from mapie.classification import SplitConformalClassifier
    from scipy.special import softmax
    from sklearn.base import BaseEstimator, ClassifierMixin

    class Softmax(ClassifierMixin, BaseEstimator):
        def __init__(self) -> None:
            self.classes_ = np.arange(logits.shape[1])
            self.is_fitted_ = True

        def fit(self, _X: Any, _y: Any) -> "Softmax":
            return self

        def predict(self, X: NDArray[np.float32]) -> NDArray[np.int64]:
            return X.argmax(axis=1)

        def predict_proba(self, X: NDArray[np.float32]) -> NDArray[np.float32]:
            return softmax(X, axis=1)

    model = SplitConformalClassifier(Softmax(), 1 - alpha, conformity_score="aps", prefit=True, random_state=0)
    model.conformalize(*conformal)
    return lambda: model.predict_set(logits, {"include_last_label": "randomized"})[1][:, :, 0]


@_optional
def torchcp_aps(conformal: Rows, logits: NDArray[np.float32], alpha: float, threads: int) -> Contender:
    """Randomised APS of TorchCP, from logits to a 0/1 tensor."""
    torch = _torch(threads)
    aps, predictor = _import_torchcp()
    model = predictor(aps(randomized=True), alpha=alpha)
    model.calculate_threshold(*(torch.from_numpy(array.copy()) for array in conformal))
    rows = torch.from_numpy(logits.copy())
    return lambda: model.predict_with_logits(rows)


def _import_torchcp() -> tuple[Any, Any]:
    """APS and SplitPredictor, with empty stand-ins for what `import torchcp` demands and these two never touch.

    `import torchcp` imports its graph, language-model and training parts, and with them packages that cannot all
    be installed on a plain CPU machine. Only names are taken from them while importing; the
    score and the predictor measured here are TorchCP's own code. The stand-ins are withdrawn afterwards.
    """

    class StandIn(types.ModuleType):
        def __getattr__(self, name: str) -> type:
            if name.startswith("__"):
                raise AttributeError(name)
            return type(name, (), {})

    wanted = [
        "torchsort",
        "torchvision",
        "transformers",
        *("torch_geometric" + part for part in ("", ".nn", ".loader", ".utils", ".utils.convert")),
    ]
    absent = [name for name in wanted if not _importable(name.split(".")[0])]
    sys.modules.update({name: StandIn(name) for name in absent})
    try:
        from torchcp.classification.predictor import SplitPredictor
        from torchcp.classification.score import APS
    finally:
        for name in absent:
            del sys.modules[name]
    return APS, SplitPredictor


def _importable(package: str) -> bool:
    try:
        __import__(package)
    except ImportError:
        return False
    return True
