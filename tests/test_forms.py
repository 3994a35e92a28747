"""One answer, whatever form the rows have: sweep, predictor, sets and check, bit for bit."""

from functools import cache

import numpy as np
import pytest

import thermoset as ts
from forms import FORMS, stored
from law import generated
from parts import require
from thermoset.data.stored import StoredLogits
from thermoset.predictor.document import checksum_of
from thermoset.predictor.leakage import find_leakage

LOGITS, LABELS = generated(3000, 7, seed=21)
LOGITS = LOGITS.astype(np.float32)
ROWS = ts.Logits(LOGITS, LABELS, groups=[f"site {i % 11}" for i in range(len(LABELS))])
ASKED = ["sscv", "confidence_coverage_gap"]
SWEEP = {"temperatures": [0.7, 1.0, 2.0], "methods": ["aps", "raps"], "trials": 5, "metrics": ASKED}
WIDE = ts.Logits(LOGITS.astype(np.float64), LABELS, groups=ROWS.groups)  # as files of text are read


@pytest.fixture(params=FORMS)
def form(request):
    return request.param


@pytest.fixture(scope="module")
def fitted():
    """The document of a predictor by the type of the rows in memory that it was fitted on."""
    return cache(lambda dtype: ts.TwoTemperaturePredictor().fit(in_memory(dtype)))


def in_memory(dtype):
    return ROWS if dtype == np.float32 else WIDE


@pytest.fixture(scope="module")
def other():
    """A predictor that these rows are new to."""
    return ts.TwoTemperaturePredictor(prefer="small").fit(*generated(600, 7, seed=22))


def test_one_answer(form, tmp_path, fitted, other, monkeypatch):
    monkeypatch.setattr(StoredLogits, "within_budget", lambda rows: rows)  # these few would be read into memory
    rows = stored(form, ROWS, tmp_path)
    known, predictor = in_memory(rows.dtype), fitted(rows.dtype)
    assert rows == known
    there, here = ts.sweep(rows, **SWEEP, memory="1MiB"), ts.sweep(known, **SWEEP)
    assert there.trial_values.tobytes() == here.trial_values.tobytes()
    again = ts.TwoTemperaturePredictor().fit(rows, memory="1MiB")
    assert checksum_of(again.document_) == checksum_of(predictor.document_)
    assert again.predict_set(rows).tobytes() == predictor.predict_set(known).tobytes()
    assert other.check(rows).to_json_dict() == other.check(known).to_json_dict()
    assert find_leakage(predictor.document_, rows) == find_leakage(predictor.document_, known)
    assert find_leakage(predictor.document_, rows.take(slice(5, 905))).total == 900


def test_the_order_of_shards_is_that_of_the_rows(tmp_path, fitted):
    """Shards in another order are other rows, with other splits; put back in order they are the same rows."""
    stored("7 npy", ROWS, tmp_path)
    files = sorted(
        path for path in tmp_path.glob("part-*.npy") if "labels" not in path.name and "groups" not in path.name
    )
    assert checksum_of(ts.TwoTemperaturePredictor().fit(ts.open(files)).document_) == checksum_of(
        fitted(ROWS.dtype).document_
    )
    turned = ts.open(files[::-1])
    assert turned.take(np.arange(2999, 2609, -1)[::-1]).n_rows == 390
    assert np.array_equal(np.sort(turned.labels), np.sort(LABELS))


@pytest.mark.long
def test_a_cluster_reads_the_files_itself(form, tmp_path, fitted, monkeypatch):
    distributed, on_dask = require("distributed", "dask"), require("thermoset.integrations.dask", "dask")
    monkeypatch.setattr("thermoset.integrations.dask._PIECE_BYTES", 2**13)
    rows = stored(form, ROWS, tmp_path)
    kind = {"processes": False, "n_workers": 2, "threads_per_worker": 2, "dashboard_address": ":0"}
    with distributed.LocalCluster(**kind) as cluster, distributed.Client(cluster) as client:
        there = ts.sweep(on_dask.on_cluster(rows, client=client), **SWEEP)
        again = ts.TwoTemperaturePredictor().fit(on_dask.on_cluster(rows, client=client))
    assert there.trial_values.tobytes() == ts.sweep(in_memory(rows.dtype), **SWEEP).trial_values.tobytes()
    assert checksum_of(again.document_) == checksum_of(fitted(rows.dtype).document_)
