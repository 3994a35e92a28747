"""`thermoset export`."""

import json

import numpy as np
import pytest

from engines import session
from law import generated
from parts import require
from thermoset import TwoTemperaturePredictor
from thermoset.integrations.web import RUNTIME_FILES

pytestmark = pytest.mark.slow

onnx = require("onnx", "onnx")


@pytest.fixture(scope="module")
def fitted(tmp_path_factory):
    logits, labels = generated(1000, 5, signal=0.5)
    predictor = TwoTemperaturePredictor("aps", alpha="0.1").fit(logits, labels)
    path = tmp_path_factory.mktemp("export") / "predictor.json"
    predictor.save(path)
    return path, predictor, logits


def test_a_model_that_answers_as_the_predictor_does(command, fitted, tmp_path):
    path, predictor, logits = fitted
    out = tmp_path / "predictor.onnx"
    ended = command("export", path, "--out", out, "--dtype", "float64", "--opset", 20)
    assert (ended.returncode, ended.stderr) == (0, "")
    assert f"Wrote {out}" in ended.stdout
    assert "opset 20; in: logits; out: label, confidence, probabilities, sets, sizes" in ended.stdout
    (sets,) = session(out.read_bytes()).run(["sets"], {"logits": logits})
    np.testing.assert_array_equal(sets, predictor.predict_set(logits))


def test_a_torch_program(command, fitted, tmp_path):
    torch = require("torch", "torch")
    path, predictor, logits = fitted
    out = tmp_path / "predictor.pt2"
    ended = command("export", path, "--to", "torch", "--out", out, "--dtype", "float64")
    assert ended.returncode == 0, ended
    found = torch.export.load(out).module()(torch.from_numpy(logits))
    np.testing.assert_array_equal(found["sets"].numpy(), predictor.predict_set(logits))


def test_a_page(command, fitted, tmp_path):
    runtime, out = tmp_path / "package" / "dist", tmp_path / "page"
    runtime.mkdir(parents=True)
    for name in RUNTIME_FILES:
        (runtime / name).write_text(name)  # a browser reads the real ones: tests/browser/test_web_export.py
    ended = command("export", fitted[0], "--to", "web", "--out", out, "--runtime", runtime.parent, "--json")
    assert ended.returncode == 0, ended
    assert sorted(json.loads(ended.stdout)["files"]) == sorted(one.name for one in out.iterdir())
    (sets,) = session((out / "predictor.onnx").read_bytes()).run(["sets"], {"logits": fitted[2].astype(np.float64)})
    np.testing.assert_array_equal(sets, fitted[1].predict_set(fitted[2]))


@pytest.mark.parametrize(
    ("arguments", "because"),
    [
        (["--opset", 99], "opset must be a whole number from 18 to"),
        (["--to", "torch", "--opset", 18], "--opset"),
        (["--to", "web", "--dtype", "float32"], "--dtype"),
        (["--to", "web", "--runtime", "."], "does not hold"),
        (["--runtime", "."], "--runtime"),
        (["--logits", "z"], "but no model was given"),
        (["--after", "none.onnx"], "none.onnx"),
        (["--to", "coreml"], "coreml"),
    ],
)
def test_bad_input(call, fitted, tmp_path, arguments, because):
    out = tmp_path / "out.onnx"
    call("export", fitted[0], "--out", out, *arguments).assert_refused(because)
    assert not out.exists()


def test_a_damaged_predictor(call, fitted, tmp_path):
    path = tmp_path / "predictor.json"
    path.write_text(fitted[0].read_text().replace('"alpha": "0.1"', '"alpha": "0.2"', 1))
    call("export", path, "--out", tmp_path / "out.onnx").assert_refused("checksum does not match")


def test_the_predictor_is_not_overwritten(call, fitted):
    before = fitted[0].read_bytes()
    call("export", fitted[0], "--out", fitted[0]).assert_refused("is the file to read from")
    assert fitted[0].read_bytes() == before
