"""Work on a file that is larger than the budget of memory stays within it, and what decoding and results take."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import thermoset as ts
from helpers_io import PARTS
from parts import require

pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(not Path("/proc/self/clear_refs").exists(), reason="the kernel does not tell the peak"),
]

ROWS, CLASSES = 60_000, 1_000  # 240 MB of float32
BUDGET = 32 << 20
CONSTANT = {"predict": 64 << 20, "sweep": 64 << 20, "fit": 112 << 20}
"""Pieces that are read (8 MB), what is decoded at the time, and threads' buffers; the same for files of any size. For
`fit` also two million probabilities, on which other class shares are tried, and the draws behind the intervals."""

MEASURE = """
import json, sys, tempfile
from pathlib import Path
import numpy as np, thermoset as ts
from thermoset.predictor.many_files import predict_shards

task, path, budget = sys.argv[1], sys.argv[2], int(sys.argv[3])

def status(field):
    line = next(line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith(field))
    return 1024 * int(line.split()[1])

def run(where):
    if task == "predict":
        with tempfile.TemporaryDirectory() as out:
            predict_shards(predictor, where, Path(out) / "sets", kind="csv", memory=budget)
    elif task == "fit":
        ts.TwoTemperaturePredictor().fit(ts.open(where), memory=budget)
    else:
        ts.sweep(ts.open(where), temperatures=[0.7, 1.0, 1.5], methods=["aps"], trials=3, memory=budget)

rng = np.random.default_rng(0)
labels = rng.integers(0, 1000, 3000)
few = ts.Logits(rng.normal(size=(3000, 1000)).astype("f4") + 4 * np.eye(1000, dtype="f4")[labels], labels)
predictor = ts.TwoTemperaturePredictor().fit(few)
with tempfile.TemporaryDirectory() as folder:  # what is imported and compiled on the way does not count
    ts.save(f"{folder}/few{Path(path).suffix}", few)
    run(f"{folder}/few{Path(path).suffix}")
del few
Path("/proc/self/clear_refs").write_text("5")  # the peak is now
before = status("VmRSS")
run(path)
print(json.dumps(status("VmHWM") - before))
"""


@pytest.fixture(scope="module")
def large():
    rng = np.random.default_rng(0)
    labels = rng.integers(0, CLASSES, ROWS)
    logits = rng.standard_normal((ROWS, CLASSES), dtype=np.float32)
    logits[np.arange(ROWS), labels] += 4
    return ts.Logits(logits, labels)


@pytest.mark.parametrize("task", ["predict", "sweep", "fit"])
@pytest.mark.parametrize("suffix", [".npy", ".parquet"])
def test_the_peak_is_the_budget_and_a_constant(large, suffix, task, tmp_path):
    if suffix in PARTS:
        require(*PARTS[suffix])
    path = tmp_path / f"val_logits{suffix}"
    ts.save(path, large)
    assert path.stat().st_size > 1.5 * (BUDGET + CONSTANT[task])
    command = [sys.executable, "-c", MEASURE, task, str(path), str(BUDGET)]
    peak = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    assert peak < BUDGET + CONSTANT[task]
