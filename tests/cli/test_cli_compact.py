"""The commands on files of rows that hold only their largest logits."""

import json

import numpy as np
import pytest

import thermoset as ts
from law import generated

pytestmark = pytest.mark.slow


def test_tune_predict_and_check_rows_of_largest_logits(call, tmp_path):
    logits, labels = generated(1500, 60, signal=1.0)
    rows = ts.Logits((logits / 3).astype(np.float32), labels)
    fresh = ts.compact(rows.take(slice(1000, None)), 16)
    ts.save(tmp_path / "val.npz", ts.compact(rows.take(slice(0, 1000)), 16))
    ts.save(tmp_path / "fresh.npz", fresh)
    done = call("tune", tmp_path / "val.npz", "--out", tmp_path / "out", "--no-report")
    assert done.returncode == 0, done.stderr
    assert "have labels that the bounds could not exclude; these were included." in done.words
    assert "coverage at least 0.9" in done.words
    predictor = ts.TwoTemperaturePredictor.load(tmp_path / "out" / "predictor.json")

    done = call(
        "predict", tmp_path / "out" / "predictor.json", tmp_path / "fresh.npz", "--out", tmp_path / "sets.jsonl"
    )
    assert done.returncode == 0, done.stderr
    undecided = int(predictor._inference.undecided(fresh).sum())
    assert (f"Of 500 rows, {undecided} (" in done.words) == (undecided > 0)
    sizes = [json.loads(line)["size"] for line in (tmp_path / "sets.jsonl").read_text().splitlines()]
    assert sizes == predictor.set_sizes(fresh).tolist()

    done = call("check", tmp_path / "out" / "predictor.json", tmp_path / "fresh.npz")
    assert done.returncode == 0, done.stdout
    assert f"Of 500 rows, {undecided} (" in done.words
    done = call("check", tmp_path / "out" / "predictor.json", tmp_path / "fresh.npz", "--json")
    assert json.loads(done.stdout)["undecided_rows"] == undecided
