"""Who makes prediction sets: each builder calibrates on labelled rows and returns what turns logits into sets.

Libraries that take probabilities get them from PyTorch's softmax in double precision: on all threads, and as exact as a
softmax can be, which is in their favour.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from benchmarks.peers.stand_ins import imported
from benchmarks.peers.temperatures import Rows

__all__ = ["SETS", "Model"]

Logits = NDArray[np.float32]


class Model(NamedTuple):
    """What makes sets, and what turns logits into the type that it takes, which is not timed."""

    predict: Callable[[Any], Any]
    prepare: Callable[[Logits], Any] = lambda logits: logits


_Build = Callable[[Rows, float], Model]


def _thermoset(method: str) -> _Build:
    def build(conformal: Rows, alpha: float) -> Model:
        from thermoset import ConformalClassifier

        return Model(ConformalClassifier(method, alpha=alpha).fit(*conformal).predict_set)

    return build


def _mapie(score: str) -> _Build:
    """Over a classifier whose input is logits."""

    def build(conformal: Rows, alpha: float) -> Model:
        from mapie.classification import SplitConformalClassifier
        from sklearn.base import BaseEstimator, ClassifierMixin

        class Softmax(ClassifierMixin, BaseEstimator):
            def __init__(self) -> None:
                self.classes_ = np.arange(conformal[0].shape[1])
                self.is_fitted_ = True

            def fit(self, _X: Any, _y: Any) -> "Softmax":
                return self

            def predict(self, X: Logits) -> NDArray[np.int64]:
                return X.argmax(axis=1)

            def predict_proba(self, X: Logits) -> NDArray[np.float64]:
                return _probabilities(X)

        model = SplitConformalClassifier(Softmax(), 1 - alpha, conformity_score=score, prefit=True, random_state=0)
        model.conformalize(*conformal)
        how = {"include_last_label": "randomized"} if score == "aps" else {}
        return Model(lambda logits: model.predict_set(logits, how)[1][:, :, 0])

    return build


def _torchcp(score: str) -> _Build:
    def build(conformal: Rows, alpha: float) -> Model:
        scores = imported("torchcp.classification.score")
        predictor = imported("torchcp.classification.predictor").SplitPredictor
        score_object = scores.APS(randomized=True) if score == "aps" else scores.LAC()
        model = predictor(score_object, alpha=alpha)
        model.calculate_threshold(*(_tensor(array) for array in conformal))
        return Model(lambda logits: model.predict_with_logits(logits).numpy(), _tensor)

    return build


def _crepes(conformal: Rows, alpha: float) -> Model:
    """Its hinge score is LAC; it has no APS. Without smoothing, as its documentation advises for speed."""
    from crepes import ConformalClassifier
    from crepes.extras import hinge

    logits, labels = conformal
    model = ConformalClassifier()
    model.fit(hinge(_probabilities(logits), np.arange(logits.shape[1]), labels))
    return Model(
        lambda rows: model.predict_set(hinge(_probabilities(rows)), confidence=1 - alpha, smoothing=False),
    )


def _puncc(score: str) -> _Build:
    """Its sets are lists of labels, which is what is timed; they become booleans afterwards."""

    def build(conformal: Rows, alpha: float) -> Model:
        from deel.puncc import classification
        from deel.puncc.api.prediction import BasePredictor

        class Softmax:
            def predict(self, X: Logits) -> NDArray[np.float64]:
                return _probabilities(X)

        kind = classification.APS if score == "aps" else classification.LAC
        model = kind(BasePredictor(Softmax(), is_trained=True), train=False)
        model.fit(X_calib=conformal[0], y_calib=conformal[1])
        return Model(lambda logits: model.predict(logits, alpha=alpha)[1])

    return build


def _torch_uncertainty(score: str) -> _Build:
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


def _tensor(array: NDArray[Any]) -> Any:
    import torch

    return torch.from_numpy(array.copy())  # the rows are shared and cannot be written to, which PyTorch warns of


def _probabilities(logits: Logits) -> NDArray[np.float64]:
    import torch

    probs: NDArray[np.float64] = torch.softmax(torch.from_numpy(logits.astype(np.float64)), dim=1).numpy()
    return probs


SETS: dict[str, dict[str, _Build]] = {
    "thermoset": {"LAC": _thermoset("lac"), "APS": _thermoset("aps")},
    "MAPIE": {"LAC": _mapie("lac"), "APS": _mapie("aps")},
    "TorchCP": {"LAC": _torchcp("lac"), "APS": _torchcp("aps")},
    "crepes": {"LAC": _crepes},
    "puncc": {"LAC": _puncc("lac"), "APS": _puncc("aps")},
    "torch-uncertainty": {"LAC": _torch_uncertainty("lac"), "APS": _torch_uncertainty("aps")},
}
"""Libraries, and the scores of each that are measured; APS is randomised everywhere."""
