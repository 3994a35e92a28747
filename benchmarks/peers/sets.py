"""Who makes prediction sets: each builder calibrates on labelled rows and returns what turns logits into sets."""

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import softmax

from benchmarks.peers.stand_ins import imported
from benchmarks.peers.temperatures import Rows

__all__ = ["SETS", "Predict"]

Predict = Callable[[NDArray[np.float32]], Any]
_Build = Callable[[Rows, float], Predict]


def _thermoset(method: str) -> _Build:
    def build(conformal: Rows, alpha: float) -> Predict:
        from thermoset import ConformalClassifier

        model = ConformalClassifier(method, alpha=alpha).fit(*conformal)
        model.predict_set(conformal[0][:100])  # compiles
        return model.predict_set

    return build


def _mapie(score: str) -> _Build:
    """Over a classifier whose input is logits; its softmax is in float64, which is in MAPIE's favour."""

    def build(conformal: Rows, alpha: float) -> Predict:
        from mapie.classification import SplitConformalClassifier
        from sklearn.base import BaseEstimator, ClassifierMixin

        class Softmax(ClassifierMixin, BaseEstimator):
            def __init__(self) -> None:
                self.classes_ = np.arange(conformal[0].shape[1])
                self.is_fitted_ = True

            def fit(self, _X: Any, _y: Any) -> "Softmax":
                return self

            def predict(self, X: NDArray[np.float32]) -> NDArray[np.int64]:
                return X.argmax(axis=1)

            def predict_proba(self, X: NDArray[np.float32]) -> NDArray[np.float64]:
                return _probabilities(X)

        model = SplitConformalClassifier(Softmax(), 1 - alpha, conformity_score=score, prefit=True, random_state=0)
        model.conformalize(*conformal)
        how = {"include_last_label": "randomized"} if score == "aps" else {}
        return lambda logits: model.predict_set(logits, how)[1][:, :, 0]

    return build


def _torchcp(score: str) -> _Build:
    def build(conformal: Rows, alpha: float) -> Predict:
        import torch

        scores = imported("torchcp.classification.score")
        predictor = imported("torchcp.classification.predictor").SplitPredictor
        made = scores.APS(randomized=True) if score == "aps" else scores.LAC()
        model = predictor(made, alpha=alpha)
        model.calculate_threshold(*(torch.from_numpy(array.copy()) for array in conformal))
        return lambda logits: model.predict_with_logits(torch.from_numpy(logits.copy())).numpy()

    return build


def _crepes(conformal: Rows, alpha: float) -> Predict:
    from crepes import ConformalClassifier
    from crepes.extras import hinge

    logits, labels = conformal
    model = ConformalClassifier()
    model.fit(hinge(_probabilities(logits), np.arange(logits.shape[1]), labels))
    return lambda rows: model.predict_set(1 - _probabilities(rows), confidence=1 - alpha, smoothing=False)


def _puncc(score: str) -> _Build:
    """Its sets are lists of labels, which is what is timed; they become booleans afterwards."""

    def build(conformal: Rows, alpha: float) -> Predict:
        from deel.puncc import classification
        from deel.puncc.api.prediction import BasePredictor

        class Softmax:
            def predict(self, X: NDArray[np.float32]) -> NDArray[np.float64]:
                return _probabilities(X)

        kind = classification.APS if score == "aps" else classification.LAC
        model = kind(BasePredictor(Softmax(), is_trained=True), train=False)
        model.fit(X_calib=conformal[0], y_calib=conformal[1])
        return lambda logits: model.predict(logits, alpha=alpha)[1]

    return build


def _torch_uncertainty(score: str) -> _Build:
    def build(conformal: Rows, alpha: float) -> Predict:
        import torch
        from torch.utils.data import DataLoader, TensorDataset

        rooms = imported("torch_uncertainty.post_processing")
        kind = rooms.ConformalClsAPS if score == "aps" else rooms.ConformalClsTHR
        model = kind(alpha=alpha, model=torch.nn.Identity(), enable_ts=False)
        model.fit(DataLoader(TensorDataset(*(torch.from_numpy(array.copy()) for array in conformal)), batch_size=4096))
        return lambda logits: model.conformal(torch.from_numpy(logits.copy())).numpy() > 0

    return build


def _probabilities(logits: NDArray[np.float32]) -> NDArray[np.float64]:
    probs: NDArray[np.float64] = softmax(logits.astype(np.float64), axis=1)
    return probs


SETS: dict[str, dict[str, _Build]] = {
    "thermoset": {"LAC": _thermoset("lac"), "APS": _thermoset("aps")},
    "MAPIE": {"LAC": _mapie("lac"), "APS": _mapie("aps")},
    "TorchCP": {"LAC": _torchcp("lac"), "APS": _torchcp("aps")},
    "crepes": {"LAC": _crepes},
    "puncc": {"LAC": _puncc("lac"), "APS": _puncc("aps")},
    "torch-uncertainty": {"LAC": _torch_uncertainty("lac"), "APS": _torch_uncertainty("aps")},
}
"""Libraries, and the scores of each that are measured; APS is randomised where the library can."""
