"""MLflow: a fitted predictor as a model that MLflow stores, registers, loads and serves.

The model is the predictor's JSON document; nothing is pickled. Loaded as a `pyfunc`, it takes a frame with a column of
logits for each class and returns a frame: label, confidence, set, size, and the action where there is an answer rule.
"""

import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from thermoset._version import __version__
from thermoset.errors import InputError
from thermoset.integrations.batches import Predictor
from thermoset.io.files import FilePath, as_path, errors_about, need
from thermoset.predictor import TwoTemperaturePredictor

_DOCUMENT = "predictor.json"


def save_model(
    predictor: TwoTemperaturePredictor, path: FilePath, *, report: FilePath | None = None, mlflow_model: Any = None,
    signature: Any = None, pip_requirements: list[str] | None = None, **options: Any,
) -> None:  # fmt: skip
    """Write a fitted predictor as an MLflow model folder.

    Parameters
    ----------
    predictor : TwoTemperaturePredictor
    path : path
        The folder to write; it must not exist.
    report : path, optional
        The page that `thermoset tune` or `thermoset report` wrote; kept with the model as `data/model/report.html`.
    signature : mlflow.models.ModelSignature or False, optional
        By default a column of numbers for each class, called after it (`logit_0`, ... where classes have no names), and
        the columns that come back. MLflow then refuses other columns, and arrays. False: there is none, and the model
        takes arrays (n, C), too.
    pip_requirements : list of str, optional
        By default this version of thermoset.
    mlflow_model, **options
        As in `mlflow.pyfunc.save_model`.

    Examples
    --------
    >>> import tempfile, mlflow, thermoset as ts
    >>> from thermoset.integrations.mlflow import save_model
    >>> known, fresh = ts.datasets.load_glyphs().logits.split(0.5)
    >>> predictor = ts.TwoTemperaturePredictor("lac", alpha=0.1).fit(known)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     save_model(predictor, f"{folder}/model", signature=False)
    ...     model = mlflow.pyfunc.load_model(f"{folder}/model")
    >>> model.predict(fresh.logits[:3])["size"].tolist() == predictor.set_sizes(fresh.logits[:3]).tolist()
    True
    """
    mlflow = need("mlflow", "mlflow", "saving an MLflow model")
    pyfunc = need("mlflow.pyfunc", "mlflow", "saving an MLflow model")
    if not hasattr(predictor, "document_"):
        raise InputError("must be a fitted TwoTemperaturePredictor.", name="predictor")
    model = mlflow.models.Model() if mlflow_model is None else mlflow_model
    document = predictor.document_
    model.add_flavor(
        "thermoset", thermoset_version=__version__, data=f"data/model/{_DOCUMENT}", classes=document.n_classes
    )
    with tempfile.TemporaryDirectory() as folder:
        data = Path(folder, "model")
        data.mkdir()
        predictor.save(data / _DOCUMENT)
        if report is not None:
            page = as_path(report)
            with errors_about(page, "read"):
                shutil.copyfile(page, data / "report.html")
        pyfunc.save_model(
            str(as_path(path)),
            loader_module="thermoset.integrations.mlflow",
            data_path=str(data),
            mlflow_model=model,
            signature=_signature(predictor) if signature is None else signature,
            pip_requirements=[f"thermoset[io,mlflow]=={__version__}"] if pip_requirements is None else pip_requirements,
            **options,
        )


def log_model(predictor: TwoTemperaturePredictor, name: str = "thermoset", **options: Any) -> Any:
    """Log a fitted predictor to the active run, or to a new one; returns MLflow's `ModelInfo`.

    `options` are those of `save_model`, such as `report`, and of `mlflow.models.Model.log`, such as
    `registered_model_name`.
    """
    models = need("mlflow.models", "mlflow", "logging an MLflow model")
    return models.Model.log(artifact_path=None, name=name, flavor=sys.modules[__name__], predictor=predictor, **options)


def load_model(model_uri: str) -> TwoTemperaturePredictor:
    """The predictor itself, from a folder or any address that MLflow knows (`runs:/...`, `models:/...`)."""
    artifacts = need("mlflow.artifacts", "mlflow", "loading an MLflow model")
    return TwoTemperaturePredictor.load(Path(artifacts.download_artifacts(str(model_uri)), "data", "model", _DOCUMENT))


def _signature(predictor: TwoTemperaturePredictor) -> Any:
    """A number for each class in; a label, its confidence, the set and its size out."""
    models, types = need("mlflow.models", "mlflow", "an MLflow signature"), need("mlflow.types.schema", "mlflow", "it")
    document, column = predictor.document_, types.ColSpec
    names = [f"logit_{i}" for i in range(document.n_classes)] if document.classes is None else [*document.classes]
    inputs = [column("double", name) for name in names]
    if document.group_names is not None:
        inputs.append(column("string", "groups"))
    label = "long" if document.classes is None else "string"
    kinds = {"label": label, "confidence": "double", "set": types.Array(label), "size": "long"}
    kinds |= {} if document.answers is None else {"action": "string"}
    outputs = [column(kind, name) for name, kind in kinds.items()]
    return models.ModelSignature(inputs=types.Schema(inputs), outputs=types.Schema(outputs))


class _Served:
    """What MLflow loads: `predict` from frames and arrays to a frame."""

    def __init__(self, path: Path) -> None:
        self._predictor = TwoTemperaturePredictor.load(path)
        self._batches = Predictor(self._predictor, keep=[])

    def predict(self, model_input: Any, params: dict[str, Any] | None = None) -> Any:  # noqa: ARG002 - none are known
        """Predictions for logits: an array (n, C), or a frame with a column for each class or with a list column."""
        pandas = need("pandas", "mlflow", "an MLflow model")
        frame = model_input
        if not isinstance(frame, pandas.DataFrame):
            names = self._predictor.document_.classes or [f"logit_{i}" for i in range(np.shape(frame)[-1])]
            frame = pandas.DataFrame(np.asarray(frame), columns=[*names])
        predictions = self._batches(frame)
        predictions["size"] = predictions["size"].astype(np.int64)
        return predictions


def _load_pyfunc(path: str) -> _Served:
    """Called by MLflow with the path of the data."""
    return _Served(Path(path, _DOCUMENT))
