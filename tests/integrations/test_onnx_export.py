"""ONNX models: what they are made of, how they are joined to a classifier, what is refused."""

import json
import subprocess
import sys
import venv

import numpy as np
import pytest

from engines import by_onnx, session
from exports import predictor_at
from law import generated
from parts import missing, require
from thermoset import InputError, TwoTemperaturePredictor
from thermoset.predictor.document import checksum_of

onnx = require("onnx", "onnx")
require("onnxruntime", "test")
from onnx import TensorProto, helper, numpy_helper  # noqa: E402

from on_arrays import predict_sets  # noqa: E402
from thermoset.integrations.onnx import OPSETS, id_keys, to_onnx  # noqa: E402
from thermoset.uniforms import Randomness  # noqa: E402

pytestmark = pytest.mark.slow

N_CLASSES = 6
ROWS, LABELS = generated(2000, N_CLASSES, signal=0.5)
NAMES = ("cat", "dog", "Ärger", "<b>", "eel", "f")


@pytest.fixture(scope="module")
def predictor():
    return predictor_at(1.3, ROWS[:500], LABELS[:500], method="raps", names=NAMES)


def test_the_outside_of_a_model(predictor):
    model = to_onnx(predictor)
    shown = {value.name: (value.type, value.shape) for side in ("inputs", "outputs") for value in sides(model)[side]}
    assert shown == {
        "logits": ("tensor(float)", ["n", N_CLASSES]),
        "label": ("tensor(int64)", ["n"]),
        "confidence": ("tensor(double)", ["n"]),
        "probabilities": ("tensor(double)", ["n", N_CLASSES]),
        "sets": ("tensor(bool)", ["n", N_CLASSES]),
        "sizes": ("tensor(int64)", ["n"]),
    }
    assert {node.domain for node in model.graph.node} == {""}
    assert [(entry.domain, entry.version) for entry in model.opset_import] == [("", 18)]


def sides(model):
    run = session(model)
    return {"inputs": run.get_inputs(), "outputs": run.get_outputs()}


def test_metadata_leads_back_to_the_predictor(predictor):
    kept = session(to_onnx(predictor)).get_modelmeta().custom_metadata_map
    made = predictor.document_
    assert kept["thermoset.checksum"] == checksum_of(made)
    assert json.loads(kept["thermoset.classes"]) == list(NAMES)
    assert float(kept["thermoset.temperature"]) == made.temperature
    assert float(kept["thermoset.temperature_sets"]) == made.temperature_sets
    assert (kept["thermoset.alpha"], kept["thermoset.method"]) == ("0.1", "RAPS, T = 1.30, alpha 0.1")
    assert "thermoset.version" in kept


def test_the_checksum_is_that_of_the_saved_file(tmp_path):
    fitted = TwoTemperaturePredictor("aps", alpha="0.1").fit(ROWS, LABELS)
    fitted.save(tmp_path / "predictor.json")
    loaded = TwoTemperaturePredictor.load(tmp_path / "predictor.json")
    sealed = json.loads((tmp_path / "predictor.json").read_text())["checksum"]
    for one in (fitted, loaded):
        kept = session(to_onnx(one)).get_modelmeta().custom_metadata_map
        assert kept["thermoset.checksum"] == sealed


@pytest.mark.parametrize("opset", OPSETS)
def test_every_opset_gives_the_same(predictor, opset):
    if opset > onnx.defs.onnx_opset_version():
        pytest.skip("this onnx does not know the opset")
    model = to_onnx(predictor, opset=opset)
    (sets,) = session(model).run(["sets"], {"logits": ROWS.astype(np.float32)})
    np.testing.assert_array_equal(sets, predictor.predict_set(ROWS.astype(np.float32)))


@pytest.mark.parametrize("opset", [17, 27, 0, -1, True, 18.0, "18"])
def test_other_opsets_are_refused(predictor, opset):
    with pytest.raises(InputError, match="opset must be a whole number from 18 to"):
        to_onnx(predictor, opset=opset)


@pytest.mark.parametrize("n_rows", [0, 1, 7])
def test_any_number_of_rows(predictor, n_rows):
    found = by_onnx(predictor, ROWS[:n_rows])
    assert found["sets"].shape == (n_rows, N_CLASSES)
    if n_rows:
        np.testing.assert_array_equal(found["sets"], predictor.predict_set(ROWS[:n_rows]))


def test_half_precision_is_widened_exactly(predictor):
    rows = ROWS.astype(np.float16)
    np.testing.assert_array_equal(by_onnx(predictor, rows)["sets"], predictor.predict_set(rows))


def test_u_as_an_input(predictor):
    run, u = session(to_onnx(predictor, u="input", dtype="float64")), np.random.default_rng(0).random(len(ROWS))
    recipe, q = predictor.document_.recipe, predictor._inference.thresholds
    (expected,) = predict_sets(ROWS, recipe.set_score, recipe.temperature, Randomness(given=u), q)
    np.testing.assert_array_equal(run.run(["sets"], {"logits": ROWS, "u": u})[0], expected)


def test_ids_as_an_input(predictor):
    run, ids = session(to_onnx(predictor, u="ids", dtype="float64")), [f"row {i}" for i in range(len(ROWS))]
    (sets,) = run.run(["sets"], {"logits": ROWS, "id_keys": id_keys(ids)})
    np.testing.assert_array_equal(sets, predictor.predict_set(ROWS, ids=ids))


@pytest.mark.parametrize("recipe", [{"method": "lac"}, {"method": "aps", "randomized": False}])
def test_what_draws_no_u_has_no_input_for_it(recipe):
    model = to_onnx(predictor_at(1.0, ROWS[:500], LABELS[:500], **recipe), u="input")
    assert [value.name for value in model.graph.input] == ["logits"]


def test_rows_that_the_library_refuses_have_no_answer(predictor):
    rows = ROWS[:5].copy()
    rows[0, 2], rows[1, 3], rows[2] = np.nan, np.inf, -np.inf
    found = by_onnx(predictor, rows)
    assert found["label"][:3].tolist() == [-1, -1, -1]
    assert np.isnan(found["confidence"]).tolist() == [True, True, True, False, False]
    assert np.isnan(found["probabilities"]).all(axis=1).tolist() == [True, True, True, False, False]
    assert found["sizes"][:3].tolist() == [0, 0, 0]
    np.testing.assert_array_equal(found["sets"][3:], predictor.predict_set(rows[3:]))


def test_a_score_of_ones_own_is_refused():
    def mine(probs, rank, u):
        return rank - u * probs

    with pytest.raises(InputError, match=r"score 'mine' cannot be exported"):
        to_onnx(predictor_at(1.0, ROWS[:500], LABELS[:500], method=mine))


@pytest.mark.parametrize(
    ("given", "because"),
    [
        ({"dtype": "int8"}, "dtype must be"),
        ({"u": "rows"}, "u must be 'row'"),
        ({"logits": "x"}, "but no model was given"),
    ],
)
def test_other_parameters_are_refused(predictor, given, because):
    with pytest.raises(InputError, match=because):
        to_onnx(predictor, **given)


# Behind a classifier


def classifier(n_classes=N_CLASSES, *, opset=18, dtype=np.float32, end=None, output="logits", shape=("n", None)):
    """x (n, 4) -> x W + b, and an operator behind it; W and b are known."""
    rng = np.random.default_rng(2)
    weights, bias = rng.normal(size=(4, n_classes)).astype(dtype), rng.normal(size=n_classes).astype(dtype)
    kind = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    nodes = [
        helper.make_node("MatMul", ["x", "W"], ["xW"]),
        helper.make_node("Add", ["xW", "b"], ["scores" if end else output]),
        *([helper.make_node(end, ["scores"], [output])] if end else []),
    ]
    columns = n_classes if shape[1] is None else shape[1]
    graph = helper.make_graph(
        nodes,
        "classifier",
        [helper.make_tensor_value_info("x", kind, ["n", 4])],
        [helper.make_tensor_value_info(output, kind, [shape[0], columns])],
        [numpy_helper.from_array(weights, "W"), numpy_helper.from_array(bias, "b")],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8), weights, bias


X = np.random.default_rng(3).normal(size=(300, 4))


def assert_joined(model, predictor, logits, x):
    found = session(model).run(["sets", "label", "confidence"], {"x": x})
    np.testing.assert_array_equal(found[0], predictor.predict_set(logits))
    np.testing.assert_array_equal(found[1], predictor.predict(logits))


def logits_of(model, x, name="logits"):
    return session(model).run([name], {"x": x})[0]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("opset", [13, 18, 21])
def test_behind_a_classifier(predictor, opset, dtype, tmp_path):
    before, _, _ = classifier(opset=opset, dtype=dtype)
    onnx.save(before, tmp_path / "model.onnx")
    x = X.astype(dtype)
    model = to_onnx(predictor, tmp_path / "joined.onnx", after=tmp_path / "model.onnx")
    assert model.graph.output[0].name == "logits", "what the classifier gave is still given"
    assert_joined((tmp_path / "joined.onnx").read_bytes(), predictor, logits_of(before, x), x)
    assert before.graph.output[0].name == "logits"


def test_the_only_output_that_can_be_logits_is_found(predictor):
    before, _, _ = classifier(output="out7")
    assert_joined(
        to_onnx(predictor, after=before), predictor, logits_of(before, X.astype("f4"), "out7"), X.astype("f4")
    )


def test_names_that_clash_are_told_apart(predictor):
    before, _, _ = classifier(output="sets")
    model = to_onnx(predictor, after=before)
    assert [value.name for value in model.graph.output][:2] == ["classifier/sets", "label"]
    assert_joined(model, predictor, logits_of(before, X.astype("f4"), "sets"), X.astype("f4"))


@pytest.mark.parametrize("end", ["Softmax", "Sigmoid"])
def test_probabilities_are_not_taken_for_logits(predictor, end):
    before, _, _ = classifier(end=end)
    with pytest.raises(InputError, match=f"comes out of a {end}: those are probabilities"):
        to_onnx(predictor, after=before)
    scores = logits_of(to_onnx(predictor, after=before, logits="scores"), X.astype("f4"), "scores")
    assert_joined(to_onnx(predictor, after=before, logits="scores"), predictor, scores, X.astype("f4"))


def test_an_output_called_probabilities_is_not_taken_for_logits(predictor):
    before, _, _ = classifier(output="output_probability")
    with pytest.raises(InputError, match="it is not clear which output of the model holds the logits"):
        to_onnx(predictor, after=before)


@pytest.mark.parametrize(
    ("made", "because"),
    [
        (
            {"n_classes": 5},
            r"no output of the model holds the logits of 6 classes: it has 'logits' \(float, shape \(n, 5",
        ),
        ({"shape": ("n", 5)}, "no output of the model"),
    ],
)
def test_a_classifier_of_other_classes_is_refused(predictor, made, because):
    with pytest.raises(InputError, match=because):
        to_onnx(predictor, after=classifier(**made)[0])


def test_several_outputs_need_a_name(predictor):
    before, _, _ = classifier(output="one")
    before.graph.node.append(helper.make_node("Neg", ["one"], ["two"]))
    before.graph.output.append(helper.make_tensor_value_info("two", TensorProto.FLOAT, ["n", N_CLASSES]))
    with pytest.raises(InputError, match=r"'one'.*'two'.*Name the output"):
        to_onnx(predictor, after=before)
    x = X.astype("f4")
    assert_joined(to_onnx(predictor, after=before, logits="two"), predictor, -logits_of(before, x, "one"), x)
    with pytest.raises(InputError, match="the model has no output 'three'; it has 'one', 'two'"):
        to_onnx(predictor, after=before, logits="three")


def test_files_that_are_no_model(predictor, tmp_path):
    good = to_onnx(predictor).SerializeToString()
    for name, content in {
        "empty": b"",
        "text": b"{}",
        "cut": good[: len(good) // 2],
        "noise": bytes(range(256)),
    }.items():
        (tmp_path / name).write_bytes(content)
        with pytest.raises(InputError, match=f"{name}: is not an ONNX model, or is damaged"):
            to_onnx(predictor, tmp_path / "out.onnx", after=tmp_path / name)
    with pytest.raises(InputError, match=r"none.onnx: cannot be read"):
        to_onnx(predictor, tmp_path / "out.onnx", after=tmp_path / "none.onnx")
    assert not (tmp_path / "out.onnx").exists()


def test_a_target_that_cannot_be_written(predictor, tmp_path):
    with pytest.raises(InputError, match="does not exist"):
        to_onnx(predictor, tmp_path / "no" / "folder.onnx")
    assert list(tmp_path.iterdir()) == []


# Elsewhere

ELSEWHERE = """
import sys
import numpy as np
import onnxruntime
rows = np.load(sys.argv[2])
names = ["label", "confidence", "probabilities", "sets", "sizes"]
found = onnxruntime.InferenceSession(sys.argv[1], providers=["CPUExecutionProvider"]).run(names, {"logits": rows})
assert "thermoset" not in sys.modules
np.savez(sys.argv[3], **dict(zip(names, found)))
"""


@pytest.fixture(scope="module")
def bare_python(tmp_path_factory):
    """A new environment that holds onnxruntime, with what that needs, and nothing else."""
    folder = tmp_path_factory.mktemp("bare")
    venv.create(folder, with_pip=True)
    python = folder / ("Scripts" if sys.platform == "win32" else "bin") / "python"
    done = subprocess.run(
        [python, "-m", "pip", "install", "-q", "onnxruntime", "numpy"], capture_output=True, text=True, check=False
    )
    if done.returncode:
        missing(f"onnxruntime cannot be installed into a new environment: {done.stderr[-300:]}")
    return python


def test_a_file_answers_without_thermoset(predictor, bare_python, tmp_path):
    rows = ROWS.astype(np.float32)
    to_onnx(predictor, tmp_path / "predictor.onnx")
    np.save(tmp_path / "rows.npy", rows)
    arguments = [tmp_path / "predictor.onnx", tmp_path / "rows.npy", tmp_path / "found.npz"]
    subprocess.run([bare_python, "-c", ELSEWHERE, *arguments], check=True, cwd=tmp_path)
    with np.load(tmp_path / "found.npz") as found:
        np.testing.assert_array_equal(found["sets"], predictor.predict_set(rows))
        np.testing.assert_array_equal(found["label"], predictor.predict(rows))
        np.testing.assert_allclose(found["probabilities"], predictor.predict_proba(rows), rtol=0, atol=1e-12)
