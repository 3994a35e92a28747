"""MLflow, with the real package: a model that is saved, logged, registered, loaded and served."""

import json

import numpy as np
import pytest

import thermoset as ts
from parts import require
from thermoset.errors import InputError
from thermoset.integrations import mlflow as door

mlflow = require("mlflow", "mlflow")
pd = require("pandas", "test")

pytestmark = [
    pytest.mark.long,
    pytest.mark.filterwarnings("ignore"),  # MLflow's own, of many kinds
]


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(0)
    labels = rng.integers(0, 4, size=2400)
    logits = 2 * (rng.normal(size=(2400, 4)) + 2 * np.eye(4)[labels])
    return ts.Logits(logits, labels, ["ant", "bee", "cow", "dog"])


@pytest.fixture(scope="module", params=["plain", "answers", "no names"])
def predictor(request, rows):
    if request.param == "no names":
        return ts.TwoTemperaturePredictor("aps").fit(rows.logits[:2000], rows.labels[:2000])
    answer = {"answer": "error<=0.05", "prefer": "small"} if request.param == "answers" else {}
    return ts.TwoTemperaturePredictor("lac", alpha=0.1, **answer).fit(rows.take(slice(0, 2000)))


@pytest.fixture
def tracking(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    mlflow.set_tracking_uri(f"file://{tmp_path}/runs")
    yield tmp_path
    mlflow.set_tracking_uri(None)


def same(found, predictor, logits):
    records = predictor.predict_records(logits)
    assert found["label"].tolist() == [record.label for record in records]
    assert found["confidence"].tolist() == [record.confidence for record in records]
    assert [tuple(some) for some in found["set"]] == [record.set for record in records]
    assert found["size"].tolist() == predictor.set_sizes(logits).tolist()
    if predictor.document_.answers is not None:
        assert found["action"].tolist() == predictor.predict_actions(logits).tolist()


def test_saved_models_give_the_same_answers(predictor, rows, tmp_path):
    door.save_model(predictor, tmp_path / "model")
    logits = rows.logits[2000:]
    model = mlflow.pyfunc.load_model(str(tmp_path / "model"))
    names = predictor.document_.classes or [f"logit_{i}" for i in range(4)]
    frame = pd.DataFrame(logits, columns=[*names])
    same(model.predict(frame), predictor, logits)
    same(model.predict(frame[frame.columns[::-1]]), predictor, logits)  # columns go by their names
    door.save_model(predictor, tmp_path / "bare", signature=False)
    same(mlflow.pyfunc.load_model(str(tmp_path / "bare")).predict(logits), predictor, logits)
    again = door.load_model(str(tmp_path / "model"))
    np.testing.assert_array_equal(again.predict_set(logits), predictor.predict_set(logits))


def test_nothing_is_pickled(predictor, rows, tmp_path):
    page = tmp_path / "page.html"
    page.write_text("<html></html>")
    door.save_model(predictor, tmp_path / "model", report=page)
    kinds = {path.suffix for path in (tmp_path / "model").rglob("*") if path.is_file()}
    assert not kinds & {".pkl", ".pickle", ".joblib", ".cloudpickle"}
    assert json.loads((tmp_path / "model/data/model/predictor.json").read_text())
    assert (tmp_path / "model/data/model/report.html").read_text() == "<html></html>"


def test_the_signature_says_what_comes_and_goes(predictor, tmp_path):
    door.save_model(predictor, tmp_path / "model")
    info = mlflow.models.get_model_info(str(tmp_path / "model"))
    names = predictor.document_.classes or tuple(f"logit_{i}" for i in range(4))
    assert tuple(info.signature.inputs.input_names()) == names
    outputs = info.signature.outputs.input_names()
    assert outputs[:4] == ["label", "confidence", "set", "size"]
    assert ("action" in outputs) == (predictor.document_.answers is not None)
    assert {"python_function", "thermoset"} <= set(info.flavors)
    model = mlflow.pyfunc.load_model(str(tmp_path / "model"))
    with pytest.raises(mlflow.exceptions.MlflowException):
        model.predict(pd.DataFrame(np.zeros((2, 2)), columns=["x", "y"]))


def test_a_model_is_logged(predictor, rows, tracking):
    page = tracking / "page.html"
    page.write_text("a page")
    with mlflow.start_run():
        info = door.log_model(predictor, report=page)
    model, logits = mlflow.pyfunc.load_model(info.model_uri), rows.logits[2000:]
    same(model.predict(pd.DataFrame(logits, columns=info.signature.inputs.input_names())), predictor, logits)
    np.testing.assert_array_equal(door.load_model(info.model_uri).predict_set(logits), predictor.predict_set(logits))


def test_what_is_not_fitted_is_refused(tmp_path):
    with pytest.raises(InputError) as error:
        door.save_model(ts.TwoTemperaturePredictor(), tmp_path / "model")
    assert error.value.name == "predictor"
    assert not (tmp_path / "model").exists()
