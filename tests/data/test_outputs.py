"""What frameworks return. Objects of the same shape everywhere; Hugging Face's own classes where they are installed."""

import subprocess
import sys
from collections import OrderedDict, namedtuple

import numpy as np
import pytest

import thermoset as ts
from parts import require
from thermoset.data import Logits, as_logits
from thermoset.errors import InputError

PredictionOutput = namedtuple("PredictionOutput", ["predictions", "label_ids", "metrics"])  # as in transformers
ROWS = np.float32([[2.0, 0.5, -1.0], [0.25, 1.25, -np.inf], [3.0, 2.0, 1.0]])
LABELS = np.array([0, 1, 2])


class EvalPrediction:
    """The shape of the object that `compute_metrics` gets: attributes, and a sequence at the same time."""

    def __init__(self, predictions, label_ids):
        self.predictions, self.label_ids = predictions, label_ids

    def __getitem__(self, place):
        return (self.predictions, self.label_ids)[place]


@pytest.fixture(params=["same shape", "transformers"])
def output(request):
    """Makes a PredictionOutput."""
    if request.param == "same shape":
        return lambda predictions, label_ids: PredictionOutput(predictions, label_ids, {"test_loss": 0.5})
    real = require("transformers.trainer_utils", "frameworks").PredictionOutput
    return lambda predictions, label_ids: real(predictions, label_ids, {"test_loss": 0.5})


def test_a_prediction_output_is_logits_and_labels(output):
    val = Logits(output(ROWS, LABELS), classes=["cat", "dog", "eel"])
    assert val == Logits(ROWS, LABELS, ["cat", "dog", "eel"])
    assert np.shares_memory(val.logits, ROWS)
    assert as_logits(output(ROWS, None)) == Logits(ROWS)
    assert Logits(output(ROWS.tolist(), LABELS.tolist())) == Logits(ROWS.tolist(), LABELS)


def test_labels_beside_an_output_must_be_its_own(output):
    assert Logits(output(ROWS, None), labels=LABELS) == Logits(ROWS, LABELS)
    assert Logits(output(ROWS, LABELS), labels=LABELS) == Logits(ROWS, LABELS)
    with pytest.raises(InputError, match="different labels"):
        Logits(output(ROWS, LABELS), labels=[0, 0, 0])


def test_the_one_matrix_among_predictions_is_the_logits(output):
    hidden = np.zeros((3, 5, 8), dtype=np.float32)
    assert Logits(output((ROWS, hidden), LABELS)) == Logits(ROWS, LABELS)
    assert Logits(output((np.float32(0.7), ROWS, (hidden, hidden)), LABELS)) == Logits(ROWS, LABELS)
    with pytest.raises(InputError, match=r"shapes \(3, 3\), \(3, 8\); expected exactly one \(rows, classes\)"):
        Logits(output((ROWS, hidden[:, 0]), LABELS))
    with pytest.raises(InputError, match=r"shapes \(3, 5, 8\), \(3, 5, 8\); expected exactly one"):
        Logits(output((hidden, hidden), LABELS))


@pytest.mark.parametrize("placeholder", [-1, -100])
def test_a_test_split_without_labels_has_none(output, placeholder):
    assert Logits(output(ROWS, np.full(3, placeholder))) == Logits(ROWS)
    with pytest.raises(InputError, match=rf"label_ids\[1\] is {placeholder}, which marks a row without a label; 1"):
        Logits(output(ROWS, np.array([0, placeholder, 2])))


@pytest.mark.parametrize(
    ("predictions", "labels", "said"),
    [
        (ROWS, np.eye(3), r"label_ids has shape \(3, 3\); expected one label per row. Multi-label"),
        (np.zeros((3, 5, 4)), np.full((3, 5), -100), r"label_ids has shape \(3, 5\).*for token labels, keep"),
        (ROWS, (LABELS, LABELS), "label_ids holds 2 arrays; expected one"),
        (np.zeros((3, 5, 4)), None, r"must be 2-D.*got shape \(3, 5, 4\)"),
        (np.zeros((3, 1)), np.zeros(3), "at least 2 classes"),
        (ROWS, LABELS[:2], r"labels must have shape \(3,\)"),
        (ROWS, np.array([0.5, 1.0, 2.0]), "whole numbers"),
        (np.full((3, 2), np.nan), LABELS, "is NaN"),
    ],
)
def test_outputs_that_are_no_classification_are_refused_in_one_line(output, predictions, labels, said):
    with pytest.raises(InputError, match=said) as caught:
        Logits(output(predictions, labels))
    assert "\n" not in str(caught.value)


@pytest.mark.slow
def test_what_compute_metrics_gets_is_read_too():
    assert Logits(EvalPrediction(ROWS, LABELS)) == Logits(ROWS, LABELS)
    real = require("transformers.trainer_utils", "frameworks").EvalPrediction
    assert Logits(real(predictions=ROWS, label_ids=LABELS)) == Logits(ROWS, LABELS)


def test_mappings_with_logits(tmp_path):
    plain = {"logits": ROWS, "labels": LABELS, "classes": ["a", "b", "c"], "loss": 0.5}
    assert Logits(plain) == Logits(ROWS, LABELS, ["a", "b", "c"])
    assert Logits(plain, classes=["x", "y", "z"]).classes == ("x", "y", "z")
    assert Logits(OrderedDict(loss=0.5, logits=ROWS, label=LABELS)) == Logits(ROWS, LABELS)
    np.savez(tmp_path / "val.npz", logits=ROWS, labels=LABELS)
    with np.load(tmp_path / "val.npz") as archive:
        assert Logits(archive) == Logits(ROWS, LABELS)
    with pytest.raises(InputError, match="got these keys: none"):
        Logits({})


def test_what_a_hugging_face_model_returns():
    torch, outputs = require("torch", "torch"), require("transformers.modeling_outputs", "frameworks")
    returned = outputs.SequenceClassifierOutput(loss=torch.tensor(0.5), logits=torch.tensor(ROWS, requires_grad=True))
    assert Logits(returned, LABELS) == Logits(ROWS, LABELS)


def test_a_frame_with_such_columns_is_a_frame():
    pandas = require("pandas", "test")
    frame = pandas.DataFrame({"predictions": [1.5, 2.0], "label_ids": [0.5, 0.25]})
    assert Logits(frame).classes == ("predictions", "label_ids")


def test_estimators_take_an_output_as_it_is(output):
    rng = np.random.default_rng(0)
    logits = rng.normal(size=(700, 4)) * 3
    labels = (logits + rng.gumbel(size=logits.shape)).argmax(axis=1)
    (logits, fresh), (labels, fresh_labels) = np.split(logits, [400]), np.split(labels, [400])
    given = ts.TwoTemperaturePredictor("aps").fit(output(logits, labels))
    plain = ts.TwoTemperaturePredictor("aps").fit(logits, labels)
    assert given.document_ == plain.document_
    unlabelled = output(logits, np.full(400, -100))
    assert np.array_equal(given.predict_set(unlabelled), plain.predict_set(logits))
    checked = given.check(output(fresh, fresh_labels)), plain.check(fresh, fresh_labels)
    assert checked[0].to_json_dict() == checked[1].to_json_dict()
    with pytest.raises(InputError, match="fit needs labels"):
        ts.TwoTemperaturePredictor("aps").fit(unlabelled)


def test_recognising_an_output_imports_nothing():
    code = (
        "import sys, collections, numpy as np, thermoset as ts\n"
        "make = collections.namedtuple('PredictionOutput', 'predictions label_ids metrics')\n"
        "ts.Logits(make(np.eye(2), np.arange(2), {}))\n"
        "assert not {'transformers', 'torch', 'lightning', 'pandas'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.slow
def test_trainer_predict_from_end_to_end(tmp_path):
    """A real `Trainer.predict` on a BERT of two tiny layers with random weights; nothing is downloaded."""
    torch, hugging = require("torch", "torch"), require("transformers", "frameworks")
    require("accelerate", "frameworks")
    torch.manual_seed(0)
    sizes = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 16}
    model = hugging.BertForSequenceClassification(hugging.BertConfig(vocab_size=50, num_labels=3, **sizes))
    words = torch.randint(0, 50, (40, 7))
    rows = [{"input_ids": ids, "labels": i % 3} for i, ids in enumerate(words)]
    options = hugging.TrainingArguments(
        output_dir=tmp_path, per_device_eval_batch_size=16, report_to=[], use_cpu=True, disable_tqdm=True
    )
    trainer = hugging.Trainer(model=model, args=options)
    output = trainer.predict(rows)
    val = Logits(output, classes=list(model.config.id2label.values()))
    model.eval()
    with torch.no_grad():
        expected = model(input_ids=words).logits.numpy()
    assert val.logits == pytest.approx(expected, abs=1e-5)
    assert val.labels.tolist() == [i % 3 for i in range(40)]
    assert val.classes == ("LABEL_0", "LABEL_1", "LABEL_2")


class JaxLike:
    """A jax.Array as far as reading goes: read-only memory, `__array__` in JAX's own types, `__dlpack__` besides.

    (JAX is not among what the tests install: it takes 400 MB. The real arrays were read the same way, once, by hand.)
    """

    def __init__(self, array):
        self.array = array
        self.array.flags.writeable = False
        self.shape, self.dtype, self.ndim = array.shape, array.dtype, array.ndim

    def __array__(self, dtype=None, copy=None):
        return self.array if dtype is None else self.array.astype(dtype)

    def __dlpack__(self, **kwargs):
        raise BufferError("bfloat16 has no place in NumPy")

    def __len__(self):
        return len(self.array)


@pytest.mark.parametrize("name", ["float32", "float16", "bfloat16", "float8_e4m3fn", "float8_e5m2"])
def test_arrays_in_the_types_of_jax(name):
    types = require("ml_dtypes", "test")
    dtype = np.dtype(getattr(types, name, name))
    rows = np.array([[2.0, 0.5, -1.0], [0.25, 1.25, 4.0]]).astype(dtype)  # exact in every one of these types
    labels = JaxLike(np.array([0, 2], dtype=np.int32))
    val = Logits(JaxLike(rows), labels)
    assert val.logits.dtype == (dtype if name in {"float32", "float16"} else np.float32)
    assert val.logits.tolist() == [[2.0, 0.5, -1.0], [0.25, 1.25, 4.0]]
    assert val.labels.tolist() == [0, 2]
    assert Logits({"logits": JaxLike(rows), "labels": labels}) == val
    assert Logits.from_choices([JaxLike(row.astype(np.float32)) for row in rows]).logits.tolist() == val.logits.tolist()


def test_an_array_that_is_being_traced_has_no_numbers():
    class Tracer:
        shape, ndim = (2, 3), 2

        def __array__(self, dtype=None, copy=None):
            raise TypeError("Abstract tracer value encountered where concrete value is expected")

    with pytest.raises(InputError, match=r"of type Tracer cannot be read \(Abstract tracer value"):
        Logits(Tracer())
