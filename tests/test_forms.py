"""One answer, whatever form the rows have: sweep, predictor, sets and check, bit for bit."""

import numpy as np
import pytest

import thermoset as ts
from forms import FORMS, stored
from law import generated
from parts import require
from thermoset.predictor.document import checksum_of
from thermoset.predictor.leakage import find_leakage

LOGITS, LABELS = generated(3000, 7, seed=21)
LOGITS = LOGITS.astype(np.float32)
ROWS = ts.Logits(LOGITS, LABELS, groups=[f"site {i % 11}" for i in range(len(LABELS))])
ASKED = ["sscv", "confidence_coverage_gap"]
SWEEP = {"temperatures": [0.7, 1.0, 2.0], "methods": ["aps", "raps"], "trials": 5, "metrics": ASKED}
NEEDED = {"parquet": "pyarrow", "arrow": "pyarrow", "safetensors": "safetensors", "zarr": "zarr", "h5": "h5py"}


@pytest.fixture(params=FORMS)
def rows(request, tmp_path):
    for kind, module in NEEDED.items():
        if kind in request.param or "kinds" in request.param:
            require(module, "io")
    return stored(request.param, ROWS, tmp_path)


@pytest.fixture(scope="module")
def predictor():
    return ts.TwoTemperaturePredictor().fit(ROWS)


@pytest.fixture(scope="module")
def other():
    """A predictor that these rows are new to."""
    return ts.TwoTemperaturePredictor(prefer="small").fit(*generated(600, 7, seed=22))


def test_one_answer(rows, predictor, other):
    assert rows == ROWS
    there, here = ts.sweep(rows, **SWEEP, memory="1MiB"), ts.sweep(ROWS, **SWEEP)
    assert there.trial_values.tobytes() == here.trial_values.tobytes()
    fitted = ts.TwoTemperaturePredictor().fit(rows, memory="1MiB")
    assert checksum_of(fitted.document_) == checksum_of(predictor.document_)
    assert fitted.predict_set(rows).tobytes() == predictor.predict_set(ROWS).tobytes()
    assert other.check(rows).to_json_dict() == other.check(ROWS).to_json_dict()
    assert find_leakage(predictor.document_, rows) == find_leakage(predictor.document_, ROWS)
    assert find_leakage(predictor.document_, rows.take(slice(5, 905))).total == 900


def test_the_order_of_shards_is_that_of_the_rows(tmp_path, predictor):
    """Shards in another order are other rows, with other splits; put back in order they are the same rows."""
    stored("7 npy", ROWS, tmp_path)
    files = sorted(
        path for path in tmp_path.glob("part-*.npy") if "labels" not in path.name and "groups" not in path.name
    )
    assert checksum_of(ts.TwoTemperaturePredictor().fit(ts.open(files)).document_) == checksum_of(predictor.document_)
    turned = ts.open(files[::-1])
    assert turned.take(np.arange(2999, 2609, -1)[::-1]).n_rows == 390
    assert np.array_equal(np.sort(turned.labels), np.sort(LABELS))


@pytest.mark.long
@pytest.mark.parametrize("form", ["7 npy", "7 parquet", "zarr"])
def test_a_cluster_reads_the_files_itself(form, tmp_path, predictor, monkeypatch):
    distributed, on_dask = require("distributed", "dask"), require("thermoset.integrations.dask", "dask")
    monkeypatch.setattr("thermoset.integrations.dask.engine._PIECE_BYTES", 2**13)
    rows = stored(form, ROWS, tmp_path)
    kind = {"processes": False, "n_workers": 2, "threads_per_worker": 2, "dashboard_address": ":0"}
    with distributed.LocalCluster(**kind) as cluster, distributed.Client(cluster) as client:
        there = on_dask.sweep(rows, client=client, **SWEEP)
        fitted = on_dask.fit(ts.TwoTemperaturePredictor(), rows, client=client)
    assert there.trial_values.tobytes() == ts.sweep(ROWS, **SWEEP).trial_values.tobytes()
    assert checksum_of(fitted.document_) == checksum_of(predictor.document_)
