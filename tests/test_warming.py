"""Compiled ahead: later processes compile nothing, and a cache that cannot be written is an error."""

import os
import subprocess
import sys

import numpy as np
import pytest

from law import generated
from thermoset import InputError, Logits, TwoTemperaturePredictor
from thermoset.kernels import ENTRIES
from thermoset.warming import warmup

pytestmark = pytest.mark.long


def run(*arguments, folder):
    """A process of its own, with compiled code in `folder`."""
    return subprocess.run(
        [sys.executable, *map(str, arguments)],
        env={**os.environ, "NUMBA_CACHE_DIR": str(folder)},
        capture_output=True,
        text=True,
        check=False,
    )


def warmed(job, folder):
    """A warm-up in a process of its own: how many functions it compiled, and how many were there."""
    script = (
        f"import thermoset as ts; done = ts.warmup({job!r}); print(len(done.compiled), len(done.ready), done.folder)"
    )
    return run("-c", script, folder=folder)


PREDICT = """
import sys, numpy as np
from thermoset import TwoTemperaturePredictor
for path in sys.argv[1:]:
    predictor = TwoTemperaturePredictor.load(path)
    for dtype in (np.float16, np.float32, np.float64):
        rows = np.arange(7 * predictor.n_features_in_).reshape(7, -1).astype(dtype) % 5
        predictor.predict_arrays(rows), predictor.predict_set(rows), predictor.predict_set(rows, ids=range(7))
        predictor.predict_proba(rows), predictor.predict_records(rows), predictor.set_sizes(rows)
        if predictor.document_.scores is not None:
            predictor.predict_p(rows), predictor.predict_p(rows, smoothed=True, ids=range(7))
"""


@pytest.mark.filterwarnings("ignore::thermoset.BudgetWarning")
def test_after_a_warmup_a_new_process_compiles_nothing(tmp_path):
    rows = Logits(*generated(600, 6, seed=3))
    asked = {
        "one": {},
        "class": {"method": "aps", "grouping": "class", "prefer": "small"},
        "plain": {"method": "margin", "prefer": "small", "allow_empty": False},
        "lac": {"method": "lac", "prefer": "small"},
        "fixed": {"method": "saps", "randomized": False, "prefer": "small"},
    }
    for name, parameters in asked.items():
        TwoTemperaturePredictor(alpha=0.2, **parameters).fit(rows).save(tmp_path / f"{name}.json")
    done = warmed("predict", tmp_path / "cache")
    assert done.returncode == 0, done.stderr
    (folder,) = (tmp_path / "cache").iterdir()
    kept = sorted(folder.iterdir())
    ready = len(list(folder.glob("*.nbc")))
    assert done.stdout == f"{ready} {ready} {folder}\n"
    files = [tmp_path / f"{name}.json" for name in asked]
    predicted = run("-c", PREDICT, *files, folder=tmp_path / "cache")
    assert (predicted.returncode, predicted.stderr) == (0, "")
    assert sorted(folder.iterdir()) == kept
    again = warmed("predict", tmp_path / "cache")
    assert again.stdout == f"0 {ready} {folder}\n"
    assert sorted(folder.iterdir()) == kept


# An entry point is compiled for one combination of types, and a warm-up calls it with that.
JOBS = """
import warnings, numpy as np, thermoset as ts
from thermoset.kernels import ENTRIES
warnings.simplefilter("ignore")
ts.warmup()
labels = np.arange(600) % 5
noise = np.random.default_rng(1).normal(size=(600, 5))
for dtype in (np.float32, np.float64):
    rows = ts.Logits((noise + 2 * np.eye(5)[labels]).astype(dtype), labels)
    ts.ConformalClassifier(alpha=0.2).fit(rows).predict_sets(rows, [0.05, 0.2])
    ts.ConformalClassifier(alpha=0.2, grouping="class").fit(rows).predict_sets(rows, [0.05, 0.2])
for more in ({}, {"method": "auto"}, {"grouping": "cluster", "prefer": "small"}):
    predictor = ts.TwoTemperaturePredictor(alpha=0.2, **more).fit(rows)
    new, later = (ts.Logits(rows.logits * scale, labels) for scale in (1.5, 2.5))
    predictor.recalibrate(new).check(later), predictor.predict_arrays(rows.logits, ids=range(600))
for more in ({}, {"methods": ["margin"]}, {"evaluation": "integrated"}, {"grouping": "class"}):
    ts.sweep(rows, temperatures=[1, 2], alphas=[0.1, 0.2], trials=3, cp_fraction=0.4, **more)
ts.theory.explain(rows)
for dtype in (np.float16, np.float32, np.float64):
    cut = ts.compact(ts.Logits(np.tile(rows.logits, 2).astype(dtype), labels), 5)
    fitted = ts.TwoTemperaturePredictor(alpha=0.2).fit(cut)
    fitted.predict_arrays(cut), fitted.set_sizes(cut), fitted._inference.undecided(cut, ids=range(600))
print(*(name for name, entry in ENTRIES.items() if len(entry.compiled.signatures) != 1), sep="\\n")
"""


def test_jobs_need_nothing_that_a_warmup_has_not_prepared():
    done = run("-c", JOBS, folder=os.environ["NUMBA_CACHE_DIR"])
    assert (done.returncode, done.stdout.strip()) == (0, ""), done.stderr


def test_a_warmup_prepares_every_entry_point():
    """In a process of its own: other tests of this one may have called what a warm-up leaves out."""
    script = "from thermoset import kernels, warmup; print(*set(kernels.ENTRIES) - set(warmup().ready))"
    done = run("-c", script, folder=os.environ["NUMBA_CACHE_DIR"])
    assert (done.returncode, done.stdout.strip()) == (0, ""), done.stderr


def test_a_warmup_reports_what_it_did():
    steps = []
    done = warmup("predict", progress=steps.append)
    assert steps == ["predict"]
    assert done.n_bytes == sum(path.stat().st_size for path in done.folder.iterdir())
    assert set(done.compiled) <= set(done.ready) <= set(ENTRIES)


# Numba tries to write a temporary file into a folder before it uses it.
READ_ONLY = """
import tempfile
def refuse(**_): raise OSError("read-only")
tempfile.TemporaryFile = refuse
import thermoset as ts
ts.warmup(progress=print)
"""


def test_an_unwritable_cache_is_refused_before_the_work(tmp_path):
    done = run("-c", READ_ONLY, folder=tmp_path)
    assert (done.returncode, done.stdout) == (1, "")
    assert "InputError: compiled code cannot be cached" in done.stderr


FULL = (
    "import resource, signal; signal.signal(signal.SIGXFSZ, signal.SIG_IGN);"
    "resource.setrlimit(resource.RLIMIT_FSIZE, (512, 512));"
    "import thermoset.warming as w; w._STEPS['predict'] = lambda: w.probabilities([[0.0, 1.0]]); w.warmup('predict')"
)


def test_a_full_disk_is_an_error_of_a_warmup(tmp_path):
    done = run("-c", FULL, folder=tmp_path)
    assert done.returncode == 1
    assert f"InputError: compiled code cannot be cached in {tmp_path}" in done.stderr


def test_an_unknown_job_is_named():
    with pytest.raises(InputError, match="job"):
        warmup("tune")


def test_rows_of_a_warmup_leave_no_trace():
    state = np.random.get_state()[1].tolist()  # noqa: NPY002 (the one that a user may have seeded)
    warmup("predict")
    assert np.random.get_state()[1].tolist() == state  # noqa: NPY002
