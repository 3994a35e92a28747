"""`--weights`: a column of weights for `recalibrate`, `predict` and `check`, from any kind of file, one or many."""

import json

import numpy as np
import pytest

import thermoset as ts
from law import generated
from thermoset.errors import InputError
from thermoset.integrations.batches import Predictor
from thermoset.predictor.many_files import predict_shards
from thermoset.report import build_report

pytestmark = pytest.mark.slow

LOGITS, LABELS = generated(900, 4, signal=0.5)
WEIGHTS = np.exp(-LOGITS.max(axis=1) / 10)


def write(path, rows):
    if path.suffix == ".csv":
        names = ["a", "b", "c", "d", "label", "importance"]
        cells = np.column_stack([LOGITS[rows], LABELS[rows], WEIGHTS[rows]]).tolist()
        lines = [",".join([*map(repr, row[:4]), f"{row[4]:.0f}", repr(row[5])]) for row in cells]
        path.write_text("\n".join([",".join(names), *lines]) + "\n")
    else:
        np.savez(path, logits=LOGITS[rows], labels=LABELS[rows], classes=list("abcd"), importance=WEIGHTS[rows])
    return path


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    where = tmp_path_factory.mktemp("weights")
    made = ts.TwoTemperaturePredictor("lac").fit(ts.Logits(LOGITS[:300], LABELS[:300], list("abcd")))
    made.save(where / "plain.json")
    made.recalibrate(ts.Logits(LOGITS[300:600], LABELS[300:600]), weights=WEIGHTS[300:600])
    made.save(where / "weighted.json")
    return where


@pytest.mark.parametrize("suffix", [".npz", ".csv"])
def test_recalibrate_predict_and_check(call, folder, tmp_path, suffix):
    conformal = write(tmp_path / f"conformal{suffix}", slice(300, 600))
    fresh = write(tmp_path / f"fresh{suffix}", slice(600, 900))
    named = ["--weights", "importance", "--quiet"]
    done = call("adapt", folder / "plain.json", conformal, "--out", tmp_path / "w.json", *named)
    assert done.returncode == 0, done.stderr
    assert "300 rows are worth" in done.words
    model = ts.TwoTemperaturePredictor.load(tmp_path / "w.json")
    assert model.document_.scores.weights is not None
    assert model.document_.scores == ts.TwoTemperaturePredictor.load(folder / "weighted.json").document_.scores
    done = call("predict", tmp_path / "w.json", fresh, "--out", tmp_path / "sets.jsonl", "--p-values", *named)
    assert done.returncode == 0, done.stderr
    assert "(effective sample size)" in done.words
    found = [json.loads(line)["set"] for line in (tmp_path / "sets.jsonl").read_text().splitlines()]
    records = model.predict_records(LOGITS[600:], weights=WEIGHTS[600:])
    assert found == [list(record.set) for record in records]
    done = call("check", tmp_path / "w.json", fresh, "--json", *named)
    assert done.returncode == 0, done.stderr
    report = model.check(LOGITS[600:], LABELS[600:], weights=WEIGHTS[600:])
    assert json.loads(done.stdout)["marginal"]["hits"] == report.marginal.hits


def test_many_files(folder, tmp_path, monkeypatch):
    """Blocks of a few rows, in several files, have the weights of their own rows; large ones let all labels in."""
    (tmp_path / "in").mkdir()
    weights = np.where(np.random.default_rng(0).random(300) < 0.3, 1e6, 1.0)
    for i in range(3):
        rows = slice(100 * i, 100 * i + 100)
        np.savez(tmp_path / "in" / f"part-{i}.npz", logits=LOGITS[600:][rows], importance=weights[rows])
    model = ts.TwoTemperaturePredictor.load(folder / "weighted.json")
    monkeypatch.setattr("thermoset.predictor.many_files.BLOCK_BYTES", 8 * LOGITS.shape[1] * 7)
    predict_shards(model, tmp_path / "in", tmp_path / "out", kind="jsonl", weights="importance")
    lines = [line for i in range(3) for line in (tmp_path / "out" / f"part-{i}.jsonl").read_text().splitlines()]
    records = model.predict_records(LOGITS[600:], weights=weights)
    assert [json.loads(line)["set"] for line in lines] == [list(record.set) for record in records]
    with pytest.raises(InputError, match="weights"):
        predict_shards(model, tmp_path / "in", tmp_path / "out", kind="jsonl", weights="other", resume=True)


@pytest.mark.parametrize(
    ("predictor", "options", "message"),
    [
        ("weighted.json", [], "Pass weights"),
        ("plain.json", ["--weights", "importance"], "without weights"),
        ("weighted.json", ["--weights", "importances"], "importances"),
        ("weighted.json", ["--weights", "bad"], r"weights[7] is -1.0"),
    ],
)
def test_what_is_wrong_is_said_in_one_line(call, folder, tmp_path, predictor, options, message):
    bad = np.where(np.arange(300) == 7, -1.0, 1.0)
    np.savez(tmp_path / "new.npz", logits=LOGITS[600:], importance=WEIGHTS[600:], bad=bad)
    done = call("predict", folder / predictor, tmp_path / "new.npz", "--out", tmp_path / "sets.csv", *options)
    done.assert_refused(message)
    assert not (tmp_path / "sets.csv").exists()


def test_exports_refuse(call, folder, tmp_path):
    model = ts.TwoTemperaturePredictor.load(folder / "weighted.json")
    with pytest.raises(InputError, match="batches have no weights"):
        Predictor(model)
    done = call("export", folder / "weighted.json", "--to", "onnx", "--out", tmp_path / "w.onnx")
    done.assert_refused("cannot be exported")
    with pytest.raises(InputError, match="conformal rows of this one have weights"):
        build_report(model, ts.Logits(LOGITS, LABELS))
