"""Who fits a temperature: each builder imports what it needs and returns the fit to be timed, which gives T."""

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import softmax

__all__ = ["TEMPERATURES", "Rows"]

Rows = tuple[NDArray[np.float32], NDArray[np.int64]]
_Fit = Callable[[], float]


def _thermoset(rows: Rows) -> _Fit:
    from thermoset import TemperatureScaler

    TemperatureScaler().fit(rows[0][:100], rows[1][:100])  # compiles
    return lambda: float(TemperatureScaler().fit(*rows).temperature_)


def _sklearn(rows: Rows) -> _Fit:
    """The fit inside `CalibratedClassifierCV(method="temperature")`, called directly.

    That is in scikit-learn's favour: the public class adds cross-validated predictions, copies and checks.
    """
    from sklearn.calibration import _TemperatureScaling

    return lambda: 1.0 / float(_TemperatureScaling().fit(*rows).beta_)


def _probmetrics(rows: Rows) -> _Fit:
    """Its default, bisection on the gradient; rows are given as logits, without its check of probabilities."""
    import torch
    from probmetrics.calibrators.temperature_scaling import TemperatureScalingCalibrator
    from probmetrics.distributions import CategoricalLogits

    logits, labels = (torch.from_numpy(array.copy()) for array in rows)
    return lambda: 1.0 / float(TemperatureScalingCalibrator().fit_torch(CategoricalLogits(logits), labels).invtemp_)


def _netcal(rows: Rows) -> _Fit:
    """Maximum likelihood, its default; it takes probabilities."""
    from netcal.scaling import TemperatureScaling

    probs = softmax(rows[0].astype(np.float64), axis=1)

    def fit() -> float:
        scaling = TemperatureScaling()
        scaling.fit(probs, rows[1])
        return 1.0 / float(np.asarray(scaling.temperature).ravel()[0])

    return fit


def _lbfgs(line_search: bool) -> Callable[[Rows], _Fit]:
    """What many projects write by hand: LBFGS on the cross entropy.

    Without a line search it has the settings of Guo et al.'s published code (a rate of 0.01, 50 steps); with one it has
    PyTorch's default rate, and stops by itself.
    """

    def build(rows: Rows) -> _Fit:
        import torch

        logits, labels = (torch.from_numpy(array.copy()) for array in rows)
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


TEMPERATURES: dict[str, Callable[[Rows], _Fit]] = {
    "thermoset": _thermoset,
    "scikit-learn": _sklearn,
    "probmetrics": _probmetrics,
    "netcal": _netcal,
    "torch LBFGS": _lbfgs(line_search=True),
    "torch LBFGS, Guo et al.": _lbfgs(line_search=False),
}
