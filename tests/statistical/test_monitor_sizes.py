"""Set sizes of conformal rows, under the threshold that these rows have set, as a reference for later rows."""

import math

import numpy as np
import pytest
from scipy.special import softmax

from thermoset.monitor.evidence import RankTest

pytestmark = pytest.mark.long


def sizes(n_conformal, n_fresh, rng):
    """Sizes of LAC sets of conformal rows and of fresh ones, at the threshold of the former."""
    n_rows, n_classes = n_conformal + n_fresh, 6
    labels = rng.integers(0, n_classes, n_rows)
    probs = softmax(1.5 * rng.normal(size=(n_rows, n_classes)) + 2.5 * np.eye(n_classes)[labels], axis=1)
    score = np.sort(1 - probs[np.arange(n_conformal), labels[:n_conformal]])
    found = np.count_nonzero(1 - probs <= score[math.ceil(0.9 * (n_conformal + 1)) - 1], axis=1)
    return found[:n_conformal], found[n_conformal:]


def test_the_threshold_of_the_reference_rows_costs_no_false_alarms():
    """Rows that set the threshold are not quite like later ones; the test keeps its level all the same."""
    rng, delta, streams, alarms = np.random.default_rng(0), 0.2, 400, 0
    for _ in range(streams):
        reference, fresh = sizes(60, 600, rng)
        test = RankTest.start(np.bincount(reference, minlength=7), share_of_delta=delta, run_length=None)
        alarms += test.after(fresh, rng.random(600)).process.alarm
    assert alarms <= streams * delta + 3 * math.sqrt(streams * delta * (1 - delta))
