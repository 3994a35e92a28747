"""A predictor in a server: forked after it was loaded, called by many threads, sent to other processes."""

import copy
import pickle
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from law import generated
from thermoset import Logits, TwoTemperaturePredictor

FORKED = """
import os, sys
import numpy as np
from thermoset import TwoTemperaturePredictor
predictor = TwoTemperaturePredictor.load(sys.argv[1])
rows = np.load(sys.argv[2])
before = predictor.predict_arrays(rows)  # several blocks of rows, so that threads have been at work
children = []
for number in range(3):
    child = os.fork()
    if child == 0:
        again = predictor.predict_arrays(rows)
        same = all(np.array_equal(one, other) for one, other in zip(before, again, strict=True))
        os._exit(0 if same and len(again.sets) == len(rows) else 1)
    children.append(child)
print([os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children])
"""


@pytest.fixture(scope="module")
def predictor():
    return TwoTemperaturePredictor(alpha=0.2).fit(Logits(*generated(800, 40, seed=1)))


@pytest.fixture(scope="module")
def rows():
    return generated(9000, 40, seed=2)[0].astype(np.float32)  # blocks hold 1,638 rows of 40 classes


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="Windows does not fork")
def test_children_forked_after_the_first_prediction_predict_the_same(predictor, rows, tmp_path, monkeypatch):
    monkeypatch.setenv("THERMOSET_NUM_THREADS", "3")
    predictor.save(tmp_path / "predictor.json")
    np.save(tmp_path / "rows.npy", rows)
    script = [sys.executable, "-W", "ignore::DeprecationWarning", "-c", FORKED]
    run = subprocess.run(
        [*script, tmp_path / "predictor.json", tmp_path / "rows.npy"],
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
    )
    assert run.stdout.strip() == "[0, 0, 0]"


def test_threads_of_a_server_get_the_same_answers(predictor, rows):
    whole = predictor.predict_arrays(rows)
    parts = np.array_split(np.arange(len(rows)), 40)
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda part: predictor.predict_arrays(rows[part]), parts))
    for place, together in enumerate(whole[:3]):
        np.testing.assert_array_equal(np.concatenate([one[place] for one in found]), together)


@pytest.mark.parametrize("sent", [copy.deepcopy, lambda one: pickle.loads(pickle.dumps(one))])  # noqa: S301
def test_a_predictor_sent_elsewhere_predicts_the_same(predictor, rows, sent):
    for mine, theirs in zip(
        predictor.predict_arrays(rows[:50]), sent(predictor).predict_arrays(rows[:50]), strict=True
    ):
        np.testing.assert_array_equal(mine, theirs)
