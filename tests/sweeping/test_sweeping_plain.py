"""Class-conditional sets in a sweep: a fit and a prediction for each trial, as one would write it."""

import numpy as np
import pytest

from law import generated
from sweeping.composition import assert_equal_to_composition
from thermoset import RAPS, sweep
from thermoset.sweeping import Protocol

pytestmark = pytest.mark.filterwarnings("ignore::thermoset.errors.CoverageWarning")
METHODS = ("lac", "aps", RAPS(penalty=0.1, k_reg=1))


@pytest.mark.parametrize("kind", ["class", "cluster"])
@pytest.mark.parametrize(("randomized", "allow_empty"), [(True, True), (False, False)])
def test_equals_the_composition(kind, randomized, allow_empty):
    logits, labels = generated(400, 4, signal=0.2)
    protocol = Protocol(0.1, 0.5, 2, randomized)
    grid, alphas = [0.05, 1.0], [0.1, 0.3]
    result = sweep(
        logits, labels, grid, METHODS, alphas, 2, 0.1, 0.5, 2,
        grouping=kind, randomized=randomized, allow_empty=allow_empty,
    )  # fmt: skip
    assert_equal_to_composition(
        result, logits, labels, METHODS, grid, alphas, protocol, grouping=kind, allow_empty=allow_empty
    )
    assert result.settings["grouping"] == kind


def test_differs_from_one_threshold_for_all():
    logits, labels = generated(400, 4, signal=0.2)
    one, each = (
        sweep(logits, labels, [1.0], ["aps"], trials=3, cp_fraction=0.5, grouping=kind) for kind in (None, "class")
    )
    assert not np.any(one.of_trials("threshold", "aps") == each.of_trials("threshold", "aps"))


def test_no_class_with_enough_rows_gives_infinite_thresholds_and_full_sets():
    logits, labels = generated(60, 10)
    result = sweep(logits, labels, [1.0], ["aps"], trials=2, grouping="class")
    assert np.isposinf(result.curve("threshold", "aps")).all()
    assert result.curve("avg_size", "aps").tolist() == [10.0]


def test_threads_and_other_trials_change_no_bit():
    logits, labels = generated(200, 4)
    few, many = (
        sweep(logits, labels, [1.0], ["aps"], trials=n, grouping="class", n_jobs=jobs).trial_values
        for n, jobs in ((2, 1), (4, 3))
    )
    assert few.tobytes() == many[..., :2].tobytes()
